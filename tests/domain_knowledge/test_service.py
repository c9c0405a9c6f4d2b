"""The tables of domain knowledge, over every store: kept, asked, judged.

The tests of "as the requirement has it" come from the requirement, which told them of a store in TypeScript.
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
from cofio.models.domain_knowledge import Claim, Feedback, PutRow
from cofio.models.memory import Viewer
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore

#: Opens the store another time, as another process would; the clock is everybody's.
Reopen = Callable[[], Store]
VOLUME = "thresholds/aapl.volume.above"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    clock = FixedClock()
    if request.param == "memory":
        only = MemoryStore(clock)
        yield lambda: only
        only.close()
        return
    opened: list[Store] = []
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""

    def another() -> Store:
        opened.append(PostgresStore(url, clock) if url else SqliteStore(tmp_path / "cofio.db", clock))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


def keeping(store: Store) -> Keeper:
    return Keeper(store, HashEmbedder(), FixedClock("2026-03-11T14:00:00Z"))


@pytest.fixture
def keeper(reopen: Reopen) -> Keeper:
    return keeping(reopen())


@pytest.fixture
def known(keeper: Keeper) -> KnowledgeBase:
    return keeper.knowledge


@pytest.fixture
def volume(known: KnowledgeBase) -> str:
    """A threshold that half is believed of."""
    return known.upsert_threshold("AAPL", "volume", 5e6, "above").ref


def claim(known: KnowledgeBase, ref: str) -> Claim:
    found = known.get(*ref.split("/"))
    assert isinstance(found, Claim)
    return found


def confidence(known: KnowledgeBase, ref: str) -> float:
    return claim(known, ref).confidence


def belief_of(known: KnowledgeBase, ref: str) -> tuple[float, int, int]:
    found = claim(known, ref)
    return found.confidence, found.confirmed, found.refuted


# ── as the requirement has it ─────────────────────────────────────────────────────────────────────────────────────────


def test_inserts_and_retrieves_pattern(known: KnowledgeBase) -> None:
    known.upsert_pattern(
        "volume spike before earnings", id="p1", confidence=0.8, source="a", created_at=1, updated_at=1
    )
    assert [pattern.id for pattern in known.patterns()] == ["p1"]


def test_updates_on_upsert(known: KnowledgeBase) -> None:
    known.upsert_pattern("old", id="p1", confidence=0.5, source="a", created_at=1, updated_at=1)
    known.upsert_pattern("new", id="p1", confidence=0.9, source="a", created_at=1, updated_at=2)
    (only,) = known.patterns()
    assert (only.pattern, only.confidence) == ("new", 0.9)


def test_crud_correlations(known: KnowledgeBase) -> None:
    known.upsert_correlation("yahoo", "binance", "BTC leads COIN", id="c1", confidence=0.7, created_at=1)
    assert len(known.list("correlations")) == 1
    known.delete("correlations", "c1")
    assert known.list("correlations") == []


def test_crud_thresholds(known: KnowledgeBase) -> None:
    known.upsert_threshold("yahoo", "volume", 5e6, "above", id="t1", updated_at=1)
    (only,) = known.list("thresholds")
    assert only.as_dict()["direction"] == "above"


def test_filters_patterns_by_min_confidence(known: KnowledgeBase) -> None:
    known.upsert_pattern("low", id="p1", confidence=0.2, source="a", created_at=1, updated_at=1)
    known.upsert_pattern("high", id="p2", confidence=0.8, source="a", created_at=1, updated_at=1)
    assert [pattern.id for pattern in known.patterns(0.5)] == ["p2"]


# ── kept ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_upsert_changes_in_place_and_keeps_when_it_was_made(known: KnowledgeBase) -> None:
    first = known.upsert_threshold("AAPL", "volume", 5e6, "above", created_at="2025-01-01")
    second = known.upsert_threshold("aapl", "Volume", 6e6, "above", created_at="2026-02-02", updated_at="2026-02-02")
    assert second.id == first.id == "aapl.volume.above"
    assert (second.value, second.created_at) == (6e6, first.created_at)
    assert second.created_at.startswith("2025-01-01")
    assert second.updated_at > "2026-01-01"
    assert known.counts() == {"patterns": 0, "correlations": 0, "thresholds": 1, "seasonal": 0, "feedback": 0}


def test_what_is_not_given_stays(known: KnowledgeBase, volume: str) -> None:
    known.put("thresholds", id="aapl.volume.above", unit="shares", inclusive=True)
    known.put("thresholds", id="aapl.volume.above", value=7e6)
    kept = known.get(*volume.split("/")).as_dict()
    assert (kept["source"], kept["value"], kept["unit"], kept["inclusive"]) == ("AAPL", 7e6, "shares", True)


def test_the_same_again_is_told_as_such(known: KnowledgeBase, volume: str) -> None:
    change = known.put("thresholds", source="AAPL", metric="volume", value=5e6, direction="above")
    assert (change.action, change.id, change.ref) == ("noop", 0, volume)
    assert change.before == change.after == known.get(change.table, change.key)
    assert [each.action for each in known.history(change.table, change.key)] == ["add"]


def test_what_changes_nothing_writes_no_changeset(keeper: Keeper, known: KnowledgeBase, volume: str) -> None:
    known.feedback("spike", "confirmed", about=[volume])
    before = keeper.changes()
    assert known.put("thresholds", id=volume.partition("/")[2], value=5e6).changeset == 0
    again = known.feedback("spike", "confirmed", about=[volume])
    assert (again.id, [(each.ref, each.action) for each in again.knowledge]) == (0, [("feedback/spike", "noop")])
    assert keeper.changes() == before
    with pytest.raises(InvalidInput):
        known.put("thresholds", id=volume.partition("/")[2], value=5e6, by="x" * 2_000)


@pytest.mark.parametrize("restated", [False, True])
def test_a_verdict_that_judges_more_by_now_moves_back_as_a_whole(
    known: KnowledgeBase, volume: str, restated: bool
) -> None:
    other = known.upsert_threshold("TSLA", "volume", 8e6, "above").ref
    known.feedback("spike", "confirmed", about=[volume])
    if restated:  # the claim forgets the verdict, and hears it anew
        known.put("thresholds", id=volume.partition("/")[2], confidence=0.9)
    known.feedback("spike", "confirmed", about=[volume, other])
    assert [belief_of(known, each)[1:] for each in (volume, other)] == [(1, 0), (1, 0)]
    known.delete("feedback", "spike")
    assert [belief_of(known, each)[1:] for each in (volume, other)] == [(0, 0), (0, 0)]


def test_every_change_is_journalled_and_undone(keeper: Keeper, known: KnowledgeBase) -> None:
    added = known.put("patterns", pattern="gaps fill", by="ada", why="seen often")
    changed = known.put("patterns", id=added.key, confidence=0.9)
    gone = known.delete("patterns", added.key)
    assert [(each.action, each.by) for each in known.history("patterns", added.key)] == [
        ("add", "ada"), ("update", "library"), ("delete", "library"),
    ]  # fmt: skip
    keeper.undo(gone.changeset)
    keeper.undo(changed.changeset)
    assert known.get("patterns", added.key) == added.after
    keeper.undo(added.changeset)
    with pytest.raises(NotFound):
        known.get("patterns", added.key)


def test_a_purge_leaves_no_words(keeper: Keeper, known: KnowledgeBase) -> None:
    added = known.put("patterns", pattern="the vault opens at nine")
    known.purge("patterns", added.key)
    assert "vault" not in str(keeper.changeset(added.changeset).as_dict())
    with pytest.raises(NotFound):
        known.get("patterns", added.key)


@pytest.mark.parametrize(
    ("table", "fields", "told"),
    [
        ("thresholds", {"source": "AAPL", "metric": "volume", "value": 1}, "direction is missing"),
        ("thresholds", {"id": "t1", "value": 5}, "is missing"),
        ("patterns", {"pattern": "x", "colour": "red"}, "no colour"),
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
def test_what_cannot_be_kept_is_refused_and_nothing_changes(
    known: KnowledgeBase, table: str, fields: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        known.put(table, **fields)
    assert set(known.counts().values()) == {0}


def test_a_seasonal_row_is_checked_with_what_it_keeps(known: KnowledgeBase) -> None:
    kept = known.upsert_seasonal("the desk is busy", "weekly", during="mon-fri")
    with pytest.raises(InvalidInput):
        known.put("seasonal", id=kept.id, period="daily")  # mon-fri is no time of a day
    assert known.get("seasonal", kept.id) == kept


def test_a_memory_that_says_something_else_is_no_longer_the_rows(keeper: Keeper, known: KnowledgeBase) -> None:
    memory = keeper.add("Flag AAPL if volume exceeds 5M").memory_id
    kept = known.upsert_threshold("AAPL", "volume", 5e6, "above", memory=memory)
    assert known.upsert_threshold("AAPL", "volume", 5e6, "above", confidence=0.9).memory == memory
    assert known.put("thresholds", id=kept.id, value=6e6).as_dict()["after"]["memory"] is None


def test_lists_are_paged_and_narrowed(known: KnowledgeBase) -> None:
    for number in range(5):
        known.upsert_threshold("AAPL" if number % 2 else "MSFT", f"m{number}", 1, "above", confidence=number / 10)
    first = known.list("thresholds", limit=2)
    assert [each.as_dict()["metric"] for each in first] == ["m4", "m3"]
    assert [each.as_dict()["metric"] for each in known.list("thresholds", after=first[-1].id)] == ["m2", "m1", "m0"]
    assert [each.as_dict()["metric"] for each in known.list("thresholds", source="aapl")] == ["m3", "m1"]
    for wrong in (0, 1_001, True):
        with pytest.raises(InvalidInput):
            known.list("thresholds", limit=wrong)


# ── restated ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stated_confidence_counts_from_now_on(known: KnowledgeBase, volume: str) -> None:
    known.feedback("spike", "confirmed", about=[volume])
    assert belief_of(known, volume) == (0.6, 1, 0)
    known.put("thresholds", id="aapl.volume.above", confidence=0.9)
    assert belief_of(known, volume) == (0.9, 0, 0)


def test_what_says_something_else_starts_from_where_it_stood(known: KnowledgeBase, volume: str) -> None:
    known.feedback("spike", "confirmed", about=[volume])
    known.put("thresholds", id="aapl.volume.above", value=6e6)
    assert belief_of(known, volume) == (0.6, 0, 0)
    assert claim(known, volume).prior == 0.6


def test_a_claim_that_is_shared_keeps_its_verdicts(known: KnowledgeBase, volume: str) -> None:
    known.feedback("spike", "confirmed", about=[volume])
    key = volume.partition("/")[2]
    assert known.put("thresholds", id=key, visibility="team", team="red").action == "update"
    assert belief_of(known, volume) == (0.6, 1, 0)
    known.delete("feedback", "spike")
    assert belief_of(known, volume) == (0.5, 0, 0)


def test_what_says_the_same_keeps_its_verdicts(known: KnowledgeBase, volume: str) -> None:
    known.feedback("spike", "confirmed", about=[volume])
    known.upsert_threshold("AAPL", "volume", 5e6, "above")
    assert belief_of(known, volume) == (0.6, 1, 0)


# ── the exact lane ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_value_is_held_against_the_source_and_against_all(known: KnowledgeBase) -> None:
    known.upsert_threshold("AAPL", "volume", 5e6, "above", confidence=0.4)
    known.upsert_threshold("*", "Volume", 1e6, "above", confidence=0.8)
    known.upsert_threshold("MSFT", "volume", 1, "above")
    known.upsert_threshold("AAPL", "price", 1, "above")
    assert [each.threshold.id for each in known.evaluate("aapl", "VOLUME", 6e6)] == [
        "~any.volume.above",
        "aapl.volume.above",
    ]
    assert [each.threshold.id for each in known.evaluate("AAPL", "volume", 2e6)] == ["~any.volume.above"]
    assert [each.by for each in known.evaluate("*", "volume", 2e6)] == [1e6]
    assert known.evaluate("AAPL", "volume", 10) == []
    with pytest.raises(InvalidInput):
        known.evaluate("AAPL", "volume", float("nan"))


def test_no_source_is_taken_for_every_source(known: KnowledgeBase) -> None:
    every, named = (known.upsert_threshold(each, "load", 1, "above").id for each in ("*", "~any"))
    assert every == "~any.load.above" != named
    assert [each.threshold.id for each in known.evaluate("web-1", "load", 2)] == [every]


def test_seasonal_patterns_tell_whether_they_are_on(known: KnowledgeBase) -> None:
    known.upsert_seasonal(
        "the desk is busy", "weekly", during="mon-fri 09:30-16:00", timezone="America/New_York", source="NYSE"
    )
    known.upsert_seasonal("nobody trades", "yearly", during="12-24..12-26", confidence=0.9)
    known.upsert_seasonal("the other desk is busy", "daily", during="00:00-24:00", source="LSE")
    busy = known.active("2026-03-11T14:00:00Z", source="nyse")
    assert [(each.seasonal.source, each.since[:16]) for each in busy] == [("NYSE", "2026-03-11T13:30")]
    assert [each.seasonal.pattern for each in known.active("2025-12-25T15:00:00Z", source="NYSE")] == [
        "nobody trades", "the desk is busy",
    ]  # fmt: skip
    assert len(known.active()) == 2  # now is a Wednesday afternoon in March
    with pytest.raises(InvalidInput):
        known.active("tomorrow")


def test_correlations_are_walked_from_either_side(known: KnowledgeBase) -> None:
    known.upsert_correlation("BTC price", "COIN", "BTC leads COIN", relation="leads", confidence=0.8)
    known.upsert_correlation("COIN", "MSTR", "they move together", confidence=0.5)
    known.upsert_correlation("€", "$", "they oppose each other", inverse=True)
    assert [(each.there, each.depth, each.forward) for each in known.related("btc")] == [("COIN", 1, True)]
    assert [(each.there, each.confidence) for each in known.related("BTC", depth=5)] == [("COIN", 0.8), ("MSTR", 0.4)]
    assert [(each.there, each.forward) for each in known.related("coin")] == [("BTC price", False), ("MSTR", True)]
    assert [(each.there, each.inverse) for each in known.related("$")] == [("€", True)]
    assert known.related("price") == []
    for wrong in ({"source": " "}, {"source": "BTC", "depth": 0}, {"source": "BTC", "depth": 11}):
        with pytest.raises(InvalidInput):
            known.related(**wrong)


class Counted:
    """A domain that counts the rows that it is asked for by name."""

    def __init__(self, domain: Any) -> None:
        self._domain, self.told = domain, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def naming(self, words: Any) -> Any:
        found = self._domain.naming(words)
        self.told += len(found)
        return found


@pytest.mark.parametrize("name", ["sensor {}", "rack {} temperature", "sensor n{}"])
def test_a_walk_reads_no_row_again_and_again(known: KnowledgeBase, name: str) -> None:
    size = 30
    rows = [(name.format(i), name.format(i + 1)) for i in range(size)]
    for one, other in rows:
        known.upsert_correlation(one, other, "they move together", confidence=1.0)
    counted: Any = Counted(known._domain)
    known._domain = counted
    found = known.related(name.format(0), depth=10)
    assert [each.there for each in found] == [name.format(i) for i in range(1, 11)]
    assert counted.told <= 2 * size


@pytest.mark.parametrize("asked", ["the", "the web", "The Web 1", "the web 1 cpu", "€"])
def test_a_walk_finds_every_side_that_begins_with_the_name(known: KnowledgeBase, asked: str) -> None:
    sides = ["The web 1 cpu load", "the WEB 1", "the web-1", "the", "the web 12", "web 1", "€"]
    for place, side in enumerate(sides):
        known.upsert_correlation(side, f"other{place}", "they move together")
    found = {each.here for each in known.related(asked) if each.there.startswith("other")}
    assert {each for each in sides if lookup.matches(asked, each)} == found


def test_a_number_that_nobody_can_write_out_is_refused(known: KnowledgeBase) -> None:
    with pytest.raises(InvalidInput):
        known.evaluate("AAPL", "volume", 10**5000)
    with pytest.raises(InvalidInput):
        known.upsert_threshold("AAPL", "volume", -(10**5000), "above")


def test_a_text_is_read_as_capture_would_and_nothing_is_kept(known: KnowledgeBase) -> None:
    (reading,) = known.read("Threshold recommendation: flag AAPL if volume exceeds 5M. All is well.")
    assert (reading.table, reading.fields["source"], reading.fields["value"]) == ("thresholds", "AAPL", 5e6)
    (denial,) = known.read("Do not flag AAPL volume any more.")
    assert denial.denied
    assert set(known.counts().values()) == {0}


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_verdict_moves_what_it_names_in_one_changeset(keeper: Keeper, known: KnowledgeBase, volume: str) -> None:
    pattern = known.upsert_pattern("volume spikes before earnings", confidence=0.8).ref
    known.upsert_pattern("gaps fill", confidence=0.8)
    done = known.feedback("AAPL 2026-03-11", "false alarm", note="a split", about=[volume, pattern])
    assert {each.ref for each in done.knowledge} == {"feedback/aapl_2026-03-11", volume, pattern}
    assert (confidence(known, volume), confidence(known, pattern)) == (
        confidence_of(0.5, 0, 1),
        confidence_of(0.8, 0, 1),
    )
    (kept,) = known.list("feedback")
    assert isinstance(kept, Feedback)
    assert (kept.verdict, kept.note, kept.processed) == ("false_alarm", "a split", True)
    keeper.undo(done.id)
    assert (belief_of(known, volume), belief_of(known, pattern)) == ((0.5, 0, 0), (0.8, 0, 0))
    assert known.list("feedback") == []


def test_the_same_verdict_again_moves_nothing(known: KnowledgeBase, volume: str) -> None:
    for note in ("", "", "seen by two"):
        known.feedback("spike", "confirmed", about=[volume], note=note)
    known.feedback("spike", "confirmed", process=False)
    assert belief_of(known, volume) == (0.6, 1, 0)
    (kept,) = known.list("feedback")
    assert kept.as_dict()["note"] == "seen by two"
    assert known.pending_feedback() == []


def test_a_later_verdict_takes_the_place_of_an_earlier_one(known: KnowledgeBase, volume: str) -> None:
    pattern = known.upsert_pattern("gaps fill").ref
    known.feedback("spike", "confirmed", about=[volume], note="real")
    known.feedback("spike", "false_alarm")
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)
    assert known.get("feedback", "spike").as_dict()["note"] == ""
    known.feedback("spike", "false_alarm", about=[pattern])
    assert (belief_of(known, volume), belief_of(known, pattern)) == ((0.5, 0, 0), (confidence_of(0.5, 0, 1), 0, 1))
    known.feedback("spike", "note", note="nobody knows")
    assert belief_of(known, pattern) == (0.5, 0, 0)


def test_a_verdict_on_what_is_not_there_changes_nothing(known: KnowledgeBase, volume: str) -> None:
    with pytest.raises(NotFound, match="patterns/none"):
        known.feedback("spike", "confirmed", about=[volume, "patterns/none"])
    with pytest.raises(InvalidInput, match="is not a reference"):
        known.feedback("spike", "confirmed", about=["feedback/spike"])
    assert belief_of(known, volume) == (0.5, 0, 0)
    assert known.list("feedback") == []


def test_what_was_only_kept_moves_once(known: KnowledgeBase, volume: str) -> None:
    known.feedback("one", "confirmed", about=[volume], process=False)
    known.feedback("two", "confirmed", about=[volume], process=False)
    known.feedback("three", "note", process=False)
    assert belief_of(known, volume) == (0.5, 0, 0)
    assert [each.anomaly for each in known.pending_feedback()] == ["one", "two", "three"]
    done = known.process_feedback()
    assert done is not None
    assert len(done.knowledge) == 4
    assert belief_of(known, volume) == (confidence_of(0.5, 2, 0), 2, 0)
    assert known.process_feedback() is None
    assert belief_of(known, volume) == (confidence_of(0.5, 2, 0), 2, 0)


def test_a_pending_verdict_that_is_replaced_has_never_counted(known: KnowledgeBase, volume: str) -> None:
    known.feedback("one", "confirmed", about=[volume], process=False)
    known.feedback("one", "false_alarm")
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)


def test_a_processed_verdict_that_is_replaced_by_a_pending_one_no_longer_counts(
    known: KnowledgeBase, volume: str
) -> None:
    known.feedback("one", "confirmed", about=[volume])
    known.feedback("one", "false_alarm", process=False)
    assert belief_of(known, volume) == (0.5, 0, 0)
    known.process_feedback()
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)


@pytest.mark.parametrize("way", ["delete", "purge"])
def test_a_verdict_that_is_removed_moves_back_what_it_moved(known: KnowledgeBase, volume: str, way: str) -> None:
    known.feedback("one", "confirmed", about=[volume])
    known.feedback("two", "false_alarm", about=[volume])
    getattr(known, way)("feedback", "one")
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)


def test_the_words_of_a_purged_verdict_are_gone_from_what_it_moved(known: KnowledgeBase, volume: str) -> None:
    known.feedback("vault-7", "confirmed", note="the vault", about=[volume])
    known.purge("feedback", "vault-7")
    assert "vault" not in str([each.as_dict() for each in known.history(*volume.split("/"))])


def test_a_claim_that_is_gone_is_passed_over(known: KnowledgeBase, volume: str) -> None:
    pattern = known.upsert_pattern("gaps fill").ref
    known.feedback("one", "confirmed", about=[volume, pattern])
    known.feedback("two", "confirmed", about=[volume, pattern], process=False)
    known.delete(*volume.split("/"))
    known.process_feedback()
    known.delete("feedback", "one")
    assert belief_of(known, pattern) == (0.6, 1, 0)


@pytest.mark.parametrize("anew", ["stated", "another value", "dropped and put"])
def test_a_verdict_from_before_it_was_restated_is_not_taken_back_from_later_ones(
    known: KnowledgeBase, volume: str, anew: str
) -> None:
    known.feedback("one", "confirmed", about=[volume])
    if anew == "stated":
        known.put("thresholds", id="aapl.volume.above", confidence=0.7)
    elif anew == "another value":
        known.put("thresholds", id="aapl.volume.above", value=9e6)
    else:
        known.delete(*volume.split("/"))
        known.upsert_threshold("AAPL", "volume", 5e6, "above")
    known.feedback("two", "confirmed", about=[volume])
    standing = belief_of(known, volume)
    known.delete("feedback", "one")
    assert belief_of(known, volume) == standing
    known.delete("feedback", "two")
    assert belief_of(known, volume)[1:] == (0, 0)


def test_a_verdict_counts_again_when_the_restating_is_undone(keeper: Keeper, known: KnowledgeBase, volume: str) -> None:
    known.feedback("one", "confirmed", about=[volume])
    restated = known.put("thresholds", id="aapl.volume.above", confidence=0.7)
    keeper.undo(restated.changeset)
    assert belief_of(known, volume) == (0.6, 1, 0)
    known.delete("feedback", "one")
    assert belief_of(known, volume) == (0.5, 0, 0)


def test_a_replaced_verdict_that_is_undone_counts_as_it_did(keeper: Keeper, known: KnowledgeBase, volume: str) -> None:
    known.feedback("one", "confirmed", about=[volume])
    later = known.feedback("one", "false_alarm")
    keeper.undo(later.id)
    assert belief_of(known, volume) == (0.6, 1, 0)
    known.feedback("one", "false_alarm")
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)


def test_what_came_from_another_store_with_its_verdicts_moves_back_with_them(
    keeper: Keeper, known: KnowledgeBase
) -> None:
    brought = MemoryStore(FixedClock())
    there = keeping(brought).knowledge
    ref = there.upsert_threshold("AAPL", "volume", 5e6, "above").ref
    there.feedback("one", "confirmed", about=[ref])
    for table in ("thresholds", "feedback"):  # each in a changeset of its own, as a long import does it
        keeper.apply([], by="test", why="import", knowledge=[PutRow(row) for row in there.list(table)])
    assert belief_of(known, ref) == (0.6, 1, 0)
    known.delete("feedback", "one")
    assert belief_of(known, ref) == (0.5, 0, 0)


def test_a_verdict_put_as_a_row_is_a_verdict(known: KnowledgeBase, volume: str) -> None:
    change = known.put("feedback", anomaly="spike", verdict="confirmed", about=[volume])
    assert (change.ref, change.action) == ("feedback/spike", "add")
    assert belief_of(known, volume) == (0.6, 1, 0)
    known.put("feedback", id="spike", verdict="false_alarm")
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)
    known.put("feedback", id="spike", note="checked")
    assert belief_of(known, volume) == (confidence_of(0.5, 0, 1), 0, 1)


VERDICTS = st.tuples(st.sampled_from("abc"), st.sampled_from(["confirmed", "false_alarm", "note", "delete"]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VERDICTS, max_size=8), st.booleans())
def test_the_confidence_is_that_of_the_verdicts_that_stand(said: list[tuple[str, str]], later: bool) -> None:
    known = keeping(MemoryStore(FixedClock())).knowledge
    ref = known.upsert_pattern("gaps fill", confidence=0.7).ref
    standing: dict[str, str] = {}
    for anomaly, verdict in said:
        if verdict != "delete":
            known.feedback(anomaly, verdict, about=[ref], process=not later)
            standing[anomaly] = verdict
        elif standing.pop(anomaly, None):
            known.delete("feedback", anomaly)
    known.process_feedback()
    counted = list(standing.values())
    expected = (counted.count("confirmed"), counted.count("false_alarm"))
    assert belief_of(known, ref) == (confidence_of(0.7, *expected), *expected)


# ── at the same time ──────────────────────────────────────────────────────────────────────────────────────────────────


def at_once(acts: list[Callable[[], object]]) -> None:
    """All of them in threads of their own, from one moment on; what one raises is raised."""
    ready, failed = threading.Barrier(len(acts)), list[BaseException]()

    def run(act: Callable[[], object]) -> None:
        ready.wait()
        try:
            act()
        except BaseException as error:  # noqa: BLE001  # told below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_two_processes_process_what_is_pending_once(reopen: Reopen) -> None:
    keepers = [keeping(reopen()) for _ in range(3)]
    known = keepers[0].knowledge
    refs = [known.upsert_pattern(f"pattern {number}").ref for number in range(3)]
    for number in range(6):
        known.feedback(f"anomaly {number}", "confirmed", about=refs, process=False)
    at_once([each.knowledge.process_feedback for each in keepers])
    assert {belief_of(known, ref) for ref in refs} == {(confidence_of(0.5, 6, 0), 6, 0)}
    assert known.pending_feedback() == []


def test_no_verdict_is_lost_between_processes(reopen: Reopen) -> None:
    keepers = [keeping(reopen()) for _ in range(3)]
    ref = keepers[0].knowledge.upsert_pattern("gaps fill").ref

    def judge(keeper: Keeper, number: int) -> None:
        for turn in range(3):
            keeper.knowledge.feedback(f"anomaly {number}.{turn}", "confirmed", about=[ref])

    at_once([lambda each=each, number=number: judge(each, number) for number, each in enumerate(keepers)])  # type: ignore[misc]
    assert belief_of(keepers[0].knowledge, ref) == (confidence_of(0.5, 9, 0), 9, 0)


def test_a_decision_on_what_another_has_changed_is_refused(reopen: Reopen) -> None:
    one, other = keeping(reopen()), keeping(reopen())
    row = one.knowledge.upsert_pattern("gaps fill")
    other.knowledge.put("patterns", id=row.id, confidence=0.9)
    with pytest.raises(Conflict, match="changed meanwhile"):
        one.apply([], by="test", why="", knowledge=[PutRow(row, as_of=row.updated_at)])
    with pytest.raises(Conflict, match="changed meanwhile"):
        one.apply([], by="test", why="", knowledge=[PutRow(row, as_of="")])


# ── for others' eyes ──────────────────────────────────────────────────────────────────────────────────────────────────

ADA, BOB = Viewer(user="ada", team="red"), Viewer(user="bob", team="red")


def test_what_is_private_is_another_row_for_each(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    first = ada.upsert_threshold("AAPL", "volume", 5e6, "above")
    second = bob.upsert_threshold("AAPL", "volume", 9e6, "above")
    assert first.id != second.id
    assert [each.threshold.value for each in ada.evaluate("AAPL", "volume", 1e7)] == [5e6]
    assert ada.upsert_threshold("AAPL", "volume", 6e6, "above").id == first.id
    with pytest.raises(NotFound):
        bob.feedback("spike", "confirmed", about=[first.ref])
    with pytest.raises(NotFound):
        bob.delete("thresholds", first.id)
    assert (ada.counts()["thresholds"], keeper.knowledge.counts()["thresholds"]) == (1, 2)


def test_an_id_that_another_has_is_given_an_end_and_found_again(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    ada.upsert_pattern("gaps fill", id="p1")
    mine = bob.upsert_pattern("gaps do not fill", id="p1")
    again = bob.put("patterns", id="p1", pattern="gaps never fill")
    assert mine.id != "p1"
    assert (again.key, again.action) == (mine.id, "update")
    assert ada.get("patterns", "p1").says == "gaps fill"


def test_a_team_judges_what_the_team_knows(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    ref = ada.upsert_pattern("gaps fill", visibility="team").ref
    bob.feedback("spike", "confirmed", about=[ref])
    ada.feedback("spike", "confirmed", about=[ref])  # each has an own verdict
    assert belief_of(ada, ref) == (confidence_of(0.5, 2, 0), 2, 0)
    assert claim(ada, ref).user == "ada"
    (verdict,) = bob.list("feedback")
    bob.delete("feedback", verdict.id)
    assert belief_of(ada, ref) == (0.6, 1, 0)


def test_who_does_not_see_a_claim_does_not_unmake_a_verdict_on_it(keeper: Keeper) -> None:
    ada, bob = keeper.as_viewer(ADA).knowledge, keeper.as_viewer(BOB).knowledge
    ref = ada.upsert_pattern("gaps fill").ref
    ada.feedback("spike", "confirmed", about=[ref], visibility="team")
    ada.feedback("dip", "confirmed", about=[ref], visibility="team", process=False)
    (dip, spike) = bob.list("feedback")
    assert bob.process_feedback() is None
    with pytest.raises(Forbidden, match="may not read"):
        bob.delete("feedback", spike.id)
    assert belief_of(ada, ref) == (0.6, 1, 0)
    assert ada.process_feedback() is not None
    ada.delete("feedback", spike.id)
    ada.delete(*ref.split("/"))
    ada.delete("feedback", dip.id)  # what is gone is not hidden
    assert bob.list("feedback") == []
