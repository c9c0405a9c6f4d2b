"""Batches: the LLM reads several turns of a session in one call, and each turn has its own result."""

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
#: Looks like a fact, but no pattern matches it.
LEASES = "The lease of a lock must be ninety seconds because the importer is slow"
KEYS = "Idempotency keys must be kept for three days because the bank retries"
CACHE = "The cache must be off for the admin pages because they showed old prices"

SessionFactory = Callable[..., tuple[Keeper, SessionHandler, FixedClock]]


@pytest.fixture
def open_session(tmp_path: Path) -> Iterator[SessionFactory]:
    """Open a keeper with an LLM on the test's store, and a handler for its sessions."""
    with ExitStack() as stack:

        def open_all(llm: ScriptedLLM, turns: int = 3, judge: Judge | None = None) -> Any:
            clock = FixedClock()
            store = SqliteStore(tmp_path / "cofio.db", clock)
            batching = Batching(PAUSE, turns)
            keeper = stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, batching=batching, judge=judge))
            handler = SessionHandler(keeper, tmp_path)
            stack.callback(handler.close)
            return keeper, handler, clock

        yield open_all


def reply(*facts: tuple[str, str]) -> str:
    return json.dumps({"facts": [{"exchange": name, "text": text, "category": "detail"} for name, text in facts]})


def make_event(name: str, session: str = "s1", **fields: Any) -> Event:
    payload = {"session_id": session, "cwd": WEB, "hook_event_name": name, **fields}
    return event("claude-code", json.dumps(payload).encode())


def deliver_turns(handler: SessionHandler, *prompts: str, session: str = "s1", start: int = 1) -> None:
    """Deliver a turn for each prompt."""
    for number, prompt in enumerate(prompts, start):
        handler.handle(make_event("UserPromptSubmit", session, prompt=prompt, prompt_id=f"p{number}"), WEB)
        handler.handle(make_event("Stop", session, last_assistant_message="Noted.", prompt_id=f"p{number}"), WEB)


def drain(keeper: Keeper) -> list[list[int]]:
    """Learn everything that is due, as the worker does; return the ids of each batch."""
    batches = []
    for batch in keeper.services.captures.batches(keeper.services.captures.claim()):
        keeper.services.captures.process(*batch)
        batches.append([item.id for item in batch])
    return batches


def stored_texts(keeper: Keeper) -> list[str]:
    return [memory.text for memory in reversed(keeper.list().memories)]


def pending_items(keeper: Keeper) -> list[Item]:
    return keeper.items("pending")


def test_turns_wait_for_a_pause_and_are_read_in_one_call(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds"), ("t2", "Keys are kept for three days"))])
    keeper, handler, clock = open_session(llm)
    deliver_turns(handler, LEASES, KEYS)
    assert drain(keeper) == []
    assert llm.calls == []
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2]]
    assert stored_texts(keeper) == ["Leases last ninety seconds", "Keys are kept for three days"]
    (_, user, _) = llm.calls[0]
    assert user.index('<exchange id="t1"') < user.index(LEASES) < user.index('<exchange id="t2"') < user.index(KEYS)


