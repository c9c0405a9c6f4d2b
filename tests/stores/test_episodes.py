"""Episodes of every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.models.memory import Purge, Scope
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.episodes_contract import (
    ALL,
    EpisodesContract,
    add_learned_memory,
    embed_passages,
    episode,
    search_episode_ids,
    vector,
)


class TestSqliteStore(EpisodesContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()

    def test_index_and_removal_are_visible_to_other_processes(self, store: SqliteStore, tmp_path: Path) -> None:
        other = SqliteStore(tmp_path / "cofio.db", FixedClock())
        try:
            assert search_episode_ids(other, "apples") == []
            created = episode(store, "apples and pears")
            embed_passages(store)
            assert search_episode_ids(other, "apples") == [created.id]
            assert len(other.episodes.nearest(vector("apples"), 5, ALL)) == 1
            store.episodes.remove([created.id])
            assert search_episode_ids(other, "apples") == []
            assert other.episodes.nearest(vector("apples"), 5, ALL) == []
        finally:
            other.close()

    @pytest.mark.parametrize("target", ["memory", "episode"])
    def test_purged_words_are_removed_from_the_file(self, store: SqliteStore, tmp_path: Path, target: str) -> None:
        memory, number = add_learned_memory(
            store, "The code is zanzibar4711", "Note that the code is zanzibar4711", turn="1"
        )
        for text in ("We met at the harbour", "The weather is fine", "Ann reviews"):
            episode(store, text)
        assert number is not None
        if target == "episode":
            store.episodes.remove([number])
        store.apply([Purge(memory)], {}, by="test", why="")
        store._file.empty_log()
        files = [path for path in tmp_path.iterdir() if path.is_file()]
        assert all(b"zanzibar4711" not in file.read_bytes() for file in files)


class TestPostgresStore(EpisodesContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()

    def test_vector_index_returns_the_same_results(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cofio.stores.postgres.ranking.FEW_VECTORS", 5)
        created = [episode(store, f"topic{index} with words{index}", project=f"/p{index % 2}") for index in range(12)]
        embed_passages(store)
        store.episodes._vectors.keep_index(256)
        for scope in (ALL, Scope(project="/p1")):
            neighbors = store.episodes.nearest(vector(created[7].text), 3, scope)
            results = store.episodes.passages([item.id for item in neighbors])
            assert results[0].episode == created[7].id
            assert len(results) == 3
