"""Duplicate detection by cosine alone, compared with cofio's own check, which also compares the words.

For each pair one text is stored; the other is checked for novelty, added, and searched by deduplication. A good check
accepts duplicates and rejects contradictions: a contradiction taken for a duplicate is a lost correction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cofio.core import Keeper
from cofio.evaluation.metrics import DRAWS, SEED, Figure, interval
from cofio.evaluation.pairs import PairCase, PairCases
from cofio.evaluation.plots import COLOURS, Curve, linear
from cofio.evaluation.report import Cell, Column, Table
from cofio.models.memory import Fact

Holding: TypeAlias = Callable[[Sequence[tuple[str, str]]], AbstractContextManager[tuple[Keeper, list[int]]]]
_Row: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

LEAK = 0.05  # share of the contradictions
_AT_ONCE = 250  # pairs that share a store
_HALVINGS = 7  # bisection steps: to better than 0.01
_FURTHEST = 0.25  # maximum leak in the plots
_STEPS = tuple(step / 50 for step in range(1, 51))
#: Operations that detect duplicates, each at its default.
WAYS = {"add": "adding it", "is_novel": "asking whether it is new", "dedup": "looking for duplicates"}


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Cosine of the two texts, and the operations that take them for one."""

    wanted: str
    cosine: float
    checked: float  # the highest threshold at which cofio's check takes them for one; 0 if there is none
    taken: frozenset[str]  # names of the operations


