"""Duplicate detection by cosine alone, compared with cofio's own check, which also compares the words.

For each pair one text is stored; the other is checked for novelty, added, and searched by deduplication. A good check
accepts duplicates and rejects contradictions: a contradiction taken for a duplicate is a lost correction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cofio.core import Keeper
from cofio.models.memory import Fact
from cofio_eval.metrics import DRAWS, SEED, Figure, rate
from cofio_eval.report import Cell, Column, Table
from evals.decisions.pairs import PairCase, PairCases

Holding: TypeAlias = Callable[[Sequence[tuple[str, str]]], AbstractContextManager[tuple[Keeper, list[int]]]]
_Row: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

LEAK = 0.05  # share of the contradictions
_AT_ONCE = 250  # pairs that share a store
_HALVINGS = 7  # bisection steps: to better than 0.01
_STEPS = tuple(step / 50 for step in range(1, 51))
#: Operations that detect duplicates, each at its default.
OPERATIONS = {"add": "add", "is_novel": "novelty check", "dedup": "deduplication"}


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Cosine of the two texts, and the operations that take them for one."""

    expected: str
    cosine: float
    check: float  # the highest threshold at which cofio's check takes them for one; 0 if there is none
    operations: frozenset[str]  # of WAYS


def compare(cases: PairCases, holding: Holding) -> list[DuplicatePair]:
    """Return the results for all pairs of facts; empty unless the set has duplicates and contradictions."""
    fact_cases = [case for case in cases.cases if not case.is_message]
    actions = {case.expected for case in fact_cases}
    if "noop" not in actions or not actions & {*_CHANGES}:
        return []
    pairs: list[DuplicatePair] = []
    for start in range(0, len(fact_cases), _AT_ONCE):
        pairs += _compare_pairs(fact_cases[start : start + _AT_ONCE], holding)
    return pairs


def _compare_pairs(cases: Sequence[PairCase], holding: Holding) -> list[DuplicatePair]:
    known_texts, new_texts = [(case.id, case.known[0]) for case in cases], [(case.id, case.new) for case in cases]
    with holding([*known_texts, *new_texts]) as (keeper, ids):
        merged = {duplicate.id for duplicate in keeper.find_duplicates()}
    repeated = [old_id in merged or new_id in merged for old_id, new_id in zip(ids, ids[len(cases) :], strict=False)]
    with holding(known_texts) as (keeper, _):
        nearness = [_measure_nearness(keeper, case) for case in cases]
        novelty = [keeper.is_novel(case.new, project=case.id) for case in cases]
        added = keeper.add_all([Fact(text=case.new, project=case.id) for case in cases])
    pairs = []
    for row, case in enumerate(cases):
        results_by_operation = {
            "add": added[row].action == "noop",
            "is_novel": not novelty[row].novel,
            "dedup": repeated[row],
        }
        operations = frozenset(operation for operation, is_duplicate in results_by_operation.items() if is_duplicate)
        pairs.append(DuplicatePair(case.expected, *nearness[row], operations))
    return pairs


def _measure_nearness(keeper: Keeper, case: PairCase) -> tuple[float, float]:
    """Return the cosine, and the highest threshold at which the two are taken for one; 0 if there is none."""

    def passes(threshold: float) -> bool:
        return not keeper.is_novel(case.new, threshold=threshold, project=case.id).novel

    cosine = min(1.0, keeper.is_novel(case.new, threshold=1.0, project=case.id).similarity)
    if not passes(0.0):
        return cosine, 0.0
    low, high = 0.0, max(0.0, cosine)
    if passes(high):
        return cosine, high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return cosine, low


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_CHANGES = ("update", "delete")
_PARTS = {"recall": ("noop",), "leak": _CHANGES, "others": ("add",)}  # expected actions


