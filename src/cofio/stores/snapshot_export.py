"""Data for copying stores: rows in order, store names, free ids."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Knowledge, Table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import Occurrence
from cofio.ports import Clock, Snapshots, Vector
from cofio.stores.domain_knowledge import list_rows_by_id
from cofio.stores.episodes import export_episodes
from cofio.stores.query_runner import Database, Queries, Row, SqlAdapter
from cofio.stores.row_mapping import LISTED, as_json, is_storable_int, to_memory


class SqlSnapshots(SqlAdapter):
    """Snapshots of an SQL store. `take_ids` reserves ids inside a transaction and returns the last one below them."""

    def __init__(
        self, database: Database, clock: Clock, take_ids: Callable[[Queries, int], int], snapshot: Queries | None = None
    ) -> None:
        super().__init__(database, clock)
        self._take_ids = take_ids
        self._snapshot = snapshot  # set inside `snapshot`

    def _reading(self) -> AbstractContextManager[Queries]:
        return nullcontext(self._snapshot) if self._snapshot else super()._reading()

    @contextmanager
    def snapshot(self) -> Iterator[Snapshots]:
        """Yield a snapshot: it stays the same however long it is read, and whatever is written meanwhile."""
        with self._database.snapshot() as queries:
            queries.one("carried_counts")  # the snapshot is taken at the first read
            yield SqlSnapshots(self._database, self._clock, self._take_ids, queries)

    def identity(self) -> str:
        name = {"name": "identity"}
        if rows := self._read("get_meta", name):
            return str(rows[0][0])
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
            return int(self._read("last_given")[0][0])
        with self._database.writing(alone=True) as queries:
            return self._take_ids(queries, count)

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        key = {"name": f"room:{name}"}
        ranges = _read_ranges(self._read("get_meta", key))
        if last <= (ranges[-1][0] if ranges else 0):
            return ranges
        with self._database.writing(alone=True) as queries:
            ranges = _read_ranges(queries.all("get_meta", key))
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
        number, last = self._read("carried_counts")[0]
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        with self._reading() as queries:
            return list_rows_by_id(queries, table, after, limit)

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        with self._reading() as queries:
            return export_episodes(queries, after, limit)

    def parts(self, changeset_id: int) -> list[int]:
        rows = self._read("parts", {"id": changeset_id}) if is_storable_int(changeset_id) else []
        return [row[0] for row in rows]


def as_vector(blob: bytes) -> Vector:
    """Return the vector. Raise InvalidInput unless it has finite float32 numbers and unit length."""
    row = np.frombuffer(blob, dtype="<f4") if blob and len(blob) % 4 == 0 else np.zeros(0, dtype="<f4")
    if not np.isfinite(row).all() or not row.any() or abs(float(np.linalg.norm(row)) - 1.0) > 1e-2:
        hint = "Leave it out; it is computed again."
        raise InvalidInput("The vector is damaged: not finite, or not of unit length.", hint)
    return row


def _read_ranges(rows: Sequence[Row]) -> list[tuple[int, int]]:
    return [(last, offset) for last, offset in json.loads(rows[0][0])] if rows else []
