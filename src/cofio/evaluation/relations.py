"""Relation of a statement to a stored memory: the comparer's decision against an author's label.

    {"memory", "said", "label"} ─ JudgedComparer ─▶ verdict after the guards ─┐
                                ─ judge.relation ─▶ raw probability ──────────┴─▶ Report, by author

A doubtful verdict counts as `add`: both memories are kept. Every statement is also compared with an unrelated memory
of the same author, as reconciliation does with the nearest memories of a store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.evaluation.authors import named, read, text_of
from cofio.evaluation.metrics import SEED, Figure, found_at, interval, macro_f1, of_label
from cofio.evaluation.report import Cell, Column, Report, Table
from cofio.ingest.reconcile.compare import Comparer, JudgedComparer
from cofio.judgement.labels import RELATIONS
from cofio.judgement.model import LocalJudge
from cofio.ports import Judge
from cofio.text.tokens import search_terms

RATES = (0.01, 0.02, 0.05)  # share of the `add` rows that would be overwritten
CHANGES = ("update", "delete")
SHAPE = 'Give one JSON object per line: {"memory", "said", "label"}; the label is add, same, update or delete.'
_GIVEN = (*RELATIONS, "doubtful")
_DRAWN = 12  # memories drawn to find one that shares no content word


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Memory with a later statement, and the effect of the statement on it."""

    memory: str
    said: str
    label: str
    case: str = ""


@dataclass(frozen=True, slots=True)
class RelationOutcome:
    """Verdict of the comparer on a pair, and the raw probability that the memory no longer holds."""

    pair: LabelledPair
    verdict: str
    change: float = 0.0
    overwrites_unrelated: bool | None = None  # None without an unrelated memory

    @property
    def given(self) -> str:
        """Return the label that corresponds to the verdict."""
        return "add" if self.verdict == "doubtful" else self.verdict

    @property
    def changes(self) -> bool:
        return self.given in CHANGES


def read_pairs(paths: Sequence[Path]) -> dict[str, list[LabelledPair]]:
    """Return the pairs of files and folders, by author."""
    return read(paths, _parse_pair, SHAPE)


