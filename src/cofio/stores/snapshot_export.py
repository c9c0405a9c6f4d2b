"""Data for copying stores, of the embedded and the fake store: rows in order, store names, free ids."""

from __future__ import annotations

import copy
import json
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Knowledge, Table, check_table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import Changeset, Memory, Occurrence
from cofio.ports import Snapshots, Vector
from cofio.stores.domain_knowledge import SqliteNamedQueries, in_order_of_ids
from cofio.stores.episodes import export_episodes as carried_episodes
from cofio.stores.row_mapping import LISTED, as_json, is_storable_int, to_memory
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import StoreFile

if TYPE_CHECKING:
    from cofio.stores.in_memory.domain_knowledge import FakeKnownRows
    from cofio.stores.in_memory.episodes import EpisodeText

_SQL = queries("sqlite")
_ROWS = _SQL["carried_memories"].format(columns=LISTED)


class SqliteSnapshots:
    """Carrying of an SQLite file."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self._held: sqlite3.Connection | None = None  # set inside `still`: the connection of the snapshot

    @contextmanager
    def still(self) -> Iterator[Snapshots]:
        """Yield a snapshot: it stays the same however long it is read, and whatever is written meanwhile."""
        with self._file.reading() as connection:
            frozen = SqliteSnapshots(self._file)
            frozen._held = connection
            connection.execute("BEGIN")
            try:
                connection.execute(_SQL["carried_counts"]).fetchone()  # SQLite takes the snapshot at the first read
                yield frozen
            finally:
                connection.execute("COMMIT")

    def identity(self) -> str:
        rows = self._read(_SQL["get_meta"], ("identity",))
        if rows:
            return str(rows[0][0])
        with self._file.writing() as connection:
            connection.execute(_SQL["make_identity"], (str(uuid.uuid4()),))  # unless another process was faster
            return str(connection.execute(_SQL["get_meta"], ("identity",)).fetchone()[0])

    def adopt_identity(self, identity: str) -> bool:
        with self._file.writing() as connection:
            if connection.execute(_SQL["last_given"]).fetchone()[0]:
                return False
            connection.execute(_SQL["set_meta"], {"name": "identity", "value": identity})
            return True

    def reserve(self, count: int) -> int:
        if not count:
            return int(self._read(_SQL["last_given"], ())[0][0])
        with self._file.writing() as connection:
            return self._take(connection, count)

    def _take(self, connection: sqlite3.Connection, count: int) -> int:
        last = int(connection.execute(_SQL["last_given"]).fetchone()[0])
        if not connection.execute(_SQL["move_last_given"], (last + count,)).rowcount:
            connection.execute(_SQL["set_last_given"], (last + count,))
        return last

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        ranges = reserved_ranges(self._read(_SQL["get_meta"], (f"room:{name}",)))
        if last <= (ranges[-1][0] if ranges else 0):
            return ranges
        with self._file.writing() as connection:
            ranges = reserved_ranges(connection.execute(_SQL["get_meta"], (f"room:{name}",)).fetchall())
            below = ranges[-1][0] if ranges else 0
            if last > below:
                ranges.append((last, self._take(connection, last - below) - below))
                connection.execute(_SQL["set_meta"], {"name": f"room:{name}", "value": as_json(ranges)})
            return ranges

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        return dict(self._read(_SQL["origins"], (as_json([origin for origin in origins if origin]),)))

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        with self._reading() as connection:
            memories = [to_memory(row) for row in connection.execute(_ROWS, (after, limit))]
            ids = (as_json([memory.id for memory in memories]),)
            sightings: defaultdict[int, list[Occurrence]] = defaultdict(list)
            for memory_id, *about in connection.execute(_SQL["carried_sightings"], ids):
                sightings[memory_id].append(Occurrence(*about))
            blobs = dict(connection.execute(_SQL["carried_vectors"], ids).fetchall()) if vectors else {}
        return [
            ExportedMemory(memory, tuple(sightings.get(memory.id, ())), blobs.get(memory.id)) for memory in memories
        ]

    def counts(self) -> tuple[int, int]:
        number, last = self._read(_SQL["carried_counts"], ())[0]
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        with self._reading() as connection:
            return in_order_of_ids(SqliteNamedQueries(connection), table, after, limit)

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        with self._reading() as connection:
            return carried_episodes(SqliteNamedQueries(connection), after, limit)

    def parts(self, changeset_id: int) -> list[int]:
        rows = self._read(_SQL["parts"], {"id": changeset_id}) if is_storable_int(changeset_id) else []
        return [row[0] for row in rows]

    def _read(self, query: str, values: Any) -> list[Any]:
        with self._reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._held is not None:
            yield self._held
            return
        with self._file.reading() as connection:
            yield connection


class _FakeTables(Protocol):
    """Tables of the fake store."""

    memories: dict[int, Memory]
    sightings: list[tuple[int, int, Occurrence]]
    vectors: dict[int, bytes]
    changesets: list[Changeset]
    known: FakeKnownRows
    said: EpisodeText
    last_id: int
    identity: str
    rooms: dict[str, list[tuple[int, int]]]


class FakeSnapshots:
    """Carrying of the fake store; `changing` locks its tables for one caller at a time."""

    def __init__(self, changing: Callable[[], AbstractContextManager[_FakeTables]]) -> None:
        self._changing = changing

    @contextmanager
    def still(self) -> Iterator[Snapshots]:
        with self._changing() as current:
            tables = copy.deepcopy(current)

        @contextmanager
        def frozen() -> Iterator[_FakeTables]:
            yield tables

        yield FakeSnapshots(frozen)

    def identity(self) -> str:
        with self._changing() as tables:
            tables.identity = tables.identity or str(uuid.uuid4())
            return tables.identity

    def adopt_identity(self, identity: str) -> bool:
        with self._changing() as tables:
            if tables.last_id:
                return False
            tables.identity = identity
            return True

    def reserve(self, count: int) -> int:
        with self._changing() as tables:
            tables.last_id += count
            return tables.last_id - count

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        with self._changing() as tables:
            ranges = tables.rooms.get(name, [])
            below = ranges[-1][0] if ranges else 0
            if last > below:
                ranges = tables.rooms[name] = [*ranges, (last, tables.last_id - below)]
                tables.last_id += last - below
            return ranges

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        sought = {origin for origin in origins if origin}
        with self._changing() as tables:
            return {memory.origin: memory.id for memory in tables.memories.values() if memory.origin in sought}

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        with self._changing() as tables:
            memories = [tables.memories[memory_id] for memory_id in sorted(tables.memories) if memory_id > after][
                :limit
            ]
            return [
                ExportedMemory(
                    memory,
                    tuple(
                        sorted(
                            (sighting for _, memory_id, sighting in tables.sightings if memory_id == memory.id),
                            key=_by_time,
                        )
                    ),
                    tables.vectors.get(memory.id) if vectors else None,
                )
                for memory in memories
            ]

    def counts(self) -> tuple[int, int]:
        with self._changing() as tables:
            return len(tables.memories), max(tables.memories, default=0)

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        with self._changing() as tables:
            rows = tables.known.rows[check_table(table)]
            return [rows[key] for key in sorted(rows) if key > after][:limit]

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        with self._changing() as tables:
            return tables.said.carried(after, limit)

    def parts(self, changeset_id: int) -> list[int]:
        with self._changing() as tables:
            return [
                changeset.id for changeset in tables.changesets if changeset_id in (changeset.id, changeset.part_of)
            ]


def as_vector(blob: bytes) -> Vector:
    """Return the vector. Raise InvalidInput unless it has finite float32 numbers and unit length."""
    row = np.frombuffer(blob, dtype="<f4") if blob and len(blob) % 4 == 0 else np.zeros(0, dtype="<f4")
    if not np.isfinite(row).all() or not row.any() or abs(float(np.linalg.norm(row)) - 1.0) > 1e-2:
        raise InvalidInput("The vector is damaged.", "Leave it out: it is recomputed.")
    return row


def reserved_ranges(rows: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the id ranges reserved for another store, as stored."""
    return [(last, offset) for last, offset in json.loads(rows[0][0])] if rows else []


def _by_time(sighting: Occurrence) -> tuple[str, str, str]:
    return sighting.at, sighting.agent, sighting.session
