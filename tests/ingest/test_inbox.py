"""The inbox worker: exactly once, in order, with retries, parking and a balanced inbox_status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, NotConfigured, RefusedError, TooBusy, Unavailable, Unreadable
from cofio.ingest.inbox import PARKED_AFTER
from cofio.models.exchange import Exchange, InboxStatus, ItemResolution, LearningResult, Sentence, TokenUsage
from cofio.ports import Completion
from cofio.server.background.inbox_worker import InboxWorker
from cofio.testing import ScriptedLLM
from tests.ingest.conftest import KeeperFactory

SAID = "Our team decided to adopt microservices for scalability"  # no pattern matches it, so the LLM is called
FACTS = json.dumps({"facts": [{"text": "The team adopts microservices", "category": "decision"}]})


def drain(keeper: Keeper) -> InboxStatus:
    InboxWorker(keeper).drain()
    return keeper.inbox_status()


def test_capture_is_pending_until_the_worker_runs(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    captured = keeper.capture("I prefer tabs over spaces.")
    assert (captured.new, captured.state) == (True, "pending")
    assert keeper.inbox_status() == InboxStatus(
        captured=1, stored=0, merged=0, rejected=0, pending=1, parked=0, oldest=keeper.item(captured.id).received_at
    )
    assert drain(keeper).stored == 1
    assert [memory.text for memory in keeper] == ["User prefers tabs over spaces"]
    item = keeper.item(captured.id)
    assert item.state == "stored"
    assert item.result["stored_count"] == 1
    assert item.changeset == item.result["changeset"]


def test_duplicate_delivery_is_learned_once(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    turn = {"client": "claude-code", "session": "s1", "turn": "1"}
    first = keeper.capture("I prefer tabs over spaces.", **turn)
    duplicate = keeper.capture("I prefer tabs over spaces.", **turn)
    assert (duplicate.id, duplicate.new) == (first.id, False)
    drain(keeper)
    third = keeper.capture("I prefer tabs over spaces.", wait=True, **turn)
    assert (third.new, third.state) == (False, "stored")
    [memory] = keeper
    assert memory.occurrences == 1
    assert keeper.inbox_status().captured == 1


def test_deliveries_without_a_turn_id_all_count(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    for _ in range(2):
        keeper.capture("I prefer tabs over spaces.", wait=True)
    inbox_status = keeper.inbox_status()
    assert (inbox_status.captured, inbox_status.stored, inbox_status.merged) == (2, 1, 1)


def test_capture_waits_while_the_provider_is_down(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM([Unavailable("Anthropic answered 503.", "Try later."), FACTS])
    keeper = make_keeper(llm)
    captured = keeper.capture(SAID, wait=True)
    assert (captured.state, captured.reason) == ("pending", "Anthropic answered 503.")
    item = keeper.item(captured.id)
    assert item.attempts == 1
    assert item.due_at > item.received_at
    assert keeper.services.captures.due() == []
    keeper.services.captures.process(item)  # when it is due
    assert keeper.inbox_status().stored == 1


def test_pattern_facts_are_learned_once_while_the_provider_is_down(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM([Unavailable("down", "wait"), Unavailable("down", "wait"), FACTS])
    keeper = make_keeper(llm)
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    assert captured.state == "pending"
    assert [memory.text for memory in keeper] == ["User prefers tabs over spaces"]
    for _ in range(2):
        keeper.services.captures.process(keeper.item(captured.id))
    item = keeper.item(captured.id)
    assert (item.state, len(item.result["actions"])) == ("stored", 2)
    assert {memory.text: memory.occurrences for memory in keeper} == {
        "User prefers tabs over spaces": 1,
        "The team adopts microservices": 1,
    }
    assert keeper.inbox_status().balanced


def test_unreadable_reply_keeps_pattern_facts_and_parks_the_item(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM(["Sorry, no."] * PARKED_AFTER))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    for _ in range(PARKED_AFTER - 1):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "parked"
    [memory] = keeper
    assert (memory.text, memory.occurrences) == ("User prefers tabs over spaces", 1)


def test_earlier_outage_does_not_count_against_an_item(make_keeper: KeeperFactory) -> None:
    outages = [Unavailable("down", "wait")] * 5
    keeper = make_keeper(ScriptedLLM([*outages, "Sorry, no.", FACTS]))
    captured = keeper.capture(SAID)
    for _ in range(7):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "stored"


def test_outage_of_years_does_not_fail(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([Unavailable("down", "wait")] * 2000))
    captured = keeper.capture(SAID)
    for _ in range(1_100):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).attempts == 1_100


def test_refused_job_is_parked_at_once(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([RefusedError("The model refused.", "Rephrase.")]))
    job = keeper.submit("User: use drizzle")
    drain(keeper)
    assert keeper.item(job.id).state == "parked"


def test_waiting_delivery_of_a_pending_turn_retries_it(make_keeper: KeeperFactory) -> None:
    turn = {"client": "c", "session": "s", "turn": "1"}
    keeper = make_keeper()
    keeper.capture("I prefer tabs over spaces.", **turn)
    duplicate = keeper.capture("I prefer tabs over spaces.", wait=True, **turn)
    assert (duplicate.new, duplicate.state) == (False, "stored")


def test_purged_text_is_not_learned_from_pending_items(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.capture("I prefer tabs over spaces. We switched from npm to pnpm.", wait=True)
    keeper.capture("I   prefer **tabs** over\nspaces.")
    waiting = keeper.services.captures.due()
    purged = next(memory for memory in keeper if "tabs" in memory.text)
    keeper.purge(purged.id)
    for item in waiting:  # read before the purge
        keeper.services.captures.process(item)
    assert [memory.text for memory in keeper] == ["Team switched from npm to pnpm"]
    assert "tabs" not in str([memory.as_dict() for memory in keeper])


def test_surplus_facts_of_an_exchange_are_dropped_and_reported(make_keeper: KeeperFactory) -> None:
    text = "\n".join(f"The port of service{number} is {8000 + number}." for number in range(80))
    captured = make_keeper().capture(text, wait=True)
    assert captured.result["stored_count"] == 50
    assert captured.reason == "Kept the first 50 of 80 facts"


def test_outage_does_not_park_an_item(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([Unavailable("down", "wait")] * 10))
    captured = keeper.capture(SAID)
    for _ in range(10):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "pending"
    assert keeper.item(captured.id).attempts == 10


def test_outage_does_not_delay_pattern_facts(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([Unavailable("down", "wait")] * 10))
    keeper.capture(SAID)
    keeper.capture("I prefer tabs over spaces.")
    inbox_status = drain(keeper)
    assert (inbox_status.stored, inbox_status.pending) == (1, 1)


def test_unreadable_item_is_parked_with_the_reason_and_can_be_retried(
    make_keeper: KeeperFactory,
) -> None:
    keeper = make_keeper(ScriptedLLM(["Sorry, I can't help with that."] * PARKED_AFTER + [FACTS]))
    captured = keeper.capture(SAID)
    for _ in range(PARKED_AFTER):
        keeper.services.captures.process(keeper.item(captured.id))
    item = keeper.item(captured.id)
    assert item.state == "parked"
    assert "could not be read" in item.reason
    inbox_status = keeper.inbox_status()
    assert (inbox_status.pending, inbox_status.parked, inbox_status.balanced) == (1, 1, True)
    assert keeper.retry(captured.id).attempts == 0
    assert drain(keeper).stored == 1


def test_unexpected_error_parks_the_item_and_others_continue(
    make_keeper: KeeperFactory, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = make_keeper(ScriptedLLM([ValueError("a bug")] * PARKED_AFTER))
    captured = keeper.capture(SAID)
    for _ in range(PARKED_AFTER):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).reason == "ValueError: a bug"
    assert keeper.item(captured.id).state == "parked"
    keeper.capture("I prefer tabs over spaces.")
    assert drain(keeper).stored == 1
    assert "a bug" in caplog.text


def test_refusal_by_the_llm_keeps_pattern_facts(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([RefusedError("The model refused.", "Rephrase.")]))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    assert captured.state == "stored"
    assert captured.result["method"] == "pattern"


def test_full_inbox_rejects_new_turns_and_accepts_known_ones(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(inbox_limit=2)
    turn = {"client": "c", "session": "s", "turn": "1"}
    keeper.capture("I prefer tabs.", **turn)
    keeper.capture("I prefer spaces.")
    with pytest.raises(TooBusy):
        keeper.capture("I prefer neither.")
    assert keeper.capture("I prefer tabs.", **turn).new is False
    assert keeper.inbox_status().captured == 2


def test_captures_survive_a_restart(make_keeper: KeeperFactory, tmp_path: Path) -> None:
    captured = make_keeper().capture("I prefer tabs over spaces.")
    restarted = make_keeper()
    assert drain(restarted).stored == 1
    assert restarted.item(captured.id).state == "stored"


def test_job_without_an_llm_is_rejected_or_waits(make_keeper: KeeperFactory) -> None:
    with pytest.raises(NotConfigured):
        make_keeper().submit("User: use drizzle")
    job = make_keeper(ScriptedLLM([])).submit("User: use drizzle")
    keeper_without_llm = make_keeper()
    InboxWorker(keeper_without_llm).drain()
    assert keeper_without_llm.item(job.id).state == "pending"
    assert "No language model is configured" in keeper_without_llm.item(job.id).reason


def test_item_attempted_twice_is_learned_once(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    captured = keeper.capture("I prefer tabs over spaces.")
    item = keeper.item(captured.id)
    keeper.services.captures.process(item)
    keeper.services.captures.process(item)  # a second worker had read the item before it was resolved
    [memory] = keeper
    assert memory.occurrences == 1
    assert len(keeper.changes()) == 1
    assert keeper.inbox_status().stored == 1


def test_stopped_worker_leaves_items_pending(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    for number in range(3):
        keeper.capture(f"The port of service{number} is 80{number}0.")
    worker = InboxWorker(keeper)
    worker.stop()
    assert worker.drain() == 0
    assert keeper.inbox_status().pending == 3


def test_text_of_old_captures_is_deleted_and_the_counts_are_kept(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    captured = keeper.capture("I prefer tabs over spaces.", wait=True)
    assert keeper.services.captures.forget("2030-01-01") == 1
    assert keeper.item(captured.id).exchange is None
    assert keeper.inbox_status().stored == 1


def test_exchange_round_trips_through_a_dictionary() -> None:
    exchange = Exchange(messages=(), source="a/b", turn="1", injected=("We use tabs.",))
    assert Exchange.from_dict(exchange.as_dict()) == exchange


def test_resolved_item_cannot_be_resolved_again(make_keeper: KeeperFactory, tmp_path: Path) -> None:
    from cofio.stores.sqlite.store import SqliteStore
    from cofio.testing import FixedClock

    keeper = make_keeper()
    captured = keeper.capture("I prefer tabs over spaces.", wait=True)
    store = SqliteStore(tmp_path / "cofio.db", FixedClock())
    with pytest.raises(Conflict):
        store.inbox.settle(ItemResolution(item=captured.id, state="rejected"))
    store.close()


def test_text_purged_during_the_llm_call_is_not_restored(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    purged_id = keeper.add("The team adopts microservices").memory_id

    class PurgingLLM(ScriptedLLM):
        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            reply = super().complete(system, user, schema=schema)
            if len(self.calls) == 1:
                keeper.purge(purged_id)
            return reply

    empty_reply = json.dumps({"facts": []})
    llm_keeper = make_keeper(PurgingLLM([FACTS, empty_reply]))
    captured = llm_keeper.capture(f"{SAID}. The team adopts microservices.", wait=True)
    item = llm_keeper.item(captured.id)
    assert (item.state, item.faults) == ("pending", 0)
    llm_keeper.services.captures.process(item)
    assert list(llm_keeper) == []
    assert llm_keeper.inbox_status().balanced


def test_purge_removes_injected_text(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    purged_id = keeper.add("The vault code is 4711").memory_id
    captured = keeper.capture("Hi there!", wait=True, injected=("The vault code is 4711",))
    keeper.purge(purged_id)
    assert "4711" not in str(keeper.item(captured.id).as_dict())


def test_retry_of_a_partly_learned_item_counts_nothing_twice(make_keeper: KeeperFactory) -> None:
    both_facts = json.dumps({"facts": ["User prefers tabs over spaces", "The team adopts microservices"]})
    keeper = make_keeper(ScriptedLLM([Unavailable("down", "wait"), both_facts]))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    keeper.services.captures.process(keeper.item(captured.id))
    assert {memory.text: memory.occurrences for memory in keeper} == {
        "User prefers tabs over spaces": 1,
        "The team adopts microservices": 1,
    }
    assert keeper.item(captured.id).reason == ""


def test_two_workers_on_a_partly_learned_item_count_once(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([Unavailable("down", "wait"), FACTS]))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.")
    other = make_keeper(_InterruptedLLM([FACTS], lambda: keeper.services.captures.process(keeper.item(captured.id))))
    other.services.captures.process(other.item(captured.id))
    assert {memory.occurrences for memory in keeper} == {1}
    keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.inbox_status().stored == 1
    assert {memory.occurrences for memory in keeper} == {1}


class _InterruptedLLM(ScriptedLLM):
    """Call a function during every completion."""

    def __init__(self, replies: list[str], callback: Callable[[], None]) -> None:
        super().__init__(replies)
        self._callback = callback

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = super().complete(system, user, schema=schema)
        self._callback()
        return reply


def test_failed_attempt_without_an_item_stores_nothing(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM(["Sorry, no."]))
    with pytest.raises(Unreadable):
        keeper.learn(f"I prefer tabs over spaces. {SAID}.")
    assert list(keeper) == []


def test_result_of_a_newer_version_is_read() -> None:
    sentence = {"text": "We use tabs.", "role": "user", "way": "model", "reason": "fact-like", "later": 1}
    data = {**LearningResult(usage=TokenUsage(2, 10, 3, 4, 5), method="llm", dry_run=True).as_dict(), "later": 1}
    data |= {"usage": {**data["usage"], "reasoning_tokens": 9}, "sentences": [sentence]}
    learned = LearningResult.from_dict(data)
    assert (learned.usage, learned.method) == (TokenUsage(2, 10, 3, 4, 5), "llm")
    assert learned.sentences == (Sentence(text="We use tabs.", role="user", way="model", reason="fact-like"),)
    assert LearningResult.from_dict({"usage": {"calls": 1}}).usage == TokenUsage(1)
