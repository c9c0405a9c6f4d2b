"""Approving maintenance decisions and resolving contradictions over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.judges import ValueJudge

OLD, NEW = "The staging API listens on port 8080", "The staging API listens on port 9090"
Key = Callable[[str], Caller]


@pytest.fixture(params=["sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    store = (
        SqliteStore(tmp_path / "cofio.db", clock)
        if request.param == "sqlite"
        else PostgresStore(request.getfixturevalue("postgres_url"), clock)
    )
    with Keeper(store, HashEmbedder(), clock, judge=ValueJudge()) as keeper:
        yield keeper


@pytest.fixture
def service(keeper: Keeper) -> Iterator[Caller]:
    with serving(keeper) as url:
        yield Caller(url)


def add(service: Caller, *texts: str) -> list[int]:
    facts = [{"text": text, "source": "acme/web", "deduplicate": False} for text in texts]
    return [service.post("/memory/add", fact).json["id"] for fact in facts]


def live_ids(service: Caller) -> set[int]:
    return {memory["id"] for memory in service.get("/memories").json["memories"]}


def test_approve_applies_selected_decisions_in_one_changeset(service: Caller) -> None:
    ids = add(service, "We deploy with Fly.io", "We deploy with Fly.io", "Lint with ruff", "Lint with ruff")
    payload = service.post("/maintenance/consolidate").json
    assert payload["as_of"] == 4
    assert payload["count"] == 2
    body = {"chore": "consolidate", "as_of": payload["as_of"], "decisions": payload["decisions"][:1]}
    response = service.post("/maintenance/approve", body, {"X-Cofio-Client": "page"})
    assert response.status == 200
    assert (response.json["by"], response.json["why"]) == ("page", "approved: consolidate")
    assert len(live_ids(service)) == 3
    reply = service.post("/maintenance/approve", body)
    assert (reply.status, reply.error["code"]) == (409, "conflict")
    assert service.post(f"/changes/{response.json['id']}/undo").status == 200
    assert live_ids(service) == set(ids)


def test_approved_merge_replaces_its_members(service: Caller) -> None:
    ids = add(service, "Backups run at 02:00", "Backups are kept for 30 days")
    merge = {"action": "merge", "ids": ids, "text": "Backups run at 02:00 and are kept for 30 days", "reason": "one"}
    body = {"chore": "consolidate", "as_of": 2, "decisions": [merge], "why": "ann said so"}
    payload = service.post("/maintenance/approve", body).json
    assert payload["why"] == "ann said so"
    merged = payload["changes"][0]["after"]
    assert (merged["text"], merged["source"]) == (merge["text"], "acme/web")
    assert live_ids(service) == {merged["id"]}


@pytest.mark.parametrize(
    "override",
    [
        {"chore": "dust"},
        {"decisions": []},
        {"decisions": [{"action": "purge", "id": 1}]},
        {"decisions": [{"action": "delete"}]},
        {"decisions": [{"action": "delete", "id": 2, "into": 1, "text": "x"}]},
        {"decisions": [{"action": "delete", "id": 2, "into": 2}]},
        {"decisions": [{"action": "delete", "id": "2", "into": 1}]},
        {"decisions": [{"action": "merge", "ids": [1, 2]}]},
        {"decisions": [{"action": "merge", "ids": [1], "text": "x"}]},
        {"decisions": [{"action": "merge", "ids": [1, 2], "text": "  "}]},
        {"decisions": [{"action": "merge", "ids": [1, 2], "text": "x" * 70_000}]},
        {"as_of": 99},
        {"as_of": -1},
        {"as_of": None},
        {"force": True},
    ],
)
def test_invalid_approval_is_rejected_and_changes_nothing(service: Caller, override: dict[str, Any]) -> None:
    add(service, "We deploy with Fly.io", "We deploy with Fly.io")
    body = {"chore": "consolidate", "as_of": 2, "decisions": [{"action": "delete", "id": 2, "into": 1}]}
    assert service.post("/maintenance/approve", {**body, **override}).status in (400, 413)
    assert live_ids(service) == {1, 2}
    assert service.post("/maintenance/approve", body).status == 200


def test_contradiction_is_listed_and_resolved(service: Caller) -> None:
    old, new = add(service, OLD, NEW)
    payload = service.get("/maintenance/contradictions").json
    assert (payload["count"], payload["as_of"], payload["note"]) == (1, 2, "")
    [pair] = payload["pairs"]
    assert (pair["newer"]["id"], pair["older"]["id"]) == (new, old)
    assert (pair["newer"]["text"], pair["older"]["text"]) == (NEW, OLD)
    decision = {"action": "delete", "id": old, "into": new, "reason": "the newer holds"}
    body = {"chore": "contradictions", "as_of": payload["as_of"], "decisions": [decision]}
    done = service.post("/maintenance/approve", body).json
    assert service.get(f"/memory/{old}").json["superseded_by"] == new
    assert service.get("/maintenance/contradictions").json["pairs"] == []
    service.post(f"/changes/{done['id']}/undo")
    agreed = service.post("/maintenance/contradictions/dismiss", {"ids": [old, new]})
    assert (agreed.status, agreed.json["why"]) == (200, "both hold")
    assert service.get("/maintenance/contradictions").json["count"] == 0
    service.post(f"/changes/{agreed.json['id']}/undo")
    assert service.get("/maintenance/contradictions", limit=1).json["count"] == 1


def test_agree_requires_two_different_ids(service: Caller) -> None:
    add(service, OLD, NEW)
    for ids in ([1], [1, 1], [1, 2, 3], ["1", "2"], None):
        assert service.post("/maintenance/contradictions/dismiss", {"ids": ids}).status == 400
    assert service.post("/maintenance/contradictions/dismiss", {"ids": [1, 99]}).status == 404
    assert service.get("/maintenance/contradictions", limit=0).status == 400


def test_agree_rejects_memories_of_different_owners(keeper: Keeper, service: Caller) -> None:
    _, admin = keeper.create_key(Grant(name="root", role="admin"))
    memory_ids = []
    for user, text in (("ada", OLD), ("bob", NEW)):
        _, secret = keeper.create_key(Grant(name=user, role="write", user=user))
        result = service.with_key(secret).post("/memory/add", {"text": text, "visibility": "private"})
        memory_ids.append(result.json["id"])
    refused = service.with_key(admin).post("/maintenance/contradictions/dismiss", {"ids": memory_ids})
    assert (refused.status, "not a contradiction" in refused.error["message"]) == (400, True)
    assert all(keeper.get(number).metadata == {} for number in memory_ids)


def test_contradictions_require_an_admin_key_without_restrictions(keeper: Keeper, service: Caller) -> None:
    add(service, OLD, NEW)
    body = {"chore": "contradictions", "as_of": 2, "decisions": [{"action": "delete", "id": 1, "into": 2}]}
    _, admin = keeper.create_key(Grant(name="root", role="admin"))
    for role in ("read", "write"):
        _, secret = keeper.create_key(Grant(name=role, role=role, user="ada"))
        theirs = service.with_key(secret)
        for answer in (
            theirs.get("/maintenance/contradictions"),
            theirs.post("/maintenance/approve", body),
            theirs.post("/maintenance/contradictions/dismiss", {"ids": [1, 2]}),
        ):
            assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert service.with_key(admin).post("/maintenance/approve", body).status == 200


def test_runs_endpoint_lists_schedules(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        with serving(keeper) as url:
            assert Caller(url).get("/maintenance/runs").json == {"runs": [], "schedules": {}}
        with serving(keeper, maintenance_enabled=True, prune_schedule="") as url:
            assert Caller(url).get("/maintenance/runs").json["schedules"] == {"consolidate": "0 3 * * *"}
