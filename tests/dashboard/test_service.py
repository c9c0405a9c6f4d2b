"""The store as a picture: what an overview tells, who is at work, what recall notes of itself."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.errors import Forbidden, InvalidInput
from cofio.models.dashboard import DailyCount, Injection, InjectionCount
from cofio.models.memory import Add, Fact, Viewer
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

ADA = Viewer(user="ada", agent="codex", team="web")


def noted(keeper: Keeper) -> list[tuple[str, str, int, bool]]:
    """Who was given something on which occasion, how many memories, and whether that was any tokens."""
    keeper.dashboard.pulse()  # has what waits written
    path = keeper.services.access.store._file.path  # type: ignore[attr-defined]
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT caller, occasion, memories, tokens > 0 FROM injections ORDER BY id"
        ).fetchall()
    connection.close()
    return [(caller, occasion, memories, bool(any_)) for caller, occasion, memories, any_ in rows]


# ── what recall notes ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_prompt_and_every_start_is_noted_with_what_it_was_given(keeper: Keeper) -> None:
    keeper.add("The staging database is postgres 16 on db-2.")
    heard: list[Injection] = []
    keeper.on_injected(heard.append)
    told = keeper.recall("which staging database do we have?", by="codex")
    keeper.recall(by="cursor")
    keeper.recall("who paints the bicycle shed in lilac?", by="codex")
    assert noted(keeper) == [("codex", "prompt", 1, True), ("cursor", "start", 1, True), ("codex", "prompt", 0, False)]
    assert [each.tokens for each in heard] == [told.tokens, heard[1].tokens, 0]
    (day,) = keeper.dashboard.overview().injected or ()
    assert (day.prompts, day.answered, day.starts, day.memories) == (2, 1, 1, 2)
    assert day.tokens == sum(each.tokens for each in heard)


def test_at_a_prompt_that_asks_for_nothing_nothing_was_looked_for(keeper: Keeper) -> None:
    keeper.add("The staging database is postgres 16 on db-2.")
    for prompt in ("yes", "continue", "/clear", "2"):
        assert not keeper.recall(prompt)
    assert noted(keeper) == []


def test_what_is_known_exactly_counts_in_tokens_and_is_no_memory(keeper: Keeper) -> None:
    keeper.knowledge.put("thresholds", source="AAPL", metric="volume", value=5e6, direction="above", confidence=0.9)
    told = keeper.recall("AAPL volume is 6.2M today", by="codex")
    assert told.exact
    assert noted(keeper) == [("codex", "prompt", 0, True)]


def test_a_note_waits_for_no_writer_and_is_not_lost(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.add("The staging database is postgres 16 on db-2.")
        keeper.recall("which staging database?", by="codex")
        holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        before = keeper.dashboard.pulse()
        keeper.recall(by="codex")
        holder.execute("ROLLBACK")
        holder.close()
        assert len(noted(keeper)) == 2
        assert keeper.dashboard.pulse().moved(before) in (["recalls"], [])
    again = SqliteStore(tmp_path / "cofio.db", clock)
    assert [each.prompts + each.starts for each in again.pictures.injected("2000-01-01")] == [2]
    again.close()


def test_what_was_given_long_ago_is_forgotten_with_what_was_asked(keeper: Keeper) -> None:
    keeper.services.access.store.pictures.inject(
        [Injection("2025-01-01T00:00:00.000000+00:00", "codex", "prompt", 1, 50)]
    )
    keeper.recall(by="codex")
    keeper.dashboard.pulse()
    keeper.services.retention.apply(captures=30, retrievals=180)
    assert [each.day for each in keeper.services.access.store.pictures.injected("2000-01-01")] == ["2026-01-01"]


def test_nothing_that_was_said_is_in_what_is_noted(keeper: Keeper) -> None:
    number = keeper.add("The vault code is marzipan.").memory_id
    keeper.recall("what is the marzipan vault code?", by="codex")
    keeper.purge(number)
    keeper.dashboard.pulse()
    path = keeper.services.access.store._file.path  # type: ignore[attr-defined]
    with sqlite3.connect(path) as connection:
        assert "marzipan" not in "\n".join(connection.iterdump())
    connection.close()


# ── the overview ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_overview_tells_how_the_store_stands_and_what_went_on(keeper: Keeper) -> None:
    keeper.add("Old news.", kind="other", created_at="2025-01-01")
    keeper.add("We decided on Drizzle.", kind="decision")
    gone = keeper.add("We use tabs.").memory_id
    keeper.delete(gone)
    keeper.services.access.store.apply([Add(Fact(text="later"))], {}, by="test", why="")
    told = keeper.dashboard.overview(days=3)
    assert (told.live, told.archived, list(told.days)) == (3, 1, ["2025-12-30", "2025-12-31", "2026-01-01"])
    assert list(told.arrived) == [
        DailyCount("", "detail", 1),
        DailyCount("2026-01-01", "decision", 1),
        DailyCount("2026-01-01", "detail", 1),
    ]
    assert told.done_today == {"add": 4, "delete": 1}
    assert told.injected == []
    assert told.store
    assert (told.store.name, told.store.vectors, told.store.waiting) == ("sqlite", 3, 1)
    assert told.store.bytes > 0
    assert told.store.embedder == "hash:words:256"
    assert sum(each.count for each in told.arrived) == told.live


def test_an_overview_tells_of_no_more_days_than_there_are_in_a_year(keeper: Keeper) -> None:
    assert len(keeper.dashboard.overview(days=366).days) == 366
    assert list(keeper.dashboard.overview(days=1).days) == ["2026-01-01"]
    for days in (0, 367, -1):
        with pytest.raises(InvalidInput):
            keeper.dashboard.overview(days=days)


def test_days_without_any_are_not_told_of(keeper: Keeper) -> None:
    told = keeper.dashboard.overview()
    assert (told.live, told.archived, list(told.arrived), told.done_today) == (0, 0, [], {})
    keeper.recall(by="codex")
    assert keeper.dashboard.overview().injected == [InjectionCount("2026-01-01", 0, 0, 1, 0, 0)]


def test_a_viewers_overview_is_of_what_they_see_and_of_nobodys_doings(keeper: Keeper) -> None:
    mine = keeper.as_viewer(ADA)
    mine.add("We decided on Drizzle.", kind="decision")
    mine.delete(mine.add("We use tabs.").memory_id)
    keeper.add("Bob looks for another job.", user="bob")
    keeper.recall(by="codex")
    told = mine.dashboard.overview(days=2)
    assert (told.live, told.archived) == (1, 1)
    assert [each.count for each in told.arrived] == [1]
    assert (told.done_today, told.injected, told.store) == (None, None, None)
    with pytest.raises(Forbidden):
        mine.dashboard.agents()


# ── who is at work, and what moves ────────────────────────────────────────────────────────────────────────────────────


def test_agents_are_told_of_at_once(keeper: Keeper) -> None:
    keeper.add("We decided on Drizzle.", source="claude-code/web")
    keeper.search("which drizzle?", by="cursor")
    keeper.recall("which drizzle?", by="codex")
    assert {agent.name: (agent.memories, agent.recalls) for agent in keeper.dashboard.agents()} == {
        "codex": (0, 1),
        "cursor": (0, 1),
        "claude-code": (1, 0),
    }
    assert len(keeper.dashboard.agents(limit=2)) == 2
    with pytest.raises(InvalidInput):
        keeper.dashboard.agents(limit=0)


def test_the_pulse_knows_at_once_of_what_was_recalled(keeper: Keeper) -> None:
    before = keeper.dashboard.pulse()
    assert keeper.dashboard.pulse().moved(before) == []
    keeper.recall("who paints the bicycle shed?")
    recalled = keeper.dashboard.pulse()
    assert recalled.moved(before) == ["recalls"]
    keeper.capture("I prefer tabs over spaces.", wait=True)
    assert keeper.dashboard.pulse().moved(recalled) == ["memories", "inbox"]
