"""Encoder of a store: the embedder, with its signature recorded in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cofio.ports import Embedder, Matrix, Store, Vector


class StoreEncoder:
    """Embeds texts for one store. The first vectors record which model made them."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self._embedder = embedder
        self._store = store
        self._is_signed = False

    @property
    def floor(self) -> float:
        """Cosine of unrelated texts: lower scores mean nothing."""
        return self._embedder.floor

    @property
    def signature(self) -> str:
        return self._embedder.signature

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"] = "document") -> Matrix:
        """Return one vector per text."""
        vectors = self._embedder.embed(texts, kind)
        if not self._is_signed:
            self._store.set_signature(self._embedder.signature)
            self._is_signed = True
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a search query."""
        vector: Vector = self.embed([text], "query")[0]
        return vector

    def reset(self) -> None:
        """Drop every vector of the store, so that all are made by this model. Fails first if the model does."""
        self._embedder.embed(["test text: fail before any vector is dropped"], "document")
        self._store.set_signature(self._embedder.signature, reset=True)
        self._is_signed = True
