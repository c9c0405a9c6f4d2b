"""Domain knowledge over every adapter and the fake; and what only one of them has."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cofio.errors import StoreError
from cofio.models.domain_knowledge import TABLES, DeleteRow, Feedback, Pattern, PurgeRow, Threshold
from cofio.models.memory import Scope
from cofio.ports import Store
from cofio.stores.domain_knowledge import SqlKnowledgeTables
from cofio.stores.postgres import PostgresStore
from cofio.stores.sql_loader import migrations
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, MemoryStore
from tests.stores.contract import add, everything, vector
from tests.stores.domain_contract import OF_EACH, DomainContract, know, put, take_back, volume
from tests.stores.test_migrations import of_shape, remember
from tests.stores.test_sqlite import assert_in_step, opened


class TestMemoryStore(DomainContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = MemoryStore(FixedClock())
        yield store
        store.close()


class TestSqliteStore(DomainContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()


class TestPostgresStore(DomainContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()


# ── several at once ───────────────────────────────────────────────────────────────────────────────────────────────────

_WRITER = """
import sys
from pathlib import Path
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.domain_contract import know, volume
where, writer, times = sys.argv[1:]
store = PostgresStore(where, FixedClock()) if "://" in where else SqliteStore(Path(where), FixedClock())
for place in range(int(times)):
    know(store, volume(float(f"{writer}{place:03}")))  # no two of them the same
