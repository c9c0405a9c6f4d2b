"""The exact lane: lookups of domain knowledge by value, time or name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from cofio.models.domain_knowledge import (
    ActivePattern,
    Correlation,
    CorrelationStep,
    FiringThreshold,
    Threshold,
    check_number,
    fold,
)

__all__ = ["MOST_STEPS", "ActivePattern", "CorrelationStep", "FiringThreshold", "firing", "matches", "walk"]

MOST_STEPS = 500  # maximum number of sources per walk


# ── thresholds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def firing(thresholds: Iterable[Threshold], value: float, unit: str = "") -> list[FiringThreshold]:
    """Return the thresholds that the value crosses, by confidence. If both have a unit, the units must be equal."""
    value = check_number(value, "value")
    comparable = [
        threshold for threshold in thresholds if not unit or not threshold.unit or fold(threshold.unit) == fold(unit)
    ]
    results = [
        FiringThreshold(threshold, value, _compute_distance(value, threshold.value))
        for threshold in comparable
        if _crosses(value, threshold)
    ]
    return sorted(results, key=lambda result: (-result.threshold.confidence, -result.by, result.threshold.id))


def _crosses(value: float, threshold: Threshold) -> bool:
    if value == threshold.value:
        return threshold.inclusive
    return (value > threshold.value) == (threshold.direction == "above")


def _compute_distance(one: float, other: float) -> float:
    return min(abs(one - other), sys.float_info.max)  # JSON requires a finite number


# ── correlations ──────────────────────────────────────────────────────────────────────────────────────────────────────


def matches(name: str, side: str) -> bool:
    """Return whether a name means this side of a correlation: it equals the side or its leading words."""
    words, side_words = fold(name).split(), fold(side).split()
    return bool(words) and side_words[: len(words)] == words


def walk(correlations_of: Callable[[str], Sequence[Correlation]], source: str, depth: int) -> list[CorrelationStep]:
    """Return the sources related to a source within `depth` steps, each once: by distance, then by confidence.

    Each source is reached by the fewest steps; among paths of equal length the one with the highest confidence is used.
    At most MOST_STEPS are returned.
    """
    seen, steps, ends = {fold(source)}, list[CorrelationStep](), [_End(source, 1.0, False)]
    for far in range(1, depth + 1):
        onward = [step for end in ends for step in _continue_path(end, correlations_of(end.name), far)]
        new = [step for step in sorted(onward, key=_order) if fold(step.there) not in seen]
        best = {fold(step.there): step for step in reversed(new)}  # per source, the first one wins
        seen |= best.keys() | {fold(step.here) for step in onward}
        nearest = sorted(best.values(), key=_order)[: MOST_STEPS - len(steps)]
        steps += nearest
        ends = [_End(step.there, step.confidence, step.inverse) for step in nearest]
    return steps


class _End(NamedTuple):
    """End of a path, with confidence and sign of the path."""

    name: str
    confidence: float
    inverse: bool


def _continue_path(end: _End, correlations: Iterable[Correlation], depth: int) -> Iterator[CorrelationStep]:
    """Yield every step that continues the path."""
    for correlation in correlations:
        confidence, inverse = end.confidence * correlation.confidence, end.inverse != correlation.inverse
        if matches(end.name, correlation.source_a):
            yield CorrelationStep(
                correlation.source_a, correlation.source_b, correlation, True, depth, confidence, inverse
            )
        if matches(end.name, correlation.source_b):
            yield CorrelationStep(
                correlation.source_b, correlation.source_a, correlation, False, depth, confidence, inverse
            )


def _order(step: CorrelationStep) -> tuple[float, str, str]:
    return (-step.confidence, fold(step.there), step.correlation.id)
