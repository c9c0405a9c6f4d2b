"""The /observe endpoint: observed dialogues become team memories, and the response stays the agent's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve
from tests.http_api.test_ingest import wait_until_processed

SWITCHED = {
    "validated_intent": "Find out how we sign in.",
    "response": "We switched from JWT to Clerk for auth.",
    "session": "activity-7",
    "agent": "agent-1",
}


def facts_reply(*texts: str) -> str:
    return json.dumps({"facts": [{"text": text, "category": "decision"} for text in texts]})


def test_observation_returns_202_and_becomes_a_team_memory(service: Caller) -> None:
    response = service.post("/observe", {**SWITCHED, "team": "web"})
    assert (response.status, response.json["new"], response.json["state"]) == (202, True, "pending")
    assert wait_until_processed(service, response.json["id"])["state"] == "stored"
    [memory] = service.get("/memories").json["memories"]
    assert (memory["text"], memory["provenance"]) == (SWITCHED["response"], "assistant")
    assert (memory["visibility"], memory["session"], memory["agent"]) == ("team", "activity-7", "agent-1")
    assert (memory["team"], memory["method"], memory["entities"]) == ("web", "pattern", ["JWT", "Clerk"])


def test_observe_with_wait_returns_counts_and_method(service: Caller) -> None:
    response = service.post("/observe", {**SWITCHED, "wait": True})
    assert response.status == 200
    assert (response.json["extracted_count"], response.json["stored_count"], response.json["method"]) == (
        1,
        1,
        "pattern",
    )
    nothing = service.post("/observe", {"response": "Sounds good!", "wait": True}).json
    assert (nothing["extracted_count"], nothing["method"]) == (0, "none")


@pytest.mark.parametrize(
    ("response", "fact"),
    [
        ("I prefer dark mode for coding", "I prefer dark mode for coding"),
        ("We never use var.", "never use var"),
        ("Our staging database runs on port 5433.", "Our staging database runs on port 5433"),
    ],
)
def test_facts_in_the_response_are_learned(service: Caller, response: str, fact: str) -> None:
    service.post("/observe", {"response": response, "wait": True})
    [memory] = service.get("/memories").json["memories"]
    assert fact in memory["text"]
    service.post("/capture", {"messages": [{"role": "assistant", "content": f"{response} Really."}], "wait": True})
    assert service.get("/inbox/status").json["rejected"] == 1  # in /capture an assistant message alone is not learned


def test_response_is_not_the_teams_word(service: Caller) -> None:
    service.post("/capture", {"messages": "We switched from npm to pnpm", "visibility": "team", "wait": True})
    quoting = 'The README says: "We switched from pnpm to evilpm".'
    for response in (
        quoting,
        "The README says:\n\n> We switched from pnpm to evilpm.",
        "We switched from pnpm to bun.",
    ):
        service.post("/observe", {"response": response, "wait": True})
    memories = {memory["text"]: memory["provenance"] for memory in service.get("/memories").json["memories"]}
    assert memories == {"Team switched from npm to pnpm": "user", "We switched from pnpm to bun.": "assistant"}


def test_facts_in_the_validated_intent_are_learned(service: Caller) -> None:
    arguments = {"validated_intent": "I prefer tabs over spaces.", "response": "Tabs it is.", "wait": True}
    assert service.post("/observe", arguments).json["actions"][0]["text"] == "User prefers tabs over spaces"


def test_llm_receives_intent_and_response_when_no_pattern_matches(serve: Serve) -> None:
    llm = ScriptedLLM([facts_reply("Releases wait for Ann")])
    service = serve(llm=llm)
    arguments = {"validated_intent": "Who signs off?", "response": "Ann has the last word there.", "wait": True}
    body = service.post("/observe", arguments).json
    assert (body["method"], body["stored_count"]) == ("llm", 1)
    [(_, asked, _)] = llm.calls
    assert "Who signs off?" in asked
    assert "Ann has the last word there." in asked
    assert "with said_by assistant" in asked
    [memory] = service.get("/memories").json["memories"]
    assert (memory["text"], memory["visibility"], memory["method"]) == ("Releases wait for Ann", "team", "llm")


@pytest.mark.parametrize("response", [SWITCHED["response"], "Sounds good!", "What do you think?"])
def test_llm_is_not_called_when_not_needed(serve: Serve, response: str) -> None:
    llm = ScriptedLLM([])
    serve(llm=llm).post("/observe", {"response": response, "wait": True})
    assert llm.calls == []


@pytest.mark.parametrize("name", ["dialogue", "turn"])
def test_repeated_dialogue_is_captured_once(service: Caller, name: str) -> None:
    first, again = (service.post("/observe", {**SWITCHED, name: "d1", "wait": True}).json for _ in range(2))
    assert (again["new"], again["id"]) == (False, first["id"])
    assert service.get("/inbox/status").json["captured"] == 1


def test_dry_run_returns_decisions_without_capturing(service: Caller) -> None:
    body = service.post("/observe", {**SWITCHED, "dry_run": True}).json
    assert [sentence["role"] for sentence in body["sentences"]] == ["user", "assistant"]
    assert body["actions"][0]["action"] == "add"
    assert service.get("/inbox/status").json["captured"] == 0


def test_visibility_can_be_private(service: Caller) -> None:
    service.post("/observe", {**SWITCHED, "visibility": "private", "wait": True})
    assert service.get("/memories").json["memories"][0]["visibility"] == "private"


def test_secrets_are_redacted(service: Caller) -> None:
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    item = service.post("/observe", {**SWITCHED, "validated_intent": f"Log in with {secret}", "wait": True}).json["id"]
    assert secret not in json.dumps(service.get(f"/inbox/{item}").json)


@pytest.mark.parametrize(
    "body",
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
def test_invalid_observation_is_rejected(service: Caller, body: dict[str, Any]) -> None:
    assert service.post("/observe", body).status in (400, 413)
    assert service.get("/inbox/status").json["captured"] == 0


def test_library_observe_matches_the_endpoint() -> None:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock) as keeper:
        result = keeper.observe("How do we sign in?", SWITCHED["response"], session="activity-7", turn="d1", wait=True)
        assert (result.state, result.result["method"]) == ("stored", "pattern")
        [memory] = keeper.list().memories
        assert (memory.text, memory.visibility, memory.session) == (
            SWITCHED["response"], "team", "activity-7",
        )  # fmt: skip
        assert keeper.observe("", "I prefer tabs over spaces.").state == "pending"
