"""Episodes, over every adapter and the fake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.models.memory import Purge, Scope
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, MemoryStore
from tests.stores.episodes_contract import ALL, EpisodesContract, by_words, embed, episode, learned, vector


class TestMemoryStore(EpisodesContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = MemoryStore(FixedClock())
        yield store
        store.close()


class TestSqliteStore(EpisodesContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()

    def test_other_processes_see_what_is_indexed_and_removed(self, store: SqliteStore, tmp_path: Path) -> None:
        other = SqliteStore(tmp_path / "cofio.db", FixedClock())
        try:
            assert by_words(other, "apples") == []
            made = episode(store, "apples and pears")
            embed(store)
            assert by_words(other, "apples") == [made.id]
            assert len(other.episodes.nearest(vector("apples"), 5, ALL)) == 1
            store.episodes.remove([made.id])
            assert by_words(other, "apples") == []
            assert other.episodes.nearest(vector("apples"), 5, ALL) == []
        finally:
            other.close()

    @pytest.mark.parametrize("way", ["memory", "episode"])
    def test_purged_words_are_gone_from_the_file(self, store: SqliteStore, tmp_path: Path, way: str) -> None:
        memory, number = learned(store, "The code is zanzibar4711", "Note that the code is zanzibar4711", turn="1")
        for text in ("We met at the harbour", "The weather is fine", "Ann reviews"):
            episode(store, text)
        assert number is not None
        if way == "episode":
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

    def test_an_index_of_vectors_finds_the_same(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cofio.stores.postgres.vector_search.FEW", 5)
        made = [episode(store, f"topic{each} with words{each}", project=f"/p{each % 2}") for each in range(12)]
        embed(store)
        store.episodes._nearest.keep_index(store._server, 256)
        for scope in (ALL, Scope(project="/p1")):
            near = store.episodes.nearest(vector(made[7].text), 3, scope)
            found = store.episodes.passages([each.id for each in near])
            assert found[0].episode == made[7].id
            assert len(found) == 3
