"""What every Store must show to people: counts by day, who is at work, what moves, and dots. Give a `store` fixture."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cofio.models.dashboard import Agent, DailyCount, Injection, InjectionCount
from cofio.models.memory import Add, Delete, Edit, Fact, Memory, Noop, Purge, Retrieval, Scope, Viewer
from cofio.ports import Store
from tests.stores.contract import add, apply, undo, vector
from tests.stores.inbox_contract import ending, receive

OLD, FIRST, SECOND = "2025-11-30T23:59:59Z", "2025-12-01T00:00:00Z", "2025-12-02T10:00:00Z"
EVER = "2000-01-01"


def said(store: Store, text: str, at: str, **about: Any) -> Memory:
    return add(store, text, created_at=at, **about)


def noted(
    at: str, *, memories: int = 2, tokens: int = 50, caller: str = "claude-code", start: bool = False
) -> Injection:
    return Injection(f"{at}.000000+00:00", caller, "start" if start else "prompt", memories, tokens)


class PicturesContract:
    """The suite."""

    # ── memories by day ───────────────────────────────────────────────────────────────────────────────────────────────

    def test_memories_are_counted_by_the_day_they_were_said_and_the_older_ones_together(self, store: Store) -> None:
        said(store, "red", OLD, kind="decision")
        said(store, "green", OLD, kind="decision")
        said(store, "blue", FIRST, kind="decision")
        said(store, "cyan", SECOND, kind="decision")
        said(store, "pink", SECOND, kind="other")
        assert store.dashboard.arrived("2025-12-01", Scope()) == [
            DailyCount("", "decision", 2),
            DailyCount("2025-12-01", "decision", 1),
            DailyCount("2025-12-02", "decision", 1),
            DailyCount("2025-12-02", "detail", 1),
        ]
        assert store.dashboard.arrived("2025-12-02T18:00:00Z", Scope())[-1] == DailyCount("2025-12-02", "detail", 1)
        assert [each.day for each in store.dashboard.arrived("2026-01-01", Scope())] == ["", ""]

    def test_of_an_empty_store_nothing_is_told(self, store: Store) -> None:
        pictures = store.dashboard
        assert (pictures.arrived(EVER, Scope()), pictures.done(EVER), pictures.injected(EVER)) == ([], {}, [])
        assert (pictures.agents(9), pictures.forget_injected("2030-01-01")) == ([], 0)
        dots = pictures.dots(Scope(), 10, 10)
        assert (list(dots.ids), len(dots.vectors), dots.total) == ([], 0, 0)

    def test_what_is_archived_did_not_arrive_and_what_is_restored_did(self, store: Store) -> None:
        gone = said(store, "red", FIRST)
        apply(store, Delete(gone.id))
        assert store.dashboard.arrived(EVER, Scope()) == []
        assert store.dashboard.arrived(EVER, Scope(include_archived=True)) == []
        undo(store, store.changesets(1)[0].id)
        assert [each.count for each in store.dashboard.arrived(EVER, Scope())] == [1]

    def test_arrivals_and_dots_are_those_of_the_scope(self, store: Store) -> None:
        here = said(store, "red", FIRST, project="/srv/web", tags=("x",))
        said(store, "green", FIRST, project="/srv/api")
        for scope in (Scope(project="/srv/web"), Scope(tags=("x",)), Scope(project="/srv/web", since=OLD)):
            assert [each.count for each in store.dashboard.arrived(EVER, scope)] == [1]
            assert list(store.dashboard.dots(scope, 9, 9).ids) == [here.id]

    def test_a_viewer_is_shown_what_they_may_see(self, store: Store) -> None:
        mine = said(store, "red", FIRST, user="ada")
        said(store, "green", FIRST, user="bob")
        ours = said(store, "blue", SECOND, user="bob", team="web", visibility="team")
        said(store, "cyan", SECOND, user="bob", team="api", visibility="team")
        everybody = said(store, "pink", OLD, user="bob", visibility="global")
        scope = Scope(viewer=Viewer(user="ada", team="web"))
        assert list(store.dashboard.dots(scope, 9, 9).ids) == [everybody.id, ours.id, mine.id]
        assert [tuple(each)[::2] for each in store.dashboard.arrived("2025-12-01", scope)] == [
            ("", 1),
            ("2025-12-01", 1),
            ("2025-12-02", 1),
        ]
        few = store.dashboard.dots(scope, 2, 9)
        assert (list(few.ids), few.total) == ([everybody.id, ours.id], 3)

    # ── what was done ─────────────────────────────────────────────────────────────────────────────────────────────────

    def test_changes_are_counted_by_action_without_repeats_that_changed_nothing(self, store: Store) -> None:
        one, two = add(store, "red"), add(store, "green")
        apply(store, Noop(one.id), Edit(one.id, {"pinned": True}))
        apply(store, Delete(two.id))
        assert store.dashboard.done(EVER) == {"add": 2, "delete": 1, "edit": 1}
        assert store.dashboard.done("2030-01-01") == {}

    def test_changes_count_from_the_moment_on(self, store: Store) -> None:
        add(store, "red")
        since = apply(store, Add(Fact(text="green"))).at
        add(store, "blue")
        assert store.dashboard.done(since) == {"add": 2}

    # ── what was put before agents ────────────────────────────────────────────────────────────────────────────────────

    def test_what_was_put_before_agents_is_summed_by_day(self, store: Store) -> None:
        store.dashboard.inject([noted("2026-01-01T23:59:59"), noted("2026-01-02T00:00:00", memories=0, tokens=0)])
        store.dashboard.inject([noted("2026-01-02T08:00:00", memories=8, tokens=300, start=True)])
        store.dashboard.inject([noted("2026-01-02T09:00:00", memories=0, tokens=12)])  # what is known exactly alone
        assert store.dashboard.injected(EVER) == [
            InjectionCount("2026-01-01", 1, 1, 0, 2, 50),
            InjectionCount("2026-01-02", 2, 1, 1, 8, 312),
        ]
        assert [each.day for each in store.dashboard.injected("2026-01-02T12:00:00Z")] == ["2026-01-02"]

    def test_nothing_is_noted_and_the_old_is_forgotten(self, store: Store) -> None:
        store.dashboard.inject([])
        store.dashboard.inject(
            [noted("2026-01-01T10:00:00"), noted("2026-01-02T10:00:00"), noted("2026-01-03T10:00:00")]
        )
        assert store.dashboard.forget_injected("2026-01-02T10:00:00Z") == 1
        assert [each.day for each in store.dashboard.injected(EVER)] == ["2026-01-02", "2026-01-03"]

    # ── who is at work ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_agents_are_those_who_keep_and_those_who_ask_the_latest_first(self, store: Store) -> None:
        one = said(store, "red", FIRST, source="claude-code/web")
        said(store, "green", SECOND, source="claude-code/api")
        said(store, "blue", OLD, source="claude-code")
        said(store, "pink", FIRST, source="notes/vault")
        said(store, "grey", FIRST, source="")
        asked = ("2026-01-03T00:00:00.000000+00:00", "2026-01-04T00:00:00.000000+00:00")
        store.note([Retrieval(one.id, "q", caller, at) for caller in ("claude-code", "cursor") for at in asked[:1]])
        store.note([Retrieval(one.id, "q", "cursor", asked[1]), Retrieval(one.id, "q", "", asked[1])])
        store.dashboard.inject([noted("2026-01-05T00:00:00", memories=0, tokens=0, caller="codex")])
        assert store.dashboard.agents(9) == [
            Agent("codex", 0, None, 0, "2026-01-05T00:00:00.000000+00:00"),
            Agent("cursor", 0, None, 2, asked[1]),
            Agent("claude-code", 3, "2025-12-02T10:00:00.000000+00:00", 1, asked[0]),
            Agent("notes", 1, "2025-12-01T00:00:00.000000+00:00", 0, None),
        ]
        assert [agent.name for agent in store.dashboard.agents(2)] == ["codex", "cursor"]

    def test_one_who_asks_with_several_keys_is_one_agent(self, store: Store) -> None:
        one = said(store, "red", FIRST, source="cursor/web")
        asked = [f"2026-01-0{day}T00:00:00.000000+00:00" for day in (3, 4, 5)]
        callers = ("ada's laptop (key 3) · cursor", "cursor", "bob (key 4) · cursor")
        store.note([Retrieval(one.id, "q", *each) for each in zip(callers, asked, strict=True)])
        assert store.dashboard.agents(9) == [Agent("cursor", 1, one.created_at, 3, asked[2])]

    def test_who_kept_only_what_is_archived_is_not_at_work(self, store: Store) -> None:
        gone = said(store, "red", FIRST, source="claude-code/web")
        apply(store, Delete(gone.id))
        assert store.dashboard.agents(9) == []

    # ── what moves ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_the_pulse_stands_still_until_something_moves(self, store: Store) -> None:
        before = store.dashboard.pulse()
        assert store.dashboard.pulse() == before
        memory = add(store, "red")
        added = store.dashboard.pulse()
        assert added.moved(before) == ["memories"]
        store.note([Retrieval(memory.id, "q", "ada", "2026-01-03T00:00:00.000000+00:00")])
        noticed = store.dashboard.pulse()
        assert noticed.moved(added) == ["recalls"]
        store.dashboard.inject([noted("2026-01-03T00:00:00", memories=0, tokens=0)])
        asked = store.dashboard.pulse()
        assert asked.moved(noticed) == ["recalls"]
        receive(store, "hello")
        assert store.dashboard.pulse().moved(asked) == ["inbox"]

    def test_the_pulse_moves_with_every_step_of_a_capture(self, store: Store) -> None:
        (item,) = receive(store, "hello")
        steps = [store.dashboard.pulse()]
        store.inbox.park(item, "broken")
        steps.append(store.dashboard.pulse())
        store.inbox.retry(item)
        steps.append(store.dashboard.pulse())
        store.inbox.settle(ending(item, "rejected", reason="nothing to learn"))
        steps.append(store.dashboard.pulse())
        assert [now.moved(then) for then, now in pairwise(steps)] == [["inbox"]] * 3

    # ── dots ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_dots_are_the_newest_first_each_with_its_vector_and_how_its_text_begins(self, store: Store) -> None:
        texts = ["red green", "Ümläut \u202e\U0001f600 tail", "blue"]
        memories = [said(store, text, FIRST, kind="decision", project=f"/srv/{text[:3]}") for text in texts]
        dots = store.dashboard.dots(Scope(), 10, 9)
        assert list(dots.ids) == [memory.id for memory in reversed(memories)]
        assert list(dots.texts) == [text[:9] for text in reversed(texts)]
        assert list(dots.categories) == ["decision"] * 3
        assert list(dots.projects) == [memory.project for memory in reversed(memories)]
        assert list(dots.created) == [memory.created_at for memory in reversed(memories)]
        assert dots.total == 3
        assert dots.vectors.dtype == np.float32
        np.testing.assert_array_equal(dots.vectors, np.array([vector(text) for text in reversed(texts)], np.float32))

    def test_of_too_many_dots_the_newest_are_shown_and_all_are_counted(self, store: Store) -> None:
        memories = [add(store, f"fact {number}") for number in range(7)]
        dots = store.dashboard.dots(Scope(), 3, 9)
        assert (list(dots.ids), dots.vectors.shape[0], dots.total) == ([memory.id for memory in memories[:-4:-1]], 3, 7)
        assert store.dashboard.dots(Scope(), 7, 9).total == 7
        narrow = store.dashboard.dots(Scope(until="2030-01-01"), 3, 9)
        assert (len(narrow.ids), narrow.total) == (3, 7)

    def test_what_has_no_vector_is_no_dot_and_takes_no_place(self, store: Store) -> None:
        first, second = add(store, "red"), add(store, "green")
        waiting = store.apply([Add(Fact(text=f"later {n}")) for n in range(4)], {}, by="test", why="").changes
        assert list(store.dashboard.dots(Scope(), 2, 9).ids) == [second.id, first.id]
        dots = store.dashboard.dots(Scope(), 5, 9)
        assert (list(dots.ids), dots.total) == ([second.id, first.id], 2)
        store.put_vectors({waiting[2].memory_id: vector("later 2")})
        dots = store.dashboard.dots(Scope(), 2, 9)
        assert (list(dots.ids), list(dots.texts), dots.total) == (
            [waiting[2].memory_id, second.id],
            ["later 2", "green"],
            3,
        )
        np.testing.assert_array_equal(dots.vectors, np.array([vector("later 2"), vector("green")], np.float32))

    def test_where_nothing_has_a_vector_there_are_no_dots(self, store: Store) -> None:
        store.apply([Add(Fact(text="later"))], {}, by="test", why="")
        dots = store.dashboard.dots(Scope(), 2, 9)
        assert (list(dots.ids), len(dots.vectors), dots.total) == ([], 0, 0)

    def test_dots_follow_what_changes(self, store: Store) -> None:
        one, two = add(store, "red"), add(store, "green")
        apply(store, Delete(two.id))
        assert list(store.dashboard.dots(Scope(include_archived=True), 9, 9).ids) == [one.id]
        text = "one two three"
        store.apply([Edit(one.id, {"text": text})], {0: vector(text)}, by="test", why="")
        dots = store.dashboard.dots(Scope(), 9, 9)
        assert (list(dots.texts), dots.total) == (["one two t"], 1)
        np.testing.assert_array_equal(dots.vectors[0], np.asarray(vector(text), np.float32))

    @pytest.mark.parametrize("archived", [False, True])
    def test_a_purged_memory_leaves_nothing_to_be_shown(self, store: Store, archived: bool) -> None:
        kept, gone = said(store, "red", FIRST, source="notes"), said(store, "secret", SECOND, source="cursor/web")
        store.note([Retrieval(gone.id, "q", "spy", "2026-01-03T00:00:00.000000+00:00")])
        if archived:
            apply(store, Delete(gone.id))
        apply(store, Purge(gone.id))
        assert list(store.dashboard.dots(Scope(), 9, 99).texts) == ["red"]
        assert [each.day for each in store.dashboard.arrived(EVER, Scope())] == ["2025-12-01"]
        assert [agent.name for agent in store.dashboard.agents(9)] == [kept.source]
