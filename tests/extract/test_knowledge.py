"""Domain knowledge out of an analyst's response."""

from __future__ import annotations

import pytest

from cofio.extract.knowledge import facts


def test_a_labelled_observation_is_a_pattern() -> None:
    [found] = facts("Observation: AAPL volume spikes consistently before earnings.")
    assert (found.kind, found.confidence) == ("pattern", 0.6)
    assert found.text == "AAPL volume spikes consistently before earnings"


def test_thresholds_and_correlations_are_told_apart() -> None:
    said = "Threshold recommendation: flag AAPL if volume exceeds 5M.\nCorrelation: BTC price leads COIN stock."
    assert [(each.kind, each.confidence, each.text) for each in facts(said)] == [
        ("threshold", 0.7, "flag AAPL if volume exceeds 5M"),
        ("correlation", 0.5, "BTC price leads COIN stock"),
    ]


def test_what_is_repeated_is_found_once_and_no_more_than_asked_for() -> None:
    same = "\n".join(["Pattern: new thing detected in data."] * 20)
    assert len(facts(same, most=3)) == 1
    many = "\n".join(f"Pattern: new thing {number} detected in data." for number in range(20))
    assert len(facts(many)) == 5
    assert len(facts(many, most=3)) == 3


@pytest.mark.parametrize(
    "said",
    [
        "No anomalies detected. Everything looks normal.",
        "Pattern: short.",
        "Should we flag AAPL if volume exceeds 5M?",
        "",
    ],
)
def test_an_uninformative_response_gives_none(said: str) -> None:
    assert facts(said) == []
