"""What a viewer finds in a store, and what they may do there: rule by rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.models.domain_knowledge import DeleteRow, Knowledge, Pattern, PurgeRow, PutRow, RevertRow, Threshold
from cofio.models.memory import (
    Add,
    Adopt,
    Changeset,
    Delete,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    Retrieval,
    Revert,
    Scope,
    Update,
    Viewer,
)
from cofio.ports import Store
from cofio.staleness import StalenessChecker
from cofio.stores.scoped import ScopedStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
from tests import judges

ADA = Viewer(user="ada", agent="codex", team="red")
BOB = Viewer(user="bob", agent="codex", team="red")
EVE = Viewer(user="eve", agent="claude", team="blue")
BOT = Viewer(agent="bot", team="red")
BOUND = Viewer(user="ada", agent="codex", team="red", prefixes=("work/web",))
DRIZZLE = "We switched from Prisma to Drizzle."
TAKEN_OVER = "Raj owns the billing service now, Sofia left."


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    clock = FixedClock()
    opened: Store = MemoryStore(clock) if request.param == "memory" else SqliteStore(tmp_path / "cofio.db", clock)
    yield opened
    opened.close()


@pytest.fixture
def keeper(store: Store) -> Iterator[Keeper]:
    with Keeper(store, HashEmbedder(), FixedClock(), judge=judges.judge()) as opened:
        yield opened


Says = Callable[..., int]


@pytest.fixture
def says(keeper: Keeper) -> Says:
    """Has somebody say something: `says(ADA, "…", visibility="team")`; the id."""

    def said(viewer: Viewer | None, text: str, **about: Any) -> int:
        return keeper.as_viewer(viewer).add(text, dedup=False, **about).memory_id

    return said


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("visibility", "seers"),
    [("private", (ADA,)), ("team", (ADA, BOB, BOT)), ("global", (ADA, BOB, EVE, BOT))],
)
def test_what_one_says_is_seen_by_whom_it_is_for(
    visibility: str, seers: tuple[Viewer, ...], keeper: Keeper, says: Says
) -> None:
    number = says(ADA, "The vault opens at noon", visibility=visibility)
    for viewer in (ADA, BOB, EVE, BOT):
        seen = keeper.as_viewer(viewer)
        found = {hit.id for hit in seen.search("when does the vault open?")}
        listed = {memory.id for memory in seen.list().memories}
        assert (number in found, number in listed, seen.count()) == ((viewer in seers,) * 2 + (int(viewer in seers),))


def test_what_is_private_belongs_to_its_user_whichever_agent_asks(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon")
    assert keeper.as_viewer(Viewer(user="ada", agent="another", team="blue")).get(number).user == "ada"
    with pytest.raises(NotFound):
        keeper.as_viewer(Viewer(user="bob", agent="codex", team="red")).get(number)


def test_what_names_no_user_belongs_to_its_agent(keeper: Keeper, says: Says) -> None:
    number = says(BOT, "The vault opens at noon")
    assert keeper.as_viewer(Viewer(user="ada", agent="bot")).get(number)
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).get(number)


def test_a_bound_key_sees_sources_below_its_prefix_by_whole_segments(keeper: Keeper, says: Says) -> None:
    inside = [says(None, "One", visibility="global", source=each) for each in ("work/web", "work/web/api")]
    for each in ("work", "work/website", "", "other"):
        says(None, "Another", visibility="global", source=each)
    assert {memory.id for memory in keeper.as_viewer(BOUND).list().memories} == set(inside)


def test_others_memories_do_not_starve_a_search(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault in the cellar opens at noon")
    keeper.as_viewer(EVE).add_all([f"The vault opens at noon, number {each}" for each in range(150)], dedup=False)
    found = keeper.as_viewer(ADA).search("The vault opens at noon", k=3)
    assert [hit.id for hit in found] == [number]


def test_candidates_by_id_must_be_seen_too(store: Store, says: Says) -> None:
    theirs, mine = says(EVE, "The vault opens at noon"), says(ADA, "The cellar is dry")
    vector = HashEmbedder().embed(["The vault opens at noon"], "query")[0]
    seen = ScopedStore(store, ADA)
    assert [each.id for each in seen.nearest(vector, 5, Scope(), also=[theirs, mine])] == [mine]
    assert seen.said([theirs, mine]).keys() == {mine}
    assert seen.holding(["vault", "cellar"], [theirs, mine]) == {theirs: [], mine: ["cellar"]}
    assert [memory.id for memory in seen.get([theirs, mine])] == [mine]


def test_a_scope_cannot_name_another_viewer(store: Store, says: Says) -> None:
    says(EVE, "The vault opens at noon")
    assert ScopedStore(store, ADA).page(Scope(viewer=EVE), limit=5) == ([], 0)


def test_what_a_memory_said_before_is_shown_with_what_it_took_the_place_of(keeper: Keeper, says: Says) -> None:
    secret = says(ADA, "The vault opens at noon")
    new = keeper.as_viewer(ADA).supersede(secret, "The vault opens at one", visibility="global")[0].memory_id
    assert keeper.as_viewer(ADA).get(new).previous_text == "The vault opens at noon"
    told = keeper.as_viewer(EVE).get(new)
    assert (told.previous_text, told.supersedes) == (None, secret)
    assert "noon" not in "".join(keeper.as_viewer(EVE).export_lines())
    assert all(memory.previous_text is None for memory in keeper.as_viewer(EVE).list().memories)


# ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_history_tells_of_what_may_be_seen_before_and_after(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon")
    keeper.as_viewer(ADA).update(number, visibility="team", text="The vault opens at one")
    keeper.as_viewer(ADA).update(number, tags=["vault"])
    assert [change.action for change in keeper.as_viewer(ADA).history(number)] == ["add", "edit", "edit"]
    [change] = keeper.as_viewer(BOB).history(number)
    assert change.before
    assert change.before.text == "The vault opens at one"
    with pytest.raises(NotFound):
        keeper.as_viewer(EVE).history(number)


def test_what_was_shared_and_is_private_now_has_no_history_for_others(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon", visibility="team")
    assert keeper.as_viewer(BOB).history(number)
    keeper.as_viewer(ADA).update(number, visibility="private")
    with pytest.raises(NotFound):
        keeper.as_viewer(BOB).history(number)
    assert keeper.as_viewer(BOB).changes() == []


def test_a_changeset_is_told_as_far_as_it_may_be_seen(keeper: Keeper) -> None:
    facts = [Fact(text="For all", visibility="global"), Fact(text="For Eve", user="eve")]
    first = keeper.add_all(facts, dedup=False, why="the eve of it")[0]
    whole = keeper.as_viewer(EVE).changeset(first.changeset)
    assert (len(whole.changes), whole.why) == (2, "the eve of it")
    part = keeper.as_viewer(ADA).changeset(first.changeset)
    assert [change.memory.text for change in part.changes] == ["For all"]
    assert (part.why, part.changes[0].why) == ("", "")
    assert [each.id for each in keeper.as_viewer(ADA).changes()] == [first.changeset]


def test_changesets_without_anything_to_see_are_not_there(keeper: Keeper, says: Says) -> None:
    says(EVE, "The vault opens at noon")
    assert keeper.as_viewer(ADA).changes() == []
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).changeset(1)


def test_the_newest_changesets_that_may_be_seen_come_however_many_others_there_are(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon")
    for each in range(6):
        keeper.as_viewer(ADA).update(number, tags=[str(each)])
    keeper.as_viewer(ADA).update(number, visibility="team")
    assert len(keeper.as_viewer(ADA).changes(limit=4)) == 4
    assert keeper.as_viewer(BOB).changes(limit=4) == []  # until now it was private


def test_a_reason_is_not_told_where_it_may_quote_what_is_not_seen(keeper: Keeper) -> None:
    about: dict[str, Any] = {"visibility": "global", "project": "/web"}
    old = keeper.add("Sofia owns the billing service", source="work/web", **about)
    told = keeper.learn(f"User: {TAKEN_OVER}", source="other/web", user="eve", **about)
    assert [action["action"] for action in told.actions] == ["update"]
    assert "Raj" not in repr(keeper.as_viewer(BOUND).history(old.memory_id))


def test_sightings_are_those_of_what_is_seen(store: Store, keeper: Keeper, says: Says) -> None:
    number = says(EVE, "The vault opens at noon")
    assert ScopedStore(store, ADA).occurrences(number) == []
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).occurrences(number)


# ── what is written ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_is_the_viewers_whatever_was_sent(keeper: Keeper) -> None:
    forged = Fact(text="The vault opens at noon", user="eve", agent="claude", team="blue")
    memory = keeper.as_viewer(ADA).add(forged).memory
    assert (memory.user, memory.agent, memory.team) == ("ada", "codex", "red")


@pytest.mark.parametrize("source", ["", "work", "work/website", "other"])
def test_a_source_out_of_reach_is_refused(source: str, keeper: Keeper) -> None:
    seen = keeper.as_viewer(BOUND)
    with pytest.raises(Forbidden, match="work/web"):
        seen.add("The vault opens at noon", source=source)
    with pytest.raises(Forbidden):
        seen.capture("User: " + DRIZZLE, source=source)
    with pytest.raises(Forbidden):
        seen.learn("User: " + DRIZZLE, source=source, dry_run=True)
    with pytest.raises(Forbidden):
        seen.import_facts([Fact(text="One", source=source)], name="test")
    assert keeper.count() == 0
    assert keeper.inbox_status().captured == 0


def test_what_is_not_seen_cannot_be_touched(keeper: Keeper, says: Says) -> None:
    theirs, mine = says(EVE, "The vault opens at noon"), says(ADA, "The cellar is dry")
    seen = keeper.as_viewer(ADA)
    fact = Fact(text="New")
    for decision in (
        Update(theirs, fact),
        Edit(theirs, {"tags": ("x",)}),
        Delete(theirs),
        Delete(mine, into=theirs),
        Merge((mine, theirs), fact),
        Noop(theirs),
        Purge(theirs),
    ):
        with pytest.raises(NotFound, match=f"no memory {theirs}"):
            seen.apply([decision], by="test", why="test")
    with pytest.raises(NotFound):
        seen.restore(theirs)
    assert keeper.get(theirs).occurrences == 1
    assert not keeper.get(theirs).archived


def test_an_edit_cannot_say_whose_a_memory_is(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon")
    for changes in ({"user": "eve"}, {"agent": "claude"}, {"team": "blue"}):
        with pytest.raises(Forbidden):
            keeper.as_viewer(ADA).update(number, **changes)
    keeper.as_viewer(ADA).update(number, user="ada", tags=["same"])
    assert keeper.get(number).tags == ("same",)


def test_who_sees_a_memory_is_for_its_owner_to_say(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon", visibility="team")
    keeper.as_viewer(BOB).update(number, text="The vault opens at one")
    for visibility in ("private", "global"):
        with pytest.raises(Forbidden, match="belongs to another user"):
            keeper.as_viewer(BOB).update(number, visibility=visibility)
    keeper.as_viewer(ADA).update(number, visibility="global")
    assert keeper.as_viewer(EVE).get(number).text == "The vault opens at one"


def test_an_edit_cannot_move_a_memory_out_of_reach(keeper: Keeper, says: Says) -> None:
    number = says(BOUND, "The vault opens at noon", source="work/web/a")
    keeper.as_viewer(BOUND).update(number, source="work/web/b")
    with pytest.raises(Forbidden):
        keeper.as_viewer(BOUND).update(number, source="work/api")
    assert keeper.get(number).source == "work/web/b"


def test_only_what_is_ones_own_alone_can_be_erased(keeper: Keeper, says: Says) -> None:
    shared, own = says(ADA, "Shared", visibility="team"), says(ADA, "The vault opens at noon")
    with pytest.raises(Forbidden, match="admin key"):
        keeper.as_viewer(ADA).purge(shared)
    assert keeper.as_viewer(ADA).purge(own).action == "purge"
    with pytest.raises(NotFound):
        keeper.get(own)


def test_what_somebody_erases_is_not_cut_out_of_what_others_said(keeper: Keeper, says: Says) -> None:
    """Any words can be put into a memory of one's own: to erase it must not rewrite what others are learned from."""
    warning = "Please remember: do not ship on Fridays"
    waiting = keeper.as_viewer(BOB).capture(warning, client="c", session="s", turn="1").id
    settled = keeper.as_viewer(BOB).capture("We do not use tabs.", wait=True, client="c", session="s", turn="2").id
    shared = says(BOB, "Tabs are out", context="not")
    outside = keeper.as_viewer(ADA).capture(warning, client="c", session="s", turn="1").id
    mine = keeper.as_viewer(BOUND).capture(warning, source="work/web", client="c", session="s", turn="3").id
    keeper.as_viewer(BOUND).purge(says(BOUND, "not", source="work/web"))
    assert _said(keeper, waiting) == _said(keeper, outside) == warning
    assert _said(keeper, settled) == "We do not use tabs."
    assert keeper.get(shared).context == "not"
    assert _said(keeper, mine) == "Please remember: do  ship on Fridays"
    keeper.purge(says(ADA, "not"))  # the owner of the store erases it everywhere
    assert _said(keeper, waiting) == "Please remember: do  ship on Fridays"
    assert _said(keeper, settled) == keeper.get(shared).context == ""


