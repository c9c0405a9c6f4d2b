"""Fixtures that run the real service on a loopback port with a SQLite store and the hashing embedder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import Unavailable
from cofio.models.diagnostics import Doctor
from cofio.ports import LLM, Clock, Completion
from cofio.server.http.connections import ConnectionLimits
from cofio.server.http.server import HttpServer
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller

Serve = Callable[..., Caller]


class NoFactsLLM(ScriptedLLM):
    """LLM fake that never extracts a fact."""

    def __init__(self) -> None:
        super().__init__([])

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        return Completion('{"facts": []}')


class UnavailableEmbedder(HashEmbedder):
    """Embedder whose provider does not respond."""

    def embed(self, texts: Sequence[str], role: Any) -> Any:
        raise Unavailable("The provider does not answer.", "Try again in a moment.")


@contextmanager
def serving(
    keeper: Keeper,
    clock: Clock = bootstrap.now,
    ticks: Callable[[], float] = time.monotonic,
    doctor: Doctor | None = None,
    limits: ConnectionLimits | None = None,
    **settings: Any,
) -> Iterator[str]:
    """Run the service in a thread and yield its URL."""
    with TemporaryDirectory() as folder:
        server_settings = Settings(**{"port": 0, "home": Path(folder), **settings})
        yield from _running(HttpServer(keeper, server_settings, clock, ticks, doctor, limits))


def _running(server: HttpServer) -> Iterator[str]:
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda _url: ready.set(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield server.url
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Yield a service shared by the module, for tests that do not depend on its contents."""
    clock = FixedClock()
    path = tmp_path_factory.mktemp("served") / "cofio.db"
    store = SqliteStore(path, clock)
    with Keeper(store, HashEmbedder(), clock, llm=NoFactsLLM()) as keeper, serving(keeper) as url:
        yield Caller(url)


@pytest.fixture(scope="session")
def run_in_background() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Yield a function that runs a task in a background thread: an orderly shutdown takes time and there are many."""
    with ThreadPoolExecutor(8) as threads:
        running: list[Future[None]] = []
        yield lambda task: running.append(threads.submit(task))
        for future in running:
            future.result(60)


@pytest.fixture
def serve(tmp_path: Path, run_in_background: Callable[[Callable[[], None]], None]) -> Iterator[Serve]:
    """Yield a factory of services, for example `serve()`, `serve(api_key="…")`, `serve(embedder=…)`, `serve(llm=…)`."""
    stack = ExitStack()

    def start(
        embedder: HashEmbedder | None = None, llm: LLM | None = None, inbox_limit: int = 10_000, **settings: Any
    ) -> Caller:
        clock = FixedClock()
        store = SqliteStore(tmp_path / "cofio.db", clock)
        new_keeper = Keeper(store, embedder or HashEmbedder(), clock, llm=llm, inbox_limit=inbox_limit)
        keeper = stack.enter_context(new_keeper)
        home = settings.setdefault("home", tmp_path)
        return Caller(stack.enter_context(serving(keeper, **settings)), home=home)

    yield start
    run_in_background(stack.close)


@pytest.fixture
def service(serve: Serve) -> Caller:
    """Return a new service without API keys."""
    return serve()
