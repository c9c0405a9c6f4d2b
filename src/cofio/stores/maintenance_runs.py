"""Runs of chores, in an SQL store: the process that inserts the row of a cron slot runs it.

    claim ─▶ running ─ alive, alive ─▶ finish: done, failed or began
                 └──── silent for ten minutes ─▶ died: the row stays in the history, and the slot is free again

A slot in which a chore has died three times is skipped, because a run that kills its process would do so each time. The
next slot is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, get_args

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.maintenance import MaintenanceRun, Outcome
from cofio.models.memory import to_utc_iso
from cofio.stores.inbox_rules import add_seconds
from cofio.stores.query_runner import SqlAdapter
from cofio.stores.row_mapping import as_json, is_storable_int

SILENCE = 600.0  # seconds without a heartbeat after which a run counts as dead
DEATHS = 3  # of one slot, after which it is skipped
_COLUMNS = ("id", "chore", "slot", "by", "started_at", "finished_at", "outcome", "details", "changeset_id")
#: The columns for a SELECT.
RUNS = ", ".join(_COLUMNS)


class SqlRuns(SqlAdapter):
    """Runs of an SQL store."""

    def claim(self, chore: str, slot: str, by: str) -> MaintenanceRun | None:
        with self._database.writing() as queries:
            queries.lock(f"chore/{chore}")
            at = self._clock()  # taken while the lock is held
            values = {"chore": chore, "slot": to_utc_iso(slot) if slot else "", "by": by, "at": at}
            queries.run("bury_runs", {**values, "dead": add_seconds(at, -SILENCE)})
            row = queries.one("claim_run", {**values, "deaths": DEATHS}, columns=RUNS)
            return to_run(row) if row else None

    def alive(self, run_id: int) -> bool:
        return self._write("run_is_alive", {"id": run_id, "at": self._clock()}) > 0

    def finish(
        self, run_id: int, outcome: str, details: Mapping[str, Any], changeset: int | None = None
    ) -> MaintenanceRun:
        ends = [name for name in get_args(Outcome) if name not in ("running", "died")]
        if outcome not in ends:
            raise InvalidInput(f"A run cannot end as {outcome!r}.", f"Give one of: {', '.join(ends)}.")
        if not is_storable_int(run_id):
            refuse(run_id, None)
        values = {"id": run_id, "outcome": outcome, "details": as_json(dict(details)), "changeset": changeset}
        with self._database.writing() as queries:
            ended = queries.count("finish_run", {**values, "at": self._clock()})
            row = queries.one("get_run", {"id": run_id}, columns=RUNS)
            run = to_run(row) if row else None
            return run if run and ended else refuse(run_id, run)

    def last(self, chore: str) -> MaintenanceRun | None:
        at = self._clock()
        rows = self._read("last_run", {"chore": chore, "at": at, "dead": add_seconds(at, -SILENCE)}, columns=RUNS)
        return to_run(rows[0]) if rows else None

    def newest(self, limit: int, chore: str = "") -> list[MaintenanceRun]:
        values = {"chore": chore, "limit": limit, "dead": add_seconds(self._clock(), -SILENCE)}
        runs = self._read("newest_runs", values, columns=RUNS)
        return [replace(to_run(row), outcome="died") if silent else to_run(row) for *row, silent in runs]


def refuse(run_id: int, run: MaintenanceRun | None) -> NoReturn:
    """Raise the error for a run that cannot be ended."""
    if run is None:
        raise NotFound(f"There is no maintenance run {run_id}.", "`cofio runs` lists the newest runs.")
    how = "is recorded as died, since its heartbeat stopped" if run.outcome == "died" else "has ended already"
    raise Conflict(
        f"Maintenance run {run_id} ({run.chore}) {how}.", "Its changes are in the history; no action is needed."
    )


def to_run(row: Sequence[Any]) -> MaintenanceRun:
    """Return the run of a row selected with RUNS."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    return MaintenanceRun(details=json.loads(fields.pop("details")), changeset=fields.pop("changeset_id"), **fields)
