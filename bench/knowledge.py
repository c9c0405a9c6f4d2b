"""Latency of the exact lane among 10,000 rows, compared with a scan of all rows in the same run.

    python -m bench.knowledge [--rows 10000] [--asked 200]

A value is checked against the thresholds of one source and metric; names are looked up among claims of all tables;
correlations are followed from a source. The plain scan must find the same results, or the run fails.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from cofio.core import Keeper
from cofio.domain_knowledge import lookup
from cofio.models.domain_knowledge import (
    ANY,
    CLAIMS,
    Correlation,
    Knowledge,
    Pattern,
    PutRow,
    Seasonal,
    Threshold,
    fold,
    named_words,
)
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

METRICS = ("volume", "price", "spread", "latency", "errors", "depth", "volatility", "turnover")
_BATCH = 1_000  # rows per changeset
_PLAIN_ASKED = 10  # repetitions of the plain scan, which takes long with little variation


@dataclass(frozen=True, slots=True)
class Side:
    """Query by number, against the lane and against all rows, which have to be loaded first."""

    label: str
    ours: Callable[[int], object]
    load: Callable[[], Sequence[Knowledge]]
    scan: Callable[[Sequence[Knowledge], int], object]


@dataclass(frozen=True, slots=True)
class Figure:
    """Median seconds of the lane, of loading and scanning all rows, and of scanning loaded rows."""

    label: str
    ours: float
    plain: float
    scan: float


def thresholds(count: int) -> Iterator[Threshold]:
    """Yield this many thresholds, eight per source, and one for all sources."""
    yield Threshold(source=ANY, metric=METRICS[0], value=900, direction="above")
    for number in range(count - 1):
        metric, source = METRICS[number % len(METRICS)], f"TICK{number // len(METRICS)}"
        yield Threshold(
            source=source, metric=metric, value=number % 997, direction="above", confidence=(number % 89) / 89
        )


def claims(count: int) -> Iterator[Knowledge]:
    """Yield this many rows, of all tables in turn."""
    for number in range(count):
        source, sure = f"TICK{number // 4}", (number % 89) / 89
        if number % 4 == 0:
            yield Pattern(pattern=f"pattern {number} shows before earnings", source=source, confidence=sure)
        elif number % 4 == 1:
            other = f"TICK{number // 4 + 1}"
            yield Correlation(source_a=source, source_b=other, rule=f"{source} leads {other}", confidence=sure)
        elif number % 4 == 2:
            yield Threshold(source=source, metric="volume", value=number, direction="below", confidence=sure)
        else:
            yield Seasonal(pattern=f"busy {number}", period="weekly", during="mon-fri", source=source, confidence=sure)


@contextmanager
def keeping(rows: Iterator[Knowledge], folder: Path, name: str) -> Iterator[Keeper]:
    """Yield a keeper whose store holds these rows."""
    clock = FixedClock()
    with Keeper(SqliteStore(folder / name, clock), HashEmbedder(), clock) as keeper:
        while batch := list(islice(rows, _BATCH)):
            keeper.apply([], by="bench", why="bench", knowledge=[PutRow(each) for each in batch])
        yield keeper


def sides(values: Keeper, names: Keeper, rows: int) -> tuple[Side, ...]:
    """Return all queries, over a store of thresholds and one of claims."""
    held, named = values.services.access.store.domain, names.services.access.store.domain
    return (
        Side(
            "evaluate a value",
            lambda number: values.knowledge.evaluate(*_asked(number, rows), 500),
            lambda: held.rows("thresholds"),
            lambda loaded, number: _evaluated(loaded, *_asked(number, rows)),
        ),
        Side(
            "find by a name",
            lambda number: {each.ref for each in named.naming([fold(_name(number, rows))])},
            lambda: [row for table in CLAIMS for row in named.rows(table)],
            lambda loaded, number: {each.ref for each in loaded if fold(_name(number, rows)) in named_words(each)},
        ),
        Side(
            "walk two steps",
            lambda number: names.knowledge.related(_name(number, rows), depth=2),
            lambda: named.rows("correlations"),
            lambda loaded, number: _walked(loaded, _name(number, rows)),
        ),
    )


def _evaluated(loaded: Sequence[Knowledge], source: str, metric: str) -> object:
    asked = [each for each in loaded if isinstance(each, Threshold) and fold(each.metric) == fold(metric)]
    return lookup.firing([each for each in asked if fold(each.source) in (fold(source), ANY)], 500)


def _walked(loaded: Sequence[Knowledge], source: str) -> object:
    known = [each for each in loaded if isinstance(each, Correlation)]

    def correlations_of(name: str) -> list[Correlation]:
        return [each for each in known if lookup.matches(name, each.source_a) or lookup.matches(name, each.source_b)]

    return lookup.walk(correlations_of, source, 2)


def _name(number: int, rows: int) -> str:
    """Return a source that claims name."""
    return f"TICK{number * 7 % (rows // 4)}"


def _asked(number: int, rows: int) -> tuple[str, str]:
    """Return a source and a metric of the thresholds, in different case."""
    return f"tick{number * 13 % (rows // len(METRICS))}", METRICS[number % len(METRICS)].upper()


def measured(rows: int, asked: int, folder: Path) -> list[Figure]:
    """Return a figure for each query. Raise AssertionError if lane and scan find different results."""
    with (
        keeping(thresholds(rows), folder, "thresholds.db") as values,
        keeping(claims(rows), folder, "claims.db") as names,
    ):
        figures = []
        for side in sides(values, names, rows):
            loaded = side.load()
            assert side.ours(1) == side.scan(loaded, 1), side.label
            ours = [_seconds(partial(side.ours, number)) for number in range(asked)]
            some = range(min(asked, _PLAIN_ASKED))
            load = statistics.median(_seconds(side.load) for _ in some)
            scan = statistics.median(_seconds(partial(side.scan, loaded, number)) for number in some)
            figures.append(Figure(side.label, statistics.median(ours), load + scan, scan))
    return figures


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def told(figures: Sequence[Figure]) -> str:
    """Return the figures as a table."""
    lines = [f"{'':>20}{'ms':>8}{'all rows':>12}{'ratio':>9}{'loaded before':>16}{'ratio':>9}"]
    for figure in figures:
        ours = f"{figure.label:>20}{figure.ours * 1e3:>8.2f}"
        plain = f"{figure.plain * 1e3:>12.1f}{figure.ours / figure.plain:>9.5f}"
        lines.append(f"{ours}{plain}{figure.scan * 1e3:>16.1f}{figure.ours / figure.scan:>9.4f}")
    return "\n".join(lines)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--asked", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as folder:
        print(f"{given.rows:,} rows in either store")
        print(told(measured(given.rows, given.asked, Path(folder))))


if __name__ == "__main__":
    main()