def test_each_turn_has_its_own_result_and_undo(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds"), ("t3", "The cache is off for the admin pages"))])
    keeper, handler, _ = open_session(llm)
    deliver_turns(handler, LEASES, KEYS, CACHE)  # a full batch does not wait
    assert drain(keeper) == [[1, 2, 3]]
    first, second, third = (keeper.item(number) for number in (1, 2, 3))
    assert [item.state for item in (first, second, third)] == ["stored", "rejected", "stored"]
    assert first.changeset != third.changeset
    assert first.result["usage"]["calls"] == 1
    assert second.result["usage"]["calls"] == third.result["usage"]["calls"] == 0
    assert first.changeset
    keeper.undo(first.changeset)
    assert stored_texts(keeper) == ["The cache is off for the admin pages"]
    (memory,) = keeper.list().memories
    assert keeper.learned_from(memory.id) == third


def test_prompt_extends_the_session_and_an_interrupted_prompt_is_read_with_the_rest(
    open_session: SessionFactory,
) -> None:
    llm = ScriptedLLM([reply()])
    keeper, handler, clock = open_session(llm, turns=8)
    deliver_turns(handler, LEASES)
    handler.handle(make_event("UserPromptSubmit", prompt=KEYS, prompt_id="broken"), WEB)
    clock.advance(PAUSE - 60)
    handler.handle(make_event("UserPromptSubmit", prompt=CACHE, prompt_id="open"), WEB)
    clock.advance(PAUSE - 60)
    assert drain(keeper) == []
    clock.advance(120)
    assert drain(keeper) == [[1, 2]]
    assert LEASES in llm.calls[0][1]
    assert KEYS in llm.calls[0][1]


@pytest.mark.parametrize("name", ["SessionEnd", "PreCompact"])
def test_session_end_and_compaction_do_not_wait(open_session: SessionFactory, name: str) -> None:
    keeper, handler, _ = open_session(ScriptedLLM([reply()]))
    deliver_turns(handler, LEASES, KEYS)
    handler.handle(make_event(name), WEB)
    assert drain(keeper) == [[1, 2]]


def test_sessions_are_read_separately(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds")), reply(("t1", "Keys are kept for three days"))])
    keeper, handler, clock = open_session(llm)
    deliver_turns(handler, LEASES, session="s1")
    deliver_turns(handler, KEYS, session="s2")
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2]]
    assert KEYS not in llm.calls[0][1]


def test_fact_without_an_exchange_name_is_assigned_to_the_matching_exchange(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([json.dumps({"facts": [{"text": "Idempotency keys are kept for three days"}]})])
    keeper, handler, _ = open_session(llm)
    deliver_turns(handler, LEASES, KEYS, CACHE)
    drain(keeper)
    assert [keeper.item(number).state for number in (1, 2, 3)] == ["rejected", "stored", "rejected"]


def test_contradiction_within_a_batch_keeps_the_later_fact(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([reply(("t1", "The lease of a lock is 90 seconds"), ("t2", "The lease of a lock is 60 seconds"))])
    keeper, handler, _ = open_session(llm, judge=ValueJudge())
    deliver_turns(handler, "The lease of a lock is 90 seconds", "no, 60", "thanks")
    drain(keeper)
    assert stored_texts(keeper) == ["The lease of a lock is 60 seconds"]


def test_turns_wait_together_while_the_budget_is_spent(open_session: SessionFactory) -> None:
    error = BudgetSpent("spent", resets_at="2026-01-02T00:00:00Z")
    llm = ScriptedLLM([error, reply(("t1", "Leases last ninety seconds"), ("t3", "The cache is off for the admins"))])
    keeper, handler, clock = open_session(llm)
    deliver_turns(handler, LEASES, KEYS, CACHE)
    drain(keeper)
    assert len({item.due_at for item in pending_items(keeper)}) == 1
    clock.advance(48 * 3_600)
    assert drain(keeper) == [[1, 2, 3]]
    assert len(stored_texts(keeper)) == 2


def test_batches_shrink_after_a_failure_and_grow_again(open_session: SessionFactory) -> None:
    prompts = [f"The lease of lock {number} must be ninety seconds because its importer is slow" for number in range(8)]
    llm = ScriptedLLM([Unavailable("down"), Unavailable("down"), *[reply() for _ in range(4)]])
    keeper, handler, clock = open_session(llm, turns=8)
    deliver_turns(handler, *prompts)
    assert drain(keeper) == [[1, 2, 3, 4, 5, 6, 7, 8]]
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2, 3, 4], [5, 6], [7, 8]]
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2, 3, 4]]
    assert pending_items(keeper) == []