@dataclass(frozen=True, slots=True)
class ComparedPairs:
    """Pairs of a set."""

    name: str
    pairs: Sequence[DuplicatePair]

    def scores(self, by: str) -> tuple[_Row, _Row]:
        """Return the scores of the duplicates and of the contradictions."""
        same = [getattr(pair, by) for pair in self.pairs if pair.wanted == "noop"]
        against = [getattr(pair, by) for pair in self.pairs if pair.wanted in _AGAINST]
        return np.array(same, float), np.array(against, float)

    def share(self, way: str, labels: Sequence[str]) -> Figure | None:
        """Return the share of the pairs with these labels that the operation takes for duplicates."""
        flags = [float(way in pair.taken) for pair in self.pairs if pair.wanted in labels]
        return interval(flags) if flags else None

    def values(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        own, alone, gained = at_leak(self.scores("checked"), self.scores("cosine"))
        defaults = {way: {part: self.share(way, labels) for part, labels in _PARTS.items()} for way in WAYS}
        return {
            "pairs": len(self.pairs),
            "recall_at_5_leak": {
                "cosine": alone.as_dict(), "cofio": own.as_dict(), "difference": gained.as_dict(),
            },
            "defaults": {
                way: {part: figure and figure.as_dict() for part, figure in shares.items()}
                for way, shares in defaults.items()
            },
            "curve": {by: curve(self.scores(by)) for by in ("cosine", "checked")},
        }  # fmt: skip


_AGAINST = ("update", "delete")
_PARTS = {"recall": ("noop",), "leak": _AGAINST, "others": ("add",)}


def compared(cases: PairCases, holding: Holding) -> list[ComparedPairs]:
    """Return the results for all pairs of facts; empty unless the set has duplicates and contradictions."""
    fact_cases = [case for case in cases.cases if not case.spoken]
    labels = {case.wanted for case in fact_cases}
    if "noop" not in labels or not labels & {*_AGAINST}:
        return []
    pairs: list[DuplicatePair] = []
    for start in range(0, len(fact_cases), _AT_ONCE):
        pairs += _compare_pairs(fact_cases[start : start + _AT_ONCE], holding)
    return [ComparedPairs(cases.name, pairs)]


def _compare_pairs(cases: Sequence[PairCase], holding: Holding) -> list[DuplicatePair]:
    old, new = [(case.id, case.known[0]) for case in cases], [(case.id, case.new) for case in cases]
    with holding([*old, *new]) as (keeper, ids):
        merged = {duplicate.id for duplicate in keeper.find_duplicates()}
    repeated = [old_id in merged or new_id in merged for old_id, new_id in zip(ids, ids[len(cases) :], strict=False)]
    with holding(old) as (keeper, _):
        near = [_measure_nearness(keeper, case) for case in cases]
        novelty = [keeper.is_novel(case.new, project=case.id) for case in cases]
        added = keeper.add_all([Fact(text=case.new, project=case.id) for case in cases])
    pairs = []
    for place, case in enumerate(cases):
        ways = {"add": added[place].action == "noop", "is_novel": not novelty[place].novel, "dedup": repeated[place]}
        taken = frozenset(way for way, is_taken in ways.items() if is_taken)
        pairs.append(DuplicatePair(case.wanted, *near[place], taken))
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


def at_leak(ours: tuple[_Row, _Row], theirs: tuple[_Row, _Row], leak: float = LEAK) -> tuple[Figure, Figure, Figure]:
    """Return the share of duplicates that each score accepts while the leak is at most `leak`, and their difference.

    The threshold is recomputed for every draw, and both scores use the same draws.
    """
    rng = np.random.default_rng(SEED)
    same, against = len(ours[0]), len(ours[1])
    samples = []
    for _ in range(DRAWS):
        picked, mistaken = rng.integers(0, same, same), rng.integers(0, against, against)
        samples.append([_compute_recall(scores[0][picked], scores[1][mistaken], leak) for scores in (ours, theirs)])
    values = np.array(samples)
    exact = [_compute_recall(*scores, leak) for scores in (ours, theirs)]
    return (
        _to_figure(exact[0], values[:, 0]),
        _to_figure(exact[1], values[:, 1]),
        _to_figure(exact[0] - exact[1], values[:, 0] - values[:, 1]),
    )


def _compute_recall(same: _Row, against: _Row, leak: float) -> float:
    """Return the share of duplicates above the lowest threshold that keeps the leak."""
    highest = np.sort(against)[::-1]
    bar = max(0.0, float(highest[min(int(leak * len(against) + 1e-9), len(against) - 1)]))
    return float((same > bar).mean())


def _to_figure(value: float, samples: _Row) -> Figure:
    low, high = np.quantile(samples, (0.025, 0.975))
    return Figure(value, float(low), float(high))


def curve(scores: tuple[_Row, _Row]) -> list[dict[str, float]]:
    """Return recall and leak by threshold, from the highest to the lowest."""
    same, against = scores
    return [
        {"threshold": at, "recall": float((same >= at).mean()), "leak": float((against >= at).mean())}
        for at in reversed(_STEPS)
    ]


# ── tables and plots ──────────────────────────────────────────────────────────────────────────────────────────────────


def tables(compared: Sequence[ComparedPairs]) -> list[Table]:
    """Return the tables at the fixed leak and at the defaults."""
    if not compared:
        return []
    at_bar: list[Sequence[Cell]] = []
    at_defaults: list[Sequence[Cell]] = []
    for result in compared:
        own, alone, gained = at_leak(result.scores("checked"), result.scores("cosine"))
        same, against = (len(row) for row in result.scores("cosine"))
        at_bar.append([result.name, same, against, alone, own, gained])
        at_defaults += [
            [result.name, label, *(result.share(way, _PARTS[part]) for part in _PARTS)] for way, label in WAYS.items()
        ]
    return [
        Table(
            "Duplicates found while at most 5 % of the contradictions pass for one",
            (
                Column("cases"), Column("duplicates"), Column("contradictions"), Column("nearness alone", "%"),
                Column("cofio's check", "%"), Column("difference", "±%"),
            ),
            at_bar,
            "The threshold is the lowest that keeps the leak; the difference is by paired bootstrap.",
        ),
        Table(
            "What passes for a duplicate at the defaults",
            (
                Column("cases"), Column("when"), Column("duplicates", "%"), Column("contradictions", "%"),
                Column("others", "%"),
            ),
            at_defaults,
            "Of the duplicates as many as possible should pass, of all else nothing.",
        ),
    ]  # fmt: skip


def plots(compared: Sequence[ComparedPairs]) -> dict[str, str]:
    """Return one plot per set: duplicates found against contradictions accepted."""
    return {"duplicates-" + re.sub(r"[^\w-]+", "-", result.name): _plot(result) for result in compared}


def _plot(compared: ComparedPairs) -> str:
    lines = []
    for colour, by, name, dashed in (
        (COLOURS[7], "cosine", "nearness alone", True),
        (COLOURS[0], "checked", "cofio's check", False),
    ):
        points = [
            (point["leak"], point["recall"]) for point in curve(compared.scores(by)) if point["leak"] <= _FURTHEST
        ]
        lines.append(Curve(name, colour, list(dict.fromkeys(points)), dashed))
    for colour, (way, label) in zip(COLOURS[1:], WAYS.items(), strict=False):
        recall, leak = compared.share(way, _PARTS["recall"]), compared.share(way, _PARTS["leak"])
        if recall and leak and leak.value <= _FURTHEST:
            lines.append(Curve(label, colour, [(leak.value, recall.value)]))
    title = f"Duplicates found against contradictions let through: {compared.name}"
    return linear(title, "contradictions that pass", "duplicates found", lines, within=(0.0, _FURTHEST, 0.0, 1.0))
