"""What was read word by word, over every adapter and the fake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, MemoryStore
from tests.stores.readings_contract import ReadingsContract


class TestMemoryStore(ReadingsContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = MemoryStore(FixedClock())
        yield store
        store.close()


class TestSqliteStore(ReadingsContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()


class TestPostgresStore(ReadingsContract):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[Store]:
        store = PostgresStore(postgres_url, FixedClock())
        yield store
        store.close()
