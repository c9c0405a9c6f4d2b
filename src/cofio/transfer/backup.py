"""Backups of an SQLite store: single files, made while others write, checked, and deleted after a number of days."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cofio.errors import InvalidInput, NotFound, StoreCorrupt
from cofio.models.memory import days_before, to_utc_iso
from cofio.ports import Clock
from cofio.stores.sqlite.connection import translated

BESIDE = ("-wal", "-shm", "-journal")  # endings of the files that SQLite creates beside a database
_MADE = re.compile(r"(cofio|before-restore)-(\d{8}T\d{6}Z)(?:-(\d+))?\.db")
_STAMP = "%Y%m%dT%H%M%SZ"
_HALF = re.compile(r"\.cofio-[0-9a-f]{16}\.half(-wal|-shm|-journal)?")
_STALE = 86_400  # seconds after which an unfinished copy is considered abandoned
_PAGES = 1_024  # copied at a time
_PATIENCE = 15.0
Progress: TypeAlias = Callable[[int, int], None]  # called with pages done and pages in all


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Backup file of a store."""

    path: Path
    at: str
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "at": self.at, "bytes": self.bytes}


def make(store: Path, folder: Path, clock: Clock, *, progress: Progress | None = None) -> Backup:
    """Copy the store into the folder while it is in use, and check the copy. Existing backups are never overwritten."""
    if not store.is_file():
        hint = "`cofio add` creates one; --store or COFIO_STORE names another."
        raise NotFound(f"There is no store at {store}.", hint)
    return copied(store, folder, "cofio", clock(), progress)


def run_scheduled_backup(store: Path, folder: Path, days: int, clock: Clock) -> dict[str, Any]:
    """Make a backup and remove expired ones; return a summary."""
    backup = make(store, folder, clock)
    return {**backup.as_dict(), "removed": [str(path) for path in prune_backups(folder, days, clock)]}


def backups(folder: Path) -> list[Backup]:
    """List the backups in the folder by the time in their names, newest first."""
    numbered: list[tuple[str, int, Backup]] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _MADE.fullmatch(path.name)
        if match and path.is_file():
            with suppress(ValueError):  # such as 31 February
                at = to_utc_iso(datetime.strptime(match[2], _STAMP).replace(tzinfo=UTC))
                numbered.append((at, int(match[3] or 1), Backup(path=path, at=at, bytes=path.stat().st_size)))
    return [backup for _, _, backup in sorted(numbered, key=lambda entry: entry[:2], reverse=True)]


def is_backup(name: str) -> bool:
    """Return whether it is the name of a backup file."""
    return _MADE.fullmatch(name) is not None


def latest(folder: Path) -> Path:
    """Return the newest regular backup. Raise NotFound if there is none."""
    for backup in backups(folder):
        if backup.path.name.startswith("cofio-"):
            return backup.path
    hint = "`cofio backup` creates one; to restore a backup from elsewhere, name its file."
    raise NotFound(f"There is no backup in {folder}.", hint)


def prune_backups(folder: Path, days: int, clock: Clock) -> list[Path]:
    """Remove backups older than so many days by the time in their names; return their paths.

    The newest regular backup is kept whatever its age, and no other file is touched. The store that a restore replaced
    counts as a backup too.
    """
    if days < 1:
        raise InvalidInput(f"Backups cannot be kept for {days} days.", "Give 1 day or more.")
    before = days_before(clock(), days)
    with translated(folder):
        existing = backups(folder)
        newest = next((backup.path for backup in existing if backup.path.name.startswith("cofio-")), None)
        old = [backup.path for backup in existing if backup.at < before and backup.path != newest]
        for path in old:
            path.unlink(missing_ok=True)
        remove_leftovers(folder)
    return old


@contextmanager
def open_connection(path: Path, mode: Literal["ro", "rw"]) -> Iterator[sqlite3.Connection]:
    """Yield a new connection outside a transaction; a file opened read-only is left without a trace."""
    alone = "" if mode == "rw" or path.with_name(path.name + "-wal").exists() else "&immutable=1"
    uri = f"{path.resolve().as_uri()}?mode={mode}{alone}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)) as connection:
        yield connection


@contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """Yield an empty file with a unique name; it is removed at the end, unless it was renamed."""
    for parent in reversed((folder, *folder.parents)):
        parent.mkdir(mode=0o700, exist_ok=True)
    half = folder / f".cofio-{secrets.token_hex(8)}.half"
    os.close(os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield half
    finally:
        for end in ("", *BESIDE):
            half.with_name(half.name + end).unlink(missing_ok=True)


def copied(store: Path, folder: Path, kind: str, at: str, progress: Progress | None = None) -> Backup:
    """Copy the store to a file of its own, named by kind and time."""
    stamp = file_stamp(at)
    with translated(folder), temporary_file(folder) as half:
        with translated(store), open_connection(store, "rw") as source, open_connection(half, "rw") as target:
            source.execute("BEGIN")  # a snapshot: otherwise every concurrent write would restart the copy
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            report = progress or (lambda _done, _total: None)
            source.backup(target, pages=_PAGES, progress=lambda _, left, total: report(total - left, total))
            source.execute("COMMIT")
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log
            refuse_damaged(target, store, "quick_check")
        flush(half)
        path = claim_name(half, folder, f"{kind}-{stamp}")
        flush(folder)
        return Backup(path=path, at=at, bytes=path.stat().st_size)


def claim_name(half: Path, folder: Path, name: str) -> Path:
    """Move the file to a free name, safely even if two are made in the same second; return the path."""
    for number in count(1):
        path = folder / (f"{name}.db" if number == 1 else f"{name}-{number}.db")
        try:
            os.link(half, path)  # unlike a rename, it never replaces
        except FileExistsError:
            continue
        except OSError:  # a file system without hard links
            if path.exists():
                continue
            half.rename(path)
        return path
    raise AssertionError


def file_stamp(at: str) -> str:
    """Return a time as used in the names of backups."""
    return datetime.fromisoformat(at).strftime(_STAMP)


def flush(path: Path) -> None:
    """Flush the file or folder to disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_damaged(connection: sqlite3.Connection, path: Path, check: str) -> None:
    """Raise StoreCorrupt unless SQLite finds the database intact."""
    verdict = connection.execute(f"PRAGMA {check}(1)").fetchone()[0]
    if verdict != "ok":
        hint = "`cofio backup --list` lists the backups; restore an intact one."
        raise StoreCorrupt(f"{path} is damaged: {verdict}.", hint)


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished copies of processes that were killed."""
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            if _HALF.fullmatch(path.name) and time.time() - path.stat().st_mtime > _STALE:
                path.unlink()
