"""Reads closely: a vector for every word of a text, so that a question is compared word by word (ColBERT).

One vector for a whole text blurs what it says; a vector a word does not. The question's words each look for the word of
the memory that is nearest to them, and the mean of these is how well the memory answers. Memories are read once, when
they are new, and what was read is kept: 96 bytes a word. A text of more than some 180 words is not read.
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
from cofio.embedders.wordpiece import WordPiece
from cofio.errors import Misconfigured

if TYPE_CHECKING:
    from cofio.ports import Matrix

WIDTH = 96  # dimensions that are kept of 384: `scripts/projection.py` chose which; with all of them R@10 is 0.2 higher
LONGEST = 256  # pieces of a text that is read; of a longer one the end would count for nothing, and pull it down
#: Mean likeness of texts that have nothing in common is 0.82, of a question and what answers it 0.90.
FLOOR, CEILING = 0.79, 0.98
WORTH_SPREADING = 8

_EDITION = 1  # moves with whatever else a reading depends on: the projection, how much of what is read
_MARK = "[unused1]"  # with which the model is told that it reads a text that may answer
_PROJECTION = Path(__file__).with_name("projection.npy")


class LocalReader:
    """answerai-colbert-small-v1, int8, on this machine's processor. Loads the model at the first use."""

    floor = FLOOR
    ceiling = CEILING

    def __init__(self, place: Path, *, threads: int = 1, workers: int = 2) -> None:
        self._place = place
        self._threads = threads
        self._workers = workers
        self._loading = Lock()
        self._network: _Network | None = None

    @property
    def signature(self) -> str:
        return f"{models.READER.name}:{WIDTH}:{_EDITION}"

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        """What was read of each text, in order, to be kept or compared; nothing of one that is too long to be read."""
        network = self._loaded()
        if self._workers < 2 or len(texts) < WORTH_SPREADING:
            return [network.read(text, kind) for text in texts]
        with ThreadPoolExecutor(self._workers, "read") as pool:
            return list(pool.map(lambda text: network.read(text, kind), texts))

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        """Of each reading, how near its nearest words are to those of the question: 1 when all of them are the same."""
        if not readings:
            return []
        words = [_unpacked(each) for each in readings]
        starts = np.cumsum([0, *(len(each) for each in words[:-1])])
        near = np.maximum.reduceat(np.concatenate(words) @ _unpacked(question).T, starts, axis=0)
        return [float(each) for each in near.mean(axis=1)]

    def _loaded(self) -> _Network:
        if self._network is None:
            with self._loading:
                if self._network is None:
                    words = WordPiece.read(self._place / "vocab.txt")
                    self._network = _Network(words, session(self._place / "model.onnx", self._threads), _projection())
        return self._network


class _Network(NamedTuple):
    """The model, ready to run."""

    words: WordPiece
    session: Any
    projection: Matrix

    def read(self, text: str, kind: str) -> bytes:
        ids = marked(self.words, text, LONGEST) if kind == "document" else self.words.ids(text, LONGEST)
        if len(ids) == LONGEST:
            return b""
        feed = {"input_ids": np.array([ids], np.int64)}
        feed |= {"attention_mask": np.ones_like(feed["input_ids"]), "token_type_ids": np.zeros_like(feed["input_ids"])}
        states = self.session.run(["last_hidden_state"], feed)[0][0] @ self.projection
        return _packed(states / np.linalg.norm(states, axis=1, keepdims=True))


def marked(words: WordPiece, text: str, most: int) -> list[int]:
    """The pieces of a text that may answer, with the mark that tells the model so."""
    first, *rest = words.ids(text, most - 1)
    return [first, words.id_of(_MARK), *rest]


def _projection() -> Matrix:
    try:
        found: Matrix = np.load(_PROJECTION).astype(np.float32)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{_PROJECTION} cannot be read: {error}.", "Install cofio again.") from error
    return found


def _packed(states: Matrix) -> bytes:
    """The largest value as float32, then a byte a value."""
    largest = np.float32(np.abs(states).max() or 1.0)
    values: bytes = np.rint(states / largest * 127).astype(np.int8).tobytes()
    return largest.tobytes() + values


def _unpacked(reading: bytes) -> Matrix:
    largest = np.frombuffer(reading, np.float32, 1)[0]
    values = np.frombuffer(reading, np.int8, offset=4).reshape(-1, WIDTH)
    return values.astype(np.float32) * np.float32(largest / 127)
