"""Domain knowledge in exports, imports and copies, with links to memories."""

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
    Feedback,
    Knowledge,
    Pattern,
    Seasonal,
    Threshold,
)
from cofio.models.memory import VISIBILITIES, Add, Changeset, DeleteRow, Fact, PurgeRow, PutRow, RowDecision, to_utc_iso
from cofio.ports import Store
from cofio.testing import FixedClock, MemoryStore
from cofio.transfer import copy as transfer_copy
from cofio.transfer import export, importer
from cofio.transfer.copy import copy
from tests.stores.contract import EMBEDDER, add, everything
from tests.transfer.fixtures import export_lines, import_exported, open_store

Make = Callable[[], Store]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Return a factory of new stores; the first has the parametrized kind, the others are SQLite."""
    created: list[Store] = []

    def new() -> Store:
        if request.param == "postgres" and not created:
            from cofio.stores.postgres import PostgresStore

            created.append(PostgresStore(request.getfixturevalue("postgres_url"), FixedClock()))
        else:
            created.append(MemoryStore(FixedClock()))
        return created[-1]

    yield new
    for item in created:
        item.close()


def put(store: Store, *decisions: Knowledge | RowDecision) -> Changeset:
    rows = [PutRow(decision) if isinstance(decision, Knowledge) else decision for decision in decisions]
    return store.apply(rows, {}, by="test", why="know")


def rows(store: Store) -> dict[str, Knowledge]:
    return {row.ref: row for table in TABLES for row in store.domain.rows(table)}


def row_fields(store: Store) -> dict[str, dict[str, Any]]:
    return {ref: row.as_dict() for ref, row in rows(store).items()}


def threshold(value: float = 5_000_000, **known: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "value": value, "direction": "above", **known})


def add_rows_with_history(store: Store) -> int:
    """Add rows of every table with histories, one linked to a memory. Return the memory's id."""
    add(store, "We deploy with Fly.io")
    stated = PutRow(threshold(1, user="ada", unit="«é»"), stated_by=0)
    memory = store.apply([Add(Fact(text="Flag AAPL if volume exceeds 5M")), stated], {}, by="test", why="")
    put(store, Pattern(pattern="Volume spikes before earnings 🌊", confidence=0.7, prior=0.5, confirmed=3, refuted=1))
    put(store, Correlation(source_a="BTC", source_b="ETH", rule="BTC leads ETH", relation="leads", inverse=True))
    put(
        store, Seasonal(pattern="Quiet", period="weekly", during="sat-sun", timezone="Europe/Berlin", visibility="team")
    )
    about = ("thresholds/aapl.volume.above", "correlations/btc.leads.eth")
    put(store, Feedback(anomaly="a-1", verdict="confirmed", note="yes", about=about, processed=True))
    put(store, threshold(2, visibility="global", place="codex/acme"))
    put(store, threshold(3, visibility="global", place="codex/acme"))
    put(store, Pattern(pattern="Gone"), DeleteRow("patterns", Pattern(pattern="Gone").id))
    return memory.changes[0].memory_id


# ── exports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_follow_memories_and_are_counted_in_the_header(make: Make) -> None:
    store = make()
    add_rows_with_history(store)
    header, *lines = map(json.loads, export_lines(store))
    assert (header["version"], header["memories"], header["knowledge"]) == (2, 2, 6)
    assert [line.get("knowledge") for line in lines] == [None, None, "patterns", "correlations", "thresholds",
                                                         "thresholds", "seasonal", "feedback"]  # fmt: skip
    for line in lines[2:]:
        table = line.pop("knowledge")
        assert line == store.domain.get(table, [line["id"]])[0].as_dict()


def test_export_without_rows_is_unchanged(make: Make) -> None:
    store = make()
    add(store, "We deploy with Fly.io")
    put(store, threshold())
    put(store, DeleteRow("thresholds", "aapl.volume.above"))
    header = json.loads(export_lines(store)[0])
    assert header == {
        "cofio": "export", "version": 1, "store": store.snapshots.identity(), "memories": 1, "last_id": 1
    }  # fmt: skip


