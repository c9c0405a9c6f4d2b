"""Turns delivered in parts are learned as one exchange where possible, and never twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.core import Keeper
from cofio.errors import TooBusy, Unavailable
from cofio.models.exchange import Item
from cofio.ports import Completion
from cofio.server.background.inbox_worker import InboxWorker
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.ingest.conftest import KeeperFactory

HOLD = 80_000.0  # seconds: longer than any test
TURN: dict[str, Any] = {"client": "claude-code", "session": "s1", "turn": "1"}
SAID = "Our team decided to adopt microservices for scalability"  # no pattern matches it, so the LLM is called
FACTS = json.dumps({"facts": [{"text": "The team adopts microservices", "category": "decision"}]})


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def agent(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def occurrence_counts(keeper: Keeper) -> dict[str, int]:
    return {memory.text: memory.occurrences for memory in keeper}


class InterruptedLLM(ScriptedLLM):
    """Call a function during the first completion."""

    def __init__(self, replies: list[str], callback: Callable[[], Any]) -> None:
        super().__init__(replies)
        self._callback = callback

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = super().complete(system, user, schema=schema)
        if len(self.calls) == 1:
            self._callback()
        return reply


def test_prompt_is_held_until_its_answer_and_both_are_one_exchange(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    prompt = keeper.amend(user("I prefer tabs over spaces."), hold=HOLD, by="claude-code", **TURN)
    assert (prompt.new, prompt.state) == (True, "pending")
    assert InboxWorker(keeper).drain() == 0
    answer = keeper.amend(agent("Noted."), **TURN)
    assert (answer.id, answer.new, answer.state) == (prompt.id, False, "pending")
    assert InboxWorker(keeper).drain() == 1
    item = keeper.item(prompt.id)
    assert item.exchange is not None
    assert [message.role for message in item.exchange.messages] == ["user", "assistant"]
    assert occurrence_counts(keeper) == {"User prefers tabs over spaces": 1}
    assert keeper.turns("claude-code", "s1") == {"1"}


def test_unanswered_prompt_is_learned_on_release(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.amend(user("I prefer tabs over spaces."), hold=HOLD, **TURN)
    assert keeper.services.captures.release("claude-code", "another") == 0
    assert keeper.services.captures.release("claude-code", "s1") == 1
    InboxWorker(keeper).drain()
    assert keeper.inbox_status().stored == 1


def test_late_answer_is_learned_separately(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    first = keeper.amend(user("I prefer tabs over spaces."), **TURN)
    InboxWorker(keeper).drain()
    late_answer = keeper.amend([*user("I prefer tabs over spaces."), *agent("The port of staging is 8080.")], **TURN)
    assert late_answer.new
    assert late_answer.id != first.id
    InboxWorker(keeper).drain()
    duplicate = keeper.amend([*user("I prefer tabs over spaces."), *agent("The port of staging is 8080.")], **TURN)
    assert (duplicate.id, duplicate.new) == (late_answer.id, False)
    assert set(occurrence_counts(keeper).values()) == {1}
    assert keeper.inbox_status().captured == 2


def test_memory_has_the_project_of_the_exchange(value_keeper: Keeper) -> None:
    keeper = value_keeper
    fields: dict[str, Any] = {"project": "/srv/web", "source": "claude-code/web"}
    keeper.amend(user("The port of staging is 8080."), **TURN, **fields)
    InboxWorker(keeper).drain()
    [memory] = keeper
    assert (memory.project, memory.source) == ("/srv/web", "claude-code/web")
    correction: dict[str, Any] = {
        "client": "codex",
        "session": "x",
        "turn": "1",
        "project": "/srv/web",
        "source": "codex/web",
    }
    keeper.amend(user("The port of staging is 9090."), **correction)
    keeper.amend(user("The port of staging is 7070."), **{**correction, "turn": "2", "project": "/srv/api"})
    InboxWorker(keeper).drain()
    assert {(stored.project, stored.text) for stored in keeper} == {
        ("/srv/web", "The port of staging is 9090"),
        ("/srv/api", "The port of staging is 7070"),
    }


def test_turn_that_grows_during_the_llm_call_is_read_again(make_keeper: KeeperFactory) -> None:
    sender = make_keeper()
    captured = sender.amend(user(f"{SAID}."), **TURN)
    both_facts = json.dumps({"facts": [*json.loads(FACTS)["facts"], {"text": "User prefers tabs over spaces"}]})
    llm = InterruptedLLM(
        [FACTS, both_facts], lambda: sender.amend(user("I prefer tabs over spaces."), hold=HOLD, **TURN)
    )
    keeper = make_keeper(llm)
    keeper.services.captures.process(keeper.item(captured.id))
    item = keeper.item(captured.id)
    assert (item.state, item.attempts, occurrence_counts(keeper)) == ("pending", 0, {})
    assert [due.id for due in keeper.services.captures.due()] == [captured.id]  # more text does not postpone a due item
    keeper.services.captures.process(item)
    assert occurrence_counts(keeper) == {"The team adopts microservices": 1, "User prefers tabs over spaces": 1}
    assert keeper.inbox_status().captured == keeper.inbox_status().stored == 1


def test_amended_due_turn_stays_due_and_is_read_completely(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.amend(agent("Noted."), **TURN)
    [item] = keeper.services.captures.due()
    keeper.amend(user("I prefer tabs over spaces."), hold=HOLD, **TURN)
    keeper.services.captures.process(item)
    assert (keeper.item(item.id).state, occurrence_counts(keeper)) == ("stored", {"User prefers tabs over spaces": 1})
    assert keeper.inbox_status().captured == 1


def test_item_postponed_by_another_worker_is_not_attempted(make_keeper: KeeperFactory) -> None:
    first, second = make_keeper(ScriptedLLM([Unavailable("down", "wait")])), make_keeper()
    first.amend(user(f"{SAID}."), **TURN)
    [item] = second.services.captures.due()
    first.services.captures.process(item)
    second.services.captures.process(item)
    assert second.item(item.id).attempts == 1
    assert second.item(item.id).state == "pending"


def test_text_during_an_outage_is_learned_in_addition_to_pattern_facts(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([Unavailable("down", "wait"), FACTS]))
    first = keeper.amend(user(f"I prefer tabs over spaces. {SAID}."), **TURN)
    keeper.services.captures.process(keeper.item(first.id))
    assert occurrence_counts(keeper) == {"User prefers tabs over spaces": 1}
    second = keeper.amend(user("The port of staging is 8080."), **TURN)
    assert second.new
    for captured in (first, second):
        keeper.services.captures.process(keeper.item(captured.id))
    assert occurrence_counts(keeper) == {
        "User prefers tabs over spaces": 1, "The port of staging is 8080": 1, "The team adopts microservices": 1,
    }  # fmt: skip
    assert keeper.inbox_status().balanced


def test_purged_text_is_not_restored_by_another_delivery(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    purged_id = keeper.add("User prefers tabs over spaces", context="I prefer tabs over spaces.").memory_id
    messages = [*user("I prefer tabs over spaces. We switched from npm to pnpm."), *agent("Noted.")]
    keeper.amend(messages[:1], hold=HOLD, **TURN)
    keeper.purge(purged_id)
    keeper.amend(messages, **TURN)
    InboxWorker(keeper).drain()
    assert occurrence_counts(keeper) == {"Team switched from npm to pnpm": 1}
    keeper.amend(messages, **TURN)
    InboxWorker(keeper).drain()
    assert occurrence_counts(keeper) == {"Team switched from npm to pnpm": 1}


def test_full_inbox_rejects_new_turns_and_accepts_the_rest_of_known_ones(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(inbox_limit=1)
    keeper.amend(user("I prefer tabs."), hold=HOLD, **TURN)
    assert keeper.amend(agent("Noted."), hold=HOLD, **TURN).new is False
    with pytest.raises(TooBusy):
        keeper.amend(user("I prefer spaces."), **{**TURN, "turn": "2"})


# ── Any order ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PROMPTS = tuple(f"The port of service{number} is 80{number}0." for number in range(4))
ANSWER = "Looking into it."
DELIVERIES = st.one_of(
    st.sampled_from([user(line) for line in PROMPTS]),  # a prompt, or a message during the agent's work
    st.just(agent(ANSWER)),  # a Stop event
    st.integers(1, 4).map(lambda far: user("\n\n".join(PROMPTS[:far])) + agent(ANSWER)),  # a notify event
    st.integers(1, 4).map(lambda far: [message for line in PROMPTS[:far] for message in user(line)]),  # a transcript
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), DELIVERIES, st.sampled_from((0.0, HOLD))),
        st.tuples(st.just("take"), st.none(), st.none()),
        st.tuples(st.just("learn"), st.none(), st.none()),
        st.tuples(st.just("release"), st.none(), st.none()),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_any_order_of_deliveries_learns_every_fact_once(steps: list[tuple[str, Any, Any]]) -> None:
    clock = FixedClock()
    with (
        TemporaryDirectory() as folder,
        Keeper(SqliteStore(Path(folder) / "cofio.db", clock), HashEmbedder(), clock) as keeper,
    ):
        delivered: set[str] = set()
        items: list[Item] = []
        for step, messages, hold in steps:
            if step == "tell":
                keeper.amend(messages, hold=hold, **TURN)
                delivered |= {
                    line for message in messages for line in message["content"].splitlines() if line in PROMPTS
                }
            elif step == "take":
                items += keeper.services.captures.due()
            elif step == "learn" and items:
                keeper.services.captures.process(items.pop(0))
            elif step == "release":
                keeper.services.captures.release("claude-code", "s1")
            assert keeper.inbox_status().balanced
        keeper.services.captures.release("claude-code", "s1")
        InboxWorker(keeper).drain()
        assert occurrence_counts(keeper) == {line.rstrip("."): 1 for line in delivered}
        assert keeper.inbox_status().pending == 0
