"""Domain knowledge goes from store to store whole, in exports, imports and copies, with the memories that say it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.core import Keeper
from cofio.errors import Conflict, InvalidInput
from cofio.models.domain_knowledge import (
    DIRECTIONS,
    PERIODS,
    RELATIONS,
    TABLES,
    VERDICTS,
    Claim,
    Correlation,
    DeleteRow,
    Feedback,
    Knowledge,
    Pattern,
    PurgeRow,
    PutRow,
    RowDecision,
    Seasonal,
    Threshold,
)
from cofio.models.memory import VISIBILITIES, Add, Changeset, Fact, to_utc_iso
from cofio.ports import Store
from cofio.testing import FixedClock, MemoryStore
from cofio.transfer import copy as transfer_copy
from cofio.transfer import export, importer
from cofio.transfer.copy import copy
from tests.stores.contract import EMBEDDER, add, everything
from tests.transfer.fixtures import exported, imported, opened

Make = Callable[[], Store]


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """New stores, as many as are wanted; the first is of that kind, the others are files."""
    made: list[Store] = []

    def new() -> Store:
        if request.param == "memory":
            made.append(MemoryStore(FixedClock()))
        elif request.param == "postgres" and not made:
            from cofio.stores.postgres import PostgresStore

            made.append(PostgresStore(request.getfixturevalue("postgres_url"), FixedClock()))
        else:
            made.append(opened(tmp_path / f"{len(made)}.db"))
        return made[-1]

    yield new
    for each in made:
        each.close()


def put(store: Store, *decisions: Knowledge | RowDecision) -> Changeset:
    rows = [PutRow(decision) if isinstance(decision, Knowledge) else decision for decision in decisions]
    return store.apply([], {}, by="test", why="know", knowledge=rows)


def rows(store: Store) -> dict[str, Knowledge]:
    return {row.ref: row for table in TABLES for row in store.domain.rows(table)}


def plain(store: Store) -> dict[str, dict[str, Any]]:
    return {ref: row.as_dict() for ref, row in rows(store).items()}


def flag(value: float = 5_000_000, **known: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "value": value, "direction": "above", **known})


def know(store: Store) -> int:
    """Rows of every table with a past, one of them told by a memory; the memory's id."""
    add(store, "We deploy with Fly.io")
    told = [Add(Fact(text="Flag AAPL if volume exceeds 5M"))]
    memory = store.apply(told, {}, by="test", why="", knowledge=[PutRow(flag(1, user="ada", unit="«é»"), stated_by=0)])
    put(store, Pattern(pattern="Volume spikes before earnings 🌊", confidence=0.7, prior=0.5, confirmed=3, refuted=1))
    put(store, Correlation(source_a="BTC", source_b="ETH", rule="BTC leads ETH", relation="leads", inverse=True))
    put(
        store, Seasonal(pattern="Quiet", period="weekly", during="sat-sun", timezone="Europe/Berlin", visibility="team")
    )
    about = ("thresholds/aapl.volume.above", "correlations/btc.leads.eth")
    put(store, Feedback(anomaly="a-1", verdict="confirmed", note="yes", about=about, processed=True))
    put(store, flag(2, visibility="global", place="codex/acme"))
    put(store, flag(3, visibility="global", place="codex/acme"))
    put(store, Pattern(pattern="Gone"), DeleteRow("patterns", Pattern(pattern="Gone").id))
    return memory.changes[0].memory_id


# ── exports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_follow_the_memories_one_a_line_and_the_header_counts_them(make: Make) -> None:
    store = make()
    know(store)
    header, *lines = map(json.loads, exported(store))
    assert (header["version"], header["memories"], header["knowledge"]) == (2, 2, 6)
    assert [line.get("knowledge") for line in lines] == [None, None, "patterns", "correlations", "thresholds",
                                                         "thresholds", "seasonal", "feedback"]  # fmt: skip
    for line in lines[2:]:
        table = line.pop("knowledge")
        assert line == store.domain.get(table, [line["id"]])[0].as_dict()


def test_an_export_without_rows_is_as_it_always_was(make: Make) -> None:
    store = make()
    add(store, "We deploy with Fly.io")
    put(store, flag())
    put(store, DeleteRow("thresholds", "aapl.volume.above"))
    header = json.loads(exported(store)[0])
    assert header == {
        "cofio": "export", "version": 1, "store": store.snapshots.identity(), "memories": 1, "last_id": 1
    }  # fmt: skip


