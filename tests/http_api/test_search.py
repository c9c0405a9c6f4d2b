"""Searching over HTTP."""

from __future__ import annotations

import pytest

from tests.http_api.caller import Caller

FACTS = (
    {"text": "We deploy on Fridays, after lunch.", "source": "claude/web", "kind": "policy", "tags": ["release"]},
    {"text": "Ann reviews every change of the billing module.", "source": "codex/billing", "agent": "a1"},
    {"text": "The staging database runs PostgreSQL 17.", "source": "claude/web", "kind": "technology"},
)


@pytest.fixture
def populated_service(service: Caller) -> Caller:
    assert service.post("/memory/add-batch", {"memories": FACTS}).json["added"] == len(FACTS)
    return service


def test_search_returns_results_with_scores(populated_service: Caller) -> None:
    body = populated_service.post("/search", {"query": "when do we deploy?"}).json
    assert body["query"] == "when do we deploy?"
    assert body["count"] == len(body["results"]) >= 1
    best = body["results"][0]
    assert best["text"] == FACTS[0]["text"]
    assert 0 < best["similarity"] <= 1
    assert best["match_type"] in ("vector", "keyword", "hybrid")
    assert best["strength"] in ("strong", "likely", "weak")
    assert "why" not in best


def test_search_with_explain_returns_reasons(populated_service: Caller) -> None:
    best = populated_service.post("/search", {"query": "deploy", "explain": True}).json["results"][0]
    assert best["why"]["formula"]


def test_search_limits_thresholds_and_filters(populated_service: Caller) -> None:
    query = {"query": "deploy the billing database", "k": 10}
    assert populated_service.post("/search", {**query, "k": 1}).json["count"] == 1
    assert populated_service.post("/search", {**query, "min_score": 1}).json["count"] == 0
    for hit in populated_service.post("/search", {**query, "threshold": 0.2}).json["results"]:
        assert hit["similarity"] >= 0.2
    for narrow in ({"source_prefix": "codex"}, {"source": "codex/billing"}, {"agent": "a1"}):
        assert {hit["source"] for hit in populated_service.post("/search", {**query, **narrow}).json["results"]} == {
            "codex/billing"
        }
    assert populated_service.post("/search", {**query, "tags": ["release"], "kind": "policy"}).json["count"] == 1
    assert populated_service.post("/search", {**query, "project": "/srv/web"}).json["count"] == 0
    assert populated_service.post("/search", {**query, "project": ""}).json["count"] == len(FACTS)
    assert populated_service.post("/search", {**query, "visible_in": "/srv/web"}).json["count"] == len(FACTS)
    assert populated_service.post("/search", {**query, "visibility": ["team"]}).json["count"] == 0
    assert populated_service.post("/search", {**query, "until": "2020-01-01T00:00:00Z"}).json["count"] == 0
    assert populated_service.post("/search", {**query, "until": 0}).json["count"] == 0
    assert populated_service.post("/search", {**query, "pinned": True}).json["count"] == 0


def test_batch_search_preserves_order_and_accepts_strings(populated_service: Caller) -> None:
    queries = ["who reviews billing?", {"query": "which database?", "k": 1}]
    first, second = populated_service.post("/search/batch", {"queries": queries}).json["results"]
    assert first["query"] == "who reviews billing?"
    assert first["results"][0]["text"] == FACTS[1]["text"]
    assert (second["count"], second["results"][0]["text"]) == (1, FACTS[2]["text"])


@pytest.mark.parametrize(
    "invalid_query", ["", {"query": " "}, {"query": "x", "k": 0}, {"k": 1}, 7, {"query": "x", "kind": "?"}]
)
def test_invalid_batch_query_is_named(populated_service: Caller, invalid_query: object) -> None:
    answer = populated_service.post("/search/batch", {"queries": ["fine", invalid_query]})
    assert answer.status == 400
    assert "queries[1]" in answer.error["message"]


def test_batch_size_is_limited_to_100(populated_service: Caller) -> None:
    assert populated_service.post("/search/batch", {"queries": []}).status == 400
    assert populated_service.post("/search/batch", {"queries": ["x"] * 101}).status == 400
    assert len(populated_service.post("/search/batch", {"queries": ["x"] * 100}).json["results"]) == 100


def test_search_updates_retrieval_counts(populated_service: Caller) -> None:
    best = populated_service.post("/search", {"query": "deploy on Fridays", "k": 1}).json["results"][0]
    populated_service.post("/search/batch", {"queries": [{"query": "deploy on Fridays", "k": 1}]})
    memory = populated_service.get(f"/memory/{best['id']}").json
    assert memory["retrieval_count"] == 2
    assert memory["last_retrieved_at"]
    assert populated_service.get("/stats").json["retrievals"] == 2


def test_is_novel_returns_match_without_counting_a_retrieval(populated_service: Caller) -> None:
    known = populated_service.post("/memory/is-novel", {"text": FACTS[0]["text"]}).json
    assert (known["novel"], known["is_novel"]) == (False, False)
    assert known["match"]["text"] == FACTS[0]["text"]
    assert known["match"]["retrieval_count"] == 0
    new = populated_service.post("/memory/is-novel", {"text": "Bananas are yellow.", "threshold": 0.5}).json
    assert (new["novel"], new["is_novel"]) == (True, True)
    other = populated_service.post("/memory/is-novel", {"text": FACTS[0]["text"], "source_prefix": "codex"}).json
    assert other["novel"]


def test_empty_store_returns_no_results_and_everything_is_novel(service: Caller) -> None:
    assert service.post("/memory/is-novel", {"text": "x"}).json["match"] is None
    assert service.post("/search", {"query": "anything"}).json["results"] == []


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(", "*", "-x", "col:x", "' OR 1=1 --", "😀", "\u200b", "a" * 60_000]
)
def test_any_query_text_is_accepted(shared_service: Caller, query: str) -> None:
    assert shared_service.post("/search", {"query": query}).status == 200


def test_word_of_every_memory_is_searchable_after_purge(service: Caller) -> None:
    facts = [{"text": f"Service {index} is deployed on port {9000 + index}."} for index in range(60)]
    ids = [result["id"] for result in service.post("/memory/add-batch", {"memories": facts}).json["results"]]
    assert service.post("/search", {"query": "deployed", "k": 100}).json["count"] == 60
    service.delete(f"/memory/{ids[-1]}", purge="true")
    assert service.post("/search", {"query": "deployed", "k": 100}).json["count"] == 59


def test_search_flags_poor_matches(populated_service: Caller) -> None:
    assert (
        populated_service.post("/search", {"query": "We deploy on Fridays, after lunch."}).json["poor_match"] is False
    )
    weak = populated_service.post("/search", {"query": "zirconium"}).json
    assert weak["poor_match"] is True
    assert {hit["strength"] for hit in weak["results"]} == {"weak"}
    [batch] = populated_service.post("/search/batch", {"queries": ["zirconium"]}).json["results"]
    assert batch["poor_match"] is True
