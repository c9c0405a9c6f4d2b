"""Domain knowledge of every store, and store-specific behaviour."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cofio.errors import StoreError
from cofio.models.domain_knowledge import TABLES, Feedback, Pattern, Threshold
from cofio.models.memory import DeleteRow, PurgeRow, Scope
from cofio.ports import Store
from cofio.stores.domain_knowledge import SqlKnowledgeTables
from cofio.stores.postgres import PostgresStore
from cofio.stores.sql_loader import migrations
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import add, everything, vector
from tests.stores.domain_contract import (
    SAMPLE_ROWS,
    KnowledgeContract,
    apply_knowledge,
    put_row,
    undo_knowledge,
    volume,
)
from tests.stores.test_migrations import create_at_version, insert_memory
from tests.stores.test_sqlite import assert_consistent, open_store


class TestSqliteStore(KnowledgeContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", FixedClock())
        yield store
        store.close()


class TestPostgresStore(KnowledgeContract):
    @pytest.fixture
    def store(self, tenant_url: str) -> Iterator[Store]:
        store = PostgresStore(tenant_url, FixedClock())
        yield store
        store.close()


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────────────────

_WRITER = """
import sys
from pathlib import Path
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.domain_contract import apply_knowledge, volume
where, writer, times = sys.argv[1:]
store = PostgresStore(where, FixedClock()) if "://" in where else SqliteStore(Path(where), FixedClock())
for place in range(int(times)):
    apply_knowledge(store, volume(float(f"{writer}{place:03}")))  # all different
store.close()
"""


def put_concurrently(url: str, writers: int = 2, times: int = 20) -> int:
    """Put the same row from several processes. Return the total number of puts."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _WRITER, url, str(writer), str(times)], stderr=subprocess.PIPE)
        for writer in range(1, writers + 1)
    ]
    for process in processes:
        output = process.communicate()[1]
        assert process.returncode == 0, output.decode()
    return writers * times


def assert_sequential_history(store: Store, times: int) -> None:
    (row,) = store.domain.rows("thresholds")
    lines = store.domain.history("thresholds", row.id)
    assert [line.action for line in lines] == ["add", *["update"] * (times - 1)]
    assert [line.before for line in lines] == [None, *(line.after for line in lines[:-1])]
    assert lines[-1].after == row
    assert len({line.changeset for line in lines}) == times
    assert len(store.domain.naming(["aapl"])) == 1


def test_concurrent_puts_in_sqlite_are_serialized(tmp_path: Path) -> None:
    open_store(tmp_path / "cofio.db").close()
    times = put_concurrently(str(tmp_path / "cofio.db"))
    store = open_store(tmp_path / "cofio.db")
    assert_sequential_history(store, times)
    store.close()


def test_concurrent_puts_in_postgres_are_serialized(postgres_url: str) -> None:
    times = put_concurrently(postgres_url)
    store = PostgresStore(postgres_url, FixedClock())
    assert_sequential_history(store, times)
    store.close()


def test_rows_of_another_process_are_visible_and_vectors_stay_in_sync(tmp_path: Path) -> None:
    first, second = (open_store(tmp_path / "cofio.db") for _ in range(2))
    memory = add(first, "the zebra stays")
    for value in range(3):
        row = put_row(second, volume(value))
        assert first.domain.rows("thresholds") == [row]
    assert [hit.id for hit in second.nearest(vector("zebra"), 3, Scope())] == [memory.id]
    new = add(second, "the zebra left")
    assert {hit.id for hit in first.nearest(vector("zebra"), 3, Scope())} == {memory.id, new.id}
    first.close()
    second.close()
    assert_consistent(tmp_path / "cofio.db")


# ── purging ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = ("xylophone", "zyzzyva", "quixotic")


def put_and_purge(store: Store) -> None:
    """Put, change, judge, delete, restore and finally purge rows with unique words."""
    apply_knowledge(store, Threshold(source="Xylophone", metric="zyzzyva", value=1, direction="above", unit="quixotic"))
    row = put_row(store, Threshold(source="xylophone", metric="Zyzzyva", value=2, direction="above", unit="quixotic"))
    dropped = apply_knowledge(
        store, DeleteRow("thresholds", row.id, "the xylophone is gone"), Pattern(pattern="the zebra stays")
    )
    undo_knowledge(store, dropped.id)
    verdict = Feedback(anomaly="it fired", verdict="note", about=(row.ref, "patterns/p"))
    apply_knowledge(store, verdict)
    apply_knowledge(store, Feedback(anomaly="it fired", verdict="confirmed", about=(row.ref, "patterns/p")))
    long = put_row(store, Pattern(pattern="xylophone " * 300, source="zyzzyva " * 100 + "quixotic"))
    apply_knowledge(store, PurgeRow("thresholds", row.id, "no xylophone"), PurgeRow("patterns", long.id))


