"""Results of cofio on the labelled turns: `python -m evals.turns [FILE] [--split dev] [--write docs/results]`.

Takes about a minute. If EXTRACT_PROVIDER is set, that model is measured too, which takes longer.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from evals.turns import measure
from evals.turns.labels import SPLITS

FILE = Path(__file__).with_name("turns.jsonl")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--split", choices=SPLITS, default="")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    report = measure.evaluate(options.file, split=options.split)
    report = replace(report, command="python -m evals.turns")
    print(report.text())
    for path in report.write(options.write) if options.write else ():
        print(f"Wrote {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
