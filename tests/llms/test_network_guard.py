"""Nothing that a test does leaves this machine."""

from __future__ import annotations

import socket

import pytest

from cofio.providers.llms import make


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "api.openai.com"])
def test_a_call_to_another_machine_fails_the_test(host: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="another machine"):
        socket.create_connection((host, 443), timeout=1)


def test_code_that_forgives_a_bad_network_does_not_hide_it() -> None:
    llm = make("openai", key="sk-none")
    assert llm is not None
    with pytest.raises(pytest.fail.Exception, match=r"api\.openai\.com"):
        llm.health_check()


def test_this_machine_may_be_called() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        assert here.getpeername() == server.getsockname()
