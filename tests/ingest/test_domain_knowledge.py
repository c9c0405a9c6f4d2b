"""What a watching agent reports becomes memories and rows of domain knowledge, together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import NotFound
from cofio.models.domain_knowledge import Claim, Threshold
from cofio.models.exchange import LearningResult
from cofio.models.memory import Changeset, Edit
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
from tests.judges import ValueJudge

VOLUME = "thresholds/aapl.volume.above"
REPORT = """Nothing else to see.
Threshold recommendation: flag AAPL if volume exceeds 5M.
Correlation: BTC price leads COIN stock.
Pattern: volume is typically low on Fridays.
Observation: AAPL volume spikes consistently before earnings."""


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteStore | MemoryStore:
    return SqliteStore(tmp_path / "cofio.db", FixedClock()) if request.param == "sqlite" else MemoryStore(FixedClock())


@pytest.fixture
def keeper(store: SqliteStore | MemoryStore) -> Iterator[Keeper]:
    with Keeper(store, HashEmbedder(), FixedClock()) as opened:
        yield opened


def with_model(store: SqliteStore | MemoryStore, *replies: str) -> Keeper:
    """A keeper on the test's store that asks a model; the other one closes it."""
    return Keeper(store, HashEmbedder(), FixedClock(), llm=ScriptedLLM(list(replies)))


def report(
    keeper: Keeper, *said: str, context: str = "analysis", role: str = "assistant", **about: Any
) -> LearningResult:
    messages = [{"role": role, "content": each} for each in said]
    return keeper.learn(messages, context=context, **{"source": "market", **about})


def rows(keeper: Keeper) -> dict[str, Claim]:
    tables = ("patterns", "correlations", "thresholds", "seasonal")
    found = [row for table in tables for row in keeper.knowledge.list(table)]
    return {row.ref: row for row in found if isinstance(row, Claim)}


def told(keeper: Keeper) -> list[str]:
    return sorted(memory.text for memory in keeper.list().memories)


def threshold(keeper: Keeper) -> Threshold:
    row = rows(keeper)[VOLUME]
    assert isinstance(row, Threshold)
    return row


# ── written together, undone together ─────────────────────────────────────────────────────────────────────────────────


def test_memory_and_row_are_written_in_one_changeset_and_linked(keeper: Keeper) -> None:
    learned = report(keeper, REPORT)
    assert learned.count("add") == 4
    done = keeper.changeset(learned.changeset or 0)
    assert {each.ref for each in done.knowledge} == set(rows(keeper))
    memories = {memory.id: memory.text for memory in keeper.list().memories}
    assert {row.says.split(" (")[0]: memories[row.memory or 0] for row in rows(keeper).values()} == {
        "AAPL/volume: above 5000000": "flag AAPL if volume exceeds 5M",
        "BTC price leads COIN stock": "BTC price leads COIN stock",
        "volume is typically low on Fridays": "volume is typically low on Fridays",
        "AAPL volume spikes consistently before earnings": "AAPL volume spikes consistently before earnings",
    }
    assert [each["action"] for each in learned.as_dict()["knowledge"]] == ["add"] * 4


def test_the_confidence_of_the_reading_is_the_prior(keeper: Keeper) -> None:
    report(keeper, REPORT)
    priors = {row.TABLE: (row.confidence, row.prior) for row in rows(keeper).values()}
    assert priors == {
        "thresholds": (0.7, 0.7),
        "correlations": (0.5, 0.5),
        "patterns": (0.6, 0.6),
        "seasonal": (0.6, 0.6),
    }


def test_undo_takes_back_both(keeper: Keeper) -> None:
    learned = report(keeper, REPORT)
    keeper.undo(learned.changeset or 0)
    assert (rows(keeper), told(keeper)) == ({}, [])


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(keeper: Keeper) -> None:
    learned = report(keeper, REPORT, dry_run=True)
    assert {"action": "add", "ref": VOLUME, "says": "AAPL/volume: above 5000000"} in learned.as_dict()["knowledge"]
    assert (rows(keeper), told(keeper)) == ({}, [])
    report(keeper, "flag AAPL if volume exceeds 5M")
    changed = report(keeper, "flag AAPL if volume exceeds 6M", dry_run=True).as_dict()["knowledge"]
    assert changed == [{"action": "update", "ref": VOLUME, "says": "AAPL/volume: above 6000000"}]
    denied = report(keeper, "Stop flagging AAPL volume", dry_run=True).as_dict()["knowledge"]
    assert denied == [{"action": "delete", "ref": VOLUME, "says": "AAPL/volume: above 5000000"}]
    assert threshold(keeper).value == 5e6


