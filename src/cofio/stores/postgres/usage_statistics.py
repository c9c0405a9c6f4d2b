"""Usage statistics on the server: views by usage, unused memories, logged queries."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.maintenance import UsageTracking, View
from cofio.models.memory import Memory, Scope, to_utc_iso
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.postgres.connection import PostgresServer
from cofio.stores.row_mapping import LISTED, to_memory
from cofio.stores.sqlite.usage_statistics import VIEWS

_FORGOTTEN = 10_000  # log rows deleted in one transaction


class PostgresUsageQueries:
    """Uses of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        where, params = condition(scope, POSTGRES)
        usage, order = VIEWS[view]
        values = {**params, "limit": limit, "before": to_utc_iso(before)}
        parts = {"where": where, "used": usage.format(before="%(before)s"), "order": order}
        with self._server.reading() as rows:
            return [to_memory(row) for row in rows.all("view_of_use", values, columns=LISTED, **parts)]

    def tracking(self, since: str) -> UsageTracking:
        with self._server.reading() as rows:
            began, days = rows.one("tracking", {"since": to_utc_iso(since)}) or (None, 0)
        return UsageTracking(began, days)

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        values = {"category": category, "before": to_utc_iso(before), "limit": limit}
        with self._server.reading() as rows:
            return [to_memory(row) for row in rows.all("unused", values, columns=LISTED)]

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        with self._server.reading() as rows:
            return [query for (query,) in rows.all("queries_that_found", {"ids": list(ids), "limit": limit})]

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        with self._server.reading() as rows:
            return {number for (number,) in rows.all("touched", {"ids": list(ids), "after": after})}

    def forget(self, before: str) -> int:
        values = {"before": to_utc_iso(before), "limit": _FORGOTTEN}
        deleted = 0
        while True:  # in small transactions: the log is the largest table
            with self._server.writing() as rows:
                count = rows.count("forget_retrievals", values)
            deleted += count
            if count < _FORGOTTEN:
                return deleted