def test_turn_that_always_fails_does_not_block_others(open_session: SessionFactory) -> None:
    prompts = [f"The lease of lock {number} must be ninety seconds because its importer is slow" for number in range(8)]
    keeper, handler, clock = open_session(llm := ScriptedLLM([]), turns=8)

    def answer(system: str, user: str, *, schema: Any = None) -> Completion:
        if prompts[0] in user.partition("<transcript>")[2]:
            raise Unavailable("500")
        return Completion(reply())

    llm.complete = answer  # type: ignore[method-assign]
    deliver_turns(handler, *prompts)
    for _ in range(6):
        drain(keeper)
        clock.advance(PAUSE)
    assert [item.id for item in pending_items(keeper)] == [1]


def test_turns_are_learned_in_order_if_one_does_not_fit(open_session: SessionFactory) -> None:
    keeper, handler, clock = open_session(ScriptedLLM([reply(), reply()]), turns=8)
    long_prompt = " ".join([LEASES] * 200)
    deliver_turns(handler, long_prompt[:12_000], long_prompt[:15_000], KEYS)
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2, 3]]


def test_answer_to_a_prompt_does_not_release_the_next_prompt(open_session: SessionFactory) -> None:
    keeper, handler, clock = open_session(ScriptedLLM([reply()]), turns=8)
    handler.handle(make_event("UserPromptSubmit", prompt=LEASES, prompt_id="p1"), WEB)
    handler.handle(make_event("UserPromptSubmit", prompt=KEYS, prompt_id="p2"), WEB)
    handler.handle(make_event("Stop", last_assistant_message="Noted.", prompt_id="p1"), WEB)
    clock.advance(PAUSE)
    assert drain(keeper) == [[1]]
    assert [item.id for item in pending_items(keeper)] == [2]


def test_injected_text_does_not_fill_a_batch(open_session: SessionFactory) -> None:
    keeper, _, clock = open_session(ScriptedLLM([reply()]), turns=8)
    for number, prompt in enumerate((LEASES, KEYS)):
        messages = [{"role": "user", "content": prompt}]
        fields = {"client": "claude-code", "session": "s1", "turn": f"p{number}", "project": WEB, "context": "stop"}
        keeper.amend(messages, injected=["What it was given " * 40] * 40, **fields)
    assert drain(keeper) == []
    clock.advance(PAUSE)
    assert drain(keeper) == [[1, 2]]


def test_unreadable_reply_is_repeated_turn_by_turn(open_session: SessionFactory) -> None:
    single_replies = [
        reply(("t1", "Leases last ninety seconds")),
        reply(("t1", "Keys are kept for three days")),
        reply(),
    ]
    keeper, handler, clock = open_session(llm := ScriptedLLM(["no JSON", *single_replies]))
    deliver_turns(handler, LEASES, KEYS, CACHE)
    drain(keeper)
    assert [item.faults for item in pending_items(keeper)] == [1, 1, 1]
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2], [3]]
    assert stored_texts(keeper) == ["Leases last ninety seconds", "Keys are kept for three days"]
    assert len(llm.calls) == 4


def test_after_a_truncated_reply_only_turns_without_facts_are_read_again(open_session: SessionFactory) -> None:
    truncated_reply = Completion(
        '{"facts": [{"exchange": "t1", "text": "Leases last ninety seconds"}, {"exch', truncated=True
    )
    keeper, handler, clock = open_session(
        llm := ScriptedLLM([truncated_reply, reply(("t1", "Keys are kept for three days")), reply()])
    )
    deliver_turns(handler, LEASES, KEYS, CACHE)
    drain(keeper)
    assert [item.id for item in pending_items(keeper)] == [3, 2]
    clock.advance(PAUSE)
    drain(keeper)
    assert stored_texts(keeper) == ["Leases last ninety seconds", "Keys are kept for three days"]
    assert len(llm.calls) == 3


