"""Relation of a statement to a stored memory: the comparer's decision against an author's label.

    {"memory", "said", "label"} ─ JudgedComparer ─▶ verdict after the guards ─┐
                                ─ judge.relation ─▶ raw probability ──────────┴─▶ Report, by author

A doubtful verdict counts as `add`: both memories are kept. Every statement is also compared with an unrelated memory
of the same author, as reconciliation does with the nearest memories of a store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.ingest.reconcile.compare import Comparer, JudgedComparer
from cofio.judgement.labels import RELATIONS
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.ports import Judge
from cofio.text.tokens import search_terms
from cofio_eval import authors
from cofio_eval.jsonl import read_authors, text_of
from cofio_eval.metrics import SEED, macro_f1, of_label, rate, share_at
from cofio_eval.report import Column, Report, Table

RATES = (0.01, 0.02, 0.05)  # share of the `add` rows that would be overwritten
CHANGES = ("update", "delete")
SHAPE = 'Give one JSON object per line: {"memory", "said", "label"}; the label is add, same, update or delete.'
_VERDICTS = (*RELATIONS, "doubtful")
_DRAWN = 12  # memories drawn to find one that shares no content word


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Memory with a later statement, and the effect of the statement on it."""

    memory: str
    statement: str
    label: str
    case: str = ""


@dataclass(frozen=True, slots=True)
class RelationOutcome:
    """Verdict of the comparer on a pair, and the raw probability that the memory no longer holds."""

    pair: LabelledPair
    verdict: str
    probability: float = 0.0
    overwrites_unrelated: bool | None = None  # None without an unrelated memory

    @property
    def label(self) -> str:
        """Return the label that corresponds to the verdict."""
        return "add" if self.verdict == "doubtful" else self.verdict

    @property
    def is_right(self) -> bool:
        return self.label == self.pair.label


def read_pairs(paths: Sequence[Path]) -> dict[str, list[LabelledPair]]:
    """Return the pairs of files and folders, by author."""
    return read_authors(paths, _parse_pair, "pair", SHAPE)


def evaluate(
    paths: Sequence[Path], *, judge: Judge | None = None, progress: authors.Progress = lambda *_: None
) -> Report:
    """Compare every pair and report the decisions, by author."""
    judge = judge or LocalJudge()
    comparer = JudgedComparer(judge)

    def run(pairs: Sequence[LabelledPair]) -> Iterator[RelationOutcome]:
        for pair, unrelated in zip(pairs, _draw_unrelated(pairs), strict=True):
            probability = judge.relation(pair.statement, pair.memory).change
            overwrites = comparer.compare(pair.statement, unrelated, 0.0).changes if unrelated else None
            yield RelationOutcome(pair, _compare(comparer, pair), probability, overwrites)

    return _report(paths, authors.measure(read_pairs(paths), run, progress))


def decide(pairs: Sequence[LabelledPair], comparer: Comparer, cosines: Sequence[float]) -> list[RelationOutcome]:
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
        words = memories[pair.memory] | set(search_terms(pair.statement))
        candidates = rng.sample(sorted(memories), min(_DRAWN, len(memories)))
        unrelated.append(next((memory for memory in candidates if not memories[memory] & words), ""))
    return unrelated


def _compare(comparer: Comparer, pair: LabelledPair, cosine: float = 0.0) -> str:
    return comparer.compare(pair.statement, pair.memory, cosine).kind


def _parse_pair(plain: dict[str, Any], _number: int) -> LabelledPair:
    label = plain["label"]
    if label not in RELATIONS:
        raise ValueError(f"the label is {label!r}")
    return LabelledPair(text_of(plain, "memory"), text_of(plain, "said"), label, str(plain.get("case") or ""))


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def compute_figures(outcomes: Sequence[RelationOutcome]) -> dict[str, Any]:
    """Return the figures of some pairs.

    A change is found, or a memory overwritten, if the decision is update or delete; by probability: from a threshold on
    that a share of the `add` rows exceeds.
    """
    changes = [outcome for outcome in outcomes if outcome.pair.label in CHANGES]
    adds = [outcome for outcome in outcomes if outcome.pair.label == "add"]
    unrelated = [outcome.overwrites_unrelated for outcome in outcomes if outcome.overwrites_unrelated is not None]
    return {
        "pairs": len(outcomes),
        "macro_f1": macro_f1([outcome.pair.label for outcome in outcomes], [outcome.label for outcome in outcomes]),
        "changes_found": rate(outcome.label in CHANGES for outcome in changes),
        "false_overwrites": rate(outcome.label in CHANGES for outcome in adds),
        "unrelated_overwrites": rate(unrelated),
        "doubtful": sum(outcome.verdict == "doubtful" for outcome in outcomes) / len(outcomes),
        "at": share_at([one.probability for one in changes], [one.probability for one in adds], RATES),
    }


