"""Parsing client events and writing replies in each client's JSON format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.errors import InvalidInput
from cofio.hooks.client_events import CLIENTS, INJECTS, Event, event, reply

COMMON = {
    "session_id": "00893aaf",
    "transcript_path": "/home/ann/.claude/projects/-home-ann-web/00893aaf.jsonl",
    "cwd": "/home/ann/web",
    "permission_mode": "default",
}


def parse_event(client: str, /, **fields: Any) -> Event:
    return event(client, json.dumps(fields).encode())


def test_claude_code_events_are_parsed() -> None:
    start = parse_event("claude-code", **COMMON, hook_event_name="SessionStart", source="compact")
    assert (start.kind, start.began, start.session, start.cwd) == ("start", "compact", "00893aaf", "/home/ann/web")
    prompt = parse_event(
        "claude-code", **COMMON, hook_event_name="UserPromptSubmit", prompt="Use Drizzle", prompt_id="p1"
    )
    assert (prompt.kind, prompt.prompt, prompt.turn) == ("prompt", "Use Drizzle", "p1")
    stop = parse_event("claude-code", **COMMON, hook_event_name="Stop", prompt_id="p1", stop_hook_active=True,
                last_assistant_message="Done.")  # fmt: skip
    assert (stop.kind, stop.reply, stop.turn) == ("stop", "Done.", "p1")
    assert parse_event("claude-code", **COMMON, hook_event_name="PreCompact", trigger="auto").kind == "compact"
    compacted = parse_event(
        "claude-code", **COMMON, hook_event_name="PostCompact", trigger="auto", compact_summary="We did x."
    )
    assert (compacted.kind, compacted.summary, compacted.reply) == ("summary", "We did x.", "")
    assert parse_event("codex", **COMMON, hook_event_name="PostCompact", trigger="auto").summary == ""
    assert parse_event("claude-code", **COMMON, hook_event_name="SessionEnd", reason="other").kind == "end"


def test_api_error_is_not_an_agent_reply() -> None:
    failed = parse_event("claude-code", **COMMON, hook_event_name="StopFailure", error="rate_limit",
                  last_assistant_message="API Error: Rate limit reached")  # fmt: skip
    assert (failed.kind, failed.reply) == ("failure", "")


def test_subagent_events_are_marked() -> None:
    inside = parse_event("claude-code", **COMMON, hook_event_name="Stop", agent_id="def456", agent_type="")
    assert inside.subagent == "def456"
    assert parse_event("codex", **COMMON, hook_event_name="UserPromptSubmit", prompt="x", agent_id="").subagent


def test_codex_hooks_and_notify_have_the_same_turn_id() -> None:
    stop = parse_event("codex", **COMMON, hook_event_name="Stop", turn_id="t1", last_assistant_message="Done.")
    notified = parse_event("codex", **{
        "type": "agent-turn-complete", "thread-id": "00893aaf", "turn-id": "t1", "cwd": "/home/ann/web",
        "client": "codex-tui",
        "input-messages": ["Rename foo", "and bar"], "last-assistant-message": "Done.",
    })  # fmt: skip
    assert (notified.session, notified.turn, notified.reply) == (stop.session, stop.turn, stop.reply)
    assert (notified.kind, notified.prompt) == ("stop", "and bar")


def test_cursor_is_detected_when_it_runs_claude_code_hooks() -> None:
    new_event = parse_event("claude-code", hook_event_name="beforeSubmitPrompt", cursor_version="3.20",
                            conversation_id="c1",
                    generation_id="g1", workspace_roots=["/home/ann/web"], prompt="Use Drizzle")  # fmt: skip
    assert (new_event.client, new_event.kind, new_event.session, new_event.turn) == ("cursor", "prompt", "c1", "g1")
    assert new_event.cwd == "/home/ann/web"
    assert json.loads(reply(new_event, "notes")) == {"continue": True, "additional_context": "notes"}


def test_openclaw_events_are_parsed() -> None:
    new_event = parse_event(
        "openclaw", event="before_prompt_build", session="s", turn="t", cwd="/home/ann/web", prompt="Hello"
    )
    assert (new_event.kind, new_event.prompt) == ("prompt", "Hello")
    assert json.loads(reply(new_event, "notes")) == {"context": "notes"}


@pytest.mark.parametrize("client", ["claude-code", "codex"])
@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit"])
def test_context_reply_has_the_documented_format(client: str, name: str) -> None:
    new_event = parse_event(client, **COMMON, hook_event_name=name, prompt="Use Drizzle")
    inner = f'"hookEventName": "{name}", "additionalContext": "notes é"'
    assert reply(new_event, "notes é").decode() == f'{{"hookSpecificOutput": {{{inner}}}}}'


@pytest.mark.parametrize("client", ["claude-code", "codex"])
@pytest.mark.parametrize(
    "name", ["Stop", "StopFailure", "PreCompact", "PostCompact", "SessionEnd", "SubagentStop", "New"]
)
def test_events_that_would_continue_the_agent_get_no_reply(client: str, name: str) -> None:
    assert reply(parse_event(client, **COMMON, hook_event_name=name), "notes") == b""


def test_empty_context_produces_no_output() -> None:
    assert reply(parse_event("codex", **COMMON, hook_event_name="SessionStart"), "") == b""


def test_unknown_event_is_ignored() -> None:
    assert parse_event("claude-code", **COMMON, hook_event_name="DreamStart").kind == "other"
    assert parse_event("codex").kind == "other"


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'"text"', b'{"half": ', b"\xff\xfe", b"[" * 100_000])
def test_invalid_json_is_rejected_with_hint(raw: bytes) -> None:
    with pytest.raises(InvalidInput) as error_info:
        event("codex", raw)
    assert error_info.value.hint


def test_unknown_client_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        event("emacs", b"{}")


FIELDS = (
    "hook_event_name", "event", "type", "session_id", "prompt", "prompt_id", "cwd", "text", "source", "agent_id",
    "last_assistant_message", "input-messages", "workspace_roots", "cursor_version",
)  # fmt: skip
NAMES = ("SessionStart", "UserPromptSubmit", "Stop", "agent-turn-complete", "beforeSubmitPrompt")
VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(NAMES)


@given(
    client=st.sampled_from(CLIENTS),
    fields=st.dictionaries(st.sampled_from(FIELDS), VALUES | st.lists(VALUES, max_size=3)),
)
def test_random_fields_produce_an_event(client: str, fields: dict[str, Any]) -> None:
    new_event = event(client, json.dumps(fields).encode())
    response = reply(new_event, "notes")
    assert not response or (new_event.kind in INJECTS and isinstance(json.loads(response), dict))
    for text in (new_event.prompt, new_event.reply, new_event.session, new_event.cwd):
        text.encode()
        assert "\x00" not in text
