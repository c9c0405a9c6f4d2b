"""Contract suite of maintenance runs. Subclasses define `store` and `clock`, the store's clock."""

from __future__ import annotations

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.ports import Store
from cofio.testing import FixedClock

MONDAY = "2026-01-05T03:00:00.000000+00:00"
TUESDAY = "2026-01-06T03:00:00.000000+00:00"
NOW = "2026-01-07T12:00:00Z"
TIMEOUT_S = 11 * 60


class RunsContract:
    """Tests of claiming and finishing runs."""

    def test_run_is_claimed_finished_and_listed(self, store: Store) -> None:
        run = store.runs.claim("prune", MONDAY, "schedule")
        assert run is not None
        assert (run.chore, run.slot, run.by, run.outcome, run.finished_at) == (
            "prune", MONDAY, "schedule", "running", None,
        )  # fmt: skip
        assert store.runs.newest(5) == [run]
        result = store.runs.finish(run.id, "done", {"decisions": 2, "reasons": ["déjà vu"]})
        assert (result.outcome, result.details) == ("done", {"decisions": 2, "reasons": ["déjà vu"]})
        assert (result.id, result.started_at) == (run.id, run.started_at)
        assert run.started_at < (result.finished_at or "")
        assert store.runs.newest(5) == [result]
        assert store.runs.last("prune") == result

    def test_slot_is_claimed_once_whatever_the_outcome(self, store: Store) -> None:
        for outcome, slot in (("done", MONDAY), ("failed", TUESDAY)):
            run = store.runs.claim("prune", slot, "schedule")
            assert run is not None
            assert store.runs.claim("prune", slot, "schedule") is None
            store.runs.finish(run.id, outcome, {})
            assert store.runs.claim("prune", slot, "schedule") is None
            assert store.runs.claim("prune", slot.replace("+00:00", "Z"), "schedule") is None
        assert len(store.runs.newest(9)) == 2

    def test_slot_before_a_later_claimed_one_is_rejected(self, store: Store) -> None:
        late = store.runs.claim("prune", TUESDAY, "schedule")
        assert late is not None
        store.runs.finish(late.id, "done", {})
        assert store.runs.claim("prune", MONDAY, "schedule") is None

    def test_only_one_run_per_chore_at_a_time(self, store: Store) -> None:
        run = store.runs.claim("prune", "", "ann")
        assert run is not None
        assert store.runs.claim("prune", MONDAY, "schedule") is None
        assert store.runs.claim("prune", "", "bob") is None
        assert store.runs.claim("consolidate", MONDAY, "schedule") is not None
        store.runs.finish(run.id, "done", {})
        assert store.runs.claim("prune", MONDAY, "schedule") is not None

    def test_manual_run_takes_no_slot(self, store: Store) -> None:
        for _ in range(2):
            new_run = store.runs.claim("prune", "", "ann")
            assert new_run is not None
            store.runs.finish(new_run.id, "done", {})
        assert store.runs.last("prune") is None
        assert [run.slot for run in store.runs.newest(9)] == ["", ""]

    def test_last_returns_the_run_of_the_newest_slot(self, store: Store) -> None:
        assert store.runs.last("prune") is None
        for slot in (MONDAY, TUESDAY, ""):
            run = store.runs.claim("prune", slot, "schedule")
            assert run is not None
            store.runs.finish(run.id, "began" if slot == MONDAY else "done", {})
        last = store.runs.last("prune")
        assert last is not None
        assert (last.slot, last.outcome) == (TUESDAY, "done")
        assert store.runs.last("consolidate") is None

    def test_runs_are_listed_newest_first_and_filtered_by_chore(self, store: Store) -> None:
        for chore in ("prune", "consolidate", "prune"):
            run = store.runs.claim(chore, "", "ann")
            assert run is not None
            store.runs.finish(run.id, "done", {})
        assert [run.chore for run in store.runs.newest(2)] == ["prune", "consolidate"]
        assert [run.id for run in store.runs.newest(9, "prune")] == [3, 1]
        assert store.runs.newest(9, "backup") == []

    def test_run_with_heartbeat_is_not_replaced(self, store: Store, clock: FixedClock) -> None:
        run = store.runs.claim("prune", MONDAY, "schedule")
        assert run is not None
        for _ in range(4):
            clock.advance(8 * 60)
            assert store.runs.alive(run.id)
            assert store.runs.claim("prune", TUESDAY, "schedule") is None
        assert store.runs.finish(run.id, "done", {}).outcome == "done"
        assert not store.runs.alive(run.id)
        assert not store.runs.alive(99)

    def test_slot_of_a_dead_run_can_be_claimed_again(self, store: Store, clock: FixedClock) -> None:
        first = store.runs.claim("prune", MONDAY, "one")
        assert first is not None
        clock.advance(TIMEOUT_S)
        second = store.runs.claim("prune", MONDAY, "two")
        assert second is not None
        assert second.id != first.id
        died = store.runs.newest(9)[1]
        assert (died.id, died.slot, died.by, died.outcome) == (first.id, MONDAY, "one", "died")
        assert died.finished_at is not None
        assert not store.runs.alive(first.id)
        with pytest.raises(Conflict, match="recorded as died"):
            store.runs.finish(first.id, "done", {})
        store.runs.finish(second.id, "done", {})
        assert [run.outcome for run in store.runs.newest(9)] == ["done", "died"]
        assert store.runs.claim("prune", MONDAY, "three") is None

    def test_dead_run_makes_its_slot_due_again(self, store: Store, clock: FixedClock) -> None:
        earlier = store.runs.claim("prune", MONDAY, "schedule")
        assert earlier is not None
        store.runs.finish(earlier.id, "done", {})
        assert store.runs.claim("prune", TUESDAY, "schedule") is not None
        assert [run.slot for run in (store.runs.last("prune"),) if run] == [TUESDAY]
        clock.advance(TIMEOUT_S)
        for _ in range(2):  # before and after the dead run is closed
            assert [run.slot for run in (store.runs.last("prune"),) if run] == [MONDAY]
            assert [run.outcome for run in store.runs.newest(2)][-2:] in (["died", "done"], ["done", "died"])
            new_run = store.runs.claim("prune", "", "ann")
            assert new_run is not None
            store.runs.finish(new_run.id, "done", {})
        assert [run.outcome for run in store.runs.newest(9, "prune")] == ["done", "done", "died", "done"]
        assert all(run.finished_at for run in store.runs.newest(9))

    def test_slot_that_kills_its_runs_is_given_up_after_three_attempts(self, store: Store, clock: FixedClock) -> None:
        claims = []
        for _ in range(5):
            claims.append(store.runs.claim("prune", MONDAY, "schedule"))
            clock.advance(TIMEOUT_S)
        assert [claim is not None for claim in claims] == [True, True, True, False, False]
        assert store.runs.claim("prune", TUESDAY, "schedule") is not None

    def test_run_can_be_finished_only_once(self, store: Store) -> None:
        run = store.runs.claim("prune", MONDAY, "schedule")
        assert run is not None
        for outcome in ("running", "died", "well"):
            with pytest.raises(InvalidInput):
                store.runs.finish(run.id, outcome, {})
        store.runs.finish(run.id, "done", {})
        with pytest.raises(Conflict, match="ended already"):
            store.runs.finish(run.id, "failed", {})
        for unknown in (99, 1 << 70):
            with pytest.raises(NotFound):
                store.runs.finish(unknown, "done", {})

    def test_slot_in_the_future_does_not_block_later_ones(self, store: Store) -> None:
        ahead = store.runs.claim("prune", "2035-01-01T00:00:00Z", "schedule")
        assert ahead is not None
        store.runs.finish(ahead.id, "done", {})
        assert store.runs.last("prune") is None
        assert store.runs.claim("prune", "2035-01-01T00:00:00Z", "schedule") is None
        assert store.runs.claim("prune", MONDAY, "schedule") is not None
