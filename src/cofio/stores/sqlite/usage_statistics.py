"""Usage statistics in the SQLite file: views by usage, unused memories, logged queries."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.maintenance import UsageTracking, View
from cofio.models.memory import Memory, Scope, to_utc_iso
from cofio.stores.filters import condition
from cofio.stores.row_mapping import LISTED, as_json, to_memory
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import StoreFile

_SQL = queries("sqlite")
#: The condition and the order of each view.
VIEWS: dict[View, tuple[str, str]] = {
    "never": ("retrieval_count = 0", "created_at, id"),
    "most": ("retrieval_count > 0", "retrieval_count DESC, last_retrieved_at DESC, id"),
    "stale": ("retrieval_count > 0 AND last_retrieved_at < {before}", "last_retrieved_at, id"),
}


class SqliteUsageQueries:
    """Uses of an SQLite file."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        where, values = condition(scope)
        usage, order = VIEWS[view]
        query = _SQL["view_of_use"].format(
            columns=LISTED, where=where, used=usage.format(before=":before"), order=order
        )
        with self._file.reading() as connection:
            rows = connection.execute(query, {**values, "limit": limit, "before": to_utc_iso(before)}).fetchall()
        return [to_memory(row) for row in rows]

    def tracking(self, since: str) -> UsageTracking:
        with self._file.reading() as connection:
            return UsageTracking(*connection.execute(_SQL["tracking"], {"since": to_utc_iso(since)}).fetchone())

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        values = {"category": category, "before": to_utc_iso(before), "limit": limit}
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["unused"].format(columns=LISTED), values).fetchall()
        return [to_memory(row) for row in rows]

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["queries_that_found"], {"ids": as_json(list(ids)), "limit": limit})
            return [row[0] for row in rows]

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["touched"], {"ids": as_json(list(ids)), "after": after})
            return {row[0] for row in rows}

    def forget(self, before: str) -> int:
        with self._file.writing() as connection:
            return connection.execute(_SQL["forget_retrievals"], {"before": to_utc_iso(before)}).rowcount
