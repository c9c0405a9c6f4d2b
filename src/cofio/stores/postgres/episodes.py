"""Episodes in the PostgreSQL database: the rules of every SQL store, with the server's own search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cofio.models.episodes import ExportedEpisode
from cofio.models.memory import Candidate, Matching, Scope
from cofio.ports import Vector
from cofio.stores.episodes import SqlEpisodes, adopt_rows, with_archived
from cofio.stores.postgres.bm25 import TenantBm25, search_tokens
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.postgres.store_state import TenantSize, TenantState
from cofio.stores.postgres.vector_search import VectorSearch, dimension_of
from cofio.stores.query_runner import BRIEFLY, Queries
from cofio.stores.row_mapping import storable_ids

_PASSAGES = "passage_"
_FLOAT = 4  # bytes of a number in a vector


class PostgresEpisodes(SqlEpisodes):
    """EpisodeIndex of one tenant."""

    def __init__(
        self,
        server: PostgresServer,
        bind_vectors: Callable[[Queries, Mapping[int, Vector]], None],
        refuse_another_embedder: Callable[[str], None],
    ) -> None:
        super().__init__(server)
        self._server = server
        self._bind_vectors = bind_vectors
        self._refuse_another_embedder = refuse_another_embedder
        self._words = TenantBm25(_PASSAGES)
        self._nearest = VectorSearch(_PASSAGES)
        self._extent: TenantSize | None = None

    def index(self, capture: int) -> int | None:
        with self._server.writing() as rows:
            rows.one("capture_to_index", {"capture": capture})  # amending and purging lock the capture first, too
            rows.lock("episodes")  # parts of one turn become one episode, even if several processes index them
            return self._index_capture(rows, capture)

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        with self._server.reading() as rows:
            state = self._state(rows)
            if not state.dimension:
                return []
            candidates = self._nearest.find(rows, vector, k, with_archived(scope), self._extent_at(rows, state), state)
            missing = storable_ids(sorted(set(also) - {candidate.id for candidate in candidates}))
            return candidates + self._nearest.cosines(rows, vector, missing)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._server.reading() as rows:
            extent = self._extent_at(rows, self._state(rows))
            return self._words.matching(rows, words, k, with_archived(scope), extent)

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._server.writing(BRIEFLY, alone=True) as rows:  # deferrable: writers of facts go first
            self._bind_vectors(rows, vectors)
            _fill(rows, vectors)
        self._nearest.keep_index(self._server, dimension_of(vectors))

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        with self._server.writing(alone=True) as rows:
            blobs = adopt_rows(self, rows, episodes)
            vectors = {number: np.frombuffer(blob, "<f4") for number, blob in blobs.items()}
            self._bind_vectors(rows, vectors)
            _fill(rows, vectors)
            if episodes:
                last = max(episode.episode.id for episode in episodes)
                rows.run("raise_sequence", {"id": last}, table="episodes")

    def drop_vectors(self, rows: TenantQueries, dimension: int) -> None:
        """Delete every vector, and their index."""
        for name in ("drop_passage_vectors", "unembed_passages"):
            rows.run(name)
        self._nearest.drop_index(rows, dimension)

    def _state(self, rows: TenantQueries) -> TenantState:
        state = TenantState.read(rows, _PASSAGES)
        self._refuse_another_embedder(state.signature)
        return state

    def _extent_at(self, rows: TenantQueries, state: TenantState) -> TenantSize:
        extent = self._extent
        if extent is None or not extent.is_good_at(state):
            self._extent = extent = TenantSize.read(rows, state, _PASSAGES)
        return extent

    def _searchable(self, text: str) -> dict[str, Any]:
        words = search_tokens(text)
        return {"said": " ".join(words), "length": max(1, len(words))}

    def _vector_size(self, queries: Queries) -> int:
        return _FLOAT * int(queries.all("passage_state")[0][3])


def _fill(rows: TenantQueries, vectors: Mapping[int, Vector]) -> None:
    filled = {number: np.asarray(vectors[number], np.float32) for number in sorted(storable_ids(list(vectors)))}
    rows.many("passage_fill_vector", [{"id": number, "vector": vector} for number, vector in filled.items()])