def _rate_labels(outcomes: Sequence[RelationOutcome]) -> dict[str, dict[str, Any]]:
    expected, actual = [outcome.pair.label for outcome in outcomes], [outcome.label for outcome in outcomes]
    names = ("precision", "recall", "f1")
    return {
        label: {
            "pairs": expected.count(label),
            **dict(zip(names, of_label(expected, actual, label), strict=True)),
        }
        for label in RELATIONS
    }


def _rate_cases(outcomes: Sequence[RelationOutcome]) -> dict[str, dict[str, Any]]:
    counts = Counter(outcome.pair.case for outcome in outcomes if outcome.pair.case)
    right = Counter(outcome.pair.case for outcome in outcomes if outcome.is_right)
    return {case: {"pairs": count, "right": right[case] / count} for case, count in counts.most_common()}


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(paths: Sequence[Path], by_author: dict[str, list[RelationOutcome]]) -> Report:
    outcomes = [row for rows in by_author.values() for row in rows]
    confusion = Counter((outcome.pair.label, outcome.verdict) for outcome in outcomes)
    values = authors.compute_values(by_author, compute_figures) | {
        "labels": _rate_labels(outcomes),
        "confusion": {
            expected: {verdict: confusion[expected, verdict] for verdict in _VERDICTS} for expected in RELATIONS
        },
        "by_case": _rate_cases(outcomes),
        "per_pair": {author: [row.verdict for row in rows] for author, rows in by_author.items()},
    }
    says = (
        f"{len(outcomes):,} pairs by {len(by_author)} authors: a stored memory and a later statement. The decision is"
        " that of the comparison model at its default thresholds, after the safety rules. A doubtful verdict counts"
        " as add, since both memories are kept.",
    )
    tables = [
        authors.author_table(values, _COLUMNS, _NOTE),
        Table.of("Labels", "label", _LABEL_COLUMNS, values["labels"]),
        Table.of("Verdicts", "label", {verdict: Column(verdict) for verdict in _VERDICTS}, values["confusion"]),
    ]
    if values["by_case"]:
        tables.append(Table.of("By case", "case", _CASE_COLUMNS, values["by_case"]))
    return Report(
        "pairs", "Relation of a statement to a memory", authors.write_command("pairs", paths), says, values, tables
    )


_COLUMNS = {
    "pairs": Column("pairs"),
    "macro_f1": Column("macro-F1", "%"),
    "changes_found": Column("recall of changes", "%"),
    "false_overwrites": Column("false overwrites", "%"),
    "unrelated_overwrites": Column("overwrites of unrelated", "%"),
    "doubtful": Column("doubtful", "%"),
    **{f"at/{rate:.0%}/found": Column(f"recall at {rate:.0%} FPR", "%") for rate in RATES},
}
_LABEL_COLUMNS = {
    "pairs": Column("pairs"), "precision": Column("precision", "%"), "recall": Column("recall", "%"),
    "f1": Column("F1", "%"),
}  # fmt: skip
_CASE_COLUMNS = {"pairs": Column("pairs"), "right": Column("accuracy", "%")}
_NOTE = (
    "Changes are rows labelled update or delete. A false overwrite is a row labelled add whose memory would be"
    " archived; overwrites of unrelated: the same for the statement and a memory without a content word in common."
    " “Recall at 1% FPR” is the share of changes above the threshold of the raw probability that 1% of the add rows"
    " exceed."
)
