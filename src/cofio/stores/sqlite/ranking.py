"""The embedded store's search: vectors and lengths in memory beside the file, ranked there, narrowed to a scope.

One `Ranking` searches memories, another the passages of episodes; a `SearchIndexKind` names the queries of each.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cofio.models.memory import Candidate, Matching, Scope
from cofio.ports import Matrix, Vector
from cofio.stores.filters import condition
from cofio.stores.sqlite.bm25 import POSTINGS, DocumentLengths, Ids, PostingsCache, Scores, SearchIndexKind, top_k
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.vector_index import VectorIndex

_AT_ONCE = 4_096  # vectors read at a time
_SCOPES_KEPT = 16
_FLOAT = 4  # bytes of a number in a vector
_LEAST_LENGTH, _GREATEST_LENGTH = 0.5, 2.0  # of a usable vector: 1, with room for rounding
_log = logging.getLogger(__name__)
_Find: TypeAlias = Callable[..., tuple[Ids, Scores]]


class IndexState(NamedTuple):
    """State of the file that a copy in memory belongs to."""

    changeset: int
    embedded: int  # the last memory that got its vector later
    generation: str  # changes when all vectors are recomputed
    signature: str


@dataclass(frozen=True, slots=True)
class InMemoryIndex:
    """In-memory copy of one state of the file. `vectors` is None if the store has none."""

    state: IndexState
    vectors: VectorIndex | None
    lengths: DocumentLengths
    damaged: frozenset[int]  # rows whose vector cannot be used; the index is without them


class Ranking:
    """Ranking of the rows of one kind by cosine and by BM25, up to date with writes of every process."""

    def __init__(self, file: StoreFile, kind: SearchIndexKind, refuse_another_embedder: Callable[[str], None]) -> None:
        self._file = file
        self._kind = kind
        self._refuse_another_embedder = refuse_another_embedder
        self._postings = PostingsCache(kind)
        self._lock = threading.Lock()
        self._held: InMemoryIndex | None = None
        self._scopes: dict[Scope, Ids] = {}  # the ids of recent scopes, as long as nothing changes
        self._scopes_at = -1

    def held(self) -> InMemoryIndex:
        """Return the in-memory data, up to date with the file. Raise EmbedderMismatch if re-embedded elsewhere."""
        with self._file.reading() as connection:
            state = connection.execute(self._kind.query("state")).fetchone()
        held = self._held
        if held is None or held.state != state:
            held = self.catch_up()
        self._refuse_another_embedder(held.state.signature)
        return held

    def catch_up(self) -> InMemoryIndex:
        """Read the changes since the last call; everything, the first time."""
        with self._lock, self._file.reading() as connection:
            connection.execute("BEGIN")  # the state and the rows that belong to it, in one snapshot
            try:
                state = IndexState(*connection.execute(self._kind.query("state")).fetchone())
                if self._held is None or self._held.state != state:
                    self._held = self._read_changes(connection, state)
            finally:
                connection.execute("COMMIT")
            return self._held

    def _read_changes(self, connection: sqlite3.Connection, state: IndexState) -> InMemoryIndex:
        held = self._held
        if held is None or held.state.generation != state.generation:
            vectors, damaged = _load_vectors(connection, self._kind)
            return InMemoryIndex(state, vectors, DocumentLengths.read(connection, self._kind), damaged)
        since = held.state.changeset, held.state.embedded
        rows = connection.execute(self._kind.query("changed_vectors"), since).fetchall()
        ids = [row[0] for row in rows]
        lengths = held.lengths.with_changes(connection, ids, self._kind) if rows else held.lengths
        vectors, newly_damaged = _apply_changes(held.vectors, rows)
        return InMemoryIndex(state, vectors, lengths, held.damaged.difference(ids) | newly_damaged)

    @property
    def unusable(self) -> int:
        """Number of rows whose vector cannot be used, as of the last read."""
        return len(self._held.damaged) if self._held else 0

    def damaged(self) -> list[int]:
        """Read every vector of the file; return the rows whose vector cannot be used."""
        with self._file.reading() as connection:
            _, size = connection.execute(self._kind.query("size_of_vectors")).fetchone()
            rows, damaged = connection.execute(self._kind.query("all_vectors")), []
            while batch := rows.fetchmany(_AT_ONCE):
                damaged += _split_damaged(batch, size)[2]
        return sorted(damaged)

    def nearest(self, vector: Vector, k: int, scope: Scope, also: Iterable[int] = ()) -> list[Candidate]:
        held = self.held()
        if held.vectors is None:
            return []
        find = partial(held.vectors.nearest, vector, archived=scope.include_archived)
        ids, cosines = self._find_in_scope(held, k, scope, find)
        candidates = list(starmap(Candidate, zip(ids.tolist(), cosines.tolist(), strict=True)))
        missing = sorted(set(also) - {candidate.id for candidate in candidates})
        return candidates + list(starmap(Candidate, held.vectors.cosines(vector, missing).items()))

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        held = self.held()
        allowed = np.ones_like(held.lengths.live) if scope.include_archived else held.lengths.live
        with self._file.reading() as connection:
            for most in (POSTINGS, 5 * POSTINGS):
                scores, ideal, left_out = self._postings.scores(
                    connection, words, held.lengths, held.state.changeset, most=most
                )
                ids, best = self._find_in_scope(held, k, scope, partial(top_k, scores, allowed=allowed))
                if len(ids) or not (left_out and scope.narrows):
                    break  # otherwise the rarest words may all be outside the scope
        return Matching(tuple(starmap(Candidate, zip(ids.tolist(), best.tolist(), strict=True))), ideal)

    def _find_in_scope(self, held: InMemoryIndex, k: int, scope: Scope, find: _Find) -> tuple[Ids, Scores]:
        """Return the k best ids of the scope with their scores. `find(k, within=ids)` returns the k best of these."""
        if not scope.narrows:
            return find(k=k)
        if scope not in self._current_scopes(held):
            # Most scopes contain a good part of the best: look a little further and keep those inside. Only if that
            # gives fewer than k, the whole scope is read; then it is cached.
            wide = 2 * k + 32
            ids, scores = find(k=wide)
            where, values = condition(scope)
            with self._file.reading() as connection:
                query = self._kind.query("among").format(where=where)
                rows = connection.execute(query, {**values, "ids": connection.ids(ids.tolist())})
                inside = np.isin(ids, [row[0] for row in rows])
            if inside.sum() >= k or len(ids) < wide:
                return ids[inside][:k], scores[inside][:k]
        return find(k=k, within=self.ids_of(scope, held))

    def ids_of(self, scope: Scope, held: InMemoryIndex) -> Ids:
        """Return every id of the scope; cached while nothing changes."""
        ids_by_scope = self._current_scopes(held)
        if scope not in ids_by_scope:
            where, values = condition(scope)
            with self._file.reading() as connection:
                rows = connection.execute(self._kind.query("ids_of").format(where=where), values).fetchall()
            ids_by_scope[scope] = np.array([row[0] for row in rows], dtype=np.int64)
        return ids_by_scope[scope]

    def _current_scopes(self, held: InMemoryIndex) -> dict[Scope, Ids]:
        if held.state.changeset != self._scopes_at or len(self._scopes) > _SCOPES_KEPT:
            self._scopes, self._scopes_at = {}, held.state.changeset
        return self._scopes


def _apply_changes(
    vectors: VectorIndex | None, rows: Iterable[tuple[int, bytes | None, int | None]]
) -> tuple[VectorIndex | None, set[int]]:
    """Update the index with these memories: (id, vector or None, live). Return it with the ids of damaged vectors."""
    new: list[tuple[int, bytes, int | None]] = []
    for memory_id, blob, live in rows:
        if blob is not None:
            new.append((memory_id, blob, live))
        elif vectors:
            vectors.drop(memory_id)
    if not new:
        return vectors, set()
    size = _FLOAT * vectors.dimension if vectors else max(len(row[1]) for row in new)
    sound, matrix, damaged = _split_damaged(new, size)
    if vectors:
        for memory_id in damaged:
            vectors.drop(memory_id)
    if sound:
        vectors = vectors or VectorIndex(size // _FLOAT)
        ids = np.array([row[0] for row in sound], dtype=np.int64)
        vectors.put_many(ids, matrix, np.array([row[2] for row in sound], dtype=bool))
    return vectors, set(damaged)


def _load_vectors(connection: sqlite3.Connection, kind: SearchIndexKind) -> tuple[VectorIndex | None, frozenset[int]]:
    count, size = connection.execute(kind.query("size_of_vectors")).fetchone()
    if not count:
        return None, frozenset()
    matrix = np.empty((count, size // _FLOAT), dtype="<f4")
    ids, live = np.empty(count, dtype=np.int64), np.empty(count, dtype=bool)
    rows, filled = connection.execute(kind.query("all_vectors")), 0
    damaged: list[int] = []
    while batch := rows.fetchmany(_AT_ONCE):  # never all the blobs in addition to the matrix
        sound, block, unsound = _split_damaged(batch, size)
        end = filled + len(sound)
        ids[filled:end], live[filled:end] = [row[0] for row in sound], [row[2] for row in sound]
        matrix[filled:end] = block
        filled, damaged = end, damaged + unsound
    if damaged:
        some = ", ".join(map(str, sorted(damaged)[:5])) + (" …" if len(damaged) > 5 else "")
        _log.warning("%d damaged vectors are left out of searches and will be computed again: %s", len(damaged), some)
    if not filled:
        return None, frozenset(damaged)
    vectors = VectorIndex(size // _FLOAT)
    vectors.load(ids[:filled], matrix[:filled], live[:filled])
    return vectors, frozenset(damaged)


def _split_damaged(rows: Sequence[tuple[Any, ...]], size: int) -> tuple[list[tuple[Any, ...]], Matrix, list[int]]:
    """Return the rows (id, vector, …) whose vector can be used, these vectors, and the ids of the other rows.

    A vector has unit length and so many bytes.
    """
    fitting = [row for row in rows if len(row[1]) == size and size % _FLOAT == 0]
    matrix = _to_matrix([row[1] for row in fitting], size)
    with np.errstate(all="ignore"):
        squares = np.vecdot(matrix, matrix)
    is_sound = (squares > _LEAST_LENGTH**2) & (squares < _GREATEST_LENGTH**2)  # False for NaN
    sound = [row for row, is_usable in zip(fitting, is_sound.tolist(), strict=True) if is_usable]
    usable = {row[0] for row in sound}
    return sound, matrix[is_sound], [row[0] for row in rows if row[0] not in usable]


def _to_matrix(blobs: Sequence[bytes], size: int) -> Matrix:
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), size // _FLOAT)
