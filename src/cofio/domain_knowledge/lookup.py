"""The exact lane: lookups of domain knowledge by value, time or name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

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


def firing(thresholds: Iterable[Threshold], value: float, unit: str = "") -> list[FiringThreshold]:
    """Return the thresholds that the value crosses, by confidence. If both have a unit, the units must be equal."""
    value = check_number(value, "value")
    results = []
    for threshold in thresholds:
        if unit and threshold.unit and fold(threshold.unit) != fold(unit):
            continue
        crosses = (value > threshold.value) == (threshold.direction == "above")
        if value == threshold.value:
            crosses = threshold.inclusive
        if crosses:
            distance = min(abs(value - threshold.value), sys.float_info.max)  # JSON requires a finite number
            results.append(FiringThreshold(threshold, value, distance))
    return sorted(results, key=lambda result: (-result.threshold.confidence, -result.by, result.threshold.id))


def matches(name: str, side: str) -> bool:
    """Return whether a name means this side of a correlation: it equals the side or its leading words."""
    words, side_words = fold(name).split(), fold(side).split()
    return bool(words) and side_words[: len(words)] == words


def walk(correlations_of: Callable[[str], Sequence[Correlation]], source: str, depth: int) -> list[CorrelationStep]:
    """Return the sources related to a source within `depth` steps, each once: by distance, then by confidence.

    Each source is reached by the fewest steps; among paths of equal length the one with the highest confidence is used.
    At most MOST_STEPS are returned.
    """
    reached, steps, ends = {fold(source)}, list[CorrelationStep](), [(source, 1.0, False)]
    for far in range(1, depth + 1):
        onward = [step for end in ends for step in _continue_path(*end, correlations_of(end[0]), far)]
        new = [step for step in sorted(onward, key=_order) if fold(step.there) not in reached]
        best = {fold(step.there): step for step in reversed(new)}  # per source, the first one wins
        reached |= best.keys() | {fold(step.here) for step in onward}
        nearest = sorted(best.values(), key=_order)[: MOST_STEPS - len(steps)]
        steps += nearest
        ends = [(step.there, step.confidence, step.inverse) for step in nearest]
    return steps


def _continue_path(
    end: str, confidence: float, inverse: bool, correlations: Iterable[Correlation], depth: int
) -> Iterator[CorrelationStep]:
    """Yield every step that continues a path with this end, confidence and sign."""
    for correlation in correlations:
        total, sign = confidence * correlation.confidence, inverse != correlation.inverse
        one, other = correlation.source_a, correlation.source_b
        for here, there, forward in ((one, other, True), (other, one, False)):
            if matches(end, here):
                yield CorrelationStep(here, there, correlation, forward, depth, total, sign)


def _order(step: CorrelationStep) -> tuple[float, str, str]:
    return (-step.confidence, fold(step.there), step.correlation.id)
