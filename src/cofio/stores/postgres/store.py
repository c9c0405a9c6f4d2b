"""Store of one tenant of a PostgreSQL database."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cofio.errors import StoreError
from cofio.models.memory import Candidate, Changeset, Matching, Memory, Scope
from cofio.ports import Clock, Vector
from cofio.stores.memory_rows import SqlRowStorage
from cofio.stores.postgres.bm25 import TenantBm25, searchable
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.postgres.dashboard import PostgresDashboardQueries
from cofio.stores.postgres.episodes import PostgresEpisodes
from cofio.stores.postgres.inbox import PostgresInbox
from cofio.stores.postgres.store_state import TenantSize, TenantState
from cofio.stores.postgres.vector_search import (
    VectorSearch,
    dimension_of,
    load_vectors,
    load_vectors_of,
    to_candidates,
)
from cofio.stores.query_runner import Queries
from cofio.stores.row_mapping import check_vectors, storable_ids
from cofio.stores.snapshot_export import SqlSnapshots
from cofio.stores.sql_store import SqlStore

_log = logging.getLogger(__name__)


class PostgresRowStorage(SqlRowStorage):
    """Rows of one tenant, with the columns of word search."""

    def insert(self, memory: Memory) -> int:
        number = super().insert(memory)
        if memory.id:
            self._queries.run("raise_sequence", {"id": number}, table="memories")
        return number

    def _to_row(self, memory: Memory) -> dict[str, Any]:
        return {**super()._to_row(memory), **searchable(memory)}


class PostgresStore(SqlStore):
    """Store in a PostgreSQL database, which other tenants, processes and machines may share."""

    kind = "postgresql"
    row_storage = PostgresRowStorage

    def __init__(self, url: str, clock: Clock) -> None:
        self._server = PostgresServer(url)
        super().__init__(self._server, clock)
        self.inbox = PostgresInbox(self._server, clock)
        self.snapshots = SqlSnapshots(self._server, _take_ids)
        self.dashboard = PostgresDashboardQueries(self._server)
        self.episodes = PostgresEpisodes(self._server, self._bind_vectors, self._refuse_another_embedder)
        self._words = TenantBm25()
        self._nearest = VectorSearch()
        self._extent: TenantSize | None = None

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _bind_vectors(self, queries: Queries, vectors: Mapping[int, Vector]) -> None:
        """Check that the vectors fit the store's, and record their dimension if they are the first."""
        if not vectors:
            return
        state = TenantState.read(queries)
        check_vectors(vectors, state.dimension or None)
        self._refuse_another_embedder(state.signature)
        if not state.dimension:
            queries.run("set_meta", {"name": "dimension", "value": str(dimension_of(vectors))})

    def _after_apply(self, changeset: Changeset, vectors: Mapping[int, Vector]) -> None:
        if changeset.part_of is None:  # after a long series, building the index takes a fraction of the time
            self._follow_up(dimension_of(vectors))

    def _follow_up(self, dimension: int) -> None:
        """Update the index after a commit. Errors are only logged: the data is committed, the rest is retried later."""
        try:
            self._nearest.keep_index(self._server, dimension)
        except StoreError as error:
            _log.warning(
                "The change was stored, but the search index could not be updated; the next search retries: %s", error
            )

    def _state(self, rows: TenantQueries) -> TenantState:
        """Return the state of the store. Raise EmbedderMismatch after a re-embedding by another process."""
        state = TenantState.read(rows)
        self._refuse_another_embedder(state.signature)
        return state

    def _extent_at(self, rows: TenantQueries, state: TenantState) -> TenantSize:
        extent = self._extent
        if extent is None or not extent.is_good_at(state):
            self._extent = extent = TenantSize.read(rows, state)
        return extent

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        with self._server.reading() as rows:
            state = self._state(rows)
            if not state.dimension:
                return []
            extent = self._extent_at(rows, state)
            candidates = self._nearest.find(rows, vector, k, scope, extent, state) if k > 0 else []
            missing = storable_ids(sorted(set(also) - {candidate.id for candidate in candidates}))
            return candidates + self._nearest.cosines(rows, vector, missing)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._server.reading() as rows:
            extent = self._extent_at(rows, self._state(rows))
            return self._words.matching(rows, words, k, scope, extent)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        with self._server.reading() as rows:
            return self._words.holding(rows, words, ids)

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        with self._server.snapshot() as rows:
            state = self._state(rows)
            vectors = load_vectors(rows, scope, state.dimension) if state.dimension else None
        return vectors.pairs(threshold) if vectors else iter(())

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        with self._server.snapshot() as rows:
            state = self._state(rows)
            vectors = load_vectors_of(rows, storable_ids(ids), state.dimension) if state.dimension else None
        return to_candidates(vectors.neighbours(ids, threshold, k)) if vectors else iter(())

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._server.writing(alone=True) as rows:
            self._bind_vectors(rows, vectors)
            filled = {
                memory_id: np.asarray(vectors[memory_id], np.float32)
                for memory_id in sorted(storable_ids(list(vectors)))
            }
            rows.many("fill_vector", [{"id": memory_id, "vector": vector} for memory_id, vector in filled.items()])
        self._follow_up(dimension_of(vectors))

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        with self._server.reading() as rows:
            state = TenantState.read(rows)
        if state.signature == signature and not reset:
            self._signature = signature  # the usual case, without the write lock
            self._follow_up(state.dimension)
            return
        with self._server.writing(alone=True) as rows:
            current = TenantState.read(rows)
            empty = not rows.value("any_vector")
            if current.signature and current.signature != signature and not (reset or empty):
                self._signature = signature
                self._refuse_another_embedder(current.signature)
            rows.run("set_meta", {"name": "signature", "value": signature})
            if reset or empty:
                self._drop_vectors(rows, current.dimension)
        self._signature = signature

    def _drop_vectors(self, rows: TenantQueries, dimension: int) -> None:
        """Delete every vector, and the dimension."""
        for name in ("drop_vectors", "forget_old_vectors"):
            rows.run(name)
        rows.run("drop_meta", {"name": "dimension"})
        self.episodes.drop_vectors(rows, dimension)
        self._nearest.drop_index(rows, dimension)

    def _read_signature(self, queries: Queries) -> str:
        return TenantState.read(queries).signature

    def _size(self, queries: Queries) -> int:
        return int(queries.value("bytes"))

    def close(self) -> None:
        self._server.close()


def _take_ids(queries: Queries, count: int) -> int:
    """Take ids from the sequence that all tenants share; return the last one below them.

    Ids that another tenant takes in between do no harm, because ids belong to one tenant. No other process of this
    tenant takes ids meanwhile: the caller holds the write lock (`alone`).
    """
    first = int(queries.value("take_ids", {"count": count}))
    queries.run("set_meta", {"name": "reserved", "value": str(first + count - 1)})
    return first - 1
