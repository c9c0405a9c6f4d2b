"""Limits of headers, time and connections, over real sockets."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cofio.core import Keeper
from cofio.server.http.connections import ConnectionLimits, ConnectionPool, LimitedProtocol
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

NEVER = 3_600.0
PATIENT = ConnectionLimits(header_seconds=NEVER, idle_seconds=NEVER, write_seconds=NEVER, linger_seconds=NEVER)
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"

CHUNKED = (
    b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
)


@contextmanager
def limited(**limits: float) -> Iterator[Caller]:
    """Run a service whose time limits never pass, unless they are given."""
    clock = FixedClock()
    values = {name: getattr(PATIENT, name) for name in ConnectionLimits.__slots__}
    keeper = Keeper(MemoryStore(clock), HashEmbedder(), clock)
    with keeper, serving(keeper, limits=ConnectionLimits(**{**values, **limits})) as url:
        yield Caller(url)


@pytest.fixture(scope="module")
def patient_service() -> Iterator[Caller]:
    with limited() as service:
        yield service


def connect(service: Caller, content: bytes = b"") -> socket.socket:
    connection = socket.create_connection((service.host, service.port), timeout=60)
    connection.sendall(content)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Return whether the service closes the connection without a reply, within a minute."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def is_refused(service: Caller, status: int, parts: Iterator[bytes]) -> bool:
    """Return whether the service refuses what it is sent, with this status or by closing the connection."""
    with connect(service) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except ConnectionError:
            return True
        try:
            return connection.recv(65_536).startswith(b"HTTP/1.1 %d " % status)
        except ConnectionError:
            return True


# ── headers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (REQUEST + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (REQUEST + b"".join(b"X-Name-%d: x\r\n" % number for number in range(200)) + b"\r\n", 431),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"NONSENSE\r\n\r\n", 400),
    ],
)
def test_oversized_or_invalid_headers_are_refused_with_a_hint(
    patient_service: Caller, content: bytes, status: int
) -> None:
    response = patient_service.raw(content)
    assert (response.status, response.headers["connection"]) == (status, "close")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.error["hint"]


def test_headers_within_the_limits_are_accepted(patient_service: Caller) -> None:
    many = b"".join(b"X-Name-%d: %s\r\n" % (number, b"x" * 600) for number in range(90))
    assert patient_service.raw(REQUEST + many + b"Connection: close\r\n\r\n").status == 200


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (REQUEST + b"X-Endless: ", 431),
        (b"GET /", 414),
        (b"", 431),
        (CHUNKED + b"\r\n2\r\n{}\r\n0\r\nX-Trailer: ", 431),
    ],
)
def test_endless_headers_are_refused_while_health_responds(patient_service: Caller, start: bytes, status: int) -> None:
    filler = b"\r\n" * 32_768 if not start else b"x" * 65_536

    def parts() -> Iterator[bytes]:
        yield start
        for _ in range(1_000):
            yield filler

    with ThreadPoolExecutor(1) as threads:
        attack = threads.submit(is_refused, patient_service, status, parts())
        assert patient_service.get("/health").status == 200
        assert attack.result(120)


def test_large_chunked_body_in_small_chunks_is_accepted(patient_service: Caller) -> None:
    """Bytes between the parts of a body count from the last part."""
    text = json.dumps({"query": "x" * 30_000}).encode()
    chunks = b"".join(b"1;extension=%s\r\n%c\r\n" % (b"y" * 20, character) for character in text)
    assert patient_service.raw(CHUNKED + b"Connection: close\r\n\r\n" + chunks + b"0\r\n\r\n").status == 200


def test_pipelined_requests_are_answered_in_order_up_to_a_limit(patient_service: Caller) -> None:
    with connect(patient_service, 3 * (REQUEST + b"\r\n") + REQUEST + b"Connection: close\r\n\r\n") as connection:
        assert b"".join(iter(lambda: connection.recv(65_536), b"")).count(b"HTTP/1.1 200") == 4
    slow = (
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
        + b'{"query":"x"}'
    )
    assert is_refused(patient_service, 400, iter([slow * 100]))


def test_kept_connection_counts_the_headers_of_each_request(patient_service: Caller) -> None:
    connection = HTTPConnection(patient_service.host, patient_service.port, timeout=60)
    for _ in range(5):
        assert patient_service.send("GET", "/health", None, {"X-Long": "x" * 30_000}, connection).status == 200
    connection.close()


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def repeat_until_closed(connection: socket.socket, part: bytes, pause: float = 0.0) -> None:
    """Send a part again and again, until the service closes the connection."""
    late = time.monotonic() + 60
    try:
        while time.monotonic() < late:
            connection.sendall(part)
            time.sleep(pause)
    except ConnectionError:
        return
    pytest.fail("the connection is still open")


def drip(connection: socket.socket) -> None:
    """Send a request byte by byte, each long before the time limit."""
    connection.sendall(REQUEST)
    repeat_until_closed(connection, b"X", pause=0.02)


def test_silent_and_dripping_connections_are_closed() -> None:
    with limited(header_seconds=0.3) as service, connect(service) as silent, connect(service) as dripping:
        drip(dripping)
        assert is_closed(silent)
        assert service.get("/health").status == 200


def test_kept_connection_is_closed_if_the_next_request_does_not_arrive() -> None:
    with limited(idle_seconds=0.3) as service, ExitStack() as stack:
        kept = [stack.enter_context(connect(service, REQUEST + b"\r\n")) for _ in range(2)]
        assert all(connection.recv(65_536).startswith(b"HTTP/1.1 200") for connection in kept)
        drip(kept[0])
        assert is_closed(kept[1])


def test_time_limit_of_headers_does_not_end_a_request_in_progress() -> None:
    with limited(header_seconds=0.2) as service, connect(service) as connection:
        body = json.dumps({"query": "x"}).encode()
        head = (
            b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)
        )
        connection.sendall(head + body[:1])
        time.sleep(0.6)
        connection.sendall(body[1:])
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_client_that_reads_no_reply_is_disconnected() -> None:
    with limited(write_seconds=0.3, pipelined=1_000_000) as service, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(60)
        connection.connect((service.host, service.port))
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        repeat_until_closed(connection, request)  # the replies fill every buffer, and then the requests do
        assert service.get("/health").status == 200


# ── number ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_waiting_connections_make_room_for_others_longest_first() -> None:
    with limited(connections=8) as service, ExitStack() as stack:  # of which 6 for one address
        waiting = [stack.enter_context(connect(service, REQUEST)) for _ in range(20)]
        for _ in range(3):
            assert service.get("/health").status == 200
        assert all(is_closed(connection) for connection in waiting[:14])


def test_one_address_leaves_room_for_others() -> None:
    with limited(connections=8) as service, ExitStack() as stack:
        other = Caller(service.url, source="127.0.0.2")
        streams = [
            stack.enter_context(connect(service, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")) for _ in range(6)
        ]
        assert all(stream.recv(65_536).startswith(b"HTTP/1.1 200") for stream in streams)
        assert service.raw(b"").status == 503
        assert other.get("/health").status == 200
        streams.pop().close()
        deadline = time.monotonic() + 60
        while service.raw(REQUEST + b"\r\n").status != 200:
            assert time.monotonic() < deadline


def test_connections_take_at_most_half_of_the_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((200, 100), (1_024, 512), (1_000_000, 1_000), (resource.RLIM_INFINITY, 1_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _name, soft=soft: (soft, soft))
        assert (ConnectionLimits().connections, ConnectionLimits().backlog) == (most, most // 2)


# ── Unix sockets ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def answer_ok(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await PlainTextResponse("ok")(scope, _receive, send)


@contextmanager
def limited_socket(path: Path, limits: ConnectionLimits) -> Iterator[Callable[[bytes], socket.socket]]:
    """Serve on a Unix socket; yield a function that connects and sends."""
    protocol: Any = partial(LimitedProtocol, ConnectionPool(limits))
    server = uvicorn.Server(
        uvicorn.Config(answer_ok, uds=str(path), http=protocol, ws="none", lifespan="off", log_config=None)
    )
    thread = threading.Thread(target=server.run)
    thread.start()

    def connect_to_path(content: bytes) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(content)
        return connection

    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield connect_to_path
    finally:
        server.should_exit = True
        thread.join(60)


def test_limits_apply_to_unix_sockets(tmp_path: Path) -> None:
    limits = replace(PATIENT, header_seconds=0.3, connections=16)
    with limited_socket(tmp_path / "socket", limits) as connect_to_path:
        with connect_to_path(REQUEST + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n") as connection:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 431 ")
        with ExitStack() as stack:
            silent = [stack.enter_context(connect_to_path(b"")) for _ in range(20)]
            with connect_to_path(REQUEST + b"\r\n") as connection:
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
            assert all(is_closed(connection) for connection in silent)
