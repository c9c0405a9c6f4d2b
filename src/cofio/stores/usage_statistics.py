"""Usage statistics in an SQL store: views by usage, unused memories, logged queries."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.maintenance import UsageTracking, View
from cofio.models.memory import Memory, Scope, to_utc_iso
from cofio.stores.query_runner import SqlAdapter
from cofio.stores.row_mapping import LISTED, to_memory

#: The condition and the order of each view.
_VIEWS: dict[View, tuple[str, str]] = {
    "never": ("retrieval_count = 0", "created_at, id"),
    "most": ("retrieval_count > 0", "retrieval_count DESC, last_retrieved_at DESC, id"),
    "stale": ("retrieval_count > 0 AND last_retrieved_at < {before}", "last_retrieved_at, id"),
}


class SqlUsageQueries(SqlAdapter):
    """Usage statistics of an SQL store."""

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        usage, order = _VIEWS[view]
        with self._database.reading() as queries:
            used = usage.format(before=queries.dialect.value.format("before"))
            values = {"limit": limit, "before": to_utc_iso(before)}
            rows = queries.within(scope, "view_of_use", values, columns=LISTED, used=used, order=order)
        return list(map(to_memory, rows))

    def tracking(self, since: str) -> UsageTracking:
        rows = self._read("tracking", {"since": to_utc_iso(since)})
        return UsageTracking(*rows[0]) if rows else UsageTracking(None, 0)

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        values = {"category": category, "before": to_utc_iso(before), "limit": limit}
        return list(map(to_memory, self._read("unused", values, columns=LISTED)))

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        return [row[0] for row in self._read_ids("queries_that_found", ids, {"limit": limit})]

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        return {row[0] for row in self._read_ids("touched", ids, {"after": after})}

    def forget(self, before: str) -> int:
        return self._delete_before("forget_retrievals", before)
