"""Teams over HTTP: what they know, what agents keep saying, what a prompt gets of it."""

from __future__ import annotations

import pytest

from tests.http_api.caller import Caller

TEAM = {"visibility": "team", "agent": "agent-1"}


def told(caller: Caller, text: str, **about: object) -> None:
    assert caller.post("/memory/add", {"text": text, **about}).status in (200, 201)


def test_the_facts_of_a_team_come_by_when_they_were_said(service: Caller) -> None:
    told(service, "Team uses TypeScript", kind="technology", **TEAM)
    told(service, "Team used JavaScript", kind="technology", created_at="2020-01-01", **TEAM)
    told(service, "We review in pairs", kind="policy", **TEAM)
    told(service, "Ada prefers tabs")

    def facts(**how: object) -> list[str]:
        return [each["text"] for each in service.get("/team/facts", **how).json["memories"]]

    assert facts() == ["We review in pairs", "Team uses TypeScript", "Team used JavaScript"]
    assert facts(limit=1) == ["We review in pairs"]
    assert facts(category="technology") == ["Team uses TypeScript", "Team used JavaScript"]
    assert facts(category="learning") == facts(team="another") == []


def test_three_equal_facts_of_one_agent_are_one_pattern(service: Caller) -> None:
    for _ in range(3):
        told(service, "Should add null check", kind="policy", confidence=0.9, **TEAM)
    told(service, "Should add null check", visibility="team", agent="agent-2")
    [pattern] = service.get("/team/patterns", min_occurrences=2).json["patterns"]
    assert (pattern["agent"], pattern["occurrences"]) == ("agent-1", 3)
    assert pattern["memory"]["text"] == "Should add null check"
    both = service.get("/team/patterns", min_occurrences=1).json["patterns"]
    assert [each["agent"] for each in both] == ["agent-1", "agent-2"]
    assert service.get("/team/patterns", min_occurrences=1, limit=1).json["patterns"] == [pattern]
    assert service.get("/team/patterns", min_occurrences=4).json["patterns"] == []


def test_a_prompt_gets_what_answers_it(service: Caller) -> None:
    told(service, "The database of billing is PostgreSQL", session="s1")
    told(service, "Billing migrates its database on mondays", **TEAM)
    asked = {"query": "When does billing migrate its database, and which is it?", "session": "s1"}
    personal = "\n\n## Relevant Personal Context:\n- The database of billing is PostgreSQL\n"
    assert service.post("/enrich", asked).json == {"context": personal}
    whole = service.post("/enrich", {**asked, "include_team": True}).json["context"]
    assert whole == personal + "\n\n## Relevant Team Context:\n- Billing migrates its database on mondays\n"
    assert service.post("/enrich", {**asked, "session": "s2"}).json == {"context": ""}
    assert service.get("/memory/1").json["retrieval_count"] == 2


@pytest.mark.parametrize(
    "path",
    [
        "/team/facts?limit=0",
        "/team/facts?limit=1001",
        "/team/facts?category=gossip",
        "/team/facts?who=me",
        "/team/patterns?min_occurrences=0",
        "/team/patterns?min_occurrences=often",
    ],
)
def test_what_cannot_be_asked_of_a_team_is_told_so(service: Caller, path: str) -> None:
    answer = service.get(path)
    assert answer.status == 400
    assert answer.error["hint"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"query": 1}, 400),
        ({"query": "x", "max_facts": 51}, 400),
        ({"query": "x", "include_team": 1}, 400),
        ({"query": "x", "who": "me"}, 400),
        ({"query": "x\u0000"}, 400),
        ({"query": "x" * 70_000}, 413),
    ],
)
def test_a_prompt_that_cannot_be_taken_is_refused(service: Caller, body: dict[str, object], status: int) -> None:
    assert service.post("/enrich", body).status == status
