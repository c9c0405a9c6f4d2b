"""The confidence rule: bounded, independent of order, exactly reversible, and monotonic in each verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.domain_knowledge.confidence import STRENGTH, apply_verdict, carry_confidence, confidence_of
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import Claim, Pattern, Threshold

PRIORS = st.floats(0, 1)
VERDICTS = st.sampled_from(["confirmed", "false_alarm", "note"])


def pattern(confidence: float = 0.5, **fields: Any) -> Pattern:
    return Pattern(**{"pattern": "volume spikes before earnings", "confidence": confidence, **fields})


def apply_verdicts(claim: Claim, verdicts: list[str]) -> Claim:
    for verdict in verdicts:
        claim = apply_verdict(claim, verdict)
    return claim


@given(PRIORS, st.lists(VERDICTS, max_size=40))
def test_confidence_is_a_probability_computed_from_the_counts(prior: float, verdicts: list[str]) -> None:
    claim = apply_verdicts(pattern(prior), verdicts)
    assert 0 <= claim.confidence <= 1
    assert (claim.confirmed, claim.refuted) == (verdicts.count("confirmed"), verdicts.count("false_alarm"))
    assert claim.prior == prior
    assert claim.confidence == confidence_of(prior, claim.confirmed, claim.refuted)


@given(PRIORS, st.lists(VERDICTS, max_size=20), st.randoms())
def test_order_of_verdicts_does_not_matter(prior: float, verdicts: list[str], random_source: Any) -> None:
    shuffled = random_source.sample(verdicts, len(verdicts))
    assert apply_verdicts(pattern(prior), verdicts) == apply_verdicts(pattern(prior), shuffled)


@given(PRIORS, st.lists(VERDICTS, max_size=20), VERDICTS)
def test_removing_a_verdict_is_exact(prior: float, verdicts: list[str], verdict: str) -> None:
    claim = apply_verdicts(pattern(prior), verdicts)
    assert apply_verdict(apply_verdict(claim, verdict), verdict, times=-1) == claim


@given(PRIORS, st.lists(VERDICTS, max_size=20))
def test_confirmation_never_lowers_and_false_alarm_never_raises_confidence(prior: float, verdicts: list[str]) -> None:
    claim = apply_verdicts(pattern(prior), verdicts)
    assert (
        apply_verdict(claim, "false_alarm").confidence
        <= claim.confidence
        <= apply_verdict(claim, "confirmed").confidence
    )
    assert apply_verdict(claim, "note") == claim


@given(st.floats(0.01, 0.99), st.integers(0, 50))
def test_verdict_changes_a_confidence_between_zero_and_one(prior: float, verdicts: int) -> None:
    claim = replace(pattern(prior), confirmed=verdicts, confidence=confidence_of(prior, verdicts, 0))
    assert (
        apply_verdict(claim, "false_alarm").confidence < claim.confidence < apply_verdict(claim, "confirmed").confidence
    )


def test_prior_weighs_as_much_as_its_strength_in_verdicts() -> None:
    assert STRENGTH == 4
    assert confidence_of(0.5, 4, 0) == 0.75  # halfway to 1
    assert confidence_of(0.5, 0, 4) == 0.25
    assert confidence_of(0.8, 0, 1) == pytest.approx(0.64)
    assert confidence_of(0.1, 0, 0) == 0.1


@pytest.mark.parametrize("verdict", ["confirmed", "false_alarm"])
def test_verdict_that_was_not_given_cannot_be_removed(verdict: str) -> None:
    with pytest.raises(InvalidInput, match=r"has no verdict .* to remove"):
        apply_verdict(pattern(), verdict, times=-1)


@pytest.mark.parametrize("arguments", [(1.5, 0, 0), (0.5, -1, 0), (0.5, 0, -1), (float("nan"), 0, 0)])
def test_invalid_probability_or_count_is_rejected(arguments: tuple[float, int, int]) -> None:
    with pytest.raises(InvalidInput):
        confidence_of(*arguments)


# ── Restating a claim ─────────────────────────────────────────────────────────────────────────────────────────────────

OLD = apply_verdicts(
    Threshold(source="AAPL", metric="volume", value=5e6, direction="above", confidence=0.6), ["confirmed"] * 2
)


def test_stated_confidence_replaces_prior_and_verdicts() -> None:
    new = carry_confidence(OLD, replace(OLD, confidence=0.9), stated=True)
    assert (new.confidence, new.prior, new.confirmed, new.refuted) == (0.9, 0.9, 0, 0)


def test_changed_claim_keeps_the_confidence_as_its_prior() -> None:
    new = carry_confidence(OLD, replace(OLD, value=6e6), stated=False)  # type: ignore[type-var]
    assert (new.confidence, new.prior, new.confirmed, new.refuted) == (OLD.confidence, OLD.confidence, 0, 0)


def test_unchanged_claim_keeps_its_verdicts() -> None:
    restated = Threshold(
        source="AAPL", metric="volume", value=5e6, direction="above", memory=7, created_at="2026-02-01"
    )
    new = carry_confidence(OLD, restated, stated=False)
    assert (new.confidence, new.prior, new.confirmed, new.refuted) == (OLD.confidence, OLD.prior, 2, 0)
    assert new.memory == 7


# ── Choice of the strength ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("prior_error", "min_ratio"), [(0.1, 0.7), (0.2, 0.97), (0.3, 0.97)])
def test_strength_of_the_prior_is_close_to_optimal(prior_error: float, min_ratio: float) -> None:
    """Check the table of docs/explanation/knowledge.md: five verdicts on claims whose prior has the given error."""
    random_source = np.random.default_rng(0)
    actual = random_source.uniform(0.05, 0.95, 100_000)
    prior, confirmed = (
        np.clip(actual + random_source.normal(0, prior_error, actual.size), 0, 1),
        random_source.binomial(5, actual),
    )
    error = {
        strength: float(np.sqrt(np.mean(((strength * prior + confirmed) / (strength + 5) - actual) ** 2)))
        for strength in (1, 2, STRENGTH, 8, 16)
    }
    assert min(error.values()) / error[STRENGTH] >= min_ratio
