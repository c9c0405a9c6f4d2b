"""Turns of a session that a language model reads together: one call for many, each with a result of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import BudgetSpent, TooLarge, Unavailable
from cofio.hooks.client_events import Event, event
from cofio.models.exchange import Batching, Item
from cofio.ports import Completion, Judge
from cofio.server.session_handler import SessionHandler
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.judges import ValueJudge

WEB = "/home/ann/web"
PAUSE = 600.0  # seconds
#: Said so that it looks like a fact and no pattern reads it.
LEASES = "The lease of a lock must be ninety seconds because the importer is slow"
KEYS = "Idempotency keys must be kept for three days because the bank retries"
CACHE = "The cache must be off for the admin pages because they showed old prices"

Opening = Callable[..., tuple[Keeper, SessionHandler, FixedClock]]


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Opening]:
    """Opens a keeper on the test's store with a language model, and an sessions for its sessions."""
    with ExitStack() as stack:

        def opened(llm: ScriptedLLM, turns: int = 3, judge: Judge | None = None) -> Any:
            clock = FixedClock()
            store = SqliteStore(tmp_path / "cofio.db", clock)
            batching = Batching(PAUSE, turns)
            keeper = stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, batching=batching, judge=judge))
            sessions = SessionHandler(keeper, tmp_path)
            stack.callback(sessions.close)
            return keeper, sessions, clock

        yield opened


def reply(*facts: tuple[str, str]) -> str:
    return json.dumps({"facts": [{"exchange": name, "text": text, "category": "detail"} for name, text in facts]})


def told(name: str, session: str = "s1", **fields: Any) -> Event:
    given = {"session_id": session, "cwd": WEB, "hook_event_name": name, **fields}
    return event("claude-code", json.dumps(given).encode())


def have_said(sessions: SessionHandler, *prompts: str, session: str = "s1", first: int = 1) -> None:
    """Hand over a turn for each prompt."""
    for number, prompt in enumerate(prompts, first):
        sessions.handle(told("UserPromptSubmit", session, prompt=prompt, prompt_id=f"p{number}"), WEB)
        sessions.handle(told("Stop", session, last_assistant_message="Noted.", prompt_id=f"p{number}"), WEB)


def drain(keeper: Keeper) -> list[list[int]]:
    """Learn everything that is due, as the worker does; return the ids of each batch."""
    done = []
    for batch in keeper.services.captures.batches(keeper.services.captures.claim()):
        keeper.services.captures.process(*batch)
        done.append([item.id for item in batch])
    return done


def texts(keeper: Keeper) -> list[str]:
    return [memory.text for memory in reversed(keeper.list().memories)]


def waiting(keeper: Keeper) -> list[Item]:
    return keeper.items("pending")


def test_turns_wait_until_their_session_pauses_and_are_read_with_one_call(opening: Opening) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds"), ("t2", "Keys are kept for three days"))])
    keeper, sessions, clock = opening(llm)
    have_said(sessions, LEASES, KEYS)
    assert drain(keeper) == []
    assert llm.calls == []
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2]]
    assert texts(keeper) == ["Leases last ninety seconds", "Keys are kept for three days"]
    (_, user, _) = llm.calls[0]
    assert user.index('<exchange id="t1"') < user.index(LEASES) < user.index('<exchange id="t2"') < user.index(KEYS)


def test_each_turn_keeps_its_own_result_and_can_be_undone_alone(opening: Opening) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds"), ("t3", "The cache is off for the admin pages"))])
    keeper, sessions, _ = opening(llm)
    have_said(sessions, LEASES, KEYS, CACHE)  # a full batch waits no longer
    assert drain(keeper) == [[1, 2, 3]]
    first, second, third = (keeper.item(number) for number in (1, 2, 3))
    assert [each.state for each in (first, second, third)] == ["stored", "rejected", "stored"]
    assert first.changeset != third.changeset
    assert first.result["usage"]["calls"] == 1
    assert second.result["usage"]["calls"] == third.result["usage"]["calls"] == 0
    assert first.changeset
    keeper.undo(first.changeset)
    assert texts(keeper) == ["The cache is off for the admin pages"]
    (memory,) = keeper.list().memories
    assert keeper.learned_from(memory.id) == third


