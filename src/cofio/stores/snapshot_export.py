"""Data for copying stores, of the SQL stores and the fake store: rows in order, store names, free ids."""

from __future__ import annotations

import copy
import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Knowledge, Table, check_table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import Changeset, Memory, Occurrence
from cofio.ports import Snapshots, Vector
from cofio.stores.domain_knowledge import list_rows_by_id
from cofio.stores.episodes import export_episodes
from cofio.stores.query_runner import Database, Queries
from cofio.stores.row_mapping import LISTED, as_json, is_storable_int, to_memory

if TYPE_CHECKING:
    from cofio.stores.in_memory.domain_knowledge import FakeKnowledgeRows
    from cofio.stores.in_memory.episodes import EpisodeText


class SqlSnapshots:
    """Snapshots of an SQL store. `take_ids` reserves ids inside a transaction and returns the last one below them."""

    def __init__(
        self, database: Database, take_ids: Callable[[Queries, int], int], snapshot: Queries | None = None
    ) -> None:
        self._database = database
        self._take_ids = take_ids
        self._snapshot = snapshot  # set inside `snapshot`

    @contextmanager
    def snapshot(self) -> Iterator[Snapshots]:
        """Yield a snapshot: it stays the same however long it is read, and whatever is written meanwhile."""
        with self._database.snapshot() as queries:
            queries.one("carried_counts")  # the snapshot is taken at the first read
            yield SqlSnapshots(self._database, self._take_ids, queries)

    def identity(self) -> str:
        name = {"name": "identity"}
        with self._reading() as queries:
            if identity := queries.value("get_meta", name):
                return str(identity)
        with self._database.writing() as queries:
            queries.run("make_identity", {"value": str(uuid.uuid4())})  # unless another process was faster
            return str(queries.value("get_meta", name))

    def adopt_identity(self, identity: str) -> bool:
        with self._database.writing(alone=True) as queries:
            if queries.value("ever_held"):
                return False
            queries.run("set_meta", {"name": "identity", "value": identity})
            return True

    def reserve(self, count: int) -> int:
        if not count:
            with self._reading() as queries:
                return int(queries.value("last_given"))
        with self._database.writing(alone=True) as queries:
            return self._take_ids(queries, count)

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        key = {"name": f"room:{name}"}
        with self._reading() as queries:
            ranges = _read_ranges(queries.value("get_meta", key))
        if last <= (ranges[-1][0] if ranges else 0):
            return ranges
        with self._database.writing(alone=True) as queries:
            ranges = _read_ranges(queries.value("get_meta", key))
            below = ranges[-1][0] if ranges else 0
            if last > below:
                ranges.append((last, self._take_ids(queries, last - below) - below))
                queries.run("set_meta", {**key, "value": as_json(ranges)})
            return ranges

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        with self._reading() as queries:
            return dict(queries.all("origins", {"origins": queries.listed(filter(None, origins))}))

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        with self._reading() as queries:
            rows = queries.all("carried_memories", {"after": after, "limit": limit}, columns=LISTED)
            memories = [to_memory(row) for row in rows]
            ids = {"ids": queries.ids(memory.id for memory in memories)}
            sightings: defaultdict[int, list[Occurrence]] = defaultdict(list)
            for memory_id, *about in queries.all("carried_sightings", ids):
                sightings[memory_id].append(Occurrence(*about))
            vector_rows = queries.all("carried_vectors", ids) if vectors else []
            blobs = {memory_id: queries.to_blob(vector) for memory_id, vector in vector_rows}
        return [
            ExportedMemory(memory, tuple(sightings.get(memory.id, ())), blobs.get(memory.id)) for memory in memories
        ]

    def counts(self) -> tuple[int, int]:
        with self._reading() as queries:
            number, last = queries.all("carried_counts")[0]
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        with self._reading() as queries:
            return list_rows_by_id(queries, table, after, limit)

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        with self._reading() as queries:
            return export_episodes(queries, after, limit)

    def parts(self, changeset_id: int) -> list[int]:
        with self._reading() as queries:
            return queries.column("parts", {"id": changeset_id}) if is_storable_int(changeset_id) else []

    @contextmanager
    def _reading(self) -> Iterator[Queries]:
        if self._snapshot is not None:
            yield self._snapshot
            return
        with self._database.reading() as queries:
            yield queries


class _FakeTables(Protocol):
    """Tables of the fake store."""

    memories: dict[int, Memory]
    sightings: list[tuple[int, int, Occurrence]]
    vectors: dict[int, bytes]
    changesets: list[Changeset]
    known: FakeKnowledgeRows
    said: EpisodeText
    last_id: int
    identity: str
    rooms: dict[str, list[tuple[int, int]]]


class FakeSnapshots:
    """Carrying of the fake store; `changing` locks its tables for one caller at a time."""

    def __init__(self, changing: Callable[[], AbstractContextManager[_FakeTables]]) -> None:
        self._changing = changing

    @contextmanager
    def snapshot(self) -> Iterator[Snapshots]:
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
        raise InvalidInput(
            "The vector is damaged: not finite, or not of unit length.", "Leave it out; it is computed again."
        )
    return row


def _read_ranges(text: str | None) -> list[tuple[int, int]]:
    """Return the id ranges reserved for another store, as stored."""
    return [(last, offset) for last, offset in json.loads(text)] if text else []


def _by_time(sighting: Occurrence) -> tuple[str, str, str]:
    return sighting.at, sighting.agent, sighting.session
