"""The bars of the grid of made facts, kept on a small fixed sample; `python -m evals.decisions` measures all of it."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.evaluation import decisions as measure
from cofio.evaluation.pairs import sampled
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from evals import decisions, grid, held_out

OLD = grid.Said("the port is 8080", "port", "8080")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = Settings.load({"home": tmp_path_factory.mktemp("home")}, {})
    sets = [sampled(each, 120) for each in decisions.made(60)]
    told: dict[str, Any] = measure.reported(sets, settings, embedder=HashEmbedder(64)).as_dict()
    return told


@pytest.mark.parametrize(("name", "seen"), [("grid-in-view", 0.85), ("grid-held-out", 0.5)])
def test_nothing_is_merged_or_overwritten_that_should_not_be_and_most_is_seen(
    found: dict[str, Any], name: str, seen: float
) -> None:
    cases = found["sets"][name]
    assert cases["rules"]["false_merges"]["value"] < 0.01
    assert cases["rules"]["false_overwrites"]["value"] < 0.02
    assert cases["rules"]["target_accuracy"]["value"] > 0.98
    for action in ("update", "noop"):
        assert cases["rules"]["matrix"][action][action] > seen * cases["wanted"][action], action


@pytest.mark.parametrize("name", ["grid-in-view", "grid-held-out"])
def test_no_correction_passes_for_a_duplicate_in_whichever_way_it_is_met(found: dict[str, Any], name: str) -> None:
    for way, shares in found["duplicates"][name]["defaults"].items():
        assert shares["leak"]["value"] < 0.02, way


def test_the_grid_is_large_and_always_the_same() -> None:
    whole = [case for vocabulary in (*decisions.IN_VIEW, held_out.HELD_OUT) for case in grid.cases(vocabulary)]
    assert len(whole) > 3_000
    assert {case.expected for case in whole} == {"noop", "update", "add"}
    assert grid.cases(held_out.HELD_OUT) == grid.cases(held_out.HELD_OUT)
    assert all("{" not in said.text for case in whole for said in (case.old, case.new))


def test_the_words_held_out_are_in_no_other_vocabulary() -> None:
    for name in ("services", "environments", "bases", "updates", "repeats", "tech_updates", "technologies", "flags"):
        seen = {each for vocabulary in decisions.IN_VIEW for each in getattr(vocabulary, name)}
        assert not seen & set(getattr(held_out.HELD_OUT, name)), name


@pytest.mark.parametrize(
    ("topic", "value", "expected"),
    [("port", "8080", "noop"), ("port", "9090", "update"), ("host", "8080", "add"), ("port", "", "delete")],
)
def test_what_should_become_of_a_fact_follows_from_its_topic_and_value(topic: str, value: str, expected: str) -> None:
    assert decisions.wanted(grid.Case(OLD, grid.Said("…", topic, value), "made")) == expected


def test_what_only_takes_a_rule_back_is_a_withdrawal_and_its_opposite_a_correction() -> None:
    always = grid.Said("We always squash commits", "squash", "yes")
    for text, expected in (("We no longer squash commits", "delete"), ("We never squash commits", "update")):
        assert decisions.wanted(grid.Case(always, grid.Said(text, "squash", "no"), "policy turned")) == expected
