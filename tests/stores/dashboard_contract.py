"""Contract suite of the dashboard queries: counts by day, agents, change counters and map dots."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cofio.models.dashboard import Agent, DailyCount, Injection, InjectionCount
from cofio.models.memory import Add, Delete, Edit, Fact, Memory, Noop, Purge, Retrieval, Scope, Viewer
from cofio.ports import Store
from tests.stores.contract import add, apply, undo, vector
from tests.stores.inbox_contract import receive, resolution

OLD, FIRST, SECOND = "2025-11-30T23:59:59Z", "2025-12-01T00:00:00Z", "2025-12-02T10:00:00Z"
EARLIEST = "2000-01-01"


def add_dated(store: Store, text: str, at: str, **about: Any) -> Memory:
    return add(store, text, created_at=at, **about)


def injection(
    at: str, *, memories: int = 2, tokens: int = 50, caller: str = "claude-code", start: bool = False
) -> Injection:
    return Injection(f"{at}.000000+00:00", caller, "start" if start else "prompt", memories, tokens)


class DashboardContract:
    """Tests of the dashboard queries. Subclasses define a `store` fixture."""

    # ── memories by day ───────────────────────────────────────────────────────────────────────────────────────────────

    def test_memories_are_counted_by_day_and_older_ones_together(self, store: Store) -> None:
        add_dated(store, "red", OLD, kind="decision")
        add_dated(store, "green", OLD, kind="decision")
        add_dated(store, "blue", FIRST, kind="decision")
        add_dated(store, "cyan", SECOND, kind="decision")
        add_dated(store, "pink", SECOND, kind="other")
        assert store.dashboard.arrived("2025-12-01", Scope()) == [
            DailyCount("", "decision", 2),
            DailyCount("2025-12-01", "decision", 1),
            DailyCount("2025-12-02", "decision", 1),
            DailyCount("2025-12-02", "detail", 1),
        ]
        assert store.dashboard.arrived("2025-12-02T18:00:00Z", Scope())[-1] == DailyCount("2025-12-02", "detail", 1)
        assert [item.day for item in store.dashboard.arrived("2026-01-01", Scope())] == ["", ""]

    def test_empty_store_returns_empty_results(self, store: Store) -> None:
        pictures = store.dashboard
        assert (pictures.arrived(EARLIEST, Scope()), pictures.done(EARLIEST), pictures.injected(EARLIEST)) == (
            [],
            {},
            [],
        )
        assert (pictures.agents(9), pictures.forget_injected("2030-01-01")) == ([], 0)
        dots = pictures.dots(Scope(), 10, 10)
        assert (list(dots.ids), len(dots.vectors), dots.total) == ([], 0, 0)

    def test_archived_memories_do_not_count_and_restored_ones_do(self, store: Store) -> None:
        deleted = add_dated(store, "red", FIRST)
        apply(store, Delete(deleted.id))
        assert store.dashboard.arrived(EARLIEST, Scope()) == []
        assert store.dashboard.arrived(EARLIEST, Scope(include_archived=True)) == []
        undo(store, store.changesets(1)[0].id)
        assert [item.count for item in store.dashboard.arrived(EARLIEST, Scope())] == [1]

    def test_arrivals_and_dots_respect_the_scope(self, store: Store) -> None:
        here = add_dated(store, "red", FIRST, project="/srv/web", tags=("x",))
        add_dated(store, "green", FIRST, project="/srv/api")
        for scope in (Scope(project="/srv/web"), Scope(tags=("x",)), Scope(project="/srv/web", since=OLD)):
            assert [item.count for item in store.dashboard.arrived(EARLIEST, scope)] == [1]
            assert list(store.dashboard.dots(scope, 9, 9).ids) == [here.id]

    def test_viewer_gets_only_visible_memories(self, store: Store) -> None:
        own = add_dated(store, "red", FIRST, user="ada")
        add_dated(store, "green", FIRST, user="bob")
        team_memory = add_dated(store, "blue", SECOND, user="bob", team="web", visibility="team")
        add_dated(store, "cyan", SECOND, user="bob", team="api", visibility="team")
        global_memory = add_dated(store, "pink", OLD, user="bob", visibility="global")
        scope = Scope(viewer=Viewer(user="ada", team="web"))
        assert list(store.dashboard.dots(scope, 9, 9).ids) == [global_memory.id, team_memory.id, own.id]
        assert [tuple(item)[::2] for item in store.dashboard.arrived("2025-12-01", scope)] == [
            ("", 1),
            ("2025-12-01", 1),
            ("2025-12-02", 1),
        ]
        few = store.dashboard.dots(scope, 2, 9)
        assert (list(few.ids), few.total) == ([global_memory.id, team_memory.id], 3)

    # ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_changes_are_counted_by_action_without_noops(self, store: Store) -> None:
        first, second = add(store, "red"), add(store, "green")
        apply(store, Noop(first.id), Edit(first.id, {"pinned": True}))
        apply(store, Delete(second.id))
        assert store.dashboard.done(EARLIEST) == {"add": 2, "delete": 1, "edit": 1}
        assert store.dashboard.done("2030-01-01") == {}

    def test_changes_are_counted_from_the_given_time(self, store: Store) -> None:
        add(store, "red")
        since = apply(store, Add(Fact(text="green"))).at
        add(store, "blue")
        assert store.dashboard.done(since) == {"add": 2}

    # ── injections ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_injections_are_summed_by_day(self, store: Store) -> None:
        store.dashboard.inject(
            [injection("2026-01-01T23:59:59"), injection("2026-01-02T00:00:00", memories=0, tokens=0)]
        )
        store.dashboard.inject([injection("2026-01-02T08:00:00", memories=8, tokens=300, start=True)])
        store.dashboard.inject([injection("2026-01-02T09:00:00", memories=0, tokens=12)])  # only exact knowledge
        assert store.dashboard.injected(EARLIEST) == [
            InjectionCount("2026-01-01", 1, 1, 0, 2, 50),
            InjectionCount("2026-01-02", 2, 1, 1, 8, 312),
        ]
        assert [item.day for item in store.dashboard.injected("2026-01-02T12:00:00Z")] == ["2026-01-02"]

    def test_empty_injection_list_is_ignored_and_old_injections_are_forgotten(self, store: Store) -> None:
        store.dashboard.inject([])
        store.dashboard.inject(
            [injection("2026-01-01T10:00:00"), injection("2026-01-02T10:00:00"), injection("2026-01-03T10:00:00")]
        )
        assert store.dashboard.forget_injected("2026-01-02T10:00:00Z") == 1
        assert [item.day for item in store.dashboard.injected(EARLIEST)] == ["2026-01-02", "2026-01-03"]

    # ── agents ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_agents_are_listed_by_latest_activity(self, store: Store) -> None:
        memory = add_dated(store, "red", FIRST, source="claude-code/web")
        add_dated(store, "green", SECOND, source="claude-code/api")
        add_dated(store, "blue", OLD, source="claude-code")
        add_dated(store, "pink", FIRST, source="notes/vault")
        add_dated(store, "grey", FIRST, source="")
        request = ("2026-01-03T00:00:00.000000+00:00", "2026-01-04T00:00:00.000000+00:00")
        store.note(
            [Retrieval(memory.id, "q", caller, at) for caller in ("claude-code", "cursor") for at in request[:1]]
        )
        store.note([Retrieval(memory.id, "q", "cursor", request[1]), Retrieval(memory.id, "q", "", request[1])])
        store.dashboard.inject([injection("2026-01-05T00:00:00", memories=0, tokens=0, caller="codex")])
        assert store.dashboard.agents(9) == [
            Agent("codex", 0, None, 0, "2026-01-05T00:00:00.000000+00:00"),
            Agent("cursor", 0, None, 2, request[1]),
            Agent("claude-code", 3, "2025-12-02T10:00:00.000000+00:00", 1, request[0]),
            Agent("notes", 1, "2025-12-01T00:00:00.000000+00:00", 0, None),
        ]
        assert [agent.name for agent in store.dashboard.agents(2)] == ["codex", "cursor"]

    def test_agent_with_several_keys_is_listed_once(self, store: Store) -> None:
        memory = add_dated(store, "red", FIRST, source="cursor/web")
        times = [f"2026-01-0{day}T00:00:00.000000+00:00" for day in (3, 4, 5)]
        callers = ("ada's laptop (key 3) · cursor", "cursor", "bob (key 4) · cursor")
        store.note([Retrieval(memory.id, "q", *item) for item in zip(callers, times, strict=True)])
        assert store.dashboard.agents(9) == [Agent("cursor", 1, memory.created_at, 3, times[2])]

    def test_agent_with_only_archived_memories_is_not_listed(self, store: Store) -> None:
        deleted = add_dated(store, "red", FIRST, source="claude-code/web")
        apply(store, Delete(deleted.id))
        assert store.dashboard.agents(9) == []

    # ── change counters ───────────────────────────────────────────────────────────────────────────────────────────────

    def test_pulse_changes_only_when_something_changed(self, store: Store) -> None:
        before = store.dashboard.pulse()
        assert store.dashboard.pulse() == before
        memory = add(store, "red")
        added = store.dashboard.pulse()
        assert added.moved(before) == ["memories"]
        store.note([Retrieval(memory.id, "q", "ada", "2026-01-03T00:00:00.000000+00:00")])
        noticed = store.dashboard.pulse()
        assert noticed.moved(added) == ["recalls"]
        store.dashboard.inject([injection("2026-01-03T00:00:00", memories=0, tokens=0)])
        request = store.dashboard.pulse()
        assert request.moved(noticed) == ["recalls"]
        receive(store, "hello")
        assert store.dashboard.pulse().moved(request) == ["inbox"]

    def test_pulse_changes_with_every_step_of_a_capture(self, store: Store) -> None:
        (item,) = receive(store, "hello")
        steps = [store.dashboard.pulse()]
        store.inbox.park(item, "broken")
        steps.append(store.dashboard.pulse())
        store.inbox.retry(item)
        steps.append(store.dashboard.pulse())
        store.inbox.settle(resolution(item, "rejected", reason="nothing to learn"))
        steps.append(store.dashboard.pulse())
        assert [now.moved(then) for then, now in pairwise(steps)] == [["inbox"]] * 3

    # ── dots ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_dots_are_newest_first_with_vector_and_text_prefix(self, store: Store) -> None:
        texts = ["red green", "Ümläut \u202e\U0001f600 tail", "blue"]
        memories = [add_dated(store, text, FIRST, kind="decision", project=f"/srv/{text[:3]}") for text in texts]
        dots = store.dashboard.dots(Scope(), 10, 9)
        assert list(dots.ids) == [memory.id for memory in reversed(memories)]
        assert list(dots.texts) == [text[:9] for text in reversed(texts)]
        assert list(dots.categories) == ["decision"] * 3
        assert list(dots.projects) == [memory.project for memory in reversed(memories)]
        assert list(dots.created) == [memory.created_at for memory in reversed(memories)]
        assert dots.total == 3
        assert dots.vectors.dtype == np.float32
        np.testing.assert_array_equal(dots.vectors, np.array([vector(text) for text in reversed(texts)], np.float32))

    def test_limited_dots_are_the_newest_with_total_count(self, store: Store) -> None:
        memories = [add(store, f"fact {number}") for number in range(7)]
        dots = store.dashboard.dots(Scope(), 3, 9)
        assert (list(dots.ids), dots.vectors.shape[0], dots.total) == ([memory.id for memory in memories[:-4:-1]], 3, 7)
        assert store.dashboard.dots(Scope(), 7, 9).total == 7
        narrow = store.dashboard.dots(Scope(until="2030-01-01"), 3, 9)
        assert (len(narrow.ids), narrow.total) == (3, 7)

    def test_memories_without_vector_are_not_dots(self, store: Store) -> None:
        first, second = add(store, "red"), add(store, "green")
        pending = store.apply([Add(Fact(text=f"later {n}")) for n in range(4)], {}, by="test", why="").changes
        assert list(store.dashboard.dots(Scope(), 2, 9).ids) == [second.id, first.id]
        dots = store.dashboard.dots(Scope(), 5, 9)
        assert (list(dots.ids), dots.total) == ([second.id, first.id], 2)
        store.put_vectors({pending[2].memory_id: vector("later 2")})
        dots = store.dashboard.dots(Scope(), 2, 9)
        assert (list(dots.ids), list(dots.texts), dots.total) == (
            [pending[2].memory_id, second.id],
            ["later 2", "green"],
            3,
        )
        np.testing.assert_array_equal(dots.vectors, np.array([vector("later 2"), vector("green")], np.float32))

    def test_store_without_vectors_has_no_dots(self, store: Store) -> None:
        store.apply([Add(Fact(text="later"))], {}, by="test", why="")
        dots = store.dashboard.dots(Scope(), 2, 9)
        assert (list(dots.ids), len(dots.vectors), dots.total) == ([], 0, 0)

    def test_dots_follow_changes(self, store: Store) -> None:
        first, second = add(store, "red"), add(store, "green")
        apply(store, Delete(second.id))
        assert list(store.dashboard.dots(Scope(include_archived=True), 9, 9).ids) == [first.id]
        text = "one two three"
        store.apply([Edit(first.id, {"text": text})], {0: vector(text)}, by="test", why="")
        dots = store.dashboard.dots(Scope(), 9, 9)
        assert (list(dots.texts), dots.total) == (["one two t"], 1)
        np.testing.assert_array_equal(dots.vectors[0], np.asarray(vector(text), np.float32))

    @pytest.mark.parametrize("archived", [False, True])
    def test_purged_memory_is_removed_from_dashboard_data(self, store: Store, archived: bool) -> None:
        kept, gone = (
            add_dated(store, "red", FIRST, source="notes"),
            add_dated(store, "secret", SECOND, source="cursor/web"),
        )
        store.note([Retrieval(gone.id, "q", "spy", "2026-01-03T00:00:00.000000+00:00")])
        if archived:
            apply(store, Delete(gone.id))
        apply(store, Purge(gone.id))
        assert list(store.dashboard.dots(Scope(), 9, 99).texts) == ["red"]
        assert [item.day for item in store.dashboard.arrived(EARLIEST, Scope())] == ["2025-12-01"]
        assert [agent.name for agent in store.dashboard.agents(9)] == [kept.source]
