"""Restore of a backup in one transaction: on any error, the store is either the old one or the new one.

backup ─▶ checked ─▶ a copy, migrated and made newer than the store ─▶ written over the store
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cofio.errors import Conflict, InvalidInput, NotFound, StoreBusy, StoreCorrupt, StoreTooNew
from cofio.ports import Clock
from cofio.stores.sql_loader import migrations, queries
from cofio.stores.sqlite.connection import APPLICATION_ID, StoreFile, translated
from cofio.transfer.backup import (
    BESIDE,
    Progress,
    claim_name,
    copied,
    file_stamp,
    flush,
    open_connection,
    refuse_damaged,
    remove_leftovers,
    temporary_file,
)

_SQL = queries("sqlite")
_NEWEST = migrations("sqlite")[-1][0]
_PAGES = 16  # written at a time: less than the smallest store, so that it can be cancelled after the first step
_PATIENCE = 15.0  # seconds to wait for other writers


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """Result of a restore: the restored file, and the backup of the store that it replaced."""

    path: Path
    memories: int  # archived ones included
    kept: Path | None  # None if there was no store

    def as_dict(self) -> dict[str, Any]:
        return {"from": str(self.path), "memories": self.memories, "kept": str(self.kept) if self.kept else None}


class _ReservedIds(NamedTuple):
    """Values that a store has assigned, and must not assign again."""

    numbers: dict[str, int]  # the highest id of each table
    generation: int
    page_size: int
    identity: str = ""


def restore(
    file: Path, store: Path, folder: Path, clock: Clock, *, by: str = "library", progress: Progress | None = None
) -> RestoreResult:
    """Replace the store by a backup; the old store is kept in the folder first.

    Ids assigned since the backup are not reused, and processes that have the store open reload it.
    """
    check(file, store)
    with translated(store):
        if not store.exists() or not store.stat().st_size:
            StoreFile(store).close()
        remove_leftovers(store.parent)
        with temporary_file(store.parent) as half:
            with open_connection(file, "ro") as source, open_connection(half, "rw") as target:
                source.backup(target)
            at, who = clock(), (by, f"restore {file.name}")
            try:
                old_backup = _write_over(half, store, folder, at, who, progress)
            except StoreCorrupt:  # the old store is unreadable: replace the file itself
                _renew(half, _ReservedIds({}, 0, 4096), at, who)
                old_backup = _swap_files(half, store, folder, at)
            with open_connection(store, "rw") as connection:
                memories = connection.execute(_SQL["carried_counts"]).fetchone()[0]
    return RestoreResult(path=file, memories=memories, kept=old_backup)


def check(file: Path, store: Path) -> None:
    """Raise an error for a file that is missing, the store itself, not ours, damaged, or newer than this cofio."""
    if not file.is_file():
        raise NotFound(f"There is no file {file}.", "`cofio backup --list` lists the backups.")
    if store.exists() and file.samefile(store):
        hint = "`cofio backup --list` lists the backups."
        raise InvalidInput(f"{file} is the store itself, not a backup of it.", hint)
    with translated(file), open_connection(file, "ro") as connection:
        _refuse_strangers(connection, file)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _NEWEST:
            hint = "Upgrade cofio (pip install --upgrade cofio), then restore again."
            raise StoreTooNew(f"{file} was written by a newer cofio (schema {version}, known {_NEWEST}).", hint)
        refuse_damaged(connection, file, "integrity_check")


def _refuse_strangers(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        hint = "Name a backup; `cofio backup --list` lists them."
        raise InvalidInput(f"{path} is an SQLite file, but not a cofio store.", hint)


def _write_over(
    half: Path, store: Path, folder: Path, at: str, who: tuple[str, str], progress: Progress | None
) -> Path | None:
    """Write the copy over the store; return the backup of the old store, None if it never held anything."""
    with translated(store), open_connection(store, "rw") as watcher:
        _refuse_strangers(watcher, store)
        version = watcher.execute("PRAGMA data_version").fetchone()[0]
        identity = watcher.execute(_SQL["get_meta"], ("identity",)).fetchone()
        reserved = _ReservedIds(
            numbers=dict(watcher.execute(_SQL["sequences"]).fetchall()),
            generation=int(watcher.execute(_SQL["state"]).fetchone()[2]),
            page_size=watcher.execute("PRAGMA page_size").fetchone()[0],
            identity=identity[0] if identity else "",
        )
        backup = copied(store, folder, "before-restore", at).path if reserved.numbers else None
        _renew(half, reserved, at, who)
        with open_connection(half, "ro") as source, open_connection(store, "rw") as target:
            source.backup(target, pages=_PAGES, progress=_guard_progress(watcher, version, progress), sleep=0.05)
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return backup


def _renew(half: Path, reserved: _ReservedIds, at: str, who: tuple[str, str]) -> None:
    """Migrate the copy, and raise its sequences above those of the store."""
    file = StoreFile(half)  # migrates an older one
    try:
        with file.writing() as connection:
            for name, seq in reserved.numbers.items():
                if not connection.execute(_SQL["raise_sequence"], {"name": name, "seq": seq}).rowcount:
                    connection.execute(_SQL["set_sequence"], {"name": name, "seq": seq})
            if reserved.identity:  # the backup may be older than the store's name
                connection.execute(_SQL["make_identity"], (reserved.identity,))
            connection.execute(_SQL["open_changeset"], (at, *who, None, None))  # other processes reload
            generation = max(reserved.generation, int(connection.execute(_SQL["state"]).fetchone()[2])) + 1
            connection.execute(_SQL["set_meta"], {"name": "generation", "value": str(generation)})
        with file.alone() as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            if connection.execute("PRAGMA page_size").fetchone()[0] != reserved.page_size:
                connection.execute(f"PRAGMA page_size = {reserved.page_size}")
                connection.execute("VACUUM")
    finally:
        file.close()


def _guard_progress(
    watcher: sqlite3.Connection, version: int, progress: Progress | None
) -> Callable[[int, int, int], None]:
    """Return a progress callback that cancels the restore if another process writes to the store or holds it."""
    deadline = time.monotonic() + _PATIENCE

    def report(status: int, remaining: int, total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > deadline:
            hint = "The restore was not carried out. Stop that program, then restore again."
            raise StoreBusy("The store is locked by another program that writes to it.", hint)
        if remaining and watcher.execute("PRAGMA data_version").fetchone()[0] != version:
            hint = "The restore was not carried out. Stop programs that write to the store, then restore again."
            raise Conflict("Another program changed the store while the restore ran.", hint)
        if progress:
            progress(total - remaining, total)

    return report


def _swap_files(half: Path, store: Path, folder: Path, at: str) -> Path:
    """Replace a store that cannot be read by the copy; return the path under which the old one is kept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with temporary_file(folder) as copy:
        shutil.copyfile(store, copy)
        old_store = claim_name(copy, folder, f"damaged-{file_stamp(at)}")
    for end in BESIDE:
        beside = store.with_name(store.name + end)
        if beside.exists():
            shutil.copy2(beside, old_store.with_name(old_store.name + end))
            beside.unlink()
    flush(half)
    half.replace(store)
    flush(store.parent)
    return old_store
