"""Baseline: an obvious implementation with plain SQLite FTS5 and NumPy.

One FTS5 table with porter stemming, one table of vectors; a prompt's words joined by OR (as they are, or without stop
words), `X @ q` over a float32 matrix, the hundred best of either, min-max scaled and averaged. Writes are as durable as
ours (WAL, synchronous FULL). It lacks deduplication, a journal, undo, other fields, archived memories, writes of other
processes, and names and dates in the prompt. An add does not update the matrix either.

    python -m bench.plain STAGE FOLDER SIZE     one stage in this process, figures as JSON
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


class Plain:
    """File with two tables and, once loaded, a matrix."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, tokenize = 'porter')")
        self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)")

    def add(self, first: int, texts: Sequence[str], vectors: Matrix) -> None:
        """Insert these texts with ids from `first` on, and commit."""
        run = self._connection
        run.execute("BEGIN")
        run.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(texts, start=first))
        blobs = ((first + place, vector.tobytes()) for place, vector in enumerate(vectors))
        run.executemany("INSERT INTO vectors (id, vector) VALUES (?, ?)", blobs)
        run.execute("COMMIT")

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
        for found in (self._matching(words) if words else {}, self._nearest(vector)):
            low, high = min(found.values(), default=0.0), max(found.values(), default=1.0)
            for each, score in found.items():
                fused[each] = fused.get(each, 0.0) + 0.5 * (score - low) / ((high - low) or 1.0)
        best = sorted(fused, key=lambda each: -fused[each])[:k]
        marks = ", ".join("?" * len(best))
        rows = dict(
            self._connection.execute(f"SELECT rowid, text FROM words WHERE rowid IN ({marks})", best).fetchall()
        )
        return [(rows[each], fused[each]) for each in best]

    def close(self) -> None:
        self._connection.close()

    def _matching(self, words: Sequence[str]) -> dict[int, float]:
        match = " OR ".join(f'"{word}"' for word in words)
        query = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return dict(self._connection.execute(query, (match, _DEPTH)).fetchall())

    def _nearest(self, vector: Vector) -> dict[int, float]:
        import numpy as np

        cosines = self._matrix @ vector
        best = np.argpartition(-cosines, min(_DEPTH, len(cosines) - 1))[:_DEPTH]
        return dict(zip(self._ids[best].tolist(), cosines[best].tolist(), strict=True))


# ── stages, each in a process of its own ──────────────────────────────────────────────────────────────────────────────


def written(folder: Path, size: int) -> dict[str, float]:
    """Fill an empty file with this many facts."""
    material, effort = _material(folder), measure.Effort.read(folder)
    path = _path(folder, size)
    plain = Plain(path)
    texts, vectors = [text for _, text in material.said(0, size)], material.vectors(0, size)
    cuts = (slice(start, start + effort.batch) for start in range(0, size, effort.batch))
    took = sum(measure.each(partial(plain.add, cut.start + 1, texts[cut], vectors[cut]) for cut in cuts))
    plain.close()
    return {"bulk_per_s": size / took, "file_mb": path.stat().st_size / (1 << 20)}


def opened(folder: Path, size: int) -> dict[str, float]:
    """Open the file in a fresh process and search once."""
    imports = measure.once(lambda: importlib.import_module("numpy"))
    asked, _, vectors = _material(folder).prompts()

    def first() -> None:
        plain = Plain(_path(folder, size))
        plain.load()
        plain.search(asked[0], vectors[0], 5)

    return {"import_s": imports, "open_s": measure.once(first)}


def searched(folder: Path, size: int) -> dict[str, float]:
    """Search an open file with every prompt several times, with and without stop words."""
    from cofio.text.tokens import STOP_WORDS

    material, effort = _material(folder), measure.Effort.read(folder)
    asked, warming, vectors = material.prompts()
    plain = Plain(_path(folder, size))
    plain.load()
    figures: dict[str, float] = {}
    for name, stop in (("search_stopped", STOP_WORDS), ("search", frozenset[str]())):
        for text, vector in zip(warming[:20], vectors[len(asked) :], strict=False):
            plain.search(text, vector, 5, stop)
        work = _searches(plain, asked, vectors, stop, effort.rounds)
        used = time.process_time()
        took = measure.each(work, least=effort.least, enough=effort.enough / 2)
        figures[f"{name}_cpu_ms"] = 1e3 * (time.process_time() - used) / len(took)
        figures |= measure.spread(name, took) | {f"{name}_samples": len(took)}
        figures |= measure.spread(name.replace("search", "search_new"), took[: len(asked)])
    return {**figures, **measure.resident(), "recall_at_10": 1.0}


def grown(folder: Path, size: int) -> dict[str, float]:
    """Time single adds to a file of that size, then bulk adds."""
    material, effort = _material(folder), measure.Effort.read(folder)
    end = effort.adds + effort.bulks * effort.bulk
    texts, vectors = [text for _, text in material.said(size, size + end)], material.vectors(size, size + end)
    plain = Plain(_path(folder, size))

    def adds(cuts: Iterable[slice]) -> list[float]:
        return measure.each(partial(plain.add, size + cut.start + 1, texts[cut], vectors[cut]) for cut in cuts)

    used = time.process_time()
    single = adds(slice(at, at + 1) for at in range(effort.adds))
    used = time.process_time() - used
    bulks = adds(slice(at, at + effort.bulk) for at in range(effort.adds, end, effort.bulk))
    plain.close()
    figures = measure.spread("add", single[len(single) // 10 :])
    figures["add_cpu_ms"] = 1e3 * used / len(single)
    return {**figures, **measure.spread("bulk_each", [bulk / effort.bulk for bulk in bulks])}


def _searches(
    plain: Plain, asked: Sequence[str], vectors: Matrix, stop: Collection[str], rounds: int
) -> Iterator[Callable[[], object]]:
    for at in itertools.chain.from_iterable(itertools.repeat(range(len(asked)), rounds)):
        yield partial(plain.search, asked[at], vectors[at], 5, stop)


def _material(folder: Path) -> Material:
    from bench.vectors import Material

    return Material(folder)


def _path(folder: Path, size: int) -> Path:
    return folder / f"plain-{size}.db"


STAGES = {"written": written, "opened": opened, "searched": searched, "grown": grown}

if __name__ == "__main__":
    measure.stage(STAGES, sys.argv[1:])
