"""Whether what is said is new, known or a correction, and what passes for a duplicate: on made facts and on pairs.

    python -m evals.decisions [FILE ...] [--model] [--sample N] [--write FOLDER] [--json]

The made facts are those of `evals.grid`, once from the words that the rules were written with in view and once from
words that were held out; each is met by a keeper that knows the old fact and others of the same words. FILEs hold
labelled pairs, one JSON object a line: {"a", "b", "label"} or {"old", "new", "relation"}.

With --model, the model that the settings name decides too, on the same cases; --sample takes so many of each set.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cofio.errors import CofioError
from cofio.evaluation import decisions
from cofio.evaluation.measures import SEED
from cofio.evaluation.pairs import BESIDE, Action, Cases, read
from cofio.evaluation.pairs import Case as Judged
from cofio.evaluation.report import Report
from cofio.settings import Settings
from evals import grid
from evals.held_out import HELD_OUT
from evals.more_vocabulary import FIFTH, FOURTH, THIRD
from evals.vocabulary import FIRST, SECOND, Vocabulary

IN_VIEW = (FIRST, SECOND, THIRD, FOURTH, FIFTH)
OF_EACH = 400  # cases of each vocabulary in view; of the words held out, all
_GIVEN_UP = re.compile(r"\bno longer\b|\banymore\b")
_SORT = re.compile(r" \(\d\)$")


def main(given: Sequence[str] | None = None) -> int:
    """The report on stdout; 2 when what was asked for is not there."""
    options = _options(given)
    settings = Settings.load()
    if options.model and not settings.extract_provider:
        print("No model is set. Set EXTRACT_PROVIDER, and EXTRACT_MODEL where it takes one.", file=sys.stderr)
        return 2
    if not options.model:
        settings = replace(settings, extract_provider="")
    try:
        sets = [*made(), *map(read, options.files)]
        report = decisions.reported(sets, settings, sample=options.sample, command=_command(options))
    except CofioError as error:
        print(f"{error.message} {error.hint}", file=sys.stderr)
        return 2
    print(json.dumps(report.as_dict(), indent=1) if options.json else report.text())
    for path in _brief(report).write(options.write) if options.write else ():
        print(f"Wrote {path}.", file=sys.stderr)
    return 0


def _brief(report: Report) -> Report:
    """The same without what became of each of ten thousand cases: `--json` has that."""
    return replace(report, values={name: value for name, value in report.values.items() if name != "per_case"})


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="labelled pairs, one JSON object a line")
    parser.add_argument("--model", action="store_true", help="let the model that the settings name decide too")
    parser.add_argument("--sample", type=int, metavar="N", help="so many cases of each set, always the same")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args(given)


def _command(options: argparse.Namespace) -> str:
    parts = ["python -m evals.decisions", *(path.name for path in options.files)]
    return " ".join([*parts, *["--model"] * options.model, *([f"--sample {options.sample}"] if options.sample else [])])


# ── made facts as cases ───────────────────────────────────────────────────────────────────────────────────────────────


def made(of_each: int = OF_EACH) -> list[Cases]:
    """The grid: so many cases of each vocabulary in view, and all of the words held out."""
    in_view = [
        case
        for number, vocabulary in enumerate(IN_VIEW, start=1)
        for case in _drawn(list(judged(vocabulary, str(number))), of_each)
    ]
    return [Cases("grid-in-view", tuple(in_view)), Cases("grid-held-out", tuple(judged(HELD_OUT, "held-out")))]


def judged(vocabulary: Vocabulary, name: str) -> Iterator[Judged]:
    """Every case of a vocabulary: the old fact among others that are about something else, and the new one."""
    rng, cases = random.Random(SEED), grid.cases(vocabulary)
    olds = {said.topic: said for said in (case.old for case in cases if "preference" not in case.what)}
    topics = sorted(olds)
    for number, case in enumerate(cases):
        about = {_SORT.sub("", said.topic) for said in (case.old, case.new)}
        drawn = rng.sample(topics, min(len(topics), 2 * BESIDE))
        beside = [olds[topic].text for topic in drawn if _SORT.sub("", topic) not in about][:BESIDE]
        yield Judged(f"{name}-{number}", (case.old.text, *beside), case.new.text, wanted(case), case.what)


def wanted(case: grid.Case) -> Action:
    """What should become of the new fact: where it only takes the old one back, that goes."""
    taken_back = not case.new.value or (case.new.value == "no" and _GIVEN_UP.search(case.new.text))
    return "delete" if case.expected == "update" and taken_back else case.expected


def _drawn(cases: Sequence[Judged], size: int) -> list[Judged]:
    kept = set(random.Random(SEED).sample(range(len(cases)), min(size, len(cases))))
    return [case for place, case in enumerate(cases) if place in kept]


if __name__ == "__main__":
    sys.exit(main())
