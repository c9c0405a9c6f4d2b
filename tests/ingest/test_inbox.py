"""The inbox at work: once, in order, tried again, parked, accounted for."""

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
from tests.ingest.conftest import Learning

SAID = "Our team decided to adopt microservices for scalability"  # no pattern reads it: the model is asked
FACTS = json.dumps({"facts": [{"text": "The team adopts microservices", "category": "decision"}]})


def drained(keeper: Keeper) -> InboxStatus:
    InboxWorker(keeper).drain()
    return keeper.inbox_status()


def test_a_capture_waits_until_the_worker_comes(learning: Learning) -> None:
    keeper = learning()
    captured = keeper.capture("I prefer tabs over spaces.")
    assert (captured.new, captured.state) == (True, "pending")
    assert keeper.inbox_status() == InboxStatus(
        captured=1, stored=0, merged=0, rejected=0, pending=1, parked=0, oldest=keeper.item(captured.id).received_at
    )
    assert drained(keeper).stored == 1
    assert [memory.text for memory in keeper] == ["User prefers tabs over spaces"]
    item = keeper.item(captured.id)
    assert item.state == "stored"
    assert item.result["stored_count"] == 1
    assert item.changeset == item.result["changeset"]


def test_a_turn_that_is_delivered_twice_is_learned_once(learning: Learning) -> None:
    keeper = learning()
    turn = {"client": "claude-code", "session": "s1", "turn": "1"}
    first = keeper.capture("I prefer tabs over spaces.", **turn)
    again = keeper.capture("I prefer tabs over spaces.", **turn)
    assert (again.id, again.new) == (first.id, False)
    drained(keeper)
    after = keeper.capture("I prefer tabs over spaces.", wait=True, **turn)
    assert (after.new, after.state) == (False, "stored")
    [memory] = keeper
    assert memory.occurrences == 1
    assert keeper.inbox_status().captured == 1


def test_without_a_turn_every_delivery_counts(learning: Learning) -> None:
    keeper = learning()
    for _ in range(2):
        keeper.capture("I prefer tabs over spaces.", wait=True)
    inbox_status = keeper.inbox_status()
    assert (inbox_status.captured, inbox_status.stored, inbox_status.merged) == (2, 1, 1)


def test_while_the_provider_is_down_a_capture_waits_and_is_learned_when_it_is_back(learning: Learning) -> None:
    llm = ScriptedLLM([Unavailable("Anthropic answered 503.", "Try later."), FACTS])
    keeper = learning(llm)
    captured = keeper.capture(SAID, wait=True)
    assert (captured.state, captured.reason) == ("pending", "Anthropic answered 503.")
    item = keeper.item(captured.id)
    assert item.attempts == 1
    assert item.due_at > item.received_at
    assert keeper.services.captures.due() == []
    keeper.services.captures.process(item)  # when its time has come
    assert keeper.inbox_status().stored == 1


def test_while_the_provider_is_down_what_patterns_read_is_learned_at_once_and_once(learning: Learning) -> None:
    llm = ScriptedLLM([Unavailable("down", "wait"), Unavailable("down", "wait"), FACTS])
    keeper = learning(llm)
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


def test_when_the_reply_makes_no_sense_what_patterns_read_stands_and_the_rest_is_parked(learning: Learning) -> None:
    keeper = learning(ScriptedLLM(["Sorry, no."] * PARKED_AFTER))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    for _ in range(PARKED_AFTER - 1):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "parked"
    [memory] = keeper
    assert (memory.text, memory.occurrences) == ("User prefers tabs over spaces", 1)


def test_an_outage_before_it_does_not_count_against_an_item(learning: Learning) -> None:
    outages = [Unavailable("down", "wait")] * 5
    keeper = learning(ScriptedLLM([*outages, "Sorry, no.", FACTS]))
    captured = keeper.capture(SAID)
    for _ in range(7):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "stored"


def test_an_outage_of_years_is_waited_out(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([Unavailable("down", "wait")] * 2000))
    captured = keeper.capture(SAID)
    for _ in range(1_100):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).attempts == 1_100


def test_a_refused_job_is_parked_at_once(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([RefusedError("The model refused.", "Rephrase.")]))
    job = keeper.submit("User: use drizzle")
    drained(keeper)
    assert keeper.item(job.id).state == "parked"


def test_whoever_waits_for_a_turn_that_is_still_pending_has_it_tried_again(learning: Learning) -> None:
    turn = {"client": "c", "session": "s", "turn": "1"}
    keeper = learning()
    keeper.capture("I prefer tabs over spaces.", **turn)
    again = keeper.capture("I prefer tabs over spaces.", wait=True, **turn)
    assert (again.new, again.state) == (False, "stored")


