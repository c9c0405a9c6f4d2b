"""Stored token embeddings of every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cofio.errors import StoreBusy
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import add
from tests.stores.token_embeddings_contract import TokenEmbeddingsContract


class TestSqliteStore(TokenEmbeddingsContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()


class TestPostgresStore(TokenEmbeddingsContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()

    def test_memory_changed_concurrently_is_not_marked_as_embedded(self, store: PostgresStore) -> None:
        before = add(store, "red")
        store.token_embeddings.set_signature("one")
        with store._server.writing(alone=True) as rows:  # as during a changeset
            rows.connection.execute("UPDATE memories SET text = 'blue'")
            with suppress(StoreBusy):
                store.token_embeddings.put([(before, b"words of red")], "one")
        assert store.token_embeddings.get([before.id], "one") == {}
        assert [memory.text for memory in store.token_embeddings.pending(9)] == ["blue"]
