"""Contract suite of projects and of the memories given to sessions. Subclasses define a `store` fixture."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.models.memory import Add, Delete, Edit, Fact, Memory, Purge, Scope, merge_scope
from cofio.ports import Store
from tests.stores.contract import add, apply, everything, undo, vector
from tests.stores.inbox_contract import FAR_FUTURE

WEB, API = "/srv/web", "/home/ada/web"  # same folder name


def find_ids(store: Store, scope: Scope, text: str = "red green blue") -> set[int]:
    """Return the ids in the scope. All search methods must agree."""
    results = [
        {hit.id for hit in store.nearest(vector(text), 500, scope)},
        {candidate.id for candidate in store.matching(["red"], 500, scope).candidates},
        set(store.known(text, scope)),
        {memory.id for memory in store.page(scope, limit=500)[0]},
    ]
    assert all(result == results[0] for result in results), results
    assert store.page(scope, limit=1)[1] == len(results[0])
    return results[0]


def add_to_each_project(store: Store, **fields: Any) -> dict[str, Memory]:
    """Add the same text to two projects, to none, and as global memory."""
    return {
        "web": add(store, "red green blue", project=WEB, **fields),
        "api": add(store, "red green blue", project=API, **fields),
        "none": add(store, "red green blue", **fields),
        "shared": add(store, "red green blue", project=API, visibility="global", **fields),
    }


class ProjectContract:
    """Tests of projects and given memories."""

    # ── projects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_memory_keeps_its_project(self, store: Store) -> None:
        memory = add(store, "red green blue", project=WEB)
        assert memory.project == WEB
        assert store.get([memory.id]) == [memory]
        assert add(store, "red green").project == ""

    def test_project_matches_by_complete_name(self, store: Store) -> None:
        memories = add_to_each_project(store)
        add(store, "red green blue", project=f"{WEB}/below")
        assert find_ids(store, Scope(project=WEB)) == {memories["web"].id}
        assert find_ids(store, Scope(project=API)) == {memories["api"].id, memories["shared"].id}
        assert find_ids(store, Scope(project="/srv")) == set()

    def test_empty_project_finds_memories_without_project(self, store: Store) -> None:
        memories = add_to_each_project(store)
        assert find_ids(store, Scope(project="")) == {memories["none"].id}

    def test_visible_in_finds_own_unassigned_and_global_memories(self, store: Store) -> None:
        memories = add_to_each_project(store)
        add(store, "red green blue", project=API, visibility="team")
        assert find_ids(store, Scope(visible_in=WEB)) == {
            memories["web"].id,
            memories["none"].id,
            memories["shared"].id,
        }
        assert find_ids(store, Scope(visible_in="")) == {memories["none"].id, memories["shared"].id}
        assert find_ids(store, Scope(visible_in="/srv/new")) == {memories["none"].id, memories["shared"].id}

    def test_project_filter_combines_with_other_filters(self, store: Store) -> None:
        memories = add_to_each_project(store, tags=("a",))
        apply(store, Delete(memories["web"].id), Edit(memories["none"].id, {"tags": ["b"]}))
        assert find_ids(store, Scope(visible_in=WEB, tags=("a",))) == {memories["shared"].id}
        archived = Scope(visible_in=WEB, tags=("a",), include_archived=True)
        assert find_ids(store, archived) == {memories["web"].id, memories["shared"].id}
        assert find_ids(store, Scope(project=API, visibility=("private",))) == {memories["api"].id}

    def test_nearest_returns_k_results_in_a_small_project(self, store: Store) -> None:
        apply(store, *(Add(Fact(text=f"red green blue {index}", project=API)) for index in range(300)))
        own = {add(store, f"red yellow {index}", project=WEB).id for index in range(3)}
        for scope in (Scope(project=WEB), Scope(visible_in=WEB)):
            for _ in range(2):  # the second time the scope is cached
                assert {hit.id for hit in store.nearest(vector("red green blue"), 3, scope)} == own
                assert {candidate.id for candidate in store.matching(["red", "green"], 3, scope).candidates} == own

    def test_memory_is_moved_to_another_project_and_back(self, store: Store) -> None:
        memory = add(store, "red green blue", project=WEB)
        result = apply(store, Edit(memory.id, {"project": API}))
        assert (find_ids(store, Scope(project=WEB)), find_ids(store, Scope(project=API))) == (set(), {memory.id})
        undo(store, result.id)
        assert everything(store) == [memory]
        assert find_ids(store, Scope(project=WEB)) == {memory.id}

    @pytest.mark.parametrize("fields", [{"source": "codex/web"}, {"source": "claude-code/web"}, {}])
    def test_same_text_in_a_project_is_one_memory_for_all_sources(self, store: Store, fields: dict[str, str]) -> None:
        first = add(store, "We use tabs", project=WEB, source="claude-code/web")
        change = apply(store, Add(Fact(text="we use  tabs", project=WEB, **fields), unless_known=True)).changes[0]
        assert (change.action, change.memory_id) == ("noop", first.id)

    def test_same_text_in_another_project_is_another_memory(self, store: Store) -> None:
        add(store, "We use tabs", project=WEB, source="cc/web")
        for elsewhere in ({"project": API}, {"project": ""}, {"project": WEB, "agent": "a"}):
            change = apply(store, Add(Fact(text="We use tabs", source="cc/web", **elsewhere), unless_known=True))
            assert change.changes[0].action == "add", elsewhere

    def test_memory_is_found_where_it_belongs(self, store: Store) -> None:
        memories = [
            add(store, "red green blue", project=project, source=source, agent=agent, visibility=visibility)
            for project in ("", WEB)
            for source in ("cc/web", "codex/web")
            for agent in ("", "a")
            for visibility in ("private", "team")
        ]
        for memory in memories:
            inside = find_ids(store, merge_scope(memory))
            same = {
                other.id
                for other in memories
                if (other.project, other.visibility) == (memory.project, memory.visibility)
                and (memory.project or other.source == memory.source)
                and (memory.visibility == "team" or not memory.agent or other.agent == memory.agent)
            }
            assert inside == same

    # ── given memories ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_given_returns_memories_of_the_session(self, store: Store) -> None:
        first, second = add(store, "one").id, add(store, "two").id
        store.mark_injected("cc", "s1", {first: "d1"})
        store.mark_injected("cc", "s1", {second: "d2"})
        store.mark_injected("cc", "s2", {second: "d2"})
        store.mark_injected("cc", "s3", {})
        assert store.injected("cc", "s1") == {first: "d1", second: "d2"}
        assert store.injected("cc", "s2") == {second: "d2"}
        assert store.injected("cc", "s3") == store.injected("codex", "s1") == {}

    def test_memory_given_again_replaces_its_digest(self, store: Store) -> None:
        memory_id = add(store, "one").id
        store.mark_injected("cc", "s1", {memory_id: "old"})
        store.mark_injected("cc", "s1", {memory_id: "new"})
        assert store.injected("cc", "s1") == {memory_id: "new"}

    def test_purged_and_unknown_memories_are_not_given(self, store: Store) -> None:
        first, second = add(store, "one").id, add(store, "two").id
        store.mark_injected("cc", "s1", {first: "d1", second: "d2", 999: "never was", 1 << 80: "cannot be"})
        assert store.injected("cc", "s1") == {first: "d1", second: "d2"}
        apply(store, Purge(first))
        apply(store, Delete(second))  # an archived memory can come back
        assert store.injected("cc", "s1") == {second: "d2"}

    def test_forget_given_clears_one_session(self, store: Store) -> None:
        memory_id = add(store, "one").id
        for session in ("s1", "s2"):
            store.mark_injected("cc", session, {memory_id: "d1"})
        store.clear_injected("cc", "s1")
        store.clear_injected("cc", "unheard of")
        assert (store.injected("cc", "s1"), store.injected("cc", "s2")) == ({}, {memory_id: "d1"})

    def test_given_memories_are_forgotten_after_a_time(self, store: Store) -> None:
        first, second = add(store, "one"), add(store, "two")
        store.mark_injected("cc", "old", {first.id: "d1", second.id: "d2"})
        later = add(store, "three").created_at
        store.mark_injected("cc", "new", {first.id: "d1"})
        assert store.forget_injected_before(first.created_at) == 0
        assert store.forget_injected_before(later) == 2
        assert (store.injected("cc", "old"), store.injected("cc", "new")) == ({}, {first.id: "d1"})
        assert store.forget_injected_before(FAR_FUTURE) == 1
