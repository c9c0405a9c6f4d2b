"""Recording and limiting LLM calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import BudgetSpent, NoReply, RefusedError, Unavailable
from cofio.ingest.sanitize import redact
from cofio.models.exchange import TokenUsage
from cofio.models.json_values import decode
from cofio.models.llm_calls import CallOrigin, Limits, LLMSpending, LLMTotal, LLMUsage, occasion
from cofio.ports import Completion
from cofio.providers.llms import CircuitBreaker, MeteredLLM
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FixedClock())


def test_call_is_recorded_with_origin_and_redacted_texts(store: MemoryStore) -> None:
    llm = ScriptedLLM([Completion("done: ghp_" + "a1B2" * 9, usage=TokenUsage(1, 12, 3))])
    metered = MeteredLLM(llm, store.llm_calls, Limits(), redact)
    with occasion("learn", client="codex", session="s1"):
        metered.complete("system", "my token is ghp_" + "a1B2" * 9)
    result = store.llm_calls.get(1)
    assert (result.provider, result.purpose, result.client, result.session) == (
        llm.provider_name,
        "learn",
        "codex",
        "s1",
    )
    assert (result.outcome, result.input_tokens, result.output_tokens) == ("done", 12, 3)
    assert result.request.startswith("system\n\nmy token is")
    assert "a1B2" not in result.request + result.reply


def test_texts_are_not_recorded_without_redactor(store: MemoryStore) -> None:
    MeteredLLM(ScriptedLLM(["reply"]), store.llm_calls, Limits(), None).complete("system", "user")
    result = store.llm_calls.get(1)
    assert (result.request, result.reply, result.characters) == ("", "", 10)


def test_missing_token_counts_are_estimated(store: MemoryStore) -> None:
    MeteredLLM(ScriptedLLM(["r" * 40]), store.llm_calls, Limits(), redact).complete("s" * 100, "u" * 100)
    assert store.llm_calls.spent() == LLMSpending(1, 60)


def test_exhausted_budget_sends_nothing_and_keeps_the_circuit_closed(store: MemoryStore) -> None:
    llm = ScriptedLLM(["one", "two"])
    metered = CircuitBreaker(MeteredLLM(llm, store.llm_calls, Limits(calls=1), redact))
    metered.complete("system", "user")
    for _ in range(2):
        with pytest.raises(BudgetSpent, match="daily limit"):
            metered.complete("system", "user")
    assert len(llm.calls) == 1
    assert metered.health_check().healthy


@pytest.mark.parametrize(
    ("error", "outcome", "calls"), [(Unavailable("down"), "failed", 0), (RefusedError("no"), "refused", 1)]
)
def test_failed_call_is_recorded(store: MemoryStore, error: Exception, outcome: str, calls: int) -> None:
    metered = MeteredLLM(ScriptedLLM([error]), store.llm_calls, Limits(calls=9), redact)
    with pytest.raises(type(error)):
        metered.complete("system", "user")
    assert store.llm_calls.get(1).outcome == outcome
    assert store.llm_calls.spent().calls == calls


def test_usage_of_a_newer_version_is_read(store: MemoryStore) -> None:
    MeteredLLM(ScriptedLLM(["reply"]), store.llm_calls, Limits(), None).complete("system", "user")
    call = store.llm_calls.newest(1)[0]
    total = {"provider": "p", "model": "m", "calls": 1, "later": 1}
    result = {
        "limits": {"calls": 1, "tokens": 2, "later": 3},
        "today": {"calls": 1, "tokens": 2, "later": 3},
        "resets_at": "2026-01-08",
        "periods": [{"days": 1, "models": [total], "sessions": []}],
        "calls": [{**call.as_dict(), "later": 1}],
        "later": 1,
    }
    usage = decode(LLMUsage, result)
    assert (usage.limits, usage.today, usage.calls) == (Limits(1, 2), LLMSpending(1, 2), (call,))
    assert usage.periods[0].models == (LLMTotal(provider="p", model="m", calls=1),)


@pytest.mark.parametrize("error", [NoReply("too slow"), KeyboardInterrupt()])
def test_call_that_may_be_billed_counts_its_estimate(store: MemoryStore, error: BaseException) -> None:
    metered = MeteredLLM(_Raising(error), store.llm_calls, Limits(calls=1), redact)
    with pytest.raises(type(error)):
        metered.complete("s" * 100, "u" * 100)
    result = store.llm_calls.get(1)
    assert (result.outcome, result.input_tokens, result.output_tokens) == ("interrupted", 50, 0)
    assert store.llm_calls.spent() == LLMSpending(1, 50)
    with pytest.raises(BudgetSpent):
        metered.complete("system", "user")


class _Raising(ScriptedLLM):
    def __init__(self, error: BaseException) -> None:
        super().__init__([])
        self._error = error

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        raise self._error


def test_interrupted_calls_are_closed() -> None:
    clock = FixedClock("2026-01-07T12:00:00Z")
    store = MemoryStore(clock)
    with Keeper(store, HashEmbedder(), clock, llm_seconds=300.0) as keeper:
        for _ in range(3):
            store.llm_calls.start("anthropic", "m", CallOrigin(), "question", characters=400, limits=Limits())
            clock.advance(200.0)
        assert [call.outcome for call in keeper.llm_usage().calls] == ["running", "interrupted", "interrupted"]
        clock.advance(200.0)
        assert keeper.llm_call(3).outcome == "interrupted"
        assert keeper.llm_usage().today == LLMSpending(3, 300)


def test_service_start_closes_interrupted_calls() -> None:
    clock = FixedClock("2026-01-07T12:00:00Z")
    store = MemoryStore(clock)
    with Keeper(store, HashEmbedder(), clock) as keeper:
        store.llm_calls.start("anthropic", "m", CallOrigin(), "question", characters=400, limits=Limits())
        clock.advance(3_600.0)
        keeper.services.retention.apply(captures=30, retrievals=180)  # the worker does so on start
        assert store.llm_calls.get(1).outcome == "interrupted"
