"""Purging: no trace of the words of a purged memory stays, wherever they were copied to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cofio.core import Keeper
from cofio.models.memory import Viewer
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

RARE = "Zyxqwvut"


class PurgeableStore:
    """A store, and everything that is stored of it as bytes."""

    def __init__(self, open_store: Callable[[], SqliteStore | PostgresStore], read: Callable[[], bytes]) -> None:
        self._open, self.read = open_store, read

    def open(self) -> Keeper:
        return Keeper(self._open(), HashEmbedder(64), FixedClock())


def _read_tables(url: str) -> bytes:
    """Return all rows of all tables as text."""
    with psycopg.connect(url) as server:
        names = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        tables = [server.execute(f'SELECT row_to_json(t)::text FROM "{name}" t').fetchall() for (name,) in names]
    return "\n".join(text for table in tables for (text,) in table).encode()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PurgeableStore:
    if request.param == "sqlite":
        read = lambda: b"".join(path.read_bytes() for path in tmp_path.glob("cofio.db*"))  # noqa: E731
        return PurgeableStore(lambda: SqliteStore(tmp_path / "cofio.db", FixedClock()), read)
    url: str = request.getfixturevalue("postgres_url")
    return PurgeableStore(lambda: PostgresStore(url, FixedClock()), lambda: _read_tables(url))


def test_no_trace_stays_after_search_and_supersede(store: PurgeableStore) -> None:
    with store.open() as keeper:
        keeper.add("Invoices go out on Fridays")
        said = [{"role": "user", "content": f"We use {RARE} for the billing queue."}]
        keeper.capture(said, wait=True, client="test", session="s", turn="1")
        purged = next(memory for memory in keeper if RARE in memory.text)
        keeper.bulk([purged.id], "tag", tags=[RARE.lower(), "billing"])
        keeper.search(RARE)
        keeper.recall(f"what is {RARE.lower()}?")
        successor = keeper.supersede(purged.id, "We use Kafka for the billing queue", entities=[RARE, "billing queue"])[
            0
        ]
        keeper.search(f"billing {RARE}")
        keeper.search("billing queue")
        keeper.search(f"{RARE} invoices")
        keeper.services.episodes.index_missing()
        keeper.services.episodes.embed_missing()
        last = keeper.supersede(successor.memory_id, "We use Pulsar for the billing queue")[0]
        keeper.purge(purged.id)
        memory = keeper.get(last.memory_id)
        assert (memory.entities, memory.tags) == (("billing queue",), ("billing",))
        assert keeper.search(RARE, hybrid=True, log=False)[0].keyword == 0
    kept = store.read().lower()
    assert b"invoices go out" in kept
    assert b"billing queue" in kept  # the query that the purge does not concern is kept
    assert RARE.lower().encode() not in kept


def test_queries_of_others_stay_when_a_viewer_purges(store: PurgeableStore) -> None:
    with store.open() as keeper:
        ada, bob = (keeper.as_viewer(Viewer(user=name)) for name in ("ada", "bob"))
        mine = ada.add(f"My bank is {RARE}").memory_id
        other = bob.add("My bank is closed on Mondays").memory_id
        ada.search(f"bank {RARE}")
        bob.search(f"which bank is {RARE}?")
        keeper.services.shared.retrieval_log.flush()
        ada.purge(mine)
        assert keeper.services.access.store.usage.queries([other], 10) == [f"which bank is {RARE}?"]
        assert keeper.services.access.store.usage.queries([mine], 10) == []
