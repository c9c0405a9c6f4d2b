"""The bars of the grid of made facts, kept on a small fixed sample; `python -m evals.audn` measures all of it."""

from __future__ import annotations

import random

import pytest

from cofio.testing import HashEmbedder
from evals import audn, grid, held_out

OLD = grid.Said("the port is 8080", "port", "8080")


def sample(vocabulary: grid.Vocabulary, size: int) -> list[grid.Case]:
    return random.Random(7).sample(grid.cases(vocabulary), size)


@pytest.fixture(scope="module")
def near() -> audn.Nearness:
    return audn.Nearness(HashEmbedder(64))


def test_words_in_view_are_told_apart(near: audn.Nearness) -> None:
    found = audn.rates([each for vocabulary in audn.IN_VIEW for each in audn.judged(sample(vocabulary, 250), near)])
    assert found["false merges"].share < 0.01
    assert found["false overwrites"].share < 0.02
    assert found["lost updates"].share < 0.10
    assert found["duplicate recall"].share > 0.90


def test_with_words_held_out_nothing_is_lost_or_overwritten_and_most_is_seen(near: audn.Nearness) -> None:
    found = audn.rates(audn.judged(sample(held_out.HELD_OUT, 500), near))
    assert found["false merges"].share < 0.01
    assert found["false overwrites"].share < 0.02
    assert found["lost updates"].share < 0.30
    assert found["duplicate recall"].share > 0.70


def test_a_store_full_of_other_facts_changes_nothing(near: audn.Nearness) -> None:
    found = audn.rates(audn.settled(audn.IN_VIEW[0], near, 60))
    assert found["false merges"].share < 0.02
    assert found["false overwrites"].share < 0.05
    assert found["lost updates"].share < 0.15


def test_the_grid_is_large_and_always_the_same() -> None:
    whole = [case for vocabulary in (*audn.IN_VIEW, held_out.HELD_OUT) for case in grid.cases(vocabulary)]
    assert len(whole) > 3_000
    assert {case.expected for case in whole} == {"noop", "update", "add"}
    assert grid.cases(held_out.HELD_OUT) == grid.cases(held_out.HELD_OUT)
    assert all("{" not in said.text for case in whole for said in (case.old, case.new))


def test_the_words_held_out_are_in_no_other_vocabulary() -> None:
    for name in ("services", "environments", "bases", "updates", "repeats", "tech_updates", "technologies", "flags"):
        seen = {each for vocabulary in audn.IN_VIEW for each in getattr(vocabulary, name)}
        assert not seen & set(getattr(held_out.HELD_OUT, name)), name


@pytest.mark.parametrize(
    ("topic", "value", "expected"), [("port", "8080", "noop"), ("port", "9090", "update"), ("host", "8080", "add")]
)
def test_what_should_become_of_a_fact_follows_from_its_topic_and_value(topic: str, value: str, expected: str) -> None:
    assert grid.Case(OLD, grid.Said("…", topic, value), "made").expected == expected


def test_the_rates_count_what_must_not_happen() -> None:
    found = audn.rates(
        [
            audn.Judged("noop", "noop", ""),
            audn.Judged("noop", "add", ""),
            audn.Judged("update", "noop", ""),
            audn.Judged("update", "update", "", astray=True),
            audn.Judged("add", "update", ""),
            audn.Judged("add", "add", ""),
        ]
    )
    assert found["false merges"] == audn.Rate(1, 4)
    assert found["false overwrites"] == audn.Rate(1, 2)
    assert found["lost updates"] == audn.Rate(2, 2)
    assert found["duplicate recall"] == audn.Rate(1, 2)


def test_an_interval_holds_the_share_and_narrows_with_the_number_of_cases() -> None:
    few, many = audn.Rate(1, 10), audn.Rate(100, 1000)
    assert few.interval[0] < few.share < few.interval[1]
    assert many.interval == pytest.approx((0.0829, 0.1201), abs=0.0005)
    assert audn.Rate(0, 0).interval == (0.0, 1.0)
