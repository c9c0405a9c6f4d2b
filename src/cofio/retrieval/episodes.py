"""Episode index of a store: indexing of captures, search and removal.

capture ─ processed ─▶ index ─▶ passages, searchable by keyword ─ embed ─▶ searchable by vector
"""

from __future__ import annotations

import logging

from cofio.errors import CofioError, NotFound
from cofio.models.episodes import Episode, EpisodeHit
from cofio.models.memory import Query, Scope, check_int, to_utc_iso
from cofio.retrieval import hybrid
from cofio.retrieval.encoder import StoreEncoder
from cofio.stores.access import Access

_BATCH = 64  # passages embedded, or captures indexed, per batch
MEGABYTE = 1_000_000
_log = logging.getLogger(__name__)


class EpisodeService:
    """Indexes and searches the episodes of a store on behalf of one caller."""

    def __init__(self, access: Access, encoder: StoreEncoder, *, enabled: bool = True) -> None:
        self._access = access
        self._index = access.store.episodes
        self._encoder = encoder
        self._enabled = enabled

    def search_episodes(
        self,
        query: str,
        *,
        k: int = 5,
        skip: int = 0,
        min_score: float = 0.0,
        source: str | None = None,
        source_prefix: str = "",
        project: str | None = None,
        visible_in: str | None = None,
        session: str = "",
        agent: str = "",
        since: str = "",
        until: str = "",
    ) -> list[EpisodeHit]:
        """Search conversations by turn: matching episodes, best first, each with its best passage.

        Scores use the scale of `search`. The fields from `source` on filter as those of a Scope do.
        """
        scope = Scope(
            source=source,
            source_prefix=source_prefix,
            project=project,
            visible_in=visible_in,
            session=session,
            agent=agent,
            since=since,
            until=until,
        )
        return self.find(Query(text=query, k=k, skip=skip, min_score=min_score, scope=scope))

    def find(self, query: Query) -> list[EpisodeHit]:
        """Return the episodes that match a query, best first, each with its best passage."""
        return hybrid.episode_hits(query, self._encoder.embed_query(query.text), self._index, self._encoder.floor)

    def get(self, episode_id: int) -> Episode:
        """Return one episode: the conversation of one turn."""
        episodes = self._index.get([check_int(episode_id, "id")])
        if not episodes:
            raise _not_found(episode_id)
        return episodes[0]

    def of_memory(self, memory_id: int) -> int | None:
        """Return the id of the episode that a memory was learned from; None if it has none."""
        return self._index.of_memory(self._access.get_memory(memory_id).id)

    def purge(self, episode_id: int) -> None:
        """Erase an episode permanently, with the text of its capture. Memories learned from it stay."""
        if not self._index.remove([check_int(episode_id, "id")]):
            raise _not_found(episode_id)

    def index_capture(self, capture: int) -> None:
        """Index a processed capture. On failure, `index_missing` retries later."""
        if not self._enabled:
            return
        try:
            self._index.index(capture)
        except CofioError as error:
            _log.warning("The episode of capture %d could not be indexed and is retried later: %s", capture, error)

    def index_missing(self, *, most: int | None = None) -> int:
        """Index captures without an episode, at most `most`; return their number."""
        self._access.require_owner("Indexing episodes")
        total = 0
        while self._enabled and (captures := self._index.unindexed(_limit_batch(most, total))):
            for capture in captures:
                self._index.index(capture)
            total += len(captures)
        return total

    def embed_missing(self, *, most: int | None = None) -> int:
        """Embed passages without a vector, at most `most`; return their number."""
        self._access.require_owner("Embedding every episode")
        total = 0
        while passages := self._index.unembedded(_limit_batch(most, total)):
            vectors = self._encoder.embed([passage.text for passage in passages])
            self._index.put_vectors({passage.id: vector for passage, vector in zip(passages, vectors, strict=True)})
            total += len(passages)
        return total

    def forget(self, before: str, megabytes: int) -> int:
        """Remove episodes older than `before`, and the oldest beyond the size limit; return their number."""
        self._access.require_owner("Removing episodes")
        size = check_int(megabytes, "megabytes", least=0) * MEGABYTE
        return self._index.forget(to_utc_iso(before), size)


def _limit_batch(most: int | None, count: int) -> int:
    return _BATCH if most is None else min(_BATCH, most - count)


def _not_found(episode_id: int) -> NotFound:
    return NotFound(
        f"There is no episode {episode_id}.",
        "It may have been removed; `cofio search --episodes` searches the existing ones.",
    )
