"""Backups are whole, are kept by their time, and come back; what goes wrong leaves the store as it was."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound, StoreCorrupt, StoreTooNew
from cofio.models.memory import Add, Delete, Fact, Scope
from cofio.stores.sql_loader import migrations
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from cofio.transfer import backup
from cofio.transfer import restore as transfer_restore
from cofio.transfer.backup import backups, latest, make, prune_backups
from cofio.transfer.restore import restore
from tests.stores.contract import add, apply, everything, vector
from tests.stores.test_sqlite import assert_in_step
from tests.transfer.fixtures import exported, fill, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cofio.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "backups"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = opened(path)
    store.snapshots.identity()
    fill(store)
    yield store
    store.close()


def texts(path: Path) -> set[str]:
    store = opened(path)
    try:
        return {memory.text for memory in everything(store)}
    finally:
        store.close()


# ── making ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_is_one_file_for_its_owner_and_holds_everything(store: SqliteStore, path: Path, folder: Path) -> None:
    made = make(path, folder, FixedClock("2026-02-20T06:44:28Z"))
    assert made.path.name == "cofio-20260220T064429Z.db"
    assert [each.name for each in folder.iterdir()] == [made.path.name]
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    copy = opened(made.path)
    assert exported(copy, vectors=True) == exported(store, vectors=True)
    assert [changeset.id for changeset in copy.changesets(100)] == [changeset.id for changeset in store.changesets(100)]
    copy.close()


def test_backups_of_the_same_second_do_not_meet(store: SqliteStore, path: Path, folder: Path) -> None:
    del store
    names = [make(path, folder, FixedClock()).path.name for _ in range(3)]
    assert names == [f"cofio-20260101T000001Z{end}.db" for end in ("", "-2", "-3")]
    assert [each.path.name for each in backups(folder)] == names[::-1]
    assert latest(folder).name == names[-1]


_WRITER = """
import sys
from pathlib import Path
from cofio.models.memory import Add, Fact
from tests.transfer.fixtures import opened
from tests.stores.contract import apply
store, number = opened(Path(sys.argv[1])), 0
while True:
    number += 1
    apply(store, *(Add(Fact(text=f"pair {number} part {part} " + "x" * 500)) for part in (1, 2)))
    print(number, flush=True)