def test_words_that_are_purged_do_not_come_back_from_what_waits(learning: Learning) -> None:
    keeper = learning()
    keeper.capture("I prefer tabs over spaces. We switched from npm to pnpm.", wait=True)
    keeper.capture("I   prefer **tabs** over\nspaces.")
    waiting = keeper.services.captures.due()
    doomed = next(memory for memory in keeper if "tabs" in memory.text)
    keeper.purge(doomed.id)
    for item in waiting:  # read before the purge
        keeper.services.captures.process(item)
    assert [memory.text for memory in keeper] == ["Team switched from npm to pnpm"]
    assert "tabs" not in str([memory.as_dict() for memory in keeper])


def test_more_facts_than_an_exchange_can_hold_are_cut_and_said_so(learning: Learning) -> None:
    said = "\n".join(f"The port of service{number} is {8000 + number}." for number in range(80))
    captured = learning().capture(said, wait=True)
    assert captured.result["stored_count"] == 50
    assert captured.reason == "Kept the first 50 of 80 facts"


def test_an_outage_never_parks_anything(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([Unavailable("down", "wait")] * 10))
    captured = keeper.capture(SAID)
    for _ in range(10):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "pending"
    assert keeper.item(captured.id).attempts == 10


def test_an_outage_does_not_hold_up_what_patterns_can_read(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([Unavailable("down", "wait")] * 10))
    keeper.capture(SAID)
    keeper.capture("I prefer tabs over spaces.")
    inbox_status = drained(keeper)
    assert (inbox_status.stored, inbox_status.pending) == (1, 1)


def test_what_the_model_cannot_be_understood_about_is_parked_with_the_reason_and_can_be_retried(
    learning: Learning,
) -> None:
    keeper = learning(ScriptedLLM(["Sorry, I can't help with that."] * PARKED_AFTER + [FACTS]))
    captured = keeper.capture(SAID)
    for _ in range(PARKED_AFTER):
        keeper.services.captures.process(keeper.item(captured.id))
    item = keeper.item(captured.id)
    assert item.state == "parked"
    assert "could not be read" in item.reason
    inbox_status = keeper.inbox_status()
    assert (inbox_status.pending, inbox_status.parked, inbox_status.balanced) == (1, 1, True)
    assert keeper.retry(captured.id).attempts == 0
    assert drained(keeper).stored == 1


def test_a_bug_parks_the_item_and_the_others_go_on(learning: Learning, caplog: pytest.LogCaptureFixture) -> None:
    keeper = learning(ScriptedLLM([ValueError("a bug")] * PARKED_AFTER))
    captured = keeper.capture(SAID)
    for _ in range(PARKED_AFTER):
        keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).reason == "ValueError: a bug"
    assert keeper.item(captured.id).state == "parked"
    keeper.capture("I prefer tabs over spaces.")
    assert drained(keeper).stored == 1
    assert "a bug" in caplog.text


def test_a_refusal_of_the_model_leaves_what_patterns_read(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([RefusedError("The model refused.", "Rephrase.")]))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    assert captured.state == "stored"
    assert captured.result["method"] == "pattern"


def test_too_much_waiting_is_refused_but_a_known_turn_is_answered(learning: Learning) -> None:
    keeper = learning(inbox_limit=2)
    turn = {"client": "c", "session": "s", "turn": "1"}
    keeper.capture("I prefer tabs.", **turn)
    keeper.capture("I prefer spaces.")
    with pytest.raises(TooBusy):
        keeper.capture("I prefer neither.")
    assert keeper.capture("I prefer tabs.", **turn).new is False
    assert keeper.inbox_status().captured == 2


def test_captures_survive_the_process(learning: Learning, tmp_path: Path) -> None:
    captured = learning().capture("I prefer tabs over spaces.")
    later = learning()
    assert drained(later).stored == 1
    assert later.item(captured.id).state == "stored"


def test_a_job_without_a_model_is_refused_and_one_whose_model_went_away_waits(learning: Learning) -> None:
    with pytest.raises(NotConfigured):
        learning().submit("User: use drizzle")
    job = learning(ScriptedLLM([])).submit("User: use drizzle")
    without = learning()
    InboxWorker(without).drain()
    assert without.item(job.id).state == "pending"
    assert "not configured" in without.item(job.id).reason


def test_what_two_work_on_at_once_is_learned_once(learning: Learning) -> None:
    keeper = learning()
    captured = keeper.capture("I prefer tabs over spaces.")
    item = keeper.item(captured.id)
    keeper.services.captures.process(item)
    keeper.services.captures.process(item)  # the other one had read the item before it was settled
    [memory] = keeper
    assert memory.occurrences == 1
    assert len(keeper.changes()) == 1
    assert keeper.inbox_status().stored == 1


def test_the_worker_ends_while_it_is_asked_to_and_leaves_the_rest_pending(learning: Learning) -> None:
    keeper = learning()
    for number in range(3):
        keeper.capture(f"The port of service{number} is 80{number}0.")
    worker = InboxWorker(keeper)
    worker.stop()
    assert worker.drain() == 0
    assert keeper.inbox_status().pending == 3


