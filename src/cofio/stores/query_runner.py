"""Access to an SQL database, whichever its dialect: connections that run named queries.

    Database ─ reading, writing, snapshot ─▶ Queries ─ name, values ─▶ rows

The adapters of the SQL stores are written once, against these two; the dialects differ in their `queries.sql`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from cofio.models.diagnostics import Check
from cofio.models.memory import Candidate, Matching, Scope, to_utc_iso
from cofio.ports import Clock, Vector
from cofio.stores.filters import Dialect, condition
from cofio.stores.row_mapping import storable_ids

BRIEFLY = 0.25  # seconds that a deferrable write waits for a lock
LAST_ID = (1 << 63) - 1  # not below any id
Values = Mapping[str, Any]
Row = tuple[Any, ...]
NO_VALUES: Final[Values] = {}
_BATCH = 10_000  # rows deleted in one transaction


class Queries:
    """Connection that runs the named queries of its dialect; `parts` are filled into their braces."""

    dialect: Dialect

    def run(self, name: str, values: Values = NO_VALUES, **parts: str) -> Any:
        """Return the cursor of a named query."""
        raise NotImplementedError

    def many(self, name: str, rows: Sequence[Values], **parts: str) -> None:
        """Run the query for each of these rows."""
        raise NotImplementedError

    def listed(self, values: Iterable[Any]) -> Any:
        """Return many values as one parameter."""
        raise NotImplementedError

    def to_vector(self, blob: bytes) -> Any:
        """Return a vector of little-endian float32 numbers as a parameter."""
        return blob

    def to_blob(self, vector: Any) -> bytes:
        """Return a vector that was read as little-endian float32 numbers."""
        return vector  # type: ignore[no-any-return]

    def lock(self, name: str) -> None:
        """Take the lock of this name among all processes of the store, until the transaction ends."""

    def inconsistencies(self) -> list[str]:
        """Return what the database finds wrong in its own files, if it can examine them."""
        return []

    def tidy(self, name: str) -> None:
        """Run a query that removes traces of deleted words from an index, if the dialect needs it."""

    def all(self, name: str, values: Values = NO_VALUES, **parts: str) -> list[Row]:
        """Return all rows."""
        return self.run(name, values, **parts).fetchall()  # type: ignore[no-any-return]

    def one(self, name: str, values: Values = NO_VALUES, **parts: str) -> Row | None:
        """Return the first row, if there is any."""
        rows = self.all(name, values, **parts)
        return rows[0] if rows else None

    def value(self, name: str, values: Values = NO_VALUES, **parts: str) -> Any:
        """Return the first value of the first row; None if there is no row."""
        row = self.one(name, values, **parts)
        return row[0] if row else None

    def column(self, name: str, values: Values = NO_VALUES, **parts: str) -> list[Any]:
        """Return the first value of each row."""
        return [row[0] for row in self.all(name, values, **parts)]

    def count(self, name: str, values: Values = NO_VALUES, **parts: str) -> int:
        """Return the number of rows that the query changed."""
        return int(self.run(name, values, **parts).rowcount)

    def within(self, scope: Scope, name: str, values: Values = NO_VALUES, **parts: str) -> list[Row]:
        """Return all rows of a query about the memories of a scope."""
        where, bounds = condition(scope, self.dialect)
        return self.all(name, {**bounds, **values}, where=where, **parts)

    def ids(self, ids: Iterable[int]) -> Any:
        """Return the ids that a column can hold, as one parameter."""
        return self.listed(storable_ids(ids))


class Database(Protocol):
    """Database of a store, shared by threads and processes."""

    def reading(self) -> AbstractContextManager[Queries]:
        """Return a connection to read with; each statement sees the latest commit of every process."""

    def writing(self, patience: float | None = None, *, alone: bool = False) -> AbstractContextManager[Queries]:
        """Return a transaction, committed at the end or rolled back on an error.

        Raise StoreBusy if a lock takes longer than `patience` seconds. With `alone`, no other process of the store is
        inside one at the same time.
        """

    def snapshot(self) -> AbstractContextManager[Queries]:
        """Return a snapshot: it stays the same however long it is read, and whatever is written meanwhile."""

    def problems(self) -> list[Check]:
        """Return why writing fails, if it does."""

    def verifying(self) -> AbstractContextManager[Queries]:
        """Return a connection that reads damaged text too."""

    def truncate_log(self) -> None:
        """Remove deleted words from the write-ahead log, if the database has one that can be read as a file."""


class SearchIndex(Protocol):
    """Search of rows that have vectors and words: memories, or passages of episodes."""

    def nearest(self, vector: Vector, k: int, scope: Scope, also: Iterable[int] = ()) -> list[Candidate]:
        """Return the k rows of the scope with the highest cosine, best first, then the others of `also`."""

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        """Return the k rows of the scope with the highest BM25 for any of the words, best first."""

    @property
    def unusable(self) -> int:
        """Number of rows known to have a damaged vector."""

    def damaged(self) -> list[int]:
        """Read every vector; return the rows whose vector is not finite, of another length, or not of unit length."""


class SqlAdapter:
    """Part of an SQL store. The dialects differ in the named queries that it runs."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def _reading(self) -> AbstractContextManager[Queries]:
        return self._database.reading()

    def _read(self, name: str, values: Values = NO_VALUES, **parts: str) -> list[Row]:
        with self._reading() as queries:
            return queries.all(name, values, **parts)

    def _read_ids(self, name: str, ids: Iterable[int], values: Values = NO_VALUES, **parts: str) -> list[Row]:
        """Return all rows of a query about these ids; ids that a column cannot hold are skipped."""
        with self._reading() as queries:
            return queries.all(name, {**values, "ids": queries.ids(ids)}, **parts)

    def _read_within(self, scope: Scope, name: str, values: Values = NO_VALUES, **parts: str) -> list[Row]:
        with self._reading() as queries:
            return queries.within(scope, name, values, **parts)

    def _write(self, name: str, values: Values) -> int:
        """Run one query in a transaction; return the number of rows that it changed."""
        with self._database.writing() as queries:
            return queries.count(name, values)

    def _delete_before(self, name: str, before: str, batch: int | None = None) -> int:
        """Run a query that deletes rows from before this time; return how many.

        In small transactions where the query has a limit, so that concurrent writers do not wait for all of it.
        """
        batch, deleted = batch or _BATCH, 0
        values = {"before": to_utc_iso(before), "limit": batch}
        while True:
            count = self._write(name, values)
            deleted += count
            if count < batch:
                return deleted
