"""The guard that blocks external network access in tests."""

from __future__ import annotations

import socket

import pytest

from cofio.providers.llms import make


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "api.openai.com"])
def test_connection_to_another_host_fails_the_test(host: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="another machine"):
        socket.create_connection((host, 443), timeout=1)


def test_guard_is_not_hidden_by_error_handling() -> None:
    llm = make("openai", key="sk-none")
    assert llm is not None
    with pytest.raises(pytest.fail.Exception, match=r"api\.openai\.com"):
        llm.health_check()


def test_loopback_connections_are_allowed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        assert here.getpeername() == server.getsockname()