"""


def test_a_backup_is_whole_and_comes_to_an_end_while_others_write(store: SqliteStore, path: Path, folder: Path) -> None:
    apply(store, *(Add(Fact(text=f"memory {number} " + "word " * 200)) for number in range(400)))
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout
        assert writer.stdout.readline()
        made = [make(path, folder, FixedClock()) for _ in range(3)]
    finally:
        writer.kill()
        writer.communicate()
    for each in made:
        pairs = [text.split(" part ")[0] for text in texts(each.path) if text.startswith("pair")]
        assert pairs
        assert all(pairs.count(pair) == 2 for pair in pairs)  # no transaction is cut in half


def test_a_store_that_is_not_there_is_not_made_by_a_backup(path: Path, folder: Path) -> None:
    with pytest.raises(NotFound):
        make(path, folder, FixedClock())
    assert not path.exists()


def test_a_damaged_store_gives_no_backup(store: SqliteStore, path: Path, folder: Path) -> None:
    store.close()
    _damage(path)
    with pytest.raises(StoreCorrupt):
        make(path, folder, FixedClock())
    assert list(folder.iterdir()) == []


def _damage(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        for page in range(8, size // 4096, 3):
            file.seek(4096 * page)
            file.write(b"\xa5" * 4096)


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_old_backups_go_by_the_time_in_their_names_and_nothing_else_does(folder: Path) -> None:
    folder.mkdir(parents=True)
    old = ["cofio-20260101T000000Z.db", "cofio-20260101T000000Z-2.db", "before-restore-20260110T000000Z.db"]
    stays = [
        "cofio-20260225T000000Z.db",
        "before-restore-20260226T000000Z.db",
        "cofio-20250101T000000Z.db.bak",
        "my-cofio-20250101T000000Z.db",
        "cofio-20251399T000000Z.db",
        "damaged-20250101T000000Z.db",
        "notes.txt",
    ]
    for name in old + stays:
        (folder / name).write_text("x")
        os.utime(folder / name, (0, 0))  # the time of the file says nothing: copying and syncing move it
    gone = prune_backups(folder, 30, lambda: "2026-03-01T00:00:00.000000+00:00")
    assert {each.name for each in gone} == set(old)
    assert {each.name for each in folder.iterdir()} == set(stays)


def test_the_newest_backup_stays_however_old_it_is(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("cofio-20250101T000000Z.db", "cofio-20250101T000000Z-2.db", "cofio-20250101T000000Z-10.db"):
        (folder / name).write_text("x")
    prune_backups(folder, 1, lambda: "2026-03-01T00:00:00.000000+00:00")
    assert [each.name for each in folder.iterdir()] == ["cofio-20250101T000000Z-10.db"]


def test_what_a_killed_backup_left_is_swept_once_it_is_old(folder: Path) -> None:
    folder.mkdir(parents=True)
    old, new = folder / ".cofio-0123456789abcdef.half", folder / ".cofio-0123456789abcdee.half"
    for each in (old, new):
        each.write_text("x")
    os.utime(old, (0, 0))
    prune_backups(folder, 30, FixedClock())
    assert list(folder.iterdir()) == [new]


def test_backups_cannot_be_kept_for_no_time(folder: Path) -> None:
    with pytest.raises(InvalidInput):
        prune_backups(folder, 0, FixedClock())


# ── restoring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_restore_brings_the_store_back_and_keeps_what_was_there(store: SqliteStore, path: Path, folder: Path) -> None:
    before = exported(store, vectors=True)
    made = make(path, folder, FixedClock())
    later = add(store, "learned after the backup")
    apply(store, Delete(1))
    number = store.changesets(1)[0].id
    store.close()
    told = restore(made.path, path, folder, FixedClock())
    assert told.memories == len(before) - 1
    assert told.kept is not None
    assert "learned after the backup" in texts(told.kept)
    again = opened(path)
    assert exported(again, vectors=True) == before
    assert again.changesets(1)[0].why == f"restore {made.path.name}"
    assert again.changesets(1)[0].id == number + 1
    assert add(again, "next").id > later.id  # no id is given twice
    again.close()
    assert_in_step(path)
    assert sorted(each.name for each in path.parent.iterdir()) == ["backups", "cofio.db"]


def test_a_process_that_has_the_store_open_reads_it_anew(store: SqliteStore, path: Path, folder: Path) -> None:
    other = opened(path)
    made = make(path, folder, FixedClock())
    gone = add(store, "learned after the backup")
    team = Scope(source_prefix="codex")
    for each in (store, other):
        assert each.nearest(vector("learned after the backup"), 1, Scope())[0].id == gone.id
        each.nearest(vector("deploy"), 3, team)
    restore(made.path, path, folder, FixedClock())
    for each in (store, other):
        assert each.get([gone.id]) == []
        assert gone.id not in [found.id for found in each.nearest(vector("learned after the backup"), 9, Scope())]
        assert each.matching(["learned"], 5, Scope()).candidates == ()
        assert add(each, "and on it goes").id > gone.id
    other.close()


def test_a_restore_that_is_restored_back_loses_nothing(store: SqliteStore, path: Path, folder: Path) -> None:
    made = make(path, folder, FixedClock())
    add(store, "learned after the backup")
    now = exported(store)
    kept = restore(made.path, path, folder, FixedClock("2026-02-01T00:00:00Z")).kept
    assert kept is not None
    restore(kept, path, folder, FixedClock("2026-03-01T00:00:00Z"))
    assert exported(store) == now


def test_a_backup_that_is_older_than_the_store_s_name_does_not_take_it_away(path: Path, folder: Path) -> None:
    store = opened(path)
    add(store, "before there was an export")
    made = make(path, folder, FixedClock())
    lines = exported(store)
    restore(made.path, path, folder, FixedClock())
    assert exported(store) == lines
    store.close()


def test_a_restore_makes_a_store_where_there_is_none(store: SqliteStore, path: Path, folder: Path) -> None:
    made = make(path, folder, FixedClock())
    another = path.parent / "new" / "another.db"
    told = restore(made.path, another, folder, FixedClock())
    assert told.kept is None
    copy = opened(another)
    assert exported(copy) == exported(store)
    copy.close()


def test_a_store_that_cannot_be_read_is_set_aside_and_replaced(store: SqliteStore, path: Path, folder: Path) -> None:
    before = exported(store)
    made = make(path, folder, FixedClock())
    store.close()
    path.write_bytes(b"this was a database once\n" * 1000)
    told = restore(made.path, path, folder, FixedClock())
    assert told.kept is not None
    assert told.kept.read_bytes().startswith(b"this was")
    again = opened(path)
    assert exported(again) == before
    again.close()


def test_a_damaged_store_is_set_aside_too(store: SqliteStore, path: Path, folder: Path) -> None:
    before = exported(store)
    made = make(path, folder, FixedClock())
    store.close()
    _damage(path)
    told = restore(made.path, path, folder, FixedClock())
    assert told.kept is not None
    again = opened(path)
    assert exported(again) == before
    again.close()
    assert_in_step(path)


def test_an_older_backup_is_brought_up_to_date(path: Path, folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    connection = sqlite3.connect(old)
    connection.executescript(migrations("sqlite")[0][1])
    connection.executescript(f"PRAGMA user_version = {migrations('sqlite')[0][0]}; PRAGMA application_id = 0x636F6669;")
    connection.close()
    assert restore(old, path, folder, FixedClock()).memories == 0
    store = opened(path)
    add(store, "it works")
    store.close()
    assert_in_step(path)


@pytest.mark.parametrize("page_size", [1024, 8192])
def test_a_backup_with_pages_of_another_size_is_restored_too(
    store: SqliteStore, path: Path, folder: Path, page_size: int
) -> None:
    before = exported(store)
    made = make(path, folder, FixedClock())
    connection = sqlite3.connect(made.path)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("VACUUM")
    connection.close()
    add(store, "since")
    restore(made.path, path, folder, FixedClock())
    assert exported(store) == before


def test_what_cannot_be_restored_is_refused_and_the_store_is_as_it_was(
    store: SqliteStore, path: Path, folder: Path, tmp_path: Path
) -> None:
    before = exported(store)
    made = make(path, folder, FixedClock()).path
    text = tmp_path / "notes.txt"
    text.write_text("no database at all")
    stranger = tmp_path / "stranger.db"
    sqlite3.connect(stranger).executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    newer, damaged, empty = (tmp_path / f"{name}.db" for name in ("newer", "damaged", "empty"))
    for each in (newer, damaged):
        each.write_bytes(made.read_bytes())
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    _damage(damaged)
    empty.touch()
    link = tmp_path / "link.db"
    link.symlink_to(path)
    refusals: list[tuple[Path, type[Exception]]] = [
        (tmp_path / "nothing.db", NotFound),
        (tmp_path, NotFound),
        (text, StoreCorrupt),
        (stranger, InvalidInput),
        (empty, InvalidInput),
        (newer, StoreTooNew),
        (damaged, StoreCorrupt),
        (path, InvalidInput),
        (link, InvalidInput),
    ]
    for file, kind in refusals:
        with pytest.raises(kind):
            restore(file, path, folder, FixedClock())
        assert exported(store) == before, file
    assert [each.path for each in backups(folder)] == [made]


def test_another_program_s_database_is_not_written_over(store: SqliteStore, path: Path, folder: Path) -> None:
    made = make(path, folder, FixedClock())
    stranger = path.parent / "stranger.db"
    with sqlite3.connect(stranger) as connection:
        connection.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    connection.close()
    before = stranger.read_bytes()
    with pytest.raises(InvalidInput, match="not a cofio store"):
        restore(made.path, stranger, folder, FixedClock())
    assert stranger.read_bytes() == before


def test_what_is_written_between_keeping_and_restoring_calls_it_off(
    store: SqliteStore, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(path, folder, FixedClock())

    def keeping(*given: object) -> backup.Backup:
        kept = backup.copied(*given)  # type: ignore[arg-type]
        add(store, "in the last moment")
        return kept

    monkeypatch.setattr(transfer_restore, "copied", keeping)
    with pytest.raises(Conflict, match="changed while it was backed up"):
        restore(made.path, path, folder, FixedClock())
    assert "in the last moment" in {memory.text for memory in everything(store)}
    add(store, "and it still works")


_RESTORER = """
import resource, signal, sys
from pathlib import Path
from cofio.testing import FixedClock
from cofio.transfer.restore import restore
one, two, store, folder = map(Path, sys.argv[1:5])
if len(sys.argv) > 5:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[5]), int(sys.argv[5])))
print("ready", flush=True)
while True:
    for each in (one, two):
        restore(each, store, folder, FixedClock())
        for kept in folder.glob("before-restore-*"):
            kept.unlink()
        if len(sys.argv) > 5:
            sys.exit(0)
