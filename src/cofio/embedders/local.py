"""The default embedder: bge-small-en-v1.5, int8, on this machine's processor.

Each text is a run of its own. The model quantises its activations by the largest value in the run, so in a batch the
same text comes out different beside other neighbours: measured, by up to 0.025 in cosine distance, which moves the
cosine of a pair by up to 0.05, as much as tells two facts apart. Nor does a batch gain speed on a processor (a tenth at
best; it loses beyond 16 texts). So a text has one vector, whatever it is embedded with, and a long list is spread over
threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cofio.embedders import models
from cofio.embedders.network import session
from cofio.embedders.recent import Recent
from cofio.embedders.wordpiece import WordPiece

if TYPE_CHECKING:
    from cofio.ports import Matrix, Vector

DIMENSION = 384
# Unrelated texts have a cosine of 0.36 to 0.54 with this model. Search does as well with any floor from 0.3 to 0.45.
FLOOR = 0.40
WORTH_SPREADING = 8  # texts; fewer are done before a thread is up


class LocalEmbedder:
    """Loads the model at the first use, from wherever `models.find` has it.

    `threads` work on one text, `workers` on the texts of one call. `recent` query vectors are kept.
    """

    def __init__(
        self,
        home: Path,
        *,
        threads: int = 1,
        workers: int = 2,
        download: bool = True,
        url: str = "",
        progress: models.Progress | None = None,
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
        self._recent = Recent(recent)
        self._loading = Lock()
        self._network: _Network | None = None

    @property
    def signature(self) -> str:
        return f"local:{models.MODEL}:{DIMENSION}:q={self._prefixes['query']}:d={self._prefixes['document']}"

    @property
    def dimension(self) -> int:
        return DIMENSION

    @property
    def floor(self) -> float:
        return FLOOR

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """One row a text, in order; of a text longer than 512 tokens the beginning counts."""
        if not texts:
            return np.empty((0, DIMENSION), np.float32)
        read = [self._prefixes[kind] + text for text in texts]
        return self._recent.through(read, self._vectors) if kind == "query" else self._vectors(read)

    def _vectors(self, texts: Sequence[str]) -> Matrix:
        network = self._loaded()
        if self._workers < 2 or len(texts) < WORTH_SPREADING:
            return np.stack([network.vector(text) for text in texts])
        with ThreadPoolExecutor(self._workers, "embed") as pool:
            return np.stack(list(pool.map(network.vector, texts)))

    def _loaded(self) -> _Network:
        if self._network is None:
            with self._loading:
                if self._network is None:
                    self._network = self._load()
        return self._network

    def _load(self) -> _Network:
        place = models.find(self._home, download=self._download, url=self._url, progress=self._progress)
        return _Network(WordPiece.read(place / "vocab.txt"), session(place / "model.onnx", self._threads))


class _Network(NamedTuple):
    """The model, ready to run."""

    words: WordPiece
    session: Any

    def vector(self, text: str) -> Vector:
        """The unit vector of the text: the network's state at [CLS]."""
        ids = np.array([self.words.ids(text)], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        state: Vector = self.session.run(["last_hidden_state"], feed)[0][0, 0]
        return state / np.linalg.norm(state)
