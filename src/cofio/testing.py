"""Helpers for tests of cofio and its users: store in a temporary folder, hash embedder, scripted model, fixed clock.

The embedders and the model pass the same contract suites as the real adapters. None is ever used as a fallback for one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cofio.models.exchange import TokenUsage
from cofio.models.memory import to_utc_iso
from cofio.ports import Clock, Completion, Health, Matrix, Profile, Vector
from cofio.stores.sqlite.store import SqliteStore
from cofio.text.tokens import words


class FixedClock:
    """Clock that advances by one second per call, from a fixed start."""

    def __init__(self, start: str = "2026-01-01T00:00:00Z") -> None:
        self._seconds = 0
        self._start = int(np.datetime64(start.rstrip("Z"), "s").astype(int))

    def __call__(self) -> str:
        self._seconds += 1
        return to_utc_iso(self._start + self._seconds)

    def advance(self, seconds: float) -> None:
        """Advance the clock by so many seconds."""
        self._seconds += int(seconds)


class HashEmbedder:
    """Embedder of hashed words: texts that share words are similar. It knows no meaning; for tests only."""

    floor = 0.0

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension
        self.calls = 0

    @property
    def signature(self) -> str:
        return f"hash:words:{self.dimension}"

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:  # noqa: ARG002
        self.calls += 1
        rows = [self._embed_one(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)

    def _embed_one(self, text: str) -> Vector:
        vector = np.full(self.dimension, 1e-3, dtype=np.float32)  # a text without words has a direction too
        for word in words(text):
            digest = hashlib.blake2b(_stem(word).encode(), digest_size=8).digest()
            seeded = np.random.default_rng(int.from_bytes(digest, "big"))
            vector += seeded.standard_normal(self.dimension, dtype=np.float32)
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


class WordOverlapModel:
    """Re-ranker that scores a text by its share of the question's words. For tests."""

    floor = 0.0
    ceiling = 1.0
    signature = "words"

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:  # noqa: ARG002
        return [" ".join(sorted({_stem(word) for word in words(text)})).encode() for text in texts]

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        question_words = set(question.split())
        return [len(question_words & set(reading.split())) / (len(question_words) or 1) for reading in readings]


_WELL = Health(True)


class ScriptedLLM:
    """Model that returns the replies of its script in order, and records requests in `calls`.

    An exception in the script is raised. A call beyond the end of the script raises AssertionError.
    """

    def __init__(
        self,
        replies: Sequence[str | Completion | Exception],
        *,
        reconciles: bool = True,
        provider_name: str = "scripted",
        model: str = "script",
        health: Health = _WELL,
    ) -> None:
        self.provider_name = provider_name
        self.model = model
        self.profile = Profile(json_schema=True, reconciles=reconciles, context=128_000)
        self.calls: list[tuple[str, str, Mapping[str, Any] | None]] = []
        self._script = tuple(replies)
        self._health = health

    @property
    def supports_audn(self) -> bool:
        return self.profile.reconciles

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        self.calls.append((system, user, schema))
        number = len(self.calls)
        if number > len(self._script):
            raise AssertionError(f"Call {number} of a script with {len(self._script)} replies: {user[:200]!r}")
        reply = self._script[number - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Completion) else Completion(reply, usage=TokenUsage(calls=1))

    def health_check(self) -> Health:
        return self._health


class MemoryStore(SqliteStore):
    """SQLite store in a temporary folder, which is removed when the store is closed or no longer used."""

    def __init__(self, clock: Clock) -> None:
        folder = tempfile.mkdtemp(prefix="cofio-")
        self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder, "cofio.db")
        path.write_bytes(_empty_database())
        super().__init__(path, clock)
        with self._file.alone() as connection:
            connection.execute("PRAGMA synchronous = OFF")  # tests need no protection from power cuts

    def close(self) -> None:
        super().close()
        self._remove_folder()


@cache
def _empty_database() -> bytes:
    """Return the file of an empty store; writing it takes a tenth of the time of the migrations."""
    with tempfile.TemporaryDirectory(prefix="cofio-") as folder:
        path = Path(folder, "cofio.db")
        SqliteStore(path, FixedClock()).close()
        return path.read_bytes()


def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{3})(?:ing|ed|es|s|e)$", "", word.lower())