def compute_values(pairs: Sequence[DuplicatePair]) -> dict[str, Any]:
    """Return the figures of the pairs of a set."""
    cosine, check = (
        (_get_scores(pairs, score, ("noop",)), _get_scores(pairs, score, _CHANGES)) for score in ("cosine", "check")
    )
    recalls = zip(("cofio", "cosine", "difference"), measure_recall_at_leak(check, cosine), strict=True)
    return {
        "pairs": len(pairs),
        "duplicates": len(cosine[0]),
        "contradictions": len(cosine[1]),
        "recall_at_5_leak": dict(recalls),
        "defaults": {
            operation: {
                part: rate(operation in pair.operations for pair in pairs if pair.expected in actions)
                for part, actions in _PARTS.items()
            }
            for operation in OPERATIONS
        },
        "curve": {"cosine": curve(cosine), "checked": curve(check)},
    }


def _get_scores(pairs: Sequence[DuplicatePair], score: str, actions: Sequence[str]) -> _Row:
    return np.array([getattr(pair, score) for pair in pairs if pair.expected in actions], float)


def measure_recall_at_leak(
    first: tuple[_Row, _Row], second: tuple[_Row, _Row], leak: float = LEAK
) -> tuple[Figure, Figure, Figure]:
    """Return the share of duplicates that each score accepts while the leak is at most `leak`, and their difference.

    The threshold is recomputed for every draw, and both scores use the same draws.
    """
    rng = np.random.default_rng(SEED)
    duplicate_count, contradiction_count = len(first[0]), len(first[1])
    samples = []
    for _ in range(DRAWS):
        duplicate_rows, contradiction_rows = (
            rng.integers(0, duplicate_count, duplicate_count),
            rng.integers(0, contradiction_count, contradiction_count),
        )
        samples.append(
            [
                _compute_recall(scores[0][duplicate_rows], scores[1][contradiction_rows], leak)
                for scores in (first, second)
            ]
        )
    values = np.array(samples)
    exact = [_compute_recall(*scores, leak) for scores in (first, second)]
    return (
        _to_figure(exact[0], values[:, 0]),
        _to_figure(exact[1], values[:, 1]),
        _to_figure(exact[0] - exact[1], values[:, 0] - values[:, 1]),
    )


def _compute_recall(duplicates: _Row, contradictions: _Row, leak: float) -> float:
    """Return the share of duplicates above the lowest threshold that keeps the leak."""
    highest = np.sort(contradictions)[::-1]
    threshold = max(0.0, float(highest[min(int(leak * len(contradictions) + 1e-9), len(contradictions) - 1)]))
    return float((duplicates > threshold).mean())


def _to_figure(value: float, samples: _Row) -> Figure:
    low, high = np.quantile(samples, (0.025, 0.975))
    return Figure(value, float(low), float(high))


def curve(scores: tuple[_Row, _Row]) -> list[dict[str, float]]:
    """Return recall and leak by threshold, from the highest to the lowest."""
    duplicates, contradictions = scores
    return [
        {
            "threshold": threshold,
            "recall": float((duplicates >= threshold).mean()),
            "leak": float((contradictions >= threshold).mean()),
        }
        for threshold in reversed(_STEPS)
    ]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LEAK_COLUMNS = {
    "duplicates": Column("duplicates"),
    "contradictions": Column("contradictions"),
    "recall_at_5_leak/cosine": Column("cosine only", "%"),
    "recall_at_5_leak/cofio": Column("cofio's check", "%"),
    "recall_at_5_leak/difference": Column("difference", "±%"),
}
_DEFAULT_COLUMNS = (Column("duplicates", "%"), Column("contradictions", "%"), Column("others", "%"))


def list_tables(compared: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Return the tables at the fixed leak and at the defaults, for the figures of each set."""
    if not compared:
        return []
    title = "Duplicate detection with at most 5 % of contradictions accepted"
    note = (
        "Recall at the lowest threshold that accepts at most 5 % of the contradictions; difference by paired bootstrap."
    )
    rows: list[Sequence[Cell]] = [
        [name, label, *figures["defaults"][operation].values()]
        for name, figures in compared.items()
        for operation, label in OPERATIONS.items()
    ]
    return [
        Table.of(title, "set", _LEAK_COLUMNS, compared, note),
        Table(
            "Pairs accepted as duplicates at default thresholds",
            (Column("set"), Column("operation"), *_DEFAULT_COLUMNS),
            rows,
            "Higher is better for duplicates, lower for contradictions and others.",
        ),
    ]
