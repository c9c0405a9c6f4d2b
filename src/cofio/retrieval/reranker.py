"""Re-ranking: encodes queries and memories with a late-interaction model, if one is configured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cofio.models.memory import Memory
from cofio.ports import LateInteractionModel, TokenEmbeddings
from cofio.retrieval.hybrid import TokenQuery
from cofio.text.tokens import read_in_context

_BATCH = 256  # memories encoded and written per batch
_log = logging.getLogger(__name__)


class Reranker:
    """Late-interaction model of a store, shared by all callers; disabled after the first failure."""

    def __init__(self, model: LateInteractionModel | None, token_embeddings: TokenEmbeddings) -> None:
        self._model = model
        self._token_embeddings = token_embeddings
        self._is_bound = False
        self._pool = ThreadPoolExecutor(2, "cofio-reranker")  # threads start with the first query

    def encode_queries(self, texts: Sequence[str]) -> Callable[[], Mapping[str, TokenQuery]]:
        """Start encoding the queries; return a function that waits for the result, empty without a re-ranker."""
        model = self._model
        if model is None or not texts:
            return dict
        try:
            encoding = self._pool.submit(model.read, texts, "query")
        except RuntimeError:  # closed meanwhile, or the process exits
            return dict

        def collect() -> Mapping[str, TokenQuery]:
            """Wait for the encoded queries. A failing re-ranker costs the re-ranking, not the answer."""
            try:
                encoded = encoding.result()
            except Exception as error:  # noqa: BLE001 - a model may raise anything
                self._log_failure(error)
                return {}
            return {text: TokenQuery(model, tokens) for text, tokens in zip(texts, encoded, strict=True) if tokens}

        return collect

    def pending(self) -> int:
        """Return the number of memories without token embeddings; 0 if re-ranking is off."""
        return self._token_embeddings.counts()[1] if self._bind() else 0

    def build_missing(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Compute missing token embeddings of all or `most` memories; return their number, 0 if re-ranking is off."""
        total = 0
        while (model := self._bind()) and (most is None or total < most):
            memories = self._token_embeddings.pending(_BATCH if most is None else min(_BATCH, most - total))
            if not memories:
                break
            tokens = self._encode_memories(memories)
            if not tokens or not self._token_embeddings.put(list(zip(memories, tokens, strict=True)), model.signature):
                break
            total += len(memories)
            if progress:
                progress(total)
        return total

    def _bind(self) -> LateInteractionModel | None:
        """Return the model after binding the store to it. Search skips this: it may wait for writers."""
        if self._model and not self._is_bound:
            self._token_embeddings.set_signature(self._model.signature)
            self._is_bound = True
        return self._model

    def _encode_memories(self, memories: Sequence[Memory]) -> list[bytes]:
        """Return the token embeddings of each memory; empty on failure."""
        try:
            texts = [read_in_context(memory.text, memory.speaker, memory.context) for memory in memories]
            return self._model.read(texts, "document") if self._model else []
        except Exception as error:  # noqa: BLE001 - a model may raise anything
            self._log_failure(error)
            return []

    def close(self) -> None:
        self._model = None
        self._pool.shutdown(wait=False)

    def _log_failure(self, error: Exception) -> None:
        _log.warning("Re-ranking is disabled: %s", error)
        self._model = None
