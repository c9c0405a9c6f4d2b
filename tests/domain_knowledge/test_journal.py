"""Domain knowledge in the journal of everything else: done with memories, undone with them, gone with what told it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.models.domain_knowledge import DeleteRow, Feedback, Knowledge, Pattern, PurgeRow, PutRow, Threshold
from cofio.models.memory import Add, Changeset, Delete, Fact, Viewer
from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore

ADA = Viewer(user="ada", agent="codex", team="red")
SPIKES = "Volume spikes before earnings"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    clock = FixedClock()
    if request.param == "memory":
        opened: Store = MemoryStore(clock)
    elif request.param == "sqlite":
        opened = SqliteStore(tmp_path / "cofio.db", clock)
    else:
        from cofio.stores.postgres import PostgresStore

        opened = PostgresStore(request.getfixturevalue("postgres_url"), clock)
    yield opened
    opened.close()


@pytest.fixture
def keeper(store: Store) -> Iterator[Keeper]:
    with Keeper(store, HashEmbedder(), FixedClock()) as opened:
        yield opened


def flag(value: float = 5_000_000, **known: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "value": value, "direction": "above", **known})


def put(keeper: Keeper, *rows: Knowledge, why: str = "test") -> Changeset:
    return keeper.apply([], by="test", why=why, knowledge=[PutRow(row) for row in rows])


def told(keeper: Keeper, *rows: Knowledge, text: str = SPIKES, **about: Any) -> int:
    """A memory, and the rows that were read from it, in one changeset; the memory's id."""
    puts = [PutRow(row, stated_by=0) for row in rows]
    return keeper.apply([Add(Fact(text=text, **about))], by="test", why="read", knowledge=puts).changes[0].memory_id


def rows(store: Store) -> list[str]:
    return [row.ref for table in ("patterns", "thresholds", "feedback") for row in store.domain.rows(table)]


# ── doing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_knowledge_alone_is_a_changeset(keeper: Keeper, store: Store) -> None:
    done = put(keeper, flag(), Pattern(pattern=SPIKES), why="seen often")
    assert [change.action for change in done.knowledge] == ["add", "add"]
    assert keeper.changes()[0].id == done.id
    assert keeper.changeset(done.id) == done
    assert done.why == "seen often"
    assert len(rows(store)) == 2


