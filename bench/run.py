"""`make bench`: cofio compared with plain SQLite FTS5 and NumPy, at several sizes, in one run.

    python -m bench.run [--sizes 1000 10000 100000] [--json PATH] [--folder FOLDER]

    corpus ─ real embedder, once ─▶ material ─ a process for each stage, store and size ─▶ table, JSON, SVG

Figures depend on the machine and its other load; the ratios depend on them less, because both figures of a ratio
are measured in direct succession. Embedding is excluded everywhere: vectors are looked up (see bench/vectors.py).
Every stage has a process of its own with one BLAS thread; files are in the page cache, since they were just written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import measure
from bench.vectors import ANCHORS, Material
from cofio.errors import CofioError
from cofio.ports import Embedder
from cofio.providers import embedders
from cofio.settings import Settings
from evals import plots

_RESULTS = Path(__file__).parent / "results"
_STORES = ("embedded", "baseline")
_STAGES = ("write", "open", "search", "add")
_NOTES = (
    "Embedding is excluded: vectors are looked up in a table.",
    "Memories' vectors are mixtures of 1,500 facts embedded by the model, plus noise with their covariance, so their"
    " spectrum is realistic; prompts have their own real vectors.",
    "One BLAS thread; every stage in a process of its own; files in the page cache; commits are durable (WAL, FULL).",
    "Plain is FTS5 (porter, OR of all words) and NumPy (X @ q), fused half and half; it has no journal and no"
    " deduplication, and an add does not update its matrix.",
    "A ratio is cofio divided by plain: lower is better for times and sizes, higher for rates per second.",
)


@dataclass(frozen=True, slots=True)
class Measure:
    """Row of the table: a figure of cofio, and the baseline figure that it is divided by."""

    label: str
    cofio: str
    unit: str
    baseline: str = ""  # default: the same as `cofio`

    def ratio(self, figures: Mapping[str, Mapping[str, float]]) -> float:
        return figures["embedded"][self.cofio] / figures["baseline"][self.baseline or self.cofio]


MEASURES = (
    Measure("search p50", "search_p50_ms", "ms"),
    Measure("  plain with stop list", "search_p50_ms", "ms", "search_stopped_p50_ms"),
    Measure("search p95", "search_p95_ms", "ms"),
    Measure("  plain with stop list", "search_p95_ms", "ms", "search_stopped_p95_ms"),
    Measure("search p50, new prompt", "search_new_p50_ms", "ms"),
    Measure("search p95, new prompt", "search_new_p95_ms", "ms"),
    Measure("search p50, in one project", "search_scoped_p50_ms", "ms", "search_stopped_p50_ms"),
    Measure("search p95, in one project", "search_scoped_p95_ms", "ms", "search_stopped_p95_ms"),
    Measure("recall@10 of vectors", "recall_at_10", ""),
    Measure("add p50, dedup", "add_p50_ms", "ms"),
    Measure("bulk add", "bulk_per_s", "/s"),
    Measure("bulk add, dedup", "bulk_dedup_per_s", "/s", "bulk_per_s"),
    Measure("open + first search", "open_s", "s"),
    Measure("imports", "import_s", "s"),
    Measure("resident memory", "resident_mb", "MB"),
    Measure("database", "file_mb", "MB"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """Target for a figure at a size."""

    label: str
    size: int
    figure: str
    maximum: float | None = None
    minimum: float | None = None

    def judge(self, results: Mapping[str, Any]) -> str:
        figures = results["sizes"].get(str(self.size))
        if figures is None:
            return f"not measured: {self.label}"
        value = figures["embedded"][self.figure]
        met = (self.maximum is None or value < self.maximum) and (self.minimum is None or value >= self.minimum)
        return f"{'met' if met else 'not met'}: {self.label} ({_format_number(value)})"


BARS = (
    Bar("search at 100k, p50 < 5 ms", 100_000, "search_p50_ms", maximum=5),
    Bar("search at 100k, p95 < 15 ms", 100_000, "search_p95_ms", maximum=15),
    Bar("recall@10 at 100k >= 0.99", 100_000, "recall_at_10", minimum=0.99),
    Bar("search at 10k, p50 < 2 ms", 10_000, "search_p50_ms", maximum=2),
    Bar("open + first search at 100k < 3 s", 100_000, "open_s", maximum=3),
    Bar("open + first search at 10k < 0.7 s", 10_000, "open_s", maximum=0.7),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write JSON and plot; return 2 if the model is missing."""
    options = _options(arguments)
    settings = Settings.load()
    embedder = embedders.make("local", home=settings.home, download=settings.model_download)
    try:
        results = run_benchmark(options.sizes, embedder, measure.Effort(), folder=options.folder)
    except CofioError as error:
        print(f"The benchmark needs the local model: {error}", file=sys.stderr)
        return 2
    save(results, options.json)
    show(results)
    print(f"\nsaved: {options.json} and {options.json.with_suffix('.svg')}")
    return 0


