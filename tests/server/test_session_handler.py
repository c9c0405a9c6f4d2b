"""The session handler: recall for hooks, capture of turns, spool and transcripts."""

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
def handler(keeper: Keeper, tmp_path: Path) -> Iterator[SessionHandler]:
    created = SessionHandler(keeper, tmp_path)
    yield created
    created.close()


def make_event(name: str, session: str = "s1", client: str = "claude-code", **fields: Any) -> Event:
    data = {"session_id": session, "cwd": WEB, "hook_event_name": name, **fields}
    return event(client, json.dumps(data).encode())


def prompt_event(prompt: str, turn: str = "p1", **fields: Any) -> Event:
    return make_event("UserPromptSubmit", prompt=prompt, prompt_id=turn, **fields)


def stop_event(reply: str, turn: str = "p1", **fields: Any) -> Event:
    return make_event("Stop", last_assistant_message=reply, prompt_id=turn, **fields)


def item_messages(item: Item) -> list[tuple[str, str]]:
    assert item.exchange
    return [(message.role, message.text) for message in item.exchange.messages]


# ── capturing turns ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_prompt_is_held_until_its_reply_completes_the_turn(handler: SessionHandler, keeper: Keeper) -> None:
    handler.handle(prompt_event(DRIZZLE), WEB)
    assert keeper.services.captures.due() == []
    assert keeper.inbox_status().pending == 1
    handler.handle(stop_event("Good choice."), WEB)
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]
    assert item.exchange
    assert (item.exchange.client, item.exchange.session, item.exchange.turn) == ("claude-code", "s1", "p1")
    assert (item.exchange.project, item.exchange.source) == (WEB, "claude-code/web")


def test_unanswered_prompt_is_due_at_the_next_prompt(handler: SessionHandler, keeper: Keeper) -> None:
    handler.handle(prompt_event(DRIZZLE), WEB)
    handler.handle(prompt_event("Show me the schema.", "p2"), WEB)
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE)]


@pytest.mark.parametrize("name", ["StopFailure", "PreCompact", "SessionEnd"])
def test_held_prompt_is_due_at_session_end_or_failure(name: str, handler: SessionHandler, keeper: Keeper) -> None:
    handler.handle(prompt_event(DRIZZLE), WEB)
    handler.handle(make_event(name, last_assistant_message="API Error: 529 overloaded"), WEB)
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE)]


