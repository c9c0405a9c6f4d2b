"""The dashboard service: the overview, active agents, and recorded injections."""

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


def recorded_injections(keeper: Keeper) -> list[tuple[str, str, int, bool]]:
    """Return caller, occasion, number of memories and whether tokens were injected."""
    keeper.dashboard.pulse()  # writes pending records
    path = keeper.services.access.store._file.path  # type: ignore[attr-defined]
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT caller, occasion, memories, tokens > 0 FROM injections ORDER BY id"
        ).fetchall()
    connection.close()
    return [(caller, occasion, memories, bool(has_tokens)) for caller, occasion, memories, has_tokens in rows]


# ── Recorded injections ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_prompt_and_session_start_is_recorded(keeper: Keeper) -> None:
    keeper.add("The staging database is postgres 16 on db-2.")
    injections: list[Injection] = []
    keeper.on_injected(injections.append)
    result = keeper.recall("which staging database do we have?", by="codex")
    keeper.recall(by="cursor")
    keeper.recall("who paints the bicycle shed in lilac?", by="codex")
    assert recorded_injections(keeper) == [
        ("codex", "prompt", 1, True),
        ("cursor", "start", 1, True),
        ("codex", "prompt", 0, False),
    ]
    assert [injection.tokens for injection in injections] == [result.tokens, injections[1].tokens, 0]
    (day,) = keeper.dashboard.overview().injected or ()
    assert (day.prompts, day.answered, day.starts, day.memories) == (2, 1, 1, 2)
    assert day.tokens == sum(injection.tokens for injection in injections)


def test_trivial_prompt_is_not_recorded(keeper: Keeper) -> None:
    keeper.add("The staging database is postgres 16 on db-2.")
    for prompt in ("yes", "continue", "/clear", "2"):
        assert not keeper.recall(prompt)
    assert recorded_injections(keeper) == []


def test_exact_knowledge_is_recorded_as_tokens_without_memories(keeper: Keeper) -> None:
    keeper.knowledge.put("thresholds", source="AAPL", metric="volume", value=5e6, direction="above", confidence=0.9)
    result = keeper.recall("AAPL volume is 6.2M today", by="codex")
    assert result.exact
    assert recorded_injections(keeper) == [("codex", "prompt", 0, True)]


