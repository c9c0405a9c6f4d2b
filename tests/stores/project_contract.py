"""What every Store must do with projects, and with what sessions were given. Give a `store` fixture."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.models.memory import Add, Delete, Edit, Fact, Memory, Purge, Scope, merge_scope
from cofio.ports import Store
from tests.stores.contract import add, apply, everything, undo, vector
from tests.stores.inbox_contract import FOR_EVER

WEB, API = "/srv/web", "/home/ada/web"  # namesakes


def found(store: Store, scope: Scope, text: str = "red green blue") -> set[int]:
    """What the scope holds; every way of finding has to agree."""
    ways = [
        {each.id for each in store.nearest(vector(text), 500, scope)},
        {candidate.id for candidate in store.matching(["red"], 500, scope).candidates},
        set(store.known(text, scope)),
        {memory.id for memory in store.page(scope, limit=500)[0]},
    ]
    assert all(way == ways[0] for way in ways), ways
    assert store.page(scope, limit=1)[1] == len(ways[0])
    return ways[0]


def everywhere(store: Store, **about: Any) -> dict[str, Memory]:
    """The same, said in two projects, in none and to everybody."""
    return {
        "web": add(store, "red green blue", project=WEB, **about),
        "api": add(store, "red green blue", project=API, **about),
        "none": add(store, "red green blue", **about),
        "shared": add(store, "red green blue", project=API, visibility="global", **about),
    }


class ProjectContract:
    """The suite."""

    # ── projects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_memory_keeps_its_project(self, store: Store) -> None:
        memory = add(store, "red green blue", project=WEB)
        assert memory.project == WEB
        assert store.get([memory.id]) == [memory]
        assert add(store, "red green").project == ""

    def test_a_project_is_found_by_its_whole_name(self, store: Store) -> None:
        told = everywhere(store)
        add(store, "red green blue", project=f"{WEB}/below")
        assert found(store, Scope(project=WEB)) == {told["web"].id}
        assert found(store, Scope(project=API)) == {told["api"].id, told["shared"].id}
        assert found(store, Scope(project="/srv")) == set()

    def test_what_belongs_to_no_project_is_found_as_such(self, store: Store) -> None:
        told = everywhere(store)
        assert found(store, Scope(project="")) == {told["none"].id}

    def test_from_a_project_one_sees_its_own_what_belongs_to_none_and_what_is_global(self, store: Store) -> None:
        told = everywhere(store)
        add(store, "red green blue", project=API, visibility="team")
        assert found(store, Scope(visible_in=WEB)) == {told["web"].id, told["none"].id, told["shared"].id}
        assert found(store, Scope(visible_in="")) == {told["none"].id, told["shared"].id}
        assert found(store, Scope(visible_in="/srv/new")) == {told["none"].id, told["shared"].id}

    def test_a_project_narrows_along_with_everything_else(self, store: Store) -> None:
        told = everywhere(store, tags=("a",))
        apply(store, Delete(told["web"].id), Edit(told["none"].id, {"tags": ["b"]}))
        assert found(store, Scope(visible_in=WEB, tags=("a",))) == {told["shared"].id}
        archived = Scope(visible_in=WEB, tags=("a",), include_archived=True)
        assert found(store, archived) == {told["web"].id, told["shared"].id}
        assert found(store, Scope(project=API, visibility=("private",))) == {told["api"].id}

    def test_a_small_project_gets_its_own_in_a_crowd(self, store: Store) -> None:
        apply(store, *(Add(Fact(text=f"red green blue {place}", project=API)) for place in range(300)))
        own = {add(store, f"red yellow {place}", project=WEB).id for place in range(3)}
        for scope in (Scope(project=WEB), Scope(visible_in=WEB)):
            for _ in range(2):  # the second time the scope is known
                assert {each.id for each in store.nearest(vector("red green blue"), 3, scope)} == own
                assert {candidate.id for candidate in store.matching(["red", "green"], 3, scope).candidates} == own

    def test_a_memory_moves_to_another_project_and_back(self, store: Store) -> None:
        memory = add(store, "red green blue", project=WEB)
        done = apply(store, Edit(memory.id, {"project": API}))
        assert (found(store, Scope(project=WEB)), found(store, Scope(project=API))) == (set(), {memory.id})
        undo(store, done.id)
        assert everything(store) == [memory]
        assert found(store, Scope(project=WEB)) == {memory.id}

    @pytest.mark.parametrize("again", [{"source": "codex/web"}, {"source": "claude-code/web"}, {}])
    def test_within_a_project_the_same_words_are_one_memory_whoever_says_them(
        self, store: Store, again: dict[str, str]
    ) -> None:
        first = add(store, "We use tabs", project=WEB, source="claude-code/web")
        change = apply(store, Add(Fact(text="we use  tabs", project=WEB, **again), unless_known=True)).changes[0]
        assert (change.action, change.memory_id) == ("noop", first.id)

    def test_in_another_project_the_same_words_are_another_memory(self, store: Store) -> None:
        add(store, "We use tabs", project=WEB, source="cc/web")
        for elsewhere in ({"project": API}, {"project": ""}, {"project": WEB, "agent": "a"}):
            change = apply(store, Add(Fact(text="We use tabs", source="cc/web", **elsewhere), unless_known=True))
            assert change.changes[0].action == "add", elsewhere

    def test_where_a_memory_belongs_is_where_it_is_found(self, store: Store) -> None:
        told = [
            add(store, "red green blue", project=project, source=source, agent=agent, visibility=visibility)
            for project in ("", WEB)
            for source in ("cc/web", "codex/web")
            for agent in ("", "a")
            for visibility in ("private", "team")
        ]
        for memory in told:
            inside = found(store, merge_scope(memory))
            same = {
                other.id
                for other in told
                if (other.project, other.visibility) == (memory.project, memory.visibility)
                and (memory.project or other.source == memory.source)
                and (memory.visibility == "team" or not memory.agent or other.agent == memory.agent)
            }
            assert inside == same

    # ── what sessions were given ──────────────────────────────────────────────────────────────────────────────────────

    def test_a_session_is_told_what_it_was_given(self, store: Store) -> None:
        one, two = add(store, "one").id, add(store, "two").id
        store.give("cc", "s1", {one: "d1"})
        store.give("cc", "s1", {two: "d2"})
        store.give("cc", "s2", {two: "d2"})
        store.give("cc", "s3", {})
        assert store.given("cc", "s1") == {one: "d1", two: "d2"}
        assert store.given("cc", "s2") == {two: "d2"}
        assert store.given("cc", "s3") == store.given("codex", "s1") == {}

    def test_what_is_given_again_in_other_words_is_noted_with_those(self, store: Store) -> None:
        one = add(store, "one").id
        store.give("cc", "s1", {one: "old"})
        store.give("cc", "s1", {one: "new"})
        assert store.given("cc", "s1") == {one: "new"}

    def test_a_memory_that_is_gone_was_given_to_nobody(self, store: Store) -> None:
        one, two = add(store, "one").id, add(store, "two").id
        store.give("cc", "s1", {one: "d1", two: "d2", 999: "never was", 1 << 80: "cannot be"})
        assert store.given("cc", "s1") == {one: "d1", two: "d2"}
        apply(store, Purge(one))
        apply(store, Delete(two))  # archived, it can come back
        assert store.given("cc", "s1") == {two: "d2"}

    def test_a_session_that_begins_anew_was_given_nothing(self, store: Store) -> None:
        one = add(store, "one").id
        for session in ("s1", "s2"):
            store.give("cc", session, {one: "d1"})
        store.forget_given("cc", "s1")
        store.forget_given("cc", "unheard of")
        assert (store.given("cc", "s1"), store.given("cc", "s2")) == ({}, {one: "d1"})

    def test_what_was_given_long_ago_is_forgotten(self, store: Store) -> None:
        one, two = add(store, "one"), add(store, "two")
        store.give("cc", "old", {one.id: "d1", two.id: "d2"})
        later = add(store, "three").created_at
        store.give("cc", "new", {one.id: "d1"})
        assert store.forget_given_before(one.created_at) == 0
        assert store.forget_given_before(later) == 2
        assert (store.given("cc", "old"), store.given("cc", "new")) == ({}, {one.id: "d1"})
        assert store.forget_given_before(FOR_EVER) == 1
