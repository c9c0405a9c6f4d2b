"""What every Store must do so that memories can be carried from one to another. Give a `store` fixture."""

from __future__ import annotations

from cofio.models.memory import Add, Adopt, Delete, Fact, Memory, Noop, Occurrence, Purge
from cofio.ports import Store
from tests.stores.contract import add, apply, undo, vector

TIME = "2026-02-20T06:44:28.000000+00:00"


class CarryingContract:
    """The suite."""

    def test_a_store_has_a_name_that_stays_and_that_it_gives_up_for_another_only_while_it_is_new(
        self, store: Store
    ) -> None:
        name = store.snapshots.identity()
        assert len(name) > 20
        assert store.snapshots.identity() == name
        assert store.snapshots.adopt_identity("another")
        assert store.snapshots.identity() == "another"
        changeset = apply(store, Add(Fact(text="one")))
        undo(store, changeset.id)
        assert not store.snapshots.adopt_identity("a third")  # it held one, though it is gone
        assert store.snapshots.identity() == "another"

    def test_reserved_ids_are_given_to_nobody_else(self, store: Store) -> None:
        assert store.snapshots.reserve(0) == 0
        first = add(store, "one")
        base = store.snapshots.reserve(10)
        assert base == first.id == store.snapshots.reserve(0) - 10
        assert add(store, "two").id == base + 11
        adopted = Memory(id=base + 3, text="three", created_at=TIME, updated_at=TIME)
        assert apply(store, Adopt(adopted)).changes[0].memory_id == base + 3
        assert add(store, "four").id == base + 12

    def test_ids_can_be_reserved_before_any_was_given(self, store: Store) -> None:
        assert store.snapshots.reserve(5) == 0
        assert add(store, "one").id == 6

    def test_the_room_for_another_store_stays_where_it_is_and_grows(self, store: Store) -> None:
        own = add(store, "one")
        assert store.snapshots.room("theirs", 0) == []
        assert store.snapshots.room("theirs", 10) == [(10, own.id)] == store.snapshots.room("theirs", 7)
        between = add(store, "two")
        assert between.id == own.id + 11
        grown = [(10, own.id), (15, between.id - 10)]
        assert store.snapshots.room("theirs", 15) == grown == store.snapshots.room("theirs", 0)
        assert store.snapshots.room("another", 5) == [(5, between.id + 5)]
        assert add(store, "three").id == between.id + 11

    def test_rows_come_by_id_with_their_sightings_in_order_and_their_vectors_where_asked_for(
        self, store: Store
    ) -> None:
        one, two, three = (add(store, text) for text in ("one", "two", "three"))
        apply(store, Delete(two.id))
        for agent, at in (("b", "2026-03-02"), ("a", "2026-03-02"), ("z", "2026-03-01")):
            apply(store, Noop(one.id, Occurrence(agent, "s", at)))
        first, second = store.snapshots.rows(0, 2)
        assert [sighting.agent for sighting in first.sightings] == ["z", "a", "b"]
        assert first.memory == store.get([one.id])[0]
        assert (second.memory.archived, second.sightings, second.vector) == (True, (), None)
        (last,) = store.snapshots.rows(two.id, 10, vectors=True)
        assert last.memory.id == three.id
        assert last.vector == vector("three").tobytes()
        assert store.snapshots.rows(three.id, 10) == []

    def test_counts_tell_how_many_and_the_highest_that_is_there(self, store: Store) -> None:
        assert store.snapshots.counts() == (0, 0)
        one, two = add(store, "one"), add(store, "two")
        apply(store, Delete(one.id))
        assert store.snapshots.counts() == (2, two.id)
        apply(store, Purge(two.id))
        assert store.snapshots.counts() == (1, one.id)

    def test_origins_tell_what_was_imported_archived_or_not(self, store: Store) -> None:
        one, two = add(store, "one", origin="mem0/1"), add(store, "two", origin="mem0/2")
        add(store, "three")
        apply(store, Delete(two.id))
        assert store.snapshots.origins(["mem0/1", "mem0/2", "mem0/3", ""]) == {"mem0/1": one.id, "mem0/2": two.id}
        assert store.snapshots.origins([]) == {}

    def test_parts_are_the_changesets_of_a_series(self, store: Store) -> None:
        alone = apply(store, Add(Fact(text="alone")))
        first = apply(store, Add(Fact(text="first")))
        second = apply(store, Add(Fact(text="second")), part_of=first.id)
        third = apply(store, Add(Fact(text="third")), part_of=first.id)
        assert store.snapshots.parts(first.id) == [first.id, second.id, third.id]
        assert store.snapshots.parts(alone.id) == [alone.id]
        assert store.snapshots.parts(second.id) == [second.id]
        assert store.changeset(third.id).part_of == first.id

    def test_held_still_it_shows_one_moment_whatever_is_written(self, store: Store) -> None:
        one = add(store, "one")
        with store.snapshots.snapshot() as then:
            add(store, "two")
            apply(store, Delete(one.id))
            assert then.counts() == (1, one.id)
            assert [row.memory for row in then.rows(0, 10)] == [one]
            assert store.snapshots.counts()[0] == 2
        assert store.get([one.id])[0].archived
