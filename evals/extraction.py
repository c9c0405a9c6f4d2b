"""What is kept without a model, beside a classifier of words, and how the weights of `cofio.worth` were found.

    python -m evals.extraction FILE [--turns TURNS] [--fit] [--write FOLDER] [--json OUT]

The same as `cofio eval extraction`, with two more rankings. Both are fitted to all conversations of FILE but one, and
score that one; so for each:

    worth, held out     the signals of `cofio.worth`, with weights that never saw what they judge
    tf-idf classifier   words and pairs of words, weighed by logistic regression: a plain baseline

The shipped weights are those of the first, fitted to every conversation of the development file and to the labelled
turns of the split "dev", and rounded to a decimal: `--fit` prints them. What was learned of the words of FILE is not
shipped.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cofio import worth
from cofio.errors import CofioError
from cofio.evaluation import extraction
from cofio.evaluation.conversations import read
from cofio.evaluation.extraction import Unit
from cofio.evaluation.report import Report

Numbers: TypeAlias = npt.NDArray[np.float64]
Said: TypeAlias = tuple[str, bool]  # a text, and whether it should be kept

TURNS = Path(__file__).parent / "turns" / "turns.jsonl"
HELD_OUT = "worth, held out"
CLASSIFIER = "tf-idf classifier"
_HELD_OUT = (
    "What is held out, and the classifier, were fitted to the other conversations of the file and score the one that is"
    " left. On the file that the shipped weights were fitted to, which is LoCoMo's conversations 26, 30 and 41, the row"
    " that was held out is the one to believe. The words of the signals were chosen by somebody who had read that file."
)
NAMES = tuple(name for name in worth.WEIGHTS if name != "assistant")  # that one is set by hand


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables on stdout; 2 when the file is not there or holds something else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE", help="conversations, one JSON object a line")
    parser.add_argument("--turns", type=Path, default=TURNS, help="labelled turns that weights are fitted to as well")
    parser.add_argument("--fit", action="store_true", help="print the weights that fit all of FILE, and stop")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    options = parser.parse_args(arguments)
    try:
        if options.fit:
            print(json.dumps(fitted_to(options.file, options.turns).rounded(), indent=1))
            return 0
        report = evaluated(options.file, options.turns)
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    print(report.text())
    if options.write:
        report.write(options.write)
    if options.json:
        options.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    return 0


def evaluated(file: Path, turns: Path = TURNS) -> Report:
    """The report on this file, with what is fitted to it beside; of a single conversation, without."""
    units = extraction.units_of(read(file))
    several = len({each.conversation for each in units}) > 1
    command = f"python -m evals.extraction {file.name}"
    if not several:
        return replace(extraction.evaluate(file), command=command)
    beside = {HELD_OUT: held_out(units, turns), CLASSIFIER: classified(units)}
    report = extraction.evaluate(file, beside=beside, against=HELD_OUT)
    return replace(report, command=command, says=(*report.says, _HELD_OUT))


# ── the weights of the signals ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Fitted:
    """Where every sentence starts, and the weights of the signals in the order of NAMES."""

    bias: float
    weights: Numbers

    def rounded(self) -> dict[str, float]:
        return {"": round(self.bias, 1)} | {
            name: round(float(weight), 1) for name, weight in zip(NAMES, self.weights, strict=True)
        }

    def score(self, text: str) -> float:
        """As `cofio.worth.worth` does it, with these weights."""
        odds = sorted(self.bias + _signals(text) @ self.weights, reverse=True)[: worth.BEST]
        return float(1.0 - np.exp(-np.log1p(np.exp(odds)).sum()))


def fitted_to(file: Path, turns: Path = TURNS) -> Fitted:
    """The weights that fit every conversation of the file, and the turns."""
    return fitted([(each.text, each.evidence) for each in extraction.units_of(read(file))] + labelled(turns))


def held_out(units: Sequence[Unit], turns: Path = TURNS) -> list[float]:
    """The worth of each unit, by weights that fit the other conversations and the turns."""
    more = labelled(turns)
    scores: dict[int, float] = {}
    for own, others in _each_apart(units):
        weights = fitted([(units[place].text, units[place].evidence) for place in others] + more)
        scores |= {place: weights.score(units[place].text) for place in own}
    return [scores[place] for place in range(len(units))]


def labelled(turns: Path) -> list[Said]:
    """The turns of the split "dev", and whether anything of them should be kept; none where there is no such file."""
    if not turns.exists():
        return []
    rows = [json.loads(line) for line in turns.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(row["text"], row["label"] != "skip") for row in rows if row.get("split") == "dev"]


def fitted(said: Sequence[Said], *, pull: float = 3.0, steps: int = 500) -> Fitted:
    """The weights with which a text is kept by the chance that at least one of its sentences matters.

    Which of the sentences it was is told by nobody: the likelihood is that of the whole text. Gradient descent with
    Adam, from the same start each time; `pull` draws the weights to 0.
    """
    sentences = [_signals(text) for text, _ in said]
    rows = np.vstack(sentences)
    text_of = np.repeat(np.arange(len(said)), [len(each) for each in sentences])
    kept = np.array([keep for _, keep in said])
    place = np.append(np.zeros(len(NAMES)), -3.0)
    pace, spread = np.zeros_like(place), np.zeros_like(place)
    for step in range(1, steps + 1):
        chance = 1 / (1 + np.exp(-(rows @ place[:-1] + place[-1])))
        none = np.bincount(text_of, np.log1p(-np.minimum(chance, 1 - 1e-9)), len(said))  # log of: no sentence matters
        slope = np.where(kept, np.exp(none) / np.maximum(1 - np.exp(none), 1e-9), -1.0)
        by_row = -slope[text_of] * chance
        gradient = np.append(rows.T @ by_row + pull * place[:-1], by_row.sum())
        pace, spread = 0.9 * pace + 0.1 * gradient, 0.999 * spread + 0.001 * gradient**2
        place -= 0.05 * (pace / (1 - 0.9**step)) / (np.sqrt(spread / (1 - 0.999**step)) + 1e-8)
    return Fitted(float(place[-1]), place[:-1])


def _signals(text: str) -> Numbers:
    """A row a sentence."""
    found = [worth.signals(part) for part in worth.parts(text)]
    rows: Numbers = np.array([[each.get(name, 0.0) for name in NAMES] for each in found], float)
    return rows.reshape(len(found), len(NAMES))


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
