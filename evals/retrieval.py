"""Retrieval of evidence on one or more files of conversations: docs/results/retrieval.md.

    python -m evals.retrieval FILE... [--limit N] [--write FOLDER] [--json OUT]

The same as `cofio eval retrieval`, with all files on one page. The top-level figures of the JSON are those of the first
file; those of every file are under `files`. A file whose name ends in "-dev" was used for tuning, and the page says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cofio.errors import CofioError
from cofio.ports import Embedder
from cofio_eval import retrieval
from cofio_eval.report import Report
from evals.plots import COLOURS, Curve, linear

TUNED_ON = "-dev"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 2 if a file is missing or malformed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="conversations, one JSON object per line")
    parser.add_argument("--limit", type=int, metavar="N", help="sample size: questions per file")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    options = parser.parse_args(arguments)
    try:
        report = evaluate(options.files, limit=options.limit)
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    print(report.text())
    if options.write:
        report.write(options.write)
    if options.json:
        options.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    return 0


def evaluate(files: Sequence[Path], *, limit: int | None = None, embedder: Embedder | None = None) -> Report:
    """Return one report on all files."""
    measurements = [
        retrieval.measure(file, limit=limit, embedder=embedder, progress=_Progress(file.name)) for file in files
    ]
    values = {measurement.file: retrieval.compute_values(measurement) for measurement in measurements}
    has_several = len(values) > 1
    options = f" --limit {limit}" if limit else ""
    return Report(
        name="retrieval",
        title="Retrieval quality",
        command=f"python -m evals.retrieval {' '.join(values)}{options}",
        intro=[
            *(paragraph for measurement in measurements for paragraph in retrieval.describe(measurement)),
            *describe_tuning(files),
            retrieval.METHOD,
        ],
        values={**values[files[0].name], **({"files": values} if has_several else {})},
        tables=[
            table
            for name, figures in values.items()
            for table in retrieval.list_tables(figures, f"{name}: " if has_several else "")
        ],
        plots=plot(values),
        closing=["[Measure it on your data](../how-to/measure.md): `cofio eval retrieval FILE`."],
    )


def plot(values_by_file: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the plots of evidence by tokens and of recall by time, with a line for each file and mode."""
    lines = [
        (f"{Path(file).stem}: {mode}" if len(values_by_file) > 1 else mode, figures)
        for file, values in values_by_file.items()
        for mode, figures in values["modes"].items()
    ]
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(lines))]
    curves = [
        Curve(
            name, colour, [(float(tokens), 100 * figure.value) for tokens, figure in figures["evidence_within"].items()]
        )
        for (name, figures), colour in zip(lines, colours, strict=True)
    ]
    dots = [
        Curve(name, colour, [(figures["p50_ms"], 100 * figures["r@10"])])
        for (name, figures), colour in zip(lines, colours, strict=True)
        if figures["p50_ms"] is not None
    ]
    slowest = max(dot.points[0][0] for dot in dots)
    max_budget = max(budget for curve in curves for budget, _ in curve.points)
    return {
        "retrieval-tokens": linear(
            "Evidence within a token budget",
            "tokens injected",
            "% of the evidence",
            curves,
            within=(0, max_budget, 0, 100),
        ),
        "retrieval-time": linear(
            "Recall by latency", "ms per question (p50)", "R@10, %", dots, within=(0, 1.2 * slowest, 0, 100)
        ),
    }


def describe_tuning(files: Sequence[Path]) -> list[str]:
    """Return a sentence for each file on whether it was used for tuning."""
    sentences = []
    for file in files:
        if file.stem.endswith(TUNED_ON):
            sentences.append(
                f"{file.name} is the development file: search weights and the minimum score of recall were tuned on"
                " it. Expect lower figures on other data."
            )
        else:
            sentences.append(f"No setting was tuned on {file.name}.")
    return sentences


class _Progress:
    """Progress on stderr, at every tenth."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._printed = 0

    def __call__(self, done: int, total: int) -> None:
        if (tenths := 10 * done // total) > self._printed:
            self._printed = tenths
            print(f"{self._name}: {10 * tenths} %", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
