"""Vectors in the server store: an index finds candidates, their cosines are computed in full.

    a small store, a narrow scope ─▶ every vector of it
    anything else ─▶ HNSW over half precision, filtered during the search ─▶ the best, again, in full

There is one index per dimension; it is built once there are enough vectors for it to pay off.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cofio.models.memory import Candidate, Scope
from cofio.ports import Matrix, Vector
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.postgres.store_state import TenantSize, TenantState
from cofio.stores.sqlite.vector_index import VectorIndex

FEW = 2_000  # vectors; up to this number, comparing each is as fast as an index
_EFFORT = 200  # minimum of hnsw.ef_search; twice the number of hits if that is higher
_MOST = 1_000  # the maximum that pgvector allows
_SPARE = 16  # further candidates: half precision may put neighbours in the wrong order
_WIDEST = 4_000  # dimensions that an index supports
_AT_ONCE = 4_096  # vectors read at a time
_SCOPES_KEPT = 64
_HEAD = 4  # header bytes of a vector sent by the server: dimension and unused
_log = logging.getLogger(__name__)


class VectorSearch:
    """Search of a tenant's nearest vectors, and upkeep of its index.

    With a prefix, for the vectors of rows whose named queries begin with it.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._indexed: set[int] = set()
        self._scopes: dict[Scope, list[int] | None] = {}
        self._scopes_at = 0

    def find(
        self, rows: TenantQueries, vector: Vector, k: int, scope: Scope, extent: TenantSize, state: TenantState
    ) -> list[Candidate]:
        """Return the k nearest of the scope, best first, ties by lower id."""
        params = {"vector": _as_sent(vector), "k": k}
        where, values = condition(scope, POSTGRES)
        if extent.count > FEW and scope.narrows:
            inside = self._inside(rows, scope, state)
            if inside is not None:
                return _candidates(
                    rows.all(f"{self._prefix}cosines", {**params, "ids": inside}, order="cosine DESC, memory_id")
                )
        if extent.count > FEW and state.dimension <= _WIDEST:
            candidates = self._by_index(rows, {**params, **values}, k, where, state.dimension)
            if len(candidates) == k:
                return candidates
        return _candidates(rows.all(f"{self._prefix}nearest_of_all", {**params, **values}, where=where))

    def _by_index(
        self, rows: TenantQueries, params: dict[str, Any], k: int, where: str, dimension: int
    ) -> list[Candidate]:
        with rows.connection.transaction():  # the settings are for this search only
            rows.run("search_by_nearness", {"effort": min(max(2 * k, _EFFORT), _MOST)})
            records = rows.all(
                f"{self._prefix}nearest_by_index", {**params, "many": k + _SPARE}, where=where, dimension=str(dimension)
            )
        return _candidates(records)

    def cosines(self, rows: TenantQueries, vector: Vector, ids: Sequence[int]) -> list[Candidate]:
        """Return the cosine of each of these that has a vector, by id."""
        params = {"vector": _as_sent(vector), "ids": list(ids), "k": len(ids)}
        return _candidates(rows.all(f"{self._prefix}cosines", params, order="memory_id")) if ids else []

    def _inside(self, rows: TenantQueries, scope: Scope, state: TenantState) -> list[int] | None:
        """Return every id of the scope if there are few, else None; cached while nothing changes."""
        if state.changeset != self._scopes_at or len(self._scopes) > _SCOPES_KEPT:
            self._scopes, self._scopes_at = {}, state.changeset
        scopes = self._scopes
        if scope not in scopes:
            where, values = condition(scope, POSTGRES)
            ids = [row[0] for row in rows.all(f"{self._prefix}ids_of", {**values, "limit": FEW + 1}, where=where)]
            scopes[scope] = ids if len(ids) <= FEW else None
        return scopes[scope]

    def keep_index(self, server: PostgresServer, dimension: int) -> None:
        """Build the index, if there are many vectors and no index. Writes of vectors wait meanwhile."""
        if dimension in self._indexed or not 0 < dimension <= _WIDEST:
            return
        with server.reading() as rows:
            if not rows.value(f"{self._prefix}are_many_vectors", {"most": FEW}):
                return
            if rows.value(f"{self._prefix}has_nearness", dimension=str(dimension)):
                self._indexed.add(dimension)
                return
        with server.writing() as rows:
            rows.run("one_at_a_time")
            rows.run(f"{self._prefix}make_nearness", dimension=str(dimension))
        self._indexed.add(dimension)
        _log.info("Built the search index of vectors with %d dimensions", dimension)

    def drop_index(self, rows: TenantQueries, dimension: int) -> None:
        """Drop the index of a dimension if no tenant has vectors of it any more: a new build gives a better one."""
        if dimension and not rows.value(f"{self._prefix}any_vector_of_any"):
            rows.run(f"{self._prefix}drop_nearness", dimension=str(dimension))
        self._indexed.discard(dimension)


def load_vectors(rows: TenantQueries, scope: Scope, dimension: int) -> VectorIndex:
    """Load every vector of the scope, to be compared with each other."""
    where, values = condition(scope, POSTGRES)
    vectors, after = VectorIndex(dimension), 0
    while batch := rows.all("vectors_within", {**values, "after": after, "limit": _AT_ONCE}, where=where):
        _put(vectors, batch)
        after = batch[-1][0]
    return vectors


def load_vectors_of(rows: TenantQueries, ids: Sequence[int], dimension: int) -> VectorIndex:
    """Load the vectors of these memories."""
    vectors = VectorIndex(dimension)
    for start in range(0, len(ids), _AT_ONCE):
        _put(vectors, rows.all("vectors_of", {"ids": ids[start : start + _AT_ONCE]}))
    return vectors


def _put(vectors: VectorIndex, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        ids, blobs, live = zip(*rows, strict=True)
        vectors.put_many(np.array(ids, np.int64), to_matrix(blobs), np.array(live, bool))


def dimension_of(vectors: Mapping[int, Vector]) -> int:
    """Return the length of these vectors; 0 if there are none."""
    return len(next(iter(vectors.values()), ()))


def to_matrix(blobs: Sequence[bytes]) -> Matrix:
    """Return vectors in the server's binary format as a matrix, one per row."""
    raw = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)
    return np.ascontiguousarray(raw[:, _HEAD:]).view(">f4").astype(np.float32)


def _as_sent(vector: Vector) -> Vector:
    return np.ascontiguousarray(vector, dtype=np.float32)


def _candidates(rows: Sequence[tuple[int, float]]) -> list[Candidate]:
    return [Candidate(memory_id, min(1.0, max(-1.0, cosine))) for memory_id, cosine in rows]


def to_candidates(near: Iterator[tuple[int, list[tuple[int, float]]]]) -> Iterator[tuple[int, list[Candidate]]]:
    """Convert neighbours to candidates."""
    for memory_id, neighbours in near:
        yield memory_id, [Candidate(*neighbour) for neighbour in neighbours]