def _said(keeper: Keeper, item: int) -> str:
    exchange = keeper.item(item).exchange
    return exchange.messages[0].text if exchange else ""


def test_whose_a_memory_is_cannot_be_undone_by_who_had_it(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon", visibility="team")
    given = keeper.update(number, user="bob")
    for viewer in (ADA, BOB):
        with pytest.raises(Forbidden, match="changed an owner"):
            keeper.as_viewer(viewer).undo(given.changeset)
    assert keeper.get(number).user == "bob"


def test_who_changes_teams_leaves_what_was_captured_for_the_other(keeper: Keeper) -> None:
    item = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, visibility="team", wait=True).id
    moved = keeper.as_viewer(replace(ADA, team="blue"))
    assert keeper.as_viewer(ADA).item(item).exchange
    assert moved.items() == []
    for ask in (moved.item, moved.retry):
        with pytest.raises(NotFound):
            ask(item)


def test_only_a_changeset_that_is_seen_in_full_can_be_undone(keeper: Keeper, says: Says) -> None:
    mixed = keeper.add_all([Fact(text="For all", visibility="global"), Fact(text="For Eve", user="eve")], dedup=False)
    own = says(ADA, "The vault opens at noon")
    with pytest.raises(Forbidden, match="may not see"):
        keeper.as_viewer(ADA).undo(mixed[0].changeset)
    with pytest.raises(NotFound):
        keeper.as_viewer(EVE).undo(keeper.history(own)[0].changeset)
    assert keeper.as_viewer(ADA).undo(keeper.history(own)[0].changeset).changes
    assert keeper.count() == 2


