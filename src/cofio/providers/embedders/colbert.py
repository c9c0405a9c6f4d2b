"""Late-interaction re-ranking (ColBERT): one vector per token, so that query and memory are compared token by token.

A single vector blurs a text; token vectors do not. Each query token is matched with its nearest token of the memory,
and the mean similarity is the score. Memories are encoded once, when they are new, and the result is stored: 96 bytes
per token. Texts of more than about 180 words are not encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cofio.errors import Misconfigured
from cofio.providers.embedders import model_files
from cofio.providers.embedders.onnx_model import OnnxModel
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece

if TYPE_CHECKING:
    from cofio.ports import Matrix

WIDTH = 96  # dimensions kept of 384, chosen by `scripts/projection.py`; with all of them R@10 is 0.2 higher
LONGEST = 256  # tokens of a text; a longer one is skipped, since its missing end would lower its score
#: Mean similarity of unrelated texts is 0.82, of a question and its answer 0.90.
FLOOR, CEILING = 0.79, 0.98

_EDITION = 1  # increase when the encoding changes otherwise, such as the projection or the truncation
_MARK = "[unused1]"  # marks documents for the model
_PROJECTION = Path(__file__).with_name("projection.npy")


class ColbertModel:
    """Re-ranking model answerai-colbert-small-v1, int8, on the local CPU. It is loaded at the first use."""

    floor = FLOOR
    ceiling = CEILING

    def __init__(self, folder: Path) -> None:
        self._model = OnnxModel(lambda: folder, threads=1, workers=2)

    @property
    def signature(self) -> str:
        return f"{model_files.READER.name}:{WIDTH}:{_EDITION}"

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        """Return the encoding of each text, in order, to store or compare; empty for a text that is too long."""
        return self._model.map(partial(self._encode, kind=kind), texts)

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        """Return the similarity of each encoding to the query: the mean of the best match per token, at most 1."""
        if not readings:
            return []
        words = [_unpack(reading) for reading in readings]
        starts = np.cumsum([0, *(len(word) for word in words[:-1])])
        near = np.maximum.reduceat(np.concatenate(words) @ _unpack(question).T, starts, axis=0)
        return [float(score) for score in near.mean(axis=1)]

    def _encode(self, text: str, kind: str) -> bytes:
        tokenizer = self._model.tokenizer
        ids = marked(tokenizer, text, LONGEST) if kind == "document" else tokenizer.ids(text, LONGEST)
        if len(ids) == LONGEST:
            return b""
        states = self._model.run(ids) @ _load_projection()
        states = states / np.linalg.norm(states, axis=1, keepdims=True)
        largest = np.float32(np.abs(states).max() or 1.0)
        values: bytes = np.rint(states / largest * 127).astype(np.int8).tobytes()
        return largest.tobytes() + values


def marked(words: WordPiece, text: str, most: int) -> list[int]:
    """Return the tokens of a document, with the document mark."""
    first, *rest = words.ids(text, most - 1)
    return [first, words.id_of(_MARK), *rest]


@cache
def _load_projection() -> Matrix:
    try:
        projection: Matrix = np.load(_PROJECTION).astype(np.float32)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{_PROJECTION} cannot be read: {error}.", "Reinstall cofio.") from error
    return projection


def _unpack(reading: bytes) -> Matrix:
    """Return the vectors of an encoding: the largest value as float32, then one byte per value.

    A damaged encoding gives a zero vector, which is like no text.
    """
    largest = np.frombuffer(reading, np.float32, 1)[0] if len(reading) >= 4 + WIDTH else np.nan
    if not np.isfinite(largest) or (len(reading) - 4) % WIDTH:
        return np.zeros((1, WIDTH), np.float32)
    values = np.frombuffer(reading, np.int8, offset=4).reshape(-1, WIDTH)
    return values.astype(np.float32) * np.float32(largest / 127)
