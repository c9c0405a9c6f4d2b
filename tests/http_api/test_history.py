"""The journal over HTTP: what was changed, by whom, and taking it back."""

from __future__ import annotations

import pytest

from tests.http_api.caller import Caller

FRIDAYS = "We deploy on Fridays, after lunch."


def test_every_sighting_of_a_fact_is_told(service: Caller) -> None:
    fact = {"text": "we use tabs", "visibility": "team"}
    memory_id = service.post("/memory/add", {**fact, "agent": "a", "session": "s1"}).json["id"]
    service.post("/memory/add", {**fact, "agent": "b", "session": "s2"})
    told = service.get(f"/memory/{memory_id}/occurrences").json
    assert [(each["agent"], each["session"]) for each in told["occurrences"]] == [("a", "s1"), ("b", "s2")]
    assert service.get("/memory/99/occurrences").status == 404


def test_the_history_of_a_memory_tells_its_life(service: Caller) -> None:
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
    for each in range(3):
        service.post("/memory/add", {"text": f"The port of service {each} is {9000 + each}.", "why": f"w{each}"})
    newest = service.get("/changes", limit=2).json["changesets"]
    assert [each["why"] for each in newest] == ["w2", "w1"]
    assert len(service.get("/changes").json["changesets"]) == 3


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1e9", "99999999999999999999"])
def test_a_limit_is_a_sane_number(served: Caller, limit: str) -> None:
    assert served.get("/changes", limit=limit).status == 400


def test_an_undo_takes_back_a_changeset_and_can_be_undone(service: Caller) -> None:
    done = service.post("/memory/add", {"text": FRIDAYS}).json
    undone = service.post(f"/changes/{done['changeset']}/undo", {"why": "a slip"}, {"X-Cofio-Client": "me"}).json
    assert (undone["undoes"], undone["why"], undone["by"]) == (done["changeset"], "a slip", "me")
    assert service.get(f"/memory/{done['id']}").status == 404
    assert service.get(f"/changes/{done['changeset']}").json["undone_by"] == undone["id"]
    twice = service.post(f"/changes/{done['changeset']}/undo")
    assert (twice.status, twice.error["code"]) == (409, "conflict")
    assert service.post(f"/changes/{undone['id']}/undo", {}).status == 200
    assert service.get(f"/memory/{done['id']}").json["text"] == FRIDAYS


def test_what_was_changed_since_cannot_be_undone(service: Caller) -> None:
    done = service.post("/memory/add", {"text": FRIDAYS}).json
    service.patch(f"/memory/{done['id']}", {"pinned": True})
    assert service.post(f"/changes/{done['changeset']}/undo").status == 409
    assert service.get(f"/memory/{done['id']}").json["pinned"]
