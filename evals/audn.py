"""Whether a fact is new, known or a correction, told without a model: measured against what should become of it.

    python -m evals.audn [--pairs FILE ...] [--json]

The grid is made by `evals.grid`, once from the words that the rules were written with in view and once from words that
were held out. Each case is judged alone, and a sample of them by `rules.settle` on a real store that holds base facts
of every second topic.

FILEs hold labelled pairs, one JSON object a line: {"a", "b", "label"} with the labels duplicate, contradiction, related
and unrelated, or {"old", "new", "relation"} with the relations update and contradiction.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from cofio import embedders
from cofio.model import Add, Fact, Noop, Update
from cofio.ports import Embedder, Vector
from cofio.reconcile import rules
from cofio.relation import between
from cofio.settings import Settings
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock
from evals import grid
from evals.grid import OUTCOMES, SEED, Case, Outcome, Said
from evals.held_out import HELD_OUT
from evals.more_vocabulary import FIFTH, FOURTH, THIRD
from evals.vocabulary import FIRST, SECOND, Vocabulary

IN_VIEW = (FIRST, SECOND, THIRD, FOURTH, FIFTH)
SAMPLE = 600  # cases that go through the store
#: Not those that are about two topics, or say of an attribute what it cannot be: alone they are known to be apart.
_AMBIGUOUS = ("preference", "other attribute")
_KINDS: dict[str, Outcome] = {"same": "noop", "update": "update", "different": "add"}
_LABELS: dict[str, Outcome] = {
    "duplicate": "noop",
    "contradiction": "update",
    "update": "update",
    "related": "add",
    "unrelated": "add",
}


class Judged(NamedTuple):
    """What should have become of a fact, and what did. `astray`: what was done was done to another memory."""

    expected: Outcome
    decided: Outcome
    label: str
    astray: bool = False


class Rate(NamedTuple):
    """So many of so many, with the 95 % interval by Wilson."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        if not self.of:
            return 0.0, 1.0
        z, n, p = 1.96, self.of, self.share
        middle, width = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (middle - width) / (1 + z * z / n)), min(1.0, (middle + width) / (1 + z * z / n))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.share:6.2f} %  [{100 * low:.2f}, {100 * high:.2f}]  ({self.hits} of {self.of})"


def main() -> int:
    """The tables on stdout; 2 when data that was asked for is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=Path, nargs="*", default=[], help="labelled pairs, one JSON object a line")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    missing = [path for path in options.pairs if not path.exists()]
    if missing:
        print(f"There is no {missing[0]}. Give files of labelled pairs, or none.", file=sys.stderr)
        return 2
    near = Nearness(embedders.make("local", home=Settings.load().home))
    tables = dict(measured(near, options.pairs))
    print(json.dumps(tables, indent=2) if options.json else "\n\n".join(map(shown, tables.values())))
    if not options.pairs:
        print("No labelled pairs were given (--pairs FILE), so only the grid was measured.", file=sys.stderr)
    return 0


def measured(near: Nearness, files: Sequence[Path]) -> Iterable[tuple[str, dict[str, Any]]]:
    """The figures by what was measured."""
    for name, vocabularies in (("words in view", IN_VIEW), ("words held out", (HELD_OUT,))):
        alone = [each for vocabulary in vocabularies for each in judged(grid.cases(vocabulary), near)]
        yield name, figures(f"Grid, {name}: each pair alone", alone)
        stored = [each for vocabulary in vocabularies for each in settled(vocabulary, near, SAMPLE)]
        yield f"{name}, store", figures(f"Grid, {name}: through a store", stored)
    for path in files:
        yield path.name, figures(path.name, labelled(path, near))


# ── judging ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Nearness:
    """The vectors of texts, each embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vector] = {}

    def vectors(self, texts: Iterable[str]) -> list[Vector]:
        wanted = list(texts)
        missing = sorted(set(wanted) - self._known.keys())
        if missing:
            self._known.update(zip(missing, self._embedder.embed(missing, "document"), strict=True))
        return [self._known[text] for text in wanted]

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.vectors(text for pair in pairs for text in pair)
        return [float(one @ other) for one, other in map(self.vectors, pairs)]


def judged(cases: Sequence[Case], near: Nearness) -> list[Judged]:
    """Each case by what the new text is to the old one."""
    cosines = near.cosines([(case.new.text, case.old.text) for case in cases])
    return [
        Judged(case.expected, _KINDS[between(case.new.text, case.old.text, cosine).kind], case.what)
        for case, cosine in zip(cases, cosines, strict=True)
    ]