def test_an_export_of_rows_is_of_one_moment(make: Make) -> None:
    store = make()
    know(store)
    before = exported(store)
    reading = export.export_lines(store)
    lines = [next(reading)]
    put(store, flag(9, visibility="global"), Pattern(pattern="Written while it is exported"))
    assert lines + list(reading) == before


# ── imports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_into_an_empty_store_are_exported_byte_for_byte(make: Make) -> None:
    one, two = make(), make()
    know(one)
    lines = exported(one)
    told = imported(two, lines)
    assert (told.rows_read, told.rows_added, told.rows_known, told.missing) == (6, 6, 0, 0)
    assert (told.read, told.added) == (2, 2)
    assert exported(two) == lines


def test_rows_alone_make_a_round_trip_too(make: Make) -> None:
    one, two = make(), make()
    put(one, flag(), Pattern(pattern="Quiet"))
    lines = exported(one)
    assert imported(two, lines).rows_added == 2
    assert exported(two) == lines
    assert two.snapshots.identity() == one.snapshots.identity()


def test_importing_twice_changes_nothing(make: Make) -> None:
    one, two = make(), make()
    know(one)
    add(two, "Something of its own")
    lines = exported(one)
    imported(two, lines)
    before, changes = exported(two), len(two.changesets(100))
    again = imported(two, lines)
    assert (again.rows_read, again.rows_added, again.rows_known, again.first) == (6, 0, 6, None)
    assert exported(two) == before
    assert len(two.changesets(100)) == changes
    assert imported(one, lines).first is None


def test_rows_are_linked_to_the_memories_that_say_them_here(make: Make) -> None:
    one, two = make(), make()
    memory = know(one)
    for number in range(5):
        add(two, f"Something of its own, number {number}")
    imported(two, exported(one))
    [told] = [row for row in rows(two).values() if isinstance(row, Claim) and row.memory]
    assert told.memory != memory
    assert two.get([told.memory or 0])[0].text == "Flag AAPL if volume exceeds 5M"
    assert [row.ref for row in two.domain.stated_by([told.memory or 0])] == [told.ref]


def test_a_link_to_what_does_not_come_along_is_dropped(make: Make) -> None:
    one, two = make(), make()
    know(one)
    add(two, "Something of its own")
    lines = [line for line in exported(one) if "Flag AAPL" not in line]
    told = imported(two, lines)
    assert (told.missing, told.rows_added) == (1, 6)
    assert not any(row.memory for row in rows(two).values() if isinstance(row, Claim))


def test_what_is_known_here_stays_as_it_is(make: Make) -> None:
    one, two = make(), make()
    know(one)
    add(two, "Something of its own")
    put(two, flag(77, visibility="global", created_at="2020-01-01T00:00:00Z"))
    told = imported(two, exported(one))
    assert (told.rows_added, told.rows_known) == (5, 1)
    assert plain(two)["thresholds/aapl.volume.above"]["value"] == 77


def test_a_name_that_means_something_else_here_gets_an_end_of_its_own(make: Make) -> None:
    one, two = make(), make()
    verdict = Feedback(anomaly="a-1", verdict="confirmed", about=("patterns/p1",))
    put(one, Pattern(pattern="Volume spikes", id="p1", created_at="2020-01-01T00:00:00Z"), verdict)
    put(two, Pattern(pattern="Lions sleep", id="p1", created_at="2021-01-01T00:00:00Z"))
    lines = exported(one)
    assert imported(two, lines).rows_added == 2
    assert imported(two, lines).rows_added == 0
    found = plain(two)
    [other] = [ref for ref in found if ref.startswith("patterns/p1~")]
    assert (found["patterns/p1"]["pattern"], found[other]["pattern"]) == ("Lions sleep", "Volume spikes")
    assert found["feedback/a-1"]["about"] == [other]


def test_a_verdict_that_has_not_counted_here_waits(make: Make) -> None:
    one, two = make(), make()
    here, there = (Keeper(each, EMBEDDER, FixedClock()).knowledge for each in (two, one))
    ref = there.upsert_pattern("Gaps fill").ref
    there.feedback("a-1", "false_alarm", about=[ref])
    imported(two, exported(one))
    assert here.pending_feedback() == []  # it came with the claim that it moved
    there.feedback("a-2", "confirmed", about=[ref])
    imported(two, exported(one))
    assert [each.anomaly for each in here.pending_feedback()] == ["a-2"]
    here.process_feedback()
    assert rows(two)[ref].as_dict()["confidence"] == rows(one)[ref].as_dict()["confidence"]
    for anomaly in ("a-2", "a-1"):
        here.delete("feedback", anomaly)
    assert [rows(two)[ref].as_dict()[name] for name in ("confirmed", "refuted")] == [0, 0]