def test_changes_are_not_taken_back_one_by_one_or_as_another_undo(keeper: Keeper) -> None:
    done = keeper.add_all([Fact(text="One", visibility="global"), Fact(text="Two", visibility="global")], dedup=False)
    seen = keeper.as_viewer(ADA)
    with pytest.raises(Forbidden):
        seen.apply([Revert(done[0].id)], by="test", why="test")
    with pytest.raises(Forbidden):
        seen.apply([Revert(done[0].id)], by="test", why="test", undoes=done[0].changeset)
    with pytest.raises(Forbidden):
        seen.apply([Add(Fact(text="Three"))], by="test", why="test", undoes=done[0].changeset)
    with pytest.raises(NotFound):
        keeper.as_viewer(EVE).apply([Add(Fact(text="Four"))], by="t", why="t", part_of=_private(keeper))
    assert keeper.changeset(done[0].changeset).undone_by is None


def _private(keeper: Keeper) -> int:
    return keeper.as_viewer(ADA).add("Mine alone").changeset


def test_an_undo_does_not_widen_who_sees_anothers_memory(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon", visibility="global")
    narrowed = keeper.as_viewer(ADA).update(number, visibility="team")
    with pytest.raises(Forbidden, match="owner"):
        keeper.as_viewer(BOB).undo(narrowed.changeset)
    keeper.as_viewer(ADA).undo(narrowed.changeset)
    assert keeper.get(number).visibility == "global"


def test_what_is_adopted_is_stamped_and_gets_an_id_of_this_store(store: Store) -> None:
    seen, at = ScopedStore(store, ADA), "2026-01-01T00:00:00Z"
    memory = Memory(id=0, text="One", user="eve", previous_text="Zero", created_at=at, updated_at=at)
    [change] = seen.apply([Adopt(memory, (Occurrence("claude"),))], {}, by="t", why="t").changes
    assert change.after
    assert (change.after.user, change.after.previous_text) == ("ada", None)
    assert [sighting.agent for sighting in seen.occurrences(change.memory_id)] == ["codex", "codex"]
    with pytest.raises(Forbidden):
        seen.apply([Adopt(replace(memory, id=1 << 60))], {}, by="t", why="t")


def test_a_sighting_is_the_viewers(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon", visibility="global")
    keeper.as_viewer(EVE).apply([Noop(number, Occurrence("codex", "s1"))], by="t", why="t")
    assert [sighting.agent for sighting in keeper.occurrences(number)] == ["codex", "claude"]


def test_a_twin_out_of_reach_is_not_told_of(keeper: Keeper) -> None:
    about: dict[str, Any] = {"project": "/web", "visibility": "global"}
    hidden = keeper.add("The vault opens at noon", source="other", tags=["classified"], **about)
    change = keeper.as_viewer(BOUND).add("The vault opens at noon", source="work/web", **about)
    assert (change.action, change.memory.tags) == ("add", ())
    assert keeper.get(hidden.memory_id).occurrences == 1
    again = keeper.as_viewer(BOUND).add("The vault opens at noon", source="work/web", **about)
    assert (again.action, again.memory_id) == ("noop", change.memory_id)
    decided = keeper.as_viewer(BOUND).apply(
        [Add(Fact(text="The vault opens at noon", source="work/web", **about), unless_known=True)], by="t", why="t"
    )
    assert "classified" not in repr(decided)


def test_bringing_a_memory_back_tells_nothing_of_its_heir(keeper: Keeper, says: Says) -> None:
    mine, theirs = says(ADA, "The vault opens at noon"), says(EVE, "The vault opens at noon sharp")
    keeper.apply([Delete(mine, into=theirs)], by="owner", why="by hand")
    change = keeper.as_viewer(ADA).restore(mine)
    assert change.memory_id == mine
    assert "sharp" not in repr(keeper.as_viewer(ADA).changeset(change.changeset))


def test_facts_are_known_only_to_whom_they_are_known(keeper: Keeper, says: Says) -> None:
    says(EVE, "The vault opens at noon")
    assert keeper.as_viewer(ADA).is_novel("The vault opens at noon").novel
    assert keeper.as_viewer(ADA).add("The vault opens at noon").action == "add"
    assert not keeper.as_viewer(ADA).is_novel("The vault opens at noon").novel
    assert keeper.count() == 2


def test_duplicates_are_looked_for_among_what_is_seen(keeper: Keeper, says: Says) -> None:
    for viewer in (ADA, EVE):
        says(viewer, "The vault opens at noon")
        says(viewer, "The vault opens at noon!")
    [found] = keeper.as_viewer(ADA).find_duplicates(threshold=0.9)
    assert keeper.get(found.id).user == "ada"
    assert keeper.as_viewer(ADA).merge_duplicates(threshold=0.9)
    assert keeper.as_viewer(EVE).count() == 2


def test_everything_of_a_source_is_everything_that_is_seen_of_it(keeper: Keeper, says: Says) -> None:
    mine, theirs = says(ADA, "One", source="a"), says(EVE, "Two", source="a")
    keeper.as_viewer(ADA).apply(
        keeper.as_viewer(ADA).services.memories.plan_delete_all(source_prefix="a"), by="t", why="t"
    )
    assert (keeper.get(mine).archived, keeper.get(theirs).archived) == (True, False)


# ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_captured_is_the_tellers(keeper: Keeper) -> None:
    captured = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, wait=True, user="eve", agent="claude", team="blue")
    [action] = captured.result["actions"]
    memory = keeper.get(action["id"])
    assert (memory.user, memory.agent, memory.team) == ("ada", "codex", "red")


def test_the_worker_learns_from_it_as_the_teller_would(keeper: Keeper) -> None:
    keeper.add("Sofia owns the billing service", user="eve")
    keeper.as_viewer(ADA).capture("User: " + TAKEN_OVER)
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
    assert [memory.user for memory in keeper.list().memories] == ["ada", "eve"]
    assert keeper.as_viewer(EVE).count() == 1


def test_what_is_private_to_one_agent_is_never_changed_by_anothers_facts(keeper: Keeper) -> None:
    old = keeper.add("Sofia owns the billing service", agent="claude", project="/web")
    for agent in ("codex", ""):
        keeper.learn("User: " + TAKEN_OVER, agent=agent, project="/web")
    assert not keeper.get(old.memory_id).archived
    keeper.learn("User: " + TAKEN_OVER, agent="claude", project="/web")
    assert keeper.get(old.memory_id).archived


def test_what_another_was_told_is_no_echo(keeper: Keeper) -> None:
    known = "Team policy: never deploy on a Friday"
    said = [{"role": "user", "content": "What do we know?"}]
    said.append({"role": "assistant", "content": "We never deploy on a Friday."})
    report: dict[str, Any] = {"project": "/web", "context": "observation", "dry_run": True}
    keeper.add(known, user="eve", project="/web")
    theirs = keeper.as_viewer(EVE).learn(said, **report)
    mine = keeper.as_viewer(ADA).learn(said, **report)
    assert [action["reason"] for action in theirs.actions] == ["the agent repeats memory 1"]
    assert [action["action"] for action in mine.actions] == ["add"]


def test_a_bound_teller_does_not_touch_what_is_out_of_reach(keeper: Keeper) -> None:
    about: dict[str, Any] = {"project": "/web", "visibility": "global"}
    old = keeper.add("Sofia owns the billing service", source="other/web", **about)
    seen = keeper.as_viewer(BOUND)
    dry = seen.learn("User: " + TAKEN_OVER, source="work/web", dry_run=True, **about)
    kept = seen.capture("User: " + TAKEN_OVER, source="work/web", **about)
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
    told = seen.item(kept.id)
    for actions in (dry.actions, told.result["actions"]):
        assert [action["action"] for action in actions] == ["add"]
        assert "Sofia owns the billing service" not in repr(actions)
        assert f"memory {old.memory_id}" not in repr(actions)
    assert not keeper.get(old.memory_id).archived


def test_the_model_is_shown_what_the_teller_may_see(store: Store) -> None:
    llm = ScriptedLLM(
        [
            '{"facts": [{"text": "The vault opens at one", "category": "decision"}]}',
            '{"decisions": [{"fact": "f1", "action": "ADD", "memory": null, "text": null}]}',
        ]
    )
    keeper = Keeper(store, HashEmbedder(), FixedClock(), llm=llm)
    about: dict[str, Any] = {"project": "/web", "visibility": "global"}
    keeper.add("The vault opens at noon, says the classified note", source="other", **about)
    keeper.add("The vault opens at noon", source="work/web", **about)
    keeper.as_viewer(BOUND).extract("User: it opens at one", source="work/web", **about)
    assert "classified" not in llm.calls[1][1]
    assert "The vault opens at noon" in llm.calls[1][1]


def test_the_same_session_of_two_people_is_two(keeper: Keeper) -> None:
    turn = {"client": "codex", "session": "s1", "turn": "t1"}
    first = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, wait=True, **turn)
    other = keeper.as_viewer(EVE).capture("User: We deploy with Fly.io.", wait=True, **turn)
    assert (first.new, other.new, "Drizzle" in repr(other)) == (True, True, False)
    again = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, wait=True, **turn)
    assert (again.new, again.id) == (False, first.id)
    assert keeper.as_viewer(ADA).turns("codex", "s1") == {"t1"}
    assert keeper.turns("codex", "s1") == set()
    keeper.as_viewer(EVE).capture("User: We deploy on Fridays.", **{**turn, "turn": "t2"})
    assert keeper.turns("codex", "s1", any_key=True) == {"t1", "t2"}
    assert keeper.as_viewer(ADA).turns("codex", "s1", any_key=True) == {"t1"}  # others' are not theirs to know


