"""Bulk edits, the exchange of a memory, and searches without retrieval counting, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http_api.caller import Caller

TEXTS = ("We deploy on Fridays.", "Reviews need two approvals.", "The API speaks JSON.")


@pytest.fixture
def service_with_memories(service: Caller) -> Caller:
    service.post("/memory/add-batch", {"memories": [{"text": text, "tags": ["first"]} for text in TEXTS]})
    return service


def test_bulk_tag_creates_one_changeset_that_can_be_undone(service_with_memories: Caller) -> None:
    result = service_with_memories.post(
        "/memories/bulk", {"ids": [1, 2], "action": "tag", "tags": ["ops"], "why": "sorted"}, {"X-Cofio-Client": "page"}
    )
    assert result.status == 200
    assert (result.json["by"], result.json["why"]) == ("page", "sorted")
    assert [change["after"]["tags"] for change in result.json["changes"]] == [["first", "ops"]] * 2
    service_with_memories.post(f"/changes/{result.json['id']}/undo")
    assert [service_with_memories.get(f"/memory/{item}").json["tags"] for item in (1, 2, 3)] == [["first"]] * 3


def test_bulk_edit_changes_fields_of_all_memories(service_with_memories: Caller) -> None:
    result = service_with_memories.post(
        "/memories/bulk", {"ids": [1, 3], "action": "edit", "changes": {"category": "learning", "pinned": True}}
    )
    assert [(change["after"]["category"], change["after"]["pinned"]) for change in result.json["changes"]] == [
        ("learning", True), ("learning", True),
    ]  # fmt: skip
    assert service_with_memories.get("/memories", pinned="true").json["total"] == 2


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"ids": [1, 99], "action": "archive"}, 404, "not_found"),
        ({"ids": [], "action": "archive"}, 400, "invalid_input"),
        ({"ids": [0], "action": "archive"}, 400, "invalid_input"),
        ({"ids": list(range(1, 1_002)), "action": "archive"}, 400, "invalid_input"),
        ({"ids": [1], "action": "purge"}, 400, "invalid_input"),
        ({"ids": [1], "action": "edit"}, 400, "invalid_input"),
        ({"ids": [1], "action": "edit", "changes": {}}, 400, "invalid_input"),
        ({"ids": [1], "action": "edit", "changes": {"text": "so"}}, 400, "invalid_input"),
        ({"ids": [1], "action": "edit", "changes": {"id": 2}}, 400, "invalid_input"),
        ({"ids": [1], "action": "restore"}, 409, "conflict"),
        ({"action": "archive"}, 400, "invalid_input"),
    ],
)
def test_invalid_bulk_request_changes_nothing(
    service_with_memories: Caller, body: dict[str, Any], status: int, code: str
) -> None:
    answer = service_with_memories.post("/memories/bulk", body)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert len(service_with_memories.get("/changes").json["changesets"]) == 1


def test_exchange_of_learned_memory_is_returned(service_with_memories: Caller) -> None:
    request = {"messages": [{"role": "user", "content": "We switched from Prisma to Drizzle."}], "wait": True}
    body = service_with_memories.post(
        "/capture", {**request, "client": "claude-code", "session": "s1", "turn": "1"}
    ).json
    memory = service_with_memories.get("/memories", limit=1).json["memories"][0]["id"]
    payload = service_with_memories.get(f"/memory/{memory}/exchange").json
    assert (payload["id"], payload["item"]["id"]) == (memory, body["id"])
    assert payload["item"]["exchange"]["messages"][0]["text"] == "We switched from Prisma to Drizzle."
    assert service_with_memories.get("/memory/1/exchange").json == {"id": 1, "item": None}
    assert service_with_memories.get("/memory/99/exchange").status == 404


def test_search_with_noted_false_does_not_count_as_retrieval(service_with_memories: Caller) -> None:
    look = {"query": "when do we deploy?", "k": 1, "log": False, "explain": True}
    [hit] = service_with_memories.post("/search", look).json["results"]
    assert (hit["id"], hit["why"]["words"]) == (1, ["deploy"])
    service_with_memories.post("/search/batch", {"queries": [look, {"query": "JSON", "k": 1}]})
    assert [service_with_memories.get(f"/memory/{item}").json["retrieval_count"] for item in (1, 3)] == [0, 1]


def test_skip_offsets_the_list(service_with_memories: Caller) -> None:
    page = service_with_memories.get("/memories", limit=1, skip=1).json
    assert ([memory["id"] for memory in page["memories"]], page["next"], page["total"]) == ([2], 2, 3)
    assert service_with_memories.get("/memories", skip=-1).status == 400
