"""Map of memories over HTTP: points, clusters and access control."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.dashboard import projection
from cofio.models.auth import Grant
from cofio.models.dashboard import SIDE
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

WORDS = {"billing": "invoices refunds Stripe", "deploys": "Kubernetes rollout canary"}


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        yield keeper


@pytest.fixture
def service(keeper: Keeper) -> Iterator[Caller]:
    with serving(keeper) as url:
        yield Caller(url)


def add_memories(keeper: Keeper, number_per_project: int = 12, **about: Any) -> None:
    """Add `number_per_project` memories to each of two projects."""
    for project, words in WORDS.items():
        for number in range(number_per_project):
            keeper.add(f"{words}, case {number}.", dedup=False, project=project, **about)


def test_empty_store_returns_empty_map(service: Caller) -> None:
    assert service.get("/map").json == {
        "total": 0, "side": SIDE, "categories": [], "projects": [], "clusters": [],
        "points": {name: [] for name in ("id", "x", "y", "cluster", "category", "project", "created_at", "text")},
    }  # fmt: skip


def test_every_memory_is_a_point_with_its_columns(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper)
    keeper.add("x" * 300, project="deploys", category="decision")
    drawn = service.get("/map").json
    points = drawn["points"]
    assert drawn["total"] == 25
    assert points["id"] == list(range(25, 0, -1))
    assert {len(column) for column in points.values()} == {25}
    assert all(0 <= item <= SIDE for item in points["x"] + points["y"])
    assert points["text"][0] == "x" * 120
    assert drawn["categories"][points["category"][0]] == "decision"
    assert [drawn["projects"][item] for item in points["project"]] == ["deploys"] * 13 + ["billing"] * 12
    assert points["created_at"][0] == keeper.get(25).created_at


def test_projects_with_different_vocabulary_form_named_clusters(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper)
    drawn = service.get("/map").json
    cluster_words = {word for cluster in drawn["clusters"] for word in cluster["words"]}
    assert all(cluster_words & set(words.split()) for words in WORDS.values())
    projects_by_cluster: dict[int, set[int]] = {}
    for cluster, project in zip(drawn["points"]["cluster"], drawn["points"]["project"], strict=True):
        projects_by_cluster.setdefault(cluster, set()).add(project)
    assert all(len(projects) == 1 for cluster, projects in projects_by_cluster.items() if cluster >= 0)


def test_map_is_filtered(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper)
    keeper.add("We bake on Sundays.", tags=["home"], category="decision")
    for query, count in (("project=billing", 12), ("tags=home", 1), ("category=decision", 1), ("project=none", 0)):
        drawn = service.get(f"/map?{query}").json
        assert (drawn["total"], len(drawn["points"]["id"])) == (count, count), query
    newest = service.get("/map?limit=3").json
    assert (newest["points"]["id"], newest["total"]) == ([25, 24, 23], 25)


@pytest.mark.parametrize("query", ["limit=0", "limit=20001", "limit=many", "category=nonsense", "colour=red"])
def test_invalid_map_query_is_rejected(service: Caller, query: str) -> None:
    response = service.get(f"/map?{query}")
    assert response.status == 400
    assert response.error["code"] == "invalid_input"


def test_archived_memories_are_hidden_unless_requested(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper, 5)
    before = service.get("/map").json["points"]
    keeper.delete(3)
    without = service.get("/map").json["points"]
    assert without["id"] == [item for item in before["id"] if item != 3]
    assert service.get("/map?include_archived=true").json["points"]["id"] == without["id"]
    positions = [place for place, each in enumerate(before["id"]) if each != 3]
    assert without["x"] == [before["x"][position] for position in positions]
    keeper.restore(3)
    assert service.get("/map").json["points"]["id"] == before["id"]


def test_new_memory_appears_without_moving_other_points(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper)
    before = service.get("/map").json["points"]
    assert service.get("/map").json["points"] == before
    keeper.add("invoices refunds Stripe, once more.", dedup=False, project="billing")
    after = service.get("/map").json["points"]
    assert after["id"][0] == 25
    assert (after["x"][1:], after["y"][1:]) == (before["x"], before["y"])


def test_edited_text_appears_on_the_map(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper, 3)
    service.get("/map")
    keeper.update(1, text="Kubernetes rollout canary, for good.")
    assert service.get("/map").json["points"]["text"][-1] == "Kubernetes rollout canary, for good."


def test_map_contains_only_visible_memories(keeper: Keeper, service: Caller) -> None:
    """A cached map must not be served to another user."""
    for user, words in (("ada", "invoices refunds Stripe"), ("bob", "salary secret offer")):
        for number in range(8):
            keeper.add(f"{words} {number}", dedup=False, user=user)
    keeper.add("The office has a roof.", visibility="global", user="ada")
    callers = {user: service.with_key(keeper.create_key(Grant(name=user, user=user))[1]) for user in ("ada", "bob")}
    owner = service.with_key(keeper.create_key(Grant(name="root", role="admin"))[1])
    for _ in range(2):
        assert owner.get("/map").json["total"] == 17
        ada, bob = (callers[user].get("/map").json for user in ("ada", "bob"))
        assert (ada["total"], bob["total"]) == (9, 9)
        assert not any("salary" in text for text in ada["points"]["text"])
        assert not any("salary" in cluster["words"] for cluster in ada["clusters"])
        assert set(ada["points"]["id"]) & set(bob["points"]["id"]) == {17}


def test_map_requires_a_read_key(keeper: Keeper, service: Caller) -> None:
    add_memories(keeper, 2)
    _, secret = keeper.create_key(Grant(name="reader", user="ada", role="read"))
    assert service.with_key(secret).get("/map").status == 200
    assert service.get("/map").status == 401


def test_map_layout_does_not_block_recall(keeper: Keeper, service: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    add_memories(keeper)
    started, finish = threading.Event(), threading.Event()
    draw = projection.redraw_map

    def slow_draw(*arguments: Any) -> Any:
        started.set()
        assert finish.wait(60)
        return draw(*arguments)

    monkeypatch.setattr(projection, "redraw_map", slow_draw)
    with ThreadPoolExecutor(33) as threads:
        maps = [threads.submit(service.get, "/map", limit=index + 1) for index in range(32)]
        try:
            assert started.wait(30)
            recalled = threads.submit(service.post, "/recall", {"prompt": "refunds"}).result(30)
        finally:
            finish.set()
        assert recalled.status == 200
        assert {future.result().status for future in maps} == {200}