def test_a_verdict_of_a_store_that_knows_the_claim_too_waits(make: Make) -> None:
    one, two, both = make(), make(), make()
    claim = Pattern(pattern="Gaps fill")
    for store, verdict, day in ((one, "false_alarm", "2020-01-01"), (two, "confirmed", "2020-01-02")):
        put(store, replace(claim, created_at=day, updated_at=day))
        Keeper(store, EMBEDDER, FixedClock()).knowledge.feedback(verdict, verdict, about=[claim.ref])
        imported(both, exported(store))
    known = Keeper(both, EMBEDDER, FixedClock()).knowledge
    assert [each.anomaly for each in known.pending_feedback()] == ["confirmed"]
    known.delete("feedback", "confirmed")
    assert [rows(both)[claim.ref].as_dict()[name] for name in ("confirmed", "refuted")] == [0, 1]


def test_an_import_is_undone_with_its_rows_and_can_be_imported_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH", 2)
    one, two = make(), make()
    know(one)
    add(two, "Something of its own")
    before = exported(two)
    told = imported(two, exported(one))
    assert told.changesets == 4
    keeper = Keeper(two, EMBEDDER, FixedClock())
    undone = keeper.undo(told.first or 0)
    assert exported(two) == before
    keeper.undo(undone.id)
    assert len(rows(two)) == 6
    keeper.undo(two.changesets(1)[0].part_of or 0)
    assert exported(two) == before
    imported(two, exported(one))
    assert len(rows(two)) == 6


def test_a_dry_run_counts_rows_and_keeps_none(make: Make) -> None:
    one, two = make(), make()
    know(one)
    told = imported(two, exported(one), dry_run=True)
    assert (told.rows_read, told.rows_added, told.added, told.changesets) == (6, 6, 2, 0)
    assert rows(two) == {}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ({"confidence": 1.5}, "confidence"),
        ({"knowledge": "zebras"}, "no table 'zebras'"),
        ({"knowledge": ["thresholds"]}, "no table"),
        ({"id": ""}, "no id"),
        ({"id": "a b"}, "id is"),
        ({"value": None}, "value is None"),
        ({"created_at": None}, "no created_at"),
        ({"updated_at": "yesterday"}, "yesterday"),
        ({"direction": 7}, "direction is 7"),
        ({"metric": {}}, "metric"),
        ({"memory": "seven"}, "memory"),
    ],
)
def test_a_bad_row_is_named_by_its_line_and_can_be_left_out(broken: dict[str, Any], problem: str) -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    put(one, flag(), Pattern(pattern="Quiet"))
    lines = exported(one)
    assert "thresholds" in lines[2]
    lines[2] = json.dumps({**json.loads(lines[2]), **broken}) + "\n"
    with pytest.raises(InvalidInput, match="Line 3: ") as refused:
        imported(two, lines)
    assert problem in refused.value.message
    told = imported(two, lines, skip_bad=True)
    assert (told.skipped, told.rows_known, told.missing) == (1, 1, 1)
    assert list(rows(two)) == [Pattern(pattern="Quiet").ref]


def test_a_row_that_lacks_a_field_is_a_bad_line() -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    put(one, flag())
    plain = json.loads(exported(one)[1])
    del plain["metric"]
    with pytest.raises(InvalidInput, match="Line 2: It is not a row of thresholds"):
        imported(two, [exported(one)[0], json.dumps(plain) + "\n"])


def test_keys_of_later_versions_are_passed_over() -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    put(one, flag())
    header, line = exported(one)
    imported(two, [header, json.dumps({**json.loads(line), "mood": "good"}) + "\n"])
    assert exported(two) == [header, line]


def test_rows_before_their_memories_are_imported_all_the_same() -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    know(one)
    header, *lines = exported(one)
    imported(two, [header, *reversed(lines)])
    assert exported(two) == [header, *lines]