def test_a_prompt_keeps_the_session_going_and_one_that_was_broken_off_is_read_with_the_rest(opening: Opening) -> None:
    llm = ScriptedLLM([reply()])
    keeper, sessions, clock = opening(llm, turns=8)
    have_said(sessions, LEASES)
    sessions.handle(told("UserPromptSubmit", prompt=KEYS, prompt_id="broken"), WEB)
    clock.advance(PAUSE - 60)
    sessions.handle(told("UserPromptSubmit", prompt=CACHE, prompt_id="open"), WEB)
    clock.advance(PAUSE - 60)
    assert drain(keeper) == []
    clock.advance(120)
    assert drain(keeper) == [[1, 2]]
    assert LEASES in llm.calls[0][1]
    assert KEYS in llm.calls[0][1]


@pytest.mark.parametrize("name", ["SessionEnd", "PreCompact"])
def test_the_end_of_a_session_and_a_compaction_do_not_wait(opening: Opening, name: str) -> None:
    keeper, sessions, _ = opening(ScriptedLLM([reply()]))
    have_said(sessions, LEASES, KEYS)
    sessions.handle(told(name), WEB)
    assert drain(keeper) == [[1, 2]]


def test_sessions_are_read_apart(opening: Opening) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds")), reply(("t1", "Keys are kept for three days"))])
    keeper, sessions, clock = opening(llm)
    have_said(sessions, LEASES, session="s1")
    have_said(sessions, KEYS, session="s2")
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2]]
    assert KEYS not in llm.calls[0][1]


def test_a_fact_without_the_name_of_its_exchange_goes_to_the_one_that_says_it(opening: Opening) -> None:
    llm = ScriptedLLM([json.dumps({"facts": [{"text": "Idempotency keys are kept for three days"}]})])
    keeper, sessions, _ = opening(llm)
    have_said(sessions, LEASES, KEYS, CACHE)
    drain(keeper)
    assert [keeper.item(number).state for number in (1, 2, 3)] == ["rejected", "stored", "rejected"]


def test_what_contradicts_a_fact_of_the_same_batch_takes_its_place(opening: Opening) -> None:
    llm = ScriptedLLM([reply(("t1", "The lease of a lock is 90 seconds"), ("t2", "The lease of a lock is 60 seconds"))])
    keeper, sessions, _ = opening(llm, judge=ValueJudge())
    have_said(sessions, "The lease of a lock is 90 seconds", "no, 60", "thanks")
    drain(keeper)
    assert texts(keeper) == ["The lease of a lock is 60 seconds"]


def test_turns_wait_together_while_the_budget_is_spent(opening: Opening) -> None:
    spent = BudgetSpent("spent", resets_at="2026-01-02T00:00:00Z")
    llm = ScriptedLLM([spent, reply(("t1", "Leases last ninety seconds"), ("t3", "The cache is off for the admins"))])
    keeper, sessions, clock = opening(llm)
    have_said(sessions, LEASES, KEYS, CACHE)
    drain(keeper)
    assert len({item.due_at for item in waiting(keeper)}) == 1
    clock.advance(48 * 3_600)
    assert drain(keeper) == [[1, 2, 3]]
    assert len(texts(keeper)) == 2


def test_after_a_failure_of_the_model_batches_are_small_and_grow_again(opening: Opening) -> None:
    said = [f"The lease of lock {number} must be ninety seconds because its importer is slow" for number in range(8)]
    llm = ScriptedLLM([Unavailable("down"), Unavailable("down"), *[reply() for _ in range(4)]])
    keeper, sessions, clock = opening(llm, turns=8)
    have_said(sessions, *said)
    assert drain(keeper) == [[1, 2, 3, 4, 5, 6, 7, 8]]
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2, 3, 4], [5, 6], [7, 8]]
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2, 3, 4]]
    assert waiting(keeper) == []


