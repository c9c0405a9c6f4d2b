"""The HTTP server process: concurrency, failures, start-up and shutdown."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from cofio.core import Keeper
from cofio.errors import Misconfigured, StoreBusy, StoreError, Unavailable
from cofio.models.llm_calls import Limits
from cofio.ports import Matrix
from cofio.providers.llms import CircuitBreaker, MeteredLLM
from cofio.server.http import server as serving_module
from cofio.server.http.app import WORKERS
from cofio.server.http.server import HttpServer
from cofio.settings import Settings
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve, serving
from tests.llms.agents import CLAUDE, Program, ProgramOutput
from tests.llms.test_agent_cli import is_alive, wait_until


class GatedEmbedder(HashEmbedder):
    """Embedder that blocks queries, and optionally documents, until the gate is opened."""

    documents = False

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.waiting = threading.Semaphore(0)

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if kind == "query" or self.documents:
            self.waiting.release()
            assert self.gate.wait(60)
        return super().embed(texts, kind)


class FailingEmbedder(HashEmbedder):
    """Embedder that raises the configured error."""

    error: Exception | None = None

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if self.error:
            raise self.error
        return super().embed(texts, kind)


def test_pending_llm_agent_call_does_not_delay_shutdown(tmp_path: Path) -> None:
    program = Program(CLAUDE, tmp_path / "bin")
    program.says(ProgramOutput(hang=True))
    marker = program.folder / "started.json"
    clock = FixedClock()
    store = MemoryStore(clock)
    llm = CircuitBreaker(MeteredLLM(program.make(timeout=600.0), store.llm_calls, Limits(), None))
    with ThreadPoolExecutor(1) as threads, Keeper(store, HashEmbedder(), clock, llm=llm) as keeper:
        with serving(keeper) as url:  # `serving` fails if the server is still running after 30 seconds
            request = threads.submit(Caller(url).post, "/memory/extract", {"messages": "User: use drizzle"})
            wait_until(lambda: marker.exists() and marker.read_text("utf-8").endswith("}"))
        for pid in json.loads(marker.read_text("utf-8"))["pids"]:
            wait_until(lambda pid=pid: not is_alive(pid))
        assert store.llm_calls.get(1).outcome == "interrupted"  # the call was recorded before the store closed
        request.exception(timeout=30.0)


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_eight_threads_add_and_search_without_losses(service: Caller) -> None:
    def work(thread: int) -> list[int]:
        statuses = []
        for index in range(15):
            text = f"Service {thread}x{index} listens on port {10_000 + 100 * thread + index}."
            statuses.append(service.post("/memory/add", {"text": text}).status)
            statuses.append(service.post("/search", {"query": text, "k": 3}).status)
        return statuses

    with ThreadPoolExecutor(8) as threads:
        responses = [status for item in threads.map(work, range(8)) for status in item]
    assert set(responses) == {200, 201}
    assert responses.count(201) == 8 * 15
    assert service.get("/health").json["memories"] == 8 * 15
    assert service.get("/memories", limit=1000).json["total"] == 8 * 15
    assert service.get("/stats").json["changesets"] == 8 * 15


def test_duplicate_adds_from_eight_threads_create_one_memory(service: Caller) -> None:
    with ThreadPoolExecutor(8) as threads:
        futures = [threads.submit(service.post, "/memory/add", {"text": "We deploy on Fridays."}) for _ in range(24)]
        actions = [future.result().json["action"] for future in futures]
    assert sorted(set(actions)) == ["add", "noop"]
    assert actions.count("add") == 1
    assert service.get("/memories").json["memories"][0]["occurrences"] == 24


def test_health_responds_while_all_workers_are_busy(serve: Serve) -> None:
    embedder = GatedEmbedder()
    service = serve(embedder)
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    embedder.documents = True
    with ThreadPoolExecutor(WORKERS + 8) as threads:
        try:
            sent = [threads.submit(service.post, "/memory/is-novel", {"text": "deploy"}) for _ in range(WORKERS + 8)]
            for _ in range(WORKERS):
                assert embedder.waiting.acquire(timeout=60)
            assert not any(item.done() for item in sent)
            for _ in range(5):
                assert service.get("/health").json["memories"] == 1
            assert service.get("/metrics").status == 200
            assert service.get("/docs").status == 200
            assert not any(item.done() for item in sent)
        finally:
            embedder.gate.set()
        assert [item.result().status for item in sent] == [200] * (WORKERS + 8)


def test_searches_do_not_starve_writes(serve: Serve) -> None:
    embedder = GatedEmbedder()
    service = serve(embedder)
    memory_id = service.post("/memory/add", {"text": "We deploy on Fridays."}).json["id"]
    with ThreadPoolExecutor(WORKERS + 8) as threads:
        try:
            sent = [threads.submit(service.post, "/search", {"query": "deploy"}) for _ in range(WORKERS + 8)]
            assert embedder.waiting.acquire(timeout=60)
            assert service.patch(f"/memory/{memory_id}", {"pinned": True}).status == 200
            assert not any(item.done() for item in sent)
        finally:
            embedder.gate.set()
        assert [item.result().status for item in sent] == [200] * (WORKERS + 8)


def test_health_responds_while_another_process_locks_the_store(serve: Serve, tmp_path: Path) -> None:
    service = serve()
    service.post("/memory/add", {"text": "We deploy on Fridays."})
    assert service.get("/health").json["memories"] == 1
    other = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        service.post("/search", {"query": "deploy"})  # leaves a pending retrieval record
        start_time = time.monotonic()
        assert service.get("/health").json["memories"] == 1
        assert time.monotonic() - start_time < 10
    finally:
        other.execute("ROLLBACK")
        other.close()


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unexpected_error_is_logged_and_not_disclosed(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    embedder = FailingEmbedder()
    service = serve(embedder)
    embedder.error = RuntimeError("the secret detail")
    response = service.post("/search", {"query": "my private question"})
    assert (response.status, response.error["code"]) == (500, "error")
    assert response.error["message"] == "An internal error occurred in cofio."
    assert b"secret" not in response.body
    assert "the secret detail" in caplog.text
    assert "my private question" not in caplog.text
    embedder.error = None
    assert service.post("/search", {"query": "x"}).status == 200


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unavailable("The provider is away.", "Wait."), 503, "unavailable"),
        (StoreError("The disk is gone.", "Look."), 503, "store_error"),
        (StoreBusy("Another process writes.", "Wait."), 503, "store_busy"),
        (Misconfigured("There is no model.", "Get one."), 500, "misconfigured"),
    ],
)
def test_cofio_errors_keep_their_message_and_status(serve: Serve, error: Exception, status: int, code: str) -> None:
    embedder = FailingEmbedder()
    service = serve(embedder)
    embedder.error = error
    response = service.post("/memory/add", {"text": "x"})
    assert (response.status, response.error["code"]) == (status, code)
    assert response.headers.get("retry-after") == ("1" if code == "store_busy" else None)


def test_embedder_mismatch_returns_409(serve: Serve) -> None:
    serve(HashEmbedder(64)).post("/memory/add", {"text": "We deploy on Fridays."})
    answer = serve(HashEmbedder(128)).post("/search", {"query": "x"})
    assert (answer.status, answer.error["code"]) == (409, "embedder_mismatch")
    assert "reembed" in answer.error["hint"]


def test_each_request_is_logged_in_one_line(service: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "cofio.server.http")
    service.post("/search", {"query": "my private question"}, {"X-API-Key": "my key"})
    service.get("/memory/7")
    service.get("/health")
    deadline = time.monotonic() + 30  # the line is written after the response has started
    while len(lines := [record.getMessage() for record in caplog.records if record.name == "cofio.server.http"]) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [line.rsplit(" ", 2)[0] for line in lines] == [
        "POST /search 200", "GET /memory/{id} 404", "GET /health 200",
    ]  # fmt: skip
    assert "my" not in caplog.text


def test_client_disconnect_does_not_affect_the_service(service: Caller) -> None:
    for _ in range(5):
        with socket.create_connection((service.host, service.port)) as connection:
            connection.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    assert service.get("/health").status == 200


# ── start-up ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def temporary_keeper() -> Keeper:
    clock = FixedClock()
    return Keeper(MemoryStore(clock), HashEmbedder(), clock)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_service_on_all_interfaces_requires_an_api_key(temporary_keeper: Keeper, host: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="COFIO_API_KEY"):
        HttpServer(temporary_keeper, Settings(home=tmp_path, host=host, port=0))


def test_port_in_use_raises_error(temporary_keeper: Keeper, tmp_path: Path) -> None:
    with serving(temporary_keeper) as url, pytest.raises(Misconfigured, match="COFIO_PORT"):
        HttpServer(temporary_keeper, Settings(home=tmp_path, port=int(url.rpartition(":")[2])))


def test_unknown_host_raises_error(temporary_keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="COFIO_HOST"):
        HttpServer(temporary_keeper, Settings(home=tmp_path, host="no such host", port=0))


def test_invalid_log_level_raises_error_and_closes_the_keeper(temporary_keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="log_level"):
        serving_module.run(temporary_keeper, Settings(home=tmp_path, port=0, log_level="loud"))
    with pytest.raises(StoreError):
        temporary_keeper.stats()


def test_service_listens_on_ipv6(temporary_keeper: Keeper) -> None:
    try:
        socket.socket(socket.AF_INET6).close()
        with serving(temporary_keeper, host="::1") as url:
            assert url.startswith("http://[::1]:")
            assert Caller(url).get("/health").status == 200
    except (OSError, Misconfigured):
        pytest.skip("there is no IPv6 here")


def test_localhost_binds_to_127_0_0_1(temporary_keeper: Keeper) -> None:
    with serving(temporary_keeper, host="localhost") as url:
        assert url.startswith("http://127.0.0.1:")
        assert Caller(url).get("/health", {"Host": "localhost"}).status == 200


# ── shutdown ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_SLOW_SERVICE = """
import sys, time
from pathlib import Path
from cofio.server.http import server as serve
from cofio.core import Keeper
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