_text = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs", "So")), min_size=1, max_size=30).filter(
    lambda text: bool(text.strip())
)
_common = {
    "id": st.from_regex(r"[a-zé0-9.:@~_-]{1,12}", fullmatch=True).filter(lambda name: name not in (".", "..")),
    "place": _text,
    "agent": _text,
    "user": _text,
    "team": _text,
    "visibility": st.sampled_from(VISIBILITIES),
    "created_at": st.datetimes().map(to_utc_iso),
    "updated_at": st.datetimes().map(to_utc_iso),
}
_claim = {
    **_common,
    "confidence": st.floats(0, 1),
    "prior": st.floats(0, 1),
    "confirmed": st.integers(0, 1 << 30),
    "refuted": st.integers(0, 1 << 30),
}
_known = st.one_of(
    st.builds(Pattern, pattern=_text, source=_text, **_claim),  # type: ignore[arg-type]
    st.builds(Correlation, source_a=_text.map("a ".__add__), source_b=_text.map("b ".__add__), rule=_text,
              relation=st.sampled_from(RELATIONS), inverse=st.booleans(), **_claim),  # type: ignore[arg-type]
    st.builds(Threshold, source=_text, metric=_text, value=st.floats(allow_nan=False, allow_infinity=False),
              direction=st.sampled_from(DIRECTIONS), inclusive=st.booleans(), unit=_text, **_claim),  # type: ignore[arg-type]
    st.builds(Seasonal, pattern=_text, period=st.sampled_from(PERIODS), during=_text, lasts=st.integers(1, 1_000),
              timezone=_text, source=_text, **_claim),  # type: ignore[arg-type]
    st.builds(Feedback, anomaly=_text, verdict=st.sampled_from(VERDICTS), note=_text, processed=st.booleans(),
              about=st.lists(_common["id"].map("patterns/".__add__), max_size=3).map(tuple), **_common),  # type: ignore[arg-type]
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_known, max_size=8, unique_by=lambda row: row.ref))
def test_whatever_is_known_the_round_trip_keeps_it(known: list[Knowledge]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two, three = (opened(Path(folder) / f"{number}.db") for number in range(3))
        put(one, *known) if known else None
        assert rows(one) == {row.ref: row for row in known}
        lines = exported(one)
        imported(two, lines)
        assert exported(two) == lines
        copy(one, three)
        assert exported(three) == lines
        for store in (one, two, three):
            store.close()


# ── copies ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_has_the_same_rows(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_copy, "BATCH", 2)
    one, two = make(), make()
    memory = know(one)
    told = copy(one, two)
    assert (told.memories, told.knowledge) == (2, 6)
    assert rows(two) == rows(one)
    assert exported(two) == exported(one)
    assert [row.memory for row in two.domain.stated_by([memory]) if isinstance(row, Claim)] == [memory]
    assert two.domain.naming(["btc"]) == one.domain.naming(["btc"])


def test_back_again(make: Make) -> None:
    first, second = make(), make()
    know(second)
    copy(second, first)  # into the server, where the first is one
    assert exported(first) == exported(second)


def test_a_copy_is_brought_up_to_date(make: Make) -> None:
    one, two = make(), make()
    know(one)
    first = copy(one, two)
    put(one, flag(99, visibility="global"), PurgeRow("correlations", "btc.leads.eth"), Pattern(pattern="New"))
    again = copy(one, two)
    assert again.digest != first.digest
    assert rows(two) == rows(one)
    assert "btc leads eth" not in repr([two.changeset(changeset.id) for changeset in two.changesets(100)]).lower()
    assert copy(one, two).digest == again.digest


def test_a_copy_that_is_up_to_date_writes_nothing(make: Make) -> None:
    one, two = make(), make()
    know(one)
    copy(one, two)
    changes = len(two.changesets(100))
    copy(one, two)
    assert len(two.changesets(100)) == changes


def test_a_store_that_knows_something_of_its_own_is_no_place_for_a_copy(make: Make) -> None:
    one, two = make(), make()
    know(one)
    put(two, flag(source="MSFT"))
    before = exported(two)
    with pytest.raises(Conflict, match="of its own"):
        copy(one, two)
    assert exported(two) == before


def test_a_copy_whose_rows_were_changed_was_used(make: Make) -> None:
    one, two = make(), make()
    know(one)
    copy(one, two)
    put(two, flag(source="MSFT"))
    with pytest.raises(Conflict, match="was changed after"):
        copy(one, two)


def test_a_row_that_differs_is_found_when_everything_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    know(one)
    real = two.apply

    def lossy(*given: Any, knowledge: Any = (), **how: Any) -> Changeset:
        some = [replace(each, row=replace(each.row, place="")) for each in knowledge]
        return real(*given, knowledge=some, **how)

    monkeypatch.setattr(two, "apply", lossy)
    with pytest.raises(Conflict, match="rows of domain knowledge"):
        copy(one, two)


def test_an_import_into_a_store_that_knows_rows_leaves_its_name(make: Make) -> None:
    one, two = make(), make()
    know(one)
    put(two, flag(source="MSFT"))
    name = two.snapshots.identity()
    imported(two, exported(one))
    assert two.snapshots.identity() == name
    assert len(rows(two)) == 7
    assert len(everything(two)) == 2
