"""What is exported and imported is the same memories, byte for byte; what is undone was never there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from cofio.core import Keeper
from cofio.models.memory import Adopt, Delete, Fact, Memory, Merge, Purge, Scope
from cofio.ports import Store
from cofio.testing import FixedClock, MemoryStore
from cofio.transfer import export, importer
from tests.stores.contract import EMBEDDER, add, apply, everything, undo, vector
from tests.transfer.fixtures import SIGNATURE, exported, fill, histories, imported, opened

Make = Callable[[], Store]


@pytest.fixture(params=["sqlite", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """New stores, as many as are wanted."""
    made: list[Store] = []

    def new() -> Store:
        path = tmp_path / f"{len(made)}.db"
        made.append(opened(path) if request.param == "sqlite" else MemoryStore(FixedClock()))
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.mark.parametrize("vectors", [False, True])
def test_an_export_into_an_empty_store_is_exported_byte_for_byte(make: Make, vectors: bool) -> None:
    one, two = make(), make()
    fill(one)
    lines = exported(one, vectors=vectors)
    told = imported(two, lines)
    assert (told.read, told.added, told.known, told.skipped, told.missing) == (len(lines) - 1, len(lines) - 1, 0, 0, 0)
    assert exported(two, vectors=vectors) == lines
    assert exported(two, vectors=True) == exported(one, vectors=True)  # what had no vector was embedded


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_whatever_memories_there_are_the_round_trip_keeps_them(history: list[Adopt]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two = opened(Path(folder) / "one.db"), opened(Path(folder) / "two.db")
        one.apply(history, {}, by="test", why="")
        lines = exported(one)
        imported(two, lines)
        assert exported(two) == lines
        assert [Memory.from_dict(json.loads(line)) for line in lines[1:]] == [each.memory for each in history]
        one.close()
        two.close()


def test_a_line_has_every_field_of_the_memory_and_no_time_of_export(make: Make) -> None:
    store = make()
    fill(store)
    header, *lines = map(json.loads, exported(store))
    assert header == {
        "cofio": "export",
        "version": 1,
        "store": store.snapshots.identity(),
        "memories": len(lines),
        "last_id": lines[-1]["id"],
    }
    for memory, line in zip(reversed(everything(store)), lines, strict=True):
        wanted = memory.as_dict()
        del wanted["timestamp"]
        del line["sightings"]
        assert line == wanted
        assert list(line) == list(wanted)


def test_an_export_is_of_one_moment_whatever_is_written_meanwhile(make: Make) -> None:
    store = make()
    fill(store)
    before = exported(store)
    reading = export.export_lines(store)
    lines = [next(reading)]
    apply(store, Delete(everything(store)[0].id))
    add(store, "written while it is exported")
    assert lines + list(reading) == before


def test_merging_and_pruning_undone_leave_the_export_as_it_was(make: Make) -> None:
    store = make()
    fill(store)
    before = exported(store, vectors=True)
    live = [memory for memory in everything(store) if not memory.archived]
    merge = Merge((live[0].id, live[1].id), Fact(text="one for both"))
    first = store.apply([merge], {0: vector("one for both")}, by="test", why="consolidate")
    second = apply(store, *(Delete(memory.id, "unused") for memory in live[2:]))
    third = apply(store, Delete(first.changes[0].memory_id, "unused"))
    assert exported(store, vectors=True) != before
    for changeset in (third, second, first):
        undo(store, changeset.id)
    assert exported(store, vectors=True) == before


def test_an_import_undone_leaves_the_export_as_it_was_and_redone_brings_it_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH", 3)
    one, two = make(), make()
    fill(one)
    two.set_signature(SIGNATURE)
    add(two, "something of its own")
    before = exported(two, vectors=True)
    told = imported(two, exported(one))
    assert told.changesets == 3
    assert told.first is not None
    with_it = [memory.text for memory in everything(two)]
    keeper = Keeper(two, EMBEDDER, FixedClock())
    undone = keeper.undo(told.first)
    assert exported(two, vectors=True) == before
    assert len(two.snapshots.parts(undone.id)) == 3
    keeper.undo(undone.id)
    assert [memory.text for memory in everything(two)] == with_it
    assert two.nearest(vector("Nobody needs this"), 1, Scope(include_archived=True))[0].score > 0.99


def test_an_import_undone_can_be_imported_again(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    lines = exported(one)
    told = imported(two, lines)
    keeper = Keeper(two, EMBEDDER, FixedClock())
    keeper.undo(told.first or 0)
    assert everything(two) == []
    imported(two, lines)
    assert exported(two) == lines


def test_what_was_purged_at_the_top_is_not_given_to_a_stranger_in_the_copy(make: Make) -> None:
    one, two = make(), make()
    old = add(one, "old")
    heir = add(one, "new")
    apply(one, Delete(old.id, into=heir.id))
    apply(one, Purge(heir.id))
    lines = exported(one)
    imported(two, lines)
    assert exported(two) == lines
    assert add(two, "a stranger").id > heir.id


def test_an_import_into_a_store_that_never_held_any_is_undone_without_a_trace(make: Make) -> None:
    there, here = make(), make()
    add(there, "we use tabs")
    for vectors in (False, True):
        before = "".join(export.export_lines(here, vectors=vectors))
        done = imported(here, exported(there))
        assert "".join(export.export_lines(here, vectors=vectors)) != before
        undo(here, done.first or 0)
        assert "".join(export.export_lines(here, vectors=vectors)) == before


def test_an_export_of_nothing_is_imported_as_nothing(make: Make) -> None:
    done = imported(make(), exported(make()))
    assert (done.read, done.added, done.first) == (0, 0, None)
