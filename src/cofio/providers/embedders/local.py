"""The default embedder: bge-small-en-v1.5, int8, on the local CPU.

Each text is a separate run. The model quantises its activations by the largest value of a run, so the vector of a text
would depend on its batch: measured, by up to 0.025 in cosine distance, which changes the cosine of a pair by up to
0.05, enough to confuse two facts. Batches are not faster on a CPU either (10 % at best, and slower beyond 16 texts). So
each text has one vector, independent of the rest of the call, and a long list is spread over threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cofio.providers.embedders import model_files
from cofio.providers.embedders.onnx_session import session
from cofio.providers.embedders.query_cache import QueryCache
from cofio.providers.embedders.wordpiece import WordPiece

if TYPE_CHECKING:
    from cofio.ports import Matrix, Vector

DIMENSION = 384
# Unrelated texts have a cosine of 0.36 to 0.54 with this model. Search results are equal for floors from 0.3 to 0.45.
FLOOR = 0.40
WORTH_SPREADING = 8  # texts from which threads pay off


class LocalEmbedder:
    """Local embedder that loads the model at the first use, from the place that `models.find` returns.

    `threads` work on one text, `workers` on the texts of one call. `recent` query vectors are cached.
    """

    def __init__(
        self,
        home: Path,
        *,
        threads: int = 1,
        workers: int = 2,
        download: bool = True,
        url: str = "",
        progress: model_files.Progress | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        recent: int = 512,
    ) -> None:
        self._home = home
        self._threads = threads
        self._workers = workers
        self._download = download
        self._url = url
        self._progress = progress
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._recent = QueryCache(recent)
        self._loading = Lock()
        self._network: _BertNetwork | None = None

    @property
    def signature(self) -> str:
        return f"local:{model_files.MODEL}:{DIMENSION}:q={self._prefixes['query']}:d={self._prefixes['document']}"

    @property
    def dimension(self) -> int:
        return DIMENSION

    @property
    def floor(self) -> float:
        return FLOOR

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """Return one row per text, in order; texts are truncated to 512 tokens."""
        if not texts:
            return np.empty((0, DIMENSION), np.float32)
        prefixed = [self._prefixes[kind] + text for text in texts]
        return self._recent.through(prefixed, self._vectors) if kind == "query" else self._vectors(prefixed)

    def _vectors(self, texts: Sequence[str]) -> Matrix:
        network = self._loaded()
        if self._workers < 2 or len(texts) < WORTH_SPREADING:
            return np.stack([network.vector(text) for text in texts])
        with ThreadPoolExecutor(self._workers, "embed") as pool:
            return np.stack(list(pool.map(network.vector, texts)))

    def _loaded(self) -> _BertNetwork:
        if self._network is None:
            with self._loading:
                if self._network is None:
                    self._network = self._load()
        return self._network

    def _load(self) -> _BertNetwork:
        place = model_files.find(self._home, download=self._download, url=self._url, progress=self._progress)
        return _BertNetwork(WordPiece.read(place / "vocab.txt"), session(place / "model.onnx", self._threads))


class _BertNetwork(NamedTuple):
    """Loaded model."""

    words: WordPiece
    session: Any

    def vector(self, text: str) -> Vector:
        """Return the unit vector of the text: the network's state at [CLS]."""
        ids = np.array([self.words.ids(text)], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        state: Vector = self.session.run(["last_hidden_state"], feed)[0][0, 0]
        return state / np.linalg.norm(state)
