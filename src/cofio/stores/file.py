"""The SQLite file: opening, migrating, connections for many threads, and SQLite's errors in our words."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, LifoQueue

from cofio.errors import CofioError, StoreBusy, StoreCorrupt, StoreError, StoreTooNew
from cofio.stores.sources import migrations

APPLICATION_ID = 0x636F_6669  # "cofi": tells our files from any other SQLite file
BRIEFLY = 0.25  # seconds that what can be done later waits for its turn
_BUSY_SECONDS = 15.0
_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cache_size = -16384",
)
_NEWEST = migrations("sqlite")[-1][0]


class StoreFile:
    """One writer connection behind a lock, and as many reader connections as there are readers at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._readers: LifoQueue[sqlite3.Connection] = LifoQueue()
        self._closed = False
        with translated(path):
            for folder in reversed(path.parents):  # memories are for their owner's eyes
                folder.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._writer = self._connect()
            try:
                self._prepare()
            except BaseException:
                self._writer.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own to read with; it sees the latest commit of every process."""
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
                self._give_back(connection)

    @contextmanager
    def writing(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """The writer, inside a transaction that is committed at the end, or rolled back whole.

        StoreBusy when no turn came within `patience` seconds.
        """
        with translated(self.path), self._turn(_BUSY_SECONDS if patience is None else patience):
            self._refuse_if_closed()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # SQLite itself rolls back when the disk is full
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def alone(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """The writer outside a transaction, for what SQLite does not do inside one."""
        with translated(self.path), self._turn(_BUSY_SECONDS if patience is None else patience):
            self._refuse_if_closed()
            yield self._writer

    def empty_log(self) -> bool:
        """Wipe the write-ahead log, once the file has what is in it. False when somebody who reads was in the way."""
        with self.alone(BRIEFLY) as connection:
            return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    @contextmanager
    def _turn(self, patience: float) -> Iterator[None]:
        """This process's turn to write; other processes are waited for as long."""
        if not self._lock.acquire(timeout=patience):
            raise StoreBusy(f"{self.path} is being written.", f"{_UNCHANGED} Try again in a moment.")
        try:
            self._writer.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
            yield
        finally:
            self._lock.release()

    def size(self) -> int:
        """Bytes on disk, what waits in the write-ahead log included."""
        beside = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(each.stat().st_size for each in beside if each.exists())

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

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._readers.put(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        # FULL: what was acknowledged survives a power cut too, for a fraction of a millisecond a commit.
        # secure_delete: what is erased is overwritten, wherever it lay.
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _prepare(self) -> None:
        self._refuse_strangers()
        self._switch_to_wal()
        if self._version() < _NEWEST:
            self._migrate()

    def _refuse_strangers(self) -> None:
        self._writer.execute("BEGIN")  # of one moment: another process may be making the store right now
        try:
            version, owner = self._version(), self._writer.execute("PRAGMA application_id").fetchone()[0]
            empty = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        finally:
            self._writer.execute("COMMIT")
        if owner != APPLICATION_ID and not empty:
            raise StoreCorrupt(f"{self.path} is an SQLite file, but not one of cofio's.", "Name another file.")
        if version > _NEWEST:
            hint = "Upgrade cofio (pip install --upgrade cofio); the file was left as it is."
            raise StoreTooNew(f"{self.path} was written by a newer cofio (schema {version}, known {_NEWEST}).", hint)

    def _switch_to_wal(self) -> None:
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                # SQLite does not wait here while another process does the same.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def _migrate(self) -> None:
        with self.writing() as connection:
            for number, script in migrations("sqlite"):
                if number > self._version():  # another process may have been faster
                    for statement in statements(script):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {number}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _version(self) -> int:
        return int(self._writer.execute("PRAGMA user_version").fetchone()[0])


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one; a trigger's inner semicolons do not end it."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's and the file system's errors as ours, with what to do."""
    try:
        yield
    except CofioError:
        raise
    except sqlite3.Error as error:
        raise _ours(error, path) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}.", _CHECK) from error


def _ours(error: sqlite3.Error, path: Path) -> StoreError:
    said = str(error)
    for sign, kind, message, hint in _TRANSLATIONS:
        if sign in said:
            return kind(message.format(path=path), hint)
    return StoreError(f"{path} could not be used: {said}.", "If it persists, restore a backup.")


_CHECK = "Check the path and its permissions: a store has to be writable, also to be read."
_UNCHANGED = "Nothing was changed."
_TRANSLATIONS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("locked", StoreBusy, "{path} is held by another writer.", f"{_UNCHANGED} Try again in a moment."),
    ("full", StoreError, "The disk that holds {path} is full.", f"{_UNCHANGED} Free some space and try again."),
    (
        "readonly",
        StoreError,
        "{path} cannot be written.",
        f"{_UNCHANGED} Check the permissions of the file and its folder.",
    ),
    ("not a database", StoreCorrupt, "{path} is not an SQLite file.", "Name another file, or restore a backup."),
    (
        "disk image is malformed",
        StoreCorrupt,
        "{path} is damaged.",
        "Restore a backup; sqlite3's .recover may save what is left.",
    ),
    ("vtable constructor failed", StoreCorrupt, "{path} is damaged.", "Restore a backup."),
    ("corrupt", StoreCorrupt, "{path} is damaged.", "Restore a backup."),
    ("unable to open", StoreError, "{path} cannot be opened.", "Check the path, and that this user may write there."),
    ("disk I/O", StoreError, "The disk did not take a write to {path}.", f"{_UNCHANGED} Check the disk."),
)
