"""Learning from sessions of both clients once, and recall in the next session and the other client."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.acceptance.laptop import CLIENTS, Laptop, prompts
from tests.acceptance.models import TextReply

PRISMA = "We switched from Prisma to Drizzle for the web app."
OTHER = {"claude-code": "codex", "codex": "claude-code"}
_numbers = itertools.count(1)


@pytest.fixture
def web(laptop: Laptop) -> Path:
    """Return a project without memories."""
    return laptop.project(f"work-{next(_numbers)}/web")


@pytest.mark.parametrize("client", CLIENTS)
def test_fact_is_learned_once_and_recalled_in_both_clients(laptop: Laptop, web: Path, client: str) -> None:
    before = laptop.inbox_status()
    run = laptop.prompt(client, PRISMA, at=web)
    assert (run.code, run.out.strip()) == (0, "Noted.")
    laptop.settled()

    (memory,) = laptop.of(web)  # prompt, stop, end, transcript and, in Codex, notify reported it
    assert "Drizzle" in memory["text"]
    assert memory["text"] in laptop.cofio("list", "--source", f"{client}/web").stdout
    assert memory["source"] == f"{client}/web"
    after = laptop.inbox_status()
    assert after["captured"] - before["captured"] == 1
    assert after["stored"] - before["stored"] == 1
    assert after["balanced"]

    for item in (client, OTHER[client]):
        repeated = laptop.prompt(item, "Which ORM do we use for the web app?", at=web)
        assert "<cofio-memory>" in repeated.read
        assert memory["text"] in repeated.read
    laptop.settled()
    assert len(laptop.of(web)) == 1


def test_worktree_is_the_same_project_and_a_namesake_is_not(laptop: Laptop, web: Path) -> None:
    laptop.claude(PRISMA, at=web)
    laptop.settled()
    beside = laptop.worktree(web, f"{web.parent.name}-beside")
    namesake = laptop.project(f"{web.parent.name}-elsewhere/web")
    for client in CLIENTS:
        assert "Drizzle" in laptop.prompt(client, "Which ORM do we use?", at=beside).read
        assert "Drizzle" not in laptop.prompt(client, "Which ORM do we use?", at=namesake).read
    below = beside / "src"
    below.mkdir()
    assert "Drizzle" in laptop.codex("Which ORM do we use?", at=below).read


@pytest.mark.parametrize("client", CLIENTS)
def test_injected_memory_is_not_learned_again(laptop: Laptop, web: Path, client: str) -> None:
    laptop.remember("We decided to keep money in integers, in cents.", web, category="decision")
    laptop.models.when(
        "How do we store prices?",
        TextReply("As noted, you decided to keep money in integers, in cents. We always do so."),
    )
    before = laptop.inbox_status()["captured"]
    run = laptop.prompt(client, "How do we store prices?", at=web)
    laptop.settled()
    (memory,) = laptop.of(web)
    assert memory["text"] == "We decided to keep money in integers, in cents."
    assert memory["text"] in run.read
    assert laptop.inbox_status()["captured"] == before + 1  # the turn was processed
    assert memory["occurrences"] == 1


def test_every_turn_of_a_long_session_is_learned_once(laptop: Laptop, web: Path) -> None:
    before = laptop.inbox_status()
    message = prompts(
        "We use Vitest for unit tests.", "/compact", "We use Biome for linting.", "/clear", "We use Node 22."
    )
    run = laptop.claude("", at=web, says=message)
    assert run.code == 0
    laptop.settled()
    texts = [memory["text"] for memory in laptop.of(web)]
    assert sorted(word for word in ("Vitest", "Biome", "Node 22") if any(word in text for text in texts)) == [
        "Biome",
        "Node 22",
        "Vitest",
    ]
    assert len(texts) == 3
    assert laptop.inbox_status()["captured"] - before["captured"] == 4  # including the summary of the compaction


def test_resumed_and_forked_session_is_learned_once(laptop: Laptop, web: Path) -> None:
    before = laptop.inbox_status()
    first = "0f0c1f6e-6f43-4a55-9c8e-3f9b2f6f7a01"
    laptop.claude("We use Vitest for unit tests.", "--session-id", first, at=web)
    laptop.claude("We use Biome for linting.", "--resume", first, at=web)
    laptop.claude("We use Node 22.", "--resume", first, "--fork-session", at=web)
    laptop.settled()
    assert len(laptop.of(web)) == 3
    assert laptop.inbox_status()["captured"] - before["captured"] == 3


def test_resumed_codex_session_is_learned_once(laptop: Laptop, web: Path) -> None:
    before = laptop.inbox_status()
    laptop.codex("We use Vitest for unit tests.", at=web)
    laptop.codex("We use Biome for linting.", "resume", "--last", at=web)
    laptop.settled()
    assert len(laptop.of(web)) == 2
    assert laptop.inbox_status()["captured"] - before["captured"] == 2
