"""Parsing recorded hook inputs and transcripts of the real clients (see record.py); runs without clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import transcripts
from cofio.hooks.client_events import Event, event
from cofio.ingest import sanitize

SAMPLES = Path(__file__).with_name("samples")
PRISMA = "We switched from Prisma to Drizzle for the web app."
CLIENTS = ("claude-code", "codex")


def hook_inputs(client: str) -> list[dict[str, Any]]:
    lines = (SAMPLES / client / "hooks.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def events(client: str) -> list[Event]:
    return [event(client, json.dumps(hook_input).encode()) for hook_input in hook_inputs(client)]


def turns(name: str) -> list[transcripts.TranscriptTurn]:
    return list(transcripts.read_transcript(SAMPLES / name))


def messages_by_turn(name: str) -> list[list[tuple[str, str]]]:
    """Return role and text of the messages by turn, as learned."""
    return [list(sanitize.clean(turn.messages).messages) for turn in turns(name)]


def words(name: str) -> str:
    return json.dumps(messages_by_turn(name))


# ── hooks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", CLIENTS)
def test_every_event_has_session_and_folder(client: str) -> None:
    for item in events(client):
        assert item.session
        assert item.cwd == "/home/ann/web"
        assert item.kind != "other" or item.name in ("SubagentStart", "SubagentStop", "PostCompact")


@pytest.mark.parametrize(
    ("client", "starts"),
    [
        ("claude-code", {"startup", "compact", "resume", "fork", "clear"}),
        ("codex", {"startup", "compact", "resume", "fork"}),
    ],
)
def test_session_start_has_its_reason(client: str, starts: set[str]) -> None:
    assert {item.began for item in events(client) if item.kind == "start"} == starts


@pytest.mark.parametrize("client", CLIENTS)
def test_prompt_and_reply_have_the_same_turn_id(client: str) -> None:
    (asked,) = [item for item in events(client) if item.prompt.startswith(PRISMA) and item.kind == "prompt"]
    answers = [item for item in events(client) if item.kind == "stop" and item.turn == asked.turn]
    assert answers
    assert {answer.session for answer in answers} == {asked.session}
    assert all(answer.reply for answer in answers)


def test_message_during_a_turn_belongs_to_it() -> None:
    by_turn: dict[str, list[str]] = {}
    for item in events("claude-code"):
        if item.kind == "prompt":
            by_turn.setdefault(item.turn, []).append(item.prompt)
    assert ["Please ask an agent how we build.", "We run the tests with Vitest."] in by_turn.values()


def test_subagent_result_is_not_a_prompt() -> None:
    (reported,) = [item for item in events("claude-code") if "we always build with Bazel" in item.prompt]
    assert reported.kind == "prompt"
    assert not reported.subagent
    assert not transcripts.is_prompt(reported.prompt)


def test_subagent_prompt_in_codex_is_marked() -> None:
    requests = [
        item for item in events("codex") if item.prompt == "AGENT: we build with Bazel." and item.name != "notify"
    ]
    assert [bool(item.subagent) for item in requests] == [True]


def test_notify_contains_all_prompts_and_the_last_is_used() -> None:
    (raw,) = [
        hook_input
        for hook_input in hook_inputs("codex")
        if hook_input.get("input-messages", [""])[-1] == "We lint with Biome."
    ]
    assert len(raw["input-messages"]) > 1
    assert event("codex", json.dumps(raw).encode()).prompt == "We lint with Biome."


def test_api_error_is_not_an_agent_reply() -> None:
    (failure,) = [item for item in events("claude-code") if item.kind == "failure"]
    assert failure.reply == ""


# ── transcripts ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", CLIENTS)
def test_turn_ids_in_hooks_and_transcript_are_equal(client: str) -> None:
    by_hooks = {item.turn for item in events(client) if item.kind == "prompt" and not item.subagent}
    for name in ("session", "forked", "failed"):
        results = turns(f"{client}/{name}.jsonl")
        assert results
        assert {turn.turn for turn in results} <= by_hooks


@pytest.mark.parametrize("client", CLIENTS)
def test_session_is_parsed_in_order(client: str) -> None:
    requests = [
        message for turn in messages_by_turn(f"{client}/session.jsonl") for who, message in turn if who == "user"
    ]
    assert requests[0].startswith(PRISMA)
    assert requests[-1] == "We lint with Biome."
    assert len(turns(f"{client}/session.jsonl")) == {"claude-code": 3, "codex": 2}[client]


def test_message_during_a_turn_is_in_the_transcript() -> None:
    (turn,) = [
        turn
        for turn in messages_by_turn("claude-code/session.jsonl")
        if ("user", "Please ask an agent how we build.") in turn
    ]
    assert ("user", "We run the tests with Vitest.") in turn


@pytest.mark.parametrize("client", CLIENTS)
def test_fork_contains_only_new_turns(client: str) -> None:
    (turn,) = messages_by_turn(f"{client}/forked.jsonl")
    assert turn[0] == ("user", "We format with Biome too.")


@pytest.mark.parametrize("client", CLIENTS)
def test_subagent_transcript_has_no_turns(client: str) -> None:
    assert turns(f"{client}/subagent.jsonl") == []


@pytest.mark.parametrize("client", CLIENTS)
def test_subagent_text_is_not_attributed_to_the_user(client: str) -> None:
    assert "Bazel" not in words(f"{client}/session.jsonl")


@pytest.mark.parametrize("client", CLIENTS)
def test_injected_text_is_marked(client: str) -> None:
    exchanges = [sanitize.clean(turn.messages) for turn in turns(f"{client}/session.jsonl")]
    assert "Fly.io" not in words(f"{client}/session.jsonl")
    assert all(any("Fly.io" in item for item in exchange.injected) for exchange in exchanges)


@pytest.mark.parametrize(
    ("client", "prompt"), [("claude-code", "Overloaded today: we use pnpm."), ("codex", "We use pnpm.")]
)
def test_failed_turn_keeps_the_prompt_without_the_error(client: str, prompt: str) -> None:
    assert messages_by_turn(f"{client}/failed.jsonl") == [[("user", prompt)]]


def test_compaction_event_has_the_summary() -> None:
    results = [item.summary for item in events("claude-code") if item.kind == "summary"]
    assert results
    assert "I asked one." in results


def test_compaction_summary_is_not_a_message() -> None:
    agents = [
        message for turn in messages_by_turn("codex/session.jsonl") for who, message in turn if who == "assistant"
    ]
    assert agents == ["I asked one.", "Good."]