def test_purge_removes_words_from_the_sqlite_files(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    for _ in range(2):
        put_and_purge(store)
        raw = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
        for word in SECRETS:
            assert word.encode() not in raw
        assert b"zebra" in raw  # the search works
    store.close()


def test_purge_during_a_read_is_completed_by_the_next_write(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    row = put_row(store, volume(source="xylophone"))
    reader = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM thresholds").fetchone() == (1,)
    apply_knowledge(store, PurgeRow("thresholds", row.id))
    assert store.domain.rows("thresholds") == []
    reader.execute("COMMIT")
    reader.close()
    apply_knowledge(store, volume())
    assert b"xylophone" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.close()


def test_purge_removes_words_from_all_postgres_tables(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, FixedClock())
    put_and_purge(store)
    store.close()
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        result = [row for (table,) in tables for row in connection.execute(f"SELECT t::text FROM {table} t").fetchall()]
    stored = "\n".join(row for (row,) in result).lower()
    assert "zebra" in stored
    for word in SECRETS:
        assert word not in stored


# ── constraints ───────────────────────────────────────────────────────────────────────────────────────────────────────

_INVALID_VALUES = (
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


@pytest.mark.parametrize(("table", "column", "value"), _INVALID_VALUES)
def test_sqlite_constraints_reject_invalid_values(tmp_path: Path, table: str, column: str, value: str) -> None:
    store = open_store(tmp_path / "cofio.db")
    apply_knowledge(store, *SAMPLE_ROWS)
    store.close()
    with sqlite3.connect(tmp_path / "cofio.db") as connection, pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(f"UPDATE {table} SET {column} = {value}")
    connection.close()


def test_postgres_constraints_reject_invalid_values(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, FixedClock())
    apply_knowledge(store, *SAMPLE_ROWS)
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table, column, value in _INVALID_VALUES:
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(f"UPDATE {table} SET {column} = {value}")


# ── tenants, query plans, migrations ──────────────────────────────────────────────────────────────────────────────────


def test_tenants_are_isolated(postgres_url: str) -> None:
    first, second = (PostgresStore(f"{postgres_url}?tenant={name}", FixedClock()) for name in ("one", "other"))
    first_changeset = apply_knowledge(first, volume(1), Feedback(anomaly="x", verdict="note", about=(volume().ref,)))
    second_changeset = apply_knowledge(second, volume(2), Feedback(anomaly="x", verdict="note", about=(volume().ref,)))
    assert [row.says for row in first.domain.rows("thresholds")] == ["AAPL/volume: above 1"]
    assert [row.says for row in second.domain.naming(["aapl"])] == ["AAPL/volume: above 2"]
    assert [line.changeset for line in first.domain.history("thresholds", volume().id)] == [first_changeset.id]
    apply_knowledge(first, PurgeRow("thresholds", volume().id))
    assert second.domain.history("thresholds", volume().id) == [second.changeset(second_changeset.id).knowledge[0]]
    assert len(second.domain.rows("feedback", where={"about": volume().ref})) == 1
    assert first.domain.counts() == {**dict.fromkeys(TABLES, 0), "feedback": 1}
    assert second.domain.stated_by([1]) == []
    first.close()
    second.close()


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
def test_row_filters_use_an_index(tmp_path: Path, table: str, where: dict[str, object], index: str) -> None:
    file = StoreFile(tmp_path / "cofio.db")
    statements: list[str] = []
    with file.reading() as connection:
        connection.set_trace_callback(statements.append)
    SqlKnowledgeTables(file, FixedClock()).rows(table, where=where, limit=5)  # type: ignore[arg-type]
    with file.reading() as connection:
        connection.set_trace_callback(None)
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]
    file.close()
    assert any(index in step for step in plan), plan
    assert where or not any("TEMP B-TREE" in step for step in plan)


def test_sqlite_file_without_knowledge_tables_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    fifth = create_at_version(path, 5)
    insert_memory(fifth, 7, "the zebra stays")
    fifth.close()
    store = open_store(path)
    assert [memory.text for memory in everything(store)] == ["the zebra stays"]
    assert store.changeset(7).knowledge == ()
    assert store.domain.counts() == dict.fromkeys(TABLES, 0)
    result = apply_knowledge(store, volume())
    assert result.id == 8
    undo_knowledge(store, result.id)
    assert store.domain.counts() == dict.fromkeys(TABLES, 0)
    store.close()
    assert_consistent(path)


def test_postgres_database_without_knowledge_tables_is_migrated(empty_postgres_url: str) -> None:
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
    row = put_row(store, volume())
    assert store.domain.rows("thresholds") == [row]
    assert everything(store) == [memory]
    store.close()


def test_closed_store_raises_store_error(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.domain.counts()
    with pytest.raises(StoreError, match="closed"):
        apply_knowledge(store, volume())