def evaluate(
    paths: Sequence[Path],
    *,
    judge: Judge | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Compare every pair and report the decisions, by author."""
    pairs = read_pairs(paths)
    judge = judge or LocalJudge()
    comparer = JudgedComparer(judge)
    count, done = sum(map(len, pairs.values())), 0
    outcomes: dict[str, list[RelationOutcome]] = {}
    for author, rows in pairs.items():
        outcomes[author] = []
        for pair, unrelated in zip(rows, _draw_unrelated(rows), strict=True):
            change = judge.relation(pair.said, pair.memory).change
            overwrites = comparer.compare(pair.said, unrelated, 0.0).changes if unrelated else None
            outcomes[author].append(RelationOutcome(pair, _compare(comparer, pair), change, overwrites))
            done += 1
            progress(done, count)
    return _report(paths, outcomes)


def decided(pairs: Sequence[LabelledPair], comparer: Comparer, cosines: Sequence[float]) -> list[RelationOutcome]:
    """Return the verdicts of a comparer on the pairs; `cosines` are those of statement and memory."""
    return [
        RelationOutcome(pair, _compare(comparer, pair, cosine)) for pair, cosine in zip(pairs, cosines, strict=True)
    ]


def _draw_unrelated(pairs: Sequence[LabelledPair]) -> list[str]:
    """Return, for each pair, a memory of the same file that shares no content word with it; "" if none is drawn."""
    rng = random.Random(SEED)  # noqa: S311
    memories = {pair.memory: frozenset(search_terms(pair.memory)) for pair in pairs}
    unrelated = []
    for pair in pairs:
        words = memories[pair.memory] | set(search_terms(pair.said))
        candidates = rng.sample(sorted(memories), min(_DRAWN, len(memories)))
        unrelated.append(next((memory for memory in candidates if not memories[memory] & words), ""))
    return unrelated


def _compare(comparer: Comparer, pair: LabelledPair, cosine: float = 0.0) -> str:
    return comparer.compare(pair.said, pair.memory, cosine).kind


def _parse_pair(plain: dict[str, Any]) -> LabelledPair:
    label = plain["label"]
    if label not in RELATIONS:
        raise ValueError(f"the label is {label!r}")
    return LabelledPair(text_of(plain, "memory"), text_of(plain, "said"), label, str(plain.get("case") or ""))


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RelationFigures:
    """Figures of some pairs."""

    pairs: int
    macro_f1: float
    changes_found: Figure | None  # of the rows labelled update or delete, with either of the two as decision
    false_overwrites: Figure | None  # of the rows labelled add
    unrelated_overwrites: Figure | None  # of the statements, compared with an unrelated memory
    doubtful: float
    at: Mapping[float, tuple[float | None, float | None]]  # by rate: changes found and the threshold of the probability

    @classmethod
    def of(cls, outcomes: Sequence[RelationOutcome]) -> RelationFigures:
        """Return the figures of outcomes."""
        changes = [outcome for outcome in outcomes if outcome.pair.label in CHANGES]
        adds = [outcome for outcome in outcomes if outcome.pair.label == "add"]
        unrelated = [outcome.overwrites_unrelated for outcome in outcomes if outcome.overwrites_unrelated is not None]
        raw = [change.change for change in changes], [add.change for add in adds]
        return cls(
            pairs=len(outcomes),
            macro_f1=macro_f1([outcome.pair.label for outcome in outcomes], [outcome.given for outcome in outcomes]),
            changes_found=_compute_share(changes),
            false_overwrites=_compute_share(adds),
            unrelated_overwrites=interval([float(flag) for flag in unrelated]) if unrelated else None,
            doubtful=sum(outcome.verdict == "doubtful" for outcome in outcomes) / len(outcomes),
            at={rate: found_at(*raw, rate) for rate in RATES},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "pairs": self.pairs,
            "macro_f1": self.macro_f1,
            "changes_found": self.changes_found and self.changes_found.as_dict(),
            "false_overwrites": self.false_overwrites and self.false_overwrites.as_dict(),
            "unrelated_overwrites": self.unrelated_overwrites and self.unrelated_overwrites.as_dict(),
            "doubtful": self.doubtful,
            "at": {f"{rate:.0%}": {"found": share, "threshold": limit} for rate, (share, limit) in self.at.items()},
        }


def _compute_share(outcomes: Sequence[RelationOutcome]) -> Figure | None:
    return interval([float(outcome.changes) for outcome in outcomes]) if outcomes else None


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(paths: Sequence[Path], by_author: Mapping[str, Sequence[RelationOutcome]]) -> Report:
    outcomes = [row for rows in by_author.values() for row in rows]
    whole, each_author = (
        RelationFigures.of(outcomes),
        {author: RelationFigures.of(rows) for author, rows in by_author.items()},
    )
    labels = _rate_labels(outcomes)
    confusion = Counter((outcome.pair.label, outcome.verdict) for outcome in outcomes)
    cases = _rate_cases(outcomes)
    values: dict[str, Any] = {
        **whole.as_dict(),
        "labels": labels,
        "confusion": {
            expected: {verdict: confusion[expected, verdict] for verdict in _GIVEN} for expected in RELATIONS
        },
        "by_author": {author: figures.as_dict() for author, figures in each_author.items()},
        "by_case": cases,
        "per_pair": {author: [row.verdict for row in rows] for author, rows in by_author.items()},
    }
    tables = [
        _author_table({**each_author, **({"all": whole} if len(each_author) > 1 else {})}),
        Table(
            "Labels",
            (Column("label"), Column("pairs"), *(Column(name, "%") for name in ("precision", "recall", "F1"))),
            [[label, *figures.values()] for label, figures in labels.items()],
        ),
        Table(
            "Verdicts",
            (Column("label"), *(Column(verdict) for verdict in _GIVEN)),
            [[expected, *(confusion[expected, verdict] for verdict in _GIVEN)] for expected in RELATIONS],
        ),
        *_case_tables(cases),
    ]
    says = (
        f"{len(outcomes):,} pairs of {len(by_author)} authors: a stored memory and what was said later. The decision"
        " is that of the comparer at the shipped thresholds, after the guards. A doubtful verdict counts as add, since"
        " both memories are kept.",
    )
    return Report("pairs", "Statements beside a memory", f"cofio eval pairs {named(paths)}", says, values, tables)


def _rate_labels(outcomes: Sequence[RelationOutcome]) -> dict[str, dict[str, Any]]:
    expected, actual = [outcome.pair.label for outcome in outcomes], [outcome.given for outcome in outcomes]
    figures = {}
    for label in RELATIONS:
        precision, recalled, harmonic = of_label(expected, actual, label)
        figures[label] = {"pairs": expected.count(label), "precision": precision, "recall": recalled, "f1": harmonic}
    return figures


def _rate_cases(outcomes: Sequence[RelationOutcome]) -> dict[str, dict[str, Any]]:
    counts = Counter(outcome.pair.case for outcome in outcomes if outcome.pair.case)
    right = Counter(outcome.pair.case for outcome in outcomes if outcome.given == outcome.pair.label)
    return {case: {"pairs": count, "right": right[case] / count} for case, count in counts.most_common()}


def _author_table(figures: Mapping[str, RelationFigures]) -> Table:
    rows: list[list[Cell]] = [
        [
            author,
            result.pairs,
            result.macro_f1,
            result.changes_found,
            result.false_overwrites,
            result.unrelated_overwrites,
            result.doubtful,
            *(share for share, _ in result.at.values()),
        ]
        for author, result in figures.items()
    ]
    columns = (
        Column("author"),
        Column("pairs"),
        Column("macro-F1", "%"),
        Column("changes found", "%"),
        Column("false overwrites", "%"),
        Column("of unrelated", "%"),
        Column("doubtful", "%"),
        *(Column(f"found at {rate:.0%}", "%") for rate in RATES),
    )
    note = (
        "Changes are rows labelled update or delete. A false overwrite is a row labelled add whose memory would be"
        " archived; of unrelated: the same, for the statement and a memory that shares no content word with it. The"
        " last columns use the raw probability of a change, at the threshold that this share of the add rows exceeds."
    )
    return Table("By author", columns, rows, note)


def _case_tables(cases: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    if not cases:
        return []
    rows: list[list[Cell]] = [[case, counts["pairs"], counts["right"]] for case, counts in cases.items()]
    return [Table("By case", (Column("case"), Column("pairs"), Column("label right", "%")), rows)]
