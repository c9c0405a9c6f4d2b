"""The SQLite store: files, damage, full disks and concurrent processes."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cofio.errors import EmbedderMismatch, StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from cofio.models.memory import Add, Edit, Fact, Purge, Retrieval, Scope, Viewer
from cofio.stores.filters import condition
from cofio.stores.row_mapping import LISTED
from cofio.stores.sql_loader import migrations, queries, schema
from cofio.stores.sqlite.connection import APPLICATION_ID, StoreFile, statements
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import add, apply, everything, undo, vector


def open_store(path: Path) -> SqliteStore:
    return SqliteStore(path, FixedClock())


def describe_schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Return the schema objects without comments, white space and quotes, which ALTER TABLE writes differently."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    )
    return [tuple(re.sub(r'--.*|\s|"', "", str(value)) for value in row) for row in rows]


def test_schema_equals_the_migrated_schema(tmp_path: Path) -> None:
    fresh = sqlite3.connect(":memory:")
    for statement in statements(schema("sqlite")):
        fresh.execute(statement)
    open_store(tmp_path / "cofio.db").close()
    migrated = sqlite3.connect(tmp_path / "cofio.db")
    assert describe_schema(migrated) == describe_schema(fresh)
    assert migrated.execute("PRAGMA user_version").fetchone()[0] == migrations("sqlite")[-1][0]
    assert migrated.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID


def test_migrations_are_numbered_without_gaps_and_queries_are_single_statements() -> None:
    assert [number for number, _ in migrations("sqlite")] == list(range(1, len(migrations("sqlite")) + 1))
    assert all(text and ";" not in text for text in queries("sqlite").values())


def test_created_folders_and_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    tmp_path.chmod(0o755)
    try:
        store = SqliteStore(tmp_path / "a" / "b" / "cofio.db", FixedClock())
        add(store, "We use uv")
        created = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")}
        store.close()
    finally:
        os.umask(before)
    assert created == dict.fromkeys(("a", "b", "cofio.db", "cofio.db-wal", "cofio.db-shm"), 0)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_database_uses_wal_and_full_sync(tmp_path: Path) -> None:
    file = StoreFile(tmp_path / "cofio.db")
    with file.alone() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["cofio.db"]


def test_written_data_is_persistent(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    memories = [add(store, f"memory number {index}") for index in range(5)]
    store.close()
    repeated = open_store(tmp_path / "cofio.db")
    assert everything(repeated) == memories[::-1]
    assert repeated.nearest(vector("memory number 3"), 1, Scope())[0].id == memories[3].id
    repeated.close()


def test_writes_of_another_process_are_visible_to_the_next_search(tmp_path: Path) -> None:
    first_store, second_store = open_store(tmp_path / "cofio.db"), open_store(tmp_path / "cofio.db")
    first = add(first_store, "red green blue")
    assert [c.id for c in second_store.nearest(vector("red green blue"), 5, Scope())] == [first.id]
    second = add(second_store, "red green yellow")
    third = add(first_store, "red green violet")
    assert {c.id for c in first_store.nearest(vector("red green"), 5, Scope())} == {first.id, second.id, third.id}
    apply(second_store, Purge(first.id))
    assert {c.id for c in first_store.nearest(vector("red green"), 5, Scope())} == {second.id, third.id}
    second_store.set_signature("other:64", reset=True)
    assert first_store.nearest(vector("red green"), 5, Scope()) == []
    second_store.put_vectors({second.id: vector("red green yellow")})
    assert [c.id for c in first_store.nearest(vector("red green"), 5, Scope())] == [second.id]
    first_store.close()
    second_store.close()


def test_new_embedder_in_another_process_rejects_writes_of_the_old_one(tmp_path: Path) -> None:
    first_store, second_store = open_store(tmp_path / "cofio.db"), open_store(tmp_path / "cofio.db")
    first_store.set_signature("one:64")
    memory = add(first_store, "red green blue")
    second_store.set_signature("two:64", reset=True)
    second_store.put_vectors({memory.id: vector("something else")})
    for attempt in (lambda: first_store.nearest(vector("red"), 1, Scope()), lambda: add(first_store, "mixed")):
        with pytest.raises(EmbedderMismatch, match="embedded with two:64, not with one:64"):
            attempt()
    assert len(everything(first_store)) == 1
    first_store.close()
    second_store.close()


def test_page_query_reads_no_more_rows_than_it_returns(tmp_path: Path) -> None:
    open_store(tmp_path / "cofio.db").close()
    connection = sqlite3.connect(tmp_path / "cofio.db")
    where, values = condition(Scope(viewer=Viewer(user="ada", agent="codex", team="web")))
    text = queries("sqlite")["page"].format(columns=LISTED, where=where)
    request = {**values, "after": 1 << 62, "limit": 50, "skip": 0}
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", request)]
    connection.close()
    assert any("memories_by_audience" in step for step in plan), plan
    assert [step for step in plan if "memories_by_audience" in step and "COVERING" not in step] == [], plan


def test_keyword_search_skips_frequent_words_in_a_large_store(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    crowd = [Add(Fact(text=f"common memory number {index}", source="crowd")) for index in range(13_000)]
    store.apply(crowd, {}, by="test", why="")
    rare = [Add(Fact(text=f"common thing {index}", source="small")) for index in range(5)]
    store.apply([*rare, Add(Fact(text="common zirconium"))], {}, by="test", why="")
    assert len(store.matching(["common"], 10, Scope()).candidates) == 10
    assert len(store.matching(["neverheardof", "common"], 10, Scope()).candidates) == 10
    assert len(store.matching(["zirconium", "common"], 10, Scope()).candidates) == 1  # the frequent word was skipped
    assert len(store.matching(["zirconium", "common"], 10, Scope(source="small")).candidates) == 5
    store.close()


def test_word_weights_are_unaffected_by_removed_ids(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    undo(store, apply(store, *(Add(Fact(text=f"imported {index}")) for index in range(300))).id)
    kafka = add(store, "the kafka queue")
    add(store, "cats sleep")
    results = store.matching(["kafka"], 5, Scope())
    assert results.candidates[0].id == kafka.id
    assert results.candidates[0].score > 0.3 * results.ideal > 0.1
    store.close()


def test_purged_text_is_removed_from_the_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = open_store(path)
    for index in range(3):
        secret = add(store, f"quixoticsecret{index} " * 3_000)
        apply(store, Edit(secret.id, {"tags": ["x"]}))
        store.note([Retrieval(secret.id, "where is quixoticsecret", "", "2026-01-01")])
        apply(store, Purge(secret.id))
        raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"quixoticsecret" not in raw, index
    store.close()


def test_purge_during_a_read_is_completed_by_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = open_store(path)
    secret = add(store, "quixoticsecret")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM memories").fetchone() == (1,)
    apply(store, Purge(secret.id))
    assert everything(store) == []
    reader.execute("COMMIT")
    reader.close()
    add(store, "life goes on")
    assert b"quixoticsecret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.close()


def test_locked_retrieval_log_fails_without_blocking(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    memory = add(store, "kept")
    holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        store.note([Retrieval(memory.id, "q", "", "2026-01-01")])
    holder.execute("ROLLBACK")
    holder.close()
    store.close()


def test_purged_text_is_removed_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = open_store(path)
    stored = add(store, "the zebra stays")
    secret = add(store, "xylophonehunter2 is the password", context="quixoticsecret", tags=("zyzzyvatag",))
    apply(store, Purge(secret.id))
    apply(store, Add(Fact(text="life goes on")))
    store.close()
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for word in (b"xylophonehunter2", b"quixoticsecret", b"zyzzyvatag"):
        assert word not in raw.lower()
    assert b"zebra" in raw
    assert open_store(path).get([stored.id]) == [stored]


def test_file_of_a_newer_version_is_rejected_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="Upgrade cofio"):
        open_store(path)
    assert path.read_bytes() == before


def test_foreign_sqlite_file_is_rejected_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a cofio store"):
        open_store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"this is not a database, but it is long enough to look at" * 40, b"SQLite format 3\x00" + b"\xff" * 5000],
)
def test_file_that_is_not_a_database_is_rejected_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cofio.db"
    path.write_bytes(content)
    with pytest.raises(StoreError) as error_info:
        open_store(path)
    assert error_info.value.hint
    assert path.read_bytes() == content


def test_damaged_file_raises_store_error(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = open_store(path)
    for index in range(200):
        add(store, f"memory number {index} " + "x" * 400)
    store.close()
    raw = bytearray(path.read_bytes())
    for page in range(3, len(raw) // 4096):
        raw[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(raw)
    with pytest.raises(StoreCorrupt, match="Restore a backup"):
        everything(open_store(path))


def test_unusable_path_raises_error_with_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "cofio.db"):
        with pytest.raises(StoreError) as error_info:
            open_store(path)
        assert "Check the path" in error_info.value.hint


def test_full_database_raises_error_and_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    stored = add(store, "kept")
    with store._file.alone() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")  # simulate a full disk
    with pytest.raises(StoreError, match="full"):
        apply(store, *(Add(Fact(text=f"too much {index} " + "x" * 5_000)) for index in range(50)))
    assert everything(store) == [stored]
    with store._file.alone() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert add(store, "room again").id > stored.id
    store.close()


_LIMITED = """
import resource, signal, sys
from pathlib import Path
from cofio.errors import StoreError
from tests.stores.contract import add, everything
from tests.stores.test_sqlite import open_store
store = open_store(Path(sys.argv[1]))
kept = add(store, "kept")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
try:
    for place in range(500):
        add(store, f"memory {place} " + "x" * 4_000)
