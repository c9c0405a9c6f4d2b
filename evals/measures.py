"""Measures of a ranking, and how sure a difference is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import log2


def recall(ranking: Sequence[str], evidence: frozenset[str], k: int) -> float:
    """The share of the evidence among the first k."""
    return len(evidence & set(ranking[:k])) / len(evidence)


def ndcg(ranking: Sequence[str], evidence: frozenset[str], k: int) -> float:
    """Normalised discounted cumulative gain at k, every piece of evidence worth the same."""
    gained = sum(1 / log2(place + 2) for place, unit in enumerate(ranking[:k]) if unit in evidence)
    return gained / sum(1 / log2(place + 2) for place in range(min(k, len(evidence))))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def difference(ours: Sequence[float], theirs: Sequence[float], *, draws: int = 2_000) -> tuple[float, float, float]:
    """The mean difference and its 95 % interval, by paired bootstrap with a fixed seed."""
    rng = random.Random(20261115)
    deltas = [one - other for one, other in zip(ours, theirs, strict=True)]
    means = sorted(mean(rng.choices(deltas, k=len(deltas))) for _ in range(draws))
    return mean(deltas), means[int(0.025 * draws)], means[int(0.975 * draws)]
