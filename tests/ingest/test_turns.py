"""A turn that is told in parts is learned from as one while that can be, and never twice."""

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
from tests.ingest.conftest import Learning

HOLD = 100_000.0  # seconds: longer than any test, by the clock of the test
TURN: dict[str, Any] = {"client": "claude-code", "session": "s1", "turn": "1"}
SAID = "Our team decided to adopt microservices for scalability"  # no pattern reads it: the model is asked
FACTS = json.dumps({"facts": [{"text": "The team adopts microservices", "category": "decision"}]})


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def agent(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def counted(keeper: Keeper) -> dict[str, int]:
    return {memory.text: memory.occurrences for memory in keeper}


class Interrupted(ScriptedLLM):
    """While it thinks for the first time, something else happens."""

    def __init__(self, replies: list[str], meanwhile: Callable[[], Any]) -> None:
        super().__init__(replies)
        self._meanwhile = meanwhile

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = super().complete(system, user, schema=schema)
        if len(self.calls) == 1:
            self._meanwhile()
        return reply


def test_a_prompt_is_held_until_its_answer_comes_and_both_are_one_exchange(learning: Learning) -> None:
    keeper = learning()
    asked = keeper.amend(user("I prefer tabs over spaces."), hold=HOLD, by="claude-code", **TURN)
    assert (asked.new, asked.state) == (True, "pending")
    assert InboxWorker(keeper).drain() == 0
    answered = keeper.amend(agent("Noted."), **TURN)
    assert (answered.id, answered.new, answered.state) == (asked.id, False, "pending")
    assert InboxWorker(keeper).drain() == 1
    item = keeper.item(asked.id)
    assert item.exchange is not None
    assert [message.role for message in item.exchange.messages] == ["user", "assistant"]
    assert counted(keeper) == {"User prefers tabs over spaces": 1}
    assert keeper.turns("claude-code", "s1") == {"1"}


def test_what_was_never_answered_is_learned_from_when_it_is_released(learning: Learning) -> None:
    keeper = learning()
    keeper.amend(user("I prefer tabs over spaces."), hold=HOLD, **TURN)
    assert keeper.services.captures.release("claude-code", "another") == 0
    assert keeper.services.captures.release("claude-code", "s1") == 1
    InboxWorker(keeper).drain()
    assert keeper.inbox_status().stored == 1


def test_an_answer_that_comes_too_late_is_learned_from_by_itself(learning: Learning) -> None:
    keeper = learning()
    first = keeper.amend(user("I prefer tabs over spaces."), **TURN)
    InboxWorker(keeper).drain()
    late = keeper.amend([*user("I prefer tabs over spaces."), *agent("The port of staging is 8080.")], **TURN)
    assert late.new
    assert late.id != first.id
    InboxWorker(keeper).drain()
    again = keeper.amend([*user("I prefer tabs over spaces."), *agent("The port of staging is 8080.")], **TURN)
    assert (again.id, again.new) == (late.id, False)
    assert set(counted(keeper).values()) == {1}
    assert keeper.inbox_status().captured == 2


def test_what_is_learned_takes_the_project_of_what_was_said(by_value: Keeper) -> None:
    keeper = by_value
    where: dict[str, Any] = {"project": "/srv/web", "source": "claude-code/web"}
    keeper.amend(user("The port of staging is 8080."), **TURN, **where)
    InboxWorker(keeper).drain()
    [memory] = keeper
    assert (memory.project, memory.source) == ("/srv/web", "claude-code/web")
    corrected: dict[str, Any] = {
        "client": "codex",
        "session": "x",
        "turn": "1",
        "project": "/srv/web",
        "source": "codex/web",
    }
    keeper.amend(user("The port of staging is 9090."), **corrected)
    keeper.amend(user("The port of staging is 7070."), **{**corrected, "turn": "2", "project": "/srv/api"})
    InboxWorker(keeper).drain()
    assert {(each.project, each.text) for each in keeper} == {
        ("/srv/web", "The port of staging is 9090"),
        ("/srv/api", "The port of staging is 7070"),
    }


def test_what_grows_while_the_model_reads_is_read_again_whole(learning: Learning) -> None:
    teller = learning()
    captured = teller.amend(user(f"{SAID}."), **TURN)
    both = json.dumps({"facts": [*json.loads(FACTS)["facts"], {"text": "User prefers tabs over spaces"}]})
    llm = Interrupted([FACTS, both], lambda: teller.amend(user("I prefer tabs over spaces."), hold=HOLD, **TURN))
    keeper = learning(llm)
    keeper.services.captures.process(keeper.item(captured.id))
    item = keeper.item(captured.id)
    assert (item.state, item.attempts, counted(keeper)) == ("pending", 0, {})
    assert [each.id for each in keeper.services.captures.due()] == [
        captured.id
    ]  # what was due is not held back by more of it
    keeper.services.captures.process(item)
    assert counted(keeper) == {"The team adopts microservices": 1, "User prefers tabs over spaces": 1}
    assert keeper.inbox_status().captured == keeper.inbox_status().stored == 1


def test_what_is_due_stays_due_when_more_of_it_is_told_and_is_read_whole(learning: Learning) -> None:
    keeper = learning()
    keeper.amend(agent("Noted."), **TURN)
    [given_out] = keeper.services.captures.due()
    keeper.amend(user("I prefer tabs over spaces."), hold=HOLD, **TURN)
    keeper.services.captures.process(given_out)
    assert (keeper.item(given_out.id).state, counted(keeper)) == ("stored", {"User prefers tabs over spaces": 1})
    assert keeper.inbox_status().captured == 1


def test_what_another_has_put_off_after_it_was_given_out_is_left_for_its_time(learning: Learning) -> None:
    first, second = learning(ScriptedLLM([Unavailable("down", "wait")])), learning()
    first.amend(user(f"{SAID}."), **TURN)
    [given_out] = second.services.captures.due()
    first.services.captures.process(given_out)
    second.services.captures.process(given_out)
    assert second.item(given_out.id).attempts == 1
    assert second.item(given_out.id).state == "pending"


def test_what_comes_while_the_model_is_down_is_learned_beside_what_patterns_read(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([Unavailable("down", "wait"), FACTS]))
    first = keeper.amend(user(f"I prefer tabs over spaces. {SAID}."), **TURN)
    keeper.services.captures.process(keeper.item(first.id))
    assert counted(keeper) == {"User prefers tabs over spaces": 1}
    second = keeper.amend(user("The port of staging is 8080."), **TURN)
    assert second.new
    for captured in (first, second):
        keeper.services.captures.process(keeper.item(captured.id))
    assert counted(keeper) == {
        "User prefers tabs over spaces": 1, "The port of staging is 8080": 1, "The team adopts microservices": 1,
    }  # fmt: skip
    assert keeper.inbox_status().balanced


def test_words_that_are_purged_do_not_come_back_with_another_telling(learning: Learning) -> None:
    keeper = learning()
    doomed = keeper.add("User prefers tabs over spaces", context="I prefer tabs over spaces.").memory_id
    whole = [*user("I prefer tabs over spaces. We switched from npm to pnpm."), *agent("Noted.")]
    keeper.amend(whole[:1], hold=HOLD, **TURN)
    keeper.purge(doomed)
    keeper.amend(whole, **TURN)
    InboxWorker(keeper).drain()
    assert counted(keeper) == {"Team switched from npm to pnpm": 1}
    keeper.amend(whole, **TURN)
    InboxWorker(keeper).drain()
    assert counted(keeper) == {"Team switched from npm to pnpm": 1}


def test_a_full_inbox_refuses_a_new_turn_and_takes_the_rest_of_an_old_one(learning: Learning) -> None:
    keeper = learning(inbox_limit=1)
    keeper.amend(user("I prefer tabs."), hold=HOLD, **TURN)
    assert keeper.amend(agent("Noted."), hold=HOLD, **TURN).new is False
    with pytest.raises(TooBusy):
        keeper.amend(user("I prefer spaces."), **{**TURN, "turn": "2"})


# ── whatever the order ────────────────────────────────────────────────────────────────────────────────────────────────

ASKED = tuple(f"The port of service{number} is 80{number}0." for number in range(4))
ANSWER = "Looking into it."
TELLINGS = st.one_of(
    st.sampled_from([user(line) for line in ASKED]),  # a prompt, or what is said while the agent works
    st.just(agent(ANSWER)),  # a stop
    st.integers(1, 4).map(lambda far: user("\n\n".join(ASKED[:far])) + agent(ANSWER)),  # notify
    st.integers(1, 4).map(lambda far: [each for line in ASKED[:far] for each in user(line)]),  # a transcript
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), TELLINGS, st.sampled_from((0.0, HOLD))),
        st.tuples(st.just("take"), st.none(), st.none()),
        st.tuples(st.just("learn"), st.none(), st.none()),
        st.tuples(st.just("release"), st.none(), st.none()),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_whoever_tells_whatever_when_every_fact_is_learned_once(steps: list[tuple[str, Any, Any]]) -> None:
    clock = FixedClock()
    with (
        TemporaryDirectory() as folder,
        Keeper(SqliteStore(Path(folder) / "cofio.db", clock), HashEmbedder(), clock) as keeper,
    ):
        told: set[str] = set()
        given_out: list[Item] = []
        for what, messages, hold in steps:
            if what == "tell":
                keeper.amend(messages, hold=hold, **TURN)
                told |= {line for message in messages for line in message["content"].splitlines() if line in ASKED}
            elif what == "take":
                given_out += keeper.services.captures.due()
            elif what == "learn" and given_out:
                keeper.services.captures.process(given_out.pop(0))
            elif what == "release":
                keeper.services.captures.release("claude-code", "s1")
            assert keeper.inbox_status().balanced
        keeper.services.captures.release("claude-code", "s1")
        InboxWorker(keeper).drain()
        assert counted(keeper) == {line.rstrip("."): 1 for line in told}
        assert keeper.inbox_status().pending == 0
