"""A model that failed is left alone for a while."""

from __future__ import annotations

import pytest

from cofio.errors import Misconfigured, Unavailable
from cofio.ports import Health
from cofio.providers.llms import CircuitBreaker
from cofio.testing import ScriptedLLM

DOWN = Unavailable("The provider answered 503.", "Try later.")


class Watch:
    """A time that moves when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_while_it_rests_nobody_is_asked_and_the_problem_is_told() -> None:
    llm, watch = ScriptedLLM([DOWN, "fine"]), Watch()
    resting = CircuitBreaker(llm, watch)
    for _ in range(3):
        with pytest.raises(Unavailable, match="answered 503"):
            resting.complete("system", "user")
    assert len(llm.calls) == 1
    watch.now += 6
    assert resting.complete("system", "user").text == "fine"


def test_a_rest_is_longer_each_time_and_short_again_after_a_success() -> None:
    llm, watch = ScriptedLLM([DOWN, DOWN, "fine", DOWN, "fine"]), Watch()
    resting = CircuitBreaker(llm, watch)
    for pause, asked in ((0.0, 1), (6.0, 2), (6.0, 2)):  # the second rest takes ten seconds
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


def test_after_a_wrong_key_it_rests_for_a_minute_and_is_unwell_until_it_is_mended() -> None:
    llm, watch = ScriptedLLM([Misconfigured("The key is refused.", "Set it."), "fine"]), Watch()
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


def test_it_is_the_model_that_it_stands_for() -> None:
    llm = ScriptedLLM([], provider_name="ollama", model="gemma3:4b", reconciles=False)
    resting = CircuitBreaker(llm)
    assert (resting.provider_name, resting.model, resting.supports_audn) == ("ollama", "gemma3:4b", False)
    assert resting.profile == llm.profile
