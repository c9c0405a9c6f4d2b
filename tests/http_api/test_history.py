"""Change history and undo over HTTP."""

from __future__ import annotations

import pytest

from tests.http_api.caller import Caller

FRIDAYS = "We deploy on Fridays, after lunch."


def test_occurrences_endpoint_lists_every_occurrence(service: Caller) -> None:
    fact = {"text": "we use tabs", "visibility": "team"}
    memory_id = service.post("/memory/add", {**fact, "agent": "a", "session": "s1"}).json["id"]
    service.post("/memory/add", {**fact, "agent": "b", "session": "s2"})
    body = service.get(f"/memory/{memory_id}/occurrences").json
    assert [(occurrence["agent"], occurrence["session"]) for occurrence in body["occurrences"]] == [
        ("a", "s1"),
        ("b", "s2"),
    ]
    assert service.get("/memory/99/occurrences").status == 404


def test_history_endpoint_lists_all_changes_of_a_memory(service: Caller) -> None:
    memory_id = service.post("/memory/add", {"text": FRIDAYS}).json["id"]
    service.patch(f"/memory/{memory_id}", {"pinned": True})
    service.delete(f"/memory/{memory_id}")
    history = service.get(f"/memory/{memory_id}/history").json
    assert history["id"] == memory_id
    assert [change["action"] for change in history["changes"]] == ["add", "edit", "delete"]
    assert history["changes"][0]["before"] is None
    assert history["changes"][1]["before"]["pinned"] is False
    assert history["changes"][1]["after"]["pinned"] is True


def test_changesets_are_listed_newest_first(service: Caller) -> None:
    for index in range(3):
        service.post("/memory/add", {"text": f"The port of service {index} is {9000 + index}.", "why": f"w{index}"})
    newest = service.get("/changes", limit=2).json["changesets"]
    assert [item["why"] for item in newest] == ["w2", "w1"]
    assert len(service.get("/changes").json["changesets"]) == 3


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1e9", "99999999999999999999"])
def test_invalid_limit_is_rejected(shared_service: Caller, limit: str) -> None:
    assert shared_service.get("/changes", limit=limit).status == 400


def test_undo_reverts_a_changeset_and_can_be_undone(service: Caller) -> None:
    body = service.post("/memory/add", {"text": FRIDAYS}).json
    payload = service.post(f"/changes/{body['changeset']}/undo", {"why": "a slip"}, {"X-Cofio-Client": "me"}).json
    assert (payload["undoes"], payload["why"], payload["by"]) == (body["changeset"], "a slip", "me")
    assert service.get(f"/memory/{body['id']}").status == 404
    assert service.get(f"/changes/{body['changeset']}").json["undone_by"] == payload["id"]
    twice = service.post(f"/changes/{body['changeset']}/undo")
    assert (twice.status, twice.error["code"]) == (409, "conflict")
    assert service.post(f"/changes/{payload['id']}/undo", {}).status == 200
    assert service.get(f"/memory/{body['id']}").json["text"] == FRIDAYS


def test_undo_after_a_later_change_returns_conflict(service: Caller) -> None:
    body = service.post("/memory/add", {"text": FRIDAYS}).json
    service.patch(f"/memory/{body['id']}", {"pinned": True})
    assert service.post(f"/changes/{body['changeset']}/undo").status == 409
    assert service.get(f"/memory/{body['id']}").json["pinned"]
