"""Latency of the exact lookup among 10,000 rows, compared with a scan of all rows in the same run.

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
    Seasonal,
    Threshold,
    fold,
    named_words,
)
from cofio.models.memory import PutRow
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

METRICS = ("volume", "price", "spread", "latency", "errors", "depth", "volatility", "turnover")
_BATCH = 1_000  # rows per changeset
_SCAN_ROUNDS = 10  # repetitions of the plain scan, which takes long with little variation


@dataclass(frozen=True, slots=True)
class Lookup:
    """Query by number, by the exact lookup and by a scan of all rows, which have to be loaded first."""

    label: str
    find: Callable[[int], object]
    load: Callable[[], Sequence[Knowledge]]
    scan: Callable[[Sequence[Knowledge], int], object]


@dataclass(frozen=True, slots=True)
class Figure:
    """Median seconds of the lookup, of loading and scanning all rows, and of scanning loaded rows."""

    label: str
    lookup_seconds: float
    scan_all_seconds: float
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
        source, confidence = f"TICK{number // 4}", (number % 89) / 89
        if number % 4 == 0:
            yield Pattern(pattern=f"pattern {number} shows before earnings", source=source, confidence=confidence)
        elif number % 4 == 1:
            next_source = f"TICK{number // 4 + 1}"
            yield Correlation(
                source_a=source, source_b=next_source, rule=f"{source} leads {next_source}", confidence=confidence
            )
        elif number % 4 == 2:
            yield Threshold(source=source, metric="volume", value=number, direction="below", confidence=confidence)
        else:
            yield Seasonal(
                pattern=f"busy {number}", period="weekly", during="mon-fri", source=source, confidence=confidence
            )


@contextmanager
def open_keeper(rows: Iterator[Knowledge], folder: Path, name: str) -> Iterator[Keeper]:
    """Yield a keeper whose store holds these rows."""
    clock = FixedClock()
    with Keeper(SqliteStore(folder / name, clock), HashEmbedder(), clock) as keeper:
        while batch := list(islice(rows, _BATCH)):
            keeper.apply([PutRow(row) for row in batch], by="bench", why="bench")
        yield keeper


def list_lookups(values: Keeper, names: Keeper, rows: int) -> tuple[Lookup, ...]:
    """Return all queries over a store of thresholds and one of claims."""
    thresholds_store, claims_store = values.services.access.store.domain, names.services.access.store.domain
    return (
        Lookup(
            "evaluate a value",
            lambda number: values.knowledge.evaluate(*_source_and_metric(number, rows), 500),
            lambda: thresholds_store.rows("thresholds"),
            lambda loaded, number: _scan_thresholds(loaded, *_source_and_metric(number, rows)),
        ),
        Lookup(
            "find by a name",
            lambda number: {row.ref for row in claims_store.naming([fold(_name(number, rows))])},
            lambda: [row for table in CLAIMS for row in claims_store.rows(table)],
            lambda loaded, number: {row.ref for row in loaded if fold(_name(number, rows)) in named_words(row)},
        ),
        Lookup(
            "walk two steps",
            lambda number: names.knowledge.related(_name(number, rows), depth=2),
            lambda: claims_store.rows("correlations"),
            lambda loaded, number: _scan_related(loaded, _name(number, rows)),
        ),
    )


def _scan_thresholds(loaded: Sequence[Knowledge], source: str, metric: str) -> object:
    thresholds_of_metric = [row for row in loaded if isinstance(row, Threshold) and fold(row.metric) == fold(metric)]
    return lookup.firing([row for row in thresholds_of_metric if fold(row.source) in (fold(source), ANY)], 500)


def _scan_related(loaded: Sequence[Knowledge], source: str) -> object:
    correlations = [row for row in loaded if isinstance(row, Correlation)]

    def correlations_of(name: str) -> list[Correlation]:
        return [row for row in correlations if lookup.matches(name, row.source_a) or lookup.matches(name, row.source_b)]

    return lookup.walk(correlations_of, source, 2)


def _name(number: int, rows: int) -> str:
    """Return a source that occurs in the claims."""
    return f"TICK{number * 7 % (rows // 4)}"


def _source_and_metric(number: int, rows: int) -> tuple[str, str]:
    """Return a source and a metric of the thresholds, in different case."""
    return f"tick{number * 13 % (rows // len(METRICS))}", METRICS[number % len(METRICS)].upper()


def run_benchmark(rows: int, rounds: int, folder: Path) -> list[Figure]:
    """Return a figure for each query. Raise AssertionError if lookup and scan differ."""
    with (
        open_keeper(thresholds(rows), folder, "thresholds.db") as values,
        open_keeper(claims(rows), folder, "claims.db") as names,
    ):
        figures = []
        for method in list_lookups(values, names, rows):
            loaded = method.load()
            assert method.find(1) == method.scan(loaded, 1), method.label
            durations = [_seconds(partial(method.find, number)) for number in range(rounds)]
            scan_rounds = range(min(rounds, _SCAN_ROUNDS))
            load = statistics.median(_seconds(method.load) for _ in scan_rounds)
            scan = statistics.median(_seconds(partial(method.scan, loaded, number)) for number in scan_rounds)
            figures.append(Figure(method.label, statistics.median(durations), load + scan, scan))
    return figures


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def format_table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table."""
    lines = [f"{'':>20}{'ms':>8}{'all rows':>12}{'ratio':>9}{'loaded before':>16}{'ratio':>9}"]
    for figure in figures:
        lookup_cells = f"{figure.label:>20}{figure.lookup_seconds * 1e3:>8.2f}"
        scan_cells = f"{figure.scan_all_seconds * 1e3:>12.1f}{figure.lookup_seconds / figure.scan_all_seconds:>9.5f}"
        lines.append(f"{lookup_cells}{scan_cells}{figure.scan * 1e3:>16.1f}{figure.lookup_seconds / figure.scan:>9.4f}")
    return "\n".join(lines)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--asked", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as folder:
        print(f"{options.rows:,} rows in either store")
        print(format_table(run_benchmark(options.rows, options.asked, Path(folder))))


if __name__ == "__main__":
    main()
