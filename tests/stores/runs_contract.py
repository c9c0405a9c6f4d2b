"""What every Store must know of the runs of chores. Give `store` and `clock` fixtures; the clock is the store's."""

from __future__ import annotations

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.ports import Store
from cofio.testing import FixedClock

MONDAY = "2026-01-05T03:00:00.000000+00:00"
TUESDAY = "2026-01-06T03:00:00.000000+00:00"
NOW = "2026-01-07T12:00:00Z"
A_WHILE = 11 * 60


class RunsContract:
    """The suite."""

    def test_a_run_is_claimed_done_and_told_of(self, store: Store) -> None:
        run = store.runs.claim("prune", MONDAY, "schedule")
        assert run is not None
        assert (run.chore, run.slot, run.by, run.outcome, run.finished_at) == (
            "prune", MONDAY, "schedule", "running", None,
        )  # fmt: skip
        assert store.runs.newest(5) == [run]
        done = store.runs.finish(run.id, "done", {"decisions": 2, "reasons": ["déjà vu"]})
        assert (done.outcome, done.details) == ("done", {"decisions": 2, "reasons": ["déjà vu"]})
        assert (done.id, done.started_at) == (run.id, run.started_at)
        assert run.started_at < (done.finished_at or "")
        assert store.runs.newest(5) == [done]
        assert store.runs.last("prune") == done

    def test_a_slot_is_had_once_whatever_came_of_it(self, store: Store) -> None:
        for outcome, slot in (("done", MONDAY), ("failed", TUESDAY)):
            run = store.runs.claim("prune", slot, "schedule")
            assert run is not None
            assert store.runs.claim("prune", slot, "schedule") is None
            store.runs.finish(run.id, outcome, {})
            assert store.runs.claim("prune", slot, "schedule") is None
            assert store.runs.claim("prune", slot.replace("+00:00", "Z"), "schedule") is None
        assert len(store.runs.newest(9)) == 2

    def test_a_slot_is_not_had_after_a_later_one(self, store: Store) -> None:
        late = store.runs.claim("prune", TUESDAY, "schedule")
        assert late is not None
        store.runs.finish(late.id, "done", {})
        assert store.runs.claim("prune", MONDAY, "schedule") is None

    def test_a_chore_runs_once_at_a_time_and_does_not_hinder_another(self, store: Store) -> None:
        asked = store.runs.claim("prune", "", "ann")
        assert asked is not None
        assert store.runs.claim("prune", MONDAY, "schedule") is None
        assert store.runs.claim("prune", "", "bob") is None
        assert store.runs.claim("consolidate", MONDAY, "schedule") is not None
        store.runs.finish(asked.id, "done", {})
        assert store.runs.claim("prune", MONDAY, "schedule") is not None

    def test_what_somebody_asked_for_takes_no_slot(self, store: Store) -> None:
        for _ in range(2):
            asked = store.runs.claim("prune", "", "ann")
            assert asked is not None
            store.runs.finish(asked.id, "done", {})
        assert store.runs.last("prune") is None
        assert [run.slot for run in store.runs.newest(9)] == ["", ""]

    def test_the_last_run_is_that_of_the_newest_slot(self, store: Store) -> None:
        assert store.runs.last("prune") is None
        for slot in (MONDAY, TUESDAY, ""):
            run = store.runs.claim("prune", slot, "schedule")
            assert run is not None
            store.runs.finish(run.id, "began" if slot == MONDAY else "done", {})
        last = store.runs.last("prune")
        assert last is not None
        assert (last.slot, last.outcome) == (TUESDAY, "done")
        assert store.runs.last("consolidate") is None

    def test_the_newest_runs_come_first_and_may_be_of_one_chore(self, store: Store) -> None:
        for chore in ("prune", "consolidate", "prune"):
            run = store.runs.claim(chore, "", "ann")
            assert run is not None
            store.runs.finish(run.id, "done", {})
        assert [run.chore for run in store.runs.newest(2)] == ["prune", "consolidate"]
        assert [run.id for run in store.runs.newest(9, "prune")] == [3, 1]
        assert store.runs.newest(9, "backup") == []

    def test_a_run_that_says_it_is_alive_is_left_alone(self, store: Store, clock: FixedClock) -> None:
        run = store.runs.claim("prune", MONDAY, "schedule")
        assert run is not None
        for _ in range(4):
            clock.advance(8 * 60)
            assert store.runs.alive(run.id)
            assert store.runs.claim("prune", TUESDAY, "schedule") is None
        assert store.runs.finish(run.id, "done", {}).outcome == "done"
        assert not store.runs.alive(run.id)
        assert not store.runs.alive(99)

    def test_a_slot_whose_run_died_is_had_again_and_the_history_tells_both(
        self, store: Store, clock: FixedClock
    ) -> None:
        first = store.runs.claim("prune", MONDAY, "one")
        assert first is not None
        clock.advance(A_WHILE)
        second = store.runs.claim("prune", MONDAY, "two")
        assert second is not None
        assert second.id != first.id
        died = store.runs.newest(9)[1]
        assert (died.id, died.slot, died.by, died.outcome) == (first.id, MONDAY, "one", "died")
        assert died.finished_at is not None
        assert not store.runs.alive(first.id)
        with pytest.raises(Conflict, match="given up for dead"):
            store.runs.finish(first.id, "done", {})
        store.runs.finish(second.id, "done", {})
        assert [run.outcome for run in store.runs.newest(9)] == ["done", "died"]
        assert store.runs.claim("prune", MONDAY, "three") is None

    def test_what_died_leaves_its_slot_so_that_it_is_due_again(self, store: Store, clock: FixedClock) -> None:
        earlier = store.runs.claim("prune", MONDAY, "schedule")
        assert earlier is not None
        store.runs.finish(earlier.id, "done", {})
        assert store.runs.claim("prune", TUESDAY, "schedule") is not None
        assert [run.slot for run in (store.runs.last("prune"),) if run] == [TUESDAY]
        clock.advance(A_WHILE)
        for _ in range(2):  # before anybody has come to bury it, and after
            assert [run.slot for run in (store.runs.last("prune"),) if run] == [MONDAY]
            assert [run.outcome for run in store.runs.newest(2)][-2:] in (["died", "done"], ["done", "died"])
            asked = store.runs.claim("prune", "", "ann")
            assert asked is not None
            store.runs.finish(asked.id, "done", {})
        assert [run.outcome for run in store.runs.newest(9, "prune")] == ["done", "done", "died", "done"]
        assert all(run.finished_at for run in store.runs.newest(9))

    def test_a_slot_that_kills_is_given_up_in_the_end_and_the_next_one_is_tried(
        self, store: Store, clock: FixedClock
    ) -> None:
        claims = []
        for _ in range(5):
            claims.append(store.runs.claim("prune", MONDAY, "schedule"))
            clock.advance(A_WHILE)
        assert [claim is not None for claim in claims] == [True, True, True, False, False]
        assert store.runs.claim("prune", TUESDAY, "schedule") is not None

    def test_a_run_ends_once(self, store: Store) -> None:
        run = store.runs.claim("prune", MONDAY, "schedule")
        assert run is not None
        for bad in ("running", "died", "well"):
            with pytest.raises(InvalidInput):
                store.runs.finish(run.id, bad, {})
        store.runs.finish(run.id, "done", {})
        with pytest.raises(Conflict, match="ended already"):
            store.runs.finish(run.id, "failed", {})
        for unknown in (99, 1 << 70):
            with pytest.raises(NotFound):
                store.runs.finish(unknown, "done", {})

    def test_a_slot_of_a_clock_that_ran_ahead_stops_nothing(self, store: Store) -> None:
        ahead = store.runs.claim("prune", "2035-01-01T00:00:00Z", "schedule")
        assert ahead is not None
        store.runs.finish(ahead.id, "done", {})
        assert store.runs.last("prune") is None
        assert store.runs.claim("prune", "2035-01-01T00:00:00Z", "schedule") is None
        assert store.runs.claim("prune", MONDAY, "schedule") is not None
