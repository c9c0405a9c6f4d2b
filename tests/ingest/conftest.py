"""Keepers that learn, on a real store with the hashing embedder and optionally a scripted LLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.ports import LLM, Judge
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.judges import ValueJudge

KeeperFactory = Callable[..., Keeper]


@pytest.fixture
def make_keeper(tmp_path: Path) -> Iterator[KeeperFactory]:
    """Return a factory of keepers on the test's store: `make_keeper()`, `make_keeper(llm=…)`."""
    with ExitStack() as stack:

        def open_keeper(llm: LLM | None = None, inbox_limit: int = 10_000, judge: Judge | None = None) -> Keeper:
            clock = FixedClock()
            store = SqliteStore(tmp_path / "cofio.db", clock)
            open_keeper = Keeper(store, HashEmbedder(), clock, llm=llm, inbox_limit=inbox_limit, judge=judge)
            return stack.enter_context(open_keeper)

        yield open_keeper


@pytest.fixture
def judge_keeper(make_keeper: KeeperFactory, judge: Judge) -> Keeper:
    """Return a keeper on the test's store with the judgement model."""
    return make_keeper(judge=judge)


@pytest.fixture
def value_keeper(make_keeper: KeeperFactory) -> Keeper:
    """Return a keeper on the test's store that replaces a fact by one with other numbers."""
    return make_keeper(judge=ValueJudge())
