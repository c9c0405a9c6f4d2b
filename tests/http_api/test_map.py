"""The map over HTTP: what there is as points, for whoever may see it."""

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


def remember(keeper: Keeper, each: int = 12, **about: Any) -> None:
    """So many memories of two projects."""
    for project, words in WORDS.items():
        for number in range(each):
            keeper.add(f"{words}, case {number}.", dedup=False, project=project, **about)


def test_an_empty_store_is_an_empty_map(service: Caller) -> None:
    assert service.get("/map").json == {
        "total": 0, "side": SIDE, "categories": [], "projects": [], "clusters": [],
        "points": {name: [] for name in ("id", "x", "y", "cluster", "category", "project", "created_at", "text")},
    }  # fmt: skip


def test_every_memory_is_a_point_with_its_columns(keeper: Keeper, service: Caller) -> None:
    remember(keeper)
    keeper.add("x" * 300, project="deploys", category="decision")
    drawn = service.get("/map").json
    points = drawn["points"]
    assert drawn["total"] == 25
    assert points["id"] == list(range(25, 0, -1))
    assert {len(column) for column in points.values()} == {25}
    assert all(0 <= each <= SIDE for each in points["x"] + points["y"])
    assert points["text"][0] == "x" * 120
    assert drawn["categories"][points["category"][0]] == "decision"
    assert [drawn["projects"][each] for each in points["project"]] == ["deploys"] * 13 + ["billing"] * 12
    assert points["created_at"][0] == keeper.get(25).created_at


def test_projects_of_different_words_are_clusters_named_by_them(keeper: Keeper, service: Caller) -> None:
    remember(keeper)
    drawn = service.get("/map").json
    named = {word for cluster in drawn["clusters"] for word in cluster["words"]}
    assert all(named & set(words.split()) for words in WORDS.values())
    of: dict[int, set[int]] = {}
    for cluster, project in zip(drawn["points"]["cluster"], drawn["points"]["project"], strict=True):
        of.setdefault(cluster, set()).add(project)
    assert all(len(projects) == 1 for cluster, projects in of.items() if cluster >= 0)


def test_filters_narrow_the_map(keeper: Keeper, service: Caller) -> None:
    remember(keeper)
    keeper.add("We bake on Sundays.", tags=["home"], category="decision")
    for query, count in (("project=billing", 12), ("tags=home", 1), ("category=decision", 1), ("project=none", 0)):
        drawn = service.get(f"/map?{query}").json
        assert (drawn["total"], len(drawn["points"]["id"])) == (count, count), query
    newest = service.get("/map?limit=3").json
    assert (newest["points"]["id"], newest["total"]) == ([25, 24, 23], 25)


@pytest.mark.parametrize("query", ["limit=0", "limit=20001", "limit=many", "category=nonsense", "colour=red"])
def test_what_cannot_be_asked_is_refused(service: Caller, query: str) -> None:
    answer = service.get(f"/map?{query}")
    assert answer.status == 400
    assert answer.error["code"] == "invalid_input"


def test_archived_memories_are_not_there_and_come_back(keeper: Keeper, service: Caller) -> None:
    remember(keeper, 5)
    before = service.get("/map").json["points"]
    keeper.delete(3)
    without = service.get("/map").json["points"]
    assert without["id"] == [each for each in before["id"] if each != 3]
    assert service.get("/map?include_archived=true").json["points"]["id"] == without["id"]
    stayed = [place for place, each in enumerate(before["id"]) if each != 3]
    assert without["x"] == [before["x"][place] for place in stayed]
    keeper.restore(3)
    assert service.get("/map").json["points"]["id"] == before["id"]


def test_a_new_memory_is_there_at_once_and_the_others_stay(keeper: Keeper, service: Caller) -> None:
    remember(keeper)
    before = service.get("/map").json["points"]
    assert service.get("/map").json["points"] == before
    keeper.add("invoices refunds Stripe, once more.", dedup=False, project="billing")
    after = service.get("/map").json["points"]
    assert after["id"][0] == 25
    assert (after["x"][1:], after["y"][1:]) == (before["x"], before["y"])


def test_words_that_were_changed_show(keeper: Keeper, service: Caller) -> None:
    remember(keeper, 3)
    service.get("/map")
    keeper.update(1, text="Kubernetes rollout canary, for good.")
    assert service.get("/map").json["points"]["text"][-1] == "Kubernetes rollout canary, for good."


def test_everybody_sees_their_own_map(keeper: Keeper, service: Caller) -> None:
    """Also when another has looked before: what was drawn for one is not shown to another."""
    for user, words in (("ada", "invoices refunds Stripe"), ("bob", "salary secret offer")):
        for number in range(8):
            keeper.add(f"{words} {number}", dedup=False, user=user)
    keeper.add("The office has a roof.", visibility="global", user="ada")
    callers = {user: service.having(keeper.create_key(Grant(name=user, user=user))[1]) for user in ("ada", "bob")}
    owner = service.having(keeper.create_key(Grant(name="root", role="admin"))[1])
    for _ in range(2):
        assert owner.get("/map").json["total"] == 17
        ada, bob = (callers[user].get("/map").json for user in ("ada", "bob"))
        assert (ada["total"], bob["total"]) == (9, 9)
        assert not any("salary" in text for text in ada["points"]["text"])
        assert not any("salary" in cluster["words"] for cluster in ada["clusters"])
        assert set(ada["points"]["id"]) & set(bob["points"]["id"]) == {17}


def test_a_key_that_only_reads_may_look_and_no_key_may_not(keeper: Keeper, service: Caller) -> None:
    remember(keeper, 2)
    _, secret = keeper.create_key(Grant(name="reader", user="ada", role="read"))
    assert service.having(secret).get("/map").status == 200
    assert service.get("/map").status == 401


def test_nobody_who_recalls_waits_for_maps(keeper: Keeper, service: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(keeper)
    begun, may_end = threading.Event(), threading.Event()
    draw = projection.redraw_map

    def long_drawn(*given: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return draw(*given)

    monkeypatch.setattr(projection, "redraw_map", long_drawn)
    with ThreadPoolExecutor(33) as threads:
        maps = [threads.submit(service.get, "/map", limit=each + 1) for each in range(32)]
        try:
            assert begun.wait(30)
            recalled = threads.submit(service.post, "/recall", {"prompt": "refunds"}).result(30)
        finally:
            may_end.set()
        assert recalled.status == 200
        assert {each.result().status for each in maps} == {200}
