"""What the client does about the wire: connections, keys, and services that are not there or are not ours."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import InvalidInput, Misconfigured, MissingKey, Unavailable, WrongKey
from cofio.settings import Settings
from tests.cli.conftest import served


@pytest.fixture
def url(new_keeper: Callable[[str], Keeper]) -> Iterator[str]:
    with served(new_keeper("served"), Settings.load({"port": 0}, environ={})) as url:
        yield url


class Odd(BaseHTTPRequestHandler):
    """A service with oddities: it counts connections, and lets some go."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[list[int]] = []
    requests: ClassVar[list[str]] = []
    content = b'{"status": "healthy"}'
    status = 200
    dies_after_answering = False

    def setup(self) -> None:
        super().setup()
        self.connections.append(1)

    def do_GET(self) -> None:
        self.requests.append(f"{self.command} {self.path.partition('?')[0]}")
        if "/memory/500" in self.path:  # one that goes just when it is asked again
            self.close_connection = True
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)
        self.close_connection = self.dies_after_answering

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def odd(**how: object) -> Iterator[tuple[str, type[Odd]]]:
    kind = type("Odder", (Odd,), {"connections": [], "requests": [], **how})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", kind
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_nobody_listening_is_told_with_what_to_do() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(Unavailable) as caught:
        client.health()
    assert "No service listens" in caught.value.message
    assert "cofio up" in caught.value.hint


def test_a_service_that_does_not_answer_in_time_is_told() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, timeout=0.2) as client, pytest.raises(Unavailable, match=r"within 0\.2 s"):
            client.health()


@pytest.mark.parametrize(
    ("status", "content"), [(200, b"<html>"), (404, b"not here"), (500, b'{"detail": "x"}'), (200, b"[]")]
)
def test_something_else_on_the_port_is_not_taken_for_cofio(status: int, content: bytes) -> None:
    with odd(status=status, content=content) as (url, _), Client(url) as client:
        for ask in (client.health, client.changes):
            with pytest.raises(Unavailable, match="is not a cofio service"):
                ask()


@pytest.mark.parametrize("url", ["", "localhost:8900", "ftp://x", "http://", "http://x:port", "http://x:99999"])
def test_a_url_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(Misconfigured, match="not a valid service URL"):
        Client(url)


def test_a_connection_is_used_again() -> None:
    with odd() as (url, kind), Client(url) as client:
        for _ in range(3):
            client.health()
    assert len(kind.connections) == 1


def test_a_connection_that_the_service_has_let_go_is_replaced_unseen() -> None:
    with odd(dies_after_answering=True) as (url, kind), Client(url) as client:
        for _ in range(3):
            client.health()
    assert len(kind.connections) == 3


def test_what_answers_but_tells_something_else_is_not_taken_for_cofio() -> None:
    with odd() as (url, _), Client(url) as client, pytest.raises(Unavailable, match="is not a cofio service"):
        client.changes()


def test_a_get_on_a_connection_that_dies_is_asked_once_more_and_a_change_is_not() -> None:
    with odd() as (url, kind), Client(url) as client:
        for ask in (client.get, client.delete):
            client.health()
            with pytest.raises(Unavailable, match="cannot be reached"):
                ask(500)
    assert kind.requests == ["GET /health", "GET /memory/500", "GET /memory/500", "GET /health", "DELETE /memory/500"]


def test_a_service_may_lie_below_a_path() -> None:
    with odd() as (url, kind), Client(f"{url}/below/") as client:
        client.health()
    assert kind.requests == ["GET /below/health"]


def test_many_threads_share_a_client(url: str) -> None:
    with Client(url) as client:
        done: list[int] = []

        def work(number: int) -> None:
            for place in range(10):
                change = client.add(f"thread {number} says {place}", dedup=False)
                done.append(client.get(change.memory_id).id)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == list(range(1, 81))


def test_the_key_is_sent_and_a_wrong_one_told_from_none(new_keeper: Callable[[str], Keeper]) -> None:
    settings = Settings.load({"port": 0, "api_key": "right"}, environ={})
    with served(new_keeper("served"), settings) as url:
        with Client(url, "right") as client:
            assert client.health()["auth"] == "ok"
            assert client.stats()["memories"] == 0
        with Client(url, "wrong") as client, pytest.raises(WrongKey):
            client.health()
        with Client(url) as client:
            assert client.health()["auth"] == "missing"
            with pytest.raises(MissingKey):
                client.stats()


def test_what_cannot_be_a_header_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        Client(url, "schlüssel")
    with Client(url) as client, pytest.raises(InvalidInput, match="by"):
        client.add("x", by="a\r\nX-Evil: 1")


def test_what_a_query_string_cannot_say_is_refused_and_not_widened(url: str) -> None:
    with Client(url) as client:
        for scope in ({"source": ""}, {"tags": ("a,b",)}):
            with pytest.raises(InvalidInput, match="cannot be filtered"):
                client.list(**scope)
        with pytest.raises(InvalidInput, match="source_prefix only"):
            client.merge_duplicates(kind="preference")


def test_importing_the_client_loads_the_standard_library_only() -> None:
    program = (
        "import sys; before = set(sys.modules); import cofio.client\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'cofio'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
