"""The circuit breaker of LLM providers."""

from __future__ import annotations

from contextlib import suppress

import pytest

from cofio.errors import Misconfigured, Unavailable
from cofio.ports import Health
from cofio.providers.llms import CircuitBreaker
from cofio.testing import ScriptedLLM

DOWN = Unavailable("The provider answered 503.", "Try later.")


class ManualClock:
    """Clock that a test advances by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_open_circuit_rejects_calls_and_reports_the_problem() -> None:
    llm, watch = ScriptedLLM([DOWN, "fine"]), ManualClock()
    resting = CircuitBreaker(llm, watch)
    for _ in range(3):
        with pytest.raises(Unavailable, match="answered 503"):
            resting.complete("system", "user")
    assert len(llm.calls) == 1
    watch.now += 6
    assert resting.complete("system", "user").text == "fine"


def test_pauses_grow_and_reset_after_success() -> None:
    llm, watch = ScriptedLLM([DOWN, DOWN, "fine", DOWN, "fine"]), ManualClock()
    resting = CircuitBreaker(llm, watch)
    for pause, asked in ((0.0, 1), (6.0, 2), (6.0, 2)):  # the second pause takes ten seconds
        watch.now += pause
        with pytest.raises(Unavailable):
            resting.complete("system", "user")
        assert len(llm.calls) == asked
    watch.now += 5
    resting.complete("system", "user")
    with pytest.raises(Unavailable):
        resting.complete("system", "user")
    watch.now += 6
    assert resting.complete("system", "user").text == "fine"


def test_rejected_key_opens_the_circuit_for_a_minute_and_is_unhealthy() -> None:
    llm, watch = ScriptedLLM([Misconfigured("The key is refused.", "Set it."), "fine"]), ManualClock()
    resting = CircuitBreaker(llm, watch)
    assert resting.health_check() == Health(healthy=True)
    for _ in range(2):
        with pytest.raises(Misconfigured, match=r"The key is refused\. Set it\."):
            resting.complete("system", "user")
    assert len(llm.calls) == 1
    watch.now += 61
    assert resting.health_check() == Health(healthy=False, problem="The key is refused. Set it.")
    resting.complete("system", "user")
    assert resting.health_check().healthy


def test_breaker_has_name_and_profile_of_its_model() -> None:
    llm = ScriptedLLM([], provider_name="ollama", model="gemma3:4b", reconciles=False)
    resting = CircuitBreaker(llm)
    assert (resting.provider_name, resting.model, resting.supports_audn) == ("ollama", "gemma3:4b", False)
    assert resting.profile == llm.profile


def test_repeated_failure_or_wrong_setting_is_a_problem_until_a_call_succeeds() -> None:
    watch, refused = ManualClock(), Misconfigured("The key is refused.", "Set it.")
    resting = CircuitBreaker(ScriptedLLM([DOWN, DOWN, "fine", refused, "fine"]), watch)
    for expected in ([], ["answered 503"], [], ["key is refused"], []):
        with suppress(Unavailable, Misconfigured):
            resting.complete("system", "user")
        assert len(resting.problems()) == len(expected)
        assert all(text in problem.says for text, problem in zip(expected, resting.problems(), strict=True))
        watch.now += 1_000
