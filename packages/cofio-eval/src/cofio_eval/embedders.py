"""Embedder of a measurement: what is measured decides when a text is embedded again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from cofio.ports import Embedder, Matrix
from cofio.providers.embedders.query_cache import QueryCache

Kind = Literal["query", "document"]


class CachingEmbedder:
    """Embedder with a cache of the last `size` vectors of each of the kinds."""

    def __init__(self, embedder: Embedder, size: int, kinds: Iterable[Kind] = ("query", "document")) -> None:
        self._embedder, self._size, self._kinds = embedder, size, tuple(kinds)
        self.signature, self.dimension, self.floor = embedder.signature, embedder.dimension, embedder.floor
        self.forget()

    def forget(self) -> None:
        """Drop the cached vectors, so that the embedding of the next text is timed."""
        self._caches = {kind: QueryCache(self._size) for kind in self._kinds}

    def embed(self, texts: Sequence[str], kind: Kind) -> Matrix:
        if kind not in self._caches or not texts:
            return self._embedder.embed(texts, kind)
        return self._caches[kind].through(texts, lambda new: self._embedder.embed(new, kind))
