"""What the embedded store promises beyond the contract: one file, and whatever happens to it."""

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


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, FixedClock())


def shape(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """What a file is made of, but for comments and white space: SQLite puts an added column where it likes."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    )
    return [tuple(re.sub(r"--.*|\s", "", str(value)) for value in row) for row in rows]


def test_the_schema_is_where_the_migrations_lead(tmp_path: Path) -> None:
    fresh = sqlite3.connect(":memory:")
    for statement in statements(schema("sqlite")):
        fresh.execute(statement)
    opened(tmp_path / "cofio.db").close()
    migrated = sqlite3.connect(tmp_path / "cofio.db")
    assert shape(migrated) == shape(fresh)
    assert migrated.execute("PRAGMA user_version").fetchone()[0] == migrations("sqlite")[-1][0]
    assert migrated.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID


def test_migrations_are_numbered_without_gaps_and_queries_have_names() -> None:
    assert [number for number, _ in migrations("sqlite")] == list(range(1, len(migrations("sqlite")) + 1))
    assert all(text and ";" not in text for text in queries("sqlite").values())


def test_every_folder_and_file_that_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    tmp_path.chmod(0o755)
    try:
        store = SqliteStore(tmp_path / "a" / "b" / "cofio.db", FixedClock())
        add(store, "We use uv")
        made = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")}
        store.close()
    finally:
        os.umask(before)
    assert made == dict.fromkeys(("a", "b", "cofio.db", "cofio.db-wal", "cofio.db-shm"), 0)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_it_is_one_file_in_wal_mode_that_syncs_every_commit(tmp_path: Path) -> None:
    file = StoreFile(tmp_path / "cofio.db")
    with file.alone() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["cofio.db"]


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    memories = [add(store, f"memory number {place}") for place in range(5)]
    store.close()
    again = opened(tmp_path / "cofio.db")
    assert everything(again) == memories[::-1]
    assert again.nearest(vector("memory number 3"), 1, Scope())[0].id == memories[3].id
    again.close()


def test_a_second_process_that_writes_is_noticed_before_the_next_search(tmp_path: Path) -> None:
    here, there = opened(tmp_path / "cofio.db"), opened(tmp_path / "cofio.db")
    first = add(here, "red green blue")
    assert [c.id for c in there.nearest(vector("red green blue"), 5, Scope())] == [first.id]
    second = add(there, "red green yellow")
    third = add(here, "red green violet")
    assert {c.id for c in here.nearest(vector("red green"), 5, Scope())} == {first.id, second.id, third.id}
    apply(there, Purge(first.id))
    assert {c.id for c in here.nearest(vector("red green"), 5, Scope())} == {second.id, third.id}
    there.set_signature("other:64", reset=True)
    assert here.nearest(vector("red green"), 5, Scope()) == []
    there.put_vectors({second.id: vector("red green yellow")})
    assert [c.id for c in here.nearest(vector("red green"), 5, Scope())] == [second.id]
    here.close()
    there.close()


def test_another_embedder_in_another_process_stops_this_one(tmp_path: Path) -> None:
    here, there = opened(tmp_path / "cofio.db"), opened(tmp_path / "cofio.db")
    here.set_signature("one:64")
    memory = add(here, "red green blue")
    there.set_signature("two:64", reset=True)
    there.put_vectors({memory.id: vector("something else")})
    for attempt in (lambda: here.nearest(vector("red"), 1, Scope()), lambda: add(here, "mixed")):
        with pytest.raises(EmbedderMismatch, match="embedded with two:64, not with one:64"):
            attempt()
    assert len(everything(here)) == 1
    here.close()
    there.close()


def test_of_all_that_a_viewer_sees_no_more_rows_are_read_than_are_shown(tmp_path: Path) -> None:
    opened(tmp_path / "cofio.db").close()
    connection = sqlite3.connect(tmp_path / "cofio.db")
    where, values = condition(Scope(viewer=Viewer(user="ada", agent="codex", team="web")))
    text = queries("sqlite")["page"].format(columns=LISTED, where=where)
    asked = {**values, "after": 1 << 62, "limit": 50, "skip": 0}
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", asked)]
    connection.close()
    assert any("memories_by_audience" in step for step in plan), plan
    assert [step for step in plan if "memories_by_audience" in step and "COVERING" not in step] == [], plan


def test_a_large_store_is_searched_for_the_rarest_words_that_it_has(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    crowd = [Add(Fact(text=f"common memory number {place}", source="crowd")) for place in range(13_000)]
    store.apply(crowd, {}, by="test", why="")
    rare = [Add(Fact(text=f"common thing {place}", source="small")) for place in range(5)]
    store.apply([*rare, Add(Fact(text="common zirconium"))], {}, by="test", why="")
    assert len(store.matching(["common"], 10, Scope()).candidates) == 10
    assert len(store.matching(["neverheardof", "common"], 10, Scope()).candidates) == 10
    assert len(store.matching(["zirconium", "common"], 10, Scope()).candidates) == 1  # the common word was left out
    assert len(store.matching(["zirconium", "common"], 10, Scope(source="small")).candidates) == 5
    store.close()


def test_words_keep_their_weight_when_most_ids_are_gone(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    undo(store, apply(store, *(Add(Fact(text=f"imported {place}")) for place in range(300))).id)
    kafka = add(store, "the kafka queue")
    add(store, "cats sleep")
    found = store.matching(["kafka"], 5, Scope())
    assert found.candidates[0].id == kafka.id
    assert found.candidates[0].score > 0.3 * found.ideal > 0.1
    store.close()


def test_a_purge_leaves_no_word_in_the_log_either(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = opened(path)
    for place in range(3):
        secret = add(store, f"quixoticsecret{place} " * 3_000)
        apply(store, Edit(secret.id, {"tags": ["x"]}))
        store.note([Retrieval(secret.id, "where is quixoticsecret", "", "2026-01-01")])
        apply(store, Purge(secret.id))
        raw = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert b"quixoticsecret" not in raw, place
    store.close()


def test_a_purge_while_somebody_reads_is_done_and_wiped_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = opened(path)
    secret = add(store, "quixoticsecret")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM memories").fetchone() == (1,)
    apply(store, Purge(secret.id))
    assert everything(store) == []
    reader.execute("COMMIT")
    reader.close()
    add(store, "life goes on")
    assert b"quixoticsecret" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())
    store.close()


def test_a_log_that_cannot_be_written_keeps_nobody_waiting(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    memory = add(store, "kept")
    holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        store.note([Retrieval(memory.id, "q", "", "2026-01-01")])
    holder.execute("ROLLBACK")
    holder.close()
    store.close()


def test_a_purge_leaves_no_word_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = opened(path)
    kept = add(store, "the zebra stays")
    secret = add(store, "xylophonehunter2 is the password", context="quixoticsecret", tags=("zyzzyvatag",))
    apply(store, Purge(secret.id))
    apply(store, Add(Fact(text="life goes on")))
    store.close()
    raw = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    for word in (b"xylophonehunter2", b"quixoticsecret", b"zyzzyvatag"):
        assert word not in raw.lower()
    assert b"zebra" in raw
    assert opened(path).get([kept.id]) == [kept]


def test_a_file_of_a_newer_cofio_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    opened(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="Upgrade cofio"):
        opened(path)
    assert path.read_bytes() == before


def test_a_strangers_sqlite_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a cofio store"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"this is not a database, but it is long enough to look at" * 40, b"SQLite format 3\x00" + b"\xff" * 5000],
)
def test_what_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cofio.db"
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        opened(path)
    assert caught.value.hint
    assert path.read_bytes() == content


def test_damage_in_the_middle_is_told_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = opened(path)
    for place in range(200):
        add(store, f"memory number {place} " + "x" * 400)
    store.close()
    raw = bytearray(path.read_bytes())
    for page in range(3, len(raw) // 4096):
        raw[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(raw)
    with pytest.raises(StoreCorrupt, match="Restore a backup"):
        everything(opened(path))


def test_a_folder_or_a_path_that_cannot_be_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "cofio.db"):
        with pytest.raises(StoreError) as caught:
            opened(path)
        assert "Check the path" in caught.value.hint


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    kept = add(store, "kept")
    with store._file.alone() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own way to run out of room
    with pytest.raises(StoreError, match="full"):
        apply(store, *(Add(Fact(text=f"too much {place} " + "x" * 5_000)) for place in range(50)))
    assert everything(store) == [kept]
    with store._file.alone() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert add(store, "room again").id > kept.id
    store.close()


_LIMITED = """
import resource, signal, sys
from pathlib import Path
from cofio.errors import StoreError
from tests.stores.contract import add, everything
from tests.stores.test_sqlite import opened
store = opened(Path(sys.argv[1]))
kept = add(store, "kept")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
try:
    for place in range(500):
        add(store, f"memory {place} " + "x" * 4_000)
except StoreError as error:
    print(error.code, "|", error)
"""


def test_a_disk_that_takes_no_more_is_told_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    done = subprocess.run([sys.executable, "-c", _LIMITED, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("store_error |"), done.stdout + done.stderr
    store = opened(path)
    assert any(memory.text == "kept" for memory in everything(store))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    store.close()


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anything, and there is no setpriv"
)
def test_a_file_that_may_not_be_written_is_told_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = opened(path)
    add(store, "kept")
    store.close()
    before = path.read_bytes()
    script = (
        "import sys; from pathlib import Path; from cofio.errors import StoreError\n"
        "from tests.stores.contract import add; from tests.stores.test_sqlite import opened\n"
        "try: add(opened(Path(sys.argv[1])), 'never')\n"
        "except StoreError as error: print(error.code, '|', error)"
    )
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    command = [sys.executable, "-c", script, str(path)]
    if os.geteuid() == 0:  # only without root's powers do permissions mean anything
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        tmp_path.chmod(0o755)
        path.chmod(0o644)
    assert done.stdout.startswith("store_error |"), done.stdout + done.stderr
    assert "permissions" in done.stdout
    assert path.read_bytes() == before


def test_a_writer_that_never_ends_makes_others_busy_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.stores.sqlite.connection._BUSY_SECONDS", 0.2)
    store = opened(tmp_path / "cofio.db")
    store.set_signature("one:64")
    kept = add(store, "kept")
    holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="Try again"):
        add(store, "too early")
    assert everything(store) == [kept]  # readers do not wait for writers
    store.set_signature("one:64")
    holder.execute("ROLLBACK")
    holder.close()
    assert add(store, "now").id > kept.id
    store.close()


def test_rows_words_and_vectors_stay_in_step(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = opened(path)
    done = apply(store, *(Add(Fact(text=f"memory number {place}")) for place in range(20)))
    apply(store, Purge(done.changes[3].memory_id))
    undo(store, apply(store, Add(Fact(text="undone"))).id)
    store.close()
    assert_in_step(path)


def assert_in_step(path: Path) -> None:
    """The file is whole: SQLite and FTS5 say so, every row has its vector and every vector its row."""
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
