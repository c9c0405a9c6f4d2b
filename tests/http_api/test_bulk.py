"""Many memories at once over HTTP, where one was learned, and a look that is no recall."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http_api.caller import Caller

TEXTS = ("We deploy on Fridays.", "Reviews need two approvals.", "The API speaks JSON.")


@pytest.fixture
def kept(service: Caller) -> Caller:
    service.post("/memory/add-batch", {"memories": [{"text": text, "tags": ["first"]} for text in TEXTS]})
    return service


def test_many_change_in_one_changeset_that_one_undo_takes_back(kept: Caller) -> None:
    done = kept.post(
        "/memories/bulk", {"ids": [1, 2], "action": "tag", "tags": ["ops"], "why": "sorted"}, {"X-Cofio-Client": "page"}
    )
    assert done.status == 200
    assert (done.json["by"], done.json["why"]) == ("page", "sorted")
    assert [each["after"]["tags"] for each in done.json["changes"]] == [["first", "ops"]] * 2
    kept.post(f"/changes/{done.json['id']}/undo")
    assert [kept.get(f"/memory/{each}").json["tags"] for each in (1, 2, 3)] == [["first"]] * 3


def test_they_are_edited_as_one_is(kept: Caller) -> None:
    done = kept.post(
        "/memories/bulk", {"ids": [1, 3], "action": "edit", "changes": {"category": "learning", "pinned": True}}
    )
    assert [(each["after"]["category"], each["after"]["pinned"]) for each in done.json["changes"]] == [
        ("learning", True), ("learning", True),
    ]  # fmt: skip
    assert kept.get("/memories", pinned="true").json["total"] == 2


@pytest.mark.parametrize(
    ("given", "status", "code"),
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
def test_what_cannot_be_done_changes_nothing(kept: Caller, given: dict[str, Any], status: int, code: str) -> None:
    answer = kept.post("/memories/bulk", given)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert len(kept.get("/changes").json["changesets"]) == 1


def test_where_a_memory_was_learned_is_told(kept: Caller) -> None:
    said = {"messages": [{"role": "user", "content": "We switched from Prisma to Drizzle."}], "wait": True}
    captured = kept.post("/capture", {**said, "client": "claude-code", "session": "s1", "turn": "1"}).json
    memory = kept.get("/memories", limit=1).json["memories"][0]["id"]
    told = kept.get(f"/memory/{memory}/exchange").json
    assert (told["id"], told["item"]["id"]) == (memory, captured["id"])
    assert told["item"]["exchange"]["messages"][0]["text"] == "We switched from Prisma to Drizzle."
    assert kept.get("/memory/1/exchange").json == {"id": 1, "item": None}
    assert kept.get("/memory/99/exchange").status == 404


def test_a_look_is_no_recall_alone_or_among_many(kept: Caller) -> None:
    look = {"query": "when do we deploy?", "k": 1, "log": False, "explain": True}
    [hit] = kept.post("/search", look).json["results"]
    assert (hit["id"], hit["why"]["words"]) == (1, ["deploy"])
    kept.post("/search/batch", {"queries": [look, {"query": "JSON", "k": 1}]})
    assert [kept.get(f"/memory/{each}").json["retrieval_count"] for each in (1, 3)] == [0, 1]


def test_a_page_begins_where_one_wants(kept: Caller) -> None:
    page = kept.get("/memories", limit=1, skip=1).json
    assert ([each["id"] for each in page["memories"]], page["next"], page["total"]) == ([2], 2, 3)
    assert kept.get("/memories", skip=-1).status == 400