def test_the_words_of_old_captures_are_forgotten_and_still_counted(learning: Learning) -> None:
    keeper = learning()
    captured = keeper.capture("I prefer tabs over spaces.", wait=True)
    assert keeper.services.captures.forget("2030-01-01") == 1
    assert keeper.item(captured.id).exchange is None
    assert keeper.inbox_status().stored == 1


def test_an_exchange_survives_being_written_down() -> None:
    exchange = Exchange(messages=(), source="a/b", turn="1", injected=("We use tabs.",))
    assert Exchange.from_dict(exchange.as_dict()) == exchange


def test_a_settled_item_is_settled_for_good(learning: Learning, tmp_path: Path) -> None:
    from cofio.stores.sqlite.store import SqliteStore
    from cofio.testing import FixedClock

    keeper = learning()
    captured = keeper.capture("I prefer tabs over spaces.", wait=True)
    store = SqliteStore(tmp_path / "cofio.db", FixedClock())
    with pytest.raises(Conflict):
        store.inbox.settle(ItemResolution(item=captured.id, state="rejected"))
    store.close()


def test_what_is_purged_while_the_model_reads_does_not_come_back(learning: Learning) -> None:
    keeper = learning()
    doomed = keeper.add("The team adopts microservices").memory_id

    class Purging(ScriptedLLM):
        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            reply = super().complete(system, user, schema=schema)
            if len(self.calls) == 1:
                keeper.purge(doomed)
            return reply

    nothing = json.dumps({"facts": []})
    taught = learning(Purging([FACTS, nothing]))
    captured = taught.capture(f"{SAID}. The team adopts microservices.", wait=True)
    item = taught.item(captured.id)
    assert (item.state, item.faults) == ("pending", 0)
    taught.services.captures.process(item)
    assert list(taught) == []
    assert taught.inbox_status().balanced


def test_a_purge_reaches_what_was_shown_to_the_agent(learning: Learning) -> None:
    keeper = learning()
    doomed = keeper.add("The vault code is 4711").memory_id
    captured = keeper.capture("Hi there!", wait=True, injected=("The vault code is 4711",))
    keeper.purge(doomed)
    assert "4711" not in str(keeper.item(captured.id).as_dict())


def test_what_the_model_says_again_of_an_item_that_got_halfway_is_not_counted_twice(learning: Learning) -> None:
    both = json.dumps({"facts": ["User prefers tabs over spaces", "The team adopts microservices"]})
    keeper = learning(ScriptedLLM([Unavailable("down", "wait"), both]))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.", wait=True)
    keeper.services.captures.process(keeper.item(captured.id))
    assert {memory.text: memory.occurrences for memory in keeper} == {
        "User prefers tabs over spaces": 1,
        "The team adopts microservices": 1,
    }
    assert keeper.item(captured.id).reason == ""


def test_two_who_work_on_an_item_that_gets_halfway_do_not_both_count(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([Unavailable("down", "wait"), FACTS]))
    captured = keeper.capture(f"I prefer tabs over spaces. {SAID}.")
    other = learning(_Interrupted([FACTS], lambda: keeper.services.captures.process(keeper.item(captured.id))))
    other.services.captures.process(other.item(captured.id))
    assert {memory.occurrences for memory in keeper} == {1}
    keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.inbox_status().stored == 1
    assert {memory.occurrences for memory in keeper} == {1}


class _Interrupted(ScriptedLLM):
    """While it thinks, something else happens."""

    def __init__(self, replies: list[str], meanwhile: Callable[[], None]) -> None:
        super().__init__(replies)
        self._meanwhile = meanwhile

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = super().complete(system, user, schema=schema)
        self._meanwhile()
        return reply


def test_a_failed_attempt_without_an_item_keeps_nothing(learning: Learning) -> None:
    keeper = learning(ScriptedLLM(["Sorry, no."]))
    with pytest.raises(Unreadable):
        keeper.learn(f"I prefer tabs over spaces. {SAID}.")
    assert list(keeper) == []


def test_a_result_of_a_newer_version_is_read() -> None:
    gate = {"text": "We use tabs.", "role": "user", "way": "model", "reason": "fact-like", "later": 1}
    told = {**LearningResult(usage=TokenUsage(2, 10, 3, 4, 5), method="llm", dry_run=True).as_dict(), "later": 1}
    told |= {"usage": {**told["usage"], "reasoning_tokens": 9}, "sentences": [gate]}
    learned = LearningResult.from_dict(told)
    assert (learned.usage, learned.method) == (TokenUsage(2, 10, 3, 4, 5), "llm")
    assert learned.sentences == (Sentence(text="We use tabs.", role="user", way="model", reason="fact-like"),)
    assert LearningResult.from_dict({"usage": {"calls": 1}}).usage == TokenUsage(1)