def test_nobody_adds_to_anothers_turn(keeper: Keeper) -> None:
    turn: dict[str, Any] = {"client": "codex", "session": "s1", "turn": "t1"}
    held = keeper.as_viewer(ADA).amend([{"role": "user", "content": DRIZZLE}], hold=60, **turn)
    keeper.as_viewer(EVE).amend([{"role": "assistant", "content": "We deploy with Fly.io."}], **turn)
    assert keeper.as_viewer(EVE).services.captures.release("codex", "s1") == 0
    exchange = keeper.item(held.id).exchange
    assert exchange
    assert [message.text for message in exchange.messages] == [DRIZZLE]
    assert keeper.as_viewer(ADA).services.captures.release("codex", "s1") == 1


def test_an_item_is_told_to_who_told_it(keeper: Keeper) -> None:
    said = [{"role": "system", "content": "<memory>\n- recalled\n</memory>"}, {"role": "user", "content": DRIZZLE}]
    mine = keeper.as_viewer(ADA).capture(said, client="codex", session="s1", turn="t1").id
    for viewer in (EVE, BOUND):
        with pytest.raises(NotFound):
            keeper.as_viewer(viewer).item(mine)
        with pytest.raises(NotFound):
            keeper.as_viewer(viewer).retry(mine)
        assert keeper.as_viewer(viewer).items() == []
    told = keeper.as_viewer(ADA).item(mine).exchange
    assert told
    assert (told.client, told.injected) == ("codex", ())
    assert [item.id for item in keeper.as_viewer(ADA).items()] == [mine]