store.close()
"""


def write_at_once(where: str, writers: int = 2, times: int = 20) -> int:
    """Have several processes put the same row; how often in all."""
    started = [
        subprocess.Popen([sys.executable, "-c", _WRITER, where, str(writer), str(times)], stderr=subprocess.PIPE)
        for writer in range(1, writers + 1)
    ]
    for process in started:
        said = process.communicate()[1]
        assert process.returncode == 0, said.decode()
    return writers * times


def assert_written_one_after_the_other(store: Store, times: int) -> None:
    (row,) = store.domain.rows("thresholds")
    lines = store.domain.history("thresholds", row.id)
    assert [line.action for line in lines] == ["add", *["update"] * (times - 1)]
    assert [line.before for line in lines] == [None, *(line.after for line in lines[:-1])]
    assert lines[-1].after == row
    assert len({line.changeset for line in lines}) == times
    assert len(store.domain.naming(["aapl"])) == 1


def test_two_processes_put_the_same_row_of_one_file_at_once(tmp_path: Path) -> None:
    opened(tmp_path / "cofio.db").close()
    times = write_at_once(str(tmp_path / "cofio.db"))
    store = opened(tmp_path / "cofio.db")
    assert_written_one_after_the_other(store, times)
    store.close()


def test_two_processes_put_the_same_row_of_one_database_at_once(postgres_url: str) -> None:
    times = write_at_once(postgres_url)
    store = PostgresStore(postgres_url, FixedClock())
    assert_written_one_after_the_other(store, times)
    store.close()


def test_what_another_process_put_is_there_and_the_vectors_stay_level(tmp_path: Path) -> None:
    one, other = (opened(tmp_path / "cofio.db") for _ in range(2))
    memory = add(one, "the zebra stays")
    for value in range(3):
        row = put(other, volume(value))
        assert one.domain.rows("thresholds") == [row]
    assert [each.id for each in other.nearest(vector("zebra"), 3, Scope())] == [memory.id]
    new = add(other, "the zebra left")
    assert {each.id for each in one.nearest(vector("zebra"), 3, Scope())} == {memory.id, new.id}
    one.close()
    other.close()
    assert_in_step(tmp_path / "cofio.db")


# ── nothing stays of what was erased ──────────────────────────────────────────────────────────────────────────────────

SECRETS = ("xylophone", "zyzzyva", "quixotic")


def keep_and_erase(store: Store) -> None:
    """Rows with words that are nowhere else, put, changed, judged, dropped, brought back; and erased."""
    know(store, Threshold(source="Xylophone", metric="zyzzyva", value=1, direction="above", unit="quixotic"))
    row = put(store, Threshold(source="xylophone", metric="Zyzzyva", value=2, direction="above", unit="quixotic"))
    dropped = know(store, DeleteRow("thresholds", row.id, "the xylophone is gone"), Pattern(pattern="the zebra stays"))
    take_back(store, dropped.id)
    verdict = Feedback(anomaly="it fired", verdict="note", about=(row.ref, "patterns/p"))
    know(store, verdict)
    know(store, Feedback(anomaly="it fired", verdict="confirmed", about=(row.ref, "patterns/p")))
    long = put(store, Pattern(pattern="xylophone " * 300, source="zyzzyva " * 100 + "quixotic"))
    know(store, PurgeRow("thresholds", row.id, "no xylophone"), PurgeRow("patterns", long.id))


def test_an_erasure_leaves_no_word_in_the_file_nor_in_its_log(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    for _ in range(2):
        keep_and_erase(store)
        raw = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
        for word in SECRETS:
            assert word.encode() not in raw
        assert b"zebra" in raw  # the file was looked into
    store.close()


def test_an_erasure_while_somebody_reads_is_done_and_wiped_with_the_next_write(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    row = put(store, volume(source="xylophone"))
    reader = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM thresholds").fetchone() == (1,)
    know(store, PurgeRow("thresholds", row.id))
    assert store.domain.rows("thresholds") == []
    reader.execute("COMMIT")
    reader.close()
    know(store, volume())
    assert b"xylophone" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.close()


def test_an_erasure_leaves_no_word_in_any_table_of_the_database(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, FixedClock())
    keep_and_erase(store)
    store.close()
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        told = [row for (table,) in tables for row in connection.execute(f"SELECT t::text FROM {table} t").fetchall()]
    kept = "\n".join(row for (row,) in told).lower()
    assert "zebra" in kept
    for word in SECRETS:
        assert word not in kept


# ── what a table cannot hold ──────────────────────────────────────────────────────────────────────────────────────────

_WRONG = (
    ("thresholds", "confidence", "1.5"),
    ("thresholds", "prior", "-0.1"),
    ("thresholds", "direction", "'up'"),
    ("thresholds", "confirmed", "-1"),
    ("correlations", "relation", "'causes'"),
    ("seasonal", "period", "'hourly'"),
    ("seasonal", "lasts", "0"),
    ("feedback", "verdict", "'maybe'"),
    ("knowledge_changes", "row_table", "'memories'"),
)


@pytest.mark.parametrize(("table", "column", "value"), _WRONG)
def test_the_file_itself_refuses_what_cannot_be(tmp_path: Path, table: str, column: str, value: str) -> None:
    store = opened(tmp_path / "cofio.db")
    know(store, *OF_EACH)
    store.close()
    with sqlite3.connect(tmp_path / "cofio.db") as connection, pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(f"UPDATE {table} SET {column} = {value}")
    connection.close()


def test_the_server_itself_refuses_what_cannot_be(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, FixedClock())
    know(store, *OF_EACH)
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table, column, value in _WRONG:
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(f"UPDATE {table} SET {column} = {value}")


# ── tenants, plans, older files ───────────────────────────────────────────────────────────────────────────────────────


def test_tenants_of_one_database_know_nothing_of_each_other(postgres_url: str) -> None:
    one, other = (PostgresStore(f"{postgres_url}?tenant={name}", FixedClock()) for name in ("one", "other"))
    hers = know(one, volume(1), Feedback(anomaly="x", verdict="note", about=(volume().ref,)))
    his = know(other, volume(2), Feedback(anomaly="x", verdict="note", about=(volume().ref,)))
    assert [row.says for row in one.domain.rows("thresholds")] == ["AAPL/volume: above 1"]
    assert [row.says for row in other.domain.naming(["aapl"])] == ["AAPL/volume: above 2"]
    assert [line.changeset for line in one.domain.history("thresholds", volume().id)] == [hers.id]
    know(one, PurgeRow("thresholds", volume().id))
    assert other.domain.history("thresholds", volume().id) == [other.changeset(his.id).knowledge[0]]
    assert len(other.domain.rows("feedback", where={"about": volume().ref})) == 1
    assert one.domain.counts() == {**dict.fromkeys(TABLES, 0), "feedback": 1}
    assert other.domain.stated_by([1]) == []
    one.close()
    other.close()


@pytest.mark.parametrize(
    ("table", "where", "index"),
    [
        ("thresholds", {"source": "AAPL", "metric": "volume"}, "thresholds_by_metric"),
        ("correlations", {"source_a": "BTC"}, "correlations_by_first"),
        ("correlations", {"source_b": "BTC"}, "correlations_by_second"),
        ("patterns", {"source": "NYSE"}, "patterns_by_source"),
        ("feedback", {"anomaly": "x"}, "feedback_by_anomaly"),
        ("patterns", {"memory": 7}, "patterns_by_memory"),
        ("patterns", {}, "patterns_by_confidence"),
        ("feedback", {}, "feedback_by_time"),
    ],
)
def test_nothing_is_looked_through_that_an_index_knows(
    tmp_path: Path, table: str, where: dict[str, object], index: str
) -> None:
    file = StoreFile(tmp_path / "cofio.db")
    asked: list[str] = []
    with file.reading() as connection:
        connection.set_trace_callback(asked.append)
    SqlKnowledgeTables(file).rows(table, where=where, limit=5)  # type: ignore[arg-type]
    with file.reading() as connection:
        connection.set_trace_callback(None)
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {asked[-1]}")]
    file.close()
    assert any(index in step for step in plan), plan
    assert where or not any("TEMP B-TREE" in step for step in plan)


def test_a_file_from_before_knowledge_keeps_its_memories_and_learns_more(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    fifth = of_shape(path, 5)
    remember(fifth, 7, "the zebra stays")
    fifth.close()
    store = opened(path)
    assert [memory.text for memory in everything(store)] == ["the zebra stays"]
    assert store.changeset(7).knowledge == ()
    assert store.domain.counts() == dict.fromkeys(TABLES, 0)
    done = know(store, volume())
    assert done.id == 8
    take_back(store, done.id)
    assert store.domain.counts() == dict.fromkeys(TABLES, 0)
    store.close()
    assert_in_step(path)


def test_a_database_from_before_knowledge_keeps_its_memories_and_learns_more(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(migrations("postgres")[0][1])
        connection.execute("CREATE TABLE cofio_migrations (number integer PRIMARY KEY, at timestamptz DEFAULT now())")
        connection.execute("INSERT INTO cofio_migrations (number) VALUES (1)")
        connection.execute("INSERT INTO changesets (tenant, at, by, why) VALUES ('main', '2026-01-01', 'test', 'old')")
    store = PostgresStore(empty_postgres_url, FixedClock())
    (old,) = store.changesets(9)
    assert store.changeset(old.id).knowledge == ()
    memory = add(store, "the zebra stays")
    row = put(store, volume())
    assert store.domain.rows("thresholds") == [row]
    assert everything(store) == [memory]
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    fake, file = MemoryStore(FixedClock()), opened(tmp_path / "cofio.db")
    for store in (fake, file):
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.domain.counts()
        with pytest.raises(StoreError, match="closed"):
            know(store, volume())
