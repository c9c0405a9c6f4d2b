"""A keeper that learns, on a real store with the hashing embedder; with a scripted model where a test gives one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cofio.keeper import Keeper
from cofio.ports import LLM
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

Learning = Callable[..., Keeper]


@pytest.fixture
def learning(tmp_path: Path) -> Iterator[Learning]:
    """Makes keepers on the test's one store: `learning()`, `learning(llm=…)`."""
    with ExitStack() as stack:

        def opened(llm: LLM | None = None, inbox_limit: int = 10_000) -> Keeper:
            clock = FixedClock()
            store = SqliteStore(tmp_path / "cofio.db", clock)
            return stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, inbox_limit=inbox_limit))

        yield opened