"""


@pytest.fixture
def two_states(store: SqliteStore, path: Path, folder: Path) -> tuple[Path, Path]:
    """Backups of the store with and without a second half of it."""
    apply(store, *(Add(Fact(text=f"first {number} " + "word " * 40)) for number in range(150)))
    one = make(path, folder, FixedClock()).path
    apply(store, *(Add(Fact(text=f"second {number} " + "other " * 40)) for number in range(150)))
    two = make(path, folder, FixedClock()).path
    store.close()
    return one, two


@pytest.mark.timeout(300)
def test_a_restore_that_is_killed_at_any_moment_leaves_one_state_or_the_other(
    two_states: tuple[Path, Path], path: Path, folder: Path
) -> None:
    rng = random.Random(random.randrange(1 << 20))
    states = [texts(two_state) for two_state in two_states]
    seen = []
    for _ in range(15):
        command = [sys.executable, "-c", _RESTORER, *map(str, (*two_states, path, folder))]
        victim = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert victim.stdout
        assert victim.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.5))
        victim.kill()
        assert victim.wait() == -signal.SIGKILL
        victim.stdout.close()
        seen.append(texts(path))
        assert seen[-1] in states
    assert_in_step(path)
    for two_state in two_states:
        assert texts(two_state) in states


def test_a_disk_that_is_full_leaves_the_store_as_it_was(
    two_states: tuple[Path, Path], path: Path, folder: Path
) -> None:
    before = texts(path)
    size = two_states[1].stat().st_size
    failures = 0
    for limit in (size // 3, size - 4096, size + 40_960):
        command = [sys.executable, "-c", _RESTORER, *map(str, (*two_states, path, folder)), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            failures += 1
            assert "cofio.errors." in done.stderr  # in our words
            assert texts(path) == before
    assert failures >= 2
    assert not [each for each in folder.iterdir() if each.suffix == ".half"]
    restore(two_states[0], path, folder, FixedClock())
    assert texts(path) == texts(two_states[0])
