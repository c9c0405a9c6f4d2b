"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.keeper import Keeper
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, HashEmbedder


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """A keeper on a real store with the hashing embedder."""
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        yield keeper
