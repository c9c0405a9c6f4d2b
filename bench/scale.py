"""Cost of queries, of added memories and of the store itself, from a thousand memories to a million, in both stores.

    python -m bench.scale [--sizes 1000 10000 100000] [--keep FOLDER] [--write FOLDER] [--stores …]

    material ─ for each size: plain, cofio on a file, cofio on PostgreSQL ─ a process per stage ─▶ points ─▶ Report

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

from bench import embedded, measure, postgres
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
STORES = {"embedded": "cofio, a file", "postgres": "cofio, PostgreSQL", "baseline": "plain FTS5 and NumPy"}
EFFORT = measure.Effort(rounds=1, adds=100, batch=1_000, bulk=100, bulk_rounds=3)
PATIENCE = 25 * 60.0  # timeout of a stage in seconds
_STAGES = ("write", "open", "search", "add")
_READ_MB = 768  # larger than any cache
_COLOURS = dict(zip(STORES, plots.COLOURS, strict=False))


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of a store of one size, with the machine and its load."""

    store: str
    size: int
    figures: Mapping[str, float]
    measured_on: Mapping[str, Any]

    def median(self, name: str) -> Figure:
        """Return the median of this figure in milliseconds, with its interval."""
        return Figure(*(self.figures[f"{name}_p50_{which}ms"] for which in ("", "low_", "high_")))

    def bytes_each(self) -> float:
        return self.figures["file_mb"] * (1 << 20) / self.size

    def as_dict(self) -> dict[str, Any]:
        about = {"store": STORES[self.store], "memories": self.size, "load": self.measured_on["load"]}
        return {**about, "bytes_per_memory": self.bytes_each(), **self.figures}


@dataclass(frozen=True, slots=True)
class ScaleResults:
    """All points, the reasons of missing ones, and the memory bandwidth."""

    points: Sequence[Point]
    missing: Sequence[str]
    read_gb_per_s: float

    def of_store(self, store: str) -> list[Point]:
        return sorted((point for point in self.points if point.store == store), key=lambda point: point.size)

    def limit(self, size: int, width: int) -> float:
        """Return the minimum milliseconds for reading this many vectors of this many bytes per dimension."""
        return 1e3 * size * DIMENSION * width / (1e9 * self.read_gb_per_s)


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_benchmark(
    sizes: Sequence[int],
    embedder: Embedder,
    *,
    keep: Path,
    effort: measure.Effort = EFFORT,
    stores: Sequence[str] = tuple(STORES),
    anchors: int = ANCHORS,
    home: Path | None = None,
    patience: float = PATIENCE,
    megabytes: int = _READ_MB,
) -> ScaleResults:
    """Return the results of every store at every size, reusing kept ones; `home` has the model for queries."""
    points, missing = [], []
    bandwidth = measure.run_stage("bench.bandwidth", "read", keep, megabytes)["read_gb_per_s"]
    with _prepare_material(keep, sizes, stores, embedder, effort, anchors) as folder:
        if home:
            embedded.use_real_model(folder, spec="local", home=home)
        for size in sorted(set(sizes)):
            for store in stores:
                try:
                    points.append(_load_point(keep, store, size) or _point(keep, folder, store, size, patience))
                except _NotMeasured as reason:
                    _log(f"{size:,}: {store}: {reason}")
                    missing.append(f"{STORES[store]} at {size:,}: {reason}")
    return ScaleResults(points, missing, bandwidth)


class _NotMeasured(Exception):
    """Point that could not be measured; the message is the reason."""


def _point(keep: Path, folder: Path, store: str, size: int, patience: float) -> Point:
    machine = measure.machine()
    with _provide_store(folder, store, size):
        figures: dict[str, float] = {}
        for stage in _STAGES:
            _log(f"{size:,}: {store} {stage}")
            figures |= _run_stage(folder, store, stage, size, patience)
    point = Point(store, size, figures, machine)
    saved = {"store": store, "size": size, "figures": figures, "measured_on": machine}
    _path(keep, store, size).write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return point


def _run_stage(folder: Path, store: str, stage: str, size: int, patience: float) -> dict[str, float]:
    run_count = measure.Effort.read(folder).open_runs if stage == "open" else 1
    try:
        runs = [measure.run_stage(f"bench.{store}", stage, folder, size, timeout=patience) for _ in range(run_count)]
    except subprocess.TimeoutExpired:
        raise _NotMeasured(f"{stage} took more than {patience / 60:.0f} minutes") from None
    except subprocess.CalledProcessError as error:
        raise _NotMeasured(f"{stage} failed with exit code {error.returncode}") from error
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


@contextmanager
def _provide_store(folder: Path, store: str, size: int) -> Iterator[None]:
    """Provide a store of this kind and size, and remove it afterwards."""
    with _database() if store == "postgres" else nullcontext("") as address:
        if store == "postgres":
            postgres.use(folder, size, address)
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
        raise _NotMeasured(str(error).partition("\n")[0]) from error


