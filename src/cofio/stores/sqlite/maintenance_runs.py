"""Runs of chores, in the SQLite file: the process that inserts the row of a cron slot runs it.

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
from cofio.ports import Clock
from cofio.stores.inbox_rules import add_seconds
from cofio.stores.row_mapping import as_json, is_storable_int
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import StoreFile

SILENCE = 600.0  # seconds without a heartbeat after which a run counts as dead
DEATHS = 3  # of one slot, after which it is skipped
_SQL = queries("sqlite")
_COLUMNS = ("id", "chore", "slot", "by", "started_at", "finished_at", "outcome", "told", "changeset_id")
#: The columns for a SELECT.
RUNS = ", ".join(_COLUMNS)
_GET, _LAST, _NEWEST = (_SQL[name].format(columns=RUNS) for name in ("get_run", "last_run", "newest_runs"))


class SqliteRuns:
    """Runs of an SQLite file."""

    def __init__(self, file: StoreFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def claim(self, chore: str, slot: str, by: str) -> MaintenanceRun | None:
        with self._file.writing() as connection:
            at = self._clock()  # taken while the write lock is held
            values = {"chore": chore, "slot": to_utc_iso(slot) if slot else "", "by": by, "at": at}
            connection.execute(_SQL["bury_runs"], {**values, "dead": add_seconds(at, -SILENCE)})
            cursor = connection.execute(_SQL["claim_run"], {**values, "deaths": DEATHS})
            return to_run(connection.execute(_GET, (cursor.lastrowid,)).fetchone()) if cursor.rowcount else None

    def alive(self, run_id: int) -> bool:
        with self._file.writing() as connection:
            return bool(connection.execute(_SQL["run_is_alive"], {"id": run_id, "at": self._clock()}).rowcount)

    def finish(
        self, run_id: int, outcome: str, told: Mapping[str, Any], changeset: int | None = None
    ) -> MaintenanceRun:
        check_outcome(outcome)
        values = {"id": run_id, "outcome": outcome, "told": as_json(dict(told)), "changeset": changeset}
        with self._file.writing() as connection:
            ended = (
                is_storable_int(run_id)
                and connection.execute(_SQL["finish_run"], {**values, "at": self._clock()}).rowcount
            )
            row = connection.execute(_GET, (run_id,)).fetchone() if is_storable_int(run_id) else None
            run = to_run(row) if row else None
            return run if run and ended else refuse(run_id, run)

    def last(self, chore: str) -> MaintenanceRun | None:
        with self._file.reading() as connection:
            at = self._clock()
            row = connection.execute(_LAST, {"chore": chore, "at": at, "dead": add_seconds(at, -SILENCE)}).fetchone()
        return to_run(row) if row else None

    def newest(self, limit: int, chore: str = "") -> list[MaintenanceRun]:
        with self._file.reading() as connection:
            values = {"chore": chore, "limit": limit, "dead": add_seconds(self._clock(), -SILENCE)}
            rows = connection.execute(_NEWEST, values).fetchall()
        return [replace(to_run(row), outcome="died") if silent else to_run(row) for *row, silent in rows]


def check_outcome(outcome: str) -> None:
    """Raise InvalidInput unless it is a final outcome of a run."""
    ends = [get_argument for get_argument in get_args(Outcome) if get_argument not in ("running", "died")]
    if outcome not in ends:
        raise InvalidInput(f"A run cannot end as {outcome!r}.", f"It ends as one of: {', '.join(ends)}.")


def refuse(run_id: int, run: MaintenanceRun | None) -> NoReturn:
    """Raise the error for a run that cannot be ended."""
    if run is None:
        raise NotFound(f"There is no run {run_id}.", "`cofio runs` lists the newest.")
    how = "was given up for dead" if run.outcome == "died" else "has ended already"
    raise Conflict(f"Run {run_id} ({run.chore}) {how}.", "Its changes are in the history; no action is needed.")


def to_run(row: Sequence[Any]) -> MaintenanceRun:
    """Return the run of a row selected with RUNS."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    return MaintenanceRun(told=json.loads(fields.pop("told")), changeset=fields.pop("changeset_id"), **fields)
