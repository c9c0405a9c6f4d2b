"""Runs of chores, on the server: the process that inserts the row of a cron slot runs it.

The rules are those of `stores.runs`; a lock per chore replaces the single writer of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cofio.models.maintenance import MaintenanceRun
from cofio.models.memory import to_utc_iso
from cofio.ports import Clock
from cofio.stores.inbox_rules import add_seconds
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.row_mapping import as_json, is_storable_int
from cofio.stores.sqlite.maintenance_runs import DEATHS, RUNS, SILENCE, check_outcome, refuse, to_run


class PostgresRuns:
    """Runs of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def claim(self, chore: str, slot: str, by: str) -> MaintenanceRun | None:
        with self._server.writing() as rows:
            rows.lock(f"chore/{chore}")
            at = self._clock()  # taken while the lock is held
            values = {"chore": chore, "slot": to_utc_iso(slot) if slot else "", "by": by, "at": at}
            rows.run("bury_runs", {**values, "dead": add_seconds(at, -SILENCE)})
            row = rows.one("claim_run", {**values, "deaths": DEATHS}, columns=RUNS)
            return to_run(row) if row else None

    def alive(self, run_id: int) -> bool:
        with self._server.writing() as rows:
            return bool(rows.count("run_is_alive", {"id": run_id, "at": self._clock()}))

    def finish(
        self, run_id: int, outcome: str, told: Mapping[str, Any], changeset: int | None = None
    ) -> MaintenanceRun:
        check_outcome(outcome)
        if not is_storable_int(run_id):
            refuse(run_id, None)
        values = {"id": run_id, "outcome": outcome, "told": as_json(dict(told)), "changeset": changeset}
        with self._server.writing() as rows:
            ended = rows.count("finish_run", {**values, "at": self._clock()})
            run = _get_run(rows, run_id)
            return run if run and ended else refuse(run_id, run)

    def last(self, chore: str) -> MaintenanceRun | None:
        with self._server.reading() as rows:
            at = self._clock()
            row = rows.one("last_run", {"chore": chore, "at": at, "dead": add_seconds(at, -SILENCE)}, columns=RUNS)
        return to_run(row) if row else None

    def newest(self, limit: int, chore: str = "") -> list[MaintenanceRun]:
        with self._server.reading() as rows:
            values = {"chore": chore, "limit": limit, "dead": add_seconds(self._clock(), -SILENCE)}
            runs = rows.all("newest_runs", values, columns=RUNS)
        return [replace(to_run(row), outcome="died") if silent else to_run(row) for *row, silent in runs]


def _get_run(rows: TenantQueries, run_id: int) -> MaintenanceRun | None:
    row = rows.one("get_run", {"id": run_id}, columns=RUNS)
    return to_run(row) if row else None
