"""Read access to another tool's SQLite file, without leaving a trace in it.

A file with pending changes beside it (`-wal`, `-journal`) is copied to a temporary folder and read there, because
SQLite would write beside the original. Rows are read in short pages, so that the tool is never locked out for long.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cofio.errors import InvalidInput

_MAGIC = b"SQLite format 3\x00"
_PAGE = 64  # rows
_LONGEST = 262_144  # characters read of a text; far more than a fact may have
_BIGGEST = 2 << 20  # bytes of a blob; a larger one is read as NULL
_TRIES = 5
_PATIENCE = 5.0  # seconds to wait for a lock


def is_database(path: Path) -> bool:
    """Return whether the file begins with the magic number of SQLite."""
    try:
        with path.open("rb") as file:
            return file.read(16) == _MAGIC
    except OSError:
        return False


def file_in(path: Path, name: str) -> Path:
    """Return the file of this name in a folder, or the path itself if it is a file."""
    return path / name if path.is_dir() else path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection for reading; errors are translated into InvalidInput."""
    if not is_database(path):
        hint = "Give the tool's own database file. Decrypt an encrypted database first."
        raise InvalidInput(f"{path} is not an SQLite database.", hint)
    with tempfile.TemporaryDirectory(prefix="cofio-import-") as folder, _translate_errors(path):
        is_changing = any(_get_stamp(_sibling(path, ending))[0] for ending in ("-wal", "-journal"))
        if is_changing:
            db = sqlite3.connect(_copy_database(path, Path(folder)), timeout=_PATIENCE)
        else:
            with path.open("rb") as file:
                is_wal = file.read(20)[18:20] == b"\x02\x02"
            # A file in WAL mode is opened as immutable, or SQLite would write beside it.
            mode = "mode=ro&immutable=1" if is_wal else "mode=ro"
            db = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=_PATIENCE)
        try:
            db.text_factory = lambda raw: raw.decode("utf-8", "replace")
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA query_only = ON")
            yield db
        finally:
            db.close()


def tables(db: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the tables and their columns; not views and virtual tables, which may run code when read."""
    names = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    real = [row["name"] for row in names if not str(row["sql"]).upper().startswith("CREATE VIRTUAL")]
    return {name: [row["name"] for row in db.execute(f"PRAGMA table_info({_quote(name)})")] for name in real}


def shapes(path: Path) -> dict[str, list[str]]:
    """Return the tables of a file and their columns; none if it is not a readable database."""
    if not path.is_file() or not is_database(path):
        return {}
    try:
        with opened(path) as db:
            return tables(db)
    except InvalidInput:
        return {}


def rows(db: sqlite3.Connection, table: str, columns: Iterable[str], where: str = "1") -> Iterator[sqlite3.Row]:
    """Yield the rows that match, in the order of insertion."""
    selected = ", ".join(
        f"CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {_LONGEST})"
        f" WHEN 'blob' THEN CASE WHEN length({name}) <= {_BIGGEST} THEN {name} END ELSE {name} END AS {name}"
        for name in map(_quote, columns)
    )
    query = (
        f"SELECT rowid AS at_row, {selected} FROM {_quote(table)} WHERE rowid > ? AND ({where}) ORDER BY rowid LIMIT ?"
    )
    last = -(1 << 63)
    while page := db.execute(query, (last, _PAGE)).fetchall():
        yield from page
        last = page[-1]["at_row"]


def total(db: sqlite3.Connection, table: str, where: str = "1") -> int:
    """Return the number of rows that match."""
    (number,) = db.execute(f"SELECT count(*) FROM {_quote(table)} WHERE {where}").fetchone()
    return int(number)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise InvalidInput(f"{path} is locked.", "Stop the tool that writes to it, then try again.") from error
        hint = "The database may be damaged, or be written by another version of the tool."
        raise InvalidInput(f"{path} cannot be read: {error}.", hint) from error
    except sqlite3.DatabaseError as error:
        hint = "It is damaged, or encrypted; give a copy that the tool itself can open."
        raise InvalidInput(f"{path} cannot be read: {error}.", hint) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error


def _copy_database(path: Path, folder: Path) -> Path:
    """Copy the file and its pending changes as a consistent set, again if they changed meanwhile; return the copy."""
    parts = {ending: _sibling(path, ending) for ending in ("", "-wal", "-journal")}
    for _ in range(_TRIES):
        before = [_get_stamp(part) for part in parts.values()]
        for ending, part in parts.items():
            copy = folder / f"copy.db{ending}"
            copy.unlink(missing_ok=True)
            if _get_stamp(part)[0]:
                shutil.copyfile(part, copy)
        if before == [_get_stamp(part) for part in parts.values()]:
            return folder / "copy.db"
    raise InvalidInput(f"{path} is being written to.", "Stop the tool that writes to it, then try again.")


def _sibling(path: Path, ending: str) -> Path:
    real = path.resolve()
    return real.with_name(real.name + ending)


def _get_stamp(path: Path) -> tuple[int, int]:
    """Return size and modification time; zeros for a missing file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
