"""The caretaker: has chores done when they are due, in a thread of its own.

cron text ─ schedule.due ─▶ slot ─ keeper.chore ─▶ claimed, done, ended; or another process's

Neither the worker nor a request waits for it: upkeep takes minutes, and a hook has none of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from cofio import schedule
from cofio.chores import Run
from cofio.errors import CofioError
from cofio.keeper import Keeper
from cofio.ports import Clock

_EVERY = 30.0  # seconds between two looks at the clock
_log = logging.getLogger(__name__)


class Caretaker:
    """Does the chores of a schedule. `schedules` holds the cron text of each chore; an empty one switches it off."""

    def __init__(self, keeper: Keeper, schedules: Mapping[str, str], clock: Clock, *, every: float = _EVERY) -> None:
        for cron in schedules.values():
            schedule.check(cron)
        self._keeper = keeper
        self._schedules = {chore: cron for chore, cron in schedules.items() if schedule.is_on(cron)}
        self._clock = clock
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cofio-caretaker", daemon=True)

    def start(self) -> None:
        """Begin to look at the clock. Without a schedule there is nothing to look for."""
        if self._schedules:
            self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """End. A chore that runs stops at the next good place; one that has none within `patience` seconds is left."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def tick(self, now: str) -> list[Run]:
        """Have done what is due; the runs that came of it. What goes wrong with one chore hinders no other."""
        done = []
        for chore, cron in self._schedules.items():
            if self._stopping.is_set():
                break
            try:
                run = self._looked_after(chore, cron, now)
            except CofioError as error:
                _log.warning("%s is due and cannot be done: %s", chore, error)
            except Exception:  # noqa: BLE001 - the caretaker outlives whatever goes wrong once
                _log.exception("the caretaker stumbled over %s", chore)
            else:
                done += [run] if run else []
        return done

    def _looked_after(self, chore: str, cron: str, now: str) -> Run | None:
        last = self._keeper.last_run(chore)
        if last is None:  # nothing is caught up from before there was a schedule
            if slot := schedule.newest(cron, now):
                self._keeper.begin_schedule(chore, slot)
            return None
        slot = schedule.due(cron, last.slot, now)
        if slot is None:
            return None
        run = self._keeper.chore(chore, slot=slot, by="schedule", halted=self._stopping.is_set)
        if run:
            _log.info("%s of %s: %s", chore, slot, run.outcome)
        return run

    def _run(self) -> None:
        while not self._stopping.wait(self._every):  # whoever starts the service has better things to wait for
            self.tick(self._clock())