def test_a_turn_that_the_model_never_answers_holds_up_no_other_for_long(opening: Opening) -> None:
    said = [f"The lease of lock {number} must be ninety seconds because its importer is slow" for number in range(8)]
    keeper, sessions, clock = opening(llm := ScriptedLLM([]), turns=8)

    def answer(system: str, user: str, *, schema: Any = None) -> Completion:
        if said[0] in user.partition("<transcript>")[2]:
            raise Unavailable("500")
        return Completion(reply())

    llm.complete = answer  # type: ignore[method-assign]
    have_said(sessions, *said)
    for _ in range(6):
        drain(keeper)
        clock.advance(PAUSE)
    assert [item.id for item in waiting(keeper)] == [1]


def test_turns_are_learned_in_order_where_one_does_not_fit(opening: Opening) -> None:
    keeper, sessions, clock = opening(ScriptedLLM([reply(), reply()]), turns=8)
    long = " ".join([LEASES] * 200)
    have_said(sessions, long[:12_000], long[:15_000], KEYS)
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2, 3]]


def test_the_answer_to_a_prompt_does_not_hurry_the_next_prompt(opening: Opening) -> None:
    keeper, sessions, clock = opening(ScriptedLLM([reply()]), turns=8)
    sessions.handle(told("UserPromptSubmit", prompt=LEASES, prompt_id="p1"), WEB)
    sessions.handle(told("UserPromptSubmit", prompt=KEYS, prompt_id="p2"), WEB)
    sessions.handle(told("Stop", last_assistant_message="Noted.", prompt_id="p1"), WEB)
    clock.advance(PAUSE)
    assert drain(keeper) == [[1]]
    assert [item.id for item in waiting(keeper)] == [2]


def test_what_an_agent_was_given_does_not_fill_a_batch(opening: Opening) -> None:
    keeper, _, clock = opening(ScriptedLLM([reply()]), turns=8)
    for number, prompt in enumerate((LEASES, KEYS)):
        said = [{"role": "user", "content": prompt}]
        about = {"client": "claude-code", "session": "s1", "turn": f"p{number}", "project": WEB, "context": "stop"}
        keeper.amend(said, injected=["What it was given " * 40] * 40, **about)
    assert drain(keeper) == []
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2]]


def test_a_reply_that_cannot_be_read_is_asked_for_again_turn_by_turn(opening: Opening) -> None:
    alone = [reply(("t1", "Leases last ninety seconds")), reply(("t1", "Keys are kept for three days")), reply()]
    keeper, sessions, clock = opening(llm := ScriptedLLM(["no JSON", *alone]))
    have_said(sessions, LEASES, KEYS, CACHE)
    drain(keeper)
    assert [item.faults for item in waiting(keeper)] == [1, 1, 1]
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2], [3]]
    assert texts(keeper) == ["Leases last ninety seconds", "Keys are kept for three days"]
    assert len(llm.calls) == 4


def test_of_a_reply_that_was_cut_off_only_the_turns_without_facts_are_read_again(opening: Opening) -> None:
    cut = Completion('{"facts": [{"exchange": "t1", "text": "Leases last ninety seconds"}, {"exch', truncated=True)
    keeper, sessions, clock = opening(llm := ScriptedLLM([cut, reply(("t1", "Keys are kept for three days")), reply()]))
    have_said(sessions, LEASES, KEYS, CACHE)
    drain(keeper)
    assert [item.id for item in waiting(keeper)] == [3, 2]
    clock.advance(PAUSE)
    drain(keeper)
    assert texts(keeper) == ["Leases last ninety seconds", "Keys are kept for three days"]
    assert len(llm.calls) == 3


