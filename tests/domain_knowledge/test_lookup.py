"""Exact lookup: which thresholds a value crosses, and which sources are correlated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.domain_knowledge.lookup import MOST_STEPS, firing, matches, walk
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Correlation, Threshold, fold

# ── Thresholds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def threshold(value: float = 10, direction: str = "above", **fields: Any) -> Threshold:
    return Threshold(source="AAPL", metric="volume", value=value, direction=direction, **fields)


@pytest.mark.parametrize(
    ("direction", "inclusive", "value", "fires"),
    [
        ("above", False, 10.5, True), ("above", False, 10, False), ("above", False, 9, False),
        ("above", True, 10, True), ("above", True, 9.999, False),
        ("below", False, 9.5, True), ("below", False, 10, False), ("below", False, 11, False),
        ("below", True, 10, True), ("below", True, 10.001, False),
    ],
)  # fmt: skip
def test_threshold_is_strict_unless_inclusive(direction: str, inclusive: bool, value: float, fires: bool) -> None:
    assert bool(firing([threshold(10, direction, inclusive=inclusive)], value)) is fires


def test_most_confident_threshold_comes_first_with_its_margin() -> None:
    results = firing([threshold(5, id="weak", confidence=0.2), threshold(8, id="sure", confidence=0.9)], 12)
    assert [(result.threshold.id, result.value, result.by) for result in results] == [("sure", 12, 4), ("weak", 12, 7)]


@pytest.mark.parametrize(
    ("threshold_unit", "value_unit", "fires"),
    [("ms", "ms", True), ("MS", "ms", True), ("ms", "s", False), ("", "s", True), ("ms", "", True)],
)
def test_different_unit_does_not_fire(threshold_unit: str, value_unit: str, fires: bool) -> None:
    assert bool(firing([threshold(10, unit=threshold_unit)], 12, unit=value_unit)) is fires


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "12", None, 10**400])
def test_invalid_value_is_rejected(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"value (is|must be)"):
        firing([threshold()], value)


def test_margin_is_finite() -> None:
    (result,) = firing([threshold(-1e308)], 1e308)
    assert result.by < float("inf")


@given(st.lists(st.tuples(st.floats(-100, 100), st.booleans(), st.booleans())), st.floats(-100, 100))
def test_firing_matches_the_comparison_operators(rows: list[tuple[float, bool, bool]], value: float) -> None:
    thresholds = [
        threshold(limit, "above" if is_above else "below", inclusive=inclusive, id=f"t{index}")
        for index, (limit, is_above, inclusive) in enumerate(rows)
    ]
    operators = {
        ("above", True): value.__ge__,
        ("above", False): value.__gt__,
        ("below", True): value.__le__,
        ("below", False): value.__lt__,
    }
    expected = {
        candidate.id for candidate in thresholds if operators[candidate.direction, candidate.inclusive](candidate.value)
    }
    results = firing(thresholds, value)
    assert {result.threshold.id for result in results} == expected
    assert all(result.by == abs(value - result.threshold.value) for result in results)


# ── Names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "side", "expected"),
    [
        ("BTC", "BTC", True), ("btc", "BTC price", True), ("BTC price", "btc  PRICE of today", True),
        ("BTC", "BTCUSD", False), ("price", "BTC price", False), ("BTC price", "BTC", False), ("", "BTC", False),
    ],
)  # fmt: skip
def test_name_matches_a_side_that_is_equal_or_begins_with_it(name: str, side: str, expected: bool) -> None:
    assert matches(name, side) is expected


# ── Correlations ──────────────────────────────────────────────────────────────────────────────────────────────────────


def lookup_in(correlations: Sequence[Correlation]) -> Callable[[str], Sequence[Correlation]]:
    return lambda name: [
        correlation
        for correlation in correlations
        if matches(name, correlation.source_a) or matches(name, correlation.source_b)
    ]


def pair(a: str, b: str, confidence: float = 0.5, **fields: Any) -> Correlation:
    return Correlation(source_a=a, source_b=b, rule=f"{a} and {b}", confidence=confidence, **fields)


def test_correlation_is_walked_from_either_side() -> None:
    lookup = lookup_in([pair("BTC", "COIN", relation="leads")])
    (forward_step,), (backward_step,) = walk(lookup, "btc", 1), walk(lookup, "COIN", 1)
    assert (forward_step.here, forward_step.there, forward_step.forward) == ("BTC", "COIN", True)
    assert (backward_step.here, backward_step.there, backward_step.forward) == ("COIN", "BTC", False)


def test_leading_words_of_a_side_match_it() -> None:
    (step,) = walk(lookup_in([pair("BTC price", "COIN")]), "BTC", 3)
    assert (step.here, step.there) == ("BTC price", "COIN")


def test_walk_multiplies_confidence_and_inversion() -> None:
    lookup = lookup_in([pair("A", "B", 0.8, inverse=True), pair("B", "C", 0.5, inverse=True), pair("C", "D", 0.5)])
    steps = walk(lookup, "A", 3)
    assert [(step.there, step.depth, step.confidence, step.inverse) for step in steps] == [
        ("B", 1, 0.8, True), ("C", 2, 0.4, False), ("D", 3, 0.2, False),
    ]  # fmt: skip


def test_each_source_is_returned_once_by_the_shortest_then_most_confident_path() -> None:
    lookup = lookup_in(
        [pair("A", "B", 0.9), pair("A", "C", 0.1), pair("B", "C", 0.9), pair("B", "D", 0.2), pair("C", "D", 0.9)]
    )
    assert [(step.there, step.depth, step.confidence) for step in walk(lookup, "A", 5)] == [
        ("B", 1, 0.9), ("C", 1, 0.1), ("D", 2, pytest.approx(0.18)),
    ]  # fmt: skip


def test_walk_does_not_return_to_its_start() -> None:
    lookup = lookup_in([pair("BTC price", "COIN", 0.9), pair("BTC volume", "COIN", 0.2), pair("COIN", "MSTR")])
    assert [step.there for step in walk(lookup, "BTC", 9)] == ["COIN", "MSTR"]


def test_two_relations_of_one_pair_are_one_step() -> None:
    lookup = lookup_in([pair("A", "B", 0.4, relation="leads"), pair("B", "A", 0.7, relation="with")])
    assert [(step.there, step.confidence, step.forward) for step in walk(lookup, "A", 2)] == [("B", 0.7, False)]


def test_number_of_steps_is_limited() -> None:
    steps = walk(lookup_in([pair("hub", f"spoke {number}") for number in range(MOST_STEPS + 20)]), "hub", 2)
    assert len(steps) == MOST_STEPS


@given(st.sets(st.tuples(st.sampled_from("ABCDEFG"), st.sampled_from("ABCDEFG")).filter(lambda p: p[0] < p[1])))
def test_walk_reaches_every_connected_source_in_the_fewest_steps(edges: set[tuple[str, str]]) -> None:
    correlations = [pair(a, b, 0.5 + 0.01 * (ord(b) - 65)) for a, b in sorted(edges)]
    distance, frontier = {"A": 0}, ["A"]
    while frontier:
        current = frontier.pop(0)
        for source, target in [*edges, *((b, a) for a, b in edges)]:
            if source == current and target not in distance:
                distance[target] = distance[current] + 1
                frontier.append(target)
    steps = walk(lookup_in(correlations), "A", 10)
    assert {step.there: step.depth for step in steps} == {
        name: steps_away for name, steps_away in distance.items() if steps_away
    }
    assert len({fold(step.there) for step in steps}) == len(steps)
    assert [(step.depth, -step.confidence) for step in steps] == sorted(
        (step.depth, -step.confidence) for step in steps
    )
