"""The SQLite file: opening, migrations, connections for many threads, and translation of SQLite's errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any

from cofio.errors import CofioError, StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from cofio.models.diagnostics import Check, FailureMonitor
from cofio.stores.digests import fill_digests
from cofio.stores.filters import SQLITE
from cofio.stores.query_runner import BRIEFLY, NO_VALUES, Queries, Values
from cofio.stores.row_mapping import as_json
from cofio.stores.sql_loader import migrations, queries, query_text

APPLICATION_ID = 0x636F_6669  # "cofi": identifies our files among other SQLite files
_BUSY_SECONDS = 15.0
_LEAST_FREE = 8 * 1024 * 1024  # bytes: two write-ahead logs
_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cache_size = -16384",
)
_NEWEST = migrations("sqlite")[-1][0]
_SQL = queries("sqlite")


class SqliteConnection(sqlite3.Connection, Queries):
    """Connection to a store's file that runs the named queries."""

    dialect = SQLITE

    def run(self, name: str, values: Values = NO_VALUES, **parts: str) -> sqlite3.Cursor:
        return self.execute(query_text("sqlite", name, parts), values)

    def many(self, name: str, rows: Sequence[Values], **parts: str) -> None:
        self.executemany(query_text("sqlite", name, parts), rows)

    def listed(self, values: Iterable[Any]) -> str:
        return as_json(list(values))

    def tidy(self, name: str) -> None:
        self.run(name)

    def inconsistencies(self) -> list[str]:
        found = [str(row[0]) for row in self.execute("PRAGMA integrity_check(10)")]
        return [] if found == ["ok"] else found


class StoreFile:
    """One writer connection behind a lock, and one reader connection per concurrent reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._readers: LifoQueue[SqliteConnection] = LifoQueue()
        self._closed = False
        self._writes = FailureMonitor("store", StoreError)
        with translated(path):
            for folder in reversed(path.parents):  # memories are readable by their owner only
                folder.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._writer = self._connect()
            try:
                self._refuse_strangers()
                self._switch_to_wal()
                if self._read_version() < _NEWEST:
                    self._migrate()
            except BaseException:
                self._writer.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """Yield a reader connection of its own; it sees the latest commit of every process."""
        with translated(self.path):
            self._refuse_if_closed()
            try:
                connection = self._readers.get_nowait()
            except Empty:
                connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._readers.put(connection)

    @contextmanager
    def writing(self, patience: float | None = None, *, alone: bool = False) -> Iterator[SqliteConnection]:  # noqa: ARG002
        """Yield the writer connection in a transaction, committed at the end or rolled back on an error.

        Raise StoreBusy if the lock is not available within `patience` seconds. A file has one writer, so that each is
        alone.
        """
        with self._writes.watch(), self.alone(patience) as writer:
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:  # SQLite itself rolls back when the disk is full
                    writer.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[SqliteConnection]:
        """Yield a reader connection in a snapshot, taken at the first read."""
        with self.reading() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")

    @contextmanager
    def verifying(self) -> Iterator[SqliteConnection]:
        """Yield a reader connection that replaces bytes that are not UTF-8."""
        with self.reading() as connection:
            connection.text_factory = lambda text: text.decode(errors="replace")
            try:
                yield connection
            finally:
                connection.text_factory = str

    @contextmanager
    def alone(self, patience: float | None = None) -> Iterator[SqliteConnection]:
        """Yield the writer connection outside a transaction, for statements that SQLite does not allow inside one.

        Holds the process's write lock, and waits as long for locks of other processes.
        """
        patience = _BUSY_SECONDS if patience is None else patience
        with translated(self.path):
            if not self._lock.acquire(timeout=patience):
                raise StoreBusy(_LOCKED.format(path=self.path), _RETRY)
            try:
                self._writer.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
                self._refuse_if_closed()
                yield self._writer
            finally:
                self._lock.release()

    def empty_log(self) -> bool:
        """Checkpoint and truncate the write-ahead log. Return False if a concurrent reader prevented it."""
        with self.alone(BRIEFLY) as connection:
            return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    def truncate_log(self) -> None:
        with suppress(StoreError):  # a concurrent reader blocks it; the log is overwritten later
            self.empty_log()

    def problems(self) -> list[Check]:
        """Return why writing fails, or would: the last write's error, a full disk, or missing permissions."""
        try:
            disk = os.statvfs(self.path.parent)
        except OSError as error:
            return [Check("store", "wrong", f"{self.path.parent} cannot be read: {error.strerror}.", _CHECK)]
        if disk.f_bavail * disk.f_frsize < _LEAST_FREE:
            return [Check("store", "wrong", f"The disk that holds {self.path} is full.", "Free some space.")]
        if not all(os.access(path, os.W_OK) for path in (self.path, self.path.parent)):
            return [Check("store", "wrong", f"{self.path} cannot be written.", _CHECK)]
        return self._writes.problems()

    def size(self) -> int:
        """Return the bytes on disk, the write-ahead log included."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in files if path.exists())

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while True:
                try:
                    self._readers.get_nowait().close()
                except Empty:
                    break
            self._writer.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.", "Open it again with cofio.open().")

    def _connect(self) -> SqliteConnection:
        connection = sqlite3.connect(
            self.path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=SqliteConnection,
        )
        # FULL: an acknowledged commit survives a power cut, for a fraction of a millisecond per commit. secure_delete:
        # erased data is overwritten, wherever it was stored.
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _refuse_strangers(self) -> None:
        self._writer.execute("BEGIN")  # a consistent snapshot: another process may be creating the store right now
        try:
            version, owner = self._read_version(), self._writer.execute("PRAGMA application_id").fetchone()[0]
            empty = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        finally:
            self._writer.execute("COMMIT")
        if owner != APPLICATION_ID and not empty:
            raise StoreCorrupt(
                f"{self.path} is an SQLite file, but not a cofio store.", "Set COFIO_STORE or --store to another file."
            )
        if version > _NEWEST:
            hint = "Upgrade cofio (pip install --upgrade cofio); the file was left as it is."
            raise StoreTooNew(f"{self.path} was written by a newer cofio (schema {version}, known {_NEWEST}).", hint)

    def _switch_to_wal(self) -> None:
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                # SQLite does not wait here while another process switches too.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def _migrate(self) -> None:
        with self.writing() as connection:
            for number, script in migrations("sqlite"):
                if number > self._read_version():  # another process may have migrated already
                    for statement in statements(script):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {number}")
            fill_digests(connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _read_version(self) -> int:
        return int(self._writer.execute("PRAGMA user_version").fetchone()[0])


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; semicolons inside a trigger do not end a statement."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the file system into CofioError with a hint."""
    try:
        yield
    except CofioError:
        raise
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}.", _CHECK) from error


