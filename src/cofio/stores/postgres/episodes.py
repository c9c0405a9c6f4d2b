"""Episodes in the PostgreSQL database: the rules of every SQL store, with the server's own search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cofio.models.episodes import CarriedEpisode
from cofio.models.memory import Candidate, Matching, Scope
from cofio.ports import Vector
from cofio.stores.episodes import SqlEpisodes, adopt_rows, whole
from cofio.stores.knowledge import Asking
from cofio.stores.postgres.bm25 import Words, tokens
from cofio.stores.postgres.connection import BRIEFLY, Rows, Server
from cofio.stores.postgres.knowledge import PostgresAsking
from cofio.stores.postgres.row_writer import listed
from cofio.stores.postgres.store_state import Extent, State
from cofio.stores.postgres.vector_search import Nearest

_PASSAGES = "passage_"
_FLOAT = 4  # bytes of a number in a vector


class PostgresEpisodes(SqlEpisodes):
    """EpisodeIndex of one tenant."""

    def __init__(
        self,
        server: Server,
        bound_to: Callable[[Rows, Mapping[int, Vector]], int],
        refuse_another_embedder: Callable[[str], None],
    ) -> None:
        @contextmanager
        def reading() -> Iterator[Asking]:
            with server.reading() as rows:
                yield PostgresAsking(rows)

        @contextmanager
        def writing() -> Iterator[Asking]:
            with server.writing() as rows:
                yield PostgresAsking(rows)

        super().__init__(reading, writing)
        self._server = server
        self._bound_to = bound_to
        self._refuse_another_embedder = refuse_another_embedder
        self._words = Words(_PASSAGES)
        self._nearest = Nearest(_PASSAGES)
        self._extent: Extent | None = None

    def index(self, capture: int) -> int | None:
        with self._server.writing() as rows:
            rows.one("capture_to_index", {"capture": capture})  # amending and purging lock the capture first, too
            rows.lock("episodes")  # parts of one turn become one episode, even if several processes index them
            return self._indexed(PostgresAsking(rows), capture)

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        with self._server.reading() as rows:
            state = self._state(rows)
            if not state.dimension:
                return []
            found = self._nearest.find(rows, vector, k, whole(scope), self._extent_at(rows, state), state)
            missing = listed(sorted(set(also) - {each.id for each in found}))
            return found + self._nearest.cosines(rows, vector, missing)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._server.reading() as rows:
            extent = self._extent_at(rows, self._state(rows))
            return self._words.matching(rows, words, k, whole(scope), extent)

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._server.writing(BRIEFLY, alone=True) as rows:  # deferrable: writers of facts go first
            dimension = self._bound_to(rows, vectors)
            _fill(rows, vectors)
        self._nearest.keep_index(self._server, dimension)

    def adopt(self, episodes: Sequence[CarriedEpisode]) -> None:
        with self._server.writing(alone=True) as rows:
            blobs = adopt_rows(self, PostgresAsking(rows), episodes)
            vectors = {each: np.frombuffer(blob, "<f4") for each, blob in blobs.items()}
            self._bound_to(rows, vectors)
            _fill(rows, vectors)
            if episodes:
                last = max(each.episode.id for each in episodes)
                rows.run("raise_sequence", {"id": last}, table="episodes")

    def drop_vectors(self, rows: Rows, dimension: int) -> None:
        """Delete every vector, and their index."""
        for name in ("drop_passage_vectors", "unembed_passages"):
            rows.run(name)
        self._nearest.drop_index(rows, dimension)

    def _state(self, rows: Rows) -> State:
        state = State.read(rows, _PASSAGES)
        self._refuse_another_embedder(state.signature)
        return state

    def _extent_at(self, rows: Rows, state: State) -> Extent:
        extent = self._extent
        if extent is None or not extent.is_good_at(state):
            self._extent = extent = Extent.read(rows, state, _PASSAGES)
        return extent

    def _searchable(self, text: str) -> dict[str, Any]:
        words = tokens(text)
        return {"said": " ".join(words), "length": max(1, len(words))}

    def _vector_size(self, asking: Asking) -> int:
        return _FLOAT * int(asking.all("passage_state")[0][3])


def _fill(rows: Rows, vectors: Mapping[int, Vector]) -> None:
    filled = {each: np.asarray(vectors[each], np.float32) for each in sorted(listed(list(vectors)))}
    rows.many("passage_fill_vector", [{"id": each, "vector": vector} for each, vector in filled.items()])