def test_ones_own_items_are_found_behind_any_number_of_others(keeper: Keeper) -> None:
    mine = keeper.as_viewer(ADA).capture("User: " + DRIZZLE).id
    for _ in range(12):
        keeper.as_viewer(EVE).capture("User: We deploy with Fly.io.")
    assert [item.id for item in keeper.as_viewer(ADA).items(limit=2)] == [mine]


# ── what is derived, and upkeep ───────────────────────────────────────────────────────────────────────────────────────


def test_what_a_session_was_given_is_its_owners(keeper: Keeper, says: Says) -> None:
    mine, theirs = says(ADA, "Mine"), says(EVE, "Theirs")
    keeper.as_viewer(ADA).services.captures.mark_injected("codex", "s1", {mine: "m", theirs: "t"})
    keeper.as_viewer(EVE).services.captures.mark_injected("codex", "s1", {theirs: "t"})
    assert keeper.as_viewer(ADA).services.captures.injected("codex", "s1") == {mine: "m"}
    assert keeper.as_viewer(EVE).services.captures.injected("codex", "s1") == {theirs: "t"}
    keeper.as_viewer(EVE).services.captures.clear_injected("codex", "s1")
    assert keeper.as_viewer(ADA).services.captures.injected("codex", "s1") == {mine: "m"}
    assert keeper.services.captures.injected("codex", "s1") == {}


def test_retrievals_of_what_is_not_seen_are_not_noted(store: Store, keeper: Keeper, says: Says) -> None:
    theirs = says(EVE, "The vault opens at noon")
    ScopedStore(store, ADA).note([Retrieval(theirs, "vault", "ada", "2026-01-01T00:00:00Z")])
    assert keeper.get(theirs).retrieval_count == 0


def test_pictures_are_of_what_is_seen_whoever_is_named(store: Store, keeper: Keeper, says: Says) -> None:
    mine, _ = says(ADA, "The vault opens at noon"), says(EVE, "The cellar opens at dawn")
    pictures = ScopedStore(store, ADA).dashboard
    for scope in (Scope(), Scope(viewer=EVE)):
        assert list(pictures.dots(scope, 9, 9).ids) == [mine]
        assert [each.count for each in pictures.arrived("2000-01-01", scope)] == [1]
    assert [each.count for each in store.dashboard.arrived("2000-01-01", Scope())] == [2]
    before = pictures.pulse()
    keeper.as_viewer(ADA).recall("when does the vault open?", by="codex")
    assert keeper.dashboard.pulse().moved(before) == ["recalls"]
    assert [each.prompts for each in store.dashboard.injected("2000-01-01")] == [1]  # hers is the owner's to count


def test_counts_are_of_what_is_seen(keeper: Keeper, says: Says) -> None:
    gone = says(ADA, "One", kind="policy")
    says(ADA, "Two", kind="policy", visibility="team")
    says(EVE, "Three", kind="preference")
    keeper.as_viewer(ADA).delete(gone)
    told = keeper.as_viewer(ADA).stats()
    assert (told["memories"], told["archived"]) == (1, 1)
    assert (told["by_kind"], told["by_visibility"]) == ({"policy": 1}, {"team": 1})
    assert "eve" not in repr(told)
    assert keeper.stats().keys() == told.keys()


@pytest.mark.parametrize(
    "act",
    [
        lambda keeper: keeper.consolidate(),
        lambda keeper: keeper.prune(),
        lambda keeper: keeper.audit(),
        lambda keeper: keeper.reembed(),
        lambda keeper: keeper.embed_missing(),
        lambda keeper: keeper.services.retention.apply(captures=1, retrievals=1),
        lambda keeper: keeper.services.access.store.usage.forget("2026-01-01"),
        lambda keeper: keeper.services.captures.forget("2026-01-01"),
        lambda keeper: keeper.runs(),
        lambda keeper: keeper.services.maintenance.last_run("prune"),
        lambda keeper: keeper.llm_usage(),
        lambda keeper: keeper.llm_call(1),
        lambda keeper: keeper.services.maintenance.run_scheduled("prune", slot="2026-01-01"),
        lambda keeper: keeper.services.maintenance.begin_schedule("prune", "2026-01-01"),
        lambda keeper: keeper.inbox_status(),
        lambda keeper: keeper.services.captures.due(),
        lambda keeper: keeper.keys(),
        lambda keeper: keeper.dashboard.agents(),
        lambda keeper: keeper.services.access.store.dashboard.done("2026-01-01"),
        lambda keeper: keeper.services.access.store.dashboard.injected("2026-01-01"),
        lambda keeper: keeper.services.access.store.dashboard.forget_injected("2026-01-01"),
        lambda keeper: keeper.services.shared.retrieval_log.import_recalls([]),
        lambda keeper: keeper.as_viewer(EVE),
    ],
)
def test_what_looks_at_everything_is_the_owners(act: Callable[[Keeper], Any], keeper: Keeper) -> None:
    with pytest.raises(Forbidden, match="admin key"):
        act(keeper.as_viewer(ADA))