def test_request_that_is_too_large_is_split(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([TooLarge("too long"), reply(("t1", "Leases last ninety seconds")), reply(("t2", "No cache"))])
    keeper, handler, _ = open_session(llm)
    deliver_turns(handler, LEASES, KEYS, CACHE)
    drain(keeper)
    assert stored_texts(keeper) == ["Leases last ninety seconds", "No cache"]
    assert [keeper.item(number).state for number in (1, 2, 3)] == ["stored", "rejected", "stored"]


def test_turn_that_grows_during_the_call_waits_alone(open_session: SessionFactory) -> None:
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds"), ("t2", "Keys are kept for three days"))])
    keeper, handler, clock = open_session(llm)
    deliver_turns(handler, LEASES, KEYS)
    clock.advance(PAUSE)
    complete = llm.complete

    def complete_slowly(*arguments: Any, **options: Any) -> Completion:
        amended = [
            {"role": "user", "content": LEASES},
            {"role": "assistant", "content": "Ninety it is, in redis.conf."},
        ]
        keeper.amend(amended, client="claude-code", session="s1", turn="p1", project=WEB)
        return complete(*arguments, **options)

    llm.complete = complete_slowly  # type: ignore[method-assign]
    drain(keeper)
    assert [item.id for item in pending_items(keeper)] == [1]
    assert stored_texts(keeper) == ["Keys are kept for three days"]


def test_without_an_llm_nothing_waits(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "b.db", clock), HashEmbedder(), clock, batching=Batching(PAUSE)) as keeper:
        handler = SessionHandler(keeper, tmp_path)
        deliver_turns(handler, "We use pnpm.", "We use Postgres.")
        assert drain(keeper) == [[1], [2]]
        handler.close()


# ── Review before a compaction ────────────────────────────────────────────────────────────────────────────────────────


def transcript(path: Path, *turns: tuple[str, str, str], days: tuple[str, ...] = ()) -> Path:
    """Write a Claude Code transcript with these turns (id, prompt, answer) on these days."""
    lines: list[dict[str, Any]] = []
    for index, (turn, prompt, answer) in enumerate(turns):
        day = days[index] if days else "2026-01-01"
        shared = {"sessionId": "s1", "timestamp": f"{day}T00:00:01.000Z"}
        message = {"role": "user", "content": prompt}
        lines.append({**shared, "type": "user", "uuid": f"u-{turn}", "promptId": turn, "message": message})
        blocks = {"id": f"m-{turn}", "content": [{"type": "text", "text": answer}]}
        lines.append({**shared, "type": "assistant", "uuid": f"a-{turn}", "message": blocks})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def compact(handler: SessionHandler, path: Path) -> None:
    raw = {"session_id": "s1", "hook_event_name": "PreCompact", "cwd": WEB, "transcript_path": str(path)}
    handler.handle(event("claude-code", json.dumps(raw).encode()), WEB, raw=json.dumps(raw).encode())
    handler.import_spool()


def test_compaction_reviews_the_whole_session(open_session: SessionFactory, tmp_path: Path) -> None:
    fact = {"exchange": "t1", "text": "Imports hang because the lease runs out", "said_by": "assistant"}
    decision = {"decisions": [{"fact": "f1", "action": "ADD", "memory": None, "text": None}]}
    review_replies = [json.dumps({"facts": [fact]}), json.dumps(decision)]
    llm = ScriptedLLM([reply(("t1", "Leases last ninety seconds")), *review_replies])
    keeper, handler, _ = open_session(llm)
    answer = "I looked at the logs. Imports hang because the lease runs out after a minute."
    path = transcript(tmp_path / "s1.jsonl", ("p1", LEASES, answer), ("p2", "thanks", "You are welcome."))
    compact(handler, path)
    drain(keeper)
    assert stored_texts(keeper) == ["Leases last ninety seconds", "Imports hang because the lease runs out"]
    system, user, _ = llm.calls[1]
    assert "about to be lost" in system
    assert answer in user
    assert "You are welcome." in user
    assert len(keeper.search_episodes("lease")) <= 1  # a turn read twice is one episode


