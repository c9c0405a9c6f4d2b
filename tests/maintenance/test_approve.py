"""Approving decisions of a plan: one changeset, exact undo, and rejection of outdated decisions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.ingest.reconcile.compare import JudgedComparer
from cofio.ingest.sanitize import redact
from cofio.maintenance import audit, pair_finder
from cofio.maintenance.service import MaintenanceOptions
from cofio.models.maintenance import MaintenancePlan
from cofio.models.memory import Add, Delete, Edit, Fact, Merge, Viewer
from cofio.ports import LLM, Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from cofio.text.tokens import fingerprint
from cofio.transfer import export
from tests.judges import ValueJudge

DAY = 86_400.0
PLACE = {"project": "/srv/billing", "source": "claude-code/billing"}
CLUSTER = (
    "The nightly backup of the billing database runs at 02:00",
    "The nightly backup of the billing database is kept for 30 days",
    "The nightly backup of the billing database never includes the audit table",
)
MERGED = (
    "The nightly backup of the billing database runs at 02:00, is kept for 30 days and never includes the audit table."
)
OLD, NEW = "The staging API listens on port 8080", "The staging API listens on port 9090"


class Backend:
    """A keeper and its clock."""

    def __init__(self, store: Store, clock: FixedClock, llm: LLM | None) -> None:
        self.store, self.clock = store, clock
        self.keeper = Keeper(
            store, HashEmbedder(), clock, llm=llm, maintenance=MaintenanceOptions(similarity=0.5), judge=ValueJudge()
        )

    def add(self, *texts: str, **about: Any) -> list[int]:
        """Add memories, one per day, and return their ids."""
        ids = []
        for text in texts:
            self.clock.advance(DAY)
            ids.append(self.keeper.add(text, dedup=False, **{**PLACE, **about}).memory_id)
        return ids

    def everything(self) -> str:
        self.keeper.stats()  # record pending retrievals
        return "".join(export.export_lines(self.store))

    def live(self) -> list[int]:
        return sorted(memory.id for memory in self.keeper.list(limit=1_000).memories)


@pytest.fixture(params=["sqlite", "postgres"])
def new_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Backend]]:
    created: list[Backend] = []

    def make(llm: LLM | None = None) -> Backend:
        clock = FixedClock()
        store: Store
        if request.param == "sqlite":
            store = SqliteStore(tmp_path / "cofio.db", clock)
        else:
            store = PostgresStore(request.getfixturevalue("postgres_url"), clock)
        created.append(Backend(store, clock, llm))
        return created[-1]

    yield make
    for item in created:
        item.keeper.close()


def merge_reply(text: str) -> str:
    """Return an LLM reply that merges three memories into one."""
    return json.dumps({"facts": [{"text": text, "category": "detail", "memories": ["m1", "m2", "m3"]}]})


def simulate_months_of_use(here: Backend) -> None:
    """Simulate months in which another memory is searched daily."""
    here.add("asked for every day")
    for _ in range(70):
        here.keeper.search("asked for every day", k=1)
        here.clock.advance(DAY)


# ── consolidation ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_selected_duplicate_is_merged_and_undo_restores_the_export(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    here.add("We deploy with Fly.io", "We deploy with Fly.io", "Lint with ruff", "Lint with ruff")
    before = here.everything()
    plan = here.keeper.consolidate()
    assert here.everything() == before
    first, second = plan.decisions
    result = here.keeper.approve("consolidate", [first], as_of=plan.as_of, by="ann")
    assert (result.by, result.why) == ("ann", "approved: consolidate")
    assert [change.action for change in result.changes] == ["delete", "noop"]
    assert len(here.live()) == 3
    later = here.keeper.approve("consolidate", [second], as_of=plan.as_of)  # the first approval does not block this one
    assert len(here.live()) == 2
    for item in (later, result):
        here.keeper.undo(item.id)
    assert here.everything() == before


def test_approved_merge_has_the_scope_of_its_members(new_backend: Callable[..., Backend]) -> None:
    here = new_backend(ScriptedLLM([merge_reply(MERGED)]))
    ids = here.add(*CLUSTER, tags=("backup",), visibility="team", team="ops", user="ada")
    here.keeper.search("when does the nightly backup of the billing database run?")
    before = here.everything()
    plan = here.keeper.consolidate()
    [merge] = plan.decisions
    assert isinstance(merge, Merge), plan.refused
    result = here.keeper.approve(
        "consolidate", [Merge(merge.ids, Fact(text=merge.fact.text), merge.reason)], as_of=plan.as_of
    )
    merged = result.changes[0].memory
    assert (merged.text, merged.project, merged.source) == (MERGED, PLACE["project"], PLACE["source"])
    assert (merged.visibility, merged.team, merged.user, merged.tags) == ("team", "ops", "ada", ("backup",))
    assert sorted(merged.metadata["consolidated_from"]) == ids
    assert merged.retrieval_count == 3
    assert here.live() == [merged.id]
    here.keeper.undo(result.id)
    assert here.everything() == before


def test_decision_about_a_changed_memory_is_rejected_completely(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    ids = here.add("We deploy with Fly.io", "We deploy with Fly.io", "Lint with ruff", "Lint with ruff")
    plan = here.keeper.consolidate()
    here.keeper.update(ids[2], tags=["style"])
    with pytest.raises(Conflict, match=f"Memory {ids[2]} was changed or retrieved since"):
        here.keeper.approve("consolidate", plan.decisions, as_of=plan.as_of)
    assert here.live() == ids
    untouched = [decision for decision in plan.decisions if isinstance(decision, Delete) and decision.id in ids[:2]]
    here.keeper.approve("consolidate", untouched, as_of=plan.as_of)
    assert len(here.live()) == 3


def test_concurrent_change_by_another_process_is_detected(
    new_backend: Callable[..., Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = new_backend()
    ids = here.add("We deploy with Fly.io", "We deploy with Fly.io")
    plan = here.keeper.consolidate()
    lent = here.keeper.services.writer
    apply = lent.apply

    def late(decisions: Any, **how: Any) -> Any:
        here.store.apply([Edit(ids[0], {"pinned": True})], {}, by="another process", why="")
        return apply(decisions, **how)

    monkeypatch.setattr(lent, "apply", late)
    with pytest.raises(Conflict, match="has changed since"):
        here.keeper.approve("consolidate", plan.decisions, as_of=plan.as_of)
    assert here.live() == ids


def test_purged_or_archived_memory_is_rejected(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    ids = here.add("We deploy with Fly.io", "We deploy with Fly.io")
    here.keeper.delete(ids[0])
    as_of = here.keeper.changes(limit=1)[0].id
    with pytest.raises(Conflict):
        here.keeper.approve("consolidate", [Delete(ids[1], into=ids[0])], as_of=as_of)
    with pytest.raises(NotFound):
        here.keeper.approve("consolidate", [Delete(ids[1], into=999)], as_of=as_of)
    assert here.live() == [ids[1]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"user": "ada"}, {"user": "bob"}),
        ({"project": "/srv/a"}, {"project": "/srv/b"}),
        ({"visibility": "team", "team": "red"}, {"visibility": "team", "team": "blue"}),
        ({"speaker": "Ada"}, {"speaker": "Bob"}),
    ],
)
def test_memories_of_different_owners_are_never_merged(
    new_backend: Callable[..., Backend], one: dict[str, str], other: dict[str, str]
) -> None:
    here = new_backend()
    ids = [*here.add("We deploy with Fly.io", **one), *here.add("We deploy with Fly.io", **other)]
    as_of = here.keeper.changes(limit=1)[0].id
    for chore, decision in (
        ("consolidate", Delete(ids[1], into=ids[0])),
        ("consolidate", Merge(tuple(ids), Fact(text="We deploy with Fly.io"))),
        ("contradictions", Delete(ids[0], into=ids[1])),
    ):
        with pytest.raises(InvalidInput, match="cannot be merged"):
            here.keeper.approve(chore, [decision], as_of=as_of)
    assert here.live() == ids


@pytest.mark.parametrize(
    ("chore", "decisions", "message"),
    [
        ("backup", [Delete(1)], "has no decisions to approve"),
        ("dust", [Delete(1)], "has no decisions to approve"),
        ("consolidate", [], "0 decisions"),
        ("consolidate", [Delete(1)] * 1_001, "1,001 decisions"),
        ("consolidate", [Delete(1)], "A plan of consolidate never contains"),
        ("consolidate", [Merge((), Fact(text="x"))], "A plan of consolidate never contains"),
        ("consolidate", [Merge((1, 1), Fact(text="x"))], "A plan of consolidate never contains"),
        ("prune", [Delete(1, into=2)], "A plan of prune never contains"),
        ("prune", [Merge((1, 2), Fact(text="x"))], "A plan of prune never contains"),
        ("contradictions", [Merge((1, 2), Fact(text="x"))], "A plan of contradictions never contains"),
        ("prune", [Add(Fact(text="x"))], "A plan of prune never contains"),
    ],
)
def test_impossible_decision_is_rejected(
    new_backend: Callable[..., Backend], chore: str, decisions: list[Any], message: str
) -> None:
    here = new_backend()
    ids = here.add("We deploy with Fly.io", "Lint with ruff")
    with pytest.raises(InvalidInput, match=message):
        here.keeper.approve(chore, decisions, as_of=0)
    assert here.live() == ids


def test_future_plan_time_is_rejected(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    ids = here.add("We deploy with Fly.io", "We deploy with Fly.io")
    for as_of in (here.keeper.changes(limit=1)[0].id + 1, -1, "1"):
        with pytest.raises(InvalidInput):
            here.keeper.approve("consolidate", [Delete(ids[1], into=ids[0])], as_of=as_of)  # type: ignore[arg-type]
    assert here.live() == ids


# ── pruning ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def prune_plan(here: Backend) -> tuple[list[int], MaintenancePlan]:
    ids = here.add("The printer is on floor two", "The kettle is new", "The door code is on the fridge")
    simulate_months_of_use(here)
    for number in range(12):  # of a few memories a fifth is none
        here.add(f"Ticket {number} is about the {'red green blue'.split()[number % 3]} button")
    return ids, here.keeper.prune()


def test_selected_memories_are_pruned(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    ids, plan = prune_plan(here)
    deleted = [decision for decision in plan.decisions if isinstance(decision, Delete)]
    assert {item.id for item in deleted} == set(ids)
    before = here.everything()
    result = here.keeper.approve("prune", deleted[:1], as_of=plan.as_of, by="ann")
    assert (result.why, [change.memory_id for change in result.changes]) == ("approved: prune", [deleted[0].id])
    assert not {item.id for item in deleted[1:]} - set(here.live())
    here.keeper.undo(result.id)
    assert here.everything() == before


@pytest.mark.parametrize("change", ["asked for", "pinned"])
def test_memory_used_or_pinned_meanwhile_is_kept(new_backend: Callable[..., Backend], change: str) -> None:
    here = new_backend()
    ids, plan = prune_plan(here)
    if change == "pinned":
        here.keeper.update(ids[1], pinned=True)
    else:
        here.keeper.search("The kettle is new", k=1)
    with pytest.raises(Conflict, match=f"Memory {ids[1]} was changed or retrieved since"):
        here.keeper.approve("prune", plan.decisions, as_of=plan.as_of)
    assert set(ids) <= set(here.live())


# ── contradictions ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_contradictions_are_listed_newest_first(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    here.add("Sessions expire after 30 minutes of inactivity", "Sessions expire after 60 minutes of inactivity")
    results = here.keeper.contradictions()
    assert (results.count, len(results.pairs), results.note) == (2, 2, "")
    assert results.as_of == here.keeper.changes(limit=1)[0].id
    assert results.pairs[0].newer.text == "Sessions expire after 60 minutes of inactivity"
    last = results.pairs[1]
    assert (last.newer.id, last.older.id) == (new, old)
    assert last.reason == "it has changed"
    assert last.cosine > pair_finder.NEAR
    fewer = here.keeper.contradictions(limit=1)
    assert (fewer.count, fewer.pairs) == (2, results.pairs[:1])
    for limit in (0, 1_001):
        with pytest.raises(InvalidInput):
            here.keeper.contradictions(limit=limit)


def test_private_memories_of_two_users_do_not_contradict(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    here.add(OLD, user="ada")
    here.add(NEW, user="bob")
    assert here.keeper.contradictions().count == 0


@pytest.mark.parametrize("holds", ["newer", "older", "neither"])
def test_contradiction_is_resolved_and_undone(new_backend: Callable[..., Backend], holds: str) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    before = here.everything()
    results = here.keeper.contradictions()
    decisions = {
        "newer": [Delete(old, "the newer holds", new)],
        "older": [Delete(new, "the older holds", old)],
        "neither": [Delete(old, "neither holds"), Delete(new, "neither holds")],
    }[holds]
    result = here.keeper.approve("contradictions", decisions, as_of=results.as_of, by="ann")
    assert here.live() == {"newer": [new], "older": [old], "neither": []}[holds]
    if holds == "newer":
        assert here.keeper.get(old).superseded_by == new
    assert here.keeper.contradictions().count == 0
    here.keeper.undo(result.id)
    assert here.everything() == before
    assert here.keeper.contradictions().count == 1


def test_knowledge_of_the_archived_memory_follows_it(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    row = here.keeper.knowledge.put("thresholds", source="staging", metric="port", value=8080.0, direction="above",
                                    memory=old)  # fmt: skip
    results = here.keeper.contradictions()
    result = here.keeper.approve("contradictions", [Delete(old, into=new)], as_of=results.as_of)
    assert [item.action for item in result.knowledge] == ["delete"]
    here.keeper.undo(result.id)
    assert here.keeper.knowledge.get("thresholds", row.key).memory == old


def test_agreed_pair_is_no_longer_listed(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW, metadata={"ticket": 7})
    before = here.everything()
    result = here.keeper.dismiss_contradiction([new, old], by="ann")
    assert (result.by, result.why, [change.action for change in result.changes]) == (
        "ann",
        "both hold",
        ["edit", "edit"],
    )
    assert here.keeper.get(old).metadata["ticket"] == 7
    assert here.keeper.contradictions().count == 0
    assert count_contradictions_in_audit(here) == 0
    here.keeper.undo(result.id)
    assert here.everything() == before
    assert (here.keeper.contradictions().count, count_contradictions_in_audit(here)) == (1, 1)


def count_contradictions_in_audit(here: Backend) -> int:
    profile = audit.profile(here.store, redact=redact, stale=lambda _: {}, comparer=JudgedComparer(ValueJudge()))
    return next(finding.count for finding in profile.findings if finding.name == "contradictions")


def test_agreed_pair_is_listed_again_after_an_edit(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    here.keeper.dismiss_contradiction([old, new])
    here.keeper.update(new, text="The staging API listens on port 7070")
    assert here.keeper.contradictions().count == 1
    here.keeper.dismiss_contradiction([old, new])
    assert here.keeper.contradictions().count == 0
    here.keeper.supersede(old, "The staging API listens on port 6060")
    assert here.keeper.contradictions().count == 1


def test_agreement_requires_two_existing_memories(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    for ids in ([old], [old, old], [old, new, new], []):
        with pytest.raises(InvalidInput):
            here.keeper.dismiss_contradiction(ids)
    with pytest.raises(NotFound):
        here.keeper.dismiss_contradiction([old, 999])
    here.keeper.delete(old)
    with pytest.raises(Conflict, match="archived"):
        here.keeper.dismiss_contradiction([old, new])


def test_repeated_agreement_is_rejected(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    result = here.keeper.dismiss_contradiction([old, new])
    with pytest.raises(Conflict, match="already"):
        here.keeper.dismiss_contradiction([new, old])
    assert here.keeper.changes(limit=1)[0].id == result.id


def test_agreement_stores_no_trace_of_purged_text(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW)
    here.keeper.dismiss_contradiction([old, new])
    mark = f"{fingerprint(OLD) & (1 << 64) - 1:016x}"
    assert mark in str(here.keeper.get(old).metadata)
    here.keeper.purge(old)
    assert mark not in str([here.keeper.get(new), here.keeper.history(new), here.everything()])


def test_unrelated_metadata_is_not_an_agreement(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    for odd in ([2], {"1": None, "2": None}, "all", {"1": {}, "2": {}}):
        here.add(OLD, NEW, metadata={pair_finder.DISMISSED: odd}, project=f"/srv/{type(odd).__name__}{odd!s:.9}")
    assert here.keeper.contradictions().count == 4


def test_restricted_viewer_cannot_resolve_contradictions(new_backend: Callable[..., Backend]) -> None:
    here = new_backend()
    old, new = here.add(OLD, NEW, user="ada")
    ada = here.keeper.as_viewer(Viewer(user="ada"))
    for act in (
        lambda: ada.contradictions(),
        lambda: ada.dismiss_contradiction([old, new]),
        lambda: ada.approve("contradictions", [Delete(old, into=new)], as_of=2),
    ):
        with pytest.raises(Forbidden):
            act()
    assert here.live() == [old, new]
