"""A keeper that learns, on a real store with the hashing embedder; with a scripted model where a test gives one."""

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

Learning = Callable[..., Keeper]


@pytest.fixture
def learning(tmp_path: Path) -> Iterator[Learning]:
    """Makes keepers on the test's one store: `learning()`, `learning(llm=…)`."""
    with ExitStack() as stack:

        def opened(llm: LLM | None = None, inbox_limit: int = 10_000, judge: Judge | None = None) -> Keeper:
            clock = FixedClock()
            store = SqliteStore(tmp_path / "cofio.db", clock)
            opened = Keeper(store, HashEmbedder(), clock, llm=llm, inbox_limit=inbox_limit, judge=judge)
            return stack.enter_context(opened)

        yield opened


@pytest.fixture
def judged(learning: Learning, judge: Judge) -> Keeper:
    """Return a keeper on the test's store that reads and compares with the judgement model."""
    return learning(judge=judge)


@pytest.fixture
def by_value(learning: Learning) -> Keeper:
    """Return a keeper on the test's store that replaces a fact by one with other numbers."""
    return learning(judge=ValueJudge())
