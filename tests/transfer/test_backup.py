"""Backup, retention and restore; failures leave the store unchanged."""

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
from tests.stores.test_sqlite import assert_consistent
from tests.transfer.fixtures import export_lines, fill, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cofio.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "backups"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = open_store(path)
    store.snapshots.identity()
    fill(store)
    yield store
    store.close()


def texts(path: Path) -> set[str]:
    store = open_store(path)
    try:
        return {memory.text for memory in everything(store)}
    finally:
        store.close()


# ── backup ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_backup_is_one_private_complete_file(store: SqliteStore, path: Path, folder: Path) -> None:
    created = make(path, folder, FixedClock("2026-02-20T06:44:28Z"))
    assert created.path.name == "cofio-20260220T064429Z.db"
    assert [item.name for item in folder.iterdir()] == [created.path.name]
    assert stat.S_IMODE(created.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    copy = open_store(created.path)
    assert export_lines(copy, vectors=True) == export_lines(store, vectors=True)
    assert [changeset.id for changeset in copy.changesets(100)] == [changeset.id for changeset in store.changesets(100)]
    copy.close()


def test_backups_of_the_same_second_do_not_collide(store: SqliteStore, path: Path, folder: Path) -> None:
    del store
    names = [make(path, folder, FixedClock()).path.name for _ in range(3)]
    assert names == [f"cofio-20260101T000001Z{end}.db" for end in ("", "-2", "-3")]
    assert [item.path.name for item in backups(folder)] == names[::-1]
    assert latest(folder).name == names[-1]


_WRITER = """
import sys
from pathlib import Path
from cofio.models.memory import Add, Fact
from tests.transfer.fixtures import open_store
from tests.stores.contract import apply
store, number = open_store(Path(sys.argv[1])), 0
while True:
    number += 1
    apply(store, *(Add(Fact(text=f"pair {number} part {part} " + "x" * 500)) for part in (1, 2)))
    print(number, flush=True)
"""


def test_backup_during_writes_is_consistent_and_ends(store: SqliteStore, path: Path, folder: Path) -> None:
    apply(store, *(Add(Fact(text=f"memory {number} " + "word " * 200)) for number in range(400)))
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout
        assert writer.stdout.readline()
        created = [make(path, folder, FixedClock()) for _ in range(3)]
    finally:
        writer.kill()
        writer.communicate()
    for item in created:
        pairs = [text.split(" part ")[0] for text in texts(item.path) if text.startswith("pair")]
        assert pairs
        assert all(pairs.count(pair) == 2 for pair in pairs)  # no partial transaction


def test_backup_does_not_create_a_missing_store(path: Path, folder: Path) -> None:
    with pytest.raises(NotFound):
        make(path, folder, FixedClock())
    assert not path.exists()


def test_damaged_store_is_not_backed_up(store: SqliteStore, path: Path, folder: Path) -> None:
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


# ── retention ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_old_backups_are_deleted_by_the_time_in_their_names(folder: Path) -> None:
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
        os.utime(folder / name, (0, 0))  # modification times change when files are copied
    deleted = prune_backups(folder, 30, lambda: "2026-03-01T00:00:00.000000+00:00")
    assert {item.name for item in deleted} == set(old)
    assert {item.name for item in folder.iterdir()} == set(stays)


def test_newest_backup_is_kept_whatever_its_age(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("cofio-20250101T000000Z.db", "cofio-20250101T000000Z-2.db", "cofio-20250101T000000Z-10.db"):
        (folder / name).write_text("x")
    prune_backups(folder, 1, lambda: "2026-03-01T00:00:00.000000+00:00")
    assert [item.name for item in folder.iterdir()] == ["cofio-20250101T000000Z-10.db"]


def test_partial_files_of_killed_backups_are_deleted_later(folder: Path) -> None:
    folder.mkdir(parents=True)
    old, new = folder / ".cofio-0123456789abcdef.half", folder / ".cofio-0123456789abcdee.half"
    for item in (old, new):
        item.write_text("x")
    os.utime(old, (0, 0))
    prune_backups(folder, 30, FixedClock())
    assert list(folder.iterdir()) == [new]


def test_retention_of_zero_days_is_rejected(folder: Path) -> None:
    with pytest.raises(InvalidInput):
        prune_backups(folder, 0, FixedClock())


# ── restore ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_restore_replaces_the_store_and_keeps_a_backup(store: SqliteStore, path: Path, folder: Path) -> None:
    before = export_lines(store, vectors=True)
    created = make(path, folder, FixedClock())
    later = add(store, "learned after the backup")
    apply(store, Delete(1))
    memory_id = store.changesets(1)[0].id
    store.close()
    report = restore(created.path, path, folder, FixedClock())
    assert report.memories == len(before) - 1
    assert report.kept is not None
    assert "learned after the backup" in texts(report.kept)
    repeated = open_store(path)
    assert export_lines(repeated, vectors=True) == before
    assert repeated.changesets(1)[0].why == f"restore {created.path.name}"
    assert repeated.changesets(1)[0].id == memory_id + 1
    assert add(repeated, "next").id > later.id  # ids are not reused
    repeated.close()
    assert_consistent(path)
    assert sorted(item.name for item in path.parent.iterdir()) == ["backups", "cofio.db"]


def test_open_process_reads_the_restored_store(store: SqliteStore, path: Path, folder: Path) -> None:
    other = open_store(path)
    created = make(path, folder, FixedClock())
    deleted = add(store, "learned after the backup")
    team = Scope(source_prefix="codex")
    for item in (store, other):
        assert item.nearest(vector("learned after the backup"), 1, Scope())[0].id == deleted.id
        item.nearest(vector("deploy"), 3, team)
    restore(created.path, path, folder, FixedClock())
    for item in (store, other):
        assert item.get([deleted.id]) == []
        assert deleted.id not in [hit.id for hit in item.nearest(vector("learned after the backup"), 9, Scope())]
        assert item.matching(["learned"], 5, Scope()).candidates == ()
        assert add(item, "and on it goes").id > deleted.id
    other.close()


def test_restore_can_be_reverted_without_loss(store: SqliteStore, path: Path, folder: Path) -> None:
    created = make(path, folder, FixedClock())
    add(store, "learned after the backup")
    now = export_lines(store)
    stored = restore(created.path, path, folder, FixedClock("2026-02-01T00:00:00Z")).kept
    assert stored is not None
    restore(stored, path, folder, FixedClock("2026-03-01T00:00:00Z"))
    assert export_lines(store) == now


def test_backup_without_store_identity_keeps_it(path: Path, folder: Path) -> None:
    store = open_store(path)
    add(store, "before there was an export")
    created = make(path, folder, FixedClock())
    lines = export_lines(store)
    restore(created.path, path, folder, FixedClock())
    assert export_lines(store) == lines
    store.close()


def test_restore_creates_a_missing_store(store: SqliteStore, path: Path, folder: Path) -> None:
    created = make(path, folder, FixedClock())
    another = path.parent / "new" / "another.db"
    report = restore(created.path, another, folder, FixedClock())
    assert report.kept is None
    copy = open_store(another)
    assert export_lines(copy) == export_lines(store)
    copy.close()


def test_unreadable_store_is_set_aside_and_replaced(store: SqliteStore, path: Path, folder: Path) -> None:
    before = export_lines(store)
    created = make(path, folder, FixedClock())
    store.close()
    path.write_bytes(b"this was a database once\n" * 1000)
    report = restore(created.path, path, folder, FixedClock())
    assert report.kept is not None
    assert report.kept.read_bytes().startswith(b"this was")
    repeated = open_store(path)
    assert export_lines(repeated) == before
    repeated.close()


def test_damaged_store_is_set_aside_and_replaced(store: SqliteStore, path: Path, folder: Path) -> None:
    before = export_lines(store)
    created = make(path, folder, FixedClock())
    store.close()
    _damage(path)
    report = restore(created.path, path, folder, FixedClock())
    assert report.kept is not None
    repeated = open_store(path)
    assert export_lines(repeated) == before
    repeated.close()
    assert_consistent(path)


def test_backup_with_older_schema_is_migrated(path: Path, folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    connection = sqlite3.connect(old)
    connection.executescript(migrations("sqlite")[0][1])
    connection.executescript(f"PRAGMA user_version = {migrations('sqlite')[0][0]}; PRAGMA application_id = 0x636F6669;")
    connection.close()
    assert restore(old, path, folder, FixedClock()).memories == 0
    store = open_store(path)
    add(store, "it works")
    store.close()
    assert_consistent(path)


@pytest.mark.parametrize("page_size", [1024, 8192])
def test_backup_with_another_page_size_is_restored(
    store: SqliteStore, path: Path, folder: Path, page_size: int
) -> None:
    before = export_lines(store)
    created = make(path, folder, FixedClock())
    connection = sqlite3.connect(created.path)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("VACUUM")
    connection.close()
    add(store, "since")
    restore(created.path, path, folder, FixedClock())
    assert export_lines(store) == before


def test_invalid_restore_is_rejected_and_changes_nothing(
    store: SqliteStore, path: Path, folder: Path, tmp_path: Path
) -> None:
    before = export_lines(store)
    created = make(path, folder, FixedClock()).path
    text = tmp_path / "notes.txt"
    text.write_text("no database at all")
    stranger = tmp_path / "stranger.db"
    sqlite3.connect(stranger).executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    newer, damaged, empty = (tmp_path / f"{name}.db" for name in ("newer", "damaged", "empty"))
    for item in (newer, damaged):
        item.write_bytes(created.read_bytes())
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
        assert export_lines(store) == before, file
    assert [item.path for item in backups(folder)] == [created]


def test_database_of_another_program_is_not_overwritten(store: SqliteStore, path: Path, folder: Path) -> None:
    created = make(path, folder, FixedClock())
    stranger = path.parent / "stranger.db"
    with sqlite3.connect(stranger) as connection:
        connection.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    connection.close()
    before = stranger.read_bytes()
    with pytest.raises(InvalidInput, match="not a cofio store"):
        restore(created.path, stranger, folder, FixedClock())
    assert stranger.read_bytes() == before


def test_write_during_restore_cancels_it(
    store: SqliteStore, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = make(path, folder, FixedClock())

    def keeping(*given: object) -> backup.Backup:
        stored = backup.copied(*given)  # type: ignore[arg-type]
        add(store, "in the last moment")
        return stored

    monkeypatch.setattr(transfer_restore, "copied", keeping)
    with pytest.raises(Conflict, match="changed the store while the restore ran"):
        restore(created.path, path, folder, FixedClock())
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
    """Return backups of the store with and without its second half."""
    apply(store, *(Add(Fact(text=f"first {number} " + "word " * 40)) for number in range(150)))
    one = make(path, folder, FixedClock()).path
    apply(store, *(Add(Fact(text=f"second {number} " + "other " * 40)) for number in range(150)))
    two = make(path, folder, FixedClock()).path
    store.close()
    return one, two


@pytest.mark.timeout(300)
def test_killed_restore_leaves_one_of_both_states(two_states: tuple[Path, Path], path: Path, folder: Path) -> None:
    rng = random.Random(random.randrange(1 << 20))
    states = [texts(two_state) for two_state in two_states]
    observed = []
    for _ in range(15):
        command = [sys.executable, "-c", _RESTORER, *map(str, (*two_states, path, folder))]
        victim = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert victim.stdout
        assert victim.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.5))
        victim.kill()
        assert victim.wait() == -signal.SIGKILL
        victim.stdout.close()
        observed.append(texts(path))
        assert observed[-1] in states
    assert_consistent(path)
    for two_state in two_states:
        assert texts(two_state) in states


def test_restore_on_a_full_disk_changes_nothing(two_states: tuple[Path, Path], path: Path, folder: Path) -> None:
    before = texts(path)
    size = two_states[1].stat().st_size
    failures = 0
    for limit in (size // 3, size - 4096, size + 40_960):
        command = [sys.executable, "-c", _RESTORER, *map(str, (*two_states, path, folder)), str(limit)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            failures += 1
            assert "cofio.errors." in result.stderr  # with cofio's error message
            assert texts(path) == before
    assert failures >= 2
    assert not [item for item in folder.iterdir() if item.suffix == ".half"]
    restore(two_states[0], path, folder, FixedClock())
    assert texts(path) == texts(two_states[0])
