"""The default embedder: bge-small-en-v1.5, int8, on the local CPU.

Each text is a separate run. The model quantises its activations by the largest value of a run, so the vector of a text
would depend on its batch: measured, by up to 0.025 in cosine distance, which changes the cosine of a pair by up to
0.05, enough to confuse two facts. Batches are not faster on a CPU either (10 % at best, and slower beyond 16 texts). So
each text has one vector, independent of the rest of the call, and a long list is spread over threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cofio.providers.embedders import model_files
from cofio.providers.embedders.onnx_model import OnnxModel
from cofio.providers.embedders.query_cache import QueryCache

if TYPE_CHECKING:
    from cofio.ports import Matrix, Vector

DIMENSION = 384
# Unrelated texts have a cosine of 0.36 to 0.54 with this model. Search results are equal for floors from 0.3 to 0.45.
FLOOR = 0.40


class LocalEmbedder:
    """Local embedder that loads the model at the first use, from the folder that `model_files.find` returns.

    `threads` work on one text, `workers` on the texts of one call. `recent` query vectors are cached.
    """

    dimension = DIMENSION
    floor = FLOOR

    def __init__(
        self,
        home: Path,
        *,
        threads: int = 1,
        workers: int = 2,
        download: bool = True,
        url: str = "",
        query_prefix: str = "",
        document_prefix: str = "",
        recent: int = 512,
    ) -> None:
        find_folder = partial(model_files.find, home, download=download, url=url)
        self._model = OnnxModel(find_folder, threads, workers)
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._recent = QueryCache(recent)

    @property
    def signature(self) -> str:
        return f"local:{model_files.MODEL}:{DIMENSION}:q={self._prefixes['query']}:d={self._prefixes['document']}"

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """Return one row per text, in order; texts are truncated to 512 tokens."""
        if not texts:
            return np.empty((0, DIMENSION), np.float32)
        prefixed = [self._prefixes[kind] + text for text in texts]
        return self._recent.through(prefixed, self._embed_all) if kind == "query" else self._embed_all(prefixed)

    def _embed_all(self, texts: Sequence[str]) -> Matrix:
        return np.stack(self._model.map(self._embed_one, texts))

    def _embed_one(self, text: str) -> Vector:
        """Return the unit vector of the text: the network's state at [CLS]."""
        state: Vector = self._model.run(self._model.tokenizer.ids(text))[0]
        return state / np.linalg.norm(state)
