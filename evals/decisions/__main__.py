"""Decisions on labelled pairs, with plots of the duplicates found: docs/results/decisions.md.

    python -m evals.decisions FILE... [--sample N] [--write FOLDER]

One JSON object per line has two facts, with the label `duplicate`, `contradiction`, `related` or `unrelated`; or an
earlier and a later message of one person, with the relation `update` or `contradiction`; or a memory, a statement, and
the label `add`, `same`, `update` or `delete`. A configured language model is measured on the same pairs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.decisions import measure
from evals.decisions.duplicates import OPERATIONS
from evals.plots import COLOURS, Curve, linear

MAX_LEAK = 0.25  # right limit of the plots


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="pairs, one JSON object per line")
    parser.add_argument("--sample", type=int, metavar="N", help="sample size: pairs per file")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    options = parser.parse_args()
    report = measure.evaluate(options.files, sample=options.sample)
    report = replace(report, plots=plot_duplicates(report.values["duplicates"]))
    print(report.text())
    for path in report.write(options.write) if options.write else ():
        print(f"Wrote {path}.")
    return 0


def plot_duplicates(figures_by_set: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return one plot per set: duplicates found against contradictions accepted."""
    return {
        "duplicates-" + re.sub(r"[^\w-]+", "-", name): _plot(name, figures) for name, figures in figures_by_set.items()
    }


def _plot(name: str, figures: Mapping[str, Any]) -> str:
    curves = []
    for colour, score, label in ((COLOURS[7], "cosine", "cosine only"), (COLOURS[0], "checked", "cofio's check")):
        points = [(point["leak"], point["recall"]) for point in figures["curve"][score] if point["leak"] <= MAX_LEAK]
        curves.append(Curve(label, colour, list(dict.fromkeys(points)), dashed=score == "cosine"))
    for colour, (operation, label) in zip(COLOURS[1:], OPERATIONS.items(), strict=False):
        recall, leak = figures["defaults"][operation]["recall"], figures["defaults"][operation]["leak"]
        if recall and leak and leak["value"] <= MAX_LEAK:
            curves.append(Curve(label, colour, [(leak["value"], recall["value"])]))
    title = f"Duplicates found by contradictions accepted: {name}"
    return linear(title, "contradictions accepted", "duplicates found", curves, within=(0.0, MAX_LEAK, 0.0, 1.0))


if __name__ == "__main__":
    sys.exit(main())
