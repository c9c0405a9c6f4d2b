"""Changesets of domain knowledge: applied with memories, undone with them, and removed with their memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.models.domain_knowledge import Feedback, Knowledge, Pattern, Threshold
from cofio.models.memory import Add, Changeset, Delete, DeleteRow, Fact, PurgeRow, PutRow, Viewer
from cofio.ports import Store
from cofio.testing import FixedClock, HashEmbedder, MemoryStore

ADA = Viewer(user="ada", agent="codex", team="red")
SPIKES = "Volume spikes before earnings"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    clock = FixedClock()
    if request.param == "sqlite":
        opened_store: Store = MemoryStore(clock)
    else:
        from cofio.stores.postgres import PostgresStore

        opened_store = PostgresStore(request.getfixturevalue("postgres_url"), clock)
    yield opened_store
    opened_store.close()


@pytest.fixture
def keeper(store: Store) -> Iterator[Keeper]:
    with Keeper(store, HashEmbedder(), FixedClock()) as opened_keeper:
        yield opened_keeper


def flag(value: float = 5_000_000, **fields: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "value": value, "direction": "above", **fields})


def put(keeper: Keeper, *rows: Knowledge, why: str = "test") -> Changeset:
    return keeper.apply([PutRow(row) for row in rows], by="test", why=why)


def add_with_rows(keeper: Keeper, *rows: Knowledge, text: str = SPIKES, **fields: Any) -> int:
    """Add a memory and the rows parsed from it in one changeset; return the memory's id."""
    puts = [PutRow(row, stated_by=0) for row in rows]
    return keeper.apply([Add(Fact(text=text, **fields)), *puts], by="test", why="read").changes[0].memory_id


def refs(store: Store) -> list[str]:
    return [row.ref for table in ("patterns", "thresholds", "feedback") for row in store.domain.rows(table)]


# ── Applying ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_knowledge_alone_is_a_changeset(keeper: Keeper, store: Store) -> None:
    changeset = put(keeper, flag(), Pattern(pattern=SPIKES), why="seen often")
    assert [change.action for change in changeset.knowledge] == ["add", "add"]
    assert keeper.changes()[0].id == changeset.id
    assert keeper.changeset(changeset.id) == changeset
    assert changeset.why == "seen often"
    assert len(refs(store)) == 2


