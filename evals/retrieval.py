"""Retrieval of evidence on one or more files of conversations: docs/results/retrieval.md.

    python -m evals.retrieval FILE... [--limit N] [--write FOLDER] [--json OUT]

The same as `cofio eval retrieval`, with all files on one page. The top-level figures of the JSON are those of the first
file; those of every file are under `files`. A file whose name ends in "-dev" was used for tuning, and the page says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cofio.errors import CofioError
from cofio.evaluation import retrieval
from cofio.evaluation.report import Report
from cofio.ports import Embedder

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
        report = evaluated(options.files, limit=options.limit)
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    print(report.text())
    if options.write:
        report.write(options.write)
    if options.json:
        options.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    return 0


def evaluated(files: Sequence[Path], *, limit: int | None = None, embedder: Embedder | None = None) -> Report:
    """Return one report on all files."""
    found = [retrieval.measured(file, limit=limit, embedder=embedder, progress=_Told(file)) for file in files]
    several = len(found) > 1
    values = [retrieval.values(each) for each in found]
    named = [file.name for file in files]
    options = f" --limit {limit}" if limit else ""
    return Report(
        name="retrieval",
        title="Retrieval: how much of what answers a question is found",
        command=f"python -m evals.retrieval {' '.join(named)}{options}",
        says=[*(told for each in found for told in retrieval.says(each)), *tuned(files), retrieval.METHOD],
        values={**values[0], **({"files": dict(zip(named, values, strict=True))} if several else {})},
        tables=[table for each in found for table in retrieval.tables(each, f"{each.file}: " if several else "")],
        plots=retrieval.plots(found),
        ends=["[Measure it on your data](../how-to/measure.md): `cofio eval retrieval FILE`."],
    )


def tuned(files: Sequence[Path]) -> list[str]:
    """Return a sentence for each file on whether it was used for tuning."""
    said = []
    for file in files:
        if file.stem.endswith(TUNED_ON):
            said.append(
                f"{file.name} is the development file: the weights of the search and the least score of recall were"
                " chosen on it. Expect somewhat less on data that chose nothing."
            )
        else:
            said.append(f"Nothing was chosen on {file.name}.")
    return said


class _Told:
    """Progress on stderr, at every tenth."""

    def __init__(self, file: Path) -> None:
        self._name = file.name
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        if (tenths := 10 * done // total) > self._told:
            self._told = tenths
            print(f"{self._name}: {10 * tenths} %", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
