"""Baseline: an obvious implementation with plain SQLite FTS5 and NumPy.

One FTS5 table with porter stemming, one table of vectors; a prompt's words joined by OR (as they are, or without stop
words), `X @ q` over a float32 matrix, the hundred best of either, min-max scaled and averaged. Writes are as durable as
ours (WAL, synchronous FULL). It lacks deduplication, a journal, undo, other fields, archived memories, writes of other
processes, and names and dates in the prompt. An add does not update the matrix either.

    python -m bench.baseline STAGE FOLDER SIZE     one stage in this process, figures as JSON
"""

from __future__ import annotations

import importlib
import itertools
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import measure

if TYPE_CHECKING:
    from bench.vectors import Material
    from cofio.ports import Matrix, Vector

_DEPTH = 100
_WORD = re.compile(r"\w+")


class PlainStore:
    """File with two tables and, once loaded, a matrix."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, tokenize = 'porter')")
        self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)")

    def add(self, first_id: int, texts: Sequence[str], vectors: Matrix) -> None:
        """Insert these texts with ids from `first` on, and commit."""
        connection = self._connection
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(texts, start=first_id))
        blobs = ((first_id + offset, vector.tobytes()) for offset, vector in enumerate(vectors))
        connection.executemany("INSERT INTO vectors (id, vector) VALUES (?, ?)", blobs)
        connection.execute("COMMIT")

    def load(self) -> None:
        """Read the vectors back into a matrix."""
        import numpy as np

        rows = self._connection.execute("SELECT id, vector FROM vectors ORDER BY id").fetchall()
        self._ids = np.array([row[0] for row in rows], np.int64)
        self._matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float32).reshape(len(rows), -1)

    def search(self, text: str, vector: Vector, k: int, stop: Collection[str] = ()) -> list[tuple[str, float]]:
        """Return the k best texts with their fused scores."""
        words = [word for word in _WORD.findall(text.lower()) if word not in stop]
        fused: dict[int, float] = {}
        for scores in (self._match_words(words) if words else {}, self._nearest(vector)):
            low, high = min(scores.values(), default=0.0), max(scores.values(), default=1.0)
            for row_id, score in scores.items():
                fused[row_id] = fused.get(row_id, 0.0) + 0.5 * (score - low) / ((high - low) or 1.0)
        best_ids = sorted(fused, key=lambda row_id: -fused[row_id])[:k]
        placeholders = ", ".join("?" * len(best_ids))
        rows = dict(
            self._connection.execute(
                f"SELECT rowid, text FROM words WHERE rowid IN ({placeholders})", best_ids
            ).fetchall()
        )
        return [(rows[row_id], fused[row_id]) for row_id in best_ids]

    def close(self) -> None:
        self._connection.close()

    def _match_words(self, words: Sequence[str]) -> dict[int, float]:
        match = " OR ".join(f'"{word}"' for word in words)
        query = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return dict(self._connection.execute(query, (match, _DEPTH)).fetchall())

    def _nearest(self, vector: Vector) -> dict[int, float]:
        import numpy as np

        cosines = self._matrix @ vector
        rows = np.argpartition(-cosines, min(_DEPTH, len(cosines) - 1))[:_DEPTH]
        return dict(zip(self._ids[rows].tolist(), cosines[rows].tolist(), strict=True))


# ── stages, each in a process of its own ──────────────────────────────────────────────────────────────────────────────


def measure_write(folder: Path, size: int) -> dict[str, float]:
    """Fill an empty file with this many facts."""
    material, effort = _material(folder), measure.Effort.read(folder)
    path = _path(folder, size)
    store = PlainStore(path)
    texts, vectors = [text for _, text in material.facts(0, size)], material.vectors(0, size)
    slices = (slice(start, start + effort.batch) for start in range(0, size, effort.batch))
    seconds = sum(measure.time_calls(partial(store.add, part.start + 1, texts[part], vectors[part]) for part in slices))
    store.close()
    return {"bulk_per_s": size / seconds, "file_mb": path.stat().st_size / (1 << 20)}


def measure_open(folder: Path, size: int) -> dict[str, float]:
    """Open the file in a fresh process and search once."""
    imports = measure.time_call(lambda: importlib.import_module("numpy"))
    prompts, _, vectors = _material(folder).prompts()

    def open_and_search() -> None:
        store = PlainStore(_path(folder, size))
        store.load()
        store.search(prompts[0], vectors[0], 5)

    return {"import_s": imports, "open_s": measure.time_call(open_and_search)}


def measure_search(folder: Path, size: int) -> dict[str, float]:
    """Search an open file with every prompt several times, with and without stop words."""
    from cofio.text.tokens import STOP_WORDS

    material, effort = _material(folder), measure.Effort.read(folder)
    prompts, warmup, vectors = material.prompts()
    store = PlainStore(_path(folder, size))
    store.load()
    figures: dict[str, float] = {}
    for name, stop in (("search_stopped", STOP_WORDS), ("search", frozenset[str]())):
        for text, vector in zip(warmup[:20], vectors[len(prompts) :], strict=False):
            store.search(text, vector, 5, stop)
        work = _searches(store, prompts, vectors, stop, effort.rounds)
        cpu_before = time.process_time()
        durations = measure.time_calls(work, min_samples=effort.min_samples, time_limit=effort.time_limit / 2)
        figures[f"{name}_cpu_ms"] = 1e3 * (time.process_time() - cpu_before) / len(durations)
        figures |= measure.p50_p95_interval(name, durations) | {f"{name}_samples": len(durations)}
        figures |= measure.p50_p95_interval(name.replace("search", "search_new"), durations[: len(prompts)])
    return {**figures, **measure.resident_memory(), "recall_at_10": 1.0}


def measure_add(folder: Path, size: int) -> dict[str, float]:
    """Time single adds to a file of that size, then bulk adds."""
    material, effort = _material(folder), measure.Effort.read(folder)
    end = effort.adds + effort.bulk_rounds * effort.bulk
    texts, vectors = [text for _, text in material.facts(size, size + end)], material.vectors(size, size + end)
    store = PlainStore(_path(folder, size))

    def adds(slices: Iterable[slice]) -> list[float]:
        return measure.time_calls(
            partial(store.add, size + part.start + 1, texts[part], vectors[part]) for part in slices
        )

    cpu_seconds = time.process_time()
    single = adds(slice(start, start + 1) for start in range(effort.adds))
    cpu_seconds = time.process_time() - cpu_seconds
    bulks = adds(slice(start, start + effort.bulk) for start in range(effort.adds, end, effort.bulk))
    store.close()
    figures = measure.p50_p95_interval("add", single[len(single) // 10 :])
    figures["add_cpu_ms"] = 1e3 * cpu_seconds / len(single)
    return {**figures, **measure.p50_p95_interval("bulk_each", [bulk / effort.bulk for bulk in bulks])}


def _searches(
    store: PlainStore, prompts: Sequence[str], vectors: Matrix, stop: Collection[str], rounds: int
) -> Iterator[Callable[[], object]]:
    for number in itertools.chain.from_iterable(itertools.repeat(range(len(prompts)), rounds)):
        yield partial(store.search, prompts[number], vectors[number], 5, stop)


def _material(folder: Path) -> Material:
    from bench.vectors import Material

    return Material(folder)


def _path(folder: Path, size: int) -> Path:
    return folder / f"plain-{size}.db"


STAGES = {"write": measure_write, "open": measure_open, "search": measure_search, "add": measure_add}

if __name__ == "__main__":
    measure.print_stage(STAGES, sys.argv[1:])