def test_unanswered_prompt_is_learned_after_the_hold(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        sessions.handle(prompt_event(DRIZZLE), WEB)
        clock.advance(HOLD + 1)
        assert [item_messages(item) for item in keeper.services.captures.due()] == [[("user", DRIZZLE)]]
        sessions.close()


def test_turn_reported_by_hook_notify_and_transcript_is_learned_once(
    handler: SessionHandler, keeper: Keeper, tmp_path: Path
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
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    codex = {"client": "codex", "transcript_path": str(path)}
    notified = {"type": "agent-turn-complete", "thread-id": "s1", "turn-id": "t1", "cwd": WEB,
                "input-messages": [DRIZZLE], "last-assistant-message": "Good choice."}  # fmt: skip
    worker = InboxWorker(keeper, fetch=handler.import_spool)
    prompt = make_event("UserPromptSubmit", prompt=DRIZZLE, turn_id="t1", **codex)
    stop = make_event("Stop", last_assistant_message="Good choice.", turn_id="t1", **codex)
    for happened in (prompt, stop):
        handler.handle(happened, WEB)
    worker.drain()
    handler.handle(event("codex", json.dumps(notified).encode()), WEB)
    handler.handle(stop, WEB)
    end = make_event("SessionEnd", **codex)
    handler.handle(end, WEB, raw=json.dumps({"session_id": "s1", "hook_event_name": "SessionEnd",
                                               "transcript_path": str(path), "cwd": WEB}).encode())  # fmt: skip
    assert handler.import_spool() == 1
    worker.drain()
    assert keeper.inbox_status().captured == 1
    assert keeper.count() == 1


def test_client_without_turn_ids_gets_prompt_and_reply_in_one_turn(handler: SessionHandler, keeper: Keeper) -> None:
    handler.handle(prompt_event(DRIZZLE, ""), WEB)
    handler.handle(stop_event("Good choice.", ""), WEB)
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]


def test_repeated_prompt_keeps_every_reply(handler: SessionHandler, keeper: Keeper) -> None:
    worker = InboxWorker(keeper)
    for reply in ("The build uses Bazel.", "The tests run on port 5433."):
        handler.handle(prompt_event("continue", ""), WEB)
        handler.handle(stop_event(reply, ""), WEB)
        worker.drain()
    stored = [text for item in keeper.items() for role, text in item_messages(item) if role == "assistant"]
    assert sorted(stored) == ["The build uses Bazel.", "The tests run on port 5433."]


def test_subagent_events_are_ignored(handler: SessionHandler, keeper: Keeper) -> None:
    assert handler.handle(prompt_event(DRIZZLE, agent_id="a1"), WEB) == ""
    handler.handle(stop_event("Done.", agent_id="a1"), WEB)
    handler.handle(make_event("SubagentStop", last_assistant_message="Done."), WEB)
    assert keeper.inbox_status().captured == 0


def test_sessions_started_by_cofio_are_ignored(handler: SessionHandler, keeper: Keeper) -> None:
    own = f"<cofio-request>\n{DRIZZLE}\n</cofio-request>"
    assert handler.handle(prompt_event(own), WEB) == ""
    handler.handle(stop_event(DRIZZLE), WEB)
    handler.handle(make_event("SessionEnd"), WEB)
    notified = {"type": "agent-turn-complete", "thread-id": "t1", "turn-id": "1", "cwd": WEB,
                "input-messages": [own], "last-assistant-message": DRIZZLE}  # fmt: skip
    handler.handle(event("codex", json.dumps(notified).encode()), WEB)
    assert keeper.inbox_status().pending == 0
    handler.handle(prompt_event(DRIZZLE, session="s2"), WEB)
    assert keeper.inbox_status().pending == 1


def test_client_generated_prompt_is_ignored(handler: SessionHandler, keeper: Keeper) -> None:
    handler.handle(prompt_event("<task-notification>the build is done</task-notification>"), WEB)
    assert keeper.inbox_status().captured == 0


def test_reply_that_repeats_a_given_memory_is_an_echo(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    assert "Fly.io" in handler.handle(make_event("SessionStart", source="startup"), WEB)
    handler.handle(prompt_event("Where does it run?"), WEB)
    handler.handle(stop_event("We deploy with Fly.io."), WEB)
    (item,) = keeper.items()
    assert item.exchange
    assert item.exchange.injected == ("We deploy with Fly.io.",)
    InboxWorker(keeper).drain()
    assert keeper.count() == 1
    assert keeper.inbox_status().rejected == 1


# ── transcripts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def write_transcript(path: Path, *turns: tuple[str, str, str], session: str = "s1") -> Path:
    """Write a Claude Code transcript with turns (id, prompt, reply)."""
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


def end_event(path: Path, name: str = "SessionEnd") -> tuple[Event, bytes]:
    raw = json.dumps({"session_id": "s1", "hook_event_name": name, "cwd": WEB, "transcript_path": str(path)}).encode()
    return event("claude-code", raw), raw


def test_turns_without_hook_events_are_read_from_the_transcript(
    handler: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = write_transcript(tmp_path / "s1.jsonl", ("p0", "We use pnpm.", "Noted."), ("p1", DRIZZLE, "Good choice."))
    handler.handle(prompt_event(DRIZZLE), WEB)
    handler.handle(stop_event("Good choice."), WEB)
    happened, raw = end_event(path)
    handler.handle(happened, WEB, raw=raw)
    assert handler.import_spool() == 1
    assert [item_messages(item) for item in keeper.services.captures.due()] == [
        [("user", DRIZZLE), ("assistant", "Good choice.")],
        [("user", "We use pnpm."), ("assistant", "Noted.")],
    ]
    handler.handle(happened, WEB, raw=raw)
    handler.import_spool()
    assert keeper.inbox_status().captured == 2


def test_reply_of_an_interrupted_turn_is_read_from_the_transcript(
    handler: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = write_transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "I have begun to"))
    handler.handle(prompt_event(DRIZZLE), WEB)
    happened, raw = end_event(path, "PreCompact")
    handler.handle(happened, WEB, raw=raw)
    handler.import_spool()
    assert [item_messages(item) for item in keeper.services.captures.due()] == [
        [("user", DRIZZLE), ("assistant", "I have begun to")]
    ]


def test_turns_copied_from_another_session_are_skipped(handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "s1.jsonl", ("p1", "We use pnpm.", "Noted."), ("p1", DRIZZLE, "Good choice."))
    happened, raw = end_event(path)
    handler.handle(happened, WEB, raw=raw)
    handler.import_spool()
    assert [item_messages(item) for item in keeper.services.captures.due()] == [
        [("user", DRIZZLE), ("assistant", "Good choice.")]
    ]


def test_transcript_of_a_remote_client_is_not_read(handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "Good choice."))
    happened, raw = end_event(path)
    handler.handle(happened, WEB, raw=raw, local=False)
    assert handler.import_spool() == 0
    assert keeper.inbox_status().captured == 0


@pytest.mark.parametrize("name", ["gone.jsonl", "notes.txt", "folder.jsonl"])
def test_unreadable_transcript_is_ignored(name: str, handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "notes.txt").write_text(DRIZZLE)
    happened, raw = end_event(tmp_path / name)
    handler.handle(happened, WEB, raw=raw)
    assert handler.import_spool() == 1
    assert keeper.inbox_status().captured == 0


def test_prompt_of_a_known_turn_is_completed_from_the_transcript(
    handler: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    handler.handle(stop_event("Good choice."), WEB)
    InboxWorker(keeper).drain()
    path = write_transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "Good choice."))
    happened, raw = end_event(path)
    for _ in range(2):
        handler.handle(happened, WEB, raw=raw)
        handler.import_spool()
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE)]