@pytest.mark.parametrize("context", ["stop", "observation", "pre_compact"])
def test_other_contexts_write_no_rows(keeper: Keeper, context: str) -> None:
    learned = report(keeper, REPORT, context=context)
    assert (rows(keeper), learned.as_dict()["knowledge"]) == ({}, [])


def test_what_cannot_be_read_is_a_memory_alone(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume is between 1M and 5M.")
    assert (rows(keeper), told(keeper)) == ({}, ["Flag AAPL if volume is between 1M and 5M"])


def test_the_row_is_of_whoever_told_it_and_of_where(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M", agent="watcher", user="ann", team="desk", visibility="team")
    [row] = rows(keeper).values()
    assert (row.place, row.agent, row.user, row.team, row.visibility) == ("market", "watcher", "ann", "desk", "team")


def test_what_two_users_say_of_the_same_are_two_rows(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M", user="ann")
    report(keeper, "flag AAPL if volume exceeds 6M", user="ben")
    assert {row.user: row.says for row in rows(keeper).values()} == {
        "ann": "AAPL/volume: above 5000000",
        "ben": "AAPL/volume: above 6000000",
    }
    report(keeper, "Stop flagging AAPL volume", user="ben")
    assert [row.user for row in rows(keeper).values()] == ["ann"]


# ── said again ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_agent_says_again_is_kept_once(keeper: Keeper) -> None:
    report(keeper, REPORT)
    before = rows(keeper)
    for said in (REPORT, "Alert when AAPL's volume is over 5,000,000.", "Threshold: AAPL/volume: above 5000000"):
        assert report(keeper, said).state == "rejected"
    assert rows(keeper) == before
    assert len(told(keeper)) == 4


def test_a_row_that_the_agent_was_shown_is_no_news(keeper: Keeper) -> None:
    shown = (
        "<relevant-context>\n## Active Thresholds\n- AAPL/volume: above 5000000 (fires: 6200000)\n</relevant-context>"
    )
    learned = report(keeper, "flag AAPL if volume exceeds 5M", injected=(shown,))
    assert learned.actions[0]["reason"] == "it was put before the agent in this conversation"
    assert rows(keeper) == {}
    assert report(keeper, "flag AAPL if volume exceeds 6M", injected=(shown,)).state == "stored"


def test_the_same_row_twice_in_one_report_is_told_once(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume exceeds 5M.\nAlert when AAPL's volume > 5M.")
    assert len(rows(keeper)) == 1
    assert len(told(keeper)) == 1


def test_the_later_of_two_values_in_one_report_stands(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume exceeds 5M.\nRather: on reflection.\nFlag AAPL if volume exceeds 6M.")
    assert threshold(keeper).value == 6e6
    assert told(keeper) == ["Flag AAPL if volume exceeds 6M"]


def test_what_is_said_and_taken_back_in_one_report_leaves_no_row(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume exceeds 5M.\nDo not flag AAPL volume any more.")
    assert rows(keeper) == {}


def test_verdicts_stay_when_it_is_said_again(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M")
    keeper.knowledge.feedback("spike", "confirmed", about=[VOLUME])
    before = threshold(keeper)
    assert before.confirmed == 1
    report(keeper, "flag AAPL if volume exceeds 5M")
    report(keeper, "flag AAPL once its volume is above 5 million")
    assert threshold(keeper) == before


def test_a_row_that_is_missing_is_put_when_the_memory_is_seen_again(
    keeper: Keeper, store: SqliteStore | MemoryStore
) -> None:
    [added] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    keeper.knowledge.delete("thresholds", "aapl.volume.above")
    report(keeper, "flag AAPL if volume exceeds 5M")
    assert rows(keeper) == {}, "an echo brings nothing back"
    asking = with_model(
        store,
        facts_of("flag AAPL if volume exceeds 5M", said_by="user"),
        json.dumps({"decisions": [{"fact": 1, "action": "noop", "memory": 1}]}),
    )
    said = [{"role": "user", "content": "As I said: flag AAPL if volume exceeds 5M"}]
    seen = asking.extract(said, context="analysis", source="market")
    assert seen.count("noop") == 1
    assert threshold(keeper).memory == added["id"]


# ── said otherwise ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [
        "flag AAPL if volume exceeds 6M",
        "Threshold: AAPL volume above 6M",
        "We should raise an alert when the volume of AAPL is over 6,000,000 shares",
    ],
)
def test_another_value_changes_the_row_in_place_and_retires_the_memory_that_told_the_old_one(
    keeper: Keeper, said: str
) -> None:
    [first] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    before = threshold(keeper)
    learned = report(keeper, said)
    after = threshold(keeper)
    assert (after.value, after.created_at, after.confidence) == (6e6, before.created_at, before.confidence)
    [live] = keeper.list().memories
    assert after.memory == live.id
    old = keeper.get(first["id"])
    assert (old.archived, old.superseded_by) == (True, live.id)
    assert learned.as_dict()["knowledge"][0]["action"] == "update"
    keeper.undo(learned.changeset or 0)
    assert (threshold(keeper).value, told(keeper)) == (5e6, ["flag AAPL if volume exceeds 5M"])


def test_another_value_starts_from_the_confidence_so_far_without_verdicts(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M")
    keeper.knowledge.feedback("spike", "false_alarm", about=[VOLUME])
    lowered = threshold(keeper).confidence
    assert lowered < 0.7
    report(keeper, "flag AAPL if volume exceeds 6M")
    after = threshold(keeper)
    assert (after.confidence, after.prior, after.refuted) == (lowered, lowered, 0)


def test_what_a_pinned_memory_told_is_left_alone(keeper: Keeper) -> None:
    [first] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    keeper.apply([Edit(first["id"], {"pinned": True})], by="ann", why="pin")
    learned = report(keeper, "flag AAPL if volume exceeds 6M")
    assert threshold(keeper).value == 5e6
    assert learned.as_dict()["knowledge"] == [{"action": "noop", "ref": VOLUME, "says": "AAPL/volume: above 5000000"}]
    report(keeper, "Stop flagging AAPL volume")
    assert threshold(keeper).value == 5e6


def test_a_report_that_comes_late_does_not_change_what_was_said_since(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 6M", at="2026-03-02T10:00:00Z")
    late = report(keeper, "flag AAPL if volume exceeds 5M", at="2026-03-01T10:00:00Z")
    assert late.state == "rejected"
    assert "newer" in late.actions[0]["reason"]
    assert (threshold(keeper).value, told(keeper)) == (6e6, ["flag AAPL if volume exceeds 6M"])
    report(keeper, "Stop flagging AAPL volume", at="2026-03-01T10:00:00Z")
    assert threshold(keeper).value == 6e6


def test_two_sides_that_move_together_are_one_row_whichever_is_named_first(keeper: Keeper) -> None:
    report(keeper, "AAPL price and MSFT price move together")
    report(keeper, "MSFT price correlates with AAPL price")
    assert len(rows(keeper)) == 1


def test_a_pattern_that_is_corrected_goes_with_its_memory(store: SqliteStore | MemoryStore) -> None:
    keeper = Keeper(store, HashEmbedder(), FixedClock(), judge=ValueJudge())
    report(keeper, "Pattern: AAPL volume spikes before earnings")
    assert len(rows(keeper)) == 1
    learned = report(keeper, "AAPL volume no longer spikes before earnings", role="user")  # an agent ends nothing
    assert learned.count("update") >= 1
    assert rows(keeper) == {}
    keeper.undo(learned.changeset or 0)
    assert len(rows(keeper)) == 1


# ── denied ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [
        "Do not flag AAPL if volume exceeds 5M",
        "Do not flag AAPL volume any more",
        "Stop flagging AAPL",
        "Remove the threshold on AAPL volume",
        "We no longer flag AAPL volume",
    ],
)
def test_a_denial_drops_the_row_and_archives_the_memory_that_told_it(keeper: Keeper, said: str) -> None:
    [first] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    learned = report(keeper, said)
    assert rows(keeper) == {}
    assert keeper.get(first["id"]).archived
    assert {"action": "delete", "ref": VOLUME, "says": "AAPL/volume: above 5000000"} in learned.as_dict()["knowledge"]
    keeper.undo(learned.changeset or 0)
    assert threshold(keeper).value == 5e6
    assert not keeper.get(first["id"]).archived


def test_what_was_denied_and_said_again_can_be_denied_again(keeper: Keeper) -> None:
    denial = "Do not flag AAPL volume any more"
    for said in ("flag AAPL if volume exceeds 5M", denial, "flag AAPL if volume exceeds 6M"):
        report(keeper, said)
    assert threshold(keeper).value == 6e6
    learned = report(keeper, denial)
    assert rows(keeper) == {}
    assert told(keeper) == [denial]
    keeper.undo(learned.changeset or 0)
    report(keeper, denial, injected=(denial,))  # the agent only says what it was shown
    assert threshold(keeper).value == 6e6


@pytest.mark.parametrize(
    "said",
    [
        "Do not flag AAPL if volume exceeds 9M",
        "Do not flag TSLA volume any more",
        "Do not flag AAPL price any more",
        "Do not flag AAPL unless volume exceeds 5M",
        "Should we stop flagging AAPL volume?",
    ],
)
def test_a_denial_of_something_else_drops_nothing(keeper: Keeper, said: str) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M")
    report(keeper, said)
    assert threshold(keeper).value == 5e6


def test_a_correlation_is_denied_by_the_names_of_its_sides(keeper: Keeper) -> None:
    report(keeper, "BTC price leads COIN stock")
    report(keeper, "COIN no longer follows BTC")
    assert rows(keeper) == {}
    assert "BTC price leads COIN stock" not in told(keeper)


def test_a_row_that_no_memory_tells_is_dropped_too(keeper: Keeper) -> None:
    keeper.knowledge.upsert_threshold("AAPL", "volume", 5e6, "above")
    report(keeper, "Stop flagging AAPL volume")
    with pytest.raises(NotFound):
        keeper.knowledge.get("thresholds", "aapl.volume.above")


# ── with a model, and through the inbox ───────────────────────────────────────────────────────────────────────────────


def facts_of(*texts: str, kind: str = "threshold", said_by: str = "assistant") -> str:
    return json.dumps({
        "facts": [
            {"text": text, "category": "detail", "kind": kind, "confidence": "high", "said_by": said_by, "entities": []}
            for text in texts
        ]
    })  # fmt: skip


def test_what_the_model_says_in_other_words_is_read_too(keeper: Keeper, store: SqliteStore | MemoryStore) -> None:
    asking = with_model(store, facts_of("AAPL should be flagged if its volume exceeds 5M"))
    said = [{"role": "assistant", "content": "Five million is where AAPL gets odd."}]
    asking.extract(said, context="analysis", source="market")
    row = threshold(keeper)
    assert (row.value, row.confidence) == (5e6, 0.95)


def test_the_sentence_is_read_where_the_model_says_it_in_a_way_that_is_not(
    keeper: Keeper, store: SqliteStore | MemoryStore
) -> None:
    vague = "Watch AAPL closely and flag it whenever the volume exceeds 5M, as the desk has agreed"
    asking = with_model(store, facts_of(vague, kind="pattern"))
    messages = [
        {"role": "user", "content": "We decided something about the desk and the staging database today, remember it."},
        {"role": "assistant", "content": "Threshold: flag AAPL if volume exceeds 5M."},
    ]
    learned = asking.learn(messages, context="analysis", source="market")
    assert learned.method == "llm"
    assert threshold(keeper).value == 5e6


def test_a_report_in_the_inbox_is_settled_with_its_rows(keeper: Keeper) -> None:
    messages = [{"role": "assistant", "content": "flag AAPL if volume exceeds 5M"}]
    about = {"context": "analysis", "source": "market", "client": "bot", "session": "s", "turn": "1"}
    taken = keeper.capture(messages, wait=True, **about)
    assert taken.result["knowledge"] == [{"action": "add", "ref": VOLUME, "says": "AAPL/volume: above 5000000"}]
    assert threshold(keeper).value == 5e6
    assert not keeper.capture(messages, wait=True, **about).new
    assert len(keeper.knowledge.history("thresholds", "aapl.volume.above")) == 1


class _Raced(SqliteStore):
    """A store to which somebody else writes right before the first change of a row that is made through it."""

    race: Callable[[], object] | None = None

    def apply(self, *decided: Any, **how: Any) -> Changeset:
        if how.get("knowledge") and self.race:
            race, self.race = self.race, None
            race()
        return super().apply(*decided, **how)


def test_what_another_does_to_the_row_meanwhile_is_not_lost(tmp_path: Path) -> None:
    store, clock = _Raced(tmp_path / "cofio.db", FixedClock()), FixedClock()
    with (
        Keeper(store, HashEmbedder(), clock) as keeper,
        Keeper(SqliteStore(tmp_path / "cofio.db", FixedClock("2026-05-01T00:00:00Z")), HashEmbedder(), clock) as other,
    ):
        report(keeper, "flag AAPL if volume exceeds 5M")
        store.race = lambda: other.knowledge.feedback("spike", "confirmed", about=[VOLUME])
        report(keeper, "flag AAPL if volume exceeds 6M")
        row = threshold(keeper)
        assert (row.value, row.confidence) == (6e6, pytest.approx((4 * 0.7 + 1) / 5))
