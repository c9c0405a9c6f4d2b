"""Cost of queries, of added memories and of the store itself, from a thousand memories to a million, in both stores.

    python -m bench.scale [--sizes 1000 10000 100000] [--keep FOLDER] [--write FOLDER] [--stores …]

    material ─ for each size: plain, cofio on a file, cofio on PostgreSQL ─ a process a stage ─▶ points ─▶ Report

Both stores hold the same facts, and so do plain FTS5 and NumPy for comparison. Vectors are looked up (see
`bench.vectors`); the time of a query with the model is measured as well. The memory bandwidth of one thread is measured
in the same run, and gives the lower bound of exact scans.

With `--keep`, results stay in that folder, a file for each store and size, and are not measured again: an interrupted
run can continue, and a million that was measured once is in every later report. Remove a file to repeat its
measurement. PostgreSQL is that of the tests (see `tests/postgres.py` for the use of another); if it is missing or not
ready in time, the report says so and has the rest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import measure, ours, served
from bench.bandwidth import DIMENSION
from bench.server import database
from bench.vectors import ANCHORS, Material
from cofio.errors import CofioError
from cofio.ports import Embedder
from cofio.providers import embedders
from cofio.settings import Settings
from cofio_eval.metrics import Figure
from cofio_eval.report import Cell, Column, Report, Table
from evals import plots

SIZES = (1_000, 10_000, 100_000)
SIDES = {"ours": "cofio, a file", "served": "cofio, PostgreSQL", "plain": "plain FTS5 and NumPy"}
EFFORT = measure.Effort(rounds=1, adds=100, batch=1_000, bulk=100, bulks=3)
PATIENCE = 25 * 60.0  # timeout of a stage in seconds
_STAGES = ("written", "opened", "searched", "grown")
_READ_MB = 768  # larger than any cache
_COLOURS = dict(zip(SIDES, plots.COLOURS, strict=False))


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of a store of one size, with the machine and its load."""

    side: str
    size: int
    figures: Mapping[str, float]
    measured_on: Mapping[str, Any]

    def median(self, name: str) -> Figure:
        """Return the median of this figure in milliseconds, with its interval."""
        return Figure(*(self.figures[f"{name}_p50_{which}ms"] for which in ("", "low_", "high_")))

    def bytes_each(self) -> float:
        return self.figures["file_mb"] * (1 << 20) / self.size

    def as_dict(self) -> dict[str, Any]:
        about = {"store": SIDES[self.side], "memories": self.size, "load": self.measured_on["load"]}
        return {**about, "bytes_per_memory": self.bytes_each(), **self.figures}


@dataclass(frozen=True, slots=True)
class Measured:
    """All points, the reasons of missing ones, and the memory bandwidth."""

    points: Sequence[Point]
    missing: Sequence[str]
    read_gb_per_s: float

    def of(self, side: str) -> list[Point]:
        return sorted((point for point in self.points if point.side == side), key=lambda each: each.size)

    def limit(self, size: int, width: int) -> float:
        """Return the minimum milliseconds for reading this many vectors of this many bytes per dimension."""
        return 1e3 * size * DIMENSION * width / (1e9 * self.read_gb_per_s)


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured(
    sizes: Sequence[int],
    embedder: Embedder,
    *,
    keep: Path,
    effort: measure.Effort = EFFORT,
    sides: Sequence[str] = tuple(SIDES),
    anchors: int = ANCHORS,
    home: Path | None = None,
    patience: float = PATIENCE,
    megabytes: int = _READ_MB,
) -> Measured:
    """Return the results of every side at every size, reusing kept ones. `home` has the model for embedding queries."""
    points, missing = [], []
    read = measure.alone("bench.bandwidth", "read", keep, megabytes)["read_gb_per_s"]
    with _material(keep, sizes, sides, embedder, effort, anchors) as folder:
        if home:
            ours.really(folder, spec="local", home=home)
        for size in sorted(set(sizes)):
            for side in sides:
                try:
                    points.append(_kept(keep, side, size) or _point(keep, folder, side, size, patience))
                except _Missing as why:
                    _tell(f"{size:,}: {side}: {why}")
                    missing.append(f"{SIDES[side]} at {size:,}: {why}")
    return Measured(points, missing, read)


class _Missing(Exception):
    """Point that could not be measured; the message is the reason."""


def _point(keep: Path, folder: Path, side: str, size: int, patience: float) -> Point:
    machine = measure.machine()
    with _stored(folder, side, size):
        figures: dict[str, float] = {}
        for stage in _STAGES:
            _tell(f"{size:,}: {side} {stage}")
            figures |= _staged(folder, side, stage, size, patience)
    point = Point(side, size, figures, machine)
    kept = {"side": side, "size": size, "figures": figures, "measured_on": machine}
    _path(keep, side, size).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return point


def _staged(folder: Path, side: str, stage: str, size: int, patience: float) -> dict[str, float]:
    times = measure.Effort.read(folder).openings if stage == "opened" else 1
    try:
        runs = [measure.alone(f"bench.{side}", stage, folder, size, within=patience) for _ in range(times)]
    except subprocess.TimeoutExpired:
        raise _Missing(f"{stage} took more than {patience / 60:.0f} minutes") from None
    except subprocess.CalledProcessError as error:
        raise _Missing(f"{stage} failed with exit code {error.returncode}") from error
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


