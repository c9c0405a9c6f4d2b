"""Connection handling of the HTTP client: keep-alive, keys, unavailable and foreign services."""

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
from tests.cli.conftest import running_service


@pytest.fixture
def url(new_keeper: Callable[[str], Keeper]) -> Iterator[str]:
    with running_service(new_keeper("served"), Settings.load({"port": 0}, environ={})) as url:
        yield url


class FakeService(BaseHTTPRequestHandler):
    """HTTP server that counts connections and can drop them."""

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
        if "/memory/500" in self.path:  # closes the connection without a response
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
def fake_service(**attributes: object) -> Iterator[tuple[str, type[FakeService]]]:
    kind = type("Odder", (FakeService,), {"connections": [], "requests": [], **attributes})
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


def test_refused_connection_raises_error_with_hint() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(Unavailable) as error_info:
        client.health()
    assert "No service listens" in error_info.value.message
    assert "cofio up" in error_info.value.hint


def test_response_timeout_raises_unavailable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, timeout=0.2) as client, pytest.raises(Unavailable, match=r"within 0\.2 s"):
            client.health()


@pytest.mark.parametrize(
    ("status", "content"), [(200, b"<html>"), (404, b"not here"), (500, b'{"detail": "x"}'), (200, b"[]")]
)
def test_foreign_service_is_detected(status: int, content: bytes) -> None:
    with fake_service(status=status, content=content) as (url, _), Client(url) as client:
        for ask in (client.health, client.changes):
            with pytest.raises(Unavailable, match="is not a cofio service"):
                ask()


@pytest.mark.parametrize("url", ["", "localhost:8900", "ftp://x", "http://", "http://x:port", "http://x:99999"])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(Misconfigured, match="not a valid service URL"):
        Client(url)


def test_connection_is_reused() -> None:
    with fake_service() as (url, kind), Client(url) as client:
        for _ in range(3):
            client.health()
    assert len(kind.connections) == 1


def test_closed_connection_is_replaced_transparently() -> None:
    with fake_service(dies_after_answering=True) as (url, kind), Client(url) as client:
        for _ in range(3):
            client.health()
    assert len(kind.connections) == 3


def test_response_of_unexpected_shape_is_rejected() -> None:
    with (
        fake_service() as (url, _),
        Client(url) as client,
        pytest.raises(Unavailable, match="is not a cofio service"),
    ):
        client.changes()


def test_get_is_retried_after_connection_loss_and_delete_is_not() -> None:
    with fake_service() as (url, kind), Client(url) as client:
        for ask in (client.get, client.delete):
            client.health()
            with pytest.raises(Unavailable, match="cannot be reached"):
                ask(500)
    assert kind.requests == ["GET /health", "GET /memory/500", "GET /memory/500", "GET /health", "DELETE /memory/500"]


def test_service_url_may_have_a_path() -> None:
    with fake_service() as (url, kind), Client(f"{url}/below/") as client:
        client.health()
    assert kind.requests == ["GET /below/health"]


def test_client_is_shared_by_threads(url: str) -> None:
    with Client(url) as client:
        result: list[int] = []

        def work(number: int) -> None:
            for index in range(10):
                change = client.add(f"thread {number} says {index}", dedup=False)
                result.append(client.get(change.memory_id).id)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(result) == list(range(1, 81))


def test_missing_and_wrong_key_raise_different_errors(new_keeper: Callable[[str], Keeper]) -> None:
    settings = Settings.load({"port": 0, "api_key": "right"}, environ={})
    with running_service(new_keeper("served"), settings) as url:
        with Client(url, "right") as client:
            assert client.health()["auth"] == "ok"
            assert client.stats()["memories"] == 0
        with Client(url, "wrong") as client, pytest.raises(WrongKey):
            client.health()
        with Client(url) as client:
            assert client.health()["auth"] == "missing"
            with pytest.raises(MissingKey):
                client.stats()


def test_invalid_header_value_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        Client(url, "schlüssel")
    with Client(url) as client, pytest.raises(InvalidInput, match="by"):
        client.add("x", by="a\r\nX-Evil: 1")


def test_filter_that_cannot_be_encoded_is_rejected(url: str) -> None:
    with Client(url) as client:
        for scope in ({"source": ""}, {"tags": ("a,b",)}):
            with pytest.raises(InvalidInput, match="cannot be filtered"):
                client.list(**scope)
        with pytest.raises(InvalidInput, match="source_prefix only"):
            client.merge_duplicates(kind="preference")


def test_importing_the_client_loads_only_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import cofio.client\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'cofio'}))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
