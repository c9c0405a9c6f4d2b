"""Export and import round trips, and undo without traces."""

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
from tests.transfer.fixtures import SIGNATURE, export_lines, fill, histories, import_exported, open_store

Make = Callable[[], Store]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a factory of new stores."""
    created: list[Store] = []

    def new() -> Store:
        created.append(MemoryStore(FixedClock()))
        return created[-1]

    yield new
    for item in created:
        item.close()


@pytest.mark.parametrize("vectors", [False, True])
def test_import_into_an_empty_store_has_the_same_export(make: Make, vectors: bool) -> None:
    one, two = make(), make()
    fill(one)
    lines = export_lines(one, vectors=vectors)
    report = import_exported(two, lines)
    assert (report.read, report.added, report.known, report.skipped, report.missing) == (
        len(lines) - 1,
        len(lines) - 1,
        0,
        0,
        0,
    )
    assert export_lines(two, vectors=vectors) == lines
    assert export_lines(two, vectors=True) == export_lines(one, vectors=True)  # missing vectors were computed


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_random_memories_round_trip(history: list[Adopt]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two = open_store(Path(folder) / "one.db"), open_store(Path(folder) / "two.db")
        one.apply(history, {}, by="test", why="")
        lines = export_lines(one)
        import_exported(two, lines)
        assert export_lines(two) == lines
        assert [Memory.from_dict(json.loads(line)) for line in lines[1:]] == [item.memory for item in history]
        one.close()
        two.close()


def test_line_has_every_field_and_no_export_time(make: Make) -> None:
    store = make()
    fill(store)
    header, *lines = map(json.loads, export_lines(store))
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


def test_export_is_a_snapshot(make: Make) -> None:
    store = make()
    fill(store)
    before = export_lines(store)
    reading = export.export_lines(store)
    lines = [next(reading)]
    apply(store, Delete(everything(store)[0].id))
    add(store, "written while it is exported")
    assert lines + list(reading) == before


def test_undone_merges_and_deletions_leave_the_export_unchanged(make: Make) -> None:
    store = make()
    fill(store)
    before = export_lines(store, vectors=True)
    live = [memory for memory in everything(store) if not memory.archived]
    merge = Merge((live[0].id, live[1].id), Fact(text="one for both"))
    first = store.apply([merge], {0: vector("one for both")}, by="test", why="consolidate")
    second = apply(store, *(Delete(memory.id, "unused") for memory in live[2:]))
    third = apply(store, Delete(first.changes[0].memory_id, "unused"))
    assert export_lines(store, vectors=True) != before
    for changeset in (third, second, first):
        undo(store, changeset.id)
    assert export_lines(store, vectors=True) == before


def test_undone_import_leaves_the_export_unchanged_and_can_be_redone(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH", 3)
    one, two = make(), make()
    fill(one)
    two.set_signature(SIGNATURE)
    add(two, "something of its own")
    before = export_lines(two, vectors=True)
    report = import_exported(two, export_lines(one))
    assert report.changesets == 3
    assert report.first is not None
    with_it = [memory.text for memory in everything(two)]
    keeper = Keeper(two, EMBEDDER, FixedClock())
    new_undo = keeper.undo(report.first)
    assert export_lines(two, vectors=True) == before
    assert len(two.snapshots.parts(new_undo.id)) == 3
    keeper.undo(new_undo.id)
    assert [memory.text for memory in everything(two)] == with_it
    assert two.nearest(vector("Nobody needs this"), 1, Scope(include_archived=True))[0].score > 0.99


def test_undone_import_can_be_repeated(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    lines = export_lines(one)
    report = import_exported(two, lines)
    keeper = Keeper(two, EMBEDDER, FixedClock())
    keeper.undo(report.first or 0)
    assert everything(two) == []
    import_exported(two, lines)
    assert export_lines(two) == lines


def test_highest_purged_id_is_not_reused_in_the_copy(make: Make) -> None:
    one, two = make(), make()
    old = add(one, "old")
    successor = add(one, "new")
    apply(one, Delete(old.id, into=successor.id))
    apply(one, Purge(successor.id))
    lines = export_lines(one)
    import_exported(two, lines)
    assert export_lines(two) == lines
    assert add(two, "a stranger").id > successor.id


def test_undone_first_import_leaves_no_trace(make: Make) -> None:
    there, here = make(), make()
    add(there, "we use tabs")
    for vectors in (False, True):
        before = "".join(export.export_lines(here, vectors=vectors))
        report = import_exported(here, export_lines(there))
        assert "".join(export.export_lines(here, vectors=vectors)) != before
        undo(here, report.first or 0)
        assert "".join(export.export_lines(here, vectors=vectors)) == before


def test_empty_export_is_imported(make: Make) -> None:
    report = import_exported(make(), export_lines(make()))
    assert (report.read, report.added, report.first) == (0, 0, None)