def test_no_viewer_sees_everything_and_closing_a_view_closes_nothing(keeper: Keeper, says: Says) -> None:
    assert keeper.as_viewer(None) is keeper
    with keeper.as_viewer(ADA) as seen:
        seen.add("The vault opens at noon")
        seen.search("vault")
    assert keeper.count() == 1
    assert keeper.as_viewer(ADA).usage("most")[0].retrieval_count == 1


# ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_export_is_of_what_is_seen_however_much_lies_between(keeper: Keeper, says: Says) -> None:
    first = says(ADA, "One")
    keeper.as_viewer(EVE).add_all([f"Eve's {each}" for each in range(1_100)], dedup=False)
    last = says(ADA, "Two")
    header, *lines = keeper.as_viewer(ADA).export_lines()
    assert f'"memories":2,"last_id":{last}' in header
    assert [f'{{"id":{each},' in line for each, line in zip((first, last), lines, strict=True)] == [True, True]


def test_facts_are_imported_as_ones_own_and_exports_by_the_owner(keeper: Keeper) -> None:
    keeper.add("The vault opens at noon", user="eve", origin="notes/1")
    fact = Fact(text="The vault opens at noon", user="eve", origin="notes/1")
    done = keeper.as_viewer(ADA).import_facts([fact], name="notes")
    assert (done.added, keeper.as_viewer(ADA).import_facts([fact], name="notes").known) == (1, 1)
    assert keeper.list().memories[0].user == "ada"
    lines = list(keeper.export_lines())
    with pytest.raises((Forbidden, InvalidInput)):
        keeper.as_viewer(BOB).import_lines(lines, name="export")
    assert keeper.count() == 2


def test_the_stores_name_and_ids_are_not_for_a_viewer_to_give(store: Store) -> None:
    carrying = ScopedStore(store, ADA).snapshots
    for act in (lambda: carrying.adopt_identity("x"), lambda: carrying.reserve(5), lambda: carrying.room("x", 1 << 60)):
        with pytest.raises(Forbidden):
            act()
    assert carrying.room("x", 0) == []
    assert carrying.reserve(0) == 0


def test_an_undone_undo_still_conflicts(keeper: Keeper, says: Says) -> None:
    number = says(ADA, "The vault opens at noon")
    changeset = keeper.history(number)[0].changeset
    keeper.as_viewer(ADA).undo(changeset)
    with pytest.raises(Conflict):
        keeper.as_viewer(ADA).undo(changeset)


# ── what else a key does not open ─────────────────────────────────────────────────────────────────────────────────────


def test_a_users_key_that_is_for_no_agent_keeps_the_agent_that_is_named(keeper: Keeper) -> None:
    ada = Viewer(user="ada", team="web")
    for _ in range(3):
        keeper.as_viewer(ada).add("Reviews want a null check.", agent="bot", visibility="team")
    (found,) = keeper.detect_cross_agent_patterns()
    assert (found.agent, found.memory.user, found.occurrences) == ("bot", "ada", 3)


def test_files_of_this_machine_are_not_looked_at_for_a_key(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "notes.py").write_text("SECRET = 1\n", encoding="utf-8")
    said = {"project": str(tree), "source": "work"}
    with Keeper(store, HashEmbedder(), FixedClock(), staleness=StalenessChecker(reads=True)) as keeper:
        assert keeper.add("The numbers are in notes.py.", **said).memory.anchors
        seen = keeper.as_viewer(ADA)
        assert not seen.add("My numbers are in notes.py.", **said).memory.anchors
        seen.capture("We decided to keep the totals in notes.py because of the audit.", wait=True, **said)
        learned = [memory for memory in seen if "totals" in memory.text]
        assert learned
        assert not any(memory.anchors for memory in learned)


def test_the_history_of_what_is_not_seen_is_not_that_of_what_came_after_it(keeper: Keeper, says: Says) -> None:
    old = says(ADA, "The key is under the mat.")
    written, _ = keeper.as_viewer(ADA).supersede(old, "The key is at the desk.", visibility="global")
    bob = keeper.as_viewer(BOB)
    assert [change.memory_id for change in bob.history(written.memory_id)] == [written.memory_id]
    with pytest.raises(NotFound):
        bob.history(old)


# ── domain knowledge ──────────────────────────────────────────────────────────────────────────────────────────────────


def flag(value: float = 5_000_000, **known: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "value": value, "direction": "above", **known})


def put(keeper: Keeper, viewer: Viewer | None, *rows: Knowledge, why: str = "") -> Changeset:
    return keeper.as_viewer(viewer).apply([], by="test", why=why, knowledge=[PutRow(row, "noted") for row in rows])


def key_of(done: Changeset) -> str:
    return done.knowledge[0].key


@pytest.mark.parametrize(
    ("visibility", "seers"),
    [("private", (ADA,)), ("team", (ADA, BOB, BOT)), ("global", (ADA, BOB, EVE, BOT))],
)
def test_a_row_is_seen_by_whom_it_is_for(
    visibility: str, seers: tuple[Viewer, ...], store: Store, keeper: Keeper
) -> None:
    key = key_of(put(keeper, ADA, flag(visibility=visibility, memory=None)))
    for viewer in (ADA, BOB, EVE, BOT):
        domain = ScopedStore(store, viewer).domain
        found = (domain.get("thresholds", [key]), domain.rows("thresholds"), domain.naming(["aapl"]))
        assert [[each.id for each in some] for some in found] == [[key] if viewer in seers else []] * 3
        assert domain.counts()["thresholds"] == int(viewer in seers)


def test_another_viewer_cannot_be_named(store: Store, keeper: Keeper) -> None:
    key = key_of(put(keeper, EVE, flag()))
    domain = ScopedStore(store, ADA).domain
    assert domain.get("thresholds", [key], viewer=EVE) == domain.rows("thresholds", viewer=EVE) == []
    assert domain.naming(["aapl"], viewer=EVE) == []
    assert domain.counts(viewer=EVE)["thresholds"] == 0


