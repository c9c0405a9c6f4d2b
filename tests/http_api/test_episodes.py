"""Episodes over HTTP."""

from __future__ import annotations

from typing import Any

from tests.http_api.caller import Caller

TURN: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Shall we meet at the harbour?"},
        {"role": "assistant", "content": "The harbour is closed for repairs."},
    ],
    "client": "claude",
    "session": "s1",
    "turn": "1",
    "project": "/srv/web",
    "source": "claude/web",
    "wait": True,
}


def test_captured_turn_is_searchable_readable_and_purgeable(service: Caller) -> None:
    body = service.post("/capture", TURN).json["id"]
    payload = service.post("/episodes/search", {"query": "harbour repairs", "k": 3}).json
    assert (payload["query"], payload["count"]) == ("harbour repairs", 1)
    (hit,) = payload["episodes"]
    assert (hit["session"], hit["project"], hit["source"], hit["capture"]) == ("s1", "/srv/web", "claude/web", body)
    assert 0 < hit["score"] <= 1
    episode = service.get(f"/episodes/{hit['episode']}").json
    assert episode["text"] == "User: Shall we meet at the harbour?\nAssistant: The harbour is closed for repairs."
    assert (episode["client"], episode["turn"], episode["at"]) == ("claude", "1", hit["at"])
    assert service.delete(f"/episodes/{hit['episode']}").json == {"id": hit["episode"], "action": "purge"}
    for answer in (service.get(f"/episodes/{hit['episode']}"), service.delete(f"/episodes/{hit['episode']}")):
        assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    assert service.get(f"/inbox/{body}").json["exchange"] is None


def test_memory_search_does_not_return_episodes(service: Caller) -> None:
    service.post("/capture", TURN)
    body = service.post("/search", {"query": "harbour"}).json
    assert (body["count"], body["results"]) == (0, [])


def test_memory_links_to_the_episode_it_was_learned_from(service: Caller) -> None:
    service.post("/capture", {**TURN, "messages": "I prefer tabs over spaces."})
    (memory,) = service.get("/memories").json["memories"]
    episode = service.get(f"/memory/{memory['id']}").json["episode"]
    assert service.get(f"/episodes/{episode}").json["text"] == "User: I prefer tabs over spaces."
    added = service.post("/memory/add", {"text": "We deploy on Fridays."}).json["id"]
    assert "episode" not in service.get(f"/memory/{added}").json


def test_episode_search_filters_and_rejects_invalid_queries(service: Caller) -> None:
    service.post("/capture", TURN)
    query = {"query": "harbour"}
    for narrow in ({"project": "/srv/web"}, {"session": "s1"}, {"source_prefix": "claude"}, {"since": 0}):
        assert service.post("/episodes/search", {**query, **narrow}).json["count"] == 1
    for narrow in ({"project": ""}, {"session": "s2"}, {"source": "claude"}, {"until": 0}, {"min_score": 1}):
        assert service.post("/episodes/search", {**query, **narrow}).json["count"] == 0
    for wrong in ({}, {"query": " "}, {"query": "x", "k": 0}, {"query": "x", "kind": "policy"}):
        assert service.post("/episodes/search", wrong).status == 400
    assert service.get("/episodes/none").status == 404
