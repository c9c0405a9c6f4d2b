"""What a person approves of a plan: done as one changeset, undone exactly, and never behind anybody's back."""

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
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
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


class House:
    """A keeper, with its clock at hand."""

    def __init__(self, store: Store, clock: FixedClock, llm: LLM | None) -> None:
        self.store, self.clock = store, clock
        self.keeper = Keeper(
            store, HashEmbedder(), clock, llm=llm, maintenance=MaintenanceOptions(similarity=0.5), judge=ValueJudge()
        )

    def add(self, *texts: str, **about: Any) -> list[int]:
        """Their ids; each a day after the one before."""
        ids = []
        for text in texts:
            self.clock.advance(DAY)
            ids.append(self.keeper.add(text, dedup=False, **{**PLACE, **about}).memory_id)
        return ids

    def everything(self) -> str:
        self.keeper.stats()  # what was recalled is counted
        return "".join(export.export_lines(self.store))

    def live(self) -> list[int]:
        return sorted(memory.id for memory in self.keeper.list(limit=1_000).memories)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., House]]:
    made: list[House] = []

    def make(llm: LLM | None = None) -> House:
        clock = FixedClock()
        store: Store
        if request.param == "memory":
            store = MemoryStore(clock)
        elif request.param == "sqlite":
            store = SqliteStore(tmp_path / "cofio.db", clock)
        else:
            store = PostgresStore(request.getfixturevalue("postgres_url"), clock)
        made.append(House(store, clock, llm))
        return made[-1]

    yield make
    for each in made:
        each.keeper.close()


def reply(text: str) -> str:
    """What a model says that merges three memories into one."""
    return json.dumps({"facts": [{"text": text, "category": "detail", "memories": ["m1", "m2", "m3"]}]})


def asked_for_months(here: House) -> None:
    """Let months pass in which something else is asked for every day."""
    here.add("asked for every day")
    for _ in range(70):
        here.keeper.search("asked for every day", k=1)
        here.clock.advance(DAY)


# ── of a consolidation ────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_duplicate_is_merged_the_other_is_left_and_undo_restores_the_export(house: Callable[..., House]) -> None:
    here = house()
    here.add("We deploy with Fly.io", "We deploy with Fly.io", "Lint with ruff", "Lint with ruff")
    before = here.everything()
    plan = here.keeper.consolidate()
    assert here.everything() == before
    first, second = plan.decisions
    done = here.keeper.approve("consolidate", [first], as_of=plan.as_of, by="ann")
    assert (done.by, done.why) == ("ann", "approved: consolidate")
    assert [change.action for change in done.changes] == ["delete", "noop"]
    assert len(here.live()) == 3
    later = here.keeper.approve("consolidate", [second], as_of=plan.as_of)  # what the first did is not in the way
    assert len(here.live()) == 2
    for each in (later, done):
        here.keeper.undo(each.id)
    assert here.everything() == before


def test_a_merge_is_written_where_its_members_were(house: Callable[..., House]) -> None:
    here = house(ScriptedLLM([reply(MERGED)]))
    ids = here.add(*CLUSTER, tags=("backup",), visibility="team", team="ops", user="ada")
    here.keeper.search("when does the nightly backup of the billing database run?")
    before = here.everything()
    plan = here.keeper.consolidate()
    [merge] = plan.decisions
    assert isinstance(merge, Merge), plan.refused
    done = here.keeper.approve(
        "consolidate", [Merge(merge.ids, Fact(text=merge.fact.text), merge.reason)], as_of=plan.as_of
    )
    merged = done.changes[0].memory
    assert (merged.text, merged.project, merged.source) == (MERGED, PLACE["project"], PLACE["source"])
    assert (merged.visibility, merged.team, merged.user, merged.tags) == ("team", "ops", "ada", ("backup",))
    assert sorted(merged.metadata["consolidated_from"]) == ids
    assert merged.retrieval_count == 3
    assert here.live() == [merged.id]
    here.keeper.undo(done.id)
    assert here.everything() == before


def test_what_was_touched_since_is_refused_and_nothing_of_it_is_done(house: Callable[..., House]) -> None:
    here = house()
    ids = here.add("We deploy with Fly.io", "We deploy with Fly.io", "Lint with ruff", "Lint with ruff")
    plan = here.keeper.consolidate()
    here.keeper.update(ids[2], tags=["style"])
    with pytest.raises(Conflict, match=f"Memory {ids[2]} was changed or retrieved since"):
        here.keeper.approve("consolidate", plan.decisions, as_of=plan.as_of)
    assert here.live() == ids
    untouched = [decision for decision in plan.decisions if isinstance(decision, Delete) and decision.id in ids[:2]]
    here.keeper.approve("consolidate", untouched, as_of=plan.as_of)
    assert len(here.live()) == 3


