"""Vectors of the benchmarks: an imitation of the real model's, for a hundred thousand texts in seconds.

    1,500 texts and the prompts ─ real embedder ─▶ anchors ─ mixed, with noise ─▶ one vector per fact
                                                   prompts keep their own vectors

Embedding all texts would take minutes and measure the model; random vectors would resemble no model's. So each fact's
vector is a normalised mixture of three real ones (two of its own topic, chosen and weighted by the hash of the text,
the first with 0.60 to 0.85) around their mean, plus Gaussian noise with the real vectors' covariance that restores the
variance lost by mixing. So the spectrum, which decides how well an index can compress, is the real one. Compared with
6,000 really embedded facts: the mean cosine of a pair is 0.51 (real: 0.52), that of the nearest neighbour 0.82 (0.82),
the first 64 directions hold 0.87 of the length (0.86), and the best cosine of a prompt is 0.74 (0.78).

`Material` is shared by the processes of a run: a folder with texts and vectors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from bench.corpus import Said, facts, prompts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.ports import Embedder, Matrix

ANCHORS = 1_500  # facts that are really embedded
_CHUNK = 10_000  # facts mixed at once
_LEAST, _SPREAD = 0.60, 0.25  # of the first anchor's weight


def mixed(said: Sequence[Said], anchors: Matrix, topics: Sequence[str], out: Matrix) -> None:
    """Fill `out` with one vector per fact, mixed from the anchors with these topics."""
    mean = anchors.mean(axis=0)
    spread = anchors - mean
    root = _root(spread)
    for start in range(0, len(said), _CHUNK):
        some = said[start : start + _CHUNK]
        chosen, weights = _recipe(some, topics)
        rows = np.einsum("nw,nwd->nd", weights, spread[chosen])
        noise = np.random.default_rng(start).standard_normal(rows.shape, np.float32) @ root
        rows += np.sqrt(1 - np.square(weights).sum(axis=1, keepdims=True)) * noise + mean
        out[start : start + len(some)] = rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _recipe(said: Sequence[Said], topics: Sequence[str]) -> tuple[NDArray[np.int64], Matrix]:
    """Return the three anchors and weights of each fact."""
    places = np.array([_digest(each.text) for each in said], np.uint64).astype(np.float64) / 2.0**32
    pools = {topic: np.array([at for at, each in enumerate(topics) if each == topic]) for topic in set(topics)}
    everything = np.arange(len(topics))
    own = [pools.get(each.topic, everything) for each in said]
    first = [pool[int(at * len(pool))] for pool, at in zip(own, places[:, 0], strict=True)]
    second = [pool[int(at * len(pool))] for pool, at in zip(own, places[:, 1], strict=True)]
    third = (places[:, 2] * len(topics)).astype(np.int64)
    most = _LEAST + _SPREAD * places[:, 3]
    more = (1 - most) * (0.5 + places[:, 4] / 2)
    weights = np.stack([most, more, 1 - most - more], axis=1).astype(np.float32)
    return np.stack([np.array(first), np.array(second), third], axis=1), weights


def _digest(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=20).digest(), np.uint32)


def _root(spread: Matrix) -> Matrix:
    """Return the matrix that transforms white noise into noise with the covariance of these rows."""
    values, directions = np.linalg.eigh(spread.T @ spread / len(spread))
    rooted: Matrix = (np.sqrt(np.maximum(values, 0))[:, np.newaxis] * directions.T).astype(np.float32)
    return rooted


@dataclass(frozen=True, slots=True)
class Material:
    """Texts and vectors of a run, in a folder shared by its processes."""

    folder: Path

    @classmethod
    def make(
        cls, folder: Path, embedder: Embedder, *, count: int, asked: int, warming: int, anchors: int = ANCHORS
    ) -> Material:
        """Write this many facts and prompts with their vectors, followed by `warming` further prompts."""
        said, questions = facts(max(count, anchors)), prompts(asked + warming)
        real = np.asarray(embedder.embed([each.text for each in said[:anchors]], "document"), np.float32)
        np.save(folder / "prompts.npy", np.asarray(embedder.embed(questions, "query"), np.float32))
        (folder / "prompts.json").write_text(json.dumps(questions), encoding="utf-8")
        (folder / "facts.tsv").write_text("".join(f"{each.source}\t{each.text}\n" for each in said), encoding="utf-8")
        about = {"signature": embedder.signature, "floor": embedder.floor, "asked": asked}
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
        matrix = np.lib.format.open_memmap(folder / "facts.npy", "w+", np.float32, (count, real.shape[1]))
        mixed(said[:count], real, [each.topic for each in said[:anchors]], matrix)
        matrix.flush()
        return cls(folder)

    def said(self, start: int, end: int) -> list[tuple[str, str]]:
        """Return the source and the text of these facts."""
        with (self.folder / "facts.tsv").open(encoding="utf-8") as lines:
            rows = (line.rstrip("\n").partition("\t") for at, line in enumerate(lines) if start <= at < end)
            return [(source, text) for source, _, text in rows]

    def vectors(self, start: int, end: int) -> Matrix:
        """Return the vectors of these facts, mapped from the file."""
        matrix: Matrix = np.load(self.folder / "facts.npy", mmap_mode="r")[start:end]
        return matrix

    def prompts(self) -> tuple[list[str], list[str], Matrix]:
        """Return the prompts to be timed, those for warm-up, and the vectors of both in this order."""
        texts = json.loads((self.folder / "prompts.json").read_text(encoding="utf-8"))
        asked = json.loads((self.folder / "about.json").read_text(encoding="utf-8"))["asked"]
        return texts[:asked], texts[asked:], np.load(self.folder / "prompts.npy")

    def exact(self, count: int, k: int) -> Matrix:
        """Return the cosine of each timed prompt's k-th nearest of the first `count` facts, by exact search."""
        asked, _, vectors = self.prompts()
        queries, best = vectors[: len(asked)], np.full((len(asked), 0), -1, np.float32)
        for start in range(0, count, _CHUNK):
            cosines = queries @ self.vectors(start, min(count, start + _CHUNK)).T
            best = np.sort(np.concatenate([best, cosines], axis=1), axis=1)[:, -k:]
        last: Matrix = best[:, 0]
        return last

    def embedder(self, start: int = 0, end: int = 0) -> Table:
        """Return an embedder that knows the prompts and these facts."""
        about = json.loads((self.folder / "about.json").read_text(encoding="utf-8"))
        asked, warming, vectors = self.prompts()
        texts = [text for _, text in self.said(start, end)] if end > start else []
        return Table(about["signature"], about["floor"], [*asked, *warming], vectors, texts, self.vectors(start, end))


class Table:
    """Embedder that looks vectors up, so that no model is timed."""

    def __init__(
        self, signature: str, floor: float, queries: Sequence[str], asked: Matrix, texts: Sequence[str], told: Matrix
    ) -> None:
        self.signature = signature
        self.floor = floor
        self.dimension = int(asked.shape[1])
        self._vectors = {"query": asked, "document": told}
        self._places = {"query": _places(queries), "document": _places(texts)}

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        places = self._places[kind]
        found: Matrix = self._vectors[kind][[places[text] for text in texts]]
        return found


def _places(texts: Sequence[str]) -> dict[str, int]:
    return {text: place for place, text in enumerate(texts)}
