"""Subagent messages and API errors are not learned; messages sent during a turn are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.laptop import ClientRun, Laptop, prompts
from tests.acceptance.models import ErrorReply, ModelRequest, Models, Reply, TextReply, ToolCallReply

BAZEL = "We decided to build everything with Bazel."


@pytest.fixture(scope="module")
def web(laptop: Laptop) -> Path:
    web = laptop.project("web")
    laptop.remember("We decided to keep money in integers, in cents.", web)
    return web


def test_subagent_messages_are_not_learned_in_claude_code(laptop: Laptop, models: Models, web: Path) -> None:
    asks = {"description": "Look", "prompt": f"AGENT: {BAZEL}", "subagent_type": "general-purpose"}
    models.when("ask an agent", ToolCallReply("Agent", asks), TextReply("It is done."))
    models.when("AGENT:", TextReply(BAZEL))
    run = laptop.claude("We use Biome for linting. Now ask an agent how we build.", at=web)
    assert run.code == 0
    assert any(BAZEL in asked.last and "task-notification" in asked.last for asked in run.asked)  # its result returned
    assert not given_to_the_agent(run)
    laptop.settled()
    assert laptop.known("Biome")
    assert not laptop.known("Bazel")


def test_subagent_messages_are_not_learned_in_codex(laptop: Laptop, models: Models, web: Path) -> None:
    models.when("spawn an agent", ToolCallReply("spawn_agent", {"message": f"AGENT: {BAZEL}"}, "multi_agent_v1"),
                _waits_for_it, TextReply("It is done."))  # fmt: skip
    models.when("AGENT:", TextReply(BAZEL))
    run = laptop.codex("We use Prettier for formatting. Now spawn an agent that looks how we build.", at=web)
    assert run.code == 0
    assert any(BAZEL in asked.last and "subagent_notification" in asked.last for asked in run.asked)
    assert not given_to_the_agent(run)
    laptop.settled()
    assert laptop.known("Prettier")
    assert not laptop.known("Bazel")


def given_to_the_agent(ran: ClientRun) -> list[str]:
    """Return what cofio injected into a subagent."""
    asked = [asked.text for asked in ran.asked if f"AGENT: {BAZEL}" in asked.text]
    assert asked
    return [text for text in asked if "cofio-memory" in text]


def _waits_for_it(asked: ModelRequest) -> Reply:
    (agent,) = re.findall(r"agent_id[^0-9a-f]*([0-9a-f-]{36})", json.dumps(asked.body["input"][-1]))
    return ToolCallReply("wait_agent", {"targets": [agent], "timeout_ms": 30_000}, "multi_agent_v1")


@pytest.mark.parametrize(
    ("client", "fail"),
    [
        ("claude-code", ErrorReply(529, message="We decided to be overloaded.")),
        ("claude-code", ErrorReply(400, "invalid_request_error", "We decided to use another format.")),
        ("codex", ErrorReply(500, "server_error", "We decided to be down.")),
    ],
)
def test_prompt_of_a_failed_turn_is_learned_without_the_error(
    laptop: Laptop, models: Models, web: Path, client: str, fail: ErrorReply
) -> None:
    prompt = f"We use error tracker number {fail.status}."
    models.when(prompt, fail)
    run = laptop.prompt(client, prompt, at=web)
    assert run.code == 1
    laptop.settled()
    assert len(laptop.known(f"tracker number {fail.status}")) == 1
    assert not laptop.known("We decided to be")
    assert not laptop.known("another format")


def test_messages_sent_during_a_turn_are_learned(laptop: Laptop, models: Models, web: Path) -> None:
    models.when(
        "Look around.", ToolCallReply("Bash", {"command": "sleep 1", "description": "Wait"}), TextReply("Done.")
    )
    run = laptop.claude("", at=web, says=prompts("Look around.", "We keep secrets in Vault."))
    assert run.code == 0
    laptop.settled()
    assert len(laptop.known("Vault")) == 1
