"""Contract suite of the LLM call log. Subclasses define `store` and `clock`, the store's clock."""

from __future__ import annotations

import pytest

from cofio.errors import BudgetSpent, NotFound
from cofio.models.llm_calls import CallOrigin, DaySum, Limits, LLMSpending
from cofio.models.memory import Purge
from cofio.ports import Store
from cofio.testing import FixedClock
from tests.stores.contract import add, apply

ORIGIN = CallOrigin(purpose="learn", client="codex", session="s1", project="/srv/shop", capture=None)
NO_LIMITS = Limits()
DAY = 86_400.0


def call(store: Store, request: str = "question", limits: Limits = NO_LIMITS, origin: CallOrigin = ORIGIN) -> int:
    return store.llm_calls.start("anthropic", "m", origin, request, characters=400, limits=limits)


class LLMCallsContract:
    """Tests of recording, limiting and forgetting LLM calls."""

    def test_call_is_recorded_before_and_after(self, store: Store) -> None:
        number = call(store, "question \x00\ud800 ü")
        running = store.llm_calls.get(number)
        assert (running.outcome, running.input_tokens, running.request) == ("running", 100, "question ? ü")
        store.llm_calls.finish(number, "done", seconds=1.5, reply="answer", tokens=(90, 7))
        result = store.llm_calls.get(number)
        assert (result.outcome, result.seconds, result.reply) == ("done", 1.5, "answer")
        assert (result.input_tokens, result.output_tokens, result.characters) == (90, 7, 400)
        assert (result.purpose, result.client, result.session, result.project) == ("learn", "codex", "s1", "/srv/shop")
        [listed] = store.llm_calls.newest(5)
        assert (listed.id, listed.request, listed.reply, listed.outcome) == (number, "", "", "done")

    def test_unknown_call_raises_not_found(self, store: Store) -> None:
        for number in (1, 1 << 70):
            with pytest.raises(NotFound, match="no language model call"):
                store.llm_calls.get(number)

    def test_call_limit_applies_per_day(self, store: Store, clock: FixedClock) -> None:
        limits = Limits(calls=2)
        for _ in range(2):
            call(store, limits=limits)
        with pytest.raises(BudgetSpent, match="2 calls") as refused:
            call(store, limits=limits)
        assert refused.value.resets_at == "2026-01-08T00:00:00.000000+00:00"
        assert len(store.llm_calls.newest(9)) == 2
        clock.advance(DAY)
        call(store, limits=limits)
        assert store.llm_calls.spent().calls == 1

    def test_tokens_are_reserved_during_a_call_and_counted_afterwards(self, store: Store) -> None:
        limits = Limits(tokens=100)
        running = call(store, limits=limits)
        with pytest.raises(BudgetSpent, match="100 tokens"):
            call(store, limits=limits)
        store.llm_calls.finish(running, "done", seconds=1, tokens=(40, 10))
        assert store.llm_calls.spent() == LLMSpending(1, 50)
        call(store, limits=limits)

    def test_failed_call_costs_nothing(self, store: Store) -> None:
        limits = Limits(calls=1, tokens=1)
        store.llm_calls.finish(call(store, limits=limits), "failed", seconds=1)
        assert store.llm_calls.spent() == LLMSpending(0, 0)
        store.llm_calls.finish(call(store, limits=limits), "refused", seconds=1, tokens=(5, 0))
        assert store.llm_calls.spent() == LLMSpending(1, 5)

    def test_interrupted_call_is_closed_and_counted(self, store: Store, clock: FixedClock) -> None:
        interrupted, done = call(store), call(store)
        store.llm_calls.finish(done, "done", seconds=1, tokens=(10, 1))
        clock.advance(600.0)
        running = call(store)
        assert store.llm_calls.interrupt("2026-01-07T12:05:00Z") == 1
        assert store.llm_calls.interrupt("2026-01-07T12:05:00Z") == 0
        outcomes = [store.llm_calls.get(number).outcome for number in (interrupted, done, running)]
        assert outcomes == ["interrupted", "done", "running"]
        assert store.llm_calls.spent() == LLMSpending(3, 100 + 11 + 100)
        store.llm_calls.finish(interrupted, "done", seconds=700, tokens=(20, 2))  # slow, not interrupted
        assert store.llm_calls.get(interrupted).outcome == "done"

    def test_usage_is_summed_by_day_model_and_session(self, store: Store, clock: FixedClock) -> None:
        store.llm_calls.finish(call(store), "done", seconds=1, tokens=(10, 1))
        store.llm_calls.finish(call(store), "failed", seconds=1)
        clock.advance(DAY)
        store.llm_calls.finish(call(store), "done", seconds=1, tokens=(20, 2))
        first = DaySum("2026-01-07", "anthropic", "m", "codex", "s1", "/srv/shop", 1, 1, 800, 10, 1)
        second = first._replace(day="2026-01-08", failed=0, characters=400, input_tokens=20, output_tokens=2)
        assert store.llm_calls.sums("2026-01-01") == [first, second]
        assert store.llm_calls.sums("2026-01-08") == [second]

    def test_forget_erases_texts_and_keeps_counts(self, store: Store, clock: FixedClock) -> None:
        old = call(store, "old")
        store.llm_calls.finish(old, "done", seconds=1, reply="old", tokens=(10, 1))
        clock.advance(DAY)
        new = call(store, "new")
        assert store.llm_calls.forget("2026-01-08") == 1
        assert store.llm_calls.forget("2026-01-08") == 0
        stored = store.llm_calls.get(old)
        assert (stored.request, stored.reply, stored.input_tokens) == ("", "", 10)
        assert store.llm_calls.get(new).request == "new"

    def test_purge_erases_texts_of_all_calls(self, store: Store) -> None:
        finished, running = call(store, "known: The launch code is tu…"), call(store, "about flowers")
        store.llm_calls.finish(finished, "done", seconds=1, reply="a tulip", tokens=(100, 10))
        apply(store, Purge(add(store, "The launch code is tulip").id))
        store.llm_calls.finish(running, "done", seconds=1, reply="tulip")
        for number in (finished, running):
            deletion = store.llm_calls.get(number)
            assert (deletion.request, deletion.reply, deletion.characters) == ("", "", 400)
