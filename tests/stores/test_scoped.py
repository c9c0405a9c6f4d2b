"""Access control of ScopedStore: what a viewer can read and change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.models.domain_knowledge import Knowledge, Pattern, Threshold
from cofio.models.memory import (
    Add,
    Adopt,
    Changeset,
    Delete,
    DeleteRow,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    PurgeRow,
    PutRow,
    Retrieval,
    Revert,
    RevertRow,
    Scope,
    Update,
    Viewer,
)
from cofio.ports import Store
from cofio.staleness import StalenessChecker
from cofio.stores.scoped import ScopedStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
from tests import judges

ADA = Viewer(user="ada", agent="codex", team="red")
BOB = Viewer(user="bob", agent="codex", team="red")
EVE = Viewer(user="eve", agent="claude", team="blue")
BOT = Viewer(agent="bot", team="red")
BOUND = Viewer(user="ada", agent="codex", team="red", prefixes=("work/web",))
DRIZZLE = "We switched from Prisma to Drizzle."
OWNER_CHANGE = "Raj owns the billing service now, Sofia left."


@pytest.fixture
def store() -> Iterator[Store]:
    opened = MemoryStore(FixedClock())
    yield opened
    opened.close()


@pytest.fixture
def keeper(store: Store) -> Iterator[Keeper]:
    with Keeper(store, HashEmbedder(), FixedClock(), judge=judges.judge()) as opened:
        yield opened


AddAs = Callable[..., int]


@pytest.fixture
def add_as(keeper: Keeper) -> AddAs:
    """Return a function that adds a memory as a viewer, for example `add_as(ADA, "…", visibility="team")`, and
    returns the id."""

    def add(viewer: Viewer | None, text: str, **fields: Any) -> int:
        return keeper.as_viewer(viewer).add(text, dedup=False, **fields).memory_id

    return add


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("visibility", "allowed_viewers"),
    [("private", (ADA,)), ("team", (ADA, BOB, BOT)), ("global", (ADA, BOB, EVE, BOT))],
)
def test_memory_is_visible_according_to_its_visibility(
    visibility: str, allowed_viewers: tuple[Viewer, ...], keeper: Keeper, add_as: AddAs
) -> None:
    memory_id = add_as(ADA, "The vault opens at noon", visibility=visibility)
    for viewer in (ADA, BOB, EVE, BOT):
        view = keeper.as_viewer(viewer)
        found_ids = {hit.id for hit in view.search("when does the vault open?")}
        listed_ids = {memory.id for memory in view.list().memories}
        assert (memory_id in found_ids, memory_id in listed_ids, view.count()) == (
            (viewer in allowed_viewers,) * 2 + (int(viewer in allowed_viewers),)
        )


def test_private_memory_belongs_to_its_user_independent_of_the_agent(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon")
    assert keeper.as_viewer(Viewer(user="ada", agent="another", team="blue")).get(number).user == "ada"
    with pytest.raises(NotFound):
        keeper.as_viewer(Viewer(user="bob", agent="codex", team="red")).get(number)


def test_memory_without_user_belongs_to_its_agent(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(BOT, "The vault opens at noon")
    assert keeper.as_viewer(Viewer(user="ada", agent="bot")).get(number)
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).get(number)


def test_key_with_prefix_sees_sources_by_complete_segments(keeper: Keeper, add_as: AddAs) -> None:
    inside = [add_as(None, "One", visibility="global", source=item) for item in ("work/web", "work/web/api")]
    for item in ("work", "work/website", "", "other"):
        add_as(None, "Another", visibility="global", source=item)
    assert {memory.id for memory in keeper.as_viewer(BOUND).list().memories} == set(inside)


def test_memories_of_others_do_not_reduce_search_results(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault in the cellar opens at noon")
    keeper.as_viewer(EVE).add_all([f"The vault opens at noon, number {index}" for index in range(150)], dedup=False)
    results = keeper.as_viewer(ADA).search("The vault opens at noon", k=3)
    assert [hit.id for hit in results] == [number]


def test_candidates_requested_by_id_are_filtered(store: Store, add_as: AddAs) -> None:
    theirs, mine = add_as(EVE, "The vault opens at noon"), add_as(ADA, "The cellar is dry")
    vector = HashEmbedder().embed(["The vault opens at noon"], "query")[0]
    seen = ScopedStore(store, ADA)
    assert [hit.id for hit in seen.nearest(vector, 5, Scope(), also=[theirs, mine])] == [mine]
    assert seen.said([theirs, mine]).keys() == {mine}
    assert seen.holding(["vault", "cellar"], [theirs, mine]) == {theirs: [], mine: ["cellar"]}
    assert [memory.id for memory in seen.get([theirs, mine])] == [mine]


def test_scope_viewer_cannot_be_overridden(store: Store, add_as: AddAs) -> None:
    add_as(EVE, "The vault opens at noon")
    assert ScopedStore(store, ADA).page(Scope(viewer=EVE), limit=5) == ([], 0)


def test_previous_text_is_visible_only_with_the_replaced_memory(keeper: Keeper, add_as: AddAs) -> None:
    secret = add_as(ADA, "The vault opens at noon")
    new = keeper.as_viewer(ADA).supersede(secret, "The vault opens at one", visibility="global")[0].memory_id
    assert keeper.as_viewer(ADA).get(new).previous_text == "The vault opens at noon"
    result = keeper.as_viewer(EVE).get(new)
    assert (result.previous_text, result.supersedes) == (None, secret)
    assert "noon" not in "".join(keeper.as_viewer(EVE).export_lines())
    assert all(memory.previous_text is None for memory in keeper.as_viewer(EVE).list().memories)


# ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_history_contains_changes_with_visible_before_and_after(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon")
    keeper.as_viewer(ADA).update(number, visibility="team", text="The vault opens at one")
    keeper.as_viewer(ADA).update(number, tags=["vault"])
    assert [change.action for change in keeper.as_viewer(ADA).history(number)] == ["add", "edit", "edit"]
    [change] = keeper.as_viewer(BOB).history(number)
    assert change.before
    assert change.before.text == "The vault opens at one"
    with pytest.raises(NotFound):
        keeper.as_viewer(EVE).history(number)


def test_memory_made_private_has_no_history_for_others(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon", visibility="team")
    assert keeper.as_viewer(BOB).history(number)
    keeper.as_viewer(ADA).update(number, visibility="private")
    with pytest.raises(NotFound):
        keeper.as_viewer(BOB).history(number)
    assert keeper.as_viewer(BOB).changes() == []


def test_changeset_contains_only_visible_changes(keeper: Keeper) -> None:
    facts = [Fact(text="For all", visibility="global"), Fact(text="For Eve", user="eve")]
    first = keeper.add_all(facts, dedup=False, why="the eve of it")[0]
    complete = keeper.as_viewer(EVE).changeset(first.changeset)
    assert (len(complete.changes), complete.why) == (2, "the eve of it")
    part = keeper.as_viewer(ADA).changeset(first.changeset)
    assert [change.memory.text for change in part.changes] == ["For all"]
    assert (part.why, part.changes[0].why) == ("", "")
    assert [change.id for change in keeper.as_viewer(ADA).changes()] == [first.changeset]


def test_changesets_without_visible_changes_are_hidden(keeper: Keeper, add_as: AddAs) -> None:
    add_as(EVE, "The vault opens at noon")
    assert keeper.as_viewer(ADA).changes() == []
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).changeset(1)


def test_limit_applies_to_visible_changesets(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon")
    for index in range(6):
        keeper.as_viewer(ADA).update(number, tags=[str(index)])
    keeper.as_viewer(ADA).update(number, visibility="team")
    assert len(keeper.as_viewer(ADA).changes(limit=4)) == 4
    assert keeper.as_viewer(BOB).changes(limit=4) == []  # private before


def test_reason_that_may_quote_invisible_text_is_hidden(keeper: Keeper) -> None:
    about: dict[str, Any] = {"visibility": "global", "project": "/web"}
    old = keeper.add("Sofia owns the billing service", source="work/web", **about)
    result = keeper.learn(f"User: {OWNER_CHANGE}", source="other/web", user="eve", **about)
    assert [action["action"] for action in result.actions] == ["update"]
    assert "Raj" not in repr(keeper.as_viewer(BOUND).history(old.memory_id))


def test_occurrences_of_invisible_memories_are_hidden(store: Store, keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(EVE, "The vault opens at noon")
    assert ScopedStore(store, ADA).occurrences(number) == []
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).occurrences(number)


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_added_memory_gets_the_viewers_ownership(keeper: Keeper) -> None:
    forged = Fact(text="The vault opens at noon", user="eve", agent="claude", team="blue")
    memory = keeper.as_viewer(ADA).add(forged).memory
    assert (memory.user, memory.agent, memory.team) == ("ada", "codex", "red")


@pytest.mark.parametrize("source", ["", "work", "work/website", "other"])
def test_source_outside_the_prefixes_is_rejected(source: str, keeper: Keeper) -> None:
    viewer_keeper = keeper.as_viewer(BOUND)
    with pytest.raises(Forbidden, match="work/web"):
        viewer_keeper.add("The vault opens at noon", source=source)
    with pytest.raises(Forbidden):
        viewer_keeper.capture("User: " + DRIZZLE, source=source)
    with pytest.raises(Forbidden):
        viewer_keeper.learn("User: " + DRIZZLE, source=source, dry_run=True)
    with pytest.raises(Forbidden):
        viewer_keeper.import_facts([Fact(text="One", source=source)], name="test")
    assert keeper.count() == 0
    assert keeper.inbox_status().captured == 0


def test_invisible_memories_cannot_be_changed(keeper: Keeper, add_as: AddAs) -> None:
    theirs, mine = add_as(EVE, "The vault opens at noon"), add_as(ADA, "The cellar is dry")
    viewer_keeper = keeper.as_viewer(ADA)
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
            viewer_keeper.apply([decision], by="test", why="test")
    with pytest.raises(NotFound):
        viewer_keeper.restore(theirs)
    assert keeper.get(theirs).occurrences == 1
    assert not keeper.get(theirs).archived


def test_edit_cannot_change_ownership(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon")
    for changes in ({"user": "eve"}, {"agent": "claude"}, {"team": "blue"}):
        with pytest.raises(Forbidden):
            keeper.as_viewer(ADA).update(number, **changes)
    keeper.as_viewer(ADA).update(number, user="ada", tags=["same"])
    assert keeper.get(number).tags == ("same",)


def test_only_the_owner_changes_visibility(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon", visibility="team")
    keeper.as_viewer(BOB).update(number, text="The vault opens at one")
    for visibility in ("private", "global"):
        with pytest.raises(Forbidden, match="belongs to another user"):
            keeper.as_viewer(BOB).update(number, visibility=visibility)
    keeper.as_viewer(ADA).update(number, visibility="global")
    assert keeper.as_viewer(EVE).get(number).text == "The vault opens at one"


def test_edit_cannot_move_a_memory_out_of_the_prefixes(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(BOUND, "The vault opens at noon", source="work/web/a")
    keeper.as_viewer(BOUND).update(number, source="work/web/b")
    with pytest.raises(Forbidden):
        keeper.as_viewer(BOUND).update(number, source="work/api")
    assert keeper.get(number).source == "work/web/b"


def test_only_own_private_memories_can_be_purged(keeper: Keeper, add_as: AddAs) -> None:
    shared, own = add_as(ADA, "Shared", visibility="team"), add_as(ADA, "The vault opens at noon")
    with pytest.raises(Forbidden, match="admin key"):
        keeper.as_viewer(ADA).purge(shared)
    assert keeper.as_viewer(ADA).purge(own).action == "purge"
    with pytest.raises(NotFound):
        keeper.get(own)


def test_purge_keeps_captures_of_others(keeper: Keeper, add_as: AddAs) -> None:
    """Anyone can write any text into a memory of their own: purging it must not change what others captured."""
    warning = "Please remember: do not ship on Fridays"
    pending = keeper.as_viewer(BOB).capture(warning, client="c", session="s", turn="1").id
    resolved = keeper.as_viewer(BOB).capture("We do not use tabs.", wait=True, client="c", session="s", turn="2").id
    shared = add_as(BOB, "Tabs are out", context="not")
    outside = keeper.as_viewer(ADA).capture(warning, client="c", session="s", turn="1").id
    mine = keeper.as_viewer(BOUND).capture(warning, source="work/web", client="c", session="s", turn="3").id
    keeper.as_viewer(BOUND).purge(add_as(BOUND, "not", source="work/web"))
    assert _message_text(keeper, pending) == _message_text(keeper, outside) == warning
    assert _message_text(keeper, resolved) == "We do not use tabs."
    assert keeper.get(shared).context == "not"
    assert _message_text(keeper, mine) == "Please remember: do  ship on Fridays"
    keeper.purge(add_as(ADA, "not"))  # the owner of the store purges it everywhere
    assert _message_text(keeper, pending) == "Please remember: do  ship on Fridays"
    assert _message_text(keeper, resolved) == keeper.get(shared).context == ""


def _message_text(keeper: Keeper, item: int) -> str:
    exchange = keeper.item(item).exchange
    return exchange.messages[0].text if exchange else ""


def test_previous_owner_cannot_undo_a_change_of_owner(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon", visibility="team")
    values = keeper.update(number, user="bob")
    for viewer in (ADA, BOB):
        with pytest.raises(Forbidden, match="changed an owner"):
            keeper.as_viewer(viewer).undo(values.changeset)
    assert keeper.get(number).user == "bob"


def test_user_who_changes_teams_loses_the_teams_captures(keeper: Keeper) -> None:
    item = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, visibility="team", wait=True).id
    updated = keeper.as_viewer(replace(ADA, team="blue"))
    assert keeper.as_viewer(ADA).item(item).exchange
    assert updated.items() == []
    for ask in (updated.item, updated.retry):
        with pytest.raises(NotFound):
            ask(item)


def test_only_completely_visible_changesets_can_be_undone(keeper: Keeper, add_as: AddAs) -> None:
    mixed = keeper.add_all([Fact(text="For all", visibility="global"), Fact(text="For Eve", user="eve")], dedup=False)
    own = add_as(ADA, "The vault opens at noon")
    with pytest.raises(Forbidden, match="may not see"):
        keeper.as_viewer(ADA).undo(mixed[0].changeset)
    with pytest.raises(NotFound):
        keeper.as_viewer(EVE).undo(keeper.history(own)[0].changeset)
    assert keeper.as_viewer(ADA).undo(keeper.history(own)[0].changeset).changes
    assert keeper.count() == 2


def test_single_changes_cannot_be_reverted(keeper: Keeper) -> None:
    result = keeper.add_all([Fact(text="One", visibility="global"), Fact(text="Two", visibility="global")], dedup=False)
    viewer_keeper = keeper.as_viewer(ADA)
    with pytest.raises(Forbidden):
        viewer_keeper.apply([Revert(result[0].id)], by="test", why="test")
    with pytest.raises(Forbidden):
        viewer_keeper.apply([Revert(result[0].id)], by="test", why="test", undoes=result[0].changeset)
    with pytest.raises(Forbidden):
        viewer_keeper.apply([Add(Fact(text="Three"))], by="test", why="test", undoes=result[0].changeset)
    with pytest.raises(NotFound):
        keeper.as_viewer(EVE).apply([Add(Fact(text="Four"))], by="t", why="t", part_of=_add_private(keeper))
    assert keeper.changeset(result[0].changeset).undone_by is None


def _add_private(keeper: Keeper) -> int:
    return keeper.as_viewer(ADA).add("Mine alone").changeset


def test_undo_cannot_widen_visibility_of_others_memory(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon", visibility="global")
    narrowed = keeper.as_viewer(ADA).update(number, visibility="team")
    with pytest.raises(Forbidden, match="owner"):
        keeper.as_viewer(BOB).undo(narrowed.changeset)
    keeper.as_viewer(ADA).undo(narrowed.changeset)
    assert keeper.get(number).visibility == "global"


def test_adopted_memory_gets_viewers_ownership_and_a_new_id(store: Store) -> None:
    seen, at = ScopedStore(store, ADA), "2026-01-01T00:00:00Z"
    memory = Memory(id=0, text="One", user="eve", previous_text="Zero", created_at=at, updated_at=at)
    [change] = seen.apply([Adopt(memory, (Occurrence("claude"),))], {}, by="t", why="t").changes
    assert change.after
    assert (change.after.user, change.after.previous_text) == ("ada", None)
    assert [sighting.agent for sighting in seen.occurrences(change.memory_id)] == ["codex", "codex"]
    with pytest.raises(Forbidden):
        seen.apply([Adopt(replace(memory, id=1 << 60))], {}, by="t", why="t")


def test_occurrence_gets_the_viewers_agent(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon", visibility="global")
    keeper.as_viewer(EVE).apply([Noop(number, Occurrence("codex", "s1"))], by="t", why="t")
    assert [sighting.agent for sighting in keeper.occurrences(number)] == ["codex", "claude"]


def test_invisible_duplicate_is_not_disclosed(keeper: Keeper) -> None:
    about: dict[str, Any] = {"project": "/web", "visibility": "global"}
    hidden = keeper.add("The vault opens at noon", source="other", tags=["classified"], **about)
    change = keeper.as_viewer(BOUND).add("The vault opens at noon", source="work/web", **about)
    assert (change.action, change.memory.tags) == ("add", ())
    assert keeper.get(hidden.memory_id).occurrences == 1
    repeated = keeper.as_viewer(BOUND).add("The vault opens at noon", source="work/web", **about)
    assert (repeated.action, repeated.memory_id) == ("noop", change.memory_id)
    decided = keeper.as_viewer(BOUND).apply(
        [Add(Fact(text="The vault opens at noon", source="work/web", **about), unless_known=True)], by="t", why="t"
    )
    assert "classified" not in repr(decided)


def test_restore_does_not_disclose_the_merge_target(keeper: Keeper, add_as: AddAs) -> None:
    mine, theirs = add_as(ADA, "The vault opens at noon"), add_as(EVE, "The vault opens at noon sharp")
    keeper.apply([Delete(mine, into=theirs)], by="owner", why="by hand")
    change = keeper.as_viewer(ADA).restore(mine)
    assert change.memory_id == mine
    assert "sharp" not in repr(keeper.as_viewer(ADA).changeset(change.changeset))


def test_is_novel_considers_visible_memories_only(keeper: Keeper, add_as: AddAs) -> None:
    add_as(EVE, "The vault opens at noon")
    assert keeper.as_viewer(ADA).is_novel("The vault opens at noon").novel
    assert keeper.as_viewer(ADA).add("The vault opens at noon").action == "add"
    assert not keeper.as_viewer(ADA).is_novel("The vault opens at noon").novel
    assert keeper.count() == 2


def test_find_duplicates_considers_visible_memories_only(keeper: Keeper, add_as: AddAs) -> None:
    for viewer in (ADA, EVE):
        add_as(viewer, "The vault opens at noon")
        add_as(viewer, "The vault opens at noon!")
    [found] = keeper.as_viewer(ADA).find_duplicates(threshold=0.9)
    assert keeper.get(found.id).user == "ada"
    assert keeper.as_viewer(ADA).merge_duplicates(threshold=0.9)
    assert keeper.as_viewer(EVE).count() == 2


def test_find_all_returns_visible_memories_of_the_source(keeper: Keeper, add_as: AddAs) -> None:
    mine, theirs = add_as(ADA, "One", source="a"), add_as(EVE, "Two", source="a")
    keeper.as_viewer(ADA).apply(
        keeper.as_viewer(ADA).services.memories.plan_delete_all(source_prefix="a"), by="t", why="t"
    )
    assert (keeper.get(mine).archived, keeper.get(theirs).archived) == (True, False)


# ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_learned_memory_gets_the_viewers_ownership(keeper: Keeper) -> None:
    capture = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, wait=True, user="eve", agent="claude", team="blue")
    [action] = capture.result["actions"]
    memory = keeper.get(action["id"])
    assert (memory.user, memory.agent, memory.team) == ("ada", "codex", "red")


def test_worker_learns_with_the_access_of_the_sender(keeper: Keeper) -> None:
    keeper.add("Sofia owns the billing service", user="eve")
    keeper.as_viewer(ADA).capture("User: " + OWNER_CHANGE)
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
    assert [memory.user for memory in keeper.list().memories] == ["ada", "eve"]
    assert keeper.as_viewer(EVE).count() == 1


def test_private_memory_of_an_agent_is_not_changed_by_other_agents(keeper: Keeper) -> None:
    old = keeper.add("Sofia owns the billing service", agent="claude", project="/web")
    for agent in ("codex", ""):
        keeper.learn("User: " + OWNER_CHANGE, agent=agent, project="/web")
    assert not keeper.get(old.memory_id).archived
    keeper.learn("User: " + OWNER_CHANGE, agent="claude", project="/web")
    assert keeper.get(old.memory_id).archived


def test_memory_of_another_user_is_not_treated_as_echo(keeper: Keeper) -> None:
    known = "Team policy: never deploy on a Friday"
    texts = [{"role": "user", "content": "What do we know?"}]
    texts.append({"role": "assistant", "content": "We never deploy on a Friday."})
    report: dict[str, Any] = {"project": "/web", "context": "observation", "dry_run": True}
    keeper.add(known, user="eve", project="/web")
    theirs = keeper.as_viewer(EVE).learn(texts, **report)
    mine = keeper.as_viewer(ADA).learn(texts, **report)
    assert [action["reason"] for action in theirs.actions] == ["the agent repeats memory 1"]
    assert [action["action"] for action in mine.actions] == ["add"]


def test_learning_with_prefixes_does_not_change_other_sources(keeper: Keeper) -> None:
    about: dict[str, Any] = {"project": "/web", "visibility": "global"}
    old = keeper.add("Sofia owns the billing service", source="other/web", **about)
    viewer_keeper = keeper.as_viewer(BOUND)
    dry = viewer_keeper.learn("User: " + OWNER_CHANGE, source="work/web", dry_run=True, **about)
    stored = viewer_keeper.capture("User: " + OWNER_CHANGE, source="work/web", **about)
    for item in keeper.services.captures.due():
        keeper.services.captures.process(item)
    result = viewer_keeper.item(stored.id)
    for actions in (dry.actions, result.result["actions"]):
        assert [action["action"] for action in actions] == ["add"]
        assert "Sofia owns the billing service" not in repr(actions)
        assert f"memory {old.memory_id}" not in repr(actions)
    assert not keeper.get(old.memory_id).archived


def test_llm_prompt_contains_visible_memories_only(store: Store) -> None:
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


def test_same_session_id_of_two_users_is_two_sessions(keeper: Keeper) -> None:
    turn = {"client": "codex", "session": "s1", "turn": "t1"}
    first = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, wait=True, **turn)
    other = keeper.as_viewer(EVE).capture("User: We deploy with Fly.io.", wait=True, **turn)
    assert (first.new, other.new, "Drizzle" in repr(other)) == (True, True, False)
    repeated = keeper.as_viewer(ADA).capture("User: " + DRIZZLE, wait=True, **turn)
    assert (repeated.new, repeated.id) == (False, first.id)
    assert keeper.as_viewer(ADA).turns("codex", "s1") == {"t1"}
    assert keeper.turns("codex", "s1") == set()
    keeper.as_viewer(EVE).capture("User: We deploy on Fridays.", **{**turn, "turn": "t2"})
    assert keeper.turns("codex", "s1", any_key=True) == {"t1", "t2"}
    assert keeper.as_viewer(ADA).turns("codex", "s1", any_key=True) == {"t1"}  # items of others stay hidden


def test_turn_of_another_user_cannot_be_amended(keeper: Keeper) -> None:
    turn: dict[str, Any] = {"client": "codex", "session": "s1", "turn": "t1"}
    held = keeper.as_viewer(ADA).amend([{"role": "user", "content": DRIZZLE}], hold=60, **turn)
    keeper.as_viewer(EVE).amend([{"role": "assistant", "content": "We deploy with Fly.io."}], **turn)
    assert keeper.as_viewer(EVE).services.captures.release("codex", "s1") == 0
    exchange = keeper.item(held.id).exchange
    assert exchange
    assert [message.text for message in exchange.messages] == [DRIZZLE]
    assert keeper.as_viewer(ADA).services.captures.release("codex", "s1") == 1


def test_inbox_item_is_visible_to_its_sender_only(keeper: Keeper) -> None:
    texts = [{"role": "system", "content": "<memory>\n- recalled\n</memory>"}, {"role": "user", "content": DRIZZLE}]
    mine = keeper.as_viewer(ADA).capture(texts, client="codex", session="s1", turn="t1").id
    for viewer in (EVE, BOUND):
        with pytest.raises(NotFound):
            keeper.as_viewer(viewer).item(mine)
        with pytest.raises(NotFound):
            keeper.as_viewer(viewer).retry(mine)
        assert keeper.as_viewer(viewer).items() == []
    result = keeper.as_viewer(ADA).item(mine).exchange
    assert result
    assert (result.client, result.injected) == ("codex", ())
    assert [item.id for item in keeper.as_viewer(ADA).items()] == [mine]


def test_limit_applies_to_own_inbox_items(keeper: Keeper) -> None:
    mine = keeper.as_viewer(ADA).capture("User: " + DRIZZLE).id
    for _ in range(12):
        keeper.as_viewer(EVE).capture("User: We deploy with Fly.io.")
    assert [item.id for item in keeper.as_viewer(ADA).items(limit=2)] == [mine]


# ── derived data and maintenance ──────────────────────────────────────────────────────────────────────────────────────


def test_given_memories_are_separate_per_user(keeper: Keeper, add_as: AddAs) -> None:
    mine, theirs = add_as(ADA, "Mine"), add_as(EVE, "Theirs")
    keeper.as_viewer(ADA).services.captures.mark_injected("codex", "s1", {mine: "m", theirs: "t"})
    keeper.as_viewer(EVE).services.captures.mark_injected("codex", "s1", {theirs: "t"})
    assert keeper.as_viewer(ADA).services.captures.injected("codex", "s1") == {mine: "m"}
    assert keeper.as_viewer(EVE).services.captures.injected("codex", "s1") == {theirs: "t"}
    keeper.as_viewer(EVE).services.captures.clear_injected("codex", "s1")
    assert keeper.as_viewer(ADA).services.captures.injected("codex", "s1") == {mine: "m"}
    assert keeper.services.captures.injected("codex", "s1") == {}


def test_retrievals_of_invisible_memories_are_not_recorded(store: Store, keeper: Keeper, add_as: AddAs) -> None:
    theirs = add_as(EVE, "The vault opens at noon")
    ScopedStore(store, ADA).note([Retrieval(theirs, "vault", "ada", "2026-01-01T00:00:00Z")])
    assert keeper.get(theirs).retrieval_count == 0


def test_dashboard_shows_visible_memories_only(store: Store, keeper: Keeper, add_as: AddAs) -> None:
    mine, _ = add_as(ADA, "The vault opens at noon"), add_as(EVE, "The cellar opens at dawn")
    pictures = ScopedStore(store, ADA).dashboard
    for scope in (Scope(), Scope(viewer=EVE)):
        assert list(pictures.dots(scope, 9, 9).ids) == [mine]
        assert [item.count for item in pictures.arrived("2000-01-01", scope)] == [1]
    assert [item.count for item in store.dashboard.arrived("2000-01-01", Scope())] == [2]
    with pytest.raises(Forbidden):  # it counts the changes of others
        pictures.pulse()
    before = store.dashboard.pulse()
    keeper.as_viewer(ADA).recall("when does the vault open?", by="codex")
    assert keeper.dashboard.pulse().moved(before) == ["recalls"]
    assert [item.prompts for item in store.dashboard.injected("2000-01-01")] == [1]  # injections are for the owner only


def test_stats_count_visible_memories(keeper: Keeper, add_as: AddAs) -> None:
    deleted = add_as(ADA, "One", kind="policy")
    add_as(ADA, "Two", kind="policy", visibility="team")
    add_as(EVE, "Three", kind="preference")
    keeper.as_viewer(ADA).delete(deleted)
    result = keeper.as_viewer(ADA).stats()
    assert (result["memories"], result["archived"]) == (1, 1)
    assert (result["by_kind"], result["by_visibility"]) == ({"policy": 1}, {"team": 1})
    assert "eve" not in repr(result)
    assert keeper.stats().keys() == result.keys()


@pytest.mark.parametrize(
    "operation",
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
        lambda keeper: keeper.as_viewer(EVE),
    ],
)
def test_global_operations_require_an_admin_key(operation: Callable[[Keeper], Any], keeper: Keeper) -> None:
    with pytest.raises(Forbidden, match="admin key"):
        operation(keeper.as_viewer(ADA))


def test_closing_a_view_does_not_close_the_keeper(keeper: Keeper, add_as: AddAs) -> None:
    assert keeper.as_viewer(None) is keeper
    with keeper.as_viewer(ADA) as viewer_keeper:
        viewer_keeper.add("The vault opens at noon")
        viewer_keeper.search("vault")
    assert keeper.count() == 1
    assert keeper.as_viewer(ADA).usage("most")[0].retrieval_count == 1


# ── export and import ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_export_contains_all_visible_memories(keeper: Keeper, add_as: AddAs) -> None:
    first = add_as(ADA, "One")
    keeper.as_viewer(EVE).add_all([f"Eve's {index}" for index in range(1_100)], dedup=False)
    last = add_as(ADA, "Two")
    header, *lines = keeper.as_viewer(ADA).export_lines()
    assert f'"memories":2,"last_id":{last}' in header
    assert [f'{{"id":{each},' in line for each, line in zip((first, last), lines, strict=True)] == [True, True]


def test_imported_facts_get_the_viewers_ownership(keeper: Keeper) -> None:
    keeper.add("The vault opens at noon", user="eve", origin="notes/1")
    fact = Fact(text="The vault opens at noon", user="eve", origin="notes/1")
    report = keeper.as_viewer(ADA).import_facts([fact], name="notes")
    assert (report.added, keeper.as_viewer(ADA).import_facts([fact], name="notes").known) == (1, 1)
    assert keeper.list().memories[0].user == "ada"
    lines = list(keeper.export_lines())
    with pytest.raises((Forbidden, InvalidInput)):
        keeper.as_viewer(BOB).import_lines(lines, name="export")
    assert keeper.count() == 2


def test_viewer_cannot_set_identity_or_reserve_ids(store: Store) -> None:
    carrying = ScopedStore(store, ADA).snapshots
    for act in (lambda: carrying.adopt_identity("x"), lambda: carrying.reserve(5), lambda: carrying.room("x", 1 << 60)):
        with pytest.raises(Forbidden):
            act()
    assert carrying.room("x", 0) == []
    assert carrying.reserve(0) == 0


def test_second_undo_raises_conflict(keeper: Keeper, add_as: AddAs) -> None:
    number = add_as(ADA, "The vault opens at noon")
    changeset = keeper.history(number)[0].changeset
    keeper.as_viewer(ADA).undo(changeset)
    with pytest.raises(Conflict):
        keeper.as_viewer(ADA).undo(changeset)


# ── other restrictions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_user_key_without_agent_keeps_the_given_agent(keeper: Keeper) -> None:
    ada = Viewer(user="ada", team="web")
    for _ in range(3):
        keeper.as_viewer(ada).add("Reviews want a null check.", agent="bot", visibility="team")
    (found,) = keeper.detect_cross_agent_patterns()
    assert (found.agent, found.memory.user, found.occurrences) == ("bot", "ada", 3)


def test_viewer_cannot_trigger_file_checks(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "notes.py").write_text("SECRET = 1\n", encoding="utf-8")
    request = {"project": str(tree), "source": "work"}
    with Keeper(store, HashEmbedder(), FixedClock(), staleness=StalenessChecker(reads=True)) as keeper:
        assert keeper.add("The numbers are in notes.py.", **request).memory.anchors
        viewer_keeper = keeper.as_viewer(ADA)
        assert not viewer_keeper.add("My numbers are in notes.py.", **request).memory.anchors
        viewer_keeper.capture("We decided to keep the totals in notes.py because of the audit.", wait=True, **request)
        learned = [memory for memory in viewer_keeper if "totals" in memory.text]
        assert learned
        assert not any(memory.anchors for memory in learned)


def test_history_of_invisible_predecessor_is_hidden(keeper: Keeper, add_as: AddAs) -> None:
    old = add_as(ADA, "The key is under the mat.")
    written, _ = keeper.as_viewer(ADA).supersede(old, "The key is at the desk.", visibility="global")
    bob = keeper.as_viewer(BOB)
    assert [change.memory_id for change in bob.history(written.memory_id)] == [written.memory_id]
    with pytest.raises(NotFound):
        bob.history(old)


# ── domain knowledge ──────────────────────────────────────────────────────────────────────────────────────────────────


def threshold(value: float = 5_000_000, **fields: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "value": value, "direction": "above", **fields})


def put_rows(keeper: Keeper, viewer: Viewer | None, *rows: Knowledge, why: str = "") -> Changeset:
    return keeper.as_viewer(viewer).apply([PutRow(row, "noted") for row in rows], by="test", why=why)


def row_key(done: Changeset) -> str:
    return done.knowledge[0].key


@pytest.mark.parametrize(
    ("visibility", "allowed_viewers"),
    [("private", (ADA,)), ("team", (ADA, BOB, BOT)), ("global", (ADA, BOB, EVE, BOT))],
)
def test_row_is_visible_according_to_its_visibility(
    visibility: str, allowed_viewers: tuple[Viewer, ...], store: Store, keeper: Keeper
) -> None:
    key = row_key(put_rows(keeper, ADA, threshold(visibility=visibility, memory=None)))
    for viewer in (ADA, BOB, EVE, BOT):
        domain = ScopedStore(store, viewer).domain
        results = (domain.get("thresholds", [key]), domain.rows("thresholds"), domain.naming(["aapl"]))
        assert [[row.id for row in rows] for rows in results] == [[key] if viewer in allowed_viewers else []] * 3
        assert domain.counts()["thresholds"] == int(viewer in allowed_viewers)


def test_viewer_argument_cannot_be_overridden(store: Store, keeper: Keeper) -> None:
    key = row_key(put_rows(keeper, EVE, threshold()))
    domain = ScopedStore(store, ADA).domain
    assert domain.get("thresholds", [key], viewer=EVE) == domain.rows("thresholds", viewer=EVE) == []
    assert domain.naming(["aapl"], viewer=EVE) == []
    assert domain.counts(viewer=EVE)["thresholds"] == 0


def test_row_gets_the_viewers_ownership(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, ADA, threshold(user="eve", agent="claude", team="blue"))
    [row] = store.domain.rows("thresholds")
    assert (row.user, row.agent, row.team) == ("ada", "codex", "red")
    bound = put_rows(
        keeper, BOUND, threshold(source="MSFT", place="elsewhere"), threshold(source="IBM", place="work/web/api")
    )
    assert [item.after.place for item in bound.knowledge if item.after] == ["work/web/elsewhere", "work/web/api"]
    [named] = put_rows(keeper, BOUND, threshold(source="KO")).knowledge
    assert named.after
    assert named.after.place == "work/web"


def test_same_row_of_two_users_is_two_rows(store: Store, keeper: Keeper) -> None:
    for viewer in (ADA, EVE, None):
        put_rows(keeper, viewer, threshold(1))
    repeated = put_rows(keeper, ADA, threshold(2))
    assert [change.action for change in repeated.knowledge] == ["update"]
    assert len(store.domain.rows("thresholds")) == 3
    assert [row.value for row in ScopedStore(store, EVE).domain.rows("thresholds") if isinstance(row, Threshold)] == [1]


def test_global_row_is_not_overwritten_by_own_row(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, None, threshold(1, visibility="global"))
    put_rows(keeper, ADA, threshold(2))
    shared, mine = ScopedStore(store, EVE).domain.rows("thresholds"), ScopedStore(store, ADA).domain.rows("thresholds")
    assert [row.visibility for row in shared] == ["global"]
    assert {row.visibility for row in mine} == {"global", "private"}


def test_id_used_by_another_user_gets_a_suffix(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, EVE, threshold(1, id="alert"))
    first = put_rows(keeper, ADA, threshold(2, id="alert"))
    assert row_key(first).startswith("alert~")
    assert row_key(put_rows(keeper, ADA, threshold(3, id="alert"))) == row_key(first)
    assert row_key(put_rows(keeper, ADA, threshold(4, id=row_key(first)))) == row_key(first)
    assert [(row.id, row.user) for row in store.domain.get("thresholds", ["alert"])] == [("alert", "eve")]
    assert len(store.domain.rows("thresholds")) == 2
    long = "x" * 200
    put_rows(keeper, EVE, threshold(1, id=long))
    assert row_key(put_rows(keeper, ADA, threshold(2, id=long))) != long


def test_id_deleted_by_another_user_is_not_reused(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, EVE, threshold(1, id="alert"))
    deleted = keeper.as_viewer(EVE).apply([DeleteRow("thresholds", "alert")], by="eve", why="")
    assert row_key(put_rows(keeper, ADA, threshold(2, id="alert"))) != "alert"
    keeper.as_viewer(EVE).undo(deleted.id)
    assert [row.user for row in store.domain.get("thresholds", ["alert"])] == ["eve"]


def test_team_row_is_edited_by_members_and_keeps_its_owner(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, ADA, threshold(1, id="alert", visibility="team"))
    put_rows(keeper, BOB, threshold(2, id="alert", visibility="team"))
    [row] = store.domain.get("thresholds", ["alert"])
    assert isinstance(row, Threshold)
    assert (row.value, row.user) == (2, "ada")
    with pytest.raises(Forbidden, match="belongs to another user"):
        put_rows(keeper, BOB, threshold(3, id="alert", visibility="private"))
    with pytest.raises(Forbidden, match="belongs to another user"):
        put_rows(keeper, BOB, threshold(3, id="alert", visibility="global"))
    put_rows(keeper, ADA, threshold(3, id="alert", visibility="private"))
    assert ScopedStore(store, BOB).domain.rows("thresholds") == []


def test_row_put_back_keeps_its_owner(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, BOT, threshold(1))
    both = Viewer(user="ada", agent="bot", team="red")
    [row] = ScopedStore(store, both).domain.rows("thresholds")
    assert isinstance(row, Threshold)
    result = put_rows(keeper, both, replace(row, value=2))
    assert [change.action for change in result.knowledge] == ["update"]
    assert [row.user for row in store.domain.rows("thresholds")] == [""]


def test_row_cannot_be_moved_out_of_the_prefixes(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, BOUND, threshold(1, id="alert", place="work/web/api"))
    put_rows(keeper, BOUND, threshold(2, id="alert", place="elsewhere"))
    assert [row.place for row in store.domain.get("thresholds", ["alert"])] == ["work/web/api"]


def test_invisible_rows_cannot_be_changed(store: Store, keeper: Keeper) -> None:
    key = row_key(put_rows(keeper, EVE, threshold()))
    ada = keeper.as_viewer(ADA)
    for decision in (DeleteRow("thresholds", key), PurgeRow("thresholds", key)):
        with pytest.raises(NotFound, match="no thresholds/"):
            ada.apply([decision], by="ada", why="")
    with pytest.raises(NotFound):
        ScopedStore(store, ADA).domain.history("thresholds", key)
    assert len(store.domain.rows("thresholds")) == 1


def test_only_own_private_rows_can_be_purged(store: Store, keeper: Keeper) -> None:
    ada = keeper.as_viewer(ADA)
    shared, own = (
        row_key(put_rows(keeper, ADA, threshold(visibility="team"))),
        row_key(put_rows(keeper, ADA, threshold())),
    )
    with pytest.raises(Forbidden):
        ada.apply([PurgeRow("thresholds", shared)], by="ada", why="")
    result = ada.apply([PurgeRow("thresholds", own)], by="ada", why="")
    assert [change.action for change in result.knowledge] == ["purge"]
    assert [row.id for row in store.domain.rows("thresholds")] == [shared]
    keeper.as_viewer(BOB).apply([DeleteRow("thresholds", shared)], by="bob", why="")
    assert store.domain.rows("thresholds") == []


def test_row_cannot_link_to_an_invisible_memory(keeper: Keeper, add_as: AddAs) -> None:
    with pytest.raises(NotFound, match="no memory"):
        put_rows(keeper, ADA, threshold(memory=add_as(EVE, "The vault opens at noon")))
    assert put_rows(keeper, ADA, threshold(memory=add_as(ADA, "The vault opens at noon"))).knowledge[0].action == "add"


def test_rows_of_a_memory_are_filtered_by_visibility(store: Store, keeper: Keeper, add_as: AddAs) -> None:
    memory = add_as(None, "The vault opens at noon", visibility="global")
    put_rows(keeper, None, threshold(memory=memory, visibility="global"), threshold(source="MSFT", memory=memory))
    assert len(store.domain.stated_by([memory])) == 2
    assert [item.visibility for item in ScopedStore(store, ADA).domain.stated_by([memory])] == ["global"]


def test_row_history_contains_changes_with_visible_before_and_after(store: Store, keeper: Keeper) -> None:
    put_rows(keeper, ADA, threshold(1, id="alert"), why="first")
    put_rows(keeper, ADA, threshold(2, id="alert", visibility="team"), why="second")
    put_rows(keeper, ADA, threshold(3, id="alert", visibility="team"), why="third")
    result = ScopedStore(store, BOB).domain.history("thresholds", "alert")
    assert [(change.action, change.why) for change in result] == [("update", "third")]
    assert len(ScopedStore(store, ADA).domain.history("thresholds", "alert")) == 3
    put_rows(keeper, ADA, threshold(3, id="alert"))
    with pytest.raises(NotFound):
        ScopedStore(store, BOB).domain.history("thresholds", "alert")


def test_knowledge_changeset_contains_only_visible_changes(keeper: Keeper) -> None:
    shared, secret = threshold(visibility="global"), threshold(source="Zebra", user="eve")
    result = put_rows(keeper, None, shared, secret, why="zebras")
    outcome = keeper.as_viewer(ADA).changeset(result.id)
    assert [(change.key, change.reason) for change in outcome.knowledge] == [("aapl.volume.above", "")]
    assert outcome.why == ""
    assert "zebra" not in repr(outcome).lower()
    with pytest.raises(Forbidden, match="may not see"):
        keeper.as_viewer(ADA).undo(result.id)
    alone = put_rows(keeper, EVE, secret)
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).changeset(alone.id)
    with pytest.raises(NotFound):
        keeper.as_viewer(ADA).undo(alone.id)


def test_changeset_with_invisible_rows_hides_reasons_of_memory_changes(keeper: Keeper) -> None:
    fact = Fact(text="The vault opens at noon", visibility="global")
    decisions = [Add(fact, "quoting zebras"), PutRow(threshold(source="Zebra", user="eve"))]
    result = keeper.apply(decisions, by="owner", why="zebras")
    ada = keeper.as_viewer(ADA)
    outcome = ada.changeset(result.id)
    assert (len(outcome.changes), outcome.knowledge, outcome.why) == (1, (), "")
    assert [(change.reason, change.why) for change in ada.history(result.changes[0].memory_id)] == [("", "")]
    with pytest.raises(Forbidden):
        ada.undo(result.id)


def test_limit_applies_to_visible_knowledge_changesets(keeper: Keeper) -> None:
    mine = put_rows(keeper, ADA, threshold(1))
    dropped = keeper.as_viewer(ADA).apply([DeleteRow("thresholds", row_key(mine))], by="ada", why="")
    for number in range(30):
        put_rows(keeper, EVE, threshold(number))
    assert [change.id for change in keeper.as_viewer(ADA).changes(limit=5)] == [dropped.id, mine.id]
    assert [change.id for change in keeper.as_viewer(ADA).changes(limit=1)] == [dropped.id]


def test_visible_put_can_be_undone_by_a_team_member(store: Store, keeper: Keeper) -> None:
    result = put_rows(keeper, ADA, threshold(visibility="team"))
    undo = keeper.as_viewer(BOB).undo(result.id)
    assert [change.action for change in undo.knowledge] == ["revert"]
    assert store.domain.rows("thresholds") == []
    keeper.as_viewer(ADA).undo(undo.id)
    assert len(store.domain.rows("thresholds")) == 1


def test_visibility_change_cannot_be_undone_by_others(keeper: Keeper) -> None:
    put_rows(keeper, ADA, threshold(id="alert", visibility="team"))
    wider = put_rows(keeper, ADA, threshold(id="alert", visibility="global"))
    with pytest.raises(Forbidden):
        keeper.as_viewer(BOB).undo(wider.id)
    keeper.as_viewer(ADA).undo(wider.id)


def test_single_rows_cannot_be_withdrawn(keeper: Keeper) -> None:
    done, other = (
        put_rows(keeper, ADA, threshold(), threshold(source="MSFT")),
        put_rows(keeper, ADA, threshold(source="IBM")),
    )
    ada = keeper.as_viewer(ADA)
    first, second = (RevertRow(change.id) for change in done.knowledge)
    for undoes, rows in (
        (None, [first]),
        (done.id, [first]),
        (other.id, [first, second]),
        (done.id, [first, PutRow(threshold(9))]),
    ):
        with pytest.raises(Forbidden):
            ada.apply(rows, by="ada", why="", undoes=undoes)
    ada.apply([second, first], by="ada", why="", undoes=done.id)


def test_export_contains_visible_rows(keeper: Keeper) -> None:
    for number in range(3):
        put_rows(keeper, EVE, *(threshold(source=f"Zebra {number}.{index}") for index in range(300)))
    put_rows(
        keeper, ADA, threshold(source="Zulu"), Pattern(pattern="It rains"), threshold(source="Alpha", visibility="team")
    )
    lines = [json.loads(line) for line in keeper.as_viewer(BOB).export_lines()]
    assert [line.get("source") for line in lines[1:]] == ["Alpha"]
    assert lines[0]["knowledge"] == 1
    assert "zebra" not in "".join(keeper.as_viewer(ADA).export_lines()).lower()
    assert len(list(keeper.as_viewer(ADA).export_lines())) == 4


def test_notes_require_an_admin_key(store: Store) -> None:
    with pytest.raises(Forbidden, match="Notes are not allowed with this key"):
        assert ScopedStore(store, ADA).notes
