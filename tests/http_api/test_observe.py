"""The observational pathway: a dialogue that was watched is the team's, and its answer counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve
from tests.http_api.test_ingest import settled

SWITCHED = {
    "validated_intent": "Find out how we sign in.",
    "response": "We switched from JWT to Clerk for auth.",
    "session": "activity-7",
    "agent": "agent-1",
}


def facts(*texts: str) -> str:
    return json.dumps({"facts": [{"text": text, "category": "decision"} for text in texts]})


def test_an_observation_is_acknowledged_at_once_and_becomes_the_teams(service: Caller) -> None:
    answer = service.post("/observe", {**SWITCHED, "team": "web"})
    assert (answer.status, answer.json["new"], answer.json["state"]) == (202, True, "pending")
    assert settled(service, answer.json["id"])["state"] == "stored"
    [memory] = service.get("/memories").json["memories"]
    assert memory["text"] == "Team switched from JWT to Clerk"
    assert (memory["visibility"], memory["session"], memory["agent"]) == ("team", "activity-7", "agent-1")
    assert (memory["team"], memory["method"], memory["entities"]) == ("web", "pattern", ["JWT", "Clerk"])


def test_whoever_waits_gets_counts_and_the_method(service: Caller) -> None:
    told = service.post("/observe", {**SWITCHED, "wait": True})
    assert told.status == 200
    assert (told.json["extracted_count"], told.json["stored_count"], told.json["method"]) == (1, 1, "pattern")
    nothing = service.post("/observe", {"response": "Sounds good!", "wait": True}).json
    assert (nothing["extracted_count"], nothing["method"]) == (0, "none")


@pytest.mark.parametrize(
    ("response", "fact"),
    [
        ("I prefer dark mode for coding", "User prefers dark mode"),
        ("We never use var.", "never use var"),
        ("Our staging database runs on port 5433.", "Our staging database runs on port 5433"),
    ],
)
def test_what_was_answered_counts_like_the_users_own_words(service: Caller, response: str, fact: str) -> None:
    service.post("/observe", {"response": response, "wait": True})
    [memory] = service.get("/memories").json["memories"]
    assert fact in memory["text"]
    service.post("/capture", {"messages": [{"role": "assistant", "content": f"{response} Really."}], "wait": True})
    assert service.get("/inbox/status").json["rejected"] == 1  # in a conversation an assistant's word is not enough


def test_what_was_meant_counts_too(service: Caller) -> None:
    given = {"validated_intent": "I prefer tabs over spaces.", "response": "Tabs it is.", "wait": True}
    assert service.post("/observe", given).json["actions"][0]["text"] == "User prefers tabs over spaces"


def test_the_model_reads_both_where_no_pattern_does(serve: Serve) -> None:
    llm = ScriptedLLM([facts("Releases wait for Ann")])
    service = serve(llm=llm)
    given = {"validated_intent": "Who signs off?", "response": "Ann has the last word there.", "wait": True}
    told = service.post("/observe", given).json
    assert (told["method"], told["stored_count"]) == ("llm", 1)
    [(_, asked, _)] = llm.calls
    assert "Who signs off?" in asked
    assert "Ann has the last word there." in asked
    assert "what it states counts as if the user had said it" in asked
    [memory] = service.get("/memories").json["memories"]
    assert (memory["text"], memory["visibility"], memory["method"]) == ("Releases wait for Ann", "team", "llm")


@pytest.mark.parametrize("response", [SWITCHED["response"], "Sounds good!", "What do you think?"])
def test_the_model_is_not_asked_for_what_needs_none(serve: Serve, response: str) -> None:
    llm = ScriptedLLM([])
    serve(llm=llm).post("/observe", {"response": response, "wait": True})
    assert llm.calls == []


@pytest.mark.parametrize("name", ["dialogue", "turn"])
def test_the_same_dialogue_is_taken_once(service: Caller, name: str) -> None:
    first, again = (service.post("/observe", {**SWITCHED, name: "d1", "wait": True}).json for _ in range(2))
    assert (again["new"], again["id"]) == (False, first["id"])
    assert service.get("/inbox/status").json["captured"] == 1


def test_a_dry_run_tells_what_would_be_learned(service: Caller) -> None:
    told = service.post("/observe", {**SWITCHED, "dry_run": True}).json
    assert [each["role"] for each in told["sentences"]] == ["user", "assistant"]
    assert told["actions"][0]["action"] == "add"
    assert service.get("/inbox/status").json["captured"] == 0


def test_it_may_be_private(service: Caller) -> None:
    service.post("/observe", {**SWITCHED, "visibility": "private", "wait": True})
    assert service.get("/memories").json["memories"][0]["visibility"] == "private"


def test_secrets_are_not_kept(service: Caller) -> None:
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    item = service.post("/observe", {**SWITCHED, "validated_intent": f"Log in with {secret}", "wait": True}).json["id"]
    assert secret not in json.dumps(service.get(f"/inbox/{item}").json)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"response": ""},
        {"response": " \n"},
        {"response": 5},
        {"response": "x", "validated_intent": None},
        {"response": "x", "context": "stop"},
        {"response": "x", "turn": "1", "dialogue": "2"},
        {"response": "x", "visibility": "everybody"},
        {"response": "x", "session": "s" * 2_000},
    ],
)
def test_what_cannot_be_taken_is_refused_and_captures_nothing(service: Caller, given: dict[str, Any]) -> None:
    assert service.post("/observe", given).status in (400, 413)
    assert service.get("/inbox/status").json["captured"] == 0


def test_the_library_observes_the_same() -> None:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock) as keeper:
        told = keeper.observe("How do we sign in?", SWITCHED["response"], session="activity-7", turn="d1", wait=True)
        assert (told.state, told.result["method"]) == ("stored", "pattern")
        [memory] = keeper.list().memories
        assert (memory.text, memory.visibility, memory.session) == (
            "Team switched from JWT to Clerk", "team", "activity-7",
        )  # fmt: skip
        assert keeper.observe("", "I prefer tabs over spaces.").state == "pending"
