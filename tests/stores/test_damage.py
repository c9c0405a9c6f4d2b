"""Damaged vectors and rows: what works goes on, and the damage is found and repaired."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from cofio.core import Keeper
from cofio.models.memory import Scope
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

DIMENSION = 64
TEXTS = ("We deploy with Fly.io", "The team lead is Ada", "Invoices go out on Fridays", "The API listens on port 8443")
DAMAGES: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "NaN": lambda vector: np.concatenate([[np.nan], vector[1:]]),
    "infinite": lambda vector: np.concatenate([[np.inf], vector[1:]]),
    "huge": lambda vector: vector * 1e12,
    "zero": lambda vector: vector * 0,
    "shorter": lambda vector: vector[:-3],
    "longer": lambda vector: np.concatenate([vector, [0.5]]),
}


class DamageableStore:
    """Address of a store, with direct access to its rows."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.is_postgres = "://" in address

    def open(self) -> Keeper:
        clock = FixedClock()
        store = PostgresStore(self._address, clock) if self.is_postgres else SqliteStore(Path(self._address), clock)
        return Keeper(store, HashEmbedder(DIMENSION), clock)

    def execute(self, statement: str, *values: Any) -> None:
        """Run a statement with `?` for values, as SQLite writes it."""
        if self.is_postgres:
            with psycopg.connect(self._address.partition("?")[0], autocommit=True) as server:
                server.execute(statement.replace("?", "%s"), values)
            return
        with sqlite3.connect(self._address) as file:
            file.execute(statement, values)
        file.close()

    def damage_vector(self, memory_id: int, damage: str) -> None:
        vector = DAMAGES[damage](HashEmbedder(DIMENSION).embed([TEXTS[memory_id - 1]], "document")[0]).astype("<f4")
        value = str(vector.tolist()) if self.is_postgres else vector.tobytes()
        self.execute("UPDATE vectors SET vector = ? WHERE memory_id = ?", value, memory_id)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DamageableStore:
    address = str(tmp_path / "cofio.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    damageable = DamageableStore(address)
    with damageable.open() as keeper:
        keeper.add_all(TEXTS)
    return damageable


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_vector_is_isolated_and_computed_again(store: DamageableStore, damage: str) -> None:
    if store.is_postgres and damage in ("NaN", "infinite"):
        pytest.skip("pgvector stores no such number")
    store.damage_vector(2, damage)
    with store.open() as keeper:
        services, raw = keeper.services, keeper.services.access.store
        assert keeper.search("team lead")[0].id == 2  # by its words
        assert keeper.search("where do we deploy")[0].id == 1
        assert "Fly.io" in keeper.recall("where do we deploy with Fly.io?").text
        assert keeper.add("The build runs on Jenkins").action == "add"
        assert len(list(raw.pairs(-1.0, Scope()))) == 6
        assert raw.damaged_vectors() == [2]

        assert services.embeddings.drop_damaged() == 1
        assert raw.missing_vectors() == 1
        assert [memory.id for memory in raw.unembedded(10)] == [2]
        assert keeper.embed_missing() == 1
        assert raw.missing_vectors() == 0
        assert raw.damaged_vectors() == []
        vector = HashEmbedder(DIMENSION).embed([TEXTS[1]], "query")[0]
        assert raw.nearest(vector, 1, Scope())[0] == (2, pytest.approx(1.0, abs=1e-5))


def test_damaged_vector_counts_as_missing(tmp_path: Path) -> None:
    store = DamageableStore(str(tmp_path / "cofio.db"))
    with store.open() as keeper:
        keeper.add_all(TEXTS)
        assert keeper.services.access.store.missing_vectors() == 0
    store.damage_vector(3, "NaN")
    with store.open() as keeper:
        keeper.search("invoices")
        assert keeper.services.access.store.missing_vectors() == 1
        assert keeper.stats()["vectors"] == len(TEXTS) - 1


def test_damaged_vector_of_an_episode_is_isolated_and_computed_again(store: DamageableStore) -> None:
    with store.open() as keeper:
        for text in ("What is the plan for the harbour crane?", "The lighthouse needs paint."):
            keeper.capture([{"role": "user", "content": text}], wait=True)
        episodes = keeper.services.episodes
        episodes.index_missing()
        episodes.embed_missing()
    other = [0.0] * DIMENSION if store.is_postgres else np.full(DIMENSION, np.nan, "<f4").tobytes()
    store.execute(
        "UPDATE passage_vectors SET vector = ? WHERE passage_id = 1", str(other) if store.is_postgres else other
    )
    with store.open() as keeper:
        assert keeper.search_episodes("harbour crane")
        assert keeper.services.embeddings.drop_damaged() == 1
        assert keeper.services.episodes.embed_missing() == 1
        assert keeper.services.embeddings.drop_damaged() == 0


def test_damaged_vectors_are_a_problem_until_they_are_computed_again(tmp_path: Path) -> None:
    damageable = DamageableStore(str(tmp_path / "cofio.db"))
    with damageable.open() as keeper:
        keeper.add_all(TEXTS)
    damageable.damage_vector(2, "NaN")
    with damageable.open() as keeper:
        keeper.search("Ada")
        [problem] = keeper.services.problems()
        assert (problem.name, problem.says.startswith("The vectors of 1 memor")) == ("store", True)
        keeper.services.embeddings.drop_damaged()
        keeper.embed_missing()
        keeper.search("Ada")
        assert keeper.services.problems() == []


def test_digest_names_a_silently_changed_row(store: DamageableStore) -> None:
    with store.open() as keeper:
        raw = keeper.services.access.store
        keeper.bulk([1, 2], "tag", tags=["ops"])
        keeper.update(3, metadata={"price": 1.0, "owner": "Ünal"}, confidence=1)
        keeper.supersede(4, "The API listens on port 9443")
        keeper.search("port")  # counts are not part of the digest
        keeper.close()
    with store.open() as keeper:
        raw = keeper.services.access.store
        assert not any(raw.verify())
    store.execute("UPDATE memories SET text = replace(text, 'Ada', 'Adb') WHERE id = ?", 2)
    store.execute("UPDATE memories SET visibility = 'global' WHERE id = ?", 3)
    with store.open() as keeper:
        damage = keeper.services.access.store.verify()
    assert damage.memories == [2, 3]
    assert (damage.files, damage.vectors, damage.passages) == ([], [], [])


def test_digest_names_a_row_whose_text_is_not_utf8(tmp_path: Path) -> None:
    store = DamageableStore(str(tmp_path / "cofio.db"))
    with store.open() as keeper:
        keeper.add_all(TEXTS)
    file = sqlite3.connect(tmp_path / "cofio.db")
    file.execute("UPDATE memories SET session = CAST(x'ff41' AS TEXT), entities = '[' WHERE id = 2")
    file.commit()
    file.close()
    with store.open() as keeper:
        assert keeper.services.access.store.verify().memories == [2]


def test_rows_of_an_earlier_version_get_a_digest(store: DamageableStore) -> None:
    store.execute("UPDATE memories SET digest = NULL")
    if store.is_postgres:
        store.execute("DELETE FROM cofio_migrations WHERE number = 12")
        store.execute("ALTER TABLE memories DROP COLUMN digest")
    else:
        store.execute("ALTER TABLE memories DROP COLUMN digest")
        store.execute("PRAGMA user_version = 15")
    with store.open() as keeper:
        assert not any(keeper.services.access.store.verify())


def test_purge_leaves_no_digest_outdated(store: DamageableStore) -> None:
    with store.open() as keeper:
        keeper.supersede(1, "We deploy with Render", entities=["Fly.io"])
        keeper.purge(1)
        assert not any(keeper.services.access.store.verify())
