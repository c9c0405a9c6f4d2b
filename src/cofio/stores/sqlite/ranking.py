"""The embedded store's search: vectors and lengths in memory beside the file, ranked there, narrowed to a scope.

One `Ranking` searches memories, another the passages of episodes; a `SearchIndexKind` names the queries of each.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np

from cofio.models.memory import Candidate, Matching, Scope
from cofio.ports import Matrix, Vector
from cofio.stores.filters import condition
from cofio.stores.sqlite.bm25 import POSTINGS, DocumentLengths, Ids, PostingsCache, SearchIndexKind, top_k
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.vector_index import VectorIndex

_AT_ONCE = 4_096  # vectors read at a time
_SCOPES_KEPT = 16


class Ranking:
    """Ranking of the rows of one kind by cosine and by BM25, up to date with writes of every process."""

    def __init__(self, file: StoreFile, kind: SearchIndexKind, refuse_another_embedder: Callable[[str], None]) -> None:
        self._file = file
        self._kind = kind
        self._index = _SearchIndex(file, kind)
        self._postings = PostingsCache(kind)
        self._scopes = _ScopeCache()
        self._refuse_another_embedder = refuse_another_embedder

    def held(self) -> InMemoryIndex:
        """Return the in-memory data, up to date with the file. Raise EmbedderMismatch if re-embedded elsewhere."""
        memory_index = self._index.current()
        self._refuse_another_embedder(memory_index.signature)
        return memory_index

    def catch_up(self) -> None:
        """Read the changes since the last call."""
        self._index.catch_up()

    def nearest(self, vector: Vector, k: int, scope: Scope, also: Iterable[int] = ()) -> list[Candidate]:
        memory_index = self.held()
        index = memory_index.vectors
        if index is None:
            return []
        ids, cosines = self._find_nearest_in_scope(memory_index, index, vector, k, scope)
        candidates = list(starmap(Candidate, zip(ids.tolist(), cosines.tolist(), strict=True)))
        missing = sorted(set(also) - {candidate.id for candidate in candidates})
        return candidates + list(starmap(Candidate, index.cosines(vector, missing).items()))

    def _find_nearest_in_scope(
        self, memory_index: InMemoryIndex, index: VectorIndex, vector: Vector, k: int, scope: Scope
    ) -> tuple[Any, Any]:
        archived = scope.include_archived
        if not scope.narrows:
            return index.nearest(vector, k, archived=archived)
        if scope in self._scopes.of(memory_index.changeset):
            return index.nearest(vector, k, archived=archived, within=self.ids_of(scope, memory_index))
        # Most scopes contain a good part of the nearest: look a little further and keep those inside. Only if that
        # gives fewer than k, the whole scope is read; then it is cached.
        wide = 2 * k + 32
        ids, cosines = index.nearest(vector, wide, archived=archived)
        inside = self._mask_inside(ids, scope)
        if inside.sum() >= k or len(ids) < wide:
            return ids[inside][:k], cosines[inside][:k]
        return index.nearest(vector, k, archived=archived, within=self.ids_of(scope, memory_index))

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        memory_index = self.held()
        with self._file.reading() as connection:
            scores, ideal, left_out = self._postings.scores(
                connection, words, memory_index.lengths, memory_index.changeset
            )
            ids, best_scores = self._find_best_in_scope(memory_index, scores, k, scope)
            if left_out and scope.narrows and not len(ids):  # the rarest words may all be outside the scope
                scores, ideal, _ = self._postings.scores(
                    connection, words, memory_index.lengths, memory_index.changeset, most=5 * POSTINGS
                )
                ids, best_scores = self._find_best_in_scope(memory_index, scores, k, scope)
        return Matching(tuple(starmap(Candidate, zip(ids.tolist(), best_scores.tolist(), strict=True))), ideal)

    def _find_best_in_scope(self, memory_index: InMemoryIndex, scores: Any, k: int, scope: Scope) -> tuple[Any, Any]:
        allowed = np.ones_like(memory_index.lengths.live) if scope.include_archived else memory_index.lengths.live
        if not scope.narrows:
            return top_k(scores, k, allowed)
        wide = 2 * k + 32
        if scope not in self._scopes.of(memory_index.changeset):
            ids, top_scores = top_k(scores, wide, allowed)
            inside = self._mask_inside(ids, scope)
            if inside.sum() >= k or len(ids) < wide:
                return ids[inside][:k], top_scores[inside][:k]
        within, ids = np.zeros_like(allowed), self.ids_of(scope, memory_index)
        within[ids[ids < len(within)]] = True
        return top_k(scores, k, allowed & within)

    def ids_of(self, scope: Scope, memory_index: InMemoryIndex) -> Ids:
        """Return every id of the scope; cached while nothing changes."""
        ids_by_scope = self._scopes.of(memory_index.changeset)
        if scope not in ids_by_scope:
            where, values = condition(scope)
            with self._file.reading() as connection:
                rows = connection.execute(self._kind.query("ids_of").format(where=where), values).fetchall()
            ids_by_scope[scope] = np.array([row[0] for row in rows], dtype=np.int64)
        return ids_by_scope[scope]

    def _mask_inside(self, ids: Ids, scope: Scope) -> Any:
        """Return a mask of these ids that are in the scope."""
        where, values = condition(scope)
        with self._file.reading() as connection:
            rows = connection.execute(
                self._kind.query("among").format(where=where), {**values, "ids": connection.ids(ids.tolist())}
            )
            return np.isin(ids, [row[0] for row in rows])


@dataclass(frozen=True, slots=True)
class InMemoryIndex:
    """In-memory copy of one state of the file. `vectors` is None if the store has none."""

    changeset: int
    embedded: int  # the last memory that got its vector later
    generation: str  # changes when all vectors are recomputed
    signature: str
    vectors: VectorIndex | None
    lengths: DocumentLengths

    def is_level_with(self, state: Sequence[Any]) -> bool:
        return (self.changeset, self.embedded, self.generation, self.signature) == tuple(state)


class _SearchIndex:
    """In-memory data, updated after own writes at once, and after those of other processes before a search."""

    def __init__(self, file: StoreFile, kind: SearchIndexKind) -> None:
        self._file = file
        self._kind = kind
        self._lock = threading.Lock()
        self._held: InMemoryIndex | None = None

    def current(self) -> InMemoryIndex:
        """Return the data, up to date with the newest commit of any process."""
        with self._file.reading() as connection:
            state = connection.execute(self._kind.query("state")).fetchone()
        memory_index = self._held
        return memory_index if memory_index and memory_index.is_level_with(state) else self.catch_up()

    def catch_up(self) -> InMemoryIndex:
        """Read the changes since the last call; everything, the first time."""
        with self._lock, self._file.reading() as connection:
            connection.execute("BEGIN")  # the state and the rows that belong to it, in one snapshot
            try:
                state = connection.execute(self._kind.query("state")).fetchone()
                if self._held is None or not self._held.is_level_with(state):
                    self._held = self._level(connection, *state)
            finally:
                connection.execute("COMMIT")
            return self._held

    def _level(self, connection: sqlite3.Connection, changeset: int, embedded: int, *about: str) -> InMemoryIndex:
        generation, signature = about
        memory_index = self._held
        if memory_index is None or memory_index.generation != generation:
            contents = _load_vectors(connection, self._kind), DocumentLengths.read(connection, self._kind)
            return InMemoryIndex(changeset, embedded, generation, signature, *contents)
        rows = connection.execute(
            self._kind.query("changed_vectors"), (memory_index.changeset, memory_index.embedded)
        ).fetchall()
        ids = [row[0] for row in rows]
        lengths = memory_index.lengths.with_changes(connection, ids, self._kind) if rows else memory_index.lengths
        return InMemoryIndex(
            changeset, embedded, generation, signature, _apply_changes(memory_index.vectors, rows), lengths
        )


class _ScopeCache:
    """Cached ids of recent scopes, as long as nothing changes."""

    def __init__(self) -> None:
        self._known: dict[Scope, Ids] = {}
        self._changeset = -1

    def of(self, changeset: int) -> dict[Scope, Ids]:
        if changeset != self._changeset or len(self._known) > _SCOPES_KEPT:
            self._known, self._changeset = {}, changeset
        return self._known


def _apply_changes(
    vectors: VectorIndex | None, rows: Iterable[tuple[int, bytes | None, int | None]]
) -> VectorIndex | None:
    """Update the index with these memories: (id, vector or None, live)."""
    new: list[tuple[int, bytes, bool]] = []
    for memory_id, blob, live in rows:
        if blob is not None:
            new.append((memory_id, blob, bool(live)))
        elif vectors:
            vectors.drop(memory_id)
    if not new:
        return vectors
    vectors = vectors or VectorIndex(len(new[0][1]) // 4)
    ids = np.array([memory_id for memory_id, _, _ in new], dtype=np.int64)
    live_flags = np.array([live for _, _, live in new], dtype=bool)
    vectors.put_many(ids, _to_matrix([blob for _, blob, _ in new]), live_flags)
    return vectors


def _load_vectors(connection: sqlite3.Connection, kind: SearchIndexKind) -> VectorIndex | None:
    count, size = connection.execute(kind.query("size_of_vectors")).fetchone()
    if not count:
        return None
    matrix = np.empty((count, size // 4), dtype="<f4")
    ids, live = np.empty(count, dtype=np.int64), np.empty(count, dtype=bool)
    rows, filled = connection.execute(kind.query("all_vectors")), 0
    while batch := rows.fetchmany(_AT_ONCE):  # never all the blobs in addition to the matrix
        end = filled + len(batch)
        ids[filled:end], live[filled:end] = [row[0] for row in batch], [row[2] for row in batch]
        matrix[filled:end] = _to_matrix([row[1] for row in batch])
        filled = end
    vectors = VectorIndex(size // 4)
    vectors.load(ids, matrix, live)
    return vectors


def _to_matrix(blobs: Sequence[bytes]) -> Matrix:
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
