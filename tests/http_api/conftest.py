"""The real service on a loopback port, with a real store and the hashing embedder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cofio import bootstrap
from cofio.core import Keeper
from cofio.models.diagnostics import Doctor
from cofio.ports import LLM, Clock, Completion
from cofio.server.http.server import HttpServer
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller

Serve = Callable[..., Caller]


class Uneventful(ScriptedLLM):
    """A model that never finds anything worth keeping, however often it is asked."""

    def __init__(self) -> None:
        super().__init__([])

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        return Completion('{"facts": []}')


@contextmanager
def serving(
    keeper: Keeper,
    clock: Clock = bootstrap.now,
    ticks: Callable[[], float] = time.monotonic,
    doctor: Doctor | None = None,
    **settings: Any,
) -> Iterator[str]:
    """The service in a thread; its URL."""
    with TemporaryDirectory() as folder:
        known = Settings(**{"port": 0, "home": Path(folder), **settings})
        yield from _running(HttpServer(keeper, known, clock, ticks, doctor))


def _running(running: HttpServer) -> Iterator[str]:
    ready = threading.Event()
    thread = threading.Thread(target=running.run, args=(lambda _url: ready.set(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield running.url
    finally:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """One service for a whole module, for tests that do not mind what others left there."""
    clock = FixedClock()
    path = tmp_path_factory.mktemp("served") / "cofio.db"
    store = SqliteStore(path, clock)
    with Keeper(store, HashEmbedder(), clock, llm=Uneventful()) as keeper, serving(keeper) as url:
        yield Caller(url)


@pytest.fixture(scope="session")
def afterwards() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Runs what it is given beside the next tests: an orderly stop takes a while, and there are many."""
    with ThreadPoolExecutor(8) as threads:
        running: list[Future[None]] = []
        yield lambda task: running.append(threads.submit(task))
        for each in running:
            each.result(60)


@pytest.fixture
def serve(tmp_path: Path, afterwards: Callable[[Callable[[], None]], None]) -> Iterator[Serve]:
    """Makes a service of one's own: `serve()`, `serve(api_key="…")`, `serve(embedder=…)`, `serve(llm=…)`."""
    stack = ExitStack()

    def start(
        embedder: HashEmbedder | None = None, llm: LLM | None = None, inbox_limit: int = 10_000, **settings: Any
    ) -> Caller:
        clock = FixedClock()
        store = SqliteStore(tmp_path / "cofio.db", clock)
        made = Keeper(store, embedder or HashEmbedder(), clock, llm=llm, inbox_limit=inbox_limit)
        keeper = stack.enter_context(made)
        return Caller(stack.enter_context(serving(keeper, **settings)))

    yield start
    afterwards(stack.close)


@pytest.fixture
def service(serve: Serve) -> Caller:
    """A fresh and open service."""
    return serve()