def test_what_is_too_much_for_one_call_is_read_in_halves(opening: Opening) -> None:
    llm = ScriptedLLM([TooLarge("too long"), reply(("t1", "Leases last ninety seconds")), reply(("t2", "No cache"))])
    keeper, sessions, _ = opening(llm)
    have_said(sessions, LEASES, KEYS, CACHE)
    drain(keeper)
    assert texts(keeper) == ["Leases last ninety seconds", "No cache"]
    assert [keeper.item(number).state for number in (1, 2, 3)] == ["stored", "rejected", "stored"]


def test_a_turn_that_grows_while_the_model_reads_waits_and_takes_no_other_along(opening: Opening) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds"), ("t2", "Keys are kept for three days"))])
    keeper, sessions, clock = opening(llm)
    have_said(sessions, LEASES, KEYS)
    clock.advance(PAUSE)
    complete = llm.complete

    def slow(*asked: Any, **how: Any) -> Completion:
        late = [{"role": "user", "content": LEASES}, {"role": "assistant", "content": "Ninety it is, in redis.conf."}]
        keeper.amend(late, client="claude-code", session="s1", turn="p1", project=WEB)
        return complete(*asked, **how)

    llm.complete = slow  # type: ignore[method-assign]
    drain(keeper)
    assert [item.id for item in waiting(keeper)] == [1]
    assert texts(keeper) == ["Keys are kept for three days"]


def test_without_a_language_model_nothing_waits(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "b.db", clock), HashEmbedder(), clock, batching=Batching(PAUSE)) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        have_said(sessions, "We use pnpm.", "We use Postgres.")
        assert drain(keeper) == [[1], [2]]
        sessions.close()


# ── the second reading before a compaction ────────────────────────────────────────────────────────────────────────────


def transcript(path: Path, *turns: tuple[str, str, str], days: tuple[str, ...] = ()) -> Path:
    """A transcript of Claude Code with these turns: id, prompt, answer; each said on a day."""
    lines: list[dict[str, Any]] = []
    for place, (turn, prompt, answer) in enumerate(turns):
        day = days[place] if days else "2026-01-01"
        shared = {"sessionId": "s1", "timestamp": f"{day}T00:00:01.000Z"}
        message = {"role": "user", "content": prompt}
        lines.append({**shared, "type": "user", "uuid": f"u-{turn}", "promptId": turn, "message": message})
        blocks = {"id": f"m-{turn}", "content": [{"type": "text", "text": answer}]}
        lines.append({**shared, "type": "assistant", "uuid": f"a-{turn}", "message": blocks})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def compact(sessions: SessionHandler, path: Path) -> None:
    raw = {"session_id": "s1", "hook_event_name": "PreCompact", "cwd": WEB, "transcript_path": str(path)}
    sessions.handle(event("claude-code", json.dumps(raw).encode()), WEB, raw=json.dumps(raw).encode())
    sessions.import_spool()


def test_before_a_compaction_the_session_is_read_once_more_as_a_whole(opening: Opening, tmp_path: Path) -> None:
    cause = {"exchange": "t1", "text": "Imports hang because the lease runs out", "said_by": "assistant"}
    new = {"decisions": [{"fact": "f1", "action": "ADD", "memory": None, "text": None}]}
    again = [json.dumps({"facts": [cause]}), json.dumps(new)]
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds")), *again])
    keeper, sessions, _ = opening(llm)
    answer = "I looked at the logs. Imports hang because the lease runs out after a minute."
    path = transcript(tmp_path / "s1.jsonl", ("p1", LEASES, answer), ("p2", "thanks", "You are welcome."))
    compact(sessions, path)
    drain(keeper)
    assert texts(keeper) == ["Leases last ninety seconds", "Imports hang because the lease runs out"]
    system, user, _ = llm.calls[1]
    assert "about to be lost" in system
    assert answer in user
    assert "You are welcome." in user
    assert len(keeper.search_episodes("lease")) <= 1  # what is read twice is one episode