def test_recording_does_not_wait_for_a_writer_and_is_not_lost(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.add("The staging database is postgres 16 on db-2.")
        keeper.recall("which staging database?", by="codex")
        writer = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        pulse = keeper.dashboard.pulse()
        keeper.recall(by="codex")
        writer.execute("ROLLBACK")
        writer.close()
        assert len(recorded_injections(keeper)) == 2
        assert keeper.dashboard.pulse().moved(pulse) in (["recalls"], [])
    reopened = SqliteStore(tmp_path / "cofio.db", clock)
    assert [count.prompts + count.starts for count in reopened.dashboard.injected("2000-01-01")] == [2]
    reopened.close()


def test_old_injections_are_deleted_with_old_retrievals(keeper: Keeper) -> None:
    keeper.services.access.store.dashboard.inject(
        [Injection("2025-01-01T00:00:00.000000+00:00", "codex", "prompt", 1, 50)]
    )
    keeper.recall(by="codex")
    keeper.dashboard.pulse()
    keeper.services.retention.apply(captures=30, retrievals=180)
    assert [count.day for count in keeper.services.access.store.dashboard.injected("2000-01-01")] == ["2026-01-01"]


def test_recorded_injections_contain_no_text(keeper: Keeper) -> None:
    number = keeper.add("The vault code is marzipan.").memory_id
    keeper.recall("what is the marzipan vault code?", by="codex")
    keeper.purge(number)
    keeper.dashboard.pulse()
    path = keeper.services.access.store._file.path  # type: ignore[attr-defined]
    with sqlite3.connect(path) as connection:
        assert "marzipan" not in "\n".join(connection.iterdump())
    connection.close()


# ── Overview ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_overview_reports_store_state_and_activity(keeper: Keeper) -> None:
    keeper.add("Old news.", kind="other", created_at="2025-01-01")
    keeper.add("We decided on Drizzle.", kind="decision")
    deleted = keeper.add("We use tabs.").memory_id
    keeper.delete(deleted)
    keeper.services.access.store.apply([Add(Fact(text="later"))], {}, by="test", why="")
    overview = keeper.dashboard.overview(days=3)
    assert (overview.live, overview.archived, list(overview.days)) == (3, 1, ["2025-12-30", "2025-12-31", "2026-01-01"])
    assert list(overview.arrived) == [
        DailyCount("", "detail", 1),
        DailyCount("2026-01-01", "decision", 1),
        DailyCount("2026-01-01", "detail", 1),
    ]
    assert overview.done_today == {"add": 4, "delete": 1}
    assert overview.injected == []
    assert overview.store
    assert (overview.store.name, overview.store.vectors, overview.store.waiting) == ("sqlite", 3, 1)
    assert overview.store.bytes > 0
    assert overview.store.embedder == "hash:words:256"
    assert sum(count.count for count in overview.arrived) == overview.live


def test_overview_is_limited_to_a_year(keeper: Keeper) -> None:
    assert len(keeper.dashboard.overview(days=366).days) == 366
    assert list(keeper.dashboard.overview(days=1).days) == ["2026-01-01"]
    for days in (0, 367, -1):
        with pytest.raises(InvalidInput):
            keeper.dashboard.overview(days=days)


def test_overview_omits_days_without_activity(keeper: Keeper) -> None:
    overview = keeper.dashboard.overview()
    assert (overview.live, overview.archived, list(overview.arrived), overview.done_today) == (0, 0, [], {})
    keeper.recall(by="codex")
    assert keeper.dashboard.overview().injected == [InjectionCount("2026-01-01", 0, 0, 1, 0, 0)]


def test_overview_of_a_viewer_covers_visible_memories_only(keeper: Keeper) -> None:
    viewer_keeper = keeper.as_viewer(ADA)
    viewer_keeper.add("We decided on Drizzle.", kind="decision")
    viewer_keeper.delete(viewer_keeper.add("We use tabs.").memory_id)
    keeper.add("Bob looks for another job.", user="bob")
    keeper.recall(by="codex")
    overview = viewer_keeper.dashboard.overview(days=2)
    assert (overview.live, overview.archived) == (1, 1)
    assert [count.count for count in overview.arrived] == [1]
    assert (overview.done_today, overview.injected, overview.store) == (None, None, None)
    with pytest.raises(Forbidden):
        viewer_keeper.dashboard.agents()


# ── Agents and changes ────────────────────────────────────────────────────────────────────────────────────────────────


def test_agents_are_listed_immediately(keeper: Keeper) -> None:
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


def test_pulse_reports_recalls_and_captures(keeper: Keeper) -> None:
    first_pulse = keeper.dashboard.pulse()
    assert keeper.dashboard.pulse().moved(first_pulse) == []
    keeper.recall("who paints the bicycle shed?")
    second_pulse = keeper.dashboard.pulse()
    assert second_pulse.moved(first_pulse) == ["recalls"]
    keeper.capture("I prefer tabs over spaces.", wait=True)
    assert keeper.dashboard.pulse().moved(second_pulse) == ["memories", "inbox"]


def test_news_for_a_viewer_name_only_changes_that_the_viewer_may_see(keeper: Keeper) -> None:
    ada, bob = (keeper.as_viewer(Viewer(user=name, team="shop")) for name in ("ada", "bob"))
    news, state = ada.dashboard.news(), keeper.dashboard.pulse()

    def list_kinds() -> list[str]:
        nonlocal state
        before, state = state, keeper.dashboard.pulse()
        assert state != before  # something has changed in the store
        return news(before, state)

    bob.add("My bank is in Zurich")
    assert list_kinds() == []
    bob.recall("which bank is mine?", by="codex")
    assert list_kinds() == []
    item = bob.capture("I prefer tabs over spaces.").id
    assert list_kinds() == []
    bob.add("The team meets on Mondays", visibility="team")
    assert list_kinds() == ["memories"]
    mine = ada.capture("I prefer dark mode.").id
    assert list_kinds() == ["inbox"]
    for item_id in (item, mine):
        keeper.services.captures.process(keeper.services.access.store.inbox.item(item_id))
        assert ("inbox" in list_kinds()) == (item_id == mine)
