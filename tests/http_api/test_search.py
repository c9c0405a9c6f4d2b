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
def filled(service: Caller) -> Caller:
    assert service.post("/memory/add-batch", {"memories": FACTS}).json["added"] == len(FACTS)
    return service


def test_a_search_finds_and_tells_how_well(filled: Caller) -> None:
    found = filled.post("/search", {"query": "when do we deploy?"}).json
    assert found["query"] == "when do we deploy?"
    assert found["count"] == len(found["results"]) >= 1
    best = found["results"][0]
    assert best["text"] == FACTS[0]["text"]
    assert 0 < best["similarity"] <= 1
    assert best["match_type"] in ("vector", "keyword", "hybrid")
    assert best["strength"] in ("strong", "likely", "weak")
    assert "why" not in best


def test_a_search_explains_when_asked(filled: Caller) -> None:
    best = filled.post("/search", {"query": "deploy", "explain": True}).json["results"][0]
    assert best["why"]["formula"]


def test_k_thresholds_and_scopes_narrow_a_search(filled: Caller) -> None:
    query = {"query": "deploy the billing database", "k": 10}
    assert filled.post("/search", {**query, "k": 1}).json["count"] == 1
    assert filled.post("/search", {**query, "min_score": 1}).json["count"] == 0
    for hit in filled.post("/search", {**query, "threshold": 0.2}).json["results"]:
        assert hit["similarity"] >= 0.2
    for narrow in ({"source_prefix": "codex"}, {"source": "codex/billing"}, {"agent": "a1"}):
        assert {hit["source"] for hit in filled.post("/search", {**query, **narrow}).json["results"]} == {
            "codex/billing"
        }
    assert filled.post("/search", {**query, "tags": ["release"], "kind": "policy"}).json["count"] == 1
    assert filled.post("/search", {**query, "project": "/srv/web"}).json["count"] == 0
    assert filled.post("/search", {**query, "project": ""}).json["count"] == len(FACTS)
    assert filled.post("/search", {**query, "visible_in": "/srv/web"}).json["count"] == len(FACTS)
    assert filled.post("/search", {**query, "visibility": ["team"]}).json["count"] == 0
    assert filled.post("/search", {**query, "until": "2020-01-01T00:00:00Z"}).json["count"] == 0
    assert filled.post("/search", {**query, "until": 0}).json["count"] == 0
    assert filled.post("/search", {**query, "pinned": True}).json["count"] == 0


def test_a_batch_answers_in_order_and_takes_plain_texts(filled: Caller) -> None:
    queries = ["who reviews billing?", {"query": "which database?", "k": 1}]
    first, second = filled.post("/search/batch", {"queries": queries}).json["results"]
    assert first["query"] == "who reviews billing?"
    assert first["results"][0]["text"] == FACTS[1]["text"]
    assert (second["count"], second["results"][0]["text"]) == (1, FACTS[2]["text"])


@pytest.mark.parametrize("bad", ["", {"query": " "}, {"query": "x", "k": 0}, {"k": 1}, 7, {"query": "x", "kind": "?"}])
def test_a_bad_query_of_a_batch_is_named(filled: Caller, bad: object) -> None:
    answer = filled.post("/search/batch", {"queries": ["fine", bad]})
    assert answer.status == 400
    assert "queries[1]" in answer.error["message"]


def test_a_batch_has_from_one_to_a_hundred_queries(filled: Caller) -> None:
    assert filled.post("/search/batch", {"queries": []}).status == 400
    assert filled.post("/search/batch", {"queries": ["x"] * 101}).status == 400
    assert len(filled.post("/search/batch", {"queries": ["x"] * 100}).json["results"]) == 100


def test_retrieval_counts_follow_a_search(filled: Caller) -> None:
    best = filled.post("/search", {"query": "deploy on Fridays", "k": 1}).json["results"][0]
    filled.post("/search/batch", {"queries": [{"query": "deploy on Fridays", "k": 1}]})
    memory = filled.get(f"/memory/{best['id']}").json
    assert memory["retrieval_count"] == 2
    assert memory["last_retrieved_at"]
    assert filled.get("/stats").json["retrievals"] == 2


def test_a_known_text_is_not_novel_and_asking_is_no_retrieval(filled: Caller) -> None:
    known = filled.post("/memory/is-novel", {"text": FACTS[0]["text"]}).json
    assert (known["novel"], known["is_novel"]) == (False, False)
    assert known["match"]["text"] == FACTS[0]["text"]
    assert known["match"]["retrieval_count"] == 0
    new = filled.post("/memory/is-novel", {"text": "Bananas are yellow.", "threshold": 0.5}).json
    assert (new["novel"], new["is_novel"]) == (True, True)
    elsewhere = filled.post("/memory/is-novel", {"text": FACTS[0]["text"], "source_prefix": "codex"}).json
    assert elsewhere["novel"]


def test_in_an_empty_store_everything_is_novel_and_nothing_is_found(service: Caller) -> None:
    assert service.post("/memory/is-novel", {"text": "x"}).json["match"] is None
    assert service.post("/search", {"query": "anything"}).json["results"] == []


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(", "*", "-x", "col:x", "' OR 1=1 --", "😀", "\u200b", "a" * 60_000]
)
def test_any_text_can_be_searched_for(served: Caller, query: str) -> None:
    assert served.post("/search", {"query": query}).status == 200


def test_a_word_that_stood_in_every_memory_can_be_searched_for_after_a_purge(service: Caller) -> None:
    facts = [{"text": f"Service {each} is deployed on port {9000 + each}."} for each in range(60)]
    ids = [each["id"] for each in service.post("/memory/add-batch", {"memories": facts}).json["results"]]
    assert service.post("/search", {"query": "deployed", "k": 100}).json["count"] == 60
    service.delete(f"/memory/{ids[-1]}", purge="true")
    assert service.post("/search", {"query": "deployed", "k": 100}).json["count"] == 59


def test_search_flags_when_nothing_fits_well(filled: Caller) -> None:
    assert filled.post("/search", {"query": "We deploy on Fridays, after lunch."}).json["poor_match"] is False
    weak = filled.post("/search", {"query": "zirconium"}).json
    assert weak["poor_match"] is True
    assert {hit["strength"] for hit in weak["results"]} == {"weak"}
    [batch] = filled.post("/search/batch", {"queries": ["zirconium"]}).json["results"]
    assert batch["poor_match"] is True
