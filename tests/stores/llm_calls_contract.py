"""What every Store must know of language model calls. Give `store` and `clock` fixtures; the clock is the store's."""

from __future__ import annotations

import pytest

from cofio.errors import BudgetSpent, NotFound
from cofio.models.llm_calls import CallOrigin, DaySum, Limits, LLMSpending
from cofio.models.memory import Purge
from cofio.ports import Store
from cofio.testing import FixedClock
from tests.stores.contract import add, apply

WEEKEND = CallOrigin(purpose="learn", client="codex", session="s1", project="/srv/shop", capture=None)
NO_LIMITS = Limits()
DAY = 86_400.0


def call(store: Store, request: str = "question", limits: Limits = NO_LIMITS, occasion: CallOrigin = WEEKEND) -> int:
    return store.llm_calls.start("anthropic", "m", occasion, request, characters=400, limits=limits)


class LLMCallsContract:
    """The suite."""

    def test_a_call_is_recorded_before_and_after(self, store: Store) -> None:
        number = call(store, "question \x00\ud800 ü")
        running = store.llm_calls.get(number)
        assert (running.outcome, running.input_tokens, running.request) == ("running", 100, "question ? ü")
        store.llm_calls.finish(number, "done", seconds=1.5, reply="answer", tokens=(90, 7))
        done = store.llm_calls.get(number)
        assert (done.outcome, done.seconds, done.reply) == ("done", 1.5, "answer")
        assert (done.input_tokens, done.output_tokens, done.characters) == (90, 7, 400)
        assert (done.purpose, done.client, done.session, done.project) == ("learn", "codex", "s1", "/srv/shop")
        [listed] = store.llm_calls.newest(5)
        assert (listed.id, listed.request, listed.reply, listed.outcome) == (number, "", "", "done")

    def test_an_unknown_call_is_not_found(self, store: Store) -> None:
        for number in (1, 1 << 70):
            with pytest.raises(NotFound, match="no language model call"):
                store.llm_calls.get(number)

    def test_the_limit_of_calls_holds_for_a_day(self, store: Store, clock: FixedClock) -> None:
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

    def test_tokens_are_reserved_while_a_call_runs_and_counted_when_it_is_done(self, store: Store) -> None:
        limits = Limits(tokens=100)
        running = call(store, limits=limits)
        with pytest.raises(BudgetSpent, match="100 tokens"):
            call(store, limits=limits)
        store.llm_calls.finish(running, "done", seconds=1, tokens=(40, 10))
        assert store.llm_calls.spent() == LLMSpending(1, 50)
        call(store, limits=limits)

    def test_a_failed_call_costs_nothing(self, store: Store) -> None:
        limits = Limits(calls=1, tokens=1)
        store.llm_calls.finish(call(store, limits=limits), "failed", seconds=1)
        assert store.llm_calls.spent() == LLMSpending(0, 0)
        store.llm_calls.finish(call(store, limits=limits), "refused", seconds=1, tokens=(5, 0))
        assert store.llm_calls.spent() == LLMSpending(1, 5)

    def test_a_call_whose_process_died_is_closed_and_stays_counted(self, store: Store, clock: FixedClock) -> None:
        lost, done = call(store), call(store)
        store.llm_calls.finish(done, "done", seconds=1, tokens=(10, 1))
        clock.advance(600.0)
        running = call(store)
        assert store.llm_calls.interrupt("2026-01-07T12:05:00Z") == 1
        assert store.llm_calls.interrupt("2026-01-07T12:05:00Z") == 0
        outcomes = [store.llm_calls.get(number).outcome for number in (lost, done, running)]
        assert outcomes == ["interrupted", "done", "running"]
        assert store.llm_calls.spent() == LLMSpending(3, 100 + 11 + 100)
        store.llm_calls.finish(lost, "done", seconds=700, tokens=(20, 2))  # it was slow, not dead
        assert store.llm_calls.get(lost).outcome == "done"

    def test_sums_are_by_day_model_and_session(self, store: Store, clock: FixedClock) -> None:
        store.llm_calls.finish(call(store), "done", seconds=1, tokens=(10, 1))
        store.llm_calls.finish(call(store), "failed", seconds=1)
        clock.advance(DAY)
        store.llm_calls.finish(call(store), "done", seconds=1, tokens=(20, 2))
        first = DaySum("2026-01-07", "anthropic", "m", "codex", "s1", "/srv/shop", 1, 1, 800, 10, 1)
        second = first._replace(day="2026-01-08", failed=0, characters=400, input_tokens=20, output_tokens=2)
        assert store.llm_calls.sums("2026-01-01") == [first, second]
        assert store.llm_calls.sums("2026-01-08") == [second]

    def test_old_texts_are_forgotten_and_the_counts_stay(self, store: Store, clock: FixedClock) -> None:
        old = call(store, "old")
        store.llm_calls.finish(old, "done", seconds=1, reply="old", tokens=(10, 1))
        clock.advance(DAY)
        new = call(store, "new")
        assert store.llm_calls.forget("2026-01-08") == 1
        assert store.llm_calls.forget("2026-01-08") == 0
        kept = store.llm_calls.get(old)
        assert (kept.request, kept.reply, kept.input_tokens) == ("", "", 10)
        assert store.llm_calls.get(new).request == "new"

    def test_a_purge_erases_all_texts_for_any_of_them_may_hold_the_words(self, store: Store) -> None:
        finished, running = call(store, "known: The launch code is tu…"), call(store, "about flowers")
        store.llm_calls.finish(finished, "done", seconds=1, reply="a tulip", tokens=(100, 10))
        apply(store, Purge(add(store, "The launch code is tulip").id))
        store.llm_calls.finish(running, "done", seconds=1, reply="tulip")
        for number in (finished, running):
            erased = store.llm_calls.get(number)
            assert (erased.request, erased.reply, erased.characters) == ("", "", 400)