def test_the_next_compaction_reads_what_came_after_the_last_one(opening: Opening, tmp_path: Path) -> None:
    llm = ScriptedLLM([reply() for _ in range(4)])
    keeper, sessions, _ = opening(llm)
    path = transcript(tmp_path / "s1.jsonl", ("p1", LEASES, "Noted."))
    compact(sessions, path)
    compact(sessions, path)  # handed over twice
    drain(keeper)
    assert len(llm.calls) == 2
    compact(sessions, transcript(path, ("p1", LEASES, "Noted."), ("p2", KEYS, "Noted.")))
    drain(keeper)
    assert len(llm.calls) == 4
    assert LEASES not in llm.calls[-1][1].partition("<transcript>")[2]
    assert KEYS in llm.calls[-1][1].partition("<transcript>")[2]


def test_a_review_that_no_model_is_left_for_is_settled(opening: Opening, tmp_path: Path) -> None:
    llm = ScriptedLLM([Unavailable("down")] * 2)
    keeper, sessions, _ = opening(llm)
    compact(sessions, transcript(tmp_path / "s1.jsonl", ("p1", LEASES, "Noted.")))
    drain(keeper)
    assert len(waiting(keeper)) == 2
    clock = FixedClock("2026-01-03T00:00:00Z")
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as without:
        drain(without)
        assert without.items("pending") == without.items("parked") == []


@pytest.mark.parametrize("how", ["delete", "undo", "purge"])
def test_a_review_does_not_bring_back_what_a_person_removed(opening: Opening, tmp_path: Path, how: str) -> None:
    fact = reply(("t1", "Leases last ninety seconds"))
    llm = ScriptedLLM([fact, reply(), reply() if how == "purge" else fact])
    keeper, sessions, clock = opening(llm)
    path = transcript(tmp_path / "s1.jsonl", ("p1", LEASES, "Noted."), ("p2", "thanks", "You are welcome."))
    have_said(sessions, LEASES)
    clock.advance(PAUSE)
    drain(keeper)
    (memory,) = keeper.list().memories
    if how == "undo":
        keeper.undo(keeper.item(1).changeset or 0)
    else:
        getattr(keeper, how)(memory.id)
    compact(sessions, path)
    drain(keeper)
    assert texts(keeper) == []
    if how == "purge":
        assert "lease" not in repr(keeper.items()).lower()
        assert "lease" not in llm.calls[2][1].lower()
    else:
        assert LEASES in llm.calls[2][1]


def test_a_review_reads_every_day_by_itself_with_its_date(opening: Opening, tmp_path: Path) -> None:
    llm = ScriptedLLM([reply() for _ in range(3)])
    keeper, sessions, _ = opening(llm)
    turns = ("p1", LEASES, "Noted."), ("p2", KEYS, "Noted.")
    compact(sessions, transcript(tmp_path / "s1.jsonl", *turns, days=("2025-12-30", "2026-01-01")))
    drain(keeper)
    reviews = [item for item in keeper.items() if item.task == "extract"]
    assert sorted(item.exchange.at[:10] for item in reviews if item.exchange) == ["2025-12-30", "2026-01-01"]
    assert [LEASES in user for _, user, _ in llm.calls[-2:]] == [True, False]


@pytest.mark.parametrize("context", ["observation", "analysis"])
def test_what_is_read_by_rules_of_its_own_is_read_alone(opening: Opening, context: str) -> None:
    keeper, _, clock = opening(ScriptedLLM([reply(), reply()]), turns=8)
    for number, kind in enumerate(("stop", context)):
        said = [{"role": "user", "content": LEASES}, {"role": "assistant", "content": KEYS}]
        keeper.capture(said, client="claude-code", session="s1", turn=f"p{number}", project=WEB, context=kind)
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2]]
