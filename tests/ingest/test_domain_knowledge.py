"""Reports of a monitoring agent become memories and rows of domain knowledge in one changeset."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import NotFound
from cofio.models.domain_knowledge import Claim, Threshold
from cofio.models.exchange import LearningResult
from cofio.models.memory import Changeset, Decision, Edit, PutRow
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM
from cofio.text.briefing import NOTICE
from tests.judges import ValueJudge

OPENING = f"<relevant-context>\n{NOTICE}\n"
VOLUME = "thresholds/aapl.volume.above"
REPORT = """Nothing else to see.
Threshold recommendation: flag AAPL if volume exceeds 5M.
Correlation: BTC price leads COIN stock.
Pattern: volume is typically low on Fridays.
Observation: AAPL volume spikes consistently before earnings."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FixedClock())


@pytest.fixture
def keeper(store: MemoryStore) -> Iterator[Keeper]:
    with Keeper(store, HashEmbedder(), FixedClock()) as opened_keeper:
        yield opened_keeper


def keeper_with_llm(store: MemoryStore, *replies: str) -> Keeper:
    """Return a second keeper on the test's store, with an LLM."""
    return Keeper(store, HashEmbedder(), FixedClock(), llm=ScriptedLLM(list(replies)))


def report(
    keeper: Keeper, *texts: str, context: str = "analysis", role: str = "assistant", **fields: Any
) -> LearningResult:
    messages = [{"role": role, "content": text} for text in texts]
    return keeper.learn(messages, context=context, **{"source": "market", **fields})


def rows(keeper: Keeper) -> dict[str, Claim]:
    tables = ("patterns", "correlations", "thresholds", "seasonal")
    stored_rows = [row for table in tables for row in keeper.knowledge.list(table)]
    return {row.ref: row for row in stored_rows if isinstance(row, Claim)}


def stored_texts(keeper: Keeper) -> list[str]:
    return sorted(memory.text for memory in keeper.list().memories)


def threshold(keeper: Keeper) -> Threshold:
    row = rows(keeper)[VOLUME]
    assert isinstance(row, Threshold)
    return row


# ── Changesets and undo ───────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_and_row_are_written_in_one_changeset_and_linked(keeper: Keeper) -> None:
    learned = report(keeper, REPORT)
    assert learned.count("add") == 4
    changeset = keeper.changeset(learned.changeset or 0)
    assert {change.ref for change in changeset.knowledge} == set(rows(keeper))
    memories = {memory.id: memory.text for memory in keeper.list().memories}
    assert {row.says.split(" (")[0]: memories[row.memory or 0] for row in rows(keeper).values()} == {
        "AAPL/volume: above 5000000": "flag AAPL if volume exceeds 5M",
        "BTC price leads COIN stock": "BTC price leads COIN stock",
        "volume is typically low on Fridays": "volume is typically low on Fridays",
        "AAPL volume spikes consistently before earnings": "AAPL volume spikes consistently before earnings",
    }
    assert [change["action"] for change in learned.as_dict()["knowledge"]] == ["add"] * 4


def test_confidence_of_the_parser_is_the_prior(keeper: Keeper) -> None:
    report(keeper, REPORT)
    priors = {row.TABLE: (row.confidence, row.prior) for row in rows(keeper).values()}
    assert priors == {
        "thresholds": (0.7, 0.7),
        "correlations": (0.5, 0.5),
        "patterns": (0.6, 0.6),
        "seasonal": (0.6, 0.6),
    }


def test_undo_removes_memory_and_row(keeper: Keeper) -> None:
    learned = report(keeper, REPORT)
    keeper.undo(learned.changeset or 0)
    assert (rows(keeper), stored_texts(keeper)) == ({}, [])


def test_dry_run_reports_changes_without_writing(keeper: Keeper) -> None:
    learned = report(keeper, REPORT, dry_run=True)
    assert {"action": "add", "ref": VOLUME, "says": "AAPL/volume: above 5000000"} in learned.as_dict()["knowledge"]
    assert (rows(keeper), stored_texts(keeper)) == ({}, [])
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