def test_what_another_process_touches_at_the_last_moment_is_refused(
    house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = house()
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


def test_what_is_gone_or_archived_is_refused(house: Callable[..., House]) -> None:
    here = house()
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
def test_what_is_of_different_places_is_never_merged_by_approval(
    house: Callable[..., House], one: dict[str, str], other: dict[str, str]
) -> None:
    here = house()
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
    ("chore", "decisions", "says"),
    [
        ("backup", [Delete(1)], "has no decisions to approve"),
        ("dust", [Delete(1)], "has no decisions to approve"),
        ("consolidate", [], "0 decisions"),
        ("consolidate", [Delete(1)] * 1_001, "1,001 decisions"),
        ("consolidate", [Delete(1)], "consolidate proposes other decisions"),
        ("consolidate", [Merge((), Fact(text="x"))], "consolidate proposes other decisions"),
        ("consolidate", [Merge((1, 1), Fact(text="x"))], "consolidate proposes other decisions"),
        ("prune", [Delete(1, into=2)], "prune proposes other decisions"),
        ("prune", [Merge((1, 2), Fact(text="x"))], "prune proposes other decisions"),
        ("contradictions", [Merge((1, 2), Fact(text="x"))], "contradictions proposes other decisions"),
        ("prune", [Add(Fact(text="x"))], "prune proposes other decisions"),
    ],
)
def test_what_no_plan_could_hold_is_refused(
    house: Callable[..., House], chore: str, decisions: list[Any], says: str
) -> None:
    here = house()
    ids = here.add("We deploy with Fly.io", "Lint with ruff")
    with pytest.raises(InvalidInput, match=says):
        here.keeper.approve(chore, decisions, as_of=0)
    assert here.live() == ids


def test_nobody_approves_as_of_a_time_to_come(house: Callable[..., House]) -> None:
    here = house()
    ids = here.add("We deploy with Fly.io", "We deploy with Fly.io")
    for as_of in (here.keeper.changes(limit=1)[0].id + 1, -1, "1"):
        with pytest.raises(InvalidInput):
            here.keeper.approve("consolidate", [Delete(ids[1], into=ids[0])], as_of=as_of)  # type: ignore[arg-type]
    assert here.live() == ids


# ── of a pruning ──────────────────────────────────────────────────────────────────────────────────────────────────────


def pruned(here: House) -> tuple[list[int], MaintenancePlan]:
    ids = here.add("The printer is on floor two", "The kettle is new", "The door code is on the fridge")
    asked_for_months(here)
    for number in range(12):  # of few memories a fifth is none
        here.add(f"Ticket {number} is about the {'red green blue'.split()[number % 3]} button")
    return ids, here.keeper.prune()


def test_what_nobody_asks_for_goes_one_by_one(house: Callable[..., House]) -> None:
    here = house()
    ids, plan = pruned(here)
    gone = [decision for decision in plan.decisions if isinstance(decision, Delete)]
    assert {each.id for each in gone} == set(ids)
    before = here.everything()
    done = here.keeper.approve("prune", gone[:1], as_of=plan.as_of, by="ann")
    assert (done.why, [change.memory_id for change in done.changes]) == ("approved: prune", [gone[0].id])
    assert not {each.id for each in gone[1:]} - set(here.live())
    here.keeper.undo(done.id)
    assert here.everything() == before


@pytest.mark.parametrize("what", ["asked for", "pinned"])
def test_what_is_asked_for_or_pinned_meanwhile_stays(house: Callable[..., House], what: str) -> None:
    here = house()
    ids, plan = pruned(here)
    if what == "pinned":
        here.keeper.update(ids[1], pinned=True)
    else:
        here.keeper.search("The kettle is new", k=1)
    with pytest.raises(Conflict, match=f"Memory {ids[1]} was changed or retrieved since"):
        here.keeper.approve("prune", plan.decisions, as_of=plan.as_of)
    assert set(ids) <= set(here.live())


# ── contradictions ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_contradictions_come_newest_first_with_both_memories(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    here.add("Sessions expire after 30 minutes of inactivity", "Sessions expire after 60 minutes of inactivity")
    found = here.keeper.contradictions()
    assert (found.count, len(found.pairs), found.note) == (2, 2, "")
    assert found.as_of == here.keeper.changes(limit=1)[0].id
    assert found.pairs[0].newer.text == "Sessions expire after 60 minutes of inactivity"
    last = found.pairs[1]
    assert (last.newer.id, last.older.id) == (new, old)
    assert last.reason == "it has changed"
    assert last.cosine > pair_finder.NEAR
    fewer = here.keeper.contradictions(limit=1)
    assert (fewer.count, fewer.pairs) == (2, found.pairs[:1])
    for limit in (0, 1_001):
        with pytest.raises(InvalidInput):
            here.keeper.contradictions(limit=limit)


