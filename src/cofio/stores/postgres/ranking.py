"""Search in the server store: the server finds, scores and narrows; word frequencies and small scopes are cached here.

    text ─ tokens ─▶ tsvector (Porter stems) ─▶ GIN
    words ─ phrases with frequencies ─▶ one statement finds, scores and narrows ─▶ the best of the scope

    a small store, a narrow scope ─▶ every vector of it
    anything else ─▶ HNSW over half precision, filtered during the search ─▶ the best, again, in full

Tokens and BM25 are those of the embedded store. Word frequencies are exact while the store is small, approximate once
it is large. There is one index of vectors per dimension; it is built once there are enough for it to pay off.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple
from unicodedata import combining, normalize

import numpy as np

from cofio.models.memory import Candidate, Matching, Memory, Scope
from cofio.ports import Matrix, Vector
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.query_runner import Queries
from cofio.stores.row_mapping import as_json, storable_ids
from cofio.stores.sqlite.bm25 import CONTEXT, COUNTED, FEW, K1, POSTINGS, B, idf, rarest_words
from cofio.stores.sqlite.vector_index import VectorIndex

FEW_VECTORS = 2_000  # up to this number, comparing each is as fast as an index
_EFFORT = 200  # minimum of hnsw.ef_search; twice the number of hits if that is higher
_MOST = 1_000  # the maximum that pgvector allows
_SPARE = 16  # further candidates: half precision may put neighbours in the wrong order
_WIDEST = 4_000  # dimensions that an index supports
_AT_ONCE = 4_096  # vectors read at a time
_SCOPES_KEPT = 64
_HEAD = 4  # header bytes of a vector sent by the server: dimension and unused
_TOKEN = re.compile(r"[^\W_]+")
_log = logging.getLogger(__name__)


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def search_tokens(text: str) -> list[str]:
    """Return the tokens of a text: letters and digits, lower case, without accents.

    A symbol such as ™ ends a word: "Next™" is "next".
    """
    if not text.isascii():
        spaced = "".join(char if char.isalnum() else " " for char in normalize("NFC", text))
        text = "".join(char for char in normalize("NFKD", spaced) if not combining(char))
    return _TOKEN.findall(text.lower())


def to_phrase(word: str) -> str:
    """Return a word as the server searches it: "next.js" becomes the phrase "next js"; "" if nothing is left."""
    return " ".join(search_tokens(word))


def searchable(memory: Memory) -> dict[str, Any]:
    """Return the search columns: tokens of the text with its labels, tokens of the context, and their number."""
    about = (memory.speaker, memory.agent, memory.source, as_json(memory.entities), as_json(memory.tags))
    text_words, context_words = search_tokens(" ".join((memory.text, *about))), search_tokens(memory.context)
    return {
        "said": " ".join(text_words),
        "around": " ".join(context_words),
        "length": max(1, len(text_words) + len(context_words)),
    }


# ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class TenantState(NamedTuple):
    """State of the tenant's store at the newest commit of any process."""

    changeset: int
    newest: int  # the highest id
    signature: str  # of the embedder; "" until one is bound
    dimension: int  # of the vectors; 0 until there are any

    @classmethod
    def read(cls, queries: Queries, prefix: str = "") -> TenantState:
        return cls(*queries.one(f"{prefix}state") or (0, 0, "", 0))


@dataclass(frozen=True, slots=True)
class TenantSize:
    """Number of memories, archived ones included, and their mean number of words."""

    count: int
    mean: float
    at: TenantState  # when it was counted

    @property
    def is_small(self) -> bool:
        """Return whether the store is small enough to count exactly, every time."""
        return self.count <= FEW

    def is_good_at(self, state: TenantState) -> bool:
        """Return whether the count is still valid: until a change, or in a large store until it has grown by 2 %."""
        if self.is_small:
            return self.at.changeset == state.changeset
        return 0 <= state.newest - self.at.newest <= self.count // 50


