"""Measures of rankings and classifications. Every interval is a bootstrap with a fixed seed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

SEED = 20261115
DRAWS = 2_000
_AT_ONCE = 1_000_000  # values of samples


@dataclass(frozen=True, slots=True)
class Figure:
    """Measured value with its 95 % interval."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


# ── rankings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def recall(ranking: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the share of the evidence among the first k."""
    return len(set(evidence) & set(ranking[:k])) / len(set(evidence))


def ndcg(ranking: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the normalised discounted cumulative gain at k, with equal weights for all evidence."""
    gained = sum(1 / log2(place + 2) for place, unit in enumerate(ranking[:k]) if unit in evidence)
    return gained / sum(1 / log2(place + 2) for place in range(min(k, len(set(evidence)))))


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the probability that a positive score exceeds a negative one; ties count half.

    0.5 if one list is empty.
    """
    if not positive or not negative:
        return 0.5
    ordered = np.sort(np.asarray(negative))
    below = np.searchsorted(ordered, positive, "left")
    up_to = np.searchsorted(ordered, positive, "right")
    return float((below + up_to).sum()) / (2 * len(positive) * len(negative))


# ── verdicts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def share(part: int, total: int) -> float:
    """Return the part as a share of the total; 0 if the total is 0."""
    return part / total if total else 0.0


def f1(precision: float, recalled: float) -> float:
    """Return the harmonic mean of both."""
    return 2 * precision * recalled / (precision + recalled) if precision + recalled else 0.0


def macro_f1(expected: Sequence[str], actual: Sequence[str]) -> float:
    """Return the mean F1 over the expected labels."""
    return mean([of_label(expected, actual, label)[2] for label in sorted(set(expected))])


def of_label(expected: Sequence[str], actual: Sequence[str], label: str) -> tuple[float, float, float]:
    """Return precision, recall and F1 of one label."""
    right = sum(
        expected_label == actual_label == label for expected_label, actual_label in zip(expected, actual, strict=True)
    )
    precision, recalled = share(right, list(actual).count(label)), share(right, list(expected).count(label))
    return precision, recalled, f1(precision, recalled)


def share_at(
    positive: Sequence[float], negative: Sequence[float], rates: Sequence[float]
) -> dict[str, dict[str, float | None]]:
    """Return, by rate, the threshold that this share of the negatives exceeds, and the share of positives above it.

    Both are None if either list is empty.
    """
    if not positive or not negative:
        return {f"{rate:.0%}": {"found": None, "threshold": None} for rate in rates}
    thresholds = {rate: float(np.quantile(negative, 1 - rate)) for rate in rates}
    return {
        f"{rate:.0%}": {"found": mean([score > threshold for score in positive]), "threshold": threshold}
        for rate, threshold in thresholds.items()
    }


# ── intervals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def interval(values: Sequence[float], *, draws: int = DRAWS) -> Figure:
    """Return the mean with its 95 % interval, by bootstrap."""
    if not values:
        return Figure(0.0, 0.0, 0.0)
    low, high = np.quantile(_sample_means(np.asarray(values, float), draws), (0.025, 0.975))
    return Figure(mean(values), float(low), float(high))


def rate(flags: Iterable[bool]) -> Figure | None:
    """Return the share of true flags with its 95 % interval; None without flags."""
    values = [float(flag) for flag in flags]
    return interval(values) if values else None


def difference(ours: Sequence[float], theirs: Sequence[float], *, draws: int = DRAWS) -> Figure:
    """Return the mean difference of two results for the same cases with its 95 % interval, by paired bootstrap."""
    return interval([our - their for our, their in zip(ours, theirs, strict=True)], draws=draws)


def separation(positive: Sequence[float], negative: Sequence[float], *, draws: int = DRAWS) -> Figure:
    """Return the `auroc` with its 95 % interval, by bootstrap of both lists."""
    if not positive or not negative:
        return Figure(0.5, 0.0, 1.0)
    rng = np.random.default_rng(SEED)
    samples = [auroc(_resample(positive, rng), _resample(negative, rng)) for _ in range(draws)]
    low, high = np.quantile(samples, (0.025, 0.975))
    return Figure(auroc(positive, negative), float(low), float(high))


def _resample(values: Sequence[float], rng: np.random.Generator) -> list[float]:
    return [values[place] for place in rng.integers(0, len(values), len(values))]


def _sample_means(values: np.ndarray[tuple[int], np.dtype[np.float64]], draws: int) -> list[float]:
    """Return the means of the samples, drawn in parts to bound the memory."""
    rng = np.random.default_rng(SEED)
    means: list[float] = []
    while len(means) < draws:
        part = min(draws - len(means), max(1, _AT_ONCE // len(values)))
        means += values[rng.integers(0, len(values), (part, len(values)))].mean(axis=1).tolist()
    return means
