"""The `cofio team` and `cofio enrich` commands."""

from __future__ import annotations

import pytest

from cofio.text.briefing import NOTICE
from tests.cli.conftest import InProcessCli

TEAM = ("--visibility", "team", "--agent", "agent-1")


@pytest.fixture(autouse=True)
def team_memories(cofio: InProcessCli) -> None:
    for _ in range(3):
        cofio.lines("add", "Should add null check", "--kind", "policy", *TEAM)
    cofio.lines("add", "Billing migrates its database on mondays", "--kind", "technology", *TEAM)
    cofio.lines("add", "The database of billing is PostgreSQL", "--session", "s1")


def test_team_facts_are_listed_newest_first(cofio: InProcessCli) -> None:
    rows = [line.split("\t") for line in cofio.lines("team", "facts")]
    assert [row[:4] for row in rows] == [
        ["2", "Billing migrates its database on mondays", "technology", "agent-1"],
        ["1", "Should add null check", "policy", "agent-1"],
    ]
    output = cofio.json("team", "facts", "--category", "policy")["memories"]
    assert [memory["text"] for memory in output] == ["Should add null check"]
    assert len(cofio.lines("team", "facts", "--limit", "1")) == 1
    assert cofio("team", "facts", "--category", "gossip").exit_code == 2


def test_empty_team_output_has_a_hint(cofio: InProcessCli) -> None:
    result = cofio("team", "facts", "--team", "blue")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "--visibility team" in result.stderr


def test_patterns_are_listed_with_counts(cofio: InProcessCli) -> None:
    assert cofio.lines("team", "patterns") == ["3\tagent-1\t1\tShould add null check"]
    [pattern] = cofio.json("team", "patterns", "--min", "3")["patterns"]
    assert (pattern["agent"], pattern["occurrences"], pattern["memory"]["id"]) == ("agent-1", 3, 1)
    assert len(cofio.lines("team", "patterns", "--min", "1", "--limit", "5")) == 2
    nothing = cofio("team", "patterns", "--min", "4")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "4 times" in nothing.stderr


def test_enrich_prints_context(cofio: InProcessCli) -> None:
    query = "What is the database of billing, and when does billing migrate its database?"
    lines = cofio.lines("enrich", query)
    assert lines == cofio.lines("enrich", query, "--session", "s1")
    assert (lines[0], lines[1], lines[2], lines[-1]) == (
        "<cofio-memory>", NOTICE, "## Relevant Personal Context:", "</cofio-memory>",
    )  # fmt: skip
    assert lines[3].endswith("] The database of billing is PostgreSQL")
    of_team = cofio.lines("enrich", query, "--session", "s1", "--team")
    assert of_team[:4] == lines[:4]
    assert of_team[4] == "## Relevant Team Context:"
    assert of_team[5].endswith("] Billing migrates its database on mondays")
    assert cofio.json("enrich", query)["context"] == "\n\n" + "\n".join(lines) + "\n"


def test_enrich_without_context_prints_nothing(cofio: InProcessCli) -> None:
    result = cofio("enrich", "what is for lunch?", "--team")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr
    assert cofio.json("enrich", "what is for lunch?")["context"] == ""
    assert cofio("enrich", "x", "--max", "0").exit_code == 2
