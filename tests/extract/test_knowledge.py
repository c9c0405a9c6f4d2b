"""Domain knowledge out of an analyst's response."""

from __future__ import annotations

import pytest

import cofio
from cofio.domain_knowledge.extract.extraction import (
    AutoCaptureConfig,
    ExtractedKnowledge,
    extract_knowledge,
    facts,
    read_sentence,
)
from cofio.errors import InvalidInput
from cofio.models.exchange import ExtractedFact


def test_a_labelled_observation_is_a_pattern() -> None:
    [found] = facts("Observation: AAPL volume spikes consistently before earnings.")
    assert (found.kind, found.confidence) == ("pattern", 0.6)
    assert found.text == "AAPL volume spikes consistently before earnings"


def test_thresholds_and_correlations_are_told_apart() -> None:
    said = "Threshold recommendation: flag AAPL if volume exceeds 5M.\nCorrelation: BTC price leads COIN stock."
    assert [(fact.kind, fact.confidence, fact.text) for fact in facts(said)] == [
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
        "Pattern: none detected today.",
        "Correlation: no significant correlation was found.",
        "Should we flag AAPL if volume exceeds 5M?",
        "",
    ],
)
def test_an_uninformative_response_gives_none(said: str) -> None:
    assert facts(said) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("flag AAPL if volume exceeds 5\nflag AAPL if volume exceeds 50", 2),
        ("BTC leads COIN.\nCOIN leads BTC.", 2),
        ("flag AAPL if volume exceeds 5M.\nDo not flag AAPL if volume exceeds 5M.", 2),
        ("Pattern: volume rises on Fridays before noon.\nPattern: volume rises on Fridays before noon today.", 1),
        ("flag AAPL if the daily trading volume is above 5M.\nflag TSLA if the daily trading volume is above 5M.", 2),
    ],
)
def test_what_differs_in_a_number_a_name_or_a_negation_is_not_said_twice(said: str, found: int) -> None:
    assert len(facts(said)) == found


def test_what_a_label_is_about_stays_in_the_words() -> None:
    [found] = facts("Threshold for web-1: CPU above 90%")
    assert found.text == "web-1: CPU above 90%"


def test_what_is_to_be_removed_is_remembered_as_what_holds_from_now_on() -> None:
    [found] = facts("Remove the threshold on AAPL volume.")
    assert found.text == "no threshold on AAPL volume"


@pytest.mark.parametrize("said", ["We could flag AAPL if volume exceeds 5M", "Maybe BTC price leads COIN stock"])
def test_what_is_only_supposed_is_not_remembered(said: str) -> None:
    assert facts(said) == []


# ── the public function ───────────────────────────────────────────────────────────────────────────────────────────────

CONFIG = AutoCaptureConfig(max_updates_per_turn=5, dedup_threshold=0.9)


def test_extracts_patterns_from_a_response() -> None:
    found = extract_knowledge("Observation: AAPL volume spikes consistently before earnings.", CONFIG)
    assert 0 < len(found) <= 5


def test_respects_the_limit() -> None:
    response = "\n".join(["Pattern: new thing detected in data."] * 20)
    found = extract_knowledge(response, AutoCaptureConfig(max_updates_per_turn=3, dedup_threshold=0.9))
    assert len(found) <= 3
    assert len(extract_knowledge(response)) == 1


def test_extracts_typed_facts() -> None:
    response = "Threshold recommendation: flag AAPL if volume exceeds 5M.\nCorrelation: BTC price leads COIN stock."
    found = extract_knowledge(response, CONFIG)
    assert any(each.type in ("threshold", "correlation") for each in found)


def test_returns_nothing_for_an_uninformative_response() -> None:
    assert extract_knowledge("No anomalies detected. Everything looks normal.", CONFIG) == []


def test_what_is_extracted_comes_with_the_row_that_it_says() -> None:
    threshold, pattern, correlation = cofio.extract_knowledge(
        "Correlation: BTC price leads COIN stock.\nPattern: volume spikes before earnings.\n"
        "Threshold: flag AAPL if volume exceeds 5M."
    )
    assert isinstance(threshold, cofio.ExtractedKnowledge)
    assert (threshold.type, threshold.content, threshold.confidence) == (
        "threshold", "flag AAPL if volume exceeds 5M", 0.7,
    )  # fmt: skip
    assert threshold.as_dict()["fields"] == {
        "source": "AAPL", "metric": "volume", "value": 5e6, "direction": "above", "inclusive": False, "unit": "",
    }  # fmt: skip
    assert (pattern.type, pattern.table, pattern.confidence) == ("pattern", "patterns", 0.6)
    assert (correlation.type, correlation.table, correlation.confidence) == ("correlation", "correlations", 0.5)


def test_what_cannot_be_read_for_certain_is_words_alone() -> None:
    [found] = extract_knowledge("Flag AAPL if volume is between 1M and 5M.")
    assert found == ExtractedKnowledge(
        type="threshold", content="Flag AAPL if volume is between 1M and 5M", confidence=0.7
    )


def test_a_bad_configuration_is_refused() -> None:
    with pytest.raises(InvalidInput):
        AutoCaptureConfig(max_updates_per_turn=-1)
    with pytest.raises(InvalidInput):
        AutoCaptureConfig(dedup_threshold=1.5)


def test_the_kind_of_a_fact_counts_as_its_label() -> None:
    assert read_sentence("latency over 300 ms") is None
    told = read_sentence(ExtractedFact(text="latency over 300 ms", kind="threshold"))
    assert told is not None
    assert told.fields["value"] == 300
    assert read_sentence(ExtractedFact(text="flag AAPL if volume exceeds 5M", kind="preference")) is None
