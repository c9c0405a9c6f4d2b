"""Compares the judge's ranking of units with a classifier of words: `cofio eval extraction` with one more ranking.

    python -m evals.extraction FILE [--write FOLDER] [--json OUT]

The classifier weighs words and pairs of words by logistic regression. It is fitted to all conversations of FILE but
one, and scores that one; so for each.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cofio.errors import CofioError
from cofio.evaluation import extraction
from cofio.evaluation.conversations import read
from cofio.evaluation.extraction import Unit
from cofio.evaluation.report import Report

Numbers: TypeAlias = npt.NDArray[np.float64]

CLASSIFIER = "tf-idf classifier"
_FITTED = (
    "The classifier was fitted to the other conversations of the file and scores the one that is left. The judgement"
    " model was not trained on conversations of this file."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables on stdout; 2 when the file is not there or holds something else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE", help="conversations, one JSON object a line")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    options = parser.parse_args(arguments)
    try:
        report = evaluated(options.file)
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    print(report.text())
    if options.write:
        report.write(options.write)
    if options.json:
        options.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    return 0


def evaluated(file: Path) -> Report:
    """Return the report on this file, with the classifier beside; without it where there is one conversation only."""
    units = extraction.units_of(read(file))
    command = f"python -m evals.extraction {file.name}"
    if len({each.conversation for each in units}) == 1:
        return replace(extraction.evaluate(file), command=command)
    report = extraction.evaluate(file, beside={CLASSIFIER: classified(units)})
    return replace(report, command=command, says=(*report.says, _FITTED))


# ── a classifier of words ─────────────────────────────────────────────────────────────────────────────────────────────

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_SELDOM = 2  # texts: a word of fewer is left out
_PULL = 0.3  # of the weights to 0; the best of 0.3, 1 and 3 on the development file, which favours the baseline


def classified(units: Sequence[Unit]) -> list[float]:
    """The score of each unit, by a classifier of words that was fitted to the other conversations."""
    scores = np.zeros(len(units))
    for own, others in _each_apart(units):
        words = _Words.of(units[place].text for place in others)
        known = words.matrix(units[place].text for place in others)
        weights, bias = _logistic(known, np.array([units[place].evidence for place in others], float))
        scores[own] = words.matrix(units[place].text for place in own) @ weights + bias
    return [float(each) for each in scores]


def _each_apart(units: Sequence[Unit]) -> Iterable[tuple[list[int], list[int]]]:
    """For each conversation the places of its units, and those of all others."""
    for name in dict.fromkeys(each.conversation for each in units):
        own = [place for place, each in enumerate(units) if each.conversation == name]
        yield own, [place for place, each in enumerate(units) if each.conversation != name]


class _Words:
    """The words and pairs of words of some texts, and how telling each is: the fewer texts have it, the more."""

    def __init__(self, counted: Counter[str], texts: int) -> None:
        kept = [word for word, count in counted.items() if count >= _SELDOM]
        self._places = {word: place for place, word in enumerate(kept)}
        self._telling = np.array([np.log((1 + texts) / (1 + counted[word])) + 1 for word in kept])

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Words:
        held = [set(_terms(text)) for text in texts]
        return cls(Counter(word for each in held for word in sorted(each)), len(held))

    def matrix(self, texts: Iterable[str]) -> Numbers:
        """A row a text, each of length 1."""
        rows = []
        for text in texts:
            row = np.zeros(len(self._places))
            for word, count in Counter(_terms(text)).items():
                if word in self._places:
                    row[self._places[word]] = np.log1p(count)
            row *= self._telling
            rows.append(row / (np.linalg.norm(row) or 1.0))
        return np.array(rows)


def _terms(text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text.replace("’", "'"))]
    return [*words, *map(" ".join, pairwise(words))]


def _logistic(rows: Numbers, kept: Numbers, *, rounds: int = 30) -> tuple[Numbers, float]:
    """Weights and bias of a logistic regression with a pull to 0, by Newton's method on its dual: texts are fewer."""
    alike, size = rows @ rows.T, len(rows)
    share, bias = np.zeros(size), 0.0
    for _ in range(rounds):
        odds = alike @ share + bias
        chance = 1 / (1 + np.exp(-odds))
        sure = chance * (1 - chance) + 1e-9
        system = np.ones((size + 1, size + 1))
        system[:size, :size] = alike + np.diag(_PULL / sure)
        system[size, size] = 0.0
        solved = np.linalg.solve(system, np.append(odds + (kept - chance) / sure, 0.0))
        moved = float(np.abs(solved[:size] - share).max())
        share, bias = solved[:size], float(solved[size])
        if moved < 1e-6:
            break
    return rows.T @ share, bias


if __name__ == "__main__":
    sys.exit(main())
