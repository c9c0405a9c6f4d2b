"""Attending a session: what is recalled, what is kept, and that each turn is kept once."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import TooBusy
from cofio.hooks import briefing_cache, endpoint_file, offline_recall_log, spool
from cofio.hooks.client_events import Event, event
from cofio.models.exchange import Item
from cofio.models.memory import Viewer
from cofio.server.background.inbox_worker import InboxWorker
from cofio.server.session_handler import HOLD, SessionHandler
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

WEB = "/home/ann/web"
DRIZZLE = "We switched from Prisma to Drizzle."


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as opened:
        yield opened


@pytest.fixture
def sessions(keeper: Keeper, tmp_path: Path) -> Iterator[SessionHandler]:
    made = SessionHandler(keeper, tmp_path)
    yield made
    made.close()


def told(name: str, session: str = "s1", client: str = "claude-code", **fields: Any) -> Event:
    given = {"session_id": session, "cwd": WEB, "hook_event_name": name, **fields}
    return event(client, json.dumps(given).encode())


def asked(prompt: str, turn: str = "p1", **fields: Any) -> Event:
    return told("UserPromptSubmit", prompt=prompt, prompt_id=turn, **fields)


def answered(reply: str, turn: str = "p1", **fields: Any) -> Event:
    return told("Stop", last_assistant_message=reply, prompt_id=turn, **fields)


def said(item: Item) -> list[tuple[str, str]]:
    assert item.exchange
    return [(message.role, message.text) for message in item.exchange.messages]


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_is_held_until_its_answer_makes_it_a_turn(sessions: SessionHandler, keeper: Keeper) -> None:
    sessions.handle(asked(DRIZZLE), WEB)
    assert keeper.services.captures.due() == []
    assert keeper.inbox_status().pending == 1
    sessions.handle(answered("Good choice."), WEB)
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]
    assert item.exchange
    assert (item.exchange.client, item.exchange.session, item.exchange.turn) == ("claude-code", "s1", "p1")
    assert (item.exchange.project, item.exchange.source) == (WEB, "claude-code/web")


def test_what_was_never_answered_is_due_when_the_next_prompt_comes(sessions: SessionHandler, keeper: Keeper) -> None:
    sessions.handle(asked(DRIZZLE), WEB)
    sessions.handle(asked("Show me the schema.", "p2"), WEB)
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE)]


@pytest.mark.parametrize("name", ["StopFailure", "PreCompact", "SessionEnd"])
def test_what_is_held_is_due_when_the_session_ends_or_the_turn_fails(
    name: str, sessions: SessionHandler, keeper: Keeper
) -> None:
    sessions.handle(asked(DRIZZLE), WEB)
    sessions.handle(told(name, last_assistant_message="API Error: 529 overloaded"), WEB)
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE)]


def test_a_prompt_that_nobody_answers_is_learned_from_alone_in_the_end(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        sessions.handle(asked(DRIZZLE), WEB)
        clock.advance(HOLD + 1)
        assert [said(item) for item in keeper.services.captures.due()] == [[("user", DRIZZLE)]]
        sessions.close()


def test_hook_notify_and_transcript_tell_of_a_turn_and_it_is_learned_once(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    line = {"type": "response_item", "payload": {"type": "message"}}
    path = tmp_path / "rollout.jsonl"
    lines: list[dict[str, Any]] = [
        {"type": "session_meta", "payload": {"id": "s1"}},
        {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "t1"}},
        {**line, "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": DRIZZLE}]}},
        {**line, "payload": {"type": "message", "role": "assistant",
                             "content": [{"type": "output_text", "text": "Good choice."}]}},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    codex = {"client": "codex", "transcript_path": str(path)}
    notified = {"type": "agent-turn-complete", "thread-id": "s1", "turn-id": "t1", "cwd": WEB,
                "input-messages": [DRIZZLE], "last-assistant-message": "Good choice."}  # fmt: skip
    worker = InboxWorker(keeper, fetch=sessions.import_spool)
    prompt = told("UserPromptSubmit", prompt=DRIZZLE, turn_id="t1", **codex)
    stop = told("Stop", last_assistant_message="Good choice.", turn_id="t1", **codex)
    for happened in (prompt, stop):
        sessions.handle(happened, WEB)
    worker.drain()
    sessions.handle(event("codex", json.dumps(notified).encode()), WEB)
    sessions.handle(stop, WEB)
    end = told("SessionEnd", **codex)
    sessions.handle(end, WEB, raw=json.dumps({"session_id": "s1", "hook_event_name": "SessionEnd",
                                               "transcript_path": str(path), "cwd": WEB}).encode())  # fmt: skip
    assert sessions.import_spool() == 1
    worker.drain()
    assert keeper.inbox_status().captured == 1
    assert keeper.count() == 1


def test_an_older_client_that_names_no_turn_still_gets_prompt_and_answer_together(
    sessions: SessionHandler, keeper: Keeper
) -> None:
    sessions.handle(asked(DRIZZLE, ""), WEB)
    sessions.handle(answered("Good choice.", ""), WEB)
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]


def test_the_same_words_asked_again_lose_no_answer(sessions: SessionHandler, keeper: Keeper) -> None:
    worker = InboxWorker(keeper)
    for reply in ("The build uses Bazel.", "The tests run on port 5433."):
        sessions.handle(asked("continue", ""), WEB)
        sessions.handle(answered(reply, ""), WEB)
        worker.drain()
    kept = [text for item in keeper.items() for role, text in said(item) if role == "assistant"]
    assert sorted(kept) == ["The build uses Bazel.", "The tests run on port 5433."]


def test_a_subagent_is_not_listened_to(sessions: SessionHandler, keeper: Keeper) -> None:
    assert sessions.handle(asked(DRIZZLE, agent_id="a1"), WEB) == ""
    sessions.handle(answered("Done.", agent_id="a1"), WEB)
    sessions.handle(told("SubagentStop", last_assistant_message="Done."), WEB)
    assert keeper.inbox_status().captured == 0


def test_a_session_that_cofio_started_as_its_model_is_not_listened_to(sessions: SessionHandler, keeper: Keeper) -> None:
    own = f"<cofio-request>\n{DRIZZLE}\n</cofio-request>"
    assert sessions.handle(asked(own), WEB) == ""
    sessions.handle(answered(DRIZZLE), WEB)
    sessions.handle(told("SessionEnd"), WEB)
    notified = {"type": "agent-turn-complete", "thread-id": "t1", "turn-id": "1", "cwd": WEB,
                "input-messages": [own], "last-assistant-message": DRIZZLE}  # fmt: skip
    sessions.handle(event("codex", json.dumps(notified).encode()), WEB)
    assert keeper.inbox_status().pending == 0
    sessions.handle(asked(DRIZZLE, session="s2"), WEB)
    assert keeper.inbox_status().pending == 1


def test_what_the_client_wrote_in_the_users_name_is_no_prompt(sessions: SessionHandler, keeper: Keeper) -> None:
    sessions.handle(asked("<task-notification>the build is done</task-notification>"), WEB)
    assert keeper.inbox_status().captured == 0


def test_the_agents_echo_of_a_memory_is_not_news(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    assert "Fly.io" in sessions.handle(told("SessionStart", source="startup"), WEB)
    sessions.handle(asked("Where does it run?"), WEB)
    sessions.handle(answered("We deploy with Fly.io."), WEB)
    (item,) = keeper.items()
    assert item.exchange
    assert item.exchange.injected == ("We deploy with Fly.io.",)
    InboxWorker(keeper).drain()
    assert keeper.count() == 1
    assert keeper.inbox_status().rejected == 1


# ── the transcript ────────────────────────────────────────────────────────────────────────────────────────────────────


def transcript(path: Path, *turns: tuple[str, str, str], session: str = "s1") -> Path:
    """A Claude Code transcript with these turns: id, prompt, answer."""
    lines: list[dict[str, Any]] = []
    for place, (turn, prompt, answer) in enumerate(turns):
        shared = {"sessionId": session, "timestamp": "2026-11-15T10:00:00.000Z"}
        lines.append({**shared, "type": "user", "uuid": f"u{place}", "promptId": turn,
                      "message": {"role": "user", "content": prompt}})  # fmt: skip
        if answer:
            lines.append({**shared, "type": "assistant", "uuid": f"a{place}",
                          "message": {"id": f"m{place}", "content": [{"type": "text", "text": answer}]}})  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type":"user","mess')
    return path


def ended(path: Path, name: str = "SessionEnd") -> tuple[Event, bytes]:
    raw = json.dumps({"session_id": "s1", "hook_event_name": name, "cwd": WEB, "transcript_path": str(path)}).encode()
    return event("claude-code", raw), raw


def test_turns_that_no_hook_told_of_are_taken_from_the_transcript(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = transcript(tmp_path / "s1.jsonl", ("p0", "We use pnpm.", "Noted."), ("p1", DRIZZLE, "Good choice."))
    sessions.handle(asked(DRIZZLE), WEB)
    sessions.handle(answered("Good choice."), WEB)
    happened, raw = ended(path)
    sessions.handle(happened, WEB, raw=raw)
    assert sessions.import_spool() == 1
    assert [said(item) for item in keeper.services.captures.due()] == [
        [("user", DRIZZLE), ("assistant", "Good choice.")],
        [("user", "We use pnpm."), ("assistant", "Noted.")],
    ]
    sessions.handle(happened, WEB, raw=raw)
    sessions.import_spool()
    assert keeper.inbox_status().captured == 2


def test_the_answer_of_a_turn_that_was_broken_off_comes_from_the_transcript(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "I have begun to"))
    sessions.handle(asked(DRIZZLE), WEB)
    happened, raw = ended(path, "PreCompact")
    sessions.handle(happened, WEB, raw=raw)
    sessions.import_spool()
    assert [said(item) for item in keeper.services.captures.due()] == [
        [("user", DRIZZLE), ("assistant", "I have begun to")]
    ]


def test_copies_of_another_sessions_turns_are_left_to_that_session(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = transcript(tmp_path / "s1.jsonl", ("p1", "We use pnpm.", "Noted."), ("p1", DRIZZLE, "Good choice."))
    happened, raw = ended(path)
    sessions.handle(happened, WEB, raw=raw)
    sessions.import_spool()
    assert [said(item) for item in keeper.services.captures.due()] == [
        [("user", DRIZZLE), ("assistant", "Good choice.")]
    ]


def test_a_transcript_of_another_machine_is_not_looked_for(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "Good choice."))
    happened, raw = ended(path)
    sessions.handle(happened, WEB, raw=raw, local=False)
    assert sessions.import_spool() == 0
    assert keeper.inbox_status().captured == 0


@pytest.mark.parametrize("name", ["gone.jsonl", "notes.txt", "folder.jsonl"])
def test_a_transcript_that_is_none_does_no_harm(
    name: str, sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "notes.txt").write_text(DRIZZLE)
    happened, raw = ended(tmp_path / name)
    sessions.handle(happened, WEB, raw=raw)
    assert sessions.import_spool() == 1
    assert keeper.inbox_status().captured == 0


def test_what_no_hook_told_of_a_known_turn_comes_from_the_transcript(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    sessions.handle(answered("Good choice."), WEB)
    InboxWorker(keeper).drain()
    path = transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "Good choice."))
    happened, raw = ended(path)
    for _ in range(2):
        sessions.handle(happened, WEB, raw=raw)
        sessions.import_spool()
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE)]


def test_after_a_restart_the_answer_of_a_broken_off_turn_still_comes_from_the_transcript(
    keeper: Keeper, tmp_path: Path
) -> None:
    first = SessionHandler(keeper, tmp_path)
    first.handle(asked(DRIZZLE), WEB)
    first.close()
    second = SessionHandler(keeper, tmp_path)
    path = transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "I have begun to"), ("p2", "Go on.", "Done."))
    happened, raw = ended(path)
    second.handle(happened, WEB, raw=raw)
    second.import_spool()
    told = [said(item) for item in keeper.services.captures.due()]
    assert [("user", DRIZZLE), ("assistant", "I have begun to")] in told
    second.close()


def test_after_a_restart_the_next_prompt_still_releases_what_was_broken_off(keeper: Keeper, tmp_path: Path) -> None:
    first = SessionHandler(keeper, tmp_path)
    first.handle(asked(DRIZZLE), WEB)
    first.close()
    second = SessionHandler(keeper, tmp_path)
    second.handle(asked("Show me the schema.", "p2"), WEB)
    assert [said(item) for item in keeper.services.captures.due()] == [[("user", DRIZZLE)]]
    second.close()


@pytest.mark.parametrize(
    "lines",
    [
        '{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"half \\ud83d of it"}}\n',
        '{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"\\u0000"}}\n',
        "[" * 200_000 + "\n",
    ],
)
def test_a_transcript_with_anything_in_it_keeps_nothing_else_from_being_learned(
    lines: str, sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_text(lines)
    happened, raw = ended(path)
    sessions.handle(happened, WEB, raw=raw)
    spooled(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    sessions.import_spool()
    assert list(spool.entries(tmp_path)) == []
    assert [("assistant", "Good choice.")] in [said(item) for item in keeper.services.captures.due()]


@pytest.mark.parametrize("name", ["x" * 300 + ".jsonl", "gone/s1.jsonl", "pipe.jsonl"])
def test_a_path_that_cannot_be_looked_at_is_passed_over(
    name: str, sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    happened, raw = ended(tmp_path / name)
    sessions.handle(asked(DRIZZLE), WEB)
    sessions.handle(happened, WEB, raw=raw)
    assert sessions.import_spool() == 1
    assert [said(item) for item in keeper.services.captures.due()] == [[("user", DRIZZLE)]]


# ── the spool ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def spooled(home: Path, happened: dict[str, Any], at: str = "2026-11-15T10:00:00.000000+00:00") -> None:
    raw = json.dumps({"session_id": "s1", "cwd": WEB, **happened}).encode()
    spool.store_delivery(home, "claude-code", raw, at=at, project=WEB, event=happened["hook_event_name"])


def test_what_was_spooled_is_taken_in_as_if_it_had_come_then(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    spooled(tmp_path, {"hook_event_name": "UserPromptSubmit", "prompt": DRIZZLE, "prompt_id": "p1"})
    spooled(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    assert sessions.import_spool() == 2
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]
    assert list(spool.entries(tmp_path)) == []


def test_what_came_by_both_ways_is_one_turn(sessions: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    sessions.handle(asked(DRIZZLE), WEB)
    spooled(tmp_path, {"hook_event_name": "UserPromptSubmit", "prompt": DRIZZLE, "prompt_id": "p1"})
    sessions.import_spool()
    sessions.handle(answered("Good choice."), WEB)
    [item] = keeper.services.captures.due()
    assert said(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]


def test_a_delivery_that_cannot_be_read_is_put_aside_and_the_next_is_taken(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    spool.store_delivery(tmp_path, "claude-code", b'{"half": ', at="", project=WEB, event="Stop")
    spooled(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    assert sessions.import_spool() == 1
    assert list(spool.entries(tmp_path)) == []
    assert len(list((tmp_path / "spool" / "bad").iterdir())) == 1


def test_a_prompt_that_comes_after_its_answer_does_not_hold_the_turn_back(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    sessions.handle(answered("Good choice."), WEB)
    spooled(tmp_path, {"hook_event_name": "UserPromptSubmit", "prompt": DRIZZLE, "prompt_id": "p1"})
    sessions.import_spool()
    [item] = keeper.services.captures.due()
    assert sorted(said(item)) == [("assistant", "Good choice."), ("user", DRIZZLE)]


def test_what_is_left_for_the_service_of_another_store_is_left_to_it(keeper: Keeper, tmp_path: Path) -> None:
    spooled(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    endpoint_file.write_endpoint(tmp_path, "http://127.0.0.1:1", "", (800, 300), "/elsewhere.db")
    sessions = SessionHandler(keeper, tmp_path, is_mine=lambda: not endpoint_file.is_others(tmp_path, "/here.db"))
    assert sessions.import_spool() == 0
    assert len(list(spool.entries(tmp_path))) == 1
    endpoint_file.remove(tmp_path, "/elsewhere.db")
    assert sessions.import_spool() == 1
    sessions.close()


def test_a_full_inbox_empties_although_the_spool_cannot(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, inbox_limit=2) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        for turn in range(9):
            happened = {"hook_event_name": "Stop", "last_assistant_message": f"Done {turn}.", "prompt_id": f"p{turn}"}
            spooled(tmp_path, happened)
        worker = InboxWorker(keeper, fetch=sessions.import_spool)
        worker.start()
        for _ in range(600):
            if keeper.inbox_status().captured == 9 and not keeper.inbox_status().pending:
                break
            worker.wake()
            time.sleep(0.05)
        worker.stop()
        assert keeper.inbox_status().captured == 9
        assert list(spool.entries(tmp_path)) == []
        sessions.close()


def test_when_the_inbox_is_full_the_spool_keeps_what_it_has(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, inbox_limit=1) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        for turn in ("p1", "p2", "p3"):
            happened = {"hook_event_name": "Stop", "last_assistant_message": f"Done {turn}.", "prompt_id": turn}
            spooled(tmp_path, happened)
        with pytest.raises(TooBusy):
            sessions.import_spool()
        assert len(list(spool.entries(tmp_path))) == 2
        sessions.close()


# ── what is recalled ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_no_hook_waited_for_is_not_noted_as_given(keeper: Keeper, tmp_path: Path) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    sessions = SessionHandler(keeper, tmp_path, patience=0.0)
    for _ in range(2):
        assert "Fly.io" in sessions.handle(told("SessionStart", source="startup"), WEB)
    sessions.close()


def test_what_was_said_a_while_ago_is_kept_and_answered_with_nothing(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    before = "2025-12-31T10:00:00+00:00"
    assert sessions.handle(asked("We deploy with Fly.io?"), WEB, at=before) == ""
    assert sessions.handle(told("SessionStart", source="startup"), WEB, at=before) == ""
    sessions.handle(answered("Yes."), WEB, at=before)
    [item] = keeper.services.captures.due()
    assert item.exchange
    assert item.exchange.at.startswith("2025-12-31T10:00:00")
    assert "Fly.io" in sessions.handle(asked("We deploy with Fly.io?", "p2"), WEB)


def test_a_memory_is_given_once_a_session(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    assert "Fly.io" in sessions.handle(told("SessionStart", source="startup"), WEB)
    assert sessions.handle(told("SessionStart", source="resume"), WEB) == ""
    assert sessions.handle(asked("We deploy with Fly.io?"), WEB) == ""
    assert "Fly.io" in sessions.handle(asked("We deploy with Fly.io?", session="s2"), WEB)


def test_hooks_that_fire_twice_at_once_are_given_it_once(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    for session in map(str, range(20)):
        start = told("SessionStart", session=session, source="startup")
        with ThreadPoolExecutor(4) as hooks:
            told_twice = [hooks.submit(sessions.handle, start, WEB) for _ in range(4)]
        assert sum("Fly.io" in each.result() for each in told_twice) == 1


def test_after_a_compaction_it_is_given_again(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    sessions.handle(told("SessionStart", source="startup"), WEB)
    assert "Fly.io" in sessions.handle(told("SessionStart", source="compact"), WEB)
    assert "Fly.io" in sessions.handle(told("SessionStart", source="clear"), WEB)


def test_a_service_that_was_restarted_knows_what_a_session_was_given(keeper: Keeper, tmp_path: Path) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    first = SessionHandler(keeper, tmp_path)
    first.handle(told("SessionStart", source="startup"), WEB)
    first.close()
    second = SessionHandler(keeper, tmp_path)
    assert second.handle(asked("We deploy with Fly.io?"), WEB) == ""
    second.close()


def test_a_memory_that_was_reworded_is_given_again(sessions: SessionHandler, keeper: Keeper) -> None:
    added = keeper.add("We deploy with Fly.io.", project=WEB)
    sessions.handle(told("SessionStart", source="startup"), WEB)
    keeper.update(added.memory_id, text="We deploy with Fly.io, on Fridays only.")
    assert "Fridays" in sessions.handle(told("SessionStart", source="resume"), WEB)


def test_a_namesake_elsewhere_is_another_project(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    assert sessions.handle(told("SessionStart", source="startup"), "/srv/other/web") == ""


def test_the_start_of_a_session_leaves_a_briefing_behind_and_a_purge_takes_it_away(
    keeper: Keeper, sessions: SessionHandler, tmp_path: Path
) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    block = sessions.handle(told("SessionStart", source="startup"), WEB)
    assert briefing_cache.load_briefing(tmp_path, WEB) == block
    briefing_cache.clear(tmp_path)
    assert briefing_cache.load_briefing(tmp_path, WEB) == ""


# ── what was recalled without the service ─────────────────────────────────────────────────────────────────────────────


def test_what_hooks_gave_by_themselves_counts_as_recalled(
    keeper: Keeper, sessions: SessionHandler, tmp_path: Path
) -> None:
    one, two = (keeper.add(text).memory_id for text in ("we use tabs", "the port is 8080"))
    offline_recall_log.append_line(os.fsencode(tmp_path), "claude-code", [one, 999])
    offline_recall_log.append_line(os.fsencode(tmp_path), "codex", [one])
    with (tmp_path / "recalled.log").open("a") as log:
        log.write("yesterday claude-code 2\n\nnonsense\n2026-01-01T00:00:00.000Z codex x y\n")
    sessions.import_spool()
    sessions.import_spool()
    assert keeper.get(one).retrieval_count == 2
    assert keeper.get(two).retrieval_count == 1  # "yesterday" is no time; that it was recalled is known
    assert not list(tmp_path.glob("recalled*"))


def test_what_was_taken_before_a_crash_is_counted_after_it(
    keeper: Keeper, sessions: SessionHandler, tmp_path: Path
) -> None:
    def crash(_: Any) -> None:
        raise KeyboardInterrupt

    one = keeper.add("we use tabs").memory_id
    offline_recall_log.append_line(os.fsencode(tmp_path), "codex", [one])
    with pytest.raises(KeyboardInterrupt):
        offline_recall_log.import_log(os.fsencode(tmp_path), crash)
    offline_recall_log.append_line(os.fsencode(tmp_path), "codex", [one])
    sessions.import_spool()
    assert keeper.get(one).retrieval_count == 2


def test_a_log_that_cannot_be_read_keeps_nothing_from_being_learned(sessions: SessionHandler, tmp_path: Path) -> None:
    (tmp_path / "recalled.log.taken").mkdir()
    assert sessions.import_spool() == 0


def test_a_time_that_cannot_be_is_taken_for_now(keeper: Keeper) -> None:
    one = keeper.add("we use tabs").memory_id
    keeper.services.shared.retrieval_log.import_recalls(
        [("1971-01-01T00:00:00Z", "codex", [one]), ("2999-01-01T00:00:00Z", "codex", [one, 999])]
    )
    found = keeper.get(one)
    assert (found.retrieval_count, (found.last_retrieved_at or "")[:4]) == (2, "2026")


# ── hooks that fire twice at once ─────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_that_is_told_twice_at_once_is_held_for_its_answer(
    keeper: Keeper, sessions: SessionHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, both = keeper.services.captures.release, threading.Barrier(2)

    def together(client: str, session: str) -> int:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # whoever comes here waits for the other, if the other can come
        return release(client, session)

    monkeypatch.setattr(keeper.services.captures, "release", together)
    with ThreadPoolExecutor(2) as hooks:
        list(hooks.map(lambda _: sessions.capture(asked(DRIZZLE), WEB), range(2)))
    assert keeper.services.captures.due() == []
    sessions.capture(answered("Noted."), WEB)
    assert [said(item) for item in keeper.items()] == [[("user", DRIZZLE), ("assistant", "Noted.")]]


# ── callers with a key of their own ───────────────────────────────────────────────────────────────────────────────────

ADA, EVE = Viewer(user="ada"), Viewer(user="eve")


def test_each_caller_is_given_what_they_may_see(sessions: SessionHandler, keeper: Keeper) -> None:
    for viewer in (ADA, EVE):
        keeper.as_viewer(viewer).add(f"{viewer.user} deploys with Fly.io", project=WEB)
    for viewer, other in ((ADA, "eve"), (EVE, "ada")):  # the same session by name
        for happened in (told("SessionStart", source="startup"), asked("how do we deploy with Fly.io?")):
            given = sessions.handle(happened, WEB, keeper=keeper.as_viewer(viewer))
            assert other not in given
        assert f"{viewer.user} deploys" in sessions.handle(
            told("SessionStart", source="clear"), WEB, keeper=keeper.as_viewer(viewer)
        )


def test_what_one_was_given_counts_for_that_one_alone(sessions: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io", project=WEB, visibility="global")
    for viewer in (None, ADA, EVE):
        seen = keeper.as_viewer(viewer)
        assert "Fly.io" in sessions.handle(told("SessionStart", source="startup"), WEB, keeper=seen)
        assert sessions.handle(told("SessionStart", source="startup"), WEB, keeper=seen) == ""


def test_nothing_of_a_caller_with_a_key_is_left_on_the_disk(
    sessions: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    keeper.as_viewer(ADA).add("We deploy with Fly.io", project=WEB)
    secret = tmp_path / "others.jsonl"
    secret.write_text('{"type": "user", "message": {"content": "We switched from Prisma to Drizzle."}}\n')
    assert sessions.handle(told("SessionStart", source="startup"), WEB, keeper=keeper.as_viewer(ADA))
    end = told("SessionEnd", transcript_path=str(secret))
    sessions.handle(end, WEB, raw=b'{"hook_event_name": "SessionEnd"}', keeper=keeper.as_viewer(ADA))
    assert briefing_cache.load_briefing(tmp_path, WEB) == ""
    assert spool.waiting_files(tmp_path) == []
    assert keeper.inbox_status().captured == 0


def test_a_turn_is_its_callers_and_learned_from_as_theirs(sessions: SessionHandler, keeper: Keeper) -> None:
    for viewer in (ADA, EVE):
        seen = keeper.as_viewer(viewer)
        sessions.handle(asked(DRIZZLE), WEB, keeper=seen)
        sessions.handle(answered("Good choice."), WEB, keeper=seen)
    InboxWorker(keeper).drain()
    assert sorted(memory.user for memory in keeper) == ["ada", "eve"]
    assert keeper.inbox_status().captured == 2


def test_one_caller_does_not_end_anothers_turn_nor_call_it_a_subagents(
    sessions: SessionHandler, keeper: Keeper
) -> None:
    sessions.handle(asked(DRIZZLE), WEB, keeper=keeper.as_viewer(ADA))
    sessions.handle(told("SessionEnd"), WEB, keeper=keeper.as_viewer(EVE))
    assert keeper.services.captures.due() == []
    sessions.handle(told("SessionEnd"), WEB, keeper=keeper.as_viewer(ADA))
    assert len(keeper.services.captures.due()) == 1


def test_a_key_that_is_bound_to_sources_tells_below_them(sessions: SessionHandler, keeper: Keeper) -> None:
    bound = Viewer(user="ada", prefixes=("team-a",))
    sessions.handle(asked(DRIZZLE), WEB, keeper=keeper.as_viewer(bound))
    [item] = keeper.as_viewer(bound).items()
    assert item.exchange
    assert item.exchange.source == "team-a/claude-code/web"


def test_memories_learned_in_a_session_come_back_only_after_its_compaction(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        sessions.handle(asked(DRIZZLE), WEB)
        sessions.handle(answered("Good choice."), WEB)
        InboxWorker(keeper).drain()
        assert keeper.count() == 1
        question = "Did we switch from Prisma to Drizzle?"
        assert sessions.handle(asked(question, "p2"), WEB) == ""
        assert "Drizzle" in sessions.handle(asked(question, "p2", session="s2"), WEB)
        clock.advance(60)
        assert sessions.handle(told("SessionStart", source="resume"), WEB) == ""
        assert "Drizzle" in sessions.handle(told("SessionStart", source="compact"), WEB)
        sessions.close()
