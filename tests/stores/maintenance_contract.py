"""Contract suite of merging, adopting, anchors and usage statistics. Subclasses define a `store` fixture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.memory import (
    Add,
    Adopt,
    Anchor,
    Decision,
    Delete,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Restore,
    Retrieval,
    Scope,
)
from cofio.ports import Store
from tests.stores.contract import add, apply, everything, undo, vector

ANCHOR = Anchor(kind="file", name="app.py", path="src/app.py", hash="0123456789abcdef")
EARLIEST = "2000-01-01T00:00:00Z"
LATER = "2026-06-01T00:00:00Z"


def record_retrievals(store: Store, memory: Memory, *when: str, query: str = "q") -> None:
    store.note([Retrieval(memory.id, query, "ada", item) for item in when])


def merge(store: Store, *members: Memory, text: str = "Tests run on PostgreSQL 16, in parallel") -> list[Memory]:
    """Merge memories; return the new memory and its archived members."""
    decision = Merge(tuple(member.id for member in members), Fact(text=text), "one fact")
    result = store.apply([decision], {0: vector(text)}, by="test", why="consolidate")
    return [change.memory for change in result.changes]


class MaintenanceContract:
    """Tests of the maintenance operations."""

    # ── merging ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_merge_archives_members_and_links_them_to_the_new_memory(self, store: Store) -> None:
        first, second = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        heir, *gone = merge(store, first, second)
        assert [item.superseded_by for item in gone] == [heir.id, heir.id]
        assert all(item.archived for item in gone)
        assert store.get([heir.id]) == [heir]
        assert store.nearest(vector(heir.text), 5, Scope())[0].id == heir.id
        assert {change.memory_id for change in store.history(heir.id)} == {first.id, second.id, heir.id}
        assert len(store.occurrences(heir.id)) == 3

    def test_merged_memory_takes_over_counts_and_pin(self, store: Store) -> None:
        first, second = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        apply(store, Noop(first.id), Edit(second.id, {"pinned": True}))
        record_retrievals(store, first, "2026-03-01T00:00:00.000000+00:00", "2026-03-02T00:00:00.000000+00:00")
        record_retrievals(store, second, "2026-03-04T00:00:00.000000+00:00")
        successor = store.get([merge(store, first, second)[0].id])[0]
        assert (successor.occurrences, successor.retrieval_count, successor.pinned) == (3, 3, True)
        assert successor.last_retrieved_at == "2026-03-04T00:00:00.000000+00:00"

    def test_undone_merge_restores_the_members(self, store: Store) -> None:
        first, second = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel", anchors=(ANCHOR,))
        record_retrievals(store, first, "2026-03-01T00:00:00.000000+00:00")
        before = everything(store)
        successor = merge(store, first, second)[0]
        new_undo = undo(store, store.changesets(1)[0].id)
        assert everything(store) == before
        undo(store, new_undo.id)
        assert store.get([first.id])[0].superseded_by == successor.id
        assert store.get([successor.id]) == [successor]

    def test_decisions_based_on_outdated_state_are_rejected(self, store: Store) -> None:
        first, second = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        as_of = store.changesets(1)[0].id
        apply(store, Noop(second.id))
        before = everything(store)
        outdated: list[Decision] = [
            Delete(second.id, as_of=as_of),
            Delete(first.id, into=second.id, as_of=as_of),
            Merge((first.id, second.id), Fact(text="x"), as_of=as_of),
        ]
        for decision in outdated:
            with pytest.raises(Conflict, match="since it was read"):
                store.apply([decision], {}, by="test", why="")
        assert everything(store) == before
        assert store.usage.touched([first.id, second.id], as_of) == {second.id}
        both = [Delete(first.id, into=second.id, as_of=as_of + 1), Delete(second.id, as_of=as_of + 1)]
        apply(store, *both)  # changes of the same changeset do not count
        assert store.page(Scope(), limit=5)[1] == 0

    def test_merge_requires_two_live_memories(self, store: Store) -> None:
        first, second = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        before = everything(store)
        for decision, error in (
            (Merge((first.id, first.id), Fact(text="x")), InvalidInput),
            (Merge((first.id, 999), Fact(text="x")), NotFound),
        ):
            with pytest.raises(error):
                store.apply([decision], {0: vector("x")}, by="test", why="")
        apply(store, Delete(second.id))
        with pytest.raises(Conflict, match="is archived"):
            merge(store, first, second)
        undo(store, store.changesets(1)[0].id)
        assert everything(store) == before

    # ── adopting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_adopted_memory_keeps_all_fields(self, store: Store) -> None:
        there = Memory(
            id=40, text="Ann reviews", source="web", created_at="2025-01-01T00:00:00.000000+00:00", pinned=True,
            updated_at="2025-02-01T00:00:00.000000+00:00", archived_at="2025-03-01T00:00:00.000000+00:00",
            occurrences=3, supersedes=7, previous_text="Bob reviews", retrieval_count=9, anchors=(ANCHOR,),
            origin="mem0/1", last_retrieved_at="2025-02-02T00:00:00.000000+00:00", tags=("team",), metadata={"a": [1]},
        )  # fmt: skip
        seen = (
            Occurrence("ada", "s1", "2025-01-02T00:00:00.000000+00:00"),
            Occurrence("", "", "2025-01-03T00:00:00.000000+00:00"),
        )
        result = store.apply([Adopt(there, seen)], {0: vector(there.text)}, by="test", why="import")
        assert store.get([40]) == [there]
        assert store.occurrences(40)[1:] == list(seen)
        assert add(store, "a new one").id == 41
        new_undo = undo(store, result.id)
        assert [memory.id for memory in everything(store)] == [41]
        redo = undo(store, new_undo.id)
        assert store.get([40]) == [there]
        assert store.occurrences(40)[1:] == list(seen)
        undo(store, redo.id)
        assert [memory.id for memory in everything(store)] == [41]

    def test_adopt_does_not_overwrite_a_memory(self, store: Store) -> None:
        known = add(store, "we use tabs")
        with pytest.raises(Conflict, match="already"):
            store.apply([Adopt(replace(known, text="we use spaces"))], {}, by="test", why="")
        new = store.apply([Adopt(replace(known, id=0, text="we use spaces"))], {}, by="test", why="").changes[0].memory
        assert new.id != known.id
        assert store.get([known.id]) == [known]
        assert [memory.id for memory in store.unembedded(5)] == [new.id]

    # ── anchors ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_anchors_and_origin_are_stored_edited_and_undone(self, store: Store) -> None:
        memory = add(store, "the retry limit is in src/app.py", anchors=(ANCHOR,), origin="mem0/1")
        assert store.get([memory.id])[0].anchors == (ANCHOR,)
        result = apply(store, Edit(memory.id, {"anchors": (replace(ANCHOR, hash="ffff"),)}))
        assert store.get([memory.id])[0].anchors[0].hash == "ffff"
        undo(store, result.id)
        assert store.get([memory.id]) == [memory]

    # ── usage ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_usage_views_return_most_never_and_no_longer_recalled_memories(self, store: Store) -> None:
        often, once, never, gone = (add(store, f"fact number {n}", source=f"s/{n}") for n in range(4))
        record_retrievals(store, often, "2026-02-01T00:00:00.000000+00:00", "2026-05-01T00:00:00.000000+00:00")
        record_retrievals(store, once, "2026-01-15T00:00:00.000000+00:00")
        apply(store, Delete(gone.id))

        def seen(view: str, **within: str) -> list[int]:
            return [m.id for m in store.usage.view(view, Scope(**within), 10, "2026-03-01T00:00:00Z")]  # type: ignore[arg-type]

        assert seen("never") == [never.id]
        assert seen("most") == [often.id, once.id]
        assert seen("stale") == [once.id]
        assert seen("most", source="s/1") == [once.id]
        assert len(store.usage.view("most", Scope(), 1, LATER)) == 1

    def test_tracking_starts_with_first_retrieval_and_survives_forgetting(self, store: Store) -> None:
        memory = add(store, "we use tabs")
        assert (store.usage.tracking(EARLIEST).since, store.usage.tracking(EARLIEST).days) == (None, 0)
        first, second = "2026-02-01T08:00:00.000000+00:00", "2026-02-01T09:00:00.000000+00:00"
        record_retrievals(store, memory, first, second)
        record_retrievals(store, memory, "2026-03-01T09:00:00.000000+00:00")
        assert (store.usage.tracking(EARLIEST).since, store.usage.tracking(EARLIEST).days) == (first, 2)
        assert store.usage.tracking("2026-02-15T00:00:00Z").days == 1
        assert store.usage.forget("2026-02-15T00:00:00Z") == 2
        assert (store.usage.tracking(EARLIEST).since, store.usage.tracking(EARLIEST).days) == (first, 1)
        assert store.get([memory.id])[0].retrieval_count == 3

    def test_unused_excludes_recalled_pinned_repeated_and_changed_memories(self, store: Store) -> None:
        old = "2025-01-01T00:00:00Z"
        names = ("dead", "recalled", "pinned", "said again", "edited", "restored", "archived", "a decision")
        created = {
            name: add(store, f"{name} fact", created_at=old, kind="decision" if "dec" in name else "other")
            for name in names
        }
        fresh = store.changesets(1)[0].at
        record_retrievals(store, created["recalled"], fresh)
        late = apply(store, Edit(created["pinned"].id, {"pinned": True})).at
        apply(
            store,
            Noop(created["said again"].id),
            Edit(created["edited"].id, {"tags": ["x"]}),
            Delete(created["archived"].id),
        )
        apply(store, Delete(created["restored"].id))
        apply(store, Restore(created["restored"].id))
        assert [m.id for m in store.usage.unused("detail", late, 10)] == [created["dead"].id]
        assert [m.id for m in store.usage.unused("decision", late, 10)] == [created["a decision"].id]
        # all of them were added after this time, whatever their created_at
        assert store.usage.unused("detail", "2025-06-01T00:00:00Z", 10) == []

    def test_queries_that_found_memories_are_listed_newest_first(self, store: Store) -> None:
        first, second, other = (add(store, f"fact number {n}") for n in range(3))
        record_retrievals(
            store, first, "2026-02-01T00:00:00.000000+00:00", "2026-02-05T00:00:00.000000+00:00", query="old and new"
        )
        record_retrievals(store, second, "2026-02-03T00:00:00.000000+00:00", query="between")
        record_retrievals(store, other, "2026-02-04T00:00:00.000000+00:00", query="of another")
        assert store.usage.queries([first.id, second.id], 5) == ["old and new", "between"]
        assert store.usage.queries([first.id, second.id], 1) == ["old and new"]
        assert store.usage.queries([], 5) == []

    def test_changesets_of_a_series_link_to_the_first(self, store: Store) -> None:
        first = apply(store, Add(Fact(text="one")))
        second = apply(store, Add(Fact(text="two")), part_of=first.id)
        assert (first.part_of, second.part_of) == (None, first.id)
        assert store.changeset(second.id).part_of == first.id
