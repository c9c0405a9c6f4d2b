"""Retention: what is kept for a limited time, and re-embedding."""

from __future__ import annotations

from collections.abc import Callable

from cofio.core.captures import CaptureService
from cofio.core.llm_usage import LLMUsageService
from cofio.ingest.writer import Writer
from cofio.models.memory import days_before
from cofio.ports import Clock
from cofio.retrieval.episodes import EpisodeService
from cofio.retrieval.reranker import Reranker
from cofio.stores.access import Access


class RetentionService:
    """Removes what has been kept long enough."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        captures: CaptureService,
        episodes: EpisodeService,
        llm_usage: LLMUsageService,
    ) -> None:
        self._access = access
        self._captures = captures
        self._clock = clock
        self._episodes = episodes
        self._llm_usage = llm_usage

    def apply(
        self,
        *,
        captures: int,
        retrievals: int,
        audit: int = 365,
        episodes: int = 180,
        episode_mb: int = 500,
        llm_texts: int = 7,
    ) -> None:
        """Apply the retention periods, in days: captures, retrievals, audit log, episodes and language model texts.

        What was injected into sessions is forgotten with the captures; counts of captures and retrievals stay.
        `episode_mb` also limits the total size of episodes in megabytes; the oldest are removed first.
        """
        self._access.require_owner("Applying retention periods")
        now, store = self._clock(), self._access.store  # the clock that set their times
        self._captures.forget(days_before(now, captures))
        store.usage.forget(days_before(now, retrievals))
        store.dashboard.forget_injected(days_before(now, retrievals))
        store.keys.forget(days_before(now, audit))
        self._episodes.forget(days_before(now, episodes), episode_mb)
        store.llm_calls.forget(days_before(now, llm_texts))
        self._llm_usage.close_interrupted()


class EmbeddingService:
    """Makes the vectors and token embeddings that are missing."""

    def __init__(self, writer: Writer, episodes: EpisodeService, reranker: Reranker) -> None:
        self._writer = writer
        self._access = writer.access
        self._episodes = episodes
        self._reranker = reranker

    def embed_missing(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Embed memories without a vector, all or at most `most`; return their number."""
        return self._writer.embed_missing(progress, most=most)

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed every memory and episode again with the current embedder; return the number of memories."""
        self._access.require_owner("Re-embedding every memory")
        self._writer.encoder.reset()
        total = self._writer.embed_missing(progress)
        self._episodes.embed_missing()
        return total

    def pending_token_embeddings(self) -> int:
        """Return the number of memories without token embeddings; 0 if re-ranking is off."""
        self._access.require_owner("Computing token embeddings")
        return self._reranker.pending()

    def build_token_embeddings(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Compute missing token embeddings of all or `most` memories; return their number, 0 if re-ranking is off."""
        self._access.require_owner("Computing token embeddings")
        return self._reranker.build_missing(progress, most=most)