def test_row_put_with_a_memory_is_linked_to_it(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, flag())
    assert [row.memory for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [memory]
    assert [linked.ref for linked in store.domain.stated_by([memory])] == ["thresholds/aapl.volume.above"]


def test_empty_or_invalid_decisions_are_rejected(keeper: Keeper) -> None:
    with pytest.raises(InvalidInput, match="No decision was given"):
        keeper.apply([], by="test", why="")
    with pytest.raises(InvalidInput, match="something other than decisions"):
        keeper.apply([flag()], by="test", why="")  # type: ignore[list-item]
    assert keeper.changes() == []


def test_failure_of_one_part_rolls_back_both(keeper: Keeper, store: Store) -> None:
    with pytest.raises(NotFound):
        keeper.apply([Add(Fact(text=SPIKES)), PutRow(flag()), DeleteRow("patterns", "none")], by="test", why="")
    assert (keeper.count(), refs(store), keeper.changes()) == (0, [], [])


@pytest.mark.parametrize(("value", "call_count"), [(6_000_000, 1), (5_000_000, 0)])
def test_callback_runs_if_a_row_changes(store: Store, value: float, call_count: int) -> None:
    calls: list[str] = []
    with Keeper(store, HashEmbedder(), FixedClock(), on_invalidate=lambda: calls.append("gone")) as keeper:
        put(keeper, flag())
        assert calls == []
        put(keeper, flag(value))
    assert len(calls) == call_count


# ── Undo ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_changeset_of_knowledge_alone_is_undone_and_redone(keeper: Keeper, store: Store) -> None:
    put(keeper, flag(1))
    second = put(keeper, flag(2), Pattern(pattern=SPIKES))
    refs_before = refs(store)
    undone = keeper.undo(second.id)
    assert (undone.undoes, undone.changes) == (second.id, ())
    assert [change.action for change in undone.knowledge] == ["revert", "revert"]
    assert [row.value for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [1]
    assert refs(store) == ["thresholds/aapl.volume.above"]
    keeper.undo(undone.id)
    assert refs(store) == refs_before
    assert [row.value for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [2]


def test_memory_and_its_rows_are_undone_together(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, flag())
    changeset = keeper.changes()[0]
    undone = keeper.undo(changeset.id)
    assert (len(undone.changes), len(undone.knowledge)) == (1, 1)
    assert (keeper.count(), refs(store)) == (0, [])
    keeper.undo(undone.id)
    assert [row.ref for row in store.domain.stated_by([memory])] == ["thresholds/aapl.volume.above"]


def test_undo_of_a_row_changed_since_raises_conflict_with_the_changeset(keeper: Keeper, store: Store) -> None:
    add_with_rows(keeper, flag(1))
    first = keeper.changes()[0].id
    later = put(keeper, replace(store.domain.rows("thresholds")[0], value=2))  # type: ignore[call-arg]
    with pytest.raises(Conflict, match=f"changed again by changeset {later.id}"):
        keeper.undo(first)
    assert keeper.count() == 1
    keeper.undo(later.id)
    keeper.undo(first)
    assert (keeper.count(), refs(store)) == (0, [])


def test_undo_of_a_changeset_without_changes_raises_conflict(keeper: Keeper) -> None:
    put(keeper, flag())
    unchanged = put(keeper, flag())
    assert [change.action for change in unchanged.knowledge] == ["noop"]
    with pytest.raises(Conflict, match=f"Changeset {unchanged.id} changed nothing"):
        keeper.undo(unchanged.id)


def test_series_is_undone_with_its_knowledge(keeper: Keeper, store: Store) -> None:
    first = keeper.apply([Add(Fact(text="One"))], by="test", why="series").id
    keeper.apply([PutRow(flag())], by="test", why="series", part_of=first)
    keeper.apply([Add(Fact(text="Two")), PutRow(flag(2))], by="test", why="series", part_of=first)
    undone = keeper.undo(first)
    assert (keeper.count(), refs(store)) == (0, [])
    keeper.undo(undone.id)
    assert keeper.count() == 2
    assert [row.value for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [2]


def test_undo_skips_purged_rows(keeper: Keeper, store: Store) -> None:
    changeset = put(keeper, flag(), Pattern(pattern=SPIKES))
    purge = keeper.apply([PurgeRow("thresholds", "aapl.volume.above")], by="test", why="")
    keeper.undo(changeset.id)
    assert refs(store) == []
    with pytest.raises(Conflict, match="purged"):
        keeper.undo(purge.id)


# ── Rows of a memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_deleting_a_memory_deletes_its_rows(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, flag(), Pattern(pattern=SPIKES))
    put(keeper, flag(source="MSFT"))
    changeset = keeper.changeset(keeper.delete(memory, why="wrong").changeset)
    assert [(change.action, change.reason) for change in changeset.knowledge] == [("delete", "wrong")] * 2
    assert refs(store) == ["thresholds/msft.volume.above"]
    keeper.undo(changeset.id)
    assert len(refs(store)) == 3


def test_restoring_a_memory_restores_its_rows(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, flag(), Pattern(pattern=SPIKES))
    keeper.delete(memory)
    put(keeper, Pattern(pattern=SPIKES, confidence=0.9))  # added manually in the meantime
    keeper.restore(memory)
    assert [linked.ref for linked in store.domain.stated_by([memory])] == ["thresholds/aapl.volume.above"]
    assert [row.confidence for row in store.domain.rows("patterns") if isinstance(row, Pattern)] == [0.9]


def test_changing_the_text_of_a_memory_deletes_its_rows(keeper: Keeper, store: Store) -> None:
    first, second = (
        add_with_rows(keeper, flag()),
        add_with_rows(keeper, flag(source="MSFT"), text="Flag Microsoft above 5M"),
    )
    replacement, _ = keeper.supersede(first, "Flag Apple above 6M")
    assert refs(store) == ["thresholds/msft.volume.above"]
    assert [change.action for change in keeper.changeset(replacement.changeset).knowledge] == ["delete"]
    keeper.update(second, tags=["alerts"])
    keeper.update(second, text="Flag Microsoft above 5M")
    assert refs(store) == ["thresholds/msft.volume.above"]
    edited = keeper.update(second, text="Flag Microsoft above 7M")
    assert refs(store) == []
    keeper.undo(edited.changeset)
    assert refs(store) == ["thresholds/msft.volume.above"]


def journal_text(store: Store) -> str:
    return repr([store.changeset(changeset.id) for changeset in store.changesets(100)])


def test_purging_a_memory_purges_its_rows(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, Pattern(pattern="The zebra sleeps at noon"), flag(source="Zebra"), text="Zebras")
    changeset = keeper.changeset(keeper.purge(memory).changeset)
    assert [change.action for change in changeset.knowledge] == ["purge", "purge"]
    assert refs(store) == []
    assert "zebra" not in journal_text(store).lower()


def test_purging_a_deleted_memory_purges_its_deleted_rows(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, Pattern(pattern="The zebra sleeps at noon"), text="Zebras")
    keeper.delete(memory)
    assert "zebra" in journal_text(store).lower()
    keeper.purge(memory)
    assert "zebra" not in journal_text(store).lower()


def test_row_taken_over_by_another_source_survives_the_purge(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, flag())
    keeper.delete(memory)
    put(keeper, flag(7))
    keeper.purge(memory)
    assert refs(store) == ["thresholds/aapl.volume.above"]


def test_purge_removes_the_memorys_text_from_the_history_of_a_row(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, Pattern(id="p1", pattern="zebras run before rain", confidence=0.8))
    row = keeper.knowledge.put("patterns", id="p1", pattern="horses run before rain").after
    assert "zebra" in journal_text(store).lower()
    keeper.purge(memory)
    assert "zebra" not in journal_text(store).lower()
    assert store.domain.get("patterns", ["p1"]) == [row]


def test_merged_memory_keeps_its_rows(keeper: Keeper, store: Store) -> None:
    duplicate, target = add_with_rows(keeper, flag()), add_with_rows(keeper, text="Volume spikes before earnings.")
    keeper.apply([Delete(duplicate, "says the same", into=target)], by="upkeep", why="dedup")
    assert refs(store) == ["thresholds/aapl.volume.above"]


def test_memory_without_rows_is_deleted_without_knowledge_changes(keeper: Keeper) -> None:
    memory = keeper.add("We deploy on Fridays").memory_id
    assert keeper.changeset(keeper.delete(memory).changeset).knowledge == ()
    with pytest.raises(NotFound, match="no memory 99"):
        keeper.delete(99)
    with pytest.raises(NotFound, match="no memory 99"):
        keeper.restore(99)
    with pytest.raises(NotFound, match="no memory 99"):
        keeper.purge(99)


def test_viewer_deletes_their_rows_with_their_memory(keeper: Keeper, store: Store) -> None:
    ada = keeper.as_viewer(ADA)
    memory = add_with_rows(ada, flag(), Pattern(pattern=SPIKES, visibility="team"))
    ada.delete(memory)
    assert refs(store) == []
    ada.restore(memory)
    assert len(refs(store)) == 2
    changeset = ada.changeset(ada.delete(memory).changeset)
    assert len(changeset.knowledge) == 2
    ada.restore(memory)
    ada.purge(memory)  # the team's row is deleted, not purged: purging is not up to one member
    assert refs(store) == []
    actions = {change.action for summary in keeper.changes()[:1] for change in keeper.changeset(summary.id).knowledge}
    assert actions == {"purge", "delete"}


def test_feedback_is_independent_of_memories(keeper: Keeper, store: Store) -> None:
    memory = add_with_rows(keeper, flag())
    put(keeper, Feedback(anomaly="a1", verdict="confirmed", about=("thresholds/aapl.volume.above",)))
    keeper.delete(memory)
    assert refs(store) == ["feedback/a1"]


def test_viewer_cannot_purge_shared_rows(keeper: Keeper) -> None:
    ada = keeper.as_viewer(ADA)
    changeset = put(ada, flag(visibility="team"))
    with pytest.raises(Forbidden, match="not private to you"):
        ada.apply([PurgeRow("thresholds", changeset.knowledge[0].key)], by="ada", why="")