def test_next_compaction_reviews_only_later_turns(open_session: SessionFactory, tmp_path: Path) -> None:
    llm = ScriptedLLM([reply() for _ in range(4)])
    keeper, handler, _ = open_session(llm)
    path = transcript(tmp_path / "s1.jsonl", ("p1", LEASES, "Noted."))
    compact(handler, path)
    compact(handler, path)  # delivered twice
    drain(keeper)
    assert len(llm.calls) == 2
    compact(handler, transcript(path, ("p1", LEASES, "Noted."), ("p2", KEYS, "Noted.")))
    drain(keeper)
    assert len(llm.calls) == 4
    assert LEASES not in llm.calls[-1][1].partition("<transcript>")[2]
    assert KEYS in llm.calls[-1][1].partition("<transcript>")[2]


def test_review_without_an_llm_is_resolved(open_session: SessionFactory, tmp_path: Path) -> None:
    llm = ScriptedLLM([Unavailable("down")] * 2)
    keeper, handler, _ = open_session(llm)
    compact(handler, transcript(tmp_path / "s1.jsonl", ("p1", LEASES, "Noted.")))
    drain(keeper)
    assert len(pending_items(keeper)) == 2
    clock = FixedClock("2026-01-03T00:00:00Z")
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper_without_llm:
        drain(keeper_without_llm)
        assert keeper_without_llm.items("pending") == keeper_without_llm.items("parked") == []


@pytest.mark.parametrize("operation", ["delete", "undo", "purge"])
def test_review_does_not_restore_removed_memories(open_session: SessionFactory, tmp_path: Path, operation: str) -> None:
    fact = reply(("t1", "Leases last ninety seconds"))
    llm = ScriptedLLM([fact, reply(), reply() if operation == "purge" else fact])
    keeper, handler, clock = open_session(llm)
    path = transcript(tmp_path / "s1.jsonl", ("p1", LEASES, "Noted."), ("p2", "thanks", "You are welcome."))
    deliver_turns(handler, LEASES)
    clock.advance(PAUSE)
    drain(keeper)
    (memory,) = keeper.list().memories
    if operation == "undo":
        keeper.undo(keeper.item(1).changeset or 0)
    else:
        getattr(keeper, operation)(memory.id)
    compact(handler, path)
    drain(keeper)
    assert stored_texts(keeper) == []
    if operation == "purge":
        assert "lease" not in repr(keeper.items()).lower()
        assert "lease" not in llm.calls[2][1].lower()
    else:
        assert LEASES in llm.calls[2][1]


def test_review_reads_every_day_separately_with_its_date(open_session: SessionFactory, tmp_path: Path) -> None:
    llm = ScriptedLLM([reply() for _ in range(3)])
    keeper, handler, _ = open_session(llm)
    turns = ("p1", LEASES, "Noted."), ("p2", KEYS, "Noted.")
    compact(handler, transcript(tmp_path / "s1.jsonl", *turns, days=("2025-12-30", "2026-01-01")))
    drain(keeper)
    reviews = [item for item in keeper.items() if item.task == "extract"]
    assert sorted(item.exchange.at[:10] for item in reviews if item.exchange) == ["2025-12-30", "2026-01-01"]
    assert [LEASES in user for _, user, _ in llm.calls[-2:]] == [True, False]


@pytest.mark.parametrize("context", ["observation", "analysis"])
def test_context_with_its_own_prompt_is_read_alone(open_session: SessionFactory, context: str) -> None:
    keeper, _, clock = open_session(ScriptedLLM([reply(), reply()]), turns=8)
    for number, kind in enumerate(("stop", context)):
        messages = [{"role": "user", "content": LEASES}, {"role": "assistant", "content": KEYS}]
        keeper.capture(messages, client="claude-code", session="s1", turn=f"p{number}", project=WEB, context=kind)
    clock.advance(PAUSE)
    assert drain(keeper) == [[1], [2]]
