"""team and enrich as a person types them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cofio

TEAM = ("--visibility", "team", "--agent", "agent-1")


@pytest.fixture(autouse=True)
def told(cofio: Cofio) -> None:
    for _ in range(3):
        cofio.lines("add", "Should add null check", "--kind", "policy", *TEAM)
    cofio.lines("add", "Billing migrates its database on mondays", "--kind", "technology", *TEAM)
    cofio.lines("add", "The database of billing is PostgreSQL", "--session", "s1")


def test_the_facts_of_the_team_are_shown_newest_first(cofio: Cofio) -> None:
    rows = [line.split("\t") for line in cofio.lines("team", "facts")]
    assert [row[:4] for row in rows] == [
        ["2", "Billing migrates its database on mondays", "technology", "agent-1"],
        ["1", "Should add null check", "policy", "agent-1"],
    ]
    found = cofio.json("team", "facts", "--category", "policy")["memories"]
    assert [each["text"] for each in found] == ["Should add null check"]
    assert len(cofio.lines("team", "facts", "--limit", "1")) == 1
    assert cofio("team", "facts", "--category", "gossip").exit_code == 2


def test_a_team_that_knows_nothing_is_told_how_to_tell_it(cofio: Cofio) -> None:
    done = cofio("team", "facts", "--team", "blue")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "--visibility team" in done.stderr


def test_what_an_agent_keeps_saying_is_shown_with_how_often(cofio: Cofio) -> None:
    assert cofio.lines("team", "patterns") == ["3\tagent-1\t1\tShould add null check"]
    [pattern] = cofio.json("team", "patterns", "--min", "3")["patterns"]
    assert (pattern["agent"], pattern["occurrences"], pattern["memory"]["id"]) == ("agent-1", 3, 1)
    assert len(cofio.lines("team", "patterns", "--min", "1", "--limit", "5")) == 2
    nothing = cofio("team", "patterns", "--min", "4")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "4 times" in nothing.stderr


def test_a_prompt_is_enriched_for_other_programs(cofio: Cofio) -> None:
    asked = "What is the database of billing, and when does billing migrate its database?"
    personal = ["## Relevant Personal Context:", "- The database of billing is PostgreSQL"]
    assert cofio.lines("enrich", asked) == cofio.lines("enrich", asked, "--session", "s1") == personal
    assert cofio.lines("enrich", asked, "--session", "s1", "--team") == [
        *personal,
        "",
        "",
        "## Relevant Team Context:",
        "- Billing migrates its database on mondays",
    ]
    assert cofio.json("enrich", asked)["context"] == "\n\n" + "\n".join(personal) + "\n"


def test_where_nothing_answers_nothing_is_printed(cofio: Cofio) -> None:
    done = cofio("enrich", "what is for lunch?", "--team")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr
    assert cofio.json("enrich", "what is for lunch?")["context"] == ""
    assert cofio("enrich", "x", "--max", "0").exit_code == 2
