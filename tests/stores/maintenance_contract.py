"""What every Store must do for upkeep: merge, adopt, and know how memories are used. Give a `store` fixture."""

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
EVER = "2000-01-01T00:00:00Z"
LATER = "2026-06-01T00:00:00Z"


def recalled(store: Store, memory: Memory, *when: str, query: str = "q") -> None:
    store.note([Retrieval(memory.id, query, "ada", each) for each in when])


def merge(store: Store, *members: Memory, text: str = "Tests run on PostgreSQL 16, in parallel") -> list[Memory]:
    """The memory that was written, and the members as they are after it."""
    decision = Merge(tuple(member.id for member in members), Fact(text=text), "one fact")
    done = store.apply([decision], {0: vector(text)}, by="test", why="consolidate")
    return [change.memory for change in done.changes]


class UpkeepContract:
    """The suite."""

    # ── merging ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_merged_fact_is_written_and_its_members_are_archived_and_point_to_it(self, store: Store) -> None:
        one, two = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        heir, *gone = merge(store, one, two)
        assert [each.superseded_by for each in gone] == [heir.id, heir.id]
        assert all(each.archived for each in gone)
        assert store.get([heir.id]) == [heir]
        assert store.nearest(vector(heir.text), 5, Scope())[0].id == heir.id
        assert {change.memory_id for change in store.history(heir.id)} == {one.id, two.id, heir.id}
        assert len(store.occurrences(heir.id)) == 3

    def test_what_was_counted_for_the_members_counts_for_the_heir(self, store: Store) -> None:
        one, two = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        apply(store, Noop(one.id), Edit(two.id, {"pinned": True}))
        recalled(store, one, "2026-03-01T00:00:00.000000+00:00", "2026-03-02T00:00:00.000000+00:00")
        recalled(store, two, "2026-03-04T00:00:00.000000+00:00")
        heir = store.get([merge(store, one, two)[0].id])[0]
        assert (heir.occurrences, heir.retrieval_count, heir.pinned) == (3, 3, True)
        assert heir.last_retrieved_at == "2026-03-04T00:00:00.000000+00:00"

    def test_an_undone_merge_leaves_what_was(self, store: Store) -> None:
        one, two = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel", anchors=(ANCHOR,))
        recalled(store, one, "2026-03-01T00:00:00.000000+00:00")
        before = everything(store)
        heir = merge(store, one, two)[0]
        undone = undo(store, store.changesets(1)[0].id)
        assert everything(store) == before
        undo(store, undone.id)
        assert store.get([one.id])[0].superseded_by == heir.id
        assert store.get([heir.id]) == [heir]

    def test_what_was_decided_before_something_happened_to_a_memory_is_refused(self, store: Store) -> None:
        one, two = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        as_of = store.changesets(1)[0].id
        apply(store, Noop(two.id))
        before = everything(store)
        late: list[Decision] = [
            Delete(two.id, as_of=as_of),
            Delete(one.id, into=two.id, as_of=as_of),
            Merge((one.id, two.id), Fact(text="x"), as_of=as_of),
        ]
        for decision in late:
            with pytest.raises(Conflict, match="since it was read"):
                store.apply([decision], {}, by="test", why="")
        assert everything(store) == before
        assert store.usage.touched([one.id, two.id], as_of) == {two.id}
        both = [Delete(one.id, into=two.id, as_of=as_of + 1), Delete(two.id, as_of=as_of + 1)]
        apply(store, *both)  # what the same changeset did does not count
        assert store.page(Scope(), limit=5)[1] == 0

    def test_a_merge_takes_two_live_memories_or_more(self, store: Store) -> None:
        one, two = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
        before = everything(store)
        for bad, error in (
            (Merge((one.id, one.id), Fact(text="x")), InvalidInput),
            (Merge((one.id, 999), Fact(text="x")), NotFound),
        ):
            with pytest.raises(error):
                store.apply([bad], {0: vector("x")}, by="test", why="")
        apply(store, Delete(two.id))
        with pytest.raises(Conflict, match="is archived"):
            merge(store, one, two)
        undo(store, store.changesets(1)[0].id)
        assert everything(store) == before

    # ── adopting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_an_adopted_memory_is_what_it_was_elsewhere(self, store: Store) -> None:
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
        done = store.apply([Adopt(there, seen)], {0: vector(there.text)}, by="test", why="import")
        assert store.get([40]) == [there]
        assert store.occurrences(40)[1:] == list(seen)
        assert add(store, "a new one").id == 41
        undone = undo(store, done.id)
        assert [memory.id for memory in everything(store)] == [41]
        again = undo(store, undone.id)
        assert store.get([40]) == [there]
        assert store.occurrences(40)[1:] == list(seen)
        undo(store, again.id)
        assert [memory.id for memory in everything(store)] == [41]

    def test_no_memory_is_adopted_over_another(self, store: Store) -> None:
        known = add(store, "we use tabs")
        with pytest.raises(Conflict, match="already"):
            store.apply([Adopt(replace(known, text="we use spaces"))], {}, by="test", why="")
        new = store.apply([Adopt(replace(known, id=0, text="we use spaces"))], {}, by="test", why="").changes[0].memory
        assert new.id != known.id
        assert store.get([known.id]) == [known]
        assert [memory.id for memory in store.unembedded(5)] == [new.id]

    # ── anchors ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_anchors_and_origin_are_kept_and_edited_and_undone(self, store: Store) -> None:
        memory = add(store, "the retry limit is in src/app.py", anchors=(ANCHOR,), origin="mem0/1")
        assert store.get([memory.id])[0].anchors == (ANCHOR,)
        done = apply(store, Edit(memory.id, {"anchors": (replace(ANCHOR, hash="ffff"),)}))
        assert store.get([memory.id])[0].anchors[0].hash == "ffff"
        undo(store, done.id)
        assert store.get([memory.id]) == [memory]

    # ── use ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_the_views_tell_what_is_recalled_never_most_and_no_longer(self, store: Store) -> None:
        often, once, never, gone = (add(store, f"fact number {n}", source=f"s/{n}") for n in range(4))
        recalled(store, often, "2026-02-01T00:00:00.000000+00:00", "2026-05-01T00:00:00.000000+00:00")
        recalled(store, once, "2026-01-15T00:00:00.000000+00:00")
        apply(store, Delete(gone.id))

        def seen(view: str, **within: str) -> list[int]:
            return [m.id for m in store.usage.view(view, Scope(**within), 10, "2026-03-01T00:00:00Z")]  # type: ignore[arg-type]

        assert seen("never") == [never.id]
        assert seen("most") == [often.id, once.id]
        assert seen("stale") == [once.id]
        assert seen("most", source="s/1") == [once.id]
        assert len(store.usage.view("most", Scope(), 1, LATER)) == 1

    def test_tracking_begins_with_the_first_retrieval_and_survives_forgetting(self, store: Store) -> None:
        memory = add(store, "we use tabs")
        assert (store.usage.tracking(EVER).since, store.usage.tracking(EVER).days) == (None, 0)
        first, second = "2026-02-01T08:00:00.000000+00:00", "2026-02-01T09:00:00.000000+00:00"
        recalled(store, memory, first, second)
        recalled(store, memory, "2026-03-01T09:00:00.000000+00:00")
        assert (store.usage.tracking(EVER).since, store.usage.tracking(EVER).days) == (first, 2)
        assert store.usage.tracking("2026-02-15T00:00:00Z").days == 1
        assert store.usage.forget("2026-02-15T00:00:00Z") == 2
        assert (store.usage.tracking(EVER).since, store.usage.tracking(EVER).days) == (first, 1)
        assert store.get([memory.id])[0].retrieval_count == 3

    def test_unused_is_what_nobody_recalled_pinned_said_or_changed(self, store: Store) -> None:
        old = "2025-01-01T00:00:00Z"
        names = ("dead", "recalled", "pinned", "said again", "edited", "restored", "archived", "a decision")
        made = {
            name: add(store, f"{name} fact", created_at=old, kind="decision" if "dec" in name else "other")
            for name in names
        }
        fresh = store.changesets(1)[0].at
        recalled(store, made["recalled"], fresh)
        late = apply(store, Edit(made["pinned"].id, {"pinned": True})).at
        apply(store, Noop(made["said again"].id), Edit(made["edited"].id, {"tags": ["x"]}), Delete(made["archived"].id))
        apply(store, Delete(made["restored"].id))
        apply(store, Restore(made["restored"].id))
        assert [m.id for m in store.usage.unused("detail", late, 10)] == [made["dead"].id]
        assert [m.id for m in store.usage.unused("decision", late, 10)] == [made["a decision"].id]
        # All of them came into the store after this time, however old they are.
        assert store.usage.unused("detail", "2025-06-01T00:00:00Z", 10) == []

    def test_the_queries_that_found_any_of_some_are_known_newest_first(self, store: Store) -> None:
        one, two, other = (add(store, f"fact number {n}") for n in range(3))
        recalled(
            store, one, "2026-02-01T00:00:00.000000+00:00", "2026-02-05T00:00:00.000000+00:00", query="old and new"
        )
        recalled(store, two, "2026-02-03T00:00:00.000000+00:00", query="between")
        recalled(store, other, "2026-02-04T00:00:00.000000+00:00", query="of another")
        assert store.usage.queries([one.id, two.id], 5) == ["old and new", "between"]
        assert store.usage.queries([one.id, two.id], 1) == ["old and new"]
        assert store.usage.queries([], 5) == []

    def test_changesets_of_a_series_name_the_first(self, store: Store) -> None:
        first = apply(store, Add(Fact(text="one")))
        second = apply(store, Add(Fact(text="two")), part_of=first.id)
        assert (first.part_of, second.part_of) == (None, first.id)
        assert store.changeset(second.id).part_of == first.id