def test_export_is_a_snapshot(make: Make) -> None:
    store = make()
    add_rows_with_history(store)
    before = export_lines(store)
    reading = export.export_lines(store)
    lines = [next(reading)]
    put(store, threshold(9, visibility="global"), Pattern(pattern="Written while it is exported"))
    assert lines + list(reading) == before


# ── imports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_import_into_an_empty_store_round_trips(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    lines = export_lines(one)
    report = import_exported(two, lines)
    assert (report.rows_read, report.rows_added, report.rows_known, report.missing) == (6, 6, 0, 0)
    assert (report.read, report.added) == (2, 2)
    assert export_lines(two) == lines


def test_rows_without_memories_round_trip(make: Make) -> None:
    one, two = make(), make()
    put(one, threshold(), Pattern(pattern="Quiet"))
    lines = export_lines(one)
    assert import_exported(two, lines).rows_added == 2
    assert export_lines(two) == lines
    assert two.snapshots.identity() == one.snapshots.identity()


def test_second_import_changes_nothing(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    add(two, "Something of its own")
    lines = export_lines(one)
    import_exported(two, lines)
    before, changes = export_lines(two), len(two.changesets(100))
    repeated = import_exported(two, lines)
    assert (repeated.rows_read, repeated.rows_added, repeated.rows_known, repeated.first) == (6, 0, 6, None)
    assert export_lines(two) == before
    assert len(two.changesets(100)) == changes
    assert import_exported(one, lines).first is None


def test_rows_are_linked_to_local_memories(make: Make) -> None:
    one, two = make(), make()
    memory = add_rows_with_history(one)
    for number in range(5):
        add(two, f"Something of its own, number {number}")
    import_exported(two, export_lines(one))
    [told] = [row for row in rows(two).values() if isinstance(row, Claim) and row.memory]
    assert told.memory != memory
    assert two.get([told.memory or 0])[0].text == "Flag AAPL if volume exceeds 5M"
    assert [row.ref for row in two.domain.stated_by([told.memory or 0])] == [told.ref]


def test_links_to_missing_memories_are_dropped(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    add(two, "Something of its own")
    lines = [line for line in export_lines(one) if "Flag AAPL" not in line]
    report = import_exported(two, lines)
    assert (report.missing, report.rows_added) == (1, 6)
    assert not any(row.memory for row in rows(two).values() if isinstance(row, Claim))


def test_existing_rows_are_kept(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    add(two, "Something of its own")
    put(two, threshold(77, visibility="global", created_at="2020-01-01T00:00:00Z"))
    report = import_exported(two, export_lines(one))
    assert (report.rows_added, report.rows_known) == (5, 1)
    assert row_fields(two)["thresholds/aapl.volume.above"]["value"] == 77


def test_conflicting_id_gets_a_suffix(make: Make) -> None:
    one, two = make(), make()
    verdict = Feedback(anomaly="a-1", verdict="confirmed", about=("patterns/p1",))
    put(one, Pattern(pattern="Volume spikes", id="p1", created_at="2020-01-01T00:00:00Z"), verdict)
    put(two, Pattern(pattern="Lions sleep", id="p1", created_at="2021-01-01T00:00:00Z"))
    lines = export_lines(one)
    assert import_exported(two, lines).rows_added == 2
    assert import_exported(two, lines).rows_added == 0
    results = row_fields(two)
    [other] = [ref for ref in results if ref.startswith("patterns/p1~")]
    assert (results["patterns/p1"]["pattern"], results[other]["pattern"]) == ("Lions sleep", "Volume spikes")
    assert results["feedback/a-1"]["about"] == [other]


def test_feedback_not_applied_here_is_pending(make: Make) -> None:
    one, two = make(), make()
    here, there = (Keeper(item, EMBEDDER, FixedClock()).knowledge for item in (two, one))
    ref = there.upsert_pattern("Gaps fill").ref
    there.feedback("a-1", "false_alarm", about=[ref])
    import_exported(two, export_lines(one))
    assert here.pending_feedback() == []  # imported together with its claim
    there.feedback("a-2", "confirmed", about=[ref])
    import_exported(two, export_lines(one))
    assert [item.anomaly for item in here.pending_feedback()] == ["a-2"]
    here.process_feedback()
    assert rows(two)[ref].as_dict()["confidence"] == rows(one)[ref].as_dict()["confidence"]
    for anomaly in ("a-2", "a-1"):
        here.delete("feedback", anomaly)
    assert [rows(two)[ref].as_dict()[name] for name in ("confirmed", "refuted")] == [0, 0]


def test_feedback_on_an_existing_claim_is_pending(make: Make) -> None:
    one, two, both = make(), make(), make()
    claim = Pattern(pattern="Gaps fill")
    for store, verdict, day in ((one, "false_alarm", "2020-01-01"), (two, "confirmed", "2020-01-02")):
        put(store, replace(claim, created_at=day, updated_at=day))
        Keeper(store, EMBEDDER, FixedClock()).knowledge.feedback(verdict, verdict, about=[claim.ref])
        import_exported(both, export_lines(store))
    known = Keeper(both, EMBEDDER, FixedClock()).knowledge
    assert [item.anomaly for item in known.pending_feedback()] == ["confirmed"]
    known.delete("feedback", "confirmed")
    assert [rows(both)[claim.ref].as_dict()[name] for name in ("confirmed", "refuted")] == [0, 1]


def test_undone_import_can_be_repeated(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "BATCH", 2)
    one, two = make(), make()
    add_rows_with_history(one)
    add(two, "Something of its own")
    before = export_lines(two)
    report = import_exported(two, export_lines(one))
    assert report.changesets == 4
    keeper = Keeper(two, EMBEDDER, FixedClock())
    undo = keeper.undo(report.first or 0)
    assert export_lines(two) == before
    keeper.undo(undo.id)
    assert len(rows(two)) == 6
    keeper.undo(two.changesets(1)[0].part_of or 0)
    assert export_lines(two) == before
    import_exported(two, export_lines(one))
    assert len(rows(two)) == 6


def test_dry_run_counts_rows(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    report = import_exported(two, export_lines(one), dry_run=True)
    assert (report.rows_read, report.rows_added, report.added, report.changesets) == (6, 6, 2, 0)
    assert rows(two) == {}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ({"confidence": 1.5}, "confidence"),
        ({"knowledge": "zebras"}, "no table 'zebras'"),
        ({"knowledge": ["thresholds"]}, "no table"),
        ({"id": ""}, "field id is missing"),
        ({"id": "a b"}, "not a valid id"),
        ({"value": None}, "value must be a number"),
        ({"created_at": None}, "field created_at is missing"),
        ({"updated_at": "yesterday"}, "yesterday"),
        ({"direction": 7}, "direction is 7"),
        ({"metric": {}}, "metric"),
        ({"memory": "seven"}, "memory"),
    ],
)
def test_invalid_row_is_named_and_can_be_skipped(broken: dict[str, Any], problem: str) -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    put(one, threshold(), Pattern(pattern="Quiet"))
    lines = export_lines(one)
    assert "thresholds" in lines[2]
    lines[2] = json.dumps({**json.loads(lines[2]), **broken}) + "\n"
    with pytest.raises(InvalidInput, match="Line 3: ") as refused:
        import_exported(two, lines)
    assert problem in refused.value.message
    report = import_exported(two, lines, skip_bad=True)
    assert (report.skipped, report.rows_known, report.missing) == (1, 1, 1)
    assert list(rows(two)) == [Pattern(pattern="Quiet").ref]


def test_missing_field_is_an_invalid_line() -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    put(one, threshold())
    plain = json.loads(export_lines(one)[1])
    del plain["metric"]
    with pytest.raises(InvalidInput, match="Line 2: The line is not a row of thresholds"):
        import_exported(two, [export_lines(one)[0], json.dumps(plain) + "\n"])


def test_fields_of_newer_versions_are_ignored() -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    put(one, threshold())
    header, line = export_lines(one)
    import_exported(two, [header, json.dumps({**json.loads(line), "mood": "good"}) + "\n"])
    assert export_lines(two) == [header, line]


def test_rows_before_their_memories_are_imported() -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    add_rows_with_history(one)
    header, *lines = export_lines(one)
    import_exported(two, [header, *reversed(lines)])
    assert export_lines(two) == [header, *lines]


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
def test_random_rows_round_trip(known: list[Knowledge]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two, three = (open_store(Path(folder) / f"{number}.db") for number in range(3))
        put(one, *known) if known else None
        assert rows(one) == {row.ref: row for row in known}
        lines = export_lines(one)
        import_exported(two, lines)
        assert export_lines(two) == lines
        copy(one, three)
        assert export_lines(three) == lines
        for store in (one, two, three):
            store.close()


# ── copies ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_copy_has_the_same_rows(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_copy, "BATCH", 2)
    one, two = make(), make()
    memory = add_rows_with_history(one)
    report = copy(one, two)
    assert (report.memories, report.knowledge) == (2, 6)
    assert rows(two) == rows(one)
    assert export_lines(two) == export_lines(one)
    assert [row.memory for row in two.domain.stated_by([memory]) if isinstance(row, Claim)] == [memory]
    assert two.domain.naming(["btc"]) == one.domain.naming(["btc"])


def test_copy_in_the_other_direction(make: Make) -> None:
    first, second = make(), make()
    add_rows_with_history(second)
    copy(second, first)  # into PostgreSQL if the first store is one
    assert export_lines(first) == export_lines(second)


def test_copy_is_updated(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    first = copy(one, two)
    put(one, threshold(99, visibility="global"), PurgeRow("correlations", "btc.leads.eth"), Pattern(pattern="New"))
    repeated = copy(one, two)
    assert repeated.digest != first.digest
    assert rows(two) == rows(one)
    assert "btc leads eth" not in repr([two.changeset(changeset.id) for changeset in two.changesets(100)]).lower()
    assert copy(one, two).digest == repeated.digest


def test_up_to_date_copy_writes_nothing(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    copy(one, two)
    changes = len(two.changesets(100))
    copy(one, two)
    assert len(two.changesets(100)) == changes


def test_target_with_its_own_rows_is_rejected(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    put(two, threshold(source="MSFT"))
    before = export_lines(two)
    with pytest.raises(Conflict, match="of its own"):
        copy(one, two)
    assert export_lines(two) == before


def test_copy_with_changed_rows_is_rejected(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    copy(one, two)
    put(two, threshold(source="MSFT"))
    with pytest.raises(Conflict, match="was changed after"):
        copy(one, two)


def test_verification_detects_a_different_row(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = MemoryStore(FixedClock()), MemoryStore(FixedClock())
    add_rows_with_history(one)
    real = two.apply

    def lossy(decisions: Any, *given: Any, **how: Any) -> Changeset:
        some = [
            replace(item, row=replace(item.row, place="")) if isinstance(item, PutRow) else item for item in decisions
        ]
        return real(some, *given, **how)

    monkeypatch.setattr(two, "apply", lossy)
    with pytest.raises(Conflict, match="rows of domain knowledge"):
        copy(one, two)


def test_import_into_a_store_with_rows_keeps_its_identity(make: Make) -> None:
    one, two = make(), make()
    add_rows_with_history(one)
    put(two, threshold(source="MSFT"))
    name = two.snapshots.identity()
    import_exported(two, export_lines(one))
    assert two.snapshots.identity() == name
    assert len(rows(two)) == 7
    assert len(everything(two)) == 2