@contextmanager
def _prepare_material(
    keep: Path, sizes: Sequence[int], stores: Sequence[str], embedder: Embedder, effort: measure.Effort, anchors: int
) -> Iterator[Path]:
    """Yield a folder with texts and vectors for the remaining measurements."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=keep) as name:
        folder = Path(name)
        effort.write(folder)
        if remaining := [size for size in sizes for store in stores if not _path(keep, store, size).exists()]:
            _log(f"making {max(remaining):,} facts, {anchors:,} of them embedded with {embedder.signature}")
            count = max(remaining) + effort.spare
            Material.make(folder, embedder, count=count, prompts=effort.prompts, warmup=effort.warmup, anchors=anchors)
        yield folder


def _load_point(keep: Path, store: str, size: int) -> Point | None:
    path = _path(keep, store, size)
    return Point(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _path(keep: Path, store: str, size: int) -> Path:
    return keep / f"scale-{store}-{size}.json"


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(results: ScaleResults, command: str) -> Report:
    """Return the page with tables and curves of queries, adds and stores."""
    values = {
        "search_ms": {
            store: {str(point.size): point.median("search_new").as_dict() for point in results.of_store(store)}
            for store in STORES
        },
        "add_ms": {
            store: {str(point.size): point.median("add").as_dict() for point in results.of_store(store)}
            for store in STORES
        },
        "points": [point.as_dict() for point in results.points],
        "missing": list(results.missing),
        "read_gb_per_s": results.read_gb_per_s,
        "limit_ms": {
            str(size): {"float32": results.limit(size, 4), "int8": results.limit(size, 1)} for size in _sizes(results)
        },
    }
    return Report(
        name="scale",
        title="Cost by number of memories",
        command=command,
        intro=_describe(results),
        values=values,
        tables=[_query_table(results), _add_table(results), _store_table(results)],
        plots={"scale-query": _query_plot(results), "scale-add": _add_plot(results)},
        closing=[f"Missing: {reason}." for reason in results.missing],
    )


def _describe(results: ScaleResults) -> list[str]:
    growth = [_growth(results, store) for store in ("embedded", "postgres") if len(results.of_store(store)) > 1]
    return [
        "The same facts in a SQLite file, in PostgreSQL, and in plain SQLite FTS5 with a NumPy matrix. Each prompt"
        " is searched once, after a warm-up with other prompts. Brackets hold the 95 % bootstrap interval of the"
        " median. CPU time is the mean per query or add, including the server's processes; it depends least on other"
        " load. Query vectors are precomputed and re-ranking is off; re-ranking adds 10 ms of CPU time per query and"
        " 2 to 6 kB per memory.",
        f"One thread reads {results.read_gb_per_s:.1f} GB/s from memory on this machine. This bounds an exact scan of"
        " all vectors, unless a cache holds them.",
        *growth,
    ]


def _growth(results: ScaleResults, store: str) -> str:
    smallest, *_, largest = results.of_store(store)
    factor_by_cost = {name: largest.figures[key] / smallest.figures[key] for name, key in _COSTS.items()}
    factors = ", ".join(f"{name} {factor:,.1f}-fold" for name, factor in factor_by_cost.items())
    return f"{STORES[store]}, from {smallest.size:,} to {largest.size:,} memories, CPU time grows: {factors}."


_COSTS = {"query": "search_cpu_ms", "single add": "add_cpu_ms"}


def _query_table(results: ScaleResults) -> Table:
    columns = [
        Column("memories"), Column("store"), Column("p50", "ms", 2), Column("p95", "ms", 2),
        Column("CPU", "ms", 2), Column("p50 with the model", "ms", 2), Column("p95 with the model", "ms", 2),
        Column("recall@10", "%"), Column("load"),
    ]  # fmt: skip
    rows = []
    for point in _sort_points(results):
        rows += [_query_row(point, STORES[point.store], "search_new", "search")]
        if point.store == "baseline":
            rows += [_query_row(point, "plain with stop list", "search_new_stopped", "search_stopped")]
    note = (
        "Hybrid search, k = 5. Columns “with the model” include embedding the query; elsewhere the vector is looked"
        " up. Recall@10 is measured against exact vector search. Plain asks FTS5 for all words of the prompt, or for"
        " those that are not stop words."
    )
    return Table("Queries", columns, rows, note)


def _query_row(point: Point, name: str, figure: str, cpu_figure: str) -> list[Cell]:
    embedded: list[Cell] = [None, None]
    if "search_embedded_p50_ms" in point.figures:
        embedded = [point.median("search_embedded"), point.figures["search_embedded_p95_ms"]]
    values: list[Cell] = [
        f"{point.size:,}",
        name,
        point.median(figure),
        point.figures[f"{figure}_p95_ms"],
        point.figures[f"{cpu_figure}_cpu_ms"],
    ]
    return [*values, *embedded, point.figures["recall_at_10"], float(point.measured_on["load"])]


def _add_table(results: ScaleResults) -> Table:
    columns = [
        Column("memories"), Column("store"), Column("single p50", "ms", 2), Column("single p95", "ms", 2),
        Column("CPU", "ms", 2), Column("bulk, per memory", "ms", 3), Column("bulk with dedup, per memory", "ms", 3),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for point in _sort_points(results):
        deduped = point.median("bulk_dedup_each") if "bulk_dedup_each_p50_ms" in point.figures else None
        rows.append(
            [
                f"{point.size:,}",
                STORES[point.store],
                point.median("add"),
                point.figures["add_p95_ms"],
                point.figures["add_cpu_ms"],
                point.median("bulk_each"),
                deduped,
            ]
        )
    note = (
        "Adds to a store of this size. A single add checks for duplicates and commits; plain has no deduplication"
        f" and no journal, and does not update its matrix. Bulk adds take {EFFORT.bulk} memories at a time. SQLite"
        " syncs the file at every commit; the PostgreSQL of the tests does not sync."
    )
    return Table("Adds", columns, rows, note)


def _store_table(results: ScaleResults) -> Table:
    columns = [
        Column("memories"), Column("store"), Column("open and first search", "s", 2),
        Column("resident memory", "MB", 0), Column("bytes on disk per memory", digits=0), Column("index build", "s", 0),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            f"{point.size:,}",
            STORES[point.store],
            point.figures["open_s"],
            point.figures["resident_mb"],
            point.bytes_each(),
            point.figures.get("index_s"),
        ]
        for point in _sort_points(results)
    ]
    note = (
        "Each start is a new process with the file in the page cache; imports are excluded. Resident memory is that"
        f" of cofio's process, without the PostgreSQL server. Above {postgres.COPY_ABOVE:,} memories, PostgreSQL is"
        " filled with COPY, with the same rows that cofio writes, and the index is built afterwards."
    )
    return Table("Store size and start", columns, rows, note)


def _query_plot(results: ScaleResults) -> str:
    plot_curves = [
        _make_curve(results, store, name, "search_new_p50_ms")
        for store, name in STORES.items()
        if results.of_store(store)
    ]
    if results.of_store("baseline"):
        plot_curves.append(
            _make_curve(results, "baseline", "plain with stop list", "search_new_stopped_p50_ms", plots.COLOURS[3])
        )
    for name, width, colour in (
        ("lower bound, float32 scan", 4, plots.COLOURS[7]),
        ("lower bound, int8 scan", 1, plots.COLOURS[6]),
    ):
        points = [(float(size), results.limit(size, width)) for size in _sizes(results)]
        plot_curves.append(plots.Curve(name, colour, points, dashed=True))
    return plots.log_log("Query latency, p50, vectors precomputed", "memories", "milliseconds", plot_curves)


def _add_plot(results: ScaleResults) -> str:
    plot_curves = []
    for store, name in STORES.items():
        if results.of_store(store):
            plot_curves.append(_make_curve(results, store, f"{name}, single", "add_p50_ms"))
            plot_curves.append(_make_curve(results, store, "   bulk", "bulk_each_p50_ms", dashed=True))
    return plots.log_log("Add latency, p50", "memories", "milliseconds", plot_curves)


def _make_curve(
    results: ScaleResults, store: str, name: str, key: str, colour: str | None = None, *, dashed: bool = False
) -> plots.Curve:
    points = [(float(point.size), point.figures[key]) for point in results.of_store(store)]
    return plots.Curve(name, colour or _COLOURS[store], points, dashed)


def _sort_points(results: ScaleResults) -> list[Point]:
    return sorted(results.points, key=lambda point: (point.size, list(STORES).index(point.store)))


def _sizes(results: ScaleResults) -> list[int]:
    return sorted({point.size for point in results.points})


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report, and write it on request; return 2 if the model is missing."""
    parser = argparse.ArgumentParser(
        prog="bench.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of memories")
    parser.add_argument("--stores", nargs="+", choices=list(STORES), default=list(STORES))
    parser.add_argument("--keep", type=Path, help="folder of results that are reused")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if min(options.sizes) < 1:
        parser.error("a size is at least 1")
    settings = Settings.load()
    with _result_folder(options.keep) as keep:
        try:
            embedder = embedders.make("local", home=settings.home, download=settings.model_download)
            results = run_benchmark(options.sizes, embedder, keep=keep, stores=options.stores, home=settings.home)
        except CofioError as error:
            print(f"The benchmark needs the local model: {error}", file=sys.stderr)
            return 2
    if not results.points:
        print("\n".join(results.missing), file=sys.stderr)
        return 1
    page = report(results, f"python -m bench.scale --sizes {' '.join(map(str, sorted(set(options.sizes))))}")
    print(json.dumps(page.as_dict(), indent=1) if options.json else page.text())
    for path in page.write(options.write) if options.write else ():
        _log(f"Wrote {path}.")
    return 0


@contextmanager
def _result_folder(folder: Path | None) -> Iterator[Path]:
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as name:
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main())
