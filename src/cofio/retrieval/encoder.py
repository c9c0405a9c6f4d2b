"""Encoder of a store: the embedder, with its signature recorded in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cofio.errors import Misconfigured, Unavailable
from cofio.models.diagnostics import Check, FailureMonitor
from cofio.ports import Embedder, Matrix, Store, Vector

_REPEATED = 2  # consecutive failures of a remote embedder that are reported as a problem


class StoreEncoder:
    """Embeds texts for one store. The first vectors record which model made them."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self._embedder = embedder
        self._store = store
        self._is_signed = False
        self._calls = FailureMonitor("embedder", Unavailable, least=_REPEATED)
        self._settings = FailureMonitor("embedder", Misconfigured)

    def problems(self) -> list[Check]:
        """Return why memories cannot be embedded: another model made the vectors, or the embedder keeps failing."""
        return self._settings.problems() or self._calls.problems()

    @property
    def floor(self) -> float:
        """Cosine of unrelated texts: lower scores mean nothing."""
        return self._embedder.floor

    @property
    def signature(self) -> str:
        return self._embedder.signature

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"] = "document") -> Matrix:
        """Return one vector per text."""
        with self._settings.watch(), self._calls.watch():
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
        with self._settings.watch(), self._calls.watch():
            self._embedder.embed(["test text: fail before any vector is dropped"], "document")
            self._store.set_signature(self._embedder.signature, reset=True)
            self._is_signed = True