@contextmanager
def _stored(folder: Path, side: str, size: int) -> Iterator[None]:
    """Provide a store of this side and size, and remove it afterwards."""
    with _database() if side == "served" else nullcontext("") as address:
        if side == "served":
            served.use(folder, size, address)
        try:
            yield
        finally:
            for path in folder.glob(f"*-{size}.db*"):
                path.unlink()


@contextmanager
def _database() -> Iterator[str]:
    from tests.postgres import Missing

    try:
        with database(None) as address:
            yield address
    except Missing as error:
        raise _Missing(str(error).partition("\n")[0]) from error


@contextmanager
def _material(
    keep: Path, sizes: Sequence[int], sides: Sequence[str], embedder: Embedder, effort: measure.Effort, anchors: int
) -> Iterator[Path]:
    """Yield a folder with texts and vectors for the remaining measurements."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=keep) as name:
        folder = Path(name)
        effort.write(folder)
        if wanted := [size for size in sizes for side in sides if not _path(keep, side, size).exists()]:
            _tell(f"making {max(wanted):,} facts, {anchors:,} of them embedded with {embedder.signature}")
            count = max(wanted) + effort.spare
            Material.make(folder, embedder, count=count, asked=effort.prompts, warming=effort.warming, anchors=anchors)
        yield folder


def _kept(keep: Path, side: str, size: int) -> Point | None:
    path = _path(keep, side, size)
    return Point(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _path(keep: Path, side: str, size: int) -> Path:
    return keep / f"scale-{side}-{size}.json"


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(found: Measured, command: str) -> Report:
    """Return the page with tables and curves of queries, adds and stores."""
    values = {
        "search_ms": {
            side: {str(each.size): each.median("search_new").as_dict() for each in found.of(side)} for side in SIDES
        },
        "add_ms": {side: {str(each.size): each.median("add").as_dict() for each in found.of(side)} for side in SIDES},
        "points": [point.as_dict() for point in found.points],
        "missing": list(found.missing),
        "read_gb_per_s": found.read_gb_per_s,
        "limit_ms": {
            str(size): {"float32": found.limit(size, 4), "int8": found.limit(size, 1)} for size in _sizes(found)
        },
    }
    return Report(
        name="scale",
        title="What it costs as the memory grows",
        command=command,
        says=_says(found),
        values=values,
        tables=[_queries(found), _adds(found), _stores(found)],
        plots={"scale-query": _query_plot(found), "scale-add": _add_plot(found)},
        ends=[f"Missing: {each}." for each in found.missing],
    )


def _says(found: Measured) -> list[str]:
    grown = [_growth(found, side) for side in ("ours", "served") if len(found.of(side)) > 1]
    return [
        "The same facts in a file, in PostgreSQL, and in plain SQLite FTS5 with a NumPy matrix. Each prompt is asked"
        " once, after others have warmed the caches. Brackets hold the 95 % interval of the median (bootstrap)."
        " Processor time is the mean of a query or an add, with that of the server's processes; other work on the"
        " machine moves it least. Vectors are given, and nothing is read word by word: that takes 10 ms of a core a"
        " question and two to six kilobytes a memory more.",
        f"One thread reads {found.read_gb_per_s:.1f} GB a second from memory here. A scan of every vector cannot be"
        " faster than that, unless a cache holds them all.",
        *grown,
    ]


def _growth(found: Measured, side: str) -> str:
    first, *_, last = found.of(side)
    times = {name: last.figures[key] / first.figures[key] for name, key in _COSTS.items()}
    told = ", ".join(f"{name} {factor:,.1f} times" for name, factor in times.items())
    return f"{SIDES[side]}, from {first.size:,} to {last.size:,} memories, in processor time: {told} the cost."


_COSTS = {"a query": "search_cpu_ms", "a single add": "add_cpu_ms"}


def _queries(found: Measured) -> Table:
    columns = [
        Column("memories"), Column("store"), Column("p50", "ms", 2), Column("p95", "ms", 2),
        Column("processor", "ms", 2), Column("p50 with the model", "ms", 2), Column("p95 with the model", "ms", 2),
        Column("recall@10", "%"), Column("load"),
    ]  # fmt: skip
    rows = []
    for each in _in_order(found):
        rows += [_query(each, SIDES[each.side], "search_new", "search")]
        if each.side == "plain":
            rows += [_query(each, "plain with our stop list", "search_new_stopped", "search_stopped")]
    note = (
        "Hybrid search for the five best. Without the model the query's vector is looked up. Recall is of the ten"
        " nearest vectors by exact search. Plain asks FTS5 for all words of the prompt, or for those that are not stop"
        " words."
    )
    return Table("A query", columns, rows, note)


def _query(point: Point, name: str, timed: str, spent: str) -> list[Cell]:
    embedded: list[Cell] = [None, None]
    if "search_embedded_p50_ms" in point.figures:
        embedded = [point.median("search_embedded"), point.figures["search_embedded_p95_ms"]]
    values: list[Cell] = [
        f"{point.size:,}",
        name,
        point.median(timed),
        point.figures[f"{timed}_p95_ms"],
        point.figures[f"{spent}_cpu_ms"],
    ]
    return [*values, *embedded, point.figures["recall_at_10"], float(point.measured_on["load"])]


def _adds(found: Measured) -> Table:
    columns = [
        Column("memories"), Column("store"), Column("single p50", "ms", 2), Column("single p95", "ms", 2),
        Column("processor", "ms", 2), Column("in bulk, each", "ms", 3), Column("in bulk with dedup, each", "ms", 3),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for each in _in_order(found):
        deduped = each.median("bulk_dedup_each") if "bulk_dedup_each_p50_ms" in each.figures else None
        rows.append(
            [
                f"{each.size:,}",
                SIDES[each.side],
                each.median("add"),
                each.figures["add_p95_ms"],
                each.figures["add_cpu_ms"],
                each.median("bulk_each"),
                deduped,
            ]
        )
    note = (
        "To a store that holds so many. A single add looks for duplicates and is committed; plain looks for none, keeps"
        f" no journal and does not reach its matrix. In bulk: {EFFORT.bulk} at a time. The file is synced at every"
        " commit; the tests' PostgreSQL does not wait for its disk."
    )
    return Table("An added memory", columns, rows, note)


def _stores(found: Measured) -> Table:
    columns = [
        Column("memories"), Column("store"), Column("open and first search", "s", 2),
        Column("resident memory", "MB", 0), Column("bytes on disk each", digits=0), Column("index made in", "s", 0),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            f"{each.size:,}",
            SIDES[each.side],
            each.figures["open_s"],
            each.figures["resident_mb"],
            each.bytes_each(),
            each.figures.get("index_s"),
        ]
        for each in _in_order(found)
    ]
    note = (
        "A fresh process each, the file in the page cache, imports left out. Resident memory is that of cofio's"
        f" process; the server has its own. In PostgreSQL more than {served.THROUGH:,} memories are poured in by COPY,"
        " as rows that are the same as the store's own, and the index is made afterwards."
    )
    return Table("The store", columns, rows, note)


def _query_plot(found: Measured) -> str:
    lines = [_line(found, side, name, "search_new_p50_ms") for side, name in SIDES.items() if found.of(side)]
    if found.of("plain"):
        lines.append(_line(found, "plain", "plain with our stop list", "search_new_stopped_p50_ms", plots.COLOURS[3]))
    for name, width, colour in (
        ("limit, float32 scan", 4, plots.COLOURS[7]),
        ("limit, int8 scan", 1, plots.COLOURS[6]),
    ):
        points = [(float(size), found.limit(size, width)) for size in _sizes(found)]
        lines.append(plots.Curve(name, colour, points, dashed=True))
    return plots.log_log("A query, p50, without the model", "memories", "milliseconds", lines)


def _add_plot(found: Measured) -> str:
    lines = []
    for side, name in SIDES.items():
        if found.of(side):
            lines.append(_line(found, side, f"{name}, single", "add_p50_ms"))
            lines.append(_line(found, side, "   in bulk", "bulk_each_p50_ms", dashed=True))
    return plots.log_log("An added memory, p50", "memories", "milliseconds", lines)


def _line(
    found: Measured, side: str, name: str, key: str, colour: str | None = None, *, dashed: bool = False
) -> plots.Curve:
    points = [(float(each.size), each.figures[key]) for each in found.of(side)]
    return plots.Curve(name, colour or _COLOURS[side], points, dashed)


def _in_order(found: Measured) -> list[Point]:
    return sorted(found.points, key=lambda each: (each.size, list(SIDES).index(each.side)))


def _sizes(found: Measured) -> list[int]:
    return sorted({point.size for point in found.points})


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report, and write it on request; return 2 if the model is missing."""
    parser = argparse.ArgumentParser(
        prog="bench.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of memories")
    parser.add_argument("--stores", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--keep", type=Path, help="folder of results that are reused")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    if min(given.sizes) < 1:
        parser.error("a size is at least 1")
    settings = Settings.load()
    with _keeping(given.keep) as keep:
        try:
            embedder = embedders.make("local", home=settings.home, download=settings.model_download)
            found = measured(given.sizes, embedder, keep=keep, sides=given.stores, home=settings.home)
        except CofioError as error:
            print(f"The benchmark needs the local model: {error}", file=sys.stderr)
            return 2
    if not found.points:
        print("\n".join(found.missing), file=sys.stderr)
        return 1
    told = report(found, f"python -m bench.scale --sizes {' '.join(map(str, sorted(set(given.sizes))))}")
    print(json.dumps(told.as_dict(), indent=1) if given.json else told.text())
    for path in told.write(given.write) if given.write else ():
        _tell(f"Wrote {path}.")
    return 0


@contextmanager
def _keeping(folder: Path | None) -> Iterator[Path]:
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as name:
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main())
