"""Episode index of a store: indexing of captures, search and removal.

capture ─ processed ─▶ index ─▶ passages, searchable by keyword ─ embed ─▶ searchable by vector
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from cofio.errors import CofioError, NotFound
from cofio.models.episodes import Episode, EpisodeHit
from cofio.models.memory import Query
from cofio.ports import EpisodeIndex, Matrix
from cofio.retrieval import hybrid

_BATCH = 64  # passages embedded, or captures indexed, per batch
MEGABYTE = 1_000_000
_log = logging.getLogger(__name__)


class Embed(Protocol):
    """Function that embeds texts with the store's embedder."""

    def __call__(self, texts: Sequence[str], kind: Literal["query", "document"] = ...) -> Matrix: ...


class EpisodeService:
    """Indexes and searches the episodes of a store on behalf of a viewer."""

    def __init__(self, index: EpisodeIndex, embed: Embed, floor: Callable[[], float], *, enabled: bool = True) -> None:
        self._index = index
        self._embed = embed
        self._floor = floor
        self._enabled = enabled

    def search(self, query: Query) -> list[EpisodeHit]:
        """Return matching episodes, best first, each with its best passage."""
        vector = self._embed([query.text], "query")[0]
        return hybrid.episode_hits(query, vector, self._index, self._floor())

    def get(self, episode_id: int) -> Episode:
        """Return an episode."""
        episodes = self._index.get([episode_id])
        if not episodes:
            raise _not_found(episode_id)
        return episodes[0]

    def of_memory(self, memory_id: int) -> int | None:
        """Return the id of the episode a memory was learned from."""
        return self._index.of_memory(memory_id)

    def purge(self, episode_id: int) -> None:
        """Erase an episode permanently, including the text of its capture."""
        if not self._index.remove([episode_id]):
            raise _not_found(episode_id)

    def index_capture(self, capture: int) -> None:
        """Index a processed capture. On failure, `index_missing` retries later."""
        if not self._enabled:
            return
        try:
            self._index.index(capture)
        except CofioError as error:
            _log.warning("capture %d is not indexed yet: %s", capture, error)

    def index_missing(self, most: int | None = None) -> int:
        """Index captures without an episode, at most `most`; return their number."""
        total = 0
        while self._enabled and (captures := self._index.unindexed(_limit_batch(most, total))):
            for capture in captures:
                self._index.index(capture)
            total += len(captures)
        return total

    def embed_missing(self, most: int | None = None) -> int:
        """Embed passages without a vector, at most `most`; return their number."""
        total = 0
        while passages := self._index.unembedded(_limit_batch(most, total)):
            vectors = self._embed([passage.text for passage in passages])
            self._index.put_vectors({passage.id: vector for passage, vector in zip(passages, vectors, strict=True)})
            total += len(passages)
        return total

    def forget(self, before: str, megabytes: int) -> int:
        """Remove episodes older than `before`, and the oldest beyond the size limit; return their number."""
        return self._index.forget(before, megabytes * MEGABYTE)


def _limit_batch(most: int | None, done: int) -> int:
    return _BATCH if most is None else min(_BATCH, most - done)


def _not_found(episode_id: int) -> NotFound:
    return NotFound(
        f"There is no episode {episode_id}.", "It may have been removed; `cofio search --episodes` finds others."
    )
