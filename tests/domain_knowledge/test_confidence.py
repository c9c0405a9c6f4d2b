"""The rule of belief: bounded, the same in any order, taken back exactly, and moved the way the verdict says."""

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


def pattern(confidence: float = 0.5, **more: Any) -> Pattern:
    return Pattern(**{"pattern": "volume spikes before earnings", "confidence": confidence, **more})


def after(claim: Claim, verdicts: list[str]) -> Claim:
    for verdict in verdicts:
        claim = apply_verdict(claim, verdict)
    return claim


@given(PRIORS, st.lists(VERDICTS, max_size=40))
def test_confidence_is_a_share_and_follows_from_the_counts(prior: float, verdicts: list[str]) -> None:
    claim = after(pattern(prior), verdicts)
    assert 0 <= claim.confidence <= 1
    assert (claim.confirmed, claim.refuted) == (verdicts.count("confirmed"), verdicts.count("false_alarm"))
    assert claim.prior == prior
    assert claim.confidence == confidence_of(prior, claim.confirmed, claim.refuted)


@given(PRIORS, st.lists(VERDICTS, max_size=20), st.randoms())
def test_the_order_of_verdicts_does_not_matter(prior: float, verdicts: list[str], chance: Any) -> None:
    shuffled = chance.sample(verdicts, len(verdicts))
    assert after(pattern(prior), verdicts) == after(pattern(prior), shuffled)


@given(PRIORS, st.lists(VERDICTS, max_size=20), VERDICTS)
def test_a_verdict_is_taken_back_exactly(prior: float, verdicts: list[str], verdict: str) -> None:
    claim = after(pattern(prior), verdicts)
    assert apply_verdict(apply_verdict(claim, verdict), verdict, times=-1) == claim


@given(PRIORS, st.lists(VERDICTS, max_size=20))
def test_a_confirmation_never_lowers_it_and_a_false_alarm_never_raises_it(prior: float, verdicts: list[str]) -> None:
    claim = after(pattern(prior), verdicts)
    assert (
        apply_verdict(claim, "false_alarm").confidence
        <= claim.confidence
        <= apply_verdict(claim, "confirmed").confidence
    )
    assert apply_verdict(claim, "note") == claim


@given(st.floats(0.01, 0.99), st.integers(0, 50))
def test_a_verdict_moves_what_is_neither_certain_nor_impossible(prior: float, verdicts: int) -> None:
    claim = replace(pattern(prior), confirmed=verdicts, confidence=confidence_of(prior, verdicts, 0))
    assert (
        apply_verdict(claim, "false_alarm").confidence < claim.confidence < apply_verdict(claim, "confirmed").confidence
    )


def test_the_prior_counts_for_as_many_verdicts_as_it_is_strong() -> None:
    assert STRENGTH == 4
    assert confidence_of(0.5, 4, 0) == 0.75  # half way to certain
    assert confidence_of(0.5, 0, 4) == 0.25
    assert confidence_of(0.8, 0, 1) == pytest.approx(0.64)
    assert confidence_of(0.1, 0, 0) == 0.1


@pytest.mark.parametrize("verdict", ["confirmed", "false_alarm"])
def test_what_was_never_given_cannot_be_taken_back(verdict: str) -> None:
    with pytest.raises(InvalidInput, match="no verdict of this kind"):
        apply_verdict(pattern(), verdict, times=-1)


@pytest.mark.parametrize("wrong", [(1.5, 0, 0), (0.5, -1, 0), (0.5, 0, -1), (float("nan"), 0, 0)])
def test_what_is_no_share_or_count_is_refused(wrong: tuple[float, int, int]) -> None:
    with pytest.raises(InvalidInput):
        confidence_of(*wrong)


# ── saying it again ───────────────────────────────────────────────────────────────────────────────────────────────────

OLD = after(Threshold(source="AAPL", metric="volume", value=5e6, direction="above", confidence=0.6), ["confirmed"] * 2)


def test_a_stated_confidence_counts_from_now_on() -> None:
    new = carry_confidence(OLD, replace(OLD, confidence=0.9), stated=True)
    assert (new.confidence, new.prior, new.confirmed, new.refuted) == (0.9, 0.9, 0, 0)


def test_what_says_something_else_starts_from_where_the_old_stood() -> None:
    new = carry_confidence(OLD, replace(OLD, value=6e6), stated=False)  # type: ignore[type-var]
    assert (new.confidence, new.prior, new.confirmed, new.refuted) == (OLD.confidence, OLD.confidence, 0, 0)


def test_what_says_the_same_keeps_its_verdicts() -> None:
    again = Threshold(source="AAPL", metric="volume", value=5e6, direction="above", memory=7, created_at="2026-02-01")
    new = carry_confidence(OLD, again, stated=False)
    assert (new.confidence, new.prior, new.confirmed, new.refuted) == (OLD.confidence, OLD.prior, 2, 0)
    assert new.memory == 7


# ── why it is as strong as it is ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("off_by", "least"), [(0.1, 0.7), (0.2, 0.97), (0.3, 0.97)])
def test_the_prior_is_about_as_strong_as_it_is_good(off_by: float, least: float) -> None:
    """Five verdicts on claims whose stated confidence is off by so much: the table of docs/explanation/knowledge.md."""
    draw = np.random.default_rng(0)
    true = draw.uniform(0.05, 0.95, 100_000)
    prior, confirmed = np.clip(true + draw.normal(0, off_by, true.size), 0, 1), draw.binomial(5, true)
    error = {
        strength: float(np.sqrt(np.mean(((strength * prior + confirmed) / (strength + 5) - true) ** 2)))
        for strength in (1, 2, STRENGTH, 8, 16)
    }
    assert min(error.values()) / error[STRENGTH] >= least
