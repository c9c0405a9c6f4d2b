"""Cost of the exact lane in recall at a prompt, as a ratio to the same recall without it, in the same run.

    python -m bench.exact_lookup [--memories 10000] [--rows 1000] [--rounds 60]

Times are CPU times of the thread. Both variants alternate, prompt by prompt, so that other load affects both. With the
local model every question is embedded by it, as in hooks; the memories' vectors are hashes in either case, which does
not affect the search time.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from unittest import mock

from bench.knowledge import claims
from cofio.core import Keeper
from cofio.domain_knowledge import mentions
from cofio.models.memory import Add, Fact, PutRow
from cofio.ports import Embedder, Matrix
from cofio.providers.embedders.local import LocalEmbedder
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

WORDS = ("deploy", "queue", "volume", "price", "region", "cache", "earnings", "index", "latency", "budget", "branch",
         "release", "cluster", "invoice", "token", "schema", "worker", "backup", "friday", "review")  # fmt: skip
NO_NAME = "why does the release queue wait for the backup on a friday, and who reviews the schema?"
ONE_NAME = "TICK{} volume is 6.2M after earnings, what do we know about the price and the index?"


class QueryTimingEmbedder:
    """Embedder with hash vectors that also runs the model on queries, for its latency."""

    def __init__(self, model: Embedder) -> None:
        self._model, self._hash = model, HashEmbedder()
        self.signature, self.dimension, self.floor = self._hash.signature, self._hash.dimension, self._hash.floor

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if kind == "query":
            self._model.embed(texts, kind)
        return self._hash.embed(texts, kind)


@contextmanager
def open_keeper(memories: int, rows: int, embedder: Embedder, folder: Path) -> Iterator[Keeper]:
    """Yield a keeper with this many memories and rows."""
    clock, chance = FixedClock(), random.Random(7)
    with Keeper(SqliteStore(folder / f"{rows}.db", clock), embedder, clock) as keeper:
        texts = [f"{' '.join(chance.choices(WORDS, k=9))} {number}" for number in range(memories)]
        for start in range(0, memories, 1_000):
            keeper.apply([Add(Fact(text=text)) for text in texts[start : start + 1_000]], by="bench", why="bench")
        if rows:
            keeper.apply([PutRow(claim) for claim in claims(rows)], by="bench", why="bench")
        yield keeper


def ratio(keeper: Keeper, prompt: str, rounds: int) -> float:
    """Return the median time of recall, as a ratio to that without the lane."""
    with_lookup, without_lookup = [], []
    for number in range(rounds):
        question = f"{prompt.format(8 + number % 14)} ({number})"
        with_lookup.append(_cpu_seconds(keeper, question))
        with mock.patch.object(mentions, "find_mentions", return_value=[]):
            without_lookup.append(_cpu_seconds(keeper, question))
    return statistics.median(with_lookup) / statistics.median(without_lookup)


def _cpu_seconds(keeper: Keeper, prompt: str) -> float:
    started = time.thread_time()
    keeper.recall(prompt)
    return time.thread_time() - started


def run_benchmark(memories: int, rows: int, rounds: int, embedder: Embedder, folder: Path) -> list[tuple[str, float]]:
    """Return each case with its ratio."""
    with open_keeper(memories, 0, embedder, folder) as empty, open_keeper(memories, rows, embedder, folder) as filled:
        return [
            ("no rows", ratio(empty, NO_NAME, rounds)),
            (f"{rows:,} rows, none named", ratio(filled, NO_NAME, rounds)),
            (f"{rows:,} rows, one named, a value read", ratio(filled, ONE_NAME, rounds)),
        ]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--memories", 10_000), ("--rows", 1_000), ("--rounds", 60)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    model = LocalEmbedder(Path.home(), recent=0)  # without a cache: the same question comes twice
    embedders: dict[str, Embedder] = {"with the local model": QueryTimingEmbedder(model), "without": HashEmbedder()}
    for label, embedder in embedders.items():
        with tempfile.TemporaryDirectory(prefix="cofio-bench-") as folder:
            print(label)
            for case, cost in run_benchmark(options.memories, options.rows, options.rounds, embedder, Path(folder)):
                print(f"  {case:<40}{cost:6.2f}")


if __name__ == "__main__":
    main()
