"""Runs of the fake store in `cofio.testing`: the same rules over a list. For tests only."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cofio.models.maintenance import MaintenanceRun
from cofio.models.memory import to_utc_iso
from cofio.ports import Clock
from cofio.stores.inbox_rules import add_seconds
from cofio.stores.maintenance_runs import DEATHS, SILENCE, check_outcome, refuse


class FakeRuns:
    """Runs of a MemoryStore."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: list[MaintenanceRun] = []
        self._alive: dict[int, str] = {}

    def claim(self, chore: str, slot: str, by: str) -> MaintenanceRun | None:
        with self._lock:
            at, slot = self._clock(), to_utc_iso(slot) if slot else ""
            current_runs = self._mark_dead(at)
            self._runs = [
                replace(now, finished_at=at) if now.chore == chore and now != before else before
                for before, now in zip(self._runs, current_runs, strict=True)
            ]
            chore_runs = [run for run in self._runs if run.chore == chore]
            is_taken = any(run.slot == slot or slot < run.slot <= at for run in chore_runs if run.outcome != "died")
            deaths = sum(run.slot == slot and run.outcome == "died" for run in chore_runs)
            if any(run.outcome == "running" for run in chore_runs) or (slot and (is_taken or deaths >= DEATHS)):
                return None
            run = MaintenanceRun(id=len(self._runs) + 1, chore=chore, slot=slot, by=by, started_at=at)
            self._runs.append(run)
            self._alive[run.id] = at
            return run

    def _mark_dead(self, at: str) -> list[MaintenanceRun]:
        """Return all runs; those without a heartbeat for too long have died."""
        dead = add_seconds(at, -SILENCE)
        return [
            replace(run, outcome="died") if run.outcome == "running" and self._alive[run.id] < dead else run
            for run in self._runs
        ]

    def alive(self, run_id: int) -> bool:
        with self._lock:
            if (run := self._find(run_id)) is None or run.outcome != "running":
                return False
            self._alive[run_id] = self._clock()
            return True

    def finish(
        self, run_id: int, outcome: str, told: Mapping[str, Any], changeset: int | None = None
    ) -> MaintenanceRun:
        check_outcome(outcome)
        with self._lock:
            if (run := self._find(run_id)) is None or run.outcome != "running":
                refuse(run_id, run)
            report = json.loads(json.dumps(dict(told)))  # as read back from a file
            ended: dict[str, Any] = {"outcome": outcome, "details": report, "changeset": changeset}
            self._runs[run_id - 1] = replace(run, **ended, finished_at=self._clock())
            return self._runs[run_id - 1]

    def last(self, chore: str) -> MaintenanceRun | None:
        at = self._clock()
        of_slots = [run for run in self._mark_dead(at) if run.chore == chore and run.slot and run.outcome != "died"]
        return max((run for run in of_slots if run.slot <= at), key=lambda run: run.slot, default=None)

    def newest(self, limit: int, chore: str = "") -> list[MaintenanceRun]:
        return [run for run in reversed(self._mark_dead(self._clock())) if chore in ("", run.chore)][:limit]

    def _find(self, run_id: int) -> MaintenanceRun | None:
        return self._runs[run_id - 1] if 1 <= run_id <= len(self._runs) else None