def test_a_row_is_stamped_as_theirs_whatever_it_says(store: Store, keeper: Keeper) -> None:
    put(keeper, ADA, flag(user="eve", agent="claude", team="blue"))
    [row] = store.domain.rows("thresholds")
    assert (row.user, row.agent, row.team) == ("ada", "codex", "red")
    bound = put(keeper, BOUND, flag(source="MSFT", place="elsewhere"), flag(source="IBM", place="work/web/api"))
    assert [each.after.place for each in bound.knowledge if each.after] == ["work/web/elsewhere", "work/web/api"]
    [named] = put(keeper, BOUND, flag(source="KO")).knowledge
    assert named.after
    assert named.after.place == "work/web"


def test_the_same_thing_said_by_two_is_two_rows_and_said_again_is_one(store: Store, keeper: Keeper) -> None:
    for viewer in (ADA, EVE, None):
        put(keeper, viewer, flag(1))
    again = put(keeper, ADA, flag(2))
    assert [change.action for change in again.knowledge] == ["update"]
    assert len(store.domain.rows("thresholds")) == 3
    assert [row.value for row in ScopedStore(store, EVE).domain.rows("thresholds") if isinstance(row, Threshold)] == [1]


def test_what_everybody_sees_is_not_taken_for_ones_own(store: Store, keeper: Keeper) -> None:
    put(keeper, None, flag(1, visibility="global"))
    put(keeper, ADA, flag(2))
    shared, mine = ScopedStore(store, EVE).domain.rows("thresholds"), ScopedStore(store, ADA).domain.rows("thresholds")
    assert [row.visibility for row in shared] == ["global"]
    assert {row.visibility for row in mine} == {"global", "private"}


def test_an_id_that_another_has_gets_an_end_of_ones_own(store: Store, keeper: Keeper) -> None:
    put(keeper, EVE, flag(1, id="alert"))
    first = put(keeper, ADA, flag(2, id="alert"))
    assert key_of(first).startswith("alert~")
    assert key_of(put(keeper, ADA, flag(3, id="alert"))) == key_of(first)
    assert key_of(put(keeper, ADA, flag(4, id=key_of(first)))) == key_of(first)
    assert [(row.id, row.user) for row in store.domain.get("thresholds", ["alert"])] == [("alert", "eve")]
    assert len(store.domain.rows("thresholds")) == 2
    long = "x" * 200
    put(keeper, EVE, flag(1, id=long))
    assert key_of(put(keeper, ADA, flag(2, id=long))) != long


def test_an_id_that_another_had_is_not_taken_over(store: Store, keeper: Keeper) -> None:
    put(keeper, EVE, flag(1, id="alert"))
    gone = keeper.as_viewer(EVE).apply([], by="eve", why="", knowledge=[DeleteRow("thresholds", "alert")])
    assert key_of(put(keeper, ADA, flag(2, id="alert"))) != "alert"
    keeper.as_viewer(EVE).undo(gone.id)
    assert [row.user for row in store.domain.get("thresholds", ["alert"])] == ["eve"]


def test_what_a_team_knows_is_corrected_by_all_and_stays_whose_it_is(store: Store, keeper: Keeper) -> None:
    put(keeper, ADA, flag(1, id="alert", visibility="team"))
    put(keeper, BOB, flag(2, id="alert", visibility="team"))
    [row] = store.domain.get("thresholds", ["alert"])
    assert isinstance(row, Threshold)
    assert (row.value, row.user) == (2, "ada")
    with pytest.raises(Forbidden, match="belongs to another user"):
        put(keeper, BOB, flag(3, id="alert", visibility="private"))
    with pytest.raises(Forbidden, match="belongs to another user"):
        put(keeper, BOB, flag(3, id="alert", visibility="global"))
    put(keeper, ADA, flag(3, id="alert", visibility="private"))
    assert ScopedStore(store, BOB).domain.rows("thresholds") == []


def test_what_is_read_and_put_back_stays_whose_it_is(store: Store, keeper: Keeper) -> None:
    put(keeper, BOT, flag(1))
    both = Viewer(user="ada", agent="bot", team="red")
    [row] = ScopedStore(store, both).domain.rows("thresholds")
    assert isinstance(row, Threshold)
    done = put(keeper, both, replace(row, value=2))
    assert [change.action for change in done.knowledge] == ["update"]
    assert [each.user for each in store.domain.rows("thresholds")] == [""]


def test_a_row_cannot_be_put_out_of_ones_own_sight(store: Store, keeper: Keeper) -> None:
    put(keeper, BOUND, flag(1, id="alert", place="work/web/api"))
    put(keeper, BOUND, flag(2, id="alert", place="elsewhere"))
    assert [row.place for row in store.domain.get("thresholds", ["alert"])] == ["work/web/api"]


def test_rows_that_are_not_seen_cannot_be_touched(store: Store, keeper: Keeper) -> None:
    key = key_of(put(keeper, EVE, flag()))
    ada = keeper.as_viewer(ADA)
    for decision in (DeleteRow("thresholds", key), PurgeRow("thresholds", key)):
        with pytest.raises(NotFound, match="no thresholds/"):
            ada.apply([], by="ada", why="", knowledge=[decision])
    with pytest.raises(NotFound):
        ScopedStore(store, ADA).domain.history("thresholds", key)
    assert len(store.domain.rows("thresholds")) == 1


def test_only_rows_that_are_ones_own_alone_can_be_erased(store: Store, keeper: Keeper) -> None:
    ada = keeper.as_viewer(ADA)
    shared, own = key_of(put(keeper, ADA, flag(visibility="team"))), key_of(put(keeper, ADA, flag()))
    with pytest.raises(Forbidden):
        ada.apply([], by="ada", why="", knowledge=[PurgeRow("thresholds", shared)])
    done = ada.apply([], by="ada", why="", knowledge=[PurgeRow("thresholds", own)])
    assert [change.action for change in done.knowledge] == ["purge"]
    assert [row.id for row in store.domain.rows("thresholds")] == [shared]
    keeper.as_viewer(BOB).apply([], by="bob", why="", knowledge=[DeleteRow("thresholds", shared)])
    assert store.domain.rows("thresholds") == []


