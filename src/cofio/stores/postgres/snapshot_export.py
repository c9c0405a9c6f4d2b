"""Data for copying stores, of the server store: rows in order, store names, free ids."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cofio.models.domain_knowledge import Knowledge, Table
from cofio.models.episodes import ExportedEpisode
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import Occurrence
from cofio.ports import Snapshots
from cofio.stores.domain_knowledge import in_order_of_ids
from cofio.stores.episodes import export_episodes as carried_episodes
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.postgres.domain_knowledge import PostgresNamedQueries
from cofio.stores.row_mapping import LISTED, as_json, is_storable_int, to_memory
from cofio.stores.snapshot_export import reserved_ranges


class PostgresSnapshots:
    """Carrying of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._held: TenantQueries | None = None  # set inside `still`: the connection of the snapshot

    @contextmanager
    def still(self) -> Iterator[Snapshots]:
        """Yield a snapshot: it stays the same however long it is read, and whatever is written meanwhile."""
        with self._server.still() as rows:
            rows.one("carried_counts")  # the snapshot is taken at the first read
            frozen = PostgresSnapshots(self._server)
            frozen._held = rows
            yield frozen

    def identity(self) -> str:
        if metadata := self._read("get_meta", {"name": "identity"}):
            return str(metadata[0][0])
        with self._server.writing() as rows:
            rows.run("make_identity", {"value": str(uuid.uuid4())})  # unless another process was faster
            return str(rows.value("get_meta", {"name": "identity"}))

    def adopt_identity(self, identity: str) -> bool:
        with self._server.writing(alone=True) as rows:
            if rows.value("ever_held"):
                return False
            rows.run("set_meta", {"name": "identity", "value": identity})
            return True

    def reserve(self, count: int) -> int:
        if not count:
            return int(self._read("last_given", {})[0][0])
        with self._server.writing(alone=True) as rows:
            return _take(rows, count)

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        key = {"name": f"room:{name}"}
        ranges = reserved_ranges(self._read("get_meta", key))
        if last <= (ranges[-1][0] if ranges else 0):
            return ranges
        with self._server.writing(alone=True) as rows:
            ranges = reserved_ranges(rows.all("get_meta", key))
            below = ranges[-1][0] if ranges else 0
            if last > below:
                ranges.append((last, _take(rows, last - below) - below))
                rows.run("set_meta", {**key, "value": as_json(ranges)})
            return ranges

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        return dict(self._read("origins", {"origins": [origin for origin in origins if origin]}))

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        with self._reading() as rows:
            records = rows.all("carried_memories", {"after": after, "limit": limit}, columns=LISTED)
            memories = [to_memory(row) for row in records]
            ids = {"ids": [memory.id for memory in memories]}
            sightings: defaultdict[int, list[Occurrence]] = defaultdict(list)
            for memory_id, *about in rows.all("carried_sightings", ids):
                sightings[memory_id].append(Occurrence(*about))
            vector_rows = rows.all("carried_vectors", ids) if vectors else []
        blobs = {
            number: np.ascontiguousarray(vector.to_numpy(), dtype="<f4").tobytes() for number, vector in vector_rows
        }
        return [
            ExportedMemory(memory, tuple(sightings.get(memory.id, ())), blobs.get(memory.id)) for memory in memories
        ]

    def counts(self) -> tuple[int, int]:
        number, last = self._read("carried_counts", {})[0]
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        with self._reading() as rows:
            return in_order_of_ids(PostgresNamedQueries(rows), table, after, limit)

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        with self._reading() as rows:
            return carried_episodes(PostgresNamedQueries(rows), after, limit)

    def parts(self, changeset_id: int) -> list[int]:
        parts = self._read("parts", {"id": changeset_id}) if is_storable_int(changeset_id) else []
        return [number for (number,) in parts]

    def _read(self, name: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._reading() as rows:
            return rows.all(name, values)

    @contextmanager
    def _reading(self) -> Iterator[TenantQueries]:
        if self._held is not None:
            yield self._held
            return
        with self._server.reading() as rows:
            yield rows


def _take(rows: TenantQueries, count: int) -> int:
    """Take so many ids from the sequence that all tenants share; return the last id below them.

    Ids that another tenant takes in between do no harm, because ids belong to one tenant. No other process of this
    tenant takes ids meanwhile: the caller holds the write lock (`alone`).
    """
    first = int(rows.value("take_ids", {"count": count}))
    rows.run("set_meta", {"name": "reserved", "value": str(first + count - 1)})
    return first - 1
