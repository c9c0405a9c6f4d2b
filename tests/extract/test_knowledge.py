"""Extraction of domain knowledge from an analyst's response."""

from __future__ import annotations

import pytest

import cofio
from cofio.domain_knowledge.from_text.extraction import (
    AutoCaptureConfig,
    ExtractedKnowledge,
    extract_knowledge,
    facts,
    read_sentence,
)
from cofio.errors import InvalidInput
from cofio.models.exchange import ExtractedFact


def test_labelled_observation_is_a_pattern() -> None:
    [fact] = facts("Observation: AAPL volume spikes consistently before earnings.")
    assert (fact.kind, fact.confidence) == ("pattern", 0.6)
    assert fact.text == "AAPL volume spikes consistently before earnings"


def test_thresholds_and_correlations_are_distinguished() -> None:
    text = "Threshold recommendation: flag AAPL if volume exceeds 5M.\nCorrelation: BTC price leads COIN stock."
    assert [(fact.kind, fact.confidence, fact.text) for fact in facts(text)] == [
        ("threshold", 0.7, "flag AAPL if volume exceeds 5M"),
        ("correlation", 0.5, "BTC price leads COIN stock"),
    ]


def test_duplicates_are_dropped_and_the_number_is_limited() -> None:
    duplicates = "\n".join(["Pattern: new thing detected in data."] * 20)
    assert len(facts(duplicates, most=3)) == 1
    distinct = "\n".join(f"Pattern: new thing {number} detected in data." for number in range(20))
    assert len(facts(distinct)) == 5
    assert len(facts(distinct, most=3)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "No anomalies detected. Everything looks normal.",
        "Pattern: short.",
        "Pattern: none detected today.",
        "Correlation: no significant correlation was found.",
        "Should we flag AAPL if volume exceeds 5M?",
        "",
    ],
)
def test_uninformative_response_gives_no_facts(text: str) -> None:
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flag AAPL if volume exceeds 5\nflag AAPL if volume exceeds 50", 2),
        ("BTC leads COIN.\nCOIN leads BTC.", 2),
        ("flag AAPL if volume exceeds 5M.\nDo not flag AAPL if volume exceeds 5M.", 2),
        ("Pattern: volume rises on Fridays before noon.\nPattern: volume rises on Fridays before noon today.", 1),
        ("flag AAPL if the daily trading volume is above 5M.\nflag TSLA if the daily trading volume is above 5M.", 2),
    ],
)
def test_texts_that_differ_in_number_name_or_negation_are_distinct(text: str, expected: int) -> None:
    assert len(facts(text)) == expected


def test_source_named_in_the_label_is_part_of_the_fact() -> None:
    [fact] = facts("Threshold for web-1: CPU above 90%")
    assert fact.text == "web-1: CPU above 90%"


def test_removal_is_stored_as_its_result() -> None:
    [fact] = facts("Remove the threshold on AAPL volume.")
    assert fact.text == "no threshold on AAPL volume"


@pytest.mark.parametrize("text", ["We could flag AAPL if volume exceeds 5M", "Maybe BTC price leads COIN stock"])
def test_hypothetical_statement_is_dropped(text: str) -> None:
    assert facts(text) == []


# ── Public function ───────────────────────────────────────────────────────────────────────────────────────────────────

CONFIG = AutoCaptureConfig(max_updates_per_turn=5, dedup_threshold=0.9)


def test_extract_knowledge_returns_patterns() -> None:
    extracted = extract_knowledge("Observation: AAPL volume spikes consistently before earnings.", CONFIG)
    assert 0 < len(extracted) <= 5


def test_extract_knowledge_respects_the_limit() -> None:
    response = "\n".join(["Pattern: new thing detected in data."] * 20)
    extracted = extract_knowledge(response, AutoCaptureConfig(max_updates_per_turn=3, dedup_threshold=0.9))
    assert len(extracted) <= 3
    assert len(extract_knowledge(response)) == 1


def test_extract_knowledge_returns_typed_facts() -> None:
    response = "Threshold recommendation: flag AAPL if volume exceeds 5M.\nCorrelation: BTC price leads COIN stock."
    extracted = extract_knowledge(response, CONFIG)
    assert any(knowledge.type in ("threshold", "correlation") for knowledge in extracted)


def test_extract_knowledge_of_an_uninformative_response_is_empty() -> None:
    assert extract_knowledge("No anomalies detected. Everything looks normal.", CONFIG) == []


def test_extracted_knowledge_includes_its_row() -> None:
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


def test_ambiguous_sentence_gives_text_only() -> None:
    [knowledge] = extract_knowledge("Flag AAPL if volume is between 1M and 5M.")
    assert knowledge == ExtractedKnowledge(
        type="threshold", content="Flag AAPL if volume is between 1M and 5M", confidence=0.7
    )


def test_invalid_configuration_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        AutoCaptureConfig(max_updates_per_turn=-1)
    with pytest.raises(InvalidInput):
        AutoCaptureConfig(dedup_threshold=1.5)


def test_kind_of_a_fact_serves_as_its_label() -> None:
    assert read_sentence("latency over 300 ms") is None
    row = read_sentence(ExtractedFact(text="latency over 300 ms", kind="threshold"))
    assert row is not None
    assert row.fields["value"] == 300
    assert read_sentence(ExtractedFact(text="flag AAPL if volume exceeds 5M", kind="preference")) is None
