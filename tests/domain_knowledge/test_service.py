"""The tables of domain knowledge, over every store: storing, querying, feedback.

The first section follows a requirement that was written for a store in TypeScript.

"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.core import Keeper
from cofio.core.domain_knowledge import KnowledgeBase
from cofio.domain_knowledge import lookup
from cofio.domain_knowledge.confidence import confidence_of
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.models.domain_knowledge import Claim, Feedback
from cofio.models.memory import PutRow, Viewer
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore

#: Open the store again, as another process would; the clock is shared.
Reopen = Callable[[], Store]
VOLUME = "thresholds/aapl.volume.above"


@pytest.fixture(params=["sqlite", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    clock = FixedClock()
    stores: list[Store] = []
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""

    def open_another() -> Store:
        stores.append(PostgresStore(url, clock) if url else SqliteStore(tmp_path / "cofio.db", clock))
        return stores[-1]

    yield open_another
    for store in stores:
        store.close()


def keeper_on(store: Store) -> Keeper:
    return Keeper(store, HashEmbedder(), FixedClock("2026-03-11T14:00:00Z"))


@pytest.fixture
def keeper(reopen: Reopen) -> Keeper:
    return keeper_on(reopen())


@pytest.fixture
def knowledge(keeper: Keeper) -> KnowledgeBase:
    return keeper.knowledge


@pytest.fixture
def volume(knowledge: KnowledgeBase) -> str:
    """Add a threshold with confidence 0.5 and return its ref."""
    return knowledge.upsert_threshold("AAPL", "volume", 5e6, "above").ref


def claim(knowledge: KnowledgeBase, ref: str) -> Claim:
    row = knowledge.get(*ref.split("/"))
    assert isinstance(row, Claim)
    return row


def confidence(knowledge: KnowledgeBase, ref: str) -> float:
    return claim(knowledge, ref).confidence


def belief(knowledge: KnowledgeBase, ref: str) -> tuple[float, int, int]:
    row = claim(knowledge, ref)
    return row.confidence, row.confirmed, row.refuted


# ── Requirement ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pattern_is_inserted_and_retrieved(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_pattern(
        "volume spike before earnings", id="p1", confidence=0.8, source="a", created_at=1, updated_at=1
    )
    assert [pattern.id for pattern in knowledge.patterns()] == ["p1"]


def test_upsert_updates_an_existing_row(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_pattern("old", id="p1", confidence=0.5, source="a", created_at=1, updated_at=1)
    knowledge.upsert_pattern("new", id="p1", confidence=0.9, source="a", created_at=1, updated_at=2)
    (pattern,) = knowledge.patterns()
    assert (pattern.pattern, pattern.confidence) == ("new", 0.9)


def test_correlations_are_created_and_deleted(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_correlation("yahoo", "binance", "BTC leads COIN", id="c1", confidence=0.7, created_at=1)
    assert len(knowledge.list("correlations")) == 1
    knowledge.delete("correlations", "c1")
    assert knowledge.list("correlations") == []


def test_thresholds_are_created(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_threshold("yahoo", "volume", 5e6, "above", id="t1", updated_at=1)
    (threshold,) = knowledge.list("thresholds")
    assert threshold.as_dict()["direction"] == "above"


def test_patterns_are_filtered_by_minimum_confidence(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_pattern("low", id="p1", confidence=0.2, source="a", created_at=1, updated_at=1)
    knowledge.upsert_pattern("high", id="p2", confidence=0.8, source="a", created_at=1, updated_at=1)
    assert [pattern.id for pattern in knowledge.patterns(0.5)] == ["p2"]


# ── Storing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_upsert_keeps_id_and_creation_time(knowledge: KnowledgeBase) -> None:
    first = knowledge.upsert_threshold("AAPL", "volume", 5e6, "above", created_at="2025-01-01")
    second = knowledge.upsert_threshold(
        "aapl", "Volume", 6e6, "above", created_at="2026-02-02", updated_at="2026-02-02"
    )
    assert second.id == first.id == "aapl.volume.above"
    assert (second.value, second.created_at) == (6e6, first.created_at)
    assert second.created_at.startswith("2025-01-01")
    assert second.updated_at > "2026-01-01"
    assert knowledge.counts() == {"patterns": 0, "correlations": 0, "thresholds": 1, "seasonal": 0, "feedback": 0}


def test_fields_that_are_not_given_are_kept(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.put("thresholds", id="aapl.volume.above", unit="shares", inclusive=True)
    knowledge.put("thresholds", id="aapl.volume.above", value=7e6)
    row = knowledge.get(*volume.split("/")).as_dict()
    assert (row["source"], row["value"], row["unit"], row["inclusive"]) == ("AAPL", 7e6, "shares", True)


def test_identical_put_is_a_noop(knowledge: KnowledgeBase, volume: str) -> None:
    change = knowledge.put("thresholds", source="AAPL", metric="volume", value=5e6, direction="above")
    assert (change.action, change.id, change.ref) == ("noop", 0, volume)
    assert change.before == change.after == knowledge.get(change.table, change.key)
    assert [entry.action for entry in knowledge.history(change.table, change.key)] == ["add"]


def test_noop_writes_no_changeset(keeper: Keeper, knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("spike", "confirmed", about=[volume])
    changes_before = keeper.changes()
    assert knowledge.put("thresholds", id=volume.partition("/")[2], value=5e6).changeset == 0
    duplicate = knowledge.feedback("spike", "confirmed", about=[volume])
    assert (duplicate.id, [(change.ref, change.action) for change in duplicate.knowledge]) == (
        0,
        [("feedback/spike", "noop")],
    )
    assert keeper.changes() == changes_before
    with pytest.raises(InvalidInput):
        knowledge.put("thresholds", id=volume.partition("/")[2], value=5e6, by="x" * 2_000)


@pytest.mark.parametrize("restated", [False, True])
def test_extended_verdict_is_removed_completely(knowledge: KnowledgeBase, volume: str, restated: bool) -> None:
    second = knowledge.upsert_threshold("TSLA", "volume", 8e6, "above").ref
    knowledge.feedback("spike", "confirmed", about=[volume])
    if restated:  # restating the claim resets its verdicts
        knowledge.put("thresholds", id=volume.partition("/")[2], confidence=0.9)
    knowledge.feedback("spike", "confirmed", about=[volume, second])
    assert [belief(knowledge, ref)[1:] for ref in (volume, second)] == [(1, 0), (1, 0)]
    knowledge.delete("feedback", "spike")
    assert [belief(knowledge, ref)[1:] for ref in (volume, second)] == [(0, 0), (0, 0)]


def test_every_change_is_recorded_and_undone(keeper: Keeper, knowledge: KnowledgeBase) -> None:
    added = knowledge.put("patterns", pattern="gaps fill", by="ada", why="seen often")
    changed = knowledge.put("patterns", id=added.key, confidence=0.9)
    deleted = knowledge.delete("patterns", added.key)
    assert [(entry.action, entry.by) for entry in knowledge.history("patterns", added.key)] == [
        ("add", "ada"), ("update", "library"), ("delete", "library"),
    ]  # fmt: skip
    keeper.undo(deleted.changeset)
    keeper.undo(changed.changeset)
    assert knowledge.get("patterns", added.key) == added.after
    keeper.undo(added.changeset)
    with pytest.raises(NotFound):
        knowledge.get("patterns", added.key)


def test_purge_removes_the_text_from_the_history(keeper: Keeper, knowledge: KnowledgeBase) -> None:
    added = knowledge.put("patterns", pattern="the vault opens at nine")
    knowledge.purge("patterns", added.key)
    assert "vault" not in str(keeper.changeset(added.changeset).as_dict())
    with pytest.raises(NotFound):
        knowledge.get("patterns", added.key)


@pytest.mark.parametrize(
    ("table", "fields", "message"),
    [
        ("thresholds", {"source": "AAPL", "metric": "volume", "value": 1}, "lacks direction"),
        ("thresholds", {"id": "t1", "value": 5}, "lacks"),
        ("patterns", {"pattern": "x", "colour": "red"}, "no field colour"),
        ("patterns", {"pattern": "x", "confidence": 1.5}, "confidence is 1.5"),
        ("patterns", {"pattern": "x", "confirmed": 3}, "confirmed cannot be set"),
        ("patterns", {"pattern": "x", "prior": 0.3}, "prior cannot be set"),
        ("feedback", {"anomaly": "a", "verdict": "note", "processed": True}, "processed cannot be set"),
        ("feedback", {"anomaly": "a"}, "verdict is"),
        ("seasonal", {"pattern": "x", "period": "daily", "during": "at noon"}, "not a valid time of a daily pattern"),
        ("seasonal", {"pattern": "x", "period": "daily", "timezone": "Mars/Olympus"}, "no timezone"),
        ("memories", {}, "no table"),
    ],
)  # fmt: skip
def test_invalid_row_is_rejected_without_changes(
    knowledge: KnowledgeBase, table: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        knowledge.put(table, **fields)
    assert set(knowledge.counts().values()) == {0}


def test_seasonal_update_is_validated_with_the_stored_fields(knowledge: KnowledgeBase) -> None:
    stored = knowledge.upsert_seasonal("the desk is busy", "weekly", during="mon-fri")
    with pytest.raises(InvalidInput):
        knowledge.put("seasonal", id=stored.id, period="daily")  # mon-fri is not a time of day
    assert knowledge.get("seasonal", stored.id) == stored


def test_changed_row_is_no_longer_linked_to_its_memory(keeper: Keeper, knowledge: KnowledgeBase) -> None:
    memory = keeper.add("Flag AAPL if volume exceeds 5M").memory_id
    row = knowledge.upsert_threshold("AAPL", "volume", 5e6, "above", memory=memory)
    assert knowledge.upsert_threshold("AAPL", "volume", 5e6, "above", confidence=0.9).memory == memory
    assert knowledge.put("thresholds", id=row.id, value=6e6).as_dict()["after"]["memory"] is None


def test_lists_are_paged_and_filtered(knowledge: KnowledgeBase) -> None:
    for number in range(5):
        knowledge.upsert_threshold("AAPL" if number % 2 else "MSFT", f"m{number}", 1, "above", confidence=number / 10)
    first = knowledge.list("thresholds", limit=2)
    assert [row.as_dict()["metric"] for row in first] == ["m4", "m3"]
    assert [row.as_dict()["metric"] for row in knowledge.list("thresholds", after=first[-1].id)] == ["m2", "m1", "m0"]
    assert [row.as_dict()["metric"] for row in knowledge.list("thresholds", source="aapl")] == ["m3", "m1"]
    for limit in (0, 1_001, True):
        with pytest.raises(InvalidInput):
            knowledge.list("thresholds", limit=limit)


# ── Restating ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stated_confidence_resets_the_verdicts(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("spike", "confirmed", about=[volume])
    assert belief(knowledge, volume) == (0.6, 1, 0)
    knowledge.put("thresholds", id="aapl.volume.above", confidence=0.9)
    assert belief(knowledge, volume) == (0.9, 0, 0)


def test_changed_claim_keeps_its_confidence_as_prior(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("spike", "confirmed", about=[volume])
    knowledge.put("thresholds", id="aapl.volume.above", value=6e6)
    assert belief(knowledge, volume) == (0.6, 0, 0)
    assert claim(knowledge, volume).prior == 0.6


def test_shared_claim_keeps_its_verdicts(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("spike", "confirmed", about=[volume])
    key = volume.partition("/")[2]
    assert knowledge.put("thresholds", id=key, visibility="team", team="red").action == "update"
    assert belief(knowledge, volume) == (0.6, 1, 0)
    knowledge.delete("feedback", "spike")
    assert belief(knowledge, volume) == (0.5, 0, 0)


def test_unchanged_claim_keeps_its_verdicts(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("spike", "confirmed", about=[volume])
    knowledge.upsert_threshold("AAPL", "volume", 5e6, "above")
    assert belief(knowledge, volume) == (0.6, 1, 0)


# ── Exact lookup ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_value_is_compared_with_thresholds_of_the_source_and_of_all(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_threshold("AAPL", "volume", 5e6, "above", confidence=0.4)
    knowledge.upsert_threshold("*", "Volume", 1e6, "above", confidence=0.8)
    knowledge.upsert_threshold("MSFT", "volume", 1, "above")
    knowledge.upsert_threshold("AAPL", "price", 1, "above")
    assert [firing.threshold.id for firing in knowledge.evaluate("aapl", "VOLUME", 6e6)] == [
        "~any.volume.above",
        "aapl.volume.above",
    ]
    assert [firing.threshold.id for firing in knowledge.evaluate("AAPL", "volume", 2e6)] == ["~any.volume.above"]
    assert [firing.by for firing in knowledge.evaluate("*", "volume", 2e6)] == [1e6]
    assert knowledge.evaluate("AAPL", "volume", 10) == []
    with pytest.raises(InvalidInput):
        knowledge.evaluate("AAPL", "volume", float("nan"))


def test_source_named_any_is_not_the_wildcard(knowledge: KnowledgeBase) -> None:
    wildcard, named = (knowledge.upsert_threshold(source, "load", 1, "above").id for source in ("*", "~any"))
    assert wildcard == "~any.load.above" != named
    assert [firing.threshold.id for firing in knowledge.evaluate("web-1", "load", 2)] == [wildcard]


def test_active_seasonal_patterns_are_returned(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_seasonal(
        "the desk is busy", "weekly", during="mon-fri 09:30-16:00", timezone="America/New_York", source="NYSE"
    )
    knowledge.upsert_seasonal("nobody trades", "yearly", during="12-24..12-26", confidence=0.9)
    knowledge.upsert_seasonal("the other desk is busy", "daily", during="00:00-24:00", source="LSE")
    active = knowledge.active("2026-03-11T14:00:00Z", source="nyse")
    assert [(item.seasonal.source, item.since[:16]) for item in active] == [("NYSE", "2026-03-11T13:30")]
    assert [item.seasonal.pattern for item in knowledge.active("2025-12-25T15:00:00Z", source="NYSE")] == [
        "nobody trades", "the desk is busy",
    ]  # fmt: skip
    assert len(knowledge.active()) == 2  # the clock is on a Wednesday afternoon in March
    with pytest.raises(InvalidInput):
        knowledge.active("tomorrow")


def test_correlations_are_walked_from_either_side(knowledge: KnowledgeBase) -> None:
    knowledge.upsert_correlation("BTC price", "COIN", "BTC leads COIN", relation="leads", confidence=0.8)
    knowledge.upsert_correlation("COIN", "MSTR", "they move together", confidence=0.5)
    knowledge.upsert_correlation("€", "$", "they oppose each other", inverse=True)
    assert [(step.there, step.depth, step.forward) for step in knowledge.related("btc")] == [("COIN", 1, True)]
    assert [(step.there, step.confidence) for step in knowledge.related("BTC", depth=5)] == [
        ("COIN", 0.8),
        ("MSTR", 0.4),
    ]
    assert [(step.there, step.forward) for step in knowledge.related("coin")] == [("BTC price", False), ("MSTR", True)]
    assert [(step.there, step.inverse) for step in knowledge.related("$")] == [("€", True)]
    assert knowledge.related("price") == []
    for arguments in ({"source": " "}, {"source": "BTC", "depth": 0}, {"source": "BTC", "depth": 11}):
        with pytest.raises(InvalidInput):
            knowledge.related(**arguments)


class CountingTables:
    """Count the rows returned by name lookups."""

    def __init__(self, domain: Any) -> None:
        self._domain, self.row_count = domain, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def naming(self, words: Any) -> Any:
        rows = self._domain.naming(words)
        self.row_count += len(rows)
        return rows


@pytest.mark.parametrize("name", ["sensor {}", "rack {} temperature", "sensor n{}"])
def test_walk_reads_every_row_at_most_twice(knowledge: KnowledgeBase, name: str) -> None:
    size = 30
    rows = [(name.format(i), name.format(i + 1)) for i in range(size)]
    for source, target in rows:
        knowledge.upsert_correlation(source, target, "they move together", confidence=1.0)
    tables: Any = CountingTables(knowledge._domain)
    knowledge._domain = tables
    steps = knowledge.related(name.format(0), depth=10)
    assert [step.there for step in steps] == [name.format(i) for i in range(1, 11)]
    assert tables.row_count <= 2 * size


@pytest.mark.parametrize("name", ["the", "the web", "The Web 1", "the web 1 cpu", "€"])
def test_walk_finds_every_side_that_begins_with_the_name(knowledge: KnowledgeBase, name: str) -> None:
    sides = ["The web 1 cpu load", "the WEB 1", "the web-1", "the", "the web 12", "web 1", "€"]
    for index, side in enumerate(sides):
        knowledge.upsert_correlation(side, f"other{index}", "they move together")
    matched = {step.here for step in knowledge.related(name) if step.there.startswith("other")}
    assert {side for side in sides if lookup.matches(name, side)} == matched


def test_number_that_is_too_large_is_rejected(knowledge: KnowledgeBase) -> None:
    with pytest.raises(InvalidInput):
        knowledge.evaluate("AAPL", "volume", 10**5000)
    with pytest.raises(InvalidInput):
        knowledge.upsert_threshold("AAPL", "volume", -(10**5000), "above")


def test_read_parses_text_without_storing(knowledge: KnowledgeBase) -> None:
    (reading,) = knowledge.read("Threshold recommendation: flag AAPL if volume exceeds 5M. All is well.")
    assert (reading.table, reading.fields["source"], reading.fields["value"]) == ("thresholds", "AAPL", 5e6)
    (denial,) = knowledge.read("Do not flag AAPL volume any more.")
    assert denial.denied
    assert set(knowledge.counts().values()) == {0}


# ── Feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_verdict_changes_all_named_claims_in_one_changeset(
    keeper: Keeper, knowledge: KnowledgeBase, volume: str
) -> None:
    pattern = knowledge.upsert_pattern("volume spikes before earnings", confidence=0.8).ref
    knowledge.upsert_pattern("gaps fill", confidence=0.8)
    changeset = knowledge.feedback("AAPL 2026-03-11", "false alarm", note="a split", about=[volume, pattern])
    assert {change.ref for change in changeset.knowledge} == {"feedback/aapl_2026-03-11", volume, pattern}
    assert (confidence(knowledge, volume), confidence(knowledge, pattern)) == (
        confidence_of(0.5, 0, 1),
        confidence_of(0.8, 0, 1),
    )
    (stored,) = knowledge.list("feedback")
    assert isinstance(stored, Feedback)
    assert (stored.verdict, stored.note, stored.processed) == ("false_alarm", "a split", True)
    keeper.undo(changeset.id)
    assert (belief(knowledge, volume), belief(knowledge, pattern)) == ((0.5, 0, 0), (0.8, 0, 0))
    assert knowledge.list("feedback") == []


def test_repeated_verdict_changes_nothing(knowledge: KnowledgeBase, volume: str) -> None:
    for note in ("", "", "seen by two"):
        knowledge.feedback("spike", "confirmed", about=[volume], note=note)
    knowledge.feedback("spike", "confirmed", process=False)
    assert belief(knowledge, volume) == (0.6, 1, 0)
    (stored,) = knowledge.list("feedback")
    assert stored.as_dict()["note"] == "seen by two"
    assert knowledge.pending_feedback() == []


def test_later_verdict_replaces_an_earlier_one(knowledge: KnowledgeBase, volume: str) -> None:
    pattern = knowledge.upsert_pattern("gaps fill").ref
    knowledge.feedback("spike", "confirmed", about=[volume], note="real")
    knowledge.feedback("spike", "false_alarm")
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)
    assert knowledge.get("feedback", "spike").as_dict()["note"] == ""
    knowledge.feedback("spike", "false_alarm", about=[pattern])
    assert (belief(knowledge, volume), belief(knowledge, pattern)) == ((0.5, 0, 0), (confidence_of(0.5, 0, 1), 0, 1))
    knowledge.feedback("spike", "note", note="nobody knows")
    assert belief(knowledge, pattern) == (0.5, 0, 0)


def test_verdict_on_an_unknown_claim_is_rejected_without_changes(knowledge: KnowledgeBase, volume: str) -> None:
    with pytest.raises(NotFound, match="patterns/none"):
        knowledge.feedback("spike", "confirmed", about=[volume, "patterns/none"])
    with pytest.raises(InvalidInput, match="is not a reference"):
        knowledge.feedback("spike", "confirmed", about=["feedback/spike"])
    assert belief(knowledge, volume) == (0.5, 0, 0)
    assert knowledge.list("feedback") == []


def test_pending_feedback_is_processed_once(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("one", "confirmed", about=[volume], process=False)
    knowledge.feedback("two", "confirmed", about=[volume], process=False)
    knowledge.feedback("three", "note", process=False)
    assert belief(knowledge, volume) == (0.5, 0, 0)
    assert [feedback.anomaly for feedback in knowledge.pending_feedback()] == ["one", "two", "three"]
    changeset = knowledge.process_feedback()
    assert changeset is not None
    assert len(changeset.knowledge) == 4
    assert belief(knowledge, volume) == (confidence_of(0.5, 2, 0), 2, 0)
    assert knowledge.process_feedback() is None
    assert belief(knowledge, volume) == (confidence_of(0.5, 2, 0), 2, 0)


def test_replaced_pending_verdict_does_not_count(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("one", "confirmed", about=[volume], process=False)
    knowledge.feedback("one", "false_alarm")
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)


def test_processed_verdict_replaced_by_a_pending_one_no_longer_counts(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("one", "confirmed", about=[volume])
    knowledge.feedback("one", "false_alarm", process=False)
    assert belief(knowledge, volume) == (0.5, 0, 0)
    knowledge.process_feedback()
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)


@pytest.mark.parametrize("operation", ["delete", "purge"])
def test_removed_verdict_is_reverted(knowledge: KnowledgeBase, volume: str, operation: str) -> None:
    knowledge.feedback("one", "confirmed", about=[volume])
    knowledge.feedback("two", "false_alarm", about=[volume])
    getattr(knowledge, operation)("feedback", "one")
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)


def test_purged_verdict_is_removed_from_the_history_of_its_claims(knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("vault-7", "confirmed", note="the vault", about=[volume])
    knowledge.purge("feedback", "vault-7")
    assert "vault" not in str([entry.as_dict() for entry in knowledge.history(*volume.split("/"))])


def test_deleted_claim_is_skipped(knowledge: KnowledgeBase, volume: str) -> None:
    pattern = knowledge.upsert_pattern("gaps fill").ref
    knowledge.feedback("one", "confirmed", about=[volume, pattern])
    knowledge.feedback("two", "confirmed", about=[volume, pattern], process=False)
    knowledge.delete(*volume.split("/"))
    knowledge.process_feedback()
    knowledge.delete("feedback", "one")
    assert belief(knowledge, pattern) == (0.6, 1, 0)


@pytest.mark.parametrize("restatement", ["stated", "another value", "dropped and put"])
def test_verdict_from_before_a_restatement_does_not_affect_later_ones(
    knowledge: KnowledgeBase, volume: str, restatement: str
) -> None:
    knowledge.feedback("one", "confirmed", about=[volume])
    if restatement == "stated":
        knowledge.put("thresholds", id="aapl.volume.above", confidence=0.7)
    elif restatement == "another value":
        knowledge.put("thresholds", id="aapl.volume.above", value=9e6)
    else:
        knowledge.delete(*volume.split("/"))
        knowledge.upsert_threshold("AAPL", "volume", 5e6, "above")
    knowledge.feedback("two", "confirmed", about=[volume])
    belief_before = belief(knowledge, volume)
    knowledge.delete("feedback", "one")
    assert belief(knowledge, volume) == belief_before
    knowledge.delete("feedback", "two")
    assert belief(knowledge, volume)[1:] == (0, 0)


def test_undo_of_a_restatement_restores_the_verdict(keeper: Keeper, knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("one", "confirmed", about=[volume])
    restated = knowledge.put("thresholds", id="aapl.volume.above", confidence=0.7)
    keeper.undo(restated.changeset)
    assert belief(knowledge, volume) == (0.6, 1, 0)
    knowledge.delete("feedback", "one")
    assert belief(knowledge, volume) == (0.5, 0, 0)


def test_undo_of_a_replaced_verdict_restores_it(keeper: Keeper, knowledge: KnowledgeBase, volume: str) -> None:
    knowledge.feedback("one", "confirmed", about=[volume])
    later = knowledge.feedback("one", "false_alarm")
    keeper.undo(later.id)
    assert belief(knowledge, volume) == (0.6, 1, 0)
    knowledge.feedback("one", "false_alarm")
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)


def test_imported_verdicts_can_be_removed(keeper: Keeper, knowledge: KnowledgeBase) -> None:
    other_store = MemoryStore(FixedClock())
    other_knowledge = keeper_on(other_store).knowledge
    ref = other_knowledge.upsert_threshold("AAPL", "volume", 5e6, "above").ref
    other_knowledge.feedback("one", "confirmed", about=[ref])
    for table in ("thresholds", "feedback"):  # separate changesets, like a long import
        keeper.apply([PutRow(row) for row in other_knowledge.list(table)], by="test", why="import")
    assert belief(knowledge, ref) == (0.6, 1, 0)
    knowledge.delete("feedback", "one")
    assert belief(knowledge, ref) == (0.5, 0, 0)


def test_verdict_put_as_a_row_is_processed(knowledge: KnowledgeBase, volume: str) -> None:
    change = knowledge.put("feedback", anomaly="spike", verdict="confirmed", about=[volume])
    assert (change.ref, change.action) == ("feedback/spike", "add")
    assert belief(knowledge, volume) == (0.6, 1, 0)
    knowledge.put("feedback", id="spike", verdict="false_alarm")
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)
    knowledge.put("feedback", id="spike", note="checked")
    assert belief(knowledge, volume) == (confidence_of(0.5, 0, 1), 0, 1)


VERDICTS = st.tuples(st.sampled_from("abc"), st.sampled_from(["confirmed", "false_alarm", "note", "delete"]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VERDICTS, max_size=8), st.booleans())
def test_confidence_matches_the_remaining_verdicts(operations: list[tuple[str, str]], is_deferred: bool) -> None:
    knowledge = keeper_on(MemoryStore(FixedClock())).knowledge
    ref = knowledge.upsert_pattern("gaps fill", confidence=0.7).ref
    remaining: dict[str, str] = {}
    for anomaly, verdict in operations:
        if verdict != "delete":
            knowledge.feedback(anomaly, verdict, about=[ref], process=not is_deferred)
            remaining[anomaly] = verdict
        elif remaining.pop(anomaly, None):
            knowledge.delete("feedback", anomaly)
    knowledge.process_feedback()
    verdicts = list(remaining.values())
    expected = (verdicts.count("confirmed"), verdicts.count("false_alarm"))
    assert belief(knowledge, ref) == (confidence_of(0.7, *expected), *expected)


# ── Concurrency ───────────────────────────────────────────────────────────────────────────────────────────────────────


def run_concurrently(functions: list[Callable[[], object]]) -> None:
    """Run the functions in threads that start together; raise the first error."""
    barrier, errors = threading.Barrier(len(functions)), list[BaseException]()

    def run(function: Callable[[], object]) -> None:
        barrier.wait()
        try:
            function()
        except BaseException as error:  # noqa: BLE001  # raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_pending_feedback_is_processed_once_by_concurrent_processes(reopen: Reopen) -> None:
    keepers = [keeper_on(reopen()) for _ in range(3)]
    knowledge = keepers[0].knowledge
    refs = [knowledge.upsert_pattern(f"pattern {number}").ref for number in range(3)]
    for number in range(6):
        knowledge.feedback(f"anomaly {number}", "confirmed", about=refs, process=False)
    run_concurrently([keeper.knowledge.process_feedback for keeper in keepers])
    assert {belief(knowledge, ref) for ref in refs} == {(confidence_of(0.5, 6, 0), 6, 0)}
    assert knowledge.pending_feedback() == []


def test_no_concurrent_verdict_is_lost(reopen: Reopen) -> None:
    keepers = [keeper_on(reopen()) for _ in range(3)]
    ref = keepers[0].knowledge.upsert_pattern("gaps fill").ref

    def judge(keeper: Keeper, number: int) -> None:
        for turn in range(3):
            keeper.knowledge.feedback(f"anomaly {number}.{turn}", "confirmed", about=[ref])

    run_concurrently(
        [
            lambda worker_keeper=worker_keeper, number=number: judge(worker_keeper, number)
            for number, worker_keeper in enumerate(keepers)
        ]
    )  # type: ignore[misc]
    assert belief(keepers[0].knowledge, ref) == (confidence_of(0.5, 9, 0), 9, 0)


def test_decision_on_a_changed_row_raises_conflict(reopen: Reopen) -> None:
    first, second = keeper_on(reopen()), keeper_on(reopen())
    row = first.knowledge.upsert_pattern("gaps fill")
    second.knowledge.put("patterns", id=row.id, confidence=0.9)
    with pytest.raises(Conflict, match="changed meanwhile"):
        first.apply([PutRow(row, as_of=row.updated_at)], by="test", why="")
    with pytest.raises(Conflict, match="changed meanwhile"):
        first.apply([PutRow(row, as_of="")], by="test", why="")


# ── Visibility ────────────────────────────────────────────────────────────────────────────────────────────────────────

ADA, BOB = Viewer(user="ada", team="red"), Viewer(user="bob", team="red")


def test_private_rows_of_two_users_are_separate(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    first = ada.upsert_threshold("AAPL", "volume", 5e6, "above")
    second = bob.upsert_threshold("AAPL", "volume", 9e6, "above")
    assert first.id != second.id
    assert [firing.threshold.value for firing in ada.evaluate("AAPL", "volume", 1e7)] == [5e6]
    assert ada.upsert_threshold("AAPL", "volume", 6e6, "above").id == first.id
    with pytest.raises(NotFound):
        bob.feedback("spike", "confirmed", about=[first.ref])
    with pytest.raises(NotFound):
        bob.delete("thresholds", first.id)
    assert (ada.counts()["thresholds"], keeper.knowledge.counts()["thresholds"]) == (1, 2)


def test_id_used_by_another_user_gets_a_suffix(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    ada.upsert_pattern("gaps fill", id="p1")
    own = bob.upsert_pattern("gaps do not fill", id="p1")
    again = bob.put("patterns", id="p1", pattern="gaps never fill")
    assert own.id != "p1"
    assert (again.key, again.action) == (own.id, "update")
    assert ada.get("patterns", "p1").says == "gaps fill"


def test_team_members_judge_shared_rows(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    ref = ada.upsert_pattern("gaps fill", visibility="team").ref
    bob.feedback("spike", "confirmed", about=[ref])
    ada.feedback("spike", "confirmed", about=[ref])  # each has their own verdict
    assert belief(ada, ref) == (confidence_of(0.5, 2, 0), 2, 0)
    assert claim(ada, ref).user == "ada"
    (verdict,) = bob.list("feedback")
    bob.delete("feedback", verdict.id)
    assert belief(ada, ref) == (0.6, 1, 0)


def test_viewer_cannot_remove_a_verdict_on_a_hidden_claim(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    ref = ada.upsert_pattern("gaps fill").ref
    ada.feedback("spike", "confirmed", about=[ref], visibility="team")
    ada.feedback("dip", "confirmed", about=[ref], visibility="team", process=False)
    (dip, spike) = bob.list("feedback")
    assert bob.process_feedback() is None
    with pytest.raises(Forbidden, match="may not read"):
        bob.delete("feedback", spike.id)
    assert belief(ada, ref) == (0.6, 1, 0)
    assert ada.process_feedback() is not None
    ada.delete("feedback", spike.id)
    ada.delete(*ref.split("/"))
    ada.delete("feedback", dip.id)  # a deleted claim is not hidden
    assert bob.list("feedback") == []