# ── ranking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class TenantRanking:
    """Ranking of a tenant's memories by cosine and by BM25, and upkeep of their vector index.

    With a prefix, of the rows whose named queries begin with it.
    """

    def __init__(
        self, server: PostgresServer, refuse_another_embedder: Callable[[str], None], prefix: str = ""
    ) -> None:
        self._server = server
        self._refuse_another_embedder = refuse_another_embedder
        self._prefix = prefix
        self._size: TenantSize | None = None
        self._counts: dict[str, int] = {}  # memories by word, as of `_counted`
        self._counted: TenantSize | None = None
        self._scopes: dict[Scope, list[int] | None] = {}  # ids of small scopes, as long as nothing changes
        self._scopes_at = 0
        self._indexed: set[int] = set()  # dimensions with an index

    def state(self, rows: TenantQueries) -> TenantState:
        """Return the state of the store. Raise EmbedderMismatch after a re-embedding by another process."""
        state = TenantState.read(rows, self._prefix)
        self._refuse_another_embedder(state.signature)
        return state

    def _size_at(self, rows: TenantQueries, state: TenantState) -> TenantSize:
        size = self._size
        if size is None or not size.is_good_at(state):
            count, length = rows.one(f"{self._prefix}lengths") or (0, 0)
            self._size = size = TenantSize(count, length / count if count else 1.0, state)
        return size

    # ── vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def nearest(self, vector: Vector, k: int, scope: Scope, also: Iterable[int] = ()) -> list[Candidate]:
        vector = np.ascontiguousarray(vector, dtype=np.float32)
        with self._server.reading() as rows:
            state = self.state(rows)
            if not state.dimension:
                return []
            candidates = self._find_nearest(rows, vector, k, scope, state) if k > 0 else []
            missing = storable_ids(sorted(set(also) - {candidate.id for candidate in candidates}))
            if not missing:
                return candidates
            params = {"vector": vector, "ids": missing, "k": len(missing)}
            return candidates + _candidates(rows.all(f"{self._prefix}cosines", params, order="memory_id"))

    def _find_nearest(
        self, rows: TenantQueries, vector: Vector, k: int, scope: Scope, state: TenantState
    ) -> list[Candidate]:
        """Return the k nearest of the scope, best first, ties by lower id."""
        where, values = condition(scope, POSTGRES)
        params = {"vector": vector, "k": k}
        is_large = self._size_at(rows, state).count > FEW_VECTORS
        if is_large and scope.narrows:
            inside = self._small_scope(rows, scope, state)
            if inside is not None:
                params["ids"] = inside
                return _candidates(rows.all(f"{self._prefix}cosines", params, order="cosine DESC, memory_id"))
        if is_large and state.dimension <= _WIDEST:
            with rows.connection.transaction():  # the settings are for this search only
                rows.run("search_by_nearness", {"effort": min(max(2 * k, _EFFORT), _MOST)})
                parts = {"where": where, "dimension": str(state.dimension)}
                records = rows.all(f"{self._prefix}nearest_by_index", {**params, **values, "many": k + _SPARE}, **parts)
            if len(records) == k:
                return _candidates(records)
        return _candidates(rows.all(f"{self._prefix}nearest_of_all", {**params, **values}, where=where))

    unusable = 0  # searches pass over damaged vectors without counting them

    def damaged(self) -> list[int]:
        with self._server.reading() as rows:
            dimension = self.state(rows).dimension
            return rows.column(f"{self._prefix}damaged_vectors", {"dimension": dimension}) if dimension else []

    def _small_scope(self, rows: TenantQueries, scope: Scope, state: TenantState) -> list[int] | None:
        """Return every id of the scope if there are few, else None; cached while nothing changes."""
        if state.changeset != self._scopes_at or len(self._scopes) > _SCOPES_KEPT:
            self._scopes, self._scopes_at = {}, state.changeset
        scopes = self._scopes
        if scope not in scopes:
            where, values = condition(scope, POSTGRES)
            ids = rows.column(f"{self._prefix}ids_of", {**values, "limit": FEW_VECTORS + 1}, where=where)
            scopes[scope] = ids if len(ids) <= FEW_VECTORS else None
        return scopes[scope]

    def keep_index(self, dimension: int) -> None:
        """Build the index, if there are many vectors and no index. Writes of vectors wait meanwhile."""
        if dimension in self._indexed or not 0 < dimension <= _WIDEST:
            return
        with self._server.reading() as rows:
            if not rows.value(f"{self._prefix}are_many_vectors", {"most": FEW_VECTORS}):
                return
            if rows.value(f"{self._prefix}has_nearness", dimension=str(dimension)):
                self._indexed.add(dimension)
                return
        with self._server.writing() as rows:
            rows.run("one_at_a_time")
            rows.run(f"{self._prefix}make_nearness", dimension=str(dimension))
        self._indexed.add(dimension)
        _log.info("Built the search index of vectors with %d dimensions", dimension)

    def drop_index(self, rows: TenantQueries, dimension: int) -> None:
        """Drop the index of a dimension if no tenant has vectors of it any more: a new build gives a better one."""
        if dimension and not rows.value(f"{self._prefix}any_vector_of_any"):
            rows.run(f"{self._prefix}drop_nearness", dimension=str(dimension))
        self._indexed.discard(dimension)

    # ── BM25 ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._server.reading() as rows:
            size = self._size_at(rows, self.state(rows))
            counts = self._frequencies(rows, words, size)
            ideal = sum(idf(count, size.count) for count in counts.values())
            word_counts = {word: count for word, count in counts.items() if count}
            chosen = list(word_counts) if size.is_small else rarest_words(word_counts, POSTINGS)
            candidates = self._find_best(rows, chosen, word_counts, k, scope, size)
            if not candidates and scope.narrows and len(chosen) < len(word_counts):
                chosen = rarest_words(word_counts, 5 * POSTINGS)  # the rarest words may all be outside the scope
                candidates = self._find_best(rows, chosen, word_counts, k, scope, size)
        return Matching(tuple(candidates), ideal)

    def _find_best(
        self,
        rows: TenantQueries,
        words: Sequence[str],
        counts: Mapping[str, int],
        k: int,
        scope: Scope,
        size: TenantSize,
    ) -> list[Candidate]:
        if not words:
            return []
        where, values = condition(scope, POSTGRES)
        params = {
            "phrases": [to_phrase(word) for word in words],
            "rarity": [(K1 + 1) * idf(counts[word], size.count) for word in words],
            "base": K1 * (1 - B),
            "slope": K1 * B / size.mean,
            "context": float(CONTEXT),
            "k": k,
        }
        return list(starmap(Candidate, rows.all(f"{self._prefix}matching", {**values, **params}, where=where)))

    def _frequencies(self, rows: TenantQueries, words: Sequence[str], size: TenantSize) -> dict[str, int]:
        if self._counted is not size or len(self._counts) > COUNTED:
            self._counts, self._counted = {}, size
        cache = self._counts
        unknown = {word: to_phrase(word) for word in words if word not in cache}
        phrases = sorted({phrase for phrase in unknown.values() if phrase})
        rows_by_phrase = rows.all(f"{self._prefix}frequency", {"phrases": phrases}) if phrases else []
        count_by_phrase: dict[str, int] = dict(rows_by_phrase)
        new_counts = {word: count_by_phrase.get(phrase, 0) for word, phrase in unknown.items()}
        cache.update({word: count for word, count in new_counts.items() if count})  # not 0: the word may occur any time
        return {word: new_counts[word] if word in new_counts else cache[word] for word in words}


def _candidates(rows: Sequence[tuple[int, float]]) -> list[Candidate]:
    return [Candidate(memory_id, min(1.0, max(-1.0, cosine))) for memory_id, cosine in rows]


# ── vectors read from the server ──────────────────────────────────────────────────────────────────────────────────────


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


def to_matrix(blobs: Sequence[bytes]) -> Matrix:
    """Return vectors in the server's binary format as a matrix, one per row."""
    raw = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)
    return np.ascontiguousarray(raw[:, _HEAD:]).view(">f4").astype(np.float32)
