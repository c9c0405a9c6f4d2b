"""What nobody said is not learned: a subagent's words, an error's text. What was said beside the turns is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.laptop import Laptop, Ran, prompts
from tests.acceptance.models import Asked, Call, Fail, Models, Reply, Say

BAZEL = "We decided to build everything with Bazel."


@pytest.fixture(scope="module")
def web(laptop: Laptop) -> Path:
    web = laptop.project("web")
    laptop.remember("We decided to keep money in integers, in cents.", web)
    return web


def test_a_subagents_words_are_not_learned_in_claude_code(laptop: Laptop, models: Models, web: Path) -> None:
    asks = {"description": "Look", "prompt": f"AGENT: {BAZEL}", "subagent_type": "general-purpose"}
    models.when("ask an agent", Call("Agent", asks), Say("It is done."))
    models.when("AGENT:", Say(BAZEL))
    ran = laptop.claude("We use Biome for linting. Now ask an agent how we build.", at=web)
    assert ran.code == 0
    assert any(BAZEL in asked.last and "task-notification" in asked.last for asked in ran.asked)  # it came back
    assert not given_to_the_agent(ran)
    laptop.settled()
    assert laptop.known("Biome")
    assert not laptop.known("Bazel")


def test_a_subagents_words_are_not_learned_in_codex(laptop: Laptop, models: Models, web: Path) -> None:
    models.when("spawn an agent", Call("spawn_agent", {"message": f"AGENT: {BAZEL}"}, "multi_agent_v1"),
                _waits_for_it, Say("It is done."))  # fmt: skip
    models.when("AGENT:", Say(BAZEL))
    ran = laptop.codex("We use Prettier for formatting. Now spawn an agent that looks how we build.", at=web)
    assert ran.code == 0
    assert any(BAZEL in asked.last and "subagent_notification" in asked.last for asked in ran.asked)
    assert not given_to_the_agent(ran)
    laptop.settled()
    assert laptop.known("Prettier")
    assert not laptop.known("Bazel")


def given_to_the_agent(ran: Ran) -> list[str]:
    """What cofio put before a subagent."""
    asked = [asked.text for asked in ran.asked if f"AGENT: {BAZEL}" in asked.text]
    assert asked
    return [text for text in asked if "cofio-memory" in text]


def _waits_for_it(asked: Asked) -> Reply:
    (agent,) = re.findall(r"agent_id[^0-9a-f]*([0-9a-f-]{36})", json.dumps(asked.body["input"][-1]))
    return Call("wait_agent", {"targets": [agent], "timeout_ms": 30_000}, "multi_agent_v1")


@pytest.mark.parametrize(
    ("client", "fail"),
    [
        ("claude-code", Fail(529, message="We decided to be overloaded.")),
        ("claude-code", Fail(400, "invalid_request_error", "We decided to use another format.")),
        ("codex", Fail(500, "server_error", "We decided to be down.")),
    ],
)
def test_when_the_model_fails_the_prompt_is_learned_and_the_error_is_not(
    laptop: Laptop, models: Models, web: Path, client: str, fail: Fail
) -> None:
    prompt = f"We use error tracker number {fail.status}."
    models.when(prompt, fail)
    ran = laptop.prompt(client, prompt, at=web)
    assert ran.code == 1
    laptop.settled()
    assert len(laptop.known(f"tracker number {fail.status}")) == 1
    assert not laptop.known("We decided to be")
    assert not laptop.known("another format")


def test_words_sent_while_the_agent_works_are_learned(laptop: Laptop, models: Models, web: Path) -> None:
    models.when("Look around.", Call("Bash", {"command": "sleep 1", "description": "Wait"}), Say("Done."))
    ran = laptop.claude("", at=web, says=prompts("Look around.", "We keep secrets in Vault."))
    assert ran.code == 0
    laptop.settled()
    assert len(laptop.known("Vault")) == 1
