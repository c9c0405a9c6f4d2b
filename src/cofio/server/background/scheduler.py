"""Scheduler thread that runs maintenance chores when they are due.

cron text ─ schedule.due ─▶ slot ─ keeper.chore ─▶ claimed, done, ended; or skipped, as another process claimed it

Neither the worker nor a request waits for it: maintenance takes minutes, which a hook does not have.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from cofio.core import Keeper
from cofio.errors import CofioError
from cofio.models import cron as models_cron
from cofio.models.maintenance import MaintenanceRun
from cofio.ports import Clock

_EVERY = 30.0  # seconds between two checks of the clock
_log = logging.getLogger(__name__)


class Scheduler:
    """Scheduler of chores. `schedules` holds the cron expression of each chore; an empty one disables it."""

    def __init__(self, keeper: Keeper, schedules: Mapping[str, str], clock: Clock, *, every: float = _EVERY) -> None:
        for cron in schedules.values():
            models_cron.check(cron)
        self._keeper = keeper
        self._schedules = {chore: cron for chore, cron in schedules.items() if models_cron.is_enabled(cron)}
        self._clock = clock
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cofio-scheduler", daemon=True)

    def start(self) -> None:
        """Start the thread, if anything is scheduled."""
        if self._schedules:
            self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Stop. A running chore stops at the next safe point; without one in `patience` seconds it is left running."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def tick(self, now: str) -> list[MaintenanceRun]:
        """Run the chores that are due; return their runs. A failing chore does not stop the others."""
        runs = []
        for chore, cron in self._schedules.items():
            if self._stopping.is_set():
                break
            try:
                run = self._run_if_due(chore, cron, now)
            except CofioError as error:
                _log.warning("the scheduled %s cannot run: %s", chore, error)
            except Exception:  # noqa: BLE001 - the thread survives any error
                _log.exception("unexpected error in the scheduled %s", chore)
            else:
                runs += [run] if run else []
        return runs

    def _run_if_due(self, chore: str, cron: str, now: str) -> MaintenanceRun | None:
        last = self._keeper.services.maintenance.last_run(chore)
        if last is None:  # slots from before the schedule existed are not caught up
            if slot := models_cron.newest_slot(cron, now):
                self._keeper.services.maintenance.begin_schedule(chore, slot)
            return None
        slot = models_cron.due_slot(cron, last.slot, now)
        if slot is None:
            return None
        run = self._keeper.services.maintenance.run_scheduled(
            chore, slot=slot, by="schedule", halted=self._stopping.is_set
        )
        if run:
            _log.info("The maintenance run %s, due at %s, ended: %s", chore, slot, run.outcome)
        return run

    def _run(self) -> None:
        while not self._stopping.wait(self._every):  # wait first: the start of the service has priority
            self.tick(self._clock())
