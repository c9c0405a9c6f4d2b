"""Team endpoints: facts, patterns and prompt enrichment."""

from __future__ import annotations

import pytest

from cofio.text.briefing import NOTICE
from cofio.text.briefing import TAG as BLOCK
from tests.http_api.caller import Caller

TEAM = {"visibility": "team", "agent": "agent-1"}


def add_fact(caller: Caller, text: str, **fields: object) -> None:
    assert caller.post("/memory/add", {"text": text, **fields}).status in (200, 201)


def test_team_facts_are_sorted_by_creation_time(service: Caller) -> None:
    add_fact(service, "Team uses TypeScript", kind="technology", **TEAM)
    add_fact(service, "Team used JavaScript", kind="technology", created_at="2020-01-01", **TEAM)
    add_fact(service, "We review in pairs", kind="policy", **TEAM)
    add_fact(service, "Ada prefers tabs")

    def list_texts(**filters: object) -> list[str]:
        return [memory["text"] for memory in service.get("/team/facts", **filters).json["memories"]]

    assert list_texts() == ["We review in pairs", "Team uses TypeScript", "Team used JavaScript"]
    assert list_texts(limit=1) == ["We review in pairs"]
    assert list_texts(category="technology") == ["Team uses TypeScript", "Team used JavaScript"]
    assert list_texts(category="learning") == list_texts(team="another") == []


def test_repeated_facts_of_one_agent_form_a_pattern(service: Caller) -> None:
    for _ in range(3):
        add_fact(service, "Should add null check", kind="policy", confidence=0.9, **TEAM)
    add_fact(service, "Should add null check", visibility="team", agent="agent-2")
    [pattern] = service.get("/team/patterns", min_occurrences=2).json["patterns"]
    assert (pattern["agent"], pattern["occurrences"]) == ("agent-1", 3)
    assert pattern["memory"]["text"] == "Should add null check"
    both = service.get("/team/patterns", min_occurrences=1).json["patterns"]
    assert [item["agent"] for item in both] == ["agent-1", "agent-2"]
    assert service.get("/team/patterns", min_occurrences=1, limit=1).json["patterns"] == [pattern]
    assert service.get("/team/patterns", min_occurrences=4).json["patterns"] == []


def test_enrich_adds_personal_and_team_context(service: Caller) -> None:
    add_fact(service, "The database of billing is PostgreSQL", session="s1")
    add_fact(service, "Billing migrates its database on mondays", **TEAM)
    request = {"query": "When does billing migrate its database, and which is it?", "session": "s1"}
    context = service.post("/enrich", request).json["context"]
    assert context.startswith(f"\n\n<{BLOCK}>\n{NOTICE}\n## Relevant Personal Context:\n- [")
    assert context.endswith("] The database of billing is PostgreSQL\n</cofio-memory>\n")
    complete = service.post("/enrich", {**request, "include_team": True}).json["context"]
    personal, team = complete.split("## Relevant Team Context:\n- [")
    assert "] The database of billing is PostgreSQL\n" in personal
    assert team.endswith("] Billing migrates its database on mondays\n</cofio-memory>\n")
    assert service.post("/enrich", {**request, "session": "s2"}).json == {"context": ""}
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
def test_invalid_team_query_is_rejected(service: Caller, path: str) -> None:
    response = service.get(path)
    assert response.status == 400
    assert response.error["hint"]


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
def test_invalid_enrich_body_is_rejected(service: Caller, body: dict[str, object], status: int) -> None:
    assert service.post("/enrich", body).status == status
