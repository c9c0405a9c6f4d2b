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

from bench.corpus import GeneratedFact
from bench.corpus import facts as generate_facts
from bench.corpus import prompts as generate_prompts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.ports import Embedder, Matrix

ANCHORS = 1_500  # facts embedded by the model
_CHUNK = 10_000  # facts mixed at once
_LEAST, _SPREAD = 0.60, 0.25  # of the first anchor's weight


def mix_vectors(facts: Sequence[GeneratedFact], anchors: Matrix, topics: Sequence[str], matrix: Matrix) -> None:
    """Fill `out` with one vector per fact, mixed from the anchors with these topics."""
    mean = anchors.mean(axis=0)
    spread = anchors - mean
    covariance_root = _covariance_root(spread)
    for start in range(0, len(facts), _CHUNK):
        batch = facts[start : start + _CHUNK]
        anchor_ids, weights = _choose_anchors(batch, topics)
        rows = np.einsum("nw,nwd->nd", weights, spread[anchor_ids])
        noise = np.random.default_rng(start).standard_normal(rows.shape, np.float32) @ covariance_root
        rows += np.sqrt(1 - np.square(weights).sum(axis=1, keepdims=True)) * noise + mean
        matrix[start : start + len(batch)] = rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _choose_anchors(facts: Sequence[GeneratedFact], topics: Sequence[str]) -> tuple[NDArray[np.int64], Matrix]:
    """Return the three anchors and weights of each fact."""
    draws = np.array([_digest(fact.text) for fact in facts], np.uint64).astype(np.float64) / 2.0**32
    pools = {topic: np.array([row for row, name in enumerate(topics) if name == topic]) for topic in set(topics)}
    everything = np.arange(len(topics))
    topic_pools = [pools.get(fact.topic, everything) for fact in facts]
    first_anchors = [pool[int(draw * len(pool))] for pool, draw in zip(topic_pools, draws[:, 0], strict=True)]
    second_anchors = [pool[int(draw * len(pool))] for pool, draw in zip(topic_pools, draws[:, 1], strict=True)]
    third_anchors = (draws[:, 2] * len(topics)).astype(np.int64)
    first_weights = _LEAST + _SPREAD * draws[:, 3]
    second_weights = (1 - first_weights) * (0.5 + draws[:, 4] / 2)
    weights = np.stack([first_weights, second_weights, 1 - first_weights - second_weights], axis=1).astype(np.float32)
    return np.stack([np.array(first_anchors), np.array(second_anchors), third_anchors], axis=1), weights


def _digest(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=20).digest(), np.uint32)


def _covariance_root(spread: Matrix) -> Matrix:
    """Return the matrix that transforms white noise into noise with the covariance of these rows."""
    values, directions = np.linalg.eigh(spread.T @ spread / len(spread))
    matrix: Matrix = (np.sqrt(np.maximum(values, 0))[:, np.newaxis] * directions.T).astype(np.float32)
    return matrix


@dataclass(frozen=True, slots=True)
class Material:
    """Texts and vectors of a run, in a folder shared by its processes."""

    folder: Path

    @classmethod
    def make(
        cls, folder: Path, embedder: Embedder, *, count: int, prompts: int, warmup: int, anchors: int = ANCHORS
    ) -> Material:
        """Write this many facts and prompts with their vectors, followed by `warmup` further prompts."""
        facts, questions = generate_facts(max(count, anchors)), generate_prompts(prompts + warmup)
        anchor_vectors = np.asarray(embedder.embed([fact.text for fact in facts[:anchors]], "document"), np.float32)
        np.save(folder / "prompts.npy", np.asarray(embedder.embed(questions, "query"), np.float32))
        (folder / "prompts.json").write_text(json.dumps(questions), encoding="utf-8")
        (folder / "facts.tsv").write_text("".join(f"{fact.source}\t{fact.text}\n" for fact in facts), encoding="utf-8")
        about = {"signature": embedder.signature, "floor": embedder.floor, "prompts": prompts}
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
        matrix = np.lib.format.open_memmap(folder / "facts.npy", "w+", np.float32, (count, anchor_vectors.shape[1]))
        mix_vectors(facts[:count], anchor_vectors, [fact.topic for fact in facts[:anchors]], matrix)
        matrix.flush()
        return cls(folder)

    def facts(self, start: int, end: int) -> list[tuple[str, str]]:
        """Return the source and the text of these facts."""
        with (self.folder / "facts.tsv").open(encoding="utf-8") as lines:
            rows = (line.rstrip("\n").partition("\t") for number, line in enumerate(lines) if start <= number < end)
            return [(source, text) for source, _, text in rows]

    def vectors(self, start: int, end: int) -> Matrix:
        """Return the vectors of these facts, mapped from the file."""
        matrix: Matrix = np.load(self.folder / "facts.npy", mmap_mode="r")[start:end]
        return matrix

    def prompts(self) -> tuple[list[str], list[str], Matrix]:
        """Return the prompts to be timed, those for warm-up, and the vectors of both in this order."""
        texts = json.loads((self.folder / "prompts.json").read_text(encoding="utf-8"))
        count = json.loads((self.folder / "about.json").read_text(encoding="utf-8"))["prompts"]
        return texts[:count], texts[count:], np.load(self.folder / "prompts.npy")

    def exact_cosines(self, count: int, k: int) -> Matrix:
        """Return the cosine of each timed prompt's k-th nearest of the first `count` facts, by exact search."""
        prompts, _, vectors = self.prompts()
        queries, highest = vectors[: len(prompts)], np.full((len(prompts), 0), -1, np.float32)
        for start in range(0, count, _CHUNK):
            cosines = queries @ self.vectors(start, min(count, start + _CHUNK)).T
            highest = np.sort(np.concatenate([highest, cosines], axis=1), axis=1)[:, -k:]
        lowest: Matrix = highest[:, 0]
        return lowest

    def embedder(self, start: int = 0, end: int = 0) -> LookupEmbedder:
        """Return an embedder that knows the prompts and these facts."""
        about = json.loads((self.folder / "about.json").read_text(encoding="utf-8"))
        prompts, warmup, vectors = self.prompts()
        texts = [text for _, text in self.facts(start, end)] if end > start else []
        return LookupEmbedder(
            about["signature"], about["floor"], [*prompts, *warmup], vectors, texts, self.vectors(start, end)
        )


class LookupEmbedder:
    """Embedder that looks vectors up, so that no model is timed."""

    def __init__(
        self,
        signature: str,
        floor: float,
        queries: Sequence[str],
        query_vectors: Matrix,
        texts: Sequence[str],
        document_vectors: Matrix,
    ) -> None:
        self.signature = signature
        self.floor = floor
        self.dimension = int(query_vectors.shape[1])
        self._vectors = {"query": query_vectors, "document": document_vectors}
        self._row_by_text = {"query": _row_by_text(queries), "document": _row_by_text(texts)}

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        rows = self._row_by_text[kind]
        matrix: Matrix = self._vectors[kind][[rows[text] for text in texts]]
        return matrix


def _row_by_text(texts: Sequence[str]) -> dict[str, int]:
    return {text: row for row, text in enumerate(texts)}
