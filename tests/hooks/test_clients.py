"""The clients' own JSON: what comes in is understood, and what goes out is exactly what each takes."""

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


def told(client: str, /, **fields: Any) -> Event:
    return event(client, json.dumps(fields).encode())


def test_claude_codes_events_are_understood() -> None:
    start = told("claude-code", **COMMON, hook_event_name="SessionStart", source="compact")
    assert (start.kind, start.began, start.session, start.cwd) == ("start", "compact", "00893aaf", "/home/ann/web")
    prompt = told("claude-code", **COMMON, hook_event_name="UserPromptSubmit", prompt="Use Drizzle", prompt_id="p1")
    assert (prompt.kind, prompt.prompt, prompt.turn) == ("prompt", "Use Drizzle", "p1")
    stop = told("claude-code", **COMMON, hook_event_name="Stop", prompt_id="p1", stop_hook_active=True,
                last_assistant_message="Done.")  # fmt: skip
    assert (stop.kind, stop.reply, stop.turn) == ("stop", "Done.", "p1")
    assert told("claude-code", **COMMON, hook_event_name="PreCompact", trigger="auto").kind == "compact"
    compacted = told(
        "claude-code", **COMMON, hook_event_name="PostCompact", trigger="auto", compact_summary="We did x."
    )
    assert (compacted.kind, compacted.summary, compacted.reply) == ("summary", "We did x.", "")
    assert told("codex", **COMMON, hook_event_name="PostCompact", trigger="auto").summary == ""
    assert told("claude-code", **COMMON, hook_event_name="SessionEnd", reason="other").kind == "end"


def test_an_api_error_is_nothing_that_the_agent_said() -> None:
    failed = told("claude-code", **COMMON, hook_event_name="StopFailure", error="rate_limit",
                  last_assistant_message="API Error: Rate limit reached")  # fmt: skip
    assert (failed.kind, failed.reply) == ("failure", "")


def test_what_happens_inside_a_subagent_is_marked() -> None:
    inside = told("claude-code", **COMMON, hook_event_name="Stop", agent_id="def456", agent_type="")
    assert inside.subagent == "def456"
    assert told("codex", **COMMON, hook_event_name="UserPromptSubmit", prompt="x", agent_id="").subagent


def test_codex_hooks_and_notify_name_the_same_turn() -> None:
    stop = told("codex", **COMMON, hook_event_name="Stop", turn_id="t1", last_assistant_message="Done.")
    notified = told("codex", **{
        "type": "agent-turn-complete", "thread-id": "00893aaf", "turn-id": "t1", "cwd": "/home/ann/web",
        "client": "codex-tui",
        "input-messages": ["Rename foo", "and bar"], "last-assistant-message": "Done.",
    })  # fmt: skip
    assert (notified.session, notified.turn, notified.reply) == (stop.session, stop.turn, stop.reply)
    assert (notified.kind, notified.prompt) == ("stop", "and bar")


def test_cursor_is_known_by_its_json_even_when_it_runs_claude_codes_hooks() -> None:
    happened = told("claude-code", hook_event_name="beforeSubmitPrompt", cursor_version="3.20", conversation_id="c1",
                    generation_id="g1", workspace_roots=["/home/ann/web"], prompt="Use Drizzle")  # fmt: skip
    assert (happened.client, happened.kind, happened.session, happened.turn) == ("cursor", "prompt", "c1", "g1")
    assert happened.cwd == "/home/ann/web"
    assert json.loads(reply(happened, "notes")) == {"continue": True, "additional_context": "notes"}


def test_openclaws_plugin_speaks_our_own_words() -> None:
    happened = told("openclaw", event="before_prompt_build", session="s", turn="t", cwd="/home/ann/web", prompt="Hello")
    assert (happened.kind, happened.prompt) == ("prompt", "Hello")
    assert json.loads(reply(happened, "notes")) == {"context": "notes"}


@pytest.mark.parametrize("client", ["claude-code", "codex"])
@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit"])
def test_context_goes_back_in_exactly_the_documented_object(client: str, name: str) -> None:
    happened = told(client, **COMMON, hook_event_name=name, prompt="Use Drizzle")
    inner = f'"hookEventName": "{name}", "additionalContext": "notes é"'
    assert reply(happened, "notes é").decode() == f'{{"hookSpecificOutput": {{{inner}}}}}'


@pytest.mark.parametrize("client", ["claude-code", "codex"])
@pytest.mark.parametrize(
    "name", ["Stop", "StopFailure", "PreCompact", "PostCompact", "SessionEnd", "SubagentStop", "New"]
)
def test_nothing_is_said_where_words_would_keep_the_agent_going(client: str, name: str) -> None:
    assert reply(told(client, **COMMON, hook_event_name=name), "notes") == b""


def test_no_context_is_no_object_at_all() -> None:
    assert reply(told("codex", **COMMON, hook_event_name="SessionStart"), "") == b""


def test_an_event_of_a_later_version_is_passed_over() -> None:
    assert told("claude-code", **COMMON, hook_event_name="DreamStart").kind == "other"
    assert told("codex").kind == "other"


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'"text"', b'{"half": ', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_object_is_refused_with_a_word(raw: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        event("codex", raw)
    assert caught.value.hint


def test_a_client_that_is_not_known_is_refused() -> None:
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
def test_whatever_a_client_sends_an_event_comes_out(client: str, fields: dict[str, Any]) -> None:
    happened = event(client, json.dumps(fields).encode())
    said = reply(happened, "notes")
    assert not said or (happened.kind in INJECTS and isinstance(json.loads(said), dict))
    for text in (happened.prompt, happened.reply, happened.session, happened.cwd):
        text.encode()
        assert "\x00" not in text