def test_interrupted_turn_is_completed_from_the_transcript_after_restart(keeper: Keeper, tmp_path: Path) -> None:
    first = SessionHandler(keeper, tmp_path)
    first.handle(prompt_event(DRIZZLE), WEB)
    first.close()
    second = SessionHandler(keeper, tmp_path)
    path = write_transcript(tmp_path / "s1.jsonl", ("p1", DRIZZLE, "I have begun to"), ("p2", "Go on.", "Done."))
    happened, raw = end_event(path)
    second.handle(happened, WEB, raw=raw)
    second.import_spool()
    result = [item_messages(item) for item in keeper.services.captures.due()]
    assert [("user", DRIZZLE), ("assistant", "I have begun to")] in result
    second.close()


def test_next_prompt_after_restart_releases_the_interrupted_turn(keeper: Keeper, tmp_path: Path) -> None:
    first = SessionHandler(keeper, tmp_path)
    first.handle(prompt_event(DRIZZLE), WEB)
    first.close()
    second = SessionHandler(keeper, tmp_path)
    second.handle(prompt_event("Show me the schema.", "p2"), WEB)
    assert [item_messages(item) for item in keeper.services.captures.due()] == [[("user", DRIZZLE)]]
    second.close()


@pytest.mark.parametrize(
    "lines",
    [
        '{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"half \\ud83d of it"}}\n',
        '{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"\\u0000"}}\n',
        "[" * 200_000 + "\n",
    ],
)
def test_malformed_transcript_does_not_block_other_deliveries(
    lines: str, handler: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_text(lines)
    happened, raw = end_event(path)
    handler.handle(happened, WEB, raw=raw)
    spool_event(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    handler.import_spool()
    assert list(spool.entries(tmp_path)) == []
    assert [("assistant", "Good choice.")] in [item_messages(item) for item in keeper.services.captures.due()]


@pytest.mark.parametrize("name", ["x" * 300 + ".jsonl", "gone/s1.jsonl", "pipe.jsonl"])
def test_invalid_transcript_path_is_ignored(name: str, handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    happened, raw = end_event(tmp_path / name)
    handler.handle(prompt_event(DRIZZLE), WEB)
    handler.handle(happened, WEB, raw=raw)
    assert handler.import_spool() == 1
    assert [item_messages(item) for item in keeper.services.captures.due()] == [[("user", DRIZZLE)]]


# ── spool ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def spool_event(home: Path, event_data: dict[str, Any], at: str = "2026-11-15T10:00:00.000000+00:00") -> None:
    raw = json.dumps({"session_id": "s1", "cwd": WEB, **event_data}).encode()
    spool.store_delivery(home, "claude-code", raw, at=at, project=WEB, event=event_data["hook_event_name"])


def test_spooled_events_are_processed_with_their_time(handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    spool_event(tmp_path, {"hook_event_name": "UserPromptSubmit", "prompt": DRIZZLE, "prompt_id": "p1"})
    spool_event(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    assert handler.import_spool() == 2
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]
    assert list(spool.entries(tmp_path)) == []


def test_event_delivered_twice_is_one_turn(handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    handler.handle(prompt_event(DRIZZLE), WEB)
    spool_event(tmp_path, {"hook_event_name": "UserPromptSubmit", "prompt": DRIZZLE, "prompt_id": "p1"})
    handler.import_spool()
    handler.handle(stop_event("Good choice."), WEB)
    [item] = keeper.services.captures.due()
    assert item_messages(item) == [("user", DRIZZLE), ("assistant", "Good choice.")]


def test_unreadable_delivery_is_moved_aside(handler: SessionHandler, keeper: Keeper, tmp_path: Path) -> None:
    spool.store_delivery(tmp_path, "claude-code", b'{"half": ', at="", project=WEB, event="Stop")
    spool_event(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    assert handler.import_spool() == 1
    assert list(spool.entries(tmp_path)) == []
    assert len(list((tmp_path / "spool" / "bad").iterdir())) == 1


def test_prompt_delivered_after_its_reply_does_not_hold_the_turn(
    handler: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    handler.handle(stop_event("Good choice."), WEB)
    spool_event(tmp_path, {"hook_event_name": "UserPromptSubmit", "prompt": DRIZZLE, "prompt_id": "p1"})
    handler.import_spool()
    [item] = keeper.services.captures.due()
    assert sorted(item_messages(item)) == [("assistant", "Good choice."), ("user", DRIZZLE)]


def test_deliveries_for_another_store_are_left_in_the_spool(keeper: Keeper, tmp_path: Path) -> None:
    spool_event(tmp_path, {"hook_event_name": "Stop", "last_assistant_message": "Good choice.", "prompt_id": "p1"})
    endpoint_file.write_endpoint(tmp_path, "http://127.0.0.1:1", "", (800, 300), "/elsewhere.db")
    sessions = SessionHandler(keeper, tmp_path, is_mine=lambda: not endpoint_file.is_others(tmp_path, "/here.db"))
    assert sessions.import_spool() == 0
    assert len(list(spool.entries(tmp_path))) == 1
    endpoint_file.remove(tmp_path, "/elsewhere.db")
    assert sessions.import_spool() == 1
    sessions.close()


def test_full_inbox_is_drained_before_the_spool(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, inbox_limit=2) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        for turn in range(9):
            new_event = {"hook_event_name": "Stop", "last_assistant_message": f"Done {turn}.", "prompt_id": f"p{turn}"}
            spool_event(tmp_path, new_event)
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


def test_spool_keeps_deliveries_while_the_inbox_is_full(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, inbox_limit=1) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        for turn in ("p1", "p2", "p3"):
            new_event = {"hook_event_name": "Stop", "last_assistant_message": f"Done {turn}.", "prompt_id": turn}
            spool_event(tmp_path, new_event)
        with pytest.raises(TooBusy):
            sessions.import_spool()
        assert len(list(spool.entries(tmp_path))) == 2
        sessions.close()


# ── recall ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_are_not_recorded_as_given_when_the_hook_timed_out(keeper: Keeper, tmp_path: Path) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    sessions = SessionHandler(keeper, tmp_path, patience=0.0)
    for _ in range(2):
        assert "Fly.io" in sessions.handle(make_event("SessionStart", source="startup"), WEB)
    sessions.close()


def test_delayed_events_are_captured_without_recall(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    before = "2025-12-31T10:00:00+00:00"
    assert handler.handle(prompt_event("We deploy with Fly.io?"), WEB, at=before) == ""
    assert handler.handle(make_event("SessionStart", source="startup"), WEB, at=before) == ""
    handler.handle(stop_event("Yes."), WEB, at=before)
    [item] = keeper.services.captures.due()
    assert item.exchange
    assert item.exchange.at.startswith("2025-12-31T10:00:00")
    assert "Fly.io" in handler.handle(prompt_event("We deploy with Fly.io?", "p2"), WEB)


def test_memory_is_given_once_per_session(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    assert "Fly.io" in handler.handle(make_event("SessionStart", source="startup"), WEB)
    assert handler.handle(make_event("SessionStart", source="resume"), WEB) == ""
    assert handler.handle(prompt_event("We deploy with Fly.io?"), WEB) == ""
    assert "Fly.io" in handler.handle(prompt_event("We deploy with Fly.io?", session="s2"), WEB)


def test_concurrent_duplicate_hooks_get_the_memory_once(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    for session in map(str, range(20)):
        start = make_event("SessionStart", session=session, source="startup")
        with ThreadPoolExecutor(4) as hooks:
            told_twice = [hooks.submit(handler.handle, start, WEB) for _ in range(4)]
        assert sum("Fly.io" in item.result() for item in told_twice) == 1


def test_memories_are_given_again_after_compaction(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    handler.handle(make_event("SessionStart", source="startup"), WEB)
    assert "Fly.io" in handler.handle(make_event("SessionStart", source="compact"), WEB)
    assert "Fly.io" in handler.handle(make_event("SessionStart", source="clear"), WEB)


def test_given_memories_are_remembered_after_restart(keeper: Keeper, tmp_path: Path) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    first = SessionHandler(keeper, tmp_path)
    first.handle(make_event("SessionStart", source="startup"), WEB)
    first.close()
    second = SessionHandler(keeper, tmp_path)
    assert second.handle(prompt_event("We deploy with Fly.io?"), WEB) == ""
    second.close()


def test_edited_memory_is_given_again(handler: SessionHandler, keeper: Keeper) -> None:
    added = keeper.add("We deploy with Fly.io.", project=WEB)
    handler.handle(make_event("SessionStart", source="startup"), WEB)
    keeper.update(added.memory_id, text="We deploy with Fly.io, on Fridays only.")
    assert "Fridays" in handler.handle(make_event("SessionStart", source="resume"), WEB)


def test_project_with_the_same_folder_name_is_separate(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    assert handler.handle(make_event("SessionStart", source="startup"), "/srv/other/web") == ""


def test_session_start_caches_the_briefing_and_purge_clears_it(
    keeper: Keeper, handler: SessionHandler, tmp_path: Path
) -> None:
    keeper.add("We deploy with Fly.io.", project=WEB)
    block = handler.handle(make_event("SessionStart", source="startup"), WEB)
    assert briefing_cache.load_briefing(tmp_path, WEB) == block
    briefing_cache.clear(tmp_path)
    assert briefing_cache.load_briefing(tmp_path, WEB) == ""


# ── offline recall ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_offline_recalls_are_counted(keeper: Keeper, handler: SessionHandler, tmp_path: Path) -> None:
    first, second = (keeper.add(text).memory_id for text in ("we use tabs", "the port is 8080"))
    offline_recall_log.append_line(os.fsencode(tmp_path), "claude-code", [first, 999])
    offline_recall_log.append_line(os.fsencode(tmp_path), "codex", [first])
    with (tmp_path / "recalled.log").open("a") as log:
        log.write("yesterday claude-code 2\n\nnonsense\n2026-01-01T00:00:00.000Z codex x y\n")
    handler.import_spool()
    handler.import_spool()
    assert keeper.get(first).retrieval_count == 2
    assert keeper.get(second).retrieval_count == 1  # the invalid time is replaced; the recall counts
    assert not list(tmp_path.glob("recalled*"))


def test_recall_log_taken_before_a_crash_is_counted_later(
    keeper: Keeper, handler: SessionHandler, tmp_path: Path
) -> None:
    def crash(_: Any) -> None:
        raise KeyboardInterrupt

    memory_id = keeper.add("we use tabs").memory_id
    offline_recall_log.append_line(os.fsencode(tmp_path), "codex", [memory_id])
    with pytest.raises(KeyboardInterrupt):
        offline_recall_log.import_log(os.fsencode(tmp_path), crash)
    offline_recall_log.append_line(os.fsencode(tmp_path), "codex", [memory_id])
    handler.import_spool()
    assert keeper.get(memory_id).retrieval_count == 2


def test_unreadable_recall_log_does_not_block_learning(handler: SessionHandler, tmp_path: Path) -> None:
    (tmp_path / "recalled.log.taken").mkdir()
    assert handler.import_spool() == 0


def test_invalid_recall_time_is_replaced_by_now(keeper: Keeper) -> None:
    memory_id = keeper.add("we use tabs").memory_id
    keeper.services.shared.retrieval_log.import_recalls(
        [("1971-01-01T00:00:00Z", "codex", [memory_id]), ("2999-01-01T00:00:00Z", "codex", [memory_id, 999])]
    )
    memory = keeper.get(memory_id)
    assert (memory.retrieval_count, (memory.last_retrieved_at or "")[:4]) == (2, "2026")


# ── concurrent hooks ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_prompt_reported_twice_concurrently_is_held(
    keeper: Keeper, handler: SessionHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, both = keeper.services.captures.release, threading.Barrier(2)

    def release_together(client: str, session: str) -> int:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # wait for the other thread, if it gets here
        return release(client, session)

    monkeypatch.setattr(keeper.services.captures, "release", release_together)
    with ThreadPoolExecutor(2) as hooks:
        list(hooks.map(lambda _: handler.capture(prompt_event(DRIZZLE), WEB), range(2)))
    assert keeper.services.captures.due() == []
    handler.capture(stop_event("Noted."), WEB)
    assert [item_messages(item) for item in keeper.items()] == [[("user", DRIZZLE), ("assistant", "Noted.")]]


# ── callers with their own key ────────────────────────────────────────────────────────────────────────────────────────

ADA, EVE = Viewer(user="ada"), Viewer(user="eve")


def test_callers_get_only_visible_memories(handler: SessionHandler, keeper: Keeper) -> None:
    for viewer in (ADA, EVE):
        keeper.as_viewer(viewer).add(f"{viewer.user} deploys with Fly.io", project=WEB)
    for viewer, other in ((ADA, "eve"), (EVE, "ada")):  # same session id
        for happened in (make_event("SessionStart", source="startup"), prompt_event("how do we deploy with Fly.io?")):
            values = handler.handle(happened, WEB, keeper=keeper.as_viewer(viewer))
            assert other not in values
        assert f"{viewer.user} deploys" in handler.handle(
            make_event("SessionStart", source="clear"), WEB, keeper=keeper.as_viewer(viewer)
        )


def test_given_memories_are_recorded_per_caller(handler: SessionHandler, keeper: Keeper) -> None:
    keeper.add("We deploy with Fly.io", project=WEB, visibility="global")
    for viewer in (None, ADA, EVE):
        viewer_keeper = keeper.as_viewer(viewer)
        assert "Fly.io" in handler.handle(make_event("SessionStart", source="startup"), WEB, keeper=viewer_keeper)
        assert handler.handle(make_event("SessionStart", source="startup"), WEB, keeper=viewer_keeper) == ""


def test_data_of_callers_with_a_key_is_not_written_to_disk(
    handler: SessionHandler, keeper: Keeper, tmp_path: Path
) -> None:
    keeper.as_viewer(ADA).add("We deploy with Fly.io", project=WEB)
    secret = tmp_path / "others.jsonl"
    secret.write_text('{"type": "user", "message": {"content": "We switched from Prisma to Drizzle."}}\n')
    assert handler.handle(make_event("SessionStart", source="startup"), WEB, keeper=keeper.as_viewer(ADA))
    end = make_event("SessionEnd", transcript_path=str(secret))
    handler.handle(end, WEB, raw=b'{"hook_event_name": "SessionEnd"}', keeper=keeper.as_viewer(ADA))
    assert briefing_cache.load_briefing(tmp_path, WEB) == ""
    assert spool.waiting_files(tmp_path) == []
    assert keeper.inbox_status().captured == 0


def test_turn_belongs_to_its_caller(handler: SessionHandler, keeper: Keeper) -> None:
    for viewer in (ADA, EVE):
        viewer_keeper = keeper.as_viewer(viewer)
        handler.handle(prompt_event(DRIZZLE), WEB, keeper=viewer_keeper)
        handler.handle(stop_event("Good choice."), WEB, keeper=viewer_keeper)
    InboxWorker(keeper).drain()
    assert sorted(memory.user for memory in keeper) == ["ada", "eve"]
    assert keeper.inbox_status().captured == 2


def test_callers_do_not_affect_each_others_turns(handler: SessionHandler, keeper: Keeper) -> None:
    handler.handle(prompt_event(DRIZZLE), WEB, keeper=keeper.as_viewer(ADA))
    handler.handle(make_event("SessionEnd"), WEB, keeper=keeper.as_viewer(EVE))
    assert keeper.services.captures.due() == []
    handler.handle(make_event("SessionEnd"), WEB, keeper=keeper.as_viewer(ADA))
    assert len(keeper.services.captures.due()) == 1


def test_key_with_prefixes_captures_below_its_prefix(handler: SessionHandler, keeper: Keeper) -> None:
    bound = Viewer(user="ada", prefixes=("team-a",))
    handler.handle(prompt_event(DRIZZLE), WEB, keeper=keeper.as_viewer(bound))
    [item] = keeper.as_viewer(bound).items()
    assert item.exchange
    assert item.exchange.source == "team-a/claude-code/web"


def test_memories_learned_in_a_session_are_given_after_compaction_only(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        sessions = SessionHandler(keeper, tmp_path)
        sessions.handle(prompt_event(DRIZZLE), WEB)
        sessions.handle(stop_event("Good choice."), WEB)
        InboxWorker(keeper).drain()
        assert keeper.count() == 1
        question = "Did we switch from Prisma to Drizzle?"
        assert sessions.handle(prompt_event(question, "p2"), WEB) == ""
        assert "Drizzle" in sessions.handle(prompt_event(question, "p2", session="s2"), WEB)
        clock.advance(60)
        assert sessions.handle(make_event("SessionStart", source="resume"), WEB) == ""
        assert "Drizzle" in sessions.handle(make_event("SessionStart", source="compact"), WEB)
        sessions.close()
