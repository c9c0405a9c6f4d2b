"""The exact lane: which thresholds a value crosses, and what goes together with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.domain_knowledge.lookup import MOST_STEPS, firing, matches, walk
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Correlation, Threshold, fold

# ── thresholds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def threshold(value: float = 10, direction: str = "above", **more: Any) -> Threshold:
    return Threshold(source="AAPL", metric="volume", value=value, direction=direction, **more)


@pytest.mark.parametrize(
    ("direction", "inclusive", "value", "fires"),
    [
        ("above", False, 10.5, True), ("above", False, 10, False), ("above", False, 9, False),
        ("above", True, 10, True), ("above", True, 9.999, False),
        ("below", False, 9.5, True), ("below", False, 10, False), ("below", False, 11, False),
        ("below", True, 10, True), ("below", True, 10.001, False),
    ],
)  # fmt: skip
def test_a_value_crosses_strictly_unless_the_value_itself_counts(
    direction: str, inclusive: bool, value: float, fires: bool
) -> None:
    assert bool(firing([threshold(10, direction, inclusive=inclusive)], value)) is fires


def test_the_surest_comes_first_and_each_says_by_how_much() -> None:
    fired = firing([threshold(5, id="weak", confidence=0.2), threshold(8, id="sure", confidence=0.9)], 12)
    assert [(each.threshold.id, each.value, each.by) for each in fired] == [("sure", 12, 4), ("weak", 12, 7)]


@pytest.mark.parametrize(
    ("own", "asked", "fires"),
    [("ms", "ms", True), ("MS", "ms", True), ("ms", "s", False), ("", "s", True), ("ms", "", True)],
)
def test_another_unit_is_passed_over(own: str, asked: str, fires: bool) -> None:
    assert bool(firing([threshold(10, unit=own)], 12, unit=asked)) is fires


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True, "12", None, 10**400])
def test_what_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="value is"):
        firing([threshold()], wrong)


def test_however_far_it_is_it_can_be_told() -> None:
    (fired,) = firing([threshold(-1e308)], 1e308)
    assert fired.by < float("inf")


@given(st.lists(st.tuples(st.floats(-100, 100), st.booleans(), st.booleans())), st.floats(-100, 100))
def test_it_fires_just_where_the_words_say_so(rows: list[tuple[float, bool, bool]], value: float) -> None:
    known = [
        threshold(each, "above" if up else "below", inclusive=inclusive, id=f"t{place}")
        for place, (each, up, inclusive) in enumerate(rows)
    ]
    said = {
        ("above", True): value.__ge__,
        ("above", False): value.__gt__,
        ("below", True): value.__le__,
        ("below", False): value.__lt__,
    }
    expected = {each.id for each in known if said[each.direction, each.inclusive](each.value)}
    fired = firing(known, value)
    assert {each.threshold.id for each in fired} == expected
    assert all(each.by == abs(value - each.threshold.value) for each in fired)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "side", "means"),
    [
        ("BTC", "BTC", True), ("btc", "BTC price", True), ("BTC price", "btc  PRICE of today", True),
        ("BTC", "BTCUSD", False), ("price", "BTC price", False), ("BTC price", "BTC", False), ("", "BTC", False),
    ],
)  # fmt: skip
def test_a_name_means_a_side_that_is_the_same_or_begins_with_it(name: str, side: str, means: bool) -> None:
    assert matches(name, side) is means


# ── correlations ──────────────────────────────────────────────────────────────────────────────────────────────────────


def among(known: Sequence[Correlation]) -> Callable[[str], Sequence[Correlation]]:
    return lambda name: [each for each in known if matches(name, each.source_a) or matches(name, each.source_b)]


def pair(a: str, b: str, confidence: float = 0.5, **more: Any) -> Correlation:
    return Correlation(source_a=a, source_b=b, rule=f"{a} and {b}", confidence=confidence, **more)


def test_a_correlation_is_walked_from_either_side() -> None:
    known = among([pair("BTC", "COIN", relation="leads")])
    (forth,), (back,) = walk(known, "btc", 1), walk(known, "COIN", 1)
    assert (forth.here, forth.there, forth.forward) == ("BTC", "COIN", True)
    assert (back.here, back.there, back.forward) == ("COIN", "BTC", False)


def test_the_leading_words_of_a_side_find_it() -> None:
    (step,) = walk(among([pair("BTC price", "COIN")]), "BTC", 3)
    assert (step.here, step.there) == ("BTC price", "COIN")


def test_the_way_multiplies_its_confidence_and_its_inverses() -> None:
    known = among([pair("A", "B", 0.8, inverse=True), pair("B", "C", 0.5, inverse=True), pair("C", "D", 0.5)])
    steps = walk(known, "A", 3)
    assert [(step.there, step.depth, step.confidence, step.inverse) for step in steps] == [
        ("B", 1, 0.8, True), ("C", 2, 0.4, False), ("D", 3, 0.2, False),
    ]  # fmt: skip


def test_each_source_is_given_once_by_the_nearest_and_then_the_surest_way() -> None:
    known = among(
        [pair("A", "B", 0.9), pair("A", "C", 0.1), pair("B", "C", 0.9), pair("B", "D", 0.2), pair("C", "D", 0.9)]
    )
    assert [(each.there, each.depth, each.confidence) for each in walk(known, "A", 5)] == [
        ("B", 1, 0.9), ("C", 1, 0.1), ("D", 2, pytest.approx(0.18)),
    ]  # fmt: skip


def test_no_walk_comes_back_to_where_it_began() -> None:
    known = among([pair("BTC price", "COIN", 0.9), pair("BTC volume", "COIN", 0.2), pair("COIN", "MSTR")])
    assert [each.there for each in walk(known, "BTC", 9)] == ["COIN", "MSTR"]


def test_two_relations_of_the_same_two_are_one_step_the_surer() -> None:
    known = among([pair("A", "B", 0.4, relation="leads"), pair("B", "A", 0.7, relation="with")])
    assert [(each.there, each.confidence, each.forward) for each in walk(known, "A", 2)] == [("B", 0.7, False)]


def test_a_walk_gives_only_so_much() -> None:
    steps = walk(among([pair("hub", f"spoke {number}") for number in range(MOST_STEPS + 20)]), "hub", 2)
    assert len(steps) == MOST_STEPS


@given(st.sets(st.tuples(st.sampled_from("ABCDEFG"), st.sampled_from("ABCDEFG")).filter(lambda p: p[0] < p[1])))
def test_a_walk_reaches_all_that_is_connected_in_the_fewest_steps(edges: set[tuple[str, str]]) -> None:
    known = [pair(a, b, 0.5 + 0.01 * (ord(b) - 65)) for a, b in sorted(edges)]
    distance, frontier = {"A": 0}, ["A"]
    while frontier:
        here = frontier.pop(0)
        for one, other in [*edges, *((b, a) for a, b in edges)]:
            if one == here and other not in distance:
                distance[other] = distance[here] + 1
                frontier.append(other)
    steps = walk(among(known), "A", 10)
    assert {step.there: step.depth for step in steps} == {name: far for name, far in distance.items() if far}
    assert len({fold(step.there) for step in steps}) == len(steps)
    assert [(step.depth, -step.confidence) for step in steps] == sorted(
        (step.depth, -step.confidence) for step in steps
    )