def _translate(error: sqlite3.Error, path: Path) -> StoreError:
    text = str(error)
    for sign, kind, message, hint in _TRANSLATIONS:
        if sign in text:
            return kind(message.format(path=path), hint)
    return StoreError(
        f"SQLite reported an error for {path}: {text}.", "Try again; if the error persists, restore a backup."
    )


_CHECK = "Check the path and its permissions: a store must be writable even for reading."
_UNCHANGED = "Nothing was changed."
_LOCKED, _RETRY = "{path} is locked by another program that writes to it.", f"{_UNCHANGED} Try again in a moment."
_DAMAGED = "{path} is damaged."
_RECOVER = "Restore a backup with `cofio restore`; without one, the command .recover of sqlite3 may save some data."
_PERMISSIONS = f"{_UNCHANGED} Check the permissions of the file and its folder."
_TRANSLATIONS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("locked", StoreBusy, _LOCKED, _RETRY),
    ("full", StoreError, "The disk that holds {path} is full.", f"{_UNCHANGED} Free some space and try again."),
    ("readonly", StoreError, "{path} cannot be written.", _PERMISSIONS),
    ("not a database", StoreCorrupt, "{path} is not an SQLite file.", "Name another file, or restore a backup."),
    ("disk image is malformed", StoreCorrupt, _DAMAGED, _RECOVER),
    ("vtable constructor failed", StoreCorrupt, _DAMAGED, "Restore a backup."),
    ("corrupt", StoreCorrupt, _DAMAGED, "Restore a backup."),
    ("unable to open", StoreError, "{path} cannot be opened.", "Check the path, and that this user may write there."),
    ("disk I/O", StoreError, "The disk reported an error for {path}.", f"{_UNCHANGED} Check the disk."),
)