def run_benchmark(
    sizes: Sequence[int],
    embedder: Embedder,
    effort: measure.Effort,
    *,
    anchors: int = ANCHORS,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return all results of a run as plain values."""
    started = time.perf_counter()
    about = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": measure.machine(), "notes": list(_NOTES)}
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=folder) as name:
        work_folder = Path(name)
        _log(f"embedding {anchors:,} facts and {effort.prompts + effort.warmup} prompts with {embedder.signature}")
        count = max(sizes) + effort.spare
        Material.make(work_folder, embedder, count=count, prompts=effort.prompts, warmup=effort.warmup, anchors=anchors)
        effort.write(work_folder)
        figures = {str(size): _measure_size(work_folder, size, effort) for size in sorted(set(sizes))}
    return {**about, "seconds": round(time.perf_counter() - started, 1), "sizes": figures}


def _measure_size(folder: Path, size: int, effort: measure.Effort) -> dict[str, dict[str, float]]:
    """Return the figures of both stores at a size, and their ratios."""
    figures: dict[str, dict[str, float]] = {store: {} for store in _STORES}
    for stage in _STAGES:
        for store in _STORES:
            _log(f"{size:,}: {store} {stage}")
            run_count = effort.open_runs if stage == "open" else 1
            runs = [measure.run_stage(f"bench.{store}", stage, folder, size) for _ in range(run_count)]
            figures[store] |= {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    for path in folder.glob(f"*-{size}.db*"):
        path.unlink()
    ratios = {f"{row.cofio} / {row.baseline or row.cofio}": row.ratio(figures) for row in MEASURES}
    return {**figures, "ratio": ratios}


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def save(results: Mapping[str, Any], path: Path) -> None:
    """Write the results as JSON, and the plot next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {**results, "bars": [bar.judge(results) for bar in BARS]}
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    path.with_suffix(".svg").write_text(draw_plot(results), encoding="utf-8")


def draw_plot(results: Mapping[str, Any]) -> str:
    """Return the plot of search time by size."""
    styles = (
        ("cofio, p50", "embedded", "search_p50_ms", "#2f81f7", False),
        ("cofio, p95", "embedded", "search_p95_ms", "#2f81f7", True),
        ("plain, p50", "baseline", "search_p50_ms", "#e5534b", False),
        ("plain, p95", "baseline", "search_p95_ms", "#e5534b", True),
        ("plain with stop list, p50", "baseline", "search_stopped_p50_ms", "#c69026", False),
        ("plain with stop list, p95", "baseline", "search_stopped_p95_ms", "#c69026", True),
    )
    sizes = results["sizes"].items()
    plot_curves = [
        plots.Curve(name, colour, [(float(size), figures[store][key]) for size, figures in sizes], dashed)
        for name, store, key, colour, dashed in styles
    ]
    return plots.log_log("Hybrid search, k = 5, embedding excluded", "memories", "milliseconds", plot_curves)


def show(results: Mapping[str, Any]) -> None:
    """Print the table, with the machine and the targets."""
    about = results["machine"]
    print(f"{about['cpu']}, {about['cores']} cores, {about['system']}")
    print(f"Python {about['python']}, SQLite {about['sqlite']}, NumPy {about['numpy']}; {results['seconds']:.0f} s")
    print(f"load average at the start: {about['load']:.2f}")
    if about["load"] > measure.BUSY:
        print("The machine is busy: figures are noisy; trust the ratios.")
    print()
    for line in table(results):
        print(line)
    print()
    for note in results["notes"]:
        print(f"- {note}")
    print()
    for bar in BARS:
        print(f"bar: {bar.judge(results)}")


def table(results: Mapping[str, Any]) -> list[str]:
    """Return one row per measure, with cofio, the baseline and their ratio for each size."""
    sizes = results["sizes"]
    heads = "".join(f"  {'│':1} {int(size):>28,}" for size in sizes)
    names = "".join(f"  │ {'cofio':>10} {'plain':>10} {'ratio':>6}" for _ in sizes)
    lines = [f"{'memories':26}{heads}", f"{'':26}{names}", "─" * (26 + 32 * len(sizes))]
    for row in MEASURES:
        cells = []
        for figures in sizes.values():
            cofio, baseline = figures["embedded"][row.cofio], figures["baseline"][row.baseline or row.cofio]
            values = f"{_format_value(cofio, row.unit):>10} {_format_value(baseline, row.unit):>10}"
            cells.append(f"  │ {values} {_format_ratio(cofio / baseline):>6}")
        lines.append(f"{row.label:26}{''.join(cells)}")
    return lines


def _format_value(value: float, unit: str) -> str:
    return f"{_format_number(value)} {unit}".strip()


def _format_number(value: float) -> str:
    """Return the value with three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _format_ratio(value: float) -> str:
    return f"{value:.0f}×" if value >= 10 else f"{value:.2f}×" if value >= 0.1 else f"{value:.3f}×"


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="numbers of memories")
    parser.add_argument("--json", type=Path, default=_RESULTS / "latest.json", help="output; the plot is next to it")
    parser.add_argument("--folder", type=Path, help="folder for the temporary stores")
    options = parser.parse_args(arguments)
    if min(options.sizes) < 1:
        parser.error("a size is at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