def test_a_row_cannot_name_a_memory_that_is_not_seen(keeper: Keeper, says: Says) -> None:
    with pytest.raises(NotFound, match="no memory"):
        put(keeper, ADA, flag(memory=says(EVE, "The vault opens at noon")))
    assert put(keeper, ADA, flag(memory=says(ADA, "The vault opens at noon"))).knowledge[0].action == "add"


def test_rows_told_by_a_memory_are_those_that_are_seen(store: Store, keeper: Keeper, says: Says) -> None:
    memory = says(None, "The vault opens at noon", visibility="global")
    put(keeper, None, flag(memory=memory, visibility="global"), flag(source="MSFT", memory=memory))
    assert len(store.domain.stated_by([memory])) == 2
    assert [each.visibility for each in ScopedStore(store, ADA).domain.stated_by([memory])] == ["global"]


def test_history_of_a_row_tells_of_what_may_be_seen_before_and_after(store: Store, keeper: Keeper) -> None:
    put(keeper, ADA, flag(1, id="alert"), why="first")
    put(keeper, ADA, flag(2, id="alert", visibility="team"), why="second")
    put(keeper, ADA, flag(3, id="alert", visibility="team"), why="third")
    told = ScopedStore(store, BOB).domain.history("thresholds", "alert")
    assert [(change.action, change.why) for change in told] == [("update", "third")]
    assert len(ScopedStore(store, ADA).domain.history("thresholds", "alert")) == 3
    put(keeper, ADA, flag(3, id="alert"))
    with pytest.raises(NotFound):
        ScopedStore(store, BOB).domain.history("thresholds", "alert")


def test_a_changeset_of_knowledge_is_told_as_far_as_it_may_be_seen(keeper: Keeper) -> None:
    shared, secret = flag(visibility="global"), flag(source="Zebra", user="eve")
    done = put(keeper, None, shared, secret, why="zebras")
    told = keeper.as_viewer(ADA).changeset(done.id)
    assert [(change.key, change.reason) for change in told.knowledge] == [("aapl.volume.above", "")]
    assert told.why == ""
    assert "zebra" not in repr(told).lower()
    with pytest.raises(Forbidden, match="may not see"):
        keeper.as_viewer(ADA).undo(done.id)
    alone = put(keeper, EVE, secret)
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).changeset(alone.id)
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).undo(alone.id)


def test_memories_beside_rows_that_are_not_seen_are_told_in_part(keeper: Keeper) -> None:
    fact = Fact(text="The vault opens at noon", visibility="global")
    puts = [PutRow(flag(source="Zebra", user="eve"))]
    done = keeper.apply([Add(fact, "quoting zebras")], by="owner", why="zebras", knowledge=puts)
    ada = keeper.as_viewer(ADA)
    told = ada.changeset(done.id)
    assert (len(told.changes), told.knowledge, told.why) == (1, (), "")
    assert [(change.reason, change.why) for change in ada.history(done.changes[0].memory_id)] == [("", "")]
    with pytest.raises(Forbidden):
        ada.undo(done.id)


def test_the_newest_changesets_of_knowledge_come_however_many_others_there_are(keeper: Keeper) -> None:
    mine = put(keeper, ADA, flag(1))
    dropped = keeper.as_viewer(ADA).apply([], by="ada", why="", knowledge=[DeleteRow("thresholds", key_of(mine))])
    for number in range(30):
        put(keeper, EVE, flag(number))
    assert [change.id for change in keeper.as_viewer(ADA).changes(limit=5)] == [dropped.id, mine.id]
    assert [change.id for change in keeper.as_viewer(ADA).changes(limit=1)] == [dropped.id]


def test_what_one_put_can_be_undone_by_who_sees_it_all(store: Store, keeper: Keeper) -> None:
    done = put(keeper, ADA, flag(visibility="team"))
    undone = keeper.as_viewer(BOB).undo(done.id)
    assert [change.action for change in undone.knowledge] == ["revert"]
    assert store.domain.rows("thresholds") == []
    keeper.as_viewer(ADA).undo(undone.id)
    assert len(store.domain.rows("thresholds")) == 1


def test_who_sees_a_row_is_not_undone_by_another(keeper: Keeper) -> None:
    put(keeper, ADA, flag(id="alert", visibility="team"))
    wider = put(keeper, ADA, flag(id="alert", visibility="global"))
    with pytest.raises(Forbidden):
        keeper.as_viewer(BOB).undo(wider.id)
    keeper.as_viewer(ADA).undo(wider.id)


def test_rows_are_not_withdrawn_one_by_one_or_as_another_undo(keeper: Keeper) -> None:
    done, other = put(keeper, ADA, flag(), flag(source="MSFT")), put(keeper, ADA, flag(source="IBM"))
    ada = keeper.as_viewer(ADA)
    one, two = (RevertRow(change.id) for change in done.knowledge)
    for undoes, rows in ((None, [one]), (done.id, [one]), (other.id, [one, two]), (done.id, [one, PutRow(flag(9))])):
        with pytest.raises(Forbidden):
            ada.apply([], by="ada", why="", undoes=undoes, knowledge=rows)
    ada.apply([], by="ada", why="", undoes=done.id, knowledge=[two, one])


def test_an_export_holds_the_rows_that_are_seen(keeper: Keeper) -> None:
    for number in range(3):
        put(keeper, EVE, *(flag(source=f"Zebra {number}.{each}") for each in range(300)))
    put(keeper, ADA, flag(source="Zulu"), Pattern(pattern="It rains"), flag(source="Alpha", visibility="team"))
    lines = [json.loads(line) for line in keeper.as_viewer(BOB).export_lines()]
    assert [each.get("source") for each in lines[1:]] == ["Alpha"]
    assert lines[0]["knowledge"] == 1
    assert "zebra" not in "".join(keeper.as_viewer(ADA).export_lines()).lower()
    assert len(list(keeper.as_viewer(ADA).export_lines())) == 4


def test_notes_are_the_owners(store: Store) -> None:
    with pytest.raises(Forbidden, match="Notes are not allowed with this key"):
        assert ScopedStore(store, ADA).notes
