"""Retention: what is kept for a limited time, and re-embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cofio.core.captures import CaptureService
from cofio.core.llm_usage import LLMUsageService
from cofio.ingest.writer import Writer
from cofio.models.memory import days_before
from cofio.ports import Clock
from cofio.retrieval.episodes import EpisodeService
from cofio.retrieval.reranker import Reranker
from cofio.stores.access import Access


@dataclass(eq=False)
class RetentionService:
    """Removes what has been kept long enough."""

    access: Access
    clock: Clock
    captures: CaptureService
    episodes: EpisodeService
    llm_usage: LLMUsageService

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
        self.access.require_owner("Applying retention periods")
        now, store = self.clock(), self.access.store  # the clock that set their times
        self.captures.forget(days_before(now, captures))
        store.usage.forget(days_before(now, retrievals))
        store.dashboard.forget_injected(days_before(now, retrievals))
        store.keys.forget(days_before(now, audit))
        self.episodes.forget(days_before(now, episodes), episode_mb)
        store.llm_calls.forget(days_before(now, llm_texts))
        self.llm_usage.close_interrupted()


@dataclass(eq=False)
class EmbeddingService:
    """Makes the vectors and token embeddings that are missing."""

    writer: Writer
    episodes: EpisodeService
    reranker: Reranker

    def embed_missing(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Embed memories without a vector, all or at most `most`; return their number."""
        return self.writer.embed_missing(progress, most=most)

    def drop_damaged(self) -> int:
        """Delete damaged vectors of memories and episodes, so that they are computed again; return their number."""
        store = self.writer.access.store
        return store.drop_damaged_vectors() + store.episodes.drop_damaged_vectors()

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed every memory and episode again with the current embedder; return the number of memories."""
        self.writer.access.require_owner("Re-embedding every memory")
        self.writer.encoder.reset()
        total = self.writer.embed_missing(progress)
        self.episodes.embed_missing()
        return total

    def pending_token_embeddings(self) -> int:
        """Return the number of memories without token embeddings; 0 if re-ranking is off."""
        self.writer.access.require_owner("Computing token embeddings")
        return self.reranker.pending()

    def build_token_embeddings(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Compute missing token embeddings of all or `most` memories; return their number, 0 if re-ranking is off."""
        self.writer.access.require_owner("Computing token embeddings")
        return self.reranker.build_missing(progress, most=most)
