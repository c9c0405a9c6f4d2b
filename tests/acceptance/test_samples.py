"""What the clients really wrote, read by our readers. Recorded by record.py; no client is needed to run these."""

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


def told(client: str) -> list[dict[str, Any]]:
    lines = (SAMPLES / client / "hooks.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def events(client: str) -> list[Event]:
    return [event(client, json.dumps(each).encode()) for each in told(client)]


def turns(name: str) -> list[transcripts.TranscriptTurn]:
    return list(transcripts.read_transcript(SAMPLES / name))


def said(name: str) -> list[list[tuple[str, str]]]:
    """Who said what, turn by turn, as it would be learned from."""
    return [list(sanitize.clean(turn.messages).messages) for turn in turns(name)]


def words(name: str) -> str:
    return json.dumps(said(name))


# ── hooks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", CLIENTS)
def test_every_event_is_read_with_its_session_and_folder(client: str) -> None:
    for each in events(client):
        assert each.session
        assert each.cwd == "/home/ann/web"
        assert each.kind != "other" or each.name in ("SubagentStart", "SubagentStop", "PostCompact")


@pytest.mark.parametrize(
    ("client", "starts"),
    [
        ("claude-code", {"startup", "compact", "resume", "fork", "clear"}),
        ("codex", {"startup", "compact", "resume", "fork"}),
    ],
)
def test_starts_say_why(client: str, starts: set[str]) -> None:
    assert {each.began for each in events(client) if each.kind == "start"} == starts


@pytest.mark.parametrize("client", CLIENTS)
def test_a_prompt_and_its_answer_have_one_turn(client: str) -> None:
    (asked,) = [each for each in events(client) if each.prompt.startswith(PRISMA) and each.kind == "prompt"]
    answers = [each for each in events(client) if each.kind == "stop" and each.turn == asked.turn]
    assert answers
    assert {answer.session for answer in answers} == {asked.session}
    assert all(answer.reply for answer in answers)


def test_words_sent_while_the_agent_works_belong_to_its_turn() -> None:
    by_turn: dict[str, list[str]] = {}
    for each in events("claude-code"):
        if each.kind == "prompt":
            by_turn.setdefault(each.turn, []).append(each.prompt)
    assert ["Please ask an agent how we build.", "We run the tests with Vitest."] in by_turn.values()


def test_the_answer_of_a_subagent_comes_as_a_prompt_and_is_none() -> None:
    (reported,) = [each for each in events("claude-code") if "we always build with Bazel" in each.prompt]
    assert reported.kind == "prompt"
    assert not reported.subagent
    assert not transcripts.is_prompt(reported.prompt)


def test_the_prompt_of_a_subagent_in_codex_is_known_for_one() -> None:
    asked = [each for each in events("codex") if each.prompt == "AGENT: we build with Bazel." and each.name != "notify"]
    assert [bool(each.subagent) for each in asked] == [True]


def test_notify_tells_of_all_prompts_and_the_last_is_the_turns() -> None:
    (raw,) = [each for each in told("codex") if each.get("input-messages", [""])[-1] == "We lint with Biome."]
    assert len(raw["input-messages"]) > 1
    assert event("codex", json.dumps(raw).encode()).prompt == "We lint with Biome."


def test_an_api_error_is_nothing_that_the_agent_said() -> None:
    (failure,) = [each for each in events("claude-code") if each.kind == "failure"]
    assert failure.reply == ""


# ── transcripts ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", CLIENTS)
def test_a_turn_has_one_name_in_hooks_and_in_the_transcript(client: str) -> None:
    by_hooks = {each.turn for each in events(client) if each.kind == "prompt" and not each.subagent}
    for name in ("session", "forked", "failed"):
        found = turns(f"{client}/{name}.jsonl")
        assert found
        assert {turn.turn for turn in found} <= by_hooks


@pytest.mark.parametrize("client", CLIENTS)
def test_a_session_is_read_as_it_went(client: str) -> None:
    asked = [message for turn in said(f"{client}/session.jsonl") for who, message in turn if who == "user"]
    assert asked[0].startswith(PRISMA)
    assert asked[-1] == "We lint with Biome."
    assert len(turns(f"{client}/session.jsonl")) == {"claude-code": 3, "codex": 2}[client]


def test_words_sent_while_the_agent_worked_are_in_the_transcript_too() -> None:
    (turn,) = [
        turn for turn in said("claude-code/session.jsonl") if ("user", "Please ask an agent how we build.") in turn
    ]
    assert ("user", "We run the tests with Vitest.") in turn


@pytest.mark.parametrize("client", CLIENTS)
def test_a_fork_brings_only_what_is_new_in_it(client: str) -> None:
    (turn,) = said(f"{client}/forked.jsonl")
    assert turn[0] == ("user", "We format with Biome too.")


@pytest.mark.parametrize("client", CLIENTS)
def test_nobody_speaks_in_a_subagents_transcript(client: str) -> None:
    assert turns(f"{client}/subagent.jsonl") == []


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_subagent_said_is_not_the_users(client: str) -> None:
    assert "Bazel" not in words(f"{client}/session.jsonl")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_injected_is_known_as_such(client: str) -> None:
    exchanges = [sanitize.clean(turn.messages) for turn in turns(f"{client}/session.jsonl")]
    assert "Fly.io" not in words(f"{client}/session.jsonl")
    assert all(any("Fly.io" in each for each in exchange.injected) for exchange in exchanges)


@pytest.mark.parametrize(
    ("client", "prompt"), [("claude-code", "Overloaded today: we use pnpm."), ("codex", "We use pnpm.")]
)
def test_a_turn_that_failed_keeps_the_prompt_and_no_error(client: str, prompt: str) -> None:
    assert said(f"{client}/failed.jsonl") == [[("user", prompt)]]


def test_a_compaction_hands_over_its_summary() -> None:
    found = [each.summary for each in events("claude-code") if each.kind == "summary"]
    assert found
    assert "I asked one." in found


def test_the_summary_of_a_compaction_is_nobodys_words() -> None:
    agents = [message for turn in said("codex/session.jsonl") for who, message in turn if who == "assistant"]
    assert agents == ["I asked one.", "Good."]