def settled(vocabulary: Vocabulary, near: Nearness, sample: int) -> list[Judged]:
    """A sample of the cases, each by what `rules.settle` makes of it on a store with a fact of every second topic."""
    rng, cases = random.Random(SEED), grid.cases(vocabulary)
    topics = {case.old.topic: case.old for case in reversed(cases) if "preference" not in case.what}
    bases = {topic: topics[topic] for topic in rng.sample(sorted(topics), len(topics) // 2)}
    clear = [case for case in cases if not any(each in case.what for each in _AMBIGUOUS)]
    chosen = rng.sample(clear, min(sample, len(clear)))
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "eval.db", FixedClock())
        facts = [Fact(text=said.text) for said in bases.values()]
        vectors = dict(enumerate(near.vectors(fact.text for fact in facts)))
        done = store.apply([Add(fact) for fact in facts], vectors, by="eval", why="grid")
        ids = dict(zip(bases, (change.memory_id for change in done.changes), strict=True))
        found = [_settled(case, bases, ids, store, near) for case in chosen]
        store.close()
    return found


def _settled(case: Case, bases: dict[str, Said], ids: dict[str, int], store: SqliteStore, near: Nearness) -> Judged:
    base = bases.get(case.new.topic)
    expected: Outcome = "add" if base is None else "noop" if base.value == case.new.value else "update"
    matrix = near.vectors([case.new.text])[0].reshape(1, -1)
    decision = rules.settle([Fact(text=case.new.text)], matrix, store)[0].decision
    decided: Outcome = "noop" if isinstance(decision, Noop) else "update" if isinstance(decision, Update) else "add"
    touched = decision.id if isinstance(decision, Noop | Update) else None
    return Judged(expected, decided, case.what, touched is not None and touched != ids.get(case.new.topic))


def labelled(path: Path, near: Nearness) -> list[Judged]:
    """Every pair of the file, judged alone: what comes later is the new one."""
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = [(pair.get("new", pair.get("b")), pair.get("old", pair.get("a"))) for pair in pairs]
    labels = [pair.get("label") or pair["relation"] for pair in pairs]
    return [
        Judged(_LABELS[label], _KINDS[between(new, old, cosine).kind], label)
        for label, (new, old), cosine in zip(labels, texts, near.cosines(texts), strict=True)
    ]


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def rates(found: Sequence[Judged]) -> dict[str, Rate]:
    """How often what must not happen happened, and how often a repetition was told for one."""

    def rate(of: set[str], decided: set[str], *, astray: bool) -> Rate:
        meant = [each for each in found if each.expected in of]
        return Rate(sum(each.decided in decided or (astray and each.astray) for each in meant), len(meant))

    return {
        "false merges": rate({"update", "add"}, {"noop"}, astray=False),
        "false overwrites": rate({"add"}, {"update"}, astray=False),
        "lost updates": rate({"update"}, {"noop", "add"}, astray=True),
        "duplicate recall": rate({"noop"}, {"noop"}, astray=False),
        "astray": Rate(sum(each.astray for each in found), len(found)),
    }


def figures(title: str, found: Sequence[Judged]) -> dict[str, Any]:
    """The confusion matrix and the rates, as plain values."""
    matrix = Counter((each.expected, each.decided) for each in found)
    wrong = Counter((each.label, each.expected, each.decided) for each in found if each.expected != each.decided)
    labels = Counter(each.label for each in found)
    return {
        "title": title,
        "cases": len(found),
        "matrix": {each: {other: matrix[each, other] for other in OUTCOMES} for each in OUTCOMES},
        "rates": {
            name: {"share": rate.share, "interval": rate.interval, "count": rate.hits, "of": rate.of}
            for name, rate in rates(found).items()
        },
        "wrong": [
            {"case": label, "expected": expected, "decided": decided, "count": count, "of": labels[label]}
            for (label, expected, decided), count in wrong.most_common(12)
        ],
    }


def shown(table: dict[str, Any]) -> str:
    """The figures as text."""
    lines = [
        f"{table['title']} ({table['cases']} cases)",
        "  expected    " + "".join(f"{each:>8}" for each in OUTCOMES),
    ]
    lines += [
        f"  {expected:<12}" + "".join(f"{table['matrix'][expected][decided]:8}" for decided in OUTCOMES)
        for expected in OUTCOMES
    ]
    lines += [f"  {name:<18}{Rate(each['count'], each['of'])}" for name, each in table["rates"].items() if each["of"]]
    lines += [
        f"    {each['count']:4} of {each['of']:4}  {each['case']}: {each['expected']} decided {each['decided']}"
        for each in table["wrong"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