except StoreError as error:
    print(error.code, "|", error)
"""


def test_disk_limit_raises_error_and_keeps_acknowledged_writes(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    result = subprocess.run([sys.executable, "-c", _LIMITED, str(path)], capture_output=True, text=True, check=False)
    assert result.stdout.startswith("store_error |"), result.stdout + result.stderr
    store = open_store(path)
    assert any(memory.text == "kept" for memory in everything(store))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    store.close()


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anything, and there is no setpriv"
)
def test_read_only_file_raises_error_and_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = open_store(path)
    add(store, "kept")
    store.close()
    before = path.read_bytes()
    script = (
        "import sys; from pathlib import Path; from cofio.errors import StoreError\n"
        "from tests.stores.contract import add; from tests.stores.test_sqlite import open_store\n"
        "try: add(open_store(Path(sys.argv[1])), 'never')\n"
        "except StoreError as error: print(error.code, '|', error)"
    )
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    command = [sys.executable, "-c", script, str(path)]
    if os.geteuid() == 0:  # root ignores file permissions
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        tmp_path.chmod(0o755)
        path.chmod(0o644)
    assert result.stdout.startswith("store_error |"), result.stdout + result.stderr
    assert "permissions" in result.stdout
    assert path.read_bytes() == before


def test_permanent_write_lock_raises_busy_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.stores.sqlite.connection._BUSY_SECONDS", 0.2)
    store = open_store(tmp_path / "cofio.db")
    store.set_signature("one:64")
    stored = add(store, "kept")
    holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="Try again"):
        add(store, "too early")
    assert everything(store) == [stored]  # reads do not wait for the writer
    store.set_signature("one:64")
    holder.execute("ROLLBACK")
    holder.close()
    assert add(store, "now").id > stored.id
    store.close()


def test_rows_words_and_vectors_stay_consistent(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = open_store(path)
    result = apply(store, *(Add(Fact(text=f"memory number {index}")) for index in range(20)))
    apply(store, Purge(result.changes[3].memory_id))
    undo(store, apply(store, Add(Fact(text="undone"))).id)
    store.close()
    assert_consistent(path)


def assert_consistent(path: Path) -> None:
    """Check the file with SQLite and FTS5, and that every row has exactly one vector."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    rows = {row[0] for row in connection.execute("SELECT id FROM memories")}
    assert {row[0] for row in connection.execute("SELECT memory_id FROM vectors")} == rows
    assert connection.execute(
        "SELECT count(*) FROM changes WHERE changeset_id NOT IN (SELECT id FROM changesets)"
    ).fetchone() == (0,)
    connection.close()