class Slow(HashEmbedder):
    def embed(self, texts, kind):
        print("embedding", flush=True)
        time.sleep(1.5)
        return super().embed(texts, kind)

clock = FixedClock()
keeper = Keeper(SqliteStore(Path(sys.argv[1]), clock), Slow(), clock)
serve.run(keeper, Settings(home=Path(sys.argv[1]).parent, port=0), lambda url: print(url, flush=True))
try:
    keeper.stats()
except Exception as error:
    print("closed:", error.code, flush=True)
"""


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_shutdown_finishes_requests_and_closes_the_store(tmp_path: Path, signal_number: signal.Signals) -> None:
    path = tmp_path / "cofio.db"
    command = [sys.executable, "-c", _SLOW_SERVICE, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        service = Caller(process.stdout.readline().strip())
        with ThreadPoolExecutor(1) as thread:
            sent = thread.submit(service.post, "/memory/add", {"text": "We deploy on Fridays."})
            assert process.stdout.readline() == "embedding\n"
            os.kill(process.pid, signal_number)
            assert sent.result(60).status == 201
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "closed: store_error" in out
    assert "Traceback" not in errors
    assert not path.with_name("cofio.db-wal").exists()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (1,)
    connection.close()


def test_idle_connection_does_not_delay_shutdown(temporary_keeper: Keeper) -> None:
    start_time = time.monotonic()
    with serving(temporary_keeper) as url:
        caller = Caller(url)
        wire = socket.create_connection((caller.host, caller.port))
        caller.get("/health")
    assert time.monotonic() - start_time < 60
    wire.close()
    with pytest.raises(OSError):
        caller.get("/health")


_CONCURRENT_REQUESTS = """
import sys, threading
from pathlib import Path
from cofio.server.http import decoding as reading
from cofio.server.http.app import make
from cofio.server.http.routes import ROUTES
from cofio.errors import CofioError
from cofio.core import Keeper
from cofio.settings import Settings
from cofio.testing import FixedClock, HashEmbedder, MemoryStore

clock = FixedClock()
app = make(Keeper(MemoryStore(clock), HashEmbedder(), clock), Settings.load(dict(home=Path(sys.argv[1]))))
sys.setswitchinterval(1e-6)

def read(takes, together):
    together.wait()
    for sent in (b"", b"limit=5&k=5&text=x"):
        try:
            reading.of_query(sent, takes)
        except CofioError:
            pass

for takes in {route.request for route in ROUTES if route.request}:
    together = threading.Barrier(32)
    readers = [threading.Thread(target=read, args=(takes, together)) for _ in range(32)]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
"""


def test_first_requests_of_a_type_may_be_concurrent(tmp_path: Path) -> None:
    """Without a lock, msgspec crashes the process here."""
    command = [sys.executable, "-c", _CONCURRENT_REQUESTS, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, check=False, timeout=120, text=True)
    assert (result.returncode, result.stderr) == (0, "")