def test_what_is_put_beside_a_memory_is_told_by_it(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, flag())
    assert [row.memory for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [memory]
    assert [each.ref for each in store.domain.told_by([memory])] == ["thresholds/aapl.volume.above"]


def test_nothing_at_all_is_refused_and_so_is_what_is_no_decision(keeper: Keeper) -> None:
    with pytest.raises(InvalidInput, match="No decisions were given"):
        keeper.apply([], by="test", why="")
    with pytest.raises(InvalidInput, match="not a list of knowledge decisions"):
        keeper.apply([], by="test", why="", knowledge=[flag()])  # type: ignore[list-item]
    assert keeper.changes() == []


def test_when_one_part_fails_neither_is_done(keeper: Keeper, store: Store) -> None:
    with pytest.raises(NotFound):
        keeper.apply(
            [Add(Fact(text=SPIKES))], by="test", why="", knowledge=[PutRow(flag()), DeleteRow("patterns", "none")]
        )
    assert (keeper.count(), rows(store), keeper.changes()) == (0, [], [])


@pytest.mark.parametrize(("value", "heard"), [(6_000_000, 1), (5_000_000, 0)])
def test_copies_elsewhere_go_when_a_row_says_something_else(store: Store, value: float, heard: int) -> None:
    heard_of: list[str] = []
    with Keeper(store, HashEmbedder(), FixedClock(), on_invalidate=lambda: heard_of.append("gone")) as keeper:
        put(keeper, flag())
        assert heard_of == []
        put(keeper, flag(value))
    assert len(heard_of) == heard


# ── undoing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_changeset_of_knowledge_alone_is_undone_and_brought_back(keeper: Keeper, store: Store) -> None:
    put(keeper, flag(1))
    second = put(keeper, flag(2), Pattern(pattern=SPIKES))
    before = rows(store)
    undone = keeper.undo(second.id)
    assert (undone.undoes, undone.changes) == (second.id, ())
    assert [change.action for change in undone.knowledge] == ["revert", "revert"]
    assert [row.value for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [1]
    assert rows(store) == ["thresholds/aapl.volume.above"]
    keeper.undo(undone.id)
    assert rows(store) == before
    assert [row.value for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [2]


def test_a_memory_and_what_was_read_from_it_are_undone_together(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, flag())
    done = keeper.changes()[0]
    undone = keeper.undo(done.id)
    assert (len(undone.changes), len(undone.knowledge)) == (1, 1)
    assert (keeper.count(), rows(store)) == (0, [])
    keeper.undo(undone.id)
    assert [each.ref for each in store.domain.told_by([memory])] == ["thresholds/aapl.volume.above"]


def test_what_was_changed_since_is_in_the_way_and_named(keeper: Keeper, store: Store) -> None:
    told(keeper, flag(1))
    first = keeper.changes()[0].id
    later = put(keeper, replace(store.domain.rows("thresholds")[0], value=2))  # type: ignore[call-arg]
    with pytest.raises(Conflict, match=f"changed again by changeset {later.id}"):
        keeper.undo(first)
    assert keeper.count() == 1
    keeper.undo(later.id)
    keeper.undo(first)
    assert (keeper.count(), rows(store)) == (0, [])


def test_a_changeset_that_changed_nothing_says_so(keeper: Keeper) -> None:
    put(keeper, flag())
    again = put(keeper, flag())
    assert [change.action for change in again.knowledge] == ["noop"]
    with pytest.raises(Conflict, match=f"Changeset {again.id} changed nothing"):
        keeper.undo(again.id)


def test_a_series_is_undone_with_its_knowledge(keeper: Keeper, store: Store) -> None:
    first = keeper.apply([Add(Fact(text="One"))], by="test", why="series").id
    keeper.apply([], by="test", why="series", part_of=first, knowledge=[PutRow(flag())])
    keeper.apply([Add(Fact(text="Two"))], by="test", why="series", part_of=first, knowledge=[PutRow(flag(2))])
    undone = keeper.undo(first)
    assert (keeper.count(), rows(store)) == (0, [])
    keeper.undo(undone.id)
    assert keeper.count() == 2
    assert [row.value for row in store.domain.rows("thresholds") if isinstance(row, Threshold)] == [2]


def test_what_was_erased_since_is_passed_over(keeper: Keeper, store: Store) -> None:
    done = put(keeper, flag(), Pattern(pattern=SPIKES))
    gone = keeper.apply([], by="test", why="", knowledge=[PurgeRow("thresholds", "aapl.volume.above")])
    keeper.undo(done.id)
    assert rows(store) == []
    with pytest.raises(Conflict, match="purged"):
        keeper.undo(gone.id)


# ── what goes with a memory ───────────────────────────────────────────────────────────────────────────────────────────


def test_forgetting_a_memory_drops_what_was_read_from_it(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, flag(), Pattern(pattern=SPIKES))
    put(keeper, flag(source="MSFT"))
    done = keeper.changeset(keeper.delete(memory, why="wrong").changeset)
    assert [(change.action, change.reason) for change in done.knowledge] == [("delete", "wrong")] * 2
    assert rows(store) == ["thresholds/msft.volume.above"]
    keeper.undo(done.id)
    assert len(rows(store)) == 3


def test_bringing_a_memory_back_brings_its_rows_back(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, flag(), Pattern(pattern=SPIKES))
    keeper.delete(memory)
    put(keeper, Pattern(pattern=SPIKES, confidence=0.9))  # somebody says it by hand meanwhile
    keeper.restore(memory)
    assert [each.ref for each in store.domain.told_by([memory])] == ["thresholds/aapl.volume.above"]
    assert [row.confidence for row in store.domain.rows("patterns") if isinstance(row, Pattern)] == [0.9]


def test_correcting_a_memory_drops_what_was_read_from_the_old_words(keeper: Keeper, store: Store) -> None:
    one, two = told(keeper, flag()), told(keeper, flag(source="MSFT"), text="Flag Microsoft above 5M")
    written, _ = keeper.supersede(one, "Flag Apple above 6M")
    assert rows(store) == ["thresholds/msft.volume.above"]
    assert [change.action for change in keeper.changeset(written.changeset).knowledge] == ["delete"]
    keeper.update(two, tags=["alerts"])
    keeper.update(two, text="Flag Microsoft above 5M")
    assert rows(store) == ["thresholds/msft.volume.above"]
    edited = keeper.update(two, text="Flag Microsoft above 7M")
    assert rows(store) == []
    keeper.undo(edited.changeset)
    assert rows(store) == ["thresholds/msft.volume.above"]


def journalled(store: Store) -> str:
    return repr([store.changeset(changeset.id) for changeset in store.changesets(100)])


def test_purging_a_memory_erases_what_was_read_from_it(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, Pattern(pattern="The zebra sleeps at noon"), flag(source="Zebra"), text="Zebras")
    done = keeper.changeset(keeper.purge(memory).changeset)
    assert [change.action for change in done.knowledge] == ["purge", "purge"]
    assert rows(store) == []
    assert "zebra" not in journalled(store).lower()


def test_purging_what_was_forgotten_before_erases_the_rows_that_went_with_it(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, Pattern(pattern="The zebra sleeps at noon"), text="Zebras")
    keeper.delete(memory)
    assert "zebra" in journalled(store).lower()
    keeper.purge(memory)
    assert "zebra" not in journalled(store).lower()


def test_a_row_that_another_tells_by_now_outlives_the_purge(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, flag())
    keeper.delete(memory)
    put(keeper, flag(7))
    keeper.purge(memory)
    assert rows(store) == ["thresholds/aapl.volume.above"]


def test_what_it_said_first_goes_from_the_past_of_a_row_that_was_changed_by_hand(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, Pattern(id="p1", pattern="zebras run before rain", confidence=0.8))
    before = keeper.knowledge.put("patterns", id="p1", pattern="horses run before rain").after
    assert "zebra" in journalled(store).lower()
    keeper.purge(memory)
    assert "zebra" not in journalled(store).lower()
    assert store.domain.get("patterns", ["p1"]) == [before]


def test_what_is_merged_keeps_its_rows(keeper: Keeper, store: Store) -> None:
    one, two = told(keeper, flag()), told(keeper, text="Volume spikes before earnings.")
    keeper.apply([Delete(one, "says the same", into=two)], by="upkeep", why="dedup")
    assert rows(store) == ["thresholds/aapl.volume.above"]


def test_a_memory_that_told_nothing_is_forgotten_as_before(keeper: Keeper) -> None:
    memory = keeper.add("We deploy on Fridays").memory_id
    assert keeper.changeset(keeper.delete(memory).changeset).knowledge == ()
    with pytest.raises(NotFound, match="no memory 99"):
        keeper.delete(99)
    with pytest.raises(NotFound, match="no memory 99"):
        keeper.restore(99)
    with pytest.raises(NotFound, match="no memory 99"):
        keeper.purge(99)


def test_a_viewer_forgets_their_rows_with_their_memory(keeper: Keeper, store: Store) -> None:
    ada = keeper.as_viewer(ADA)
    memory = told(ada, flag(), Pattern(pattern=SPIKES, visibility="team"))
    ada.delete(memory)
    assert rows(store) == []
    ada.restore(memory)
    assert len(rows(store)) == 2
    done = ada.changeset(ada.delete(memory).changeset)
    assert len(done.knowledge) == 2
    ada.restore(memory)
    ada.purge(memory)  # what is the team's is dropped: to erase that is not theirs alone
    assert rows(store) == []
    actions = {change.action for each in keeper.changes()[:1] for change in keeper.changeset(each.id).knowledge}
    assert actions == {"purge", "delete"}


def test_a_verdict_is_told_by_no_memory(keeper: Keeper, store: Store) -> None:
    memory = told(keeper, flag())
    put(keeper, Feedback(anomaly="a1", verdict="confirmed", about=("thresholds/aapl.volume.above",)))
    keeper.delete(memory)
    assert rows(store) == ["feedback/a1"]


def test_a_viewer_cannot_erase_what_is_not_theirs_alone(keeper: Keeper) -> None:
    ada = keeper.as_viewer(ADA)
    done = put(ada, flag(visibility="team"))
    with pytest.raises(Forbidden, match="not private to you"):
        ada.apply([], by="ada", why="", knowledge=[PurgeRow("thresholds", done.knowledge[0].key)])
