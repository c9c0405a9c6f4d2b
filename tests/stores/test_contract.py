"""The contract suite over every adapter and over the fake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.ports import Store
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, MemoryStore
from tests.stores.contract import StoreContract
from tests.stores.inbox_contract import InboxContract


class TestMemoryStore(StoreContract, InboxContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = MemoryStore(FixedClock())
        yield store
        store.close()


class TestSqliteStore(StoreContract, InboxContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()