def test_text_that_cannot_be_parsed_is_stored_as_memory_only(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume is between 1M and 5M.")
    assert (rows(keeper), stored_texts(keeper)) == ({}, ["Flag AAPL if volume is between 1M and 5M"])


def test_row_has_owner_and_place_of_the_report(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M", agent="watcher", user="ann", team="desk", visibility="team")
    [row] = rows(keeper).values()
    assert (row.place, row.agent, row.user, row.team, row.visibility) == ("market", "watcher", "ann", "desk", "team")


def test_rows_of_two_users_are_separate(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M", user="ann")
    report(keeper, "flag AAPL if volume exceeds 6M", user="ben")
    assert {row.user: row.says for row in rows(keeper).values()} == {
        "ann": "AAPL/volume: above 5000000",
        "ben": "AAPL/volume: above 6000000",
    }
    report(keeper, "Stop flagging AAPL volume", user="ben")
    assert [row.user for row in rows(keeper).values()] == ["ann"]


# ── Repetitions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_repeated_report_is_stored_once(keeper: Keeper) -> None:
    report(keeper, REPORT)
    rows_before = rows(keeper)
    for text in (REPORT, "Alert when AAPL's volume is over 5,000,000.", "Threshold: AAPL/volume: above 5000000"):
        assert report(keeper, text).state == "rejected"
    assert rows(keeper) == rows_before
    assert len(stored_texts(keeper)) == 4


def test_injected_row_is_not_learned(keeper: Keeper) -> None:
    injected = f"{OPENING}## Active Thresholds\n- AAPL/volume: above 5000000 (fires: 6200000)\n</relevant-context>"
    learned = report(keeper, "flag AAPL if volume exceeds 5M", injected=(injected,))
    assert learned.actions[0]["reason"] == "it was put before the agent in this conversation"
    assert rows(keeper) == {}
    assert report(keeper, "flag AAPL if volume exceeds 6M", injected=(injected,)).state == "stored"


def test_duplicate_row_in_one_report_is_stored_once(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume exceeds 5M.\nAlert when AAPL's volume > 5M.")
    assert len(rows(keeper)) == 1
    assert len(stored_texts(keeper)) == 1


def test_last_of_two_values_in_one_report_is_stored(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume exceeds 5M.\nRather: on reflection.\nFlag AAPL if volume exceeds 6M.")
    assert threshold(keeper).value == 6e6
    assert stored_texts(keeper) == ["Flag AAPL if volume exceeds 6M"]


def test_row_denied_in_the_same_report_is_not_stored(keeper: Keeper) -> None:
    report(keeper, "Flag AAPL if volume exceeds 5M.\nDo not flag AAPL volume any more.")
    assert rows(keeper) == {}


def test_verdicts_are_kept_on_repetition(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M")
    keeper.knowledge.feedback("spike", "confirmed", about=[VOLUME])
    row = threshold(keeper)
    assert row.confirmed == 1
    report(keeper, "flag AAPL if volume exceeds 5M")
    report(keeper, "flag AAPL once its volume is above 5 million")
    assert threshold(keeper) == row


def test_missing_row_is_restored_when_the_memory_is_confirmed(keeper: Keeper, store: MemoryStore) -> None:
    [added] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    keeper.knowledge.delete("thresholds", "aapl.volume.above")
    report(keeper, "flag AAPL if volume exceeds 5M")
    assert rows(keeper) == {}, "an echo restores no row"
    llm_keeper = keeper_with_llm(
        store,
        facts_of("flag AAPL if volume exceeds 5M", said_by="user"),
        json.dumps({"decisions": [{"fact": 1, "action": "noop", "memory": 1}]}),
    )
    messages = [{"role": "user", "content": "As I said: flag AAPL if volume exceeds 5M"}]
    learned = llm_keeper.extract(messages, context="analysis", source="market")
    assert learned.count("noop") == 1
    assert threshold(keeper).memory == added["id"]


# ── Changes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "flag AAPL if volume exceeds 6M",
        "Threshold: AAPL volume above 6M",
        "We should raise an alert when the volume of AAPL is over 6,000,000 shares",
    ],
)
def test_new_value_updates_the_row_and_archives_the_old_memory(keeper: Keeper, text: str) -> None:
    [first] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    row_before = threshold(keeper)
    learned = report(keeper, text)
    row_after = threshold(keeper)
    assert (row_after.value, row_after.created_at, row_after.confidence) == (
        6e6,
        row_before.created_at,
        row_before.confidence,
    )
    [memory] = keeper.list().memories
    assert row_after.memory == memory.id
    old = keeper.get(first["id"])
    assert (old.archived, old.superseded_by) == (True, memory.id)
    assert learned.as_dict()["knowledge"][0]["action"] == "update"
    keeper.undo(learned.changeset or 0)
    assert (threshold(keeper).value, stored_texts(keeper)) == (5e6, ["flag AAPL if volume exceeds 5M"])


def test_new_value_keeps_the_confidence_and_resets_verdicts(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M")
    keeper.knowledge.feedback("spike", "false_alarm", about=[VOLUME])
    lowered = threshold(keeper).confidence
    assert lowered < 0.7
    report(keeper, "flag AAPL if volume exceeds 6M")
    row = threshold(keeper)
    assert (row.confidence, row.prior, row.refuted) == (lowered, lowered, 0)


def test_row_of_a_pinned_memory_is_unchanged(keeper: Keeper) -> None:
    [first] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    keeper.apply([Edit(first["id"], {"pinned": True})], by="ann", why="pin")
    learned = report(keeper, "flag AAPL if volume exceeds 6M")
    assert threshold(keeper).value == 5e6
    assert learned.as_dict()["knowledge"] == [{"action": "noop", "ref": VOLUME, "says": "AAPL/volume: above 5000000"}]
    report(keeper, "Stop flagging AAPL volume")
    assert threshold(keeper).value == 5e6


def test_late_report_does_not_change_a_newer_row(keeper: Keeper) -> None:
    report(keeper, "flag AAPL if volume exceeds 6M", at="2025-12-02T10:00:00Z")
    learned = report(keeper, "flag AAPL if volume exceeds 5M", at="2025-12-01T10:00:00Z")
    assert learned.state == "rejected"
    assert "newer" in learned.actions[0]["reason"]
    assert (threshold(keeper).value, stored_texts(keeper)) == (6e6, ["flag AAPL if volume exceeds 6M"])
    report(keeper, "Stop flagging AAPL volume", at="2025-12-01T10:00:00Z")
    assert threshold(keeper).value == 6e6


def test_symmetric_correlation_is_one_row(keeper: Keeper) -> None:
    report(keeper, "AAPL price and MSFT price move together")
    report(keeper, "MSFT price correlates with AAPL price")
    assert len(rows(keeper)) == 1


def test_corrected_pattern_is_removed_with_its_memory(store: MemoryStore) -> None:
    keeper = Keeper(store, HashEmbedder(), FixedClock(), judge=ValueJudge())
    report(keeper, "Pattern: AAPL volume spikes before earnings")
    assert len(rows(keeper)) == 1
    learned = report(keeper, "AAPL volume no longer spikes before earnings", role="user")  # not by an agent
    assert learned.count("update") >= 1
    assert rows(keeper) == {}
    keeper.undo(learned.changeset or 0)
    assert len(rows(keeper)) == 1


# ── Denials ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "Do not flag AAPL if volume exceeds 5M",
        "Do not flag AAPL volume any more",
        "Stop flagging AAPL",
        "Remove the threshold on AAPL volume",
        "We no longer flag AAPL volume",
    ],
)
def test_denial_removes_the_row_and_archives_its_memory(keeper: Keeper, text: str) -> None:
    [first] = report(keeper, "flag AAPL if volume exceeds 5M").actions
    learned = report(keeper, text)
    assert rows(keeper) == {}
    assert keeper.get(first["id"]).archived
    assert {"action": "delete", "ref": VOLUME, "says": "AAPL/volume: above 5000000"} in learned.as_dict()["knowledge"]
    keeper.undo(learned.changeset or 0)
    assert threshold(keeper).value == 5e6
    assert not keeper.get(first["id"]).archived


def test_restated_row_can_be_denied_again(keeper: Keeper) -> None:
    denial = "Do not flag AAPL volume any more"
    for text in ("flag AAPL if volume exceeds 5M", denial, "flag AAPL if volume exceeds 6M"):
        report(keeper, text)
    assert threshold(keeper).value == 6e6
    learned = report(keeper, denial)
    assert rows(keeper) == {}
    assert stored_texts(keeper) == [denial]
    keeper.undo(learned.changeset or 0)
    report(keeper, denial, injected=(denial,))  # the agent repeats injected text
    assert threshold(keeper).value == 6e6


@pytest.mark.parametrize(
    "text",
    [
        "Do not flag AAPL if volume exceeds 9M",
        "Do not flag TSLA volume any more",
        "Do not flag AAPL price any more",
        "Do not flag AAPL unless volume exceeds 5M",
        "Should we stop flagging AAPL volume?",
    ],
)
def test_denial_of_another_row_removes_nothing(keeper: Keeper, text: str) -> None:
    report(keeper, "flag AAPL if volume exceeds 5M")
    report(keeper, text)
    assert threshold(keeper).value == 5e6


def test_correlation_is_denied_by_the_names_of_its_sides(keeper: Keeper) -> None:
    report(keeper, "BTC price leads COIN stock")
    report(keeper, "COIN no longer follows BTC")
    assert rows(keeper) == {}
    assert "BTC price leads COIN stock" not in stored_texts(keeper)


def test_row_without_a_memory_is_removed_by_a_denial(keeper: Keeper) -> None:
    keeper.knowledge.upsert_threshold("AAPL", "volume", 5e6, "above")
    report(keeper, "Stop flagging AAPL volume")
    with pytest.raises(NotFound):
        keeper.knowledge.get("thresholds", "aapl.volume.above")


# ── With an LLM, and through the inbox ────────────────────────────────────────────────────────────────────────────────


def facts_of(*texts: str, kind: str = "threshold", said_by: str = "assistant") -> str:
    return json.dumps({
        "facts": [
            {"text": text, "category": "detail", "kind": kind, "confidence": "high", "said_by": said_by, "entities": []}
            for text in texts
        ]
    })  # fmt: skip


def test_row_is_parsed_from_the_llms_wording(keeper: Keeper, store: MemoryStore) -> None:
    llm_keeper = keeper_with_llm(store, facts_of("AAPL should be flagged if its volume exceeds 5M"))
    messages = [{"role": "assistant", "content": "Five million is where AAPL gets odd."}]
    llm_keeper.extract(messages, context="analysis", source="market")
    row = threshold(keeper)
    assert (row.value, row.confidence) == (5e6, 0.95)


def test_row_is_parsed_from_the_message_if_the_llms_wording_is_vague(keeper: Keeper, store: MemoryStore) -> None:
    vague_text = "Watch AAPL closely and flag it whenever the volume exceeds 5M, as the desk has agreed"
    llm_keeper = keeper_with_llm(store, facts_of(vague_text, kind="pattern"))
    messages = [
        {"role": "user", "content": "We decided something about the desk and the staging database today, remember it."},
        {"role": "assistant", "content": "Threshold: flag AAPL if volume exceeds 5M."},
    ]
    learned = llm_keeper.learn(messages, context="analysis", source="market")
    assert learned.method == "llm"
    assert threshold(keeper).value == 5e6


def test_captured_report_writes_rows(keeper: Keeper) -> None:
    messages = [{"role": "assistant", "content": "flag AAPL if volume exceeds 5M"}]
    fields = {"context": "analysis", "source": "market", "client": "bot", "session": "s", "turn": "1"}
    captured = keeper.capture(messages, wait=True, **fields)
    assert captured.result["knowledge"] == [{"action": "add", "ref": VOLUME, "says": "AAPL/volume: above 5000000"}]
    assert threshold(keeper).value == 5e6
    assert not keeper.capture(messages, wait=True, **fields).new
    assert len(keeper.knowledge.history("thresholds", "aapl.volume.above")) == 1


class _RacingStore(SqliteStore):
    """A store in which another writer changes a row just before the first change of a row."""

    race: Callable[[], object] | None = None

    def apply(self, decisions: Sequence[Decision], *arguments: Any, **options: Any) -> Changeset:
        if self.race and any(isinstance(decision, PutRow) for decision in decisions):
            race, self.race = self.race, None
            race()
        return super().apply(decisions, *arguments, **options)


def test_concurrent_change_of_a_row_is_not_lost(tmp_path: Path) -> None:
    store, clock = _RacingStore(tmp_path / "cofio.db", FixedClock()), FixedClock()
    with (
        Keeper(store, HashEmbedder(), clock) as keeper,
        Keeper(
            SqliteStore(tmp_path / "cofio.db", FixedClock("2026-05-01T00:00:00Z")), HashEmbedder(), clock
        ) as other_keeper,
    ):
        report(keeper, "flag AAPL if volume exceeds 5M")
        store.race = lambda: other_keeper.knowledge.feedback("spike", "confirmed", about=[VOLUME])
        report(keeper, "flag AAPL if volume exceeds 6M")
        row = threshold(keeper)
        assert (row.value, row.confidence) == (6e6, pytest.approx((4 * 0.7 + 1) / 5))
