"""Usage statistics in an SQL store: views by usage, unused memories, logged queries."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.maintenance import UsageTracking, View
from cofio.models.memory import Memory, Scope, to_utc_iso
from cofio.stores.filters import condition
from cofio.stores.query_runner import Database, delete_before
from cofio.stores.row_mapping import LISTED, to_memory

#: The condition and the order of each view.
_VIEWS: dict[View, tuple[str, str]] = {
    "never": ("retrieval_count = 0", "created_at, id"),
    "most": ("retrieval_count > 0", "retrieval_count DESC, last_retrieved_at DESC, id"),
    "stale": ("retrieval_count > 0 AND last_retrieved_at < {before}", "last_retrieved_at, id"),
}


class SqlUsageQueries:
    """Usage statistics of an SQL store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        usage, order = _VIEWS[view]
        with self._database.reading() as queries:
            where, params = condition(scope, queries.dialect)
            values = {**params, "limit": limit, "before": to_utc_iso(before)}
            used = usage.format(before=queries.dialect.value.format("before"))
            parts = {"where": where, "used": used, "order": order}
            return [to_memory(row) for row in queries.all("view_of_use", values, columns=LISTED, **parts)]

    def tracking(self, since: str) -> UsageTracking:
        with self._database.reading() as queries:
            began, days = queries.one("tracking", {"since": to_utc_iso(since)}) or (None, 0)
        return UsageTracking(began, days)

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        values = {"category": category, "before": to_utc_iso(before), "limit": limit}
        with self._database.reading() as queries:
            return [to_memory(row) for row in queries.all("unused", values, columns=LISTED)]

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        with self._database.reading() as queries:
            return queries.column("queries_that_found", {"ids": queries.ids(ids), "limit": limit})

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        with self._database.reading() as queries:
            return set(queries.column("touched", {"ids": queries.ids(ids), "after": after}))

    def forget(self, before: str) -> int:
        return delete_before(self._database, "forget_retrievals", before)