def test_what_is_private_to_two_people_does_not_contradict(house: Callable[..., House]) -> None:
    here = house()
    here.add(OLD, user="ada")
    here.add(NEW, user="bob")
    assert here.keeper.contradictions().count == 0


@pytest.mark.parametrize("holds", ["newer", "older", "neither"])
def test_a_contradiction_is_settled_and_the_settlement_undone(house: Callable[..., House], holds: str) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    before = here.everything()
    found = here.keeper.contradictions()
    decisions = {
        "newer": [Delete(old, "the newer holds", new)],
        "older": [Delete(new, "the older holds", old)],
        "neither": [Delete(old, "neither holds"), Delete(new, "neither holds")],
    }[holds]
    done = here.keeper.approve("contradictions", decisions, as_of=found.as_of, by="ann")
    assert here.live() == {"newer": [new], "older": [old], "neither": []}[holds]
    if holds == "newer":
        assert here.keeper.get(old).superseded_by == new
    assert here.keeper.contradictions().count == 0
    here.keeper.undo(done.id)
    assert here.everything() == before
    assert here.keeper.contradictions().count == 1


def test_what_was_read_from_what_does_not_hold_goes_with_it_and_comes_back(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    row = here.keeper.knowledge.put("thresholds", source="staging", metric="port", value=8080.0, direction="above",
                                    memory=old)  # fmt: skip
    found = here.keeper.contradictions()
    done = here.keeper.approve("contradictions", [Delete(old, into=new)], as_of=found.as_of)
    assert [each.action for each in done.knowledge] == ["delete"]
    here.keeper.undo(done.id)
    assert here.keeper.knowledge.get("thresholds", row.key).memory == old


def test_both_hold_and_neither_list_nor_audit_tells_of_them_again(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW, metadata={"ticket": 7})
    before = here.everything()
    done = here.keeper.dismiss_contradiction([new, old], by="ann")
    assert (done.by, done.why, [change.action for change in done.changes]) == ("ann", "both hold", ["edit", "edit"])
    assert here.keeper.get(old).metadata["ticket"] == 7
    assert here.keeper.contradictions().count == 0
    assert told_by_audit(here) == 0
    here.keeper.undo(done.id)
    assert here.everything() == before
    assert (here.keeper.contradictions().count, told_by_audit(here)) == (1, 1)


def told_by_audit(here: House) -> int:
    profile = audit.profile(here.store, redact=redact, stale=lambda _: {}, comparer=JudgedComparer(ValueJudge()))
    return next(finding.count for finding in profile.findings if finding.name == "contradictions")


def test_they_are_asked_about_again_once_one_of_them_says_something_else(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    here.keeper.dismiss_contradiction([old, new])
    here.keeper.update(new, text="The staging API listens on port 7070")
    assert here.keeper.contradictions().count == 1
    here.keeper.dismiss_contradiction([old, new])
    assert here.keeper.contradictions().count == 0
    here.keeper.supersede(old, "The staging API listens on port 6060")
    assert here.keeper.contradictions().count == 1


def test_it_takes_two_that_are_there_to_agree(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    for ids in ([old], [old, old], [old, new, new], []):
        with pytest.raises(InvalidInput):
            here.keeper.dismiss_contradiction(ids)
    with pytest.raises(NotFound):
        here.keeper.dismiss_contradiction([old, 999])
    here.keeper.delete(old)
    with pytest.raises(Conflict, match="archived"):
        here.keeper.dismiss_contradiction([old, new])


def test_what_is_noted_already_is_not_noted_again(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    done = here.keeper.dismiss_contradiction([old, new])
    with pytest.raises(Conflict, match="already"):
        here.keeper.dismiss_contradiction([new, old])
    assert here.keeper.changes(limit=1)[0].id == done.id


def test_of_what_was_purged_no_agreement_keeps_a_mark_to_guess_by(house: Callable[..., House]) -> None:
    here = house()
    old, new = here.add(OLD, NEW)
    here.keeper.dismiss_contradiction([old, new])
    mark = f"{fingerprint(OLD) & (1 << 64) - 1:016x}"
    assert mark in str(here.keeper.get(old).metadata)
    here.keeper.purge(old)
    assert mark not in str([here.keeper.get(new), here.keeper.history(new), here.everything()])


def test_metadata_that_somebody_else_wrote_is_no_agreement(house: Callable[..., House]) -> None:
    here = house()
    for odd in ([2], {"1": None, "2": None}, "all", {"1": {}, "2": {}}):
        here.add(OLD, NEW, metadata={pair_finder.DISMISSED: odd}, project=f"/srv/{type(odd).__name__}{odd!s:.9}")
    assert here.keeper.contradictions().count == 4


def test_who_may_not_see_everything_settles_nothing(house: Callable[..., House]) -> None:
    here = house()
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
