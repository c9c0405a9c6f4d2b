"""Contract suite of copying memories between stores. Subclasses define a `store` fixture."""

from __future__ import annotations

from cofio.models.memory import Add, Adopt, Delete, Fact, Memory, Noop, Occurrence, Purge
from cofio.ports import Store
from tests.stores.contract import add, apply, undo, vector

TIME = "2026-02-20T06:44:28.000000+00:00"


class SnapshotsContract:
    """Tests of identities, reserved ids, rows and snapshots."""

    def test_store_identity_is_stable_and_adoptable_only_while_new(self, store: Store) -> None:
        name = store.snapshots.identity()
        assert len(name) > 20
        assert store.snapshots.identity() == name
        assert store.snapshots.adopt_identity("another")
        assert store.snapshots.identity() == "another"
        changeset = apply(store, Add(Fact(text="one")))
        undo(store, changeset.id)
        assert not store.snapshots.adopt_identity("a third")  # it held a memory, although that is gone
        assert store.snapshots.identity() == "another"

    def test_reserved_ids_are_not_assigned(self, store: Store) -> None:
        assert store.snapshots.reserve(0) == 0
        first = add(store, "one")
        base = store.snapshots.reserve(10)
        assert base == first.id == store.snapshots.reserve(0) - 10
        assert add(store, "two").id == base + 11
        adopted = Memory(id=base + 3, text="three", created_at=TIME, updated_at=TIME)
        assert apply(store, Adopt(adopted)).changes[0].memory_id == base + 3
        assert add(store, "four").id == base + 12

    def test_ids_can_be_reserved_in_a_new_store(self, store: Store) -> None:
        assert store.snapshots.reserve(5) == 0
        assert add(store, "one").id == 6

    def test_room_for_another_store_keeps_its_position_and_grows(self, store: Store) -> None:
        own = add(store, "one")
        assert store.snapshots.room("theirs", 0) == []
        assert store.snapshots.room("theirs", 10) == [(10, own.id)] == store.snapshots.room("theirs", 7)
        between = add(store, "two")
        assert between.id == own.id + 11
        grown = [(10, own.id), (15, between.id - 10)]
        assert store.snapshots.room("theirs", 15) == grown == store.snapshots.room("theirs", 0)
        assert store.snapshots.room("another", 5) == [(5, between.id + 5)]
        assert add(store, "three").id == between.id + 11

    def test_rows_are_sorted_by_id_with_occurrences_and_optional_vectors(self, store: Store) -> None:
        first, second, third = (add(store, text) for text in ("one", "two", "three"))
        apply(store, Delete(second.id))
        for agent, at in (("b", "2026-03-02"), ("a", "2026-03-02"), ("z", "2026-03-01")):
            apply(store, Noop(first.id, Occurrence(agent, "s", at)))
        first_row, second_row = store.snapshots.rows(0, 2)
        assert [sighting.agent for sighting in first_row.sightings] == ["z", "a", "b"]
        assert first_row.memory == store.get([first.id])[0]
        assert (second_row.memory.archived, second_row.sightings, second_row.vector) == (True, (), None)
        (last,) = store.snapshots.rows(second.id, 10, vectors=True)
        assert last.memory.id == third.id
        assert last.vector == vector("three").tobytes()
        assert store.snapshots.rows(third.id, 10) == []

    def test_counts_return_number_and_highest_id(self, store: Store) -> None:
        assert store.snapshots.counts() == (0, 0)
        first, second = add(store, "one"), add(store, "two")
        apply(store, Delete(first.id))
        assert store.snapshots.counts() == (2, second.id)
        apply(store, Purge(second.id))
        assert store.snapshots.counts() == (1, first.id)

    def test_origins_include_archived_memories(self, store: Store) -> None:
        first, second = add(store, "one", origin="mem0/1"), add(store, "two", origin="mem0/2")
        add(store, "three")
        apply(store, Delete(second.id))
        assert store.snapshots.origins(["mem0/1", "mem0/2", "mem0/3", ""]) == {"mem0/1": first.id, "mem0/2": second.id}
        assert store.snapshots.origins([]) == {}

    def test_parts_returns_the_changesets_of_a_series(self, store: Store) -> None:
        alone = apply(store, Add(Fact(text="alone")))
        first = apply(store, Add(Fact(text="first")))
        second = apply(store, Add(Fact(text="second")), part_of=first.id)
        third = apply(store, Add(Fact(text="third")), part_of=first.id)
        assert store.snapshots.parts(first.id) == [first.id, second.id, third.id]
        assert store.snapshots.parts(alone.id) == [alone.id]
        assert store.snapshots.parts(second.id) == [second.id]
        assert store.changeset(third.id).part_of == first.id

    def test_snapshot_is_unaffected_by_later_writes(self, store: Store) -> None:
        memory = add(store, "one")
        with store.snapshots.snapshot() as then:
            add(store, "two")
            apply(store, Delete(memory.id))
            assert then.counts() == (1, memory.id)
            assert [row.memory for row in then.rows(0, 10)] == [memory]
            assert store.snapshots.counts()[0] == 2
        assert store.get([memory.id])[0].archived
