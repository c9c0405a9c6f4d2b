"""The inbox on the server: many processes deliver to it and share the work on it.

receive, amend ─▶ pending ─ claim ─▶ settled | postponed | parked ─ retry ─▶ pending
                     ▲         │
                     └─────────┴─ given back, or claim expired
"""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.exchange import Item, Receipt
from cofio.stores.inbox import Delivery, SqlInbox, deliver
from cofio.stores.inbox_rules import ITEMS, add_seconds
from cofio.stores.query_runner import Row
from cofio.stores.row_mapping import as_json

CLAIMED = 600.0  # seconds until a claim expires: a model reads four batches in less
_AT_ONCE = 4  # items, each with its session's batch, that one process claims: it leaves some to the others


class PostgresInbox(SqlInbox):
    """Inbox of one tenant of a PostgreSQL database."""

    def _deliver(self, delivery: Delivery) -> list[Receipt]:
        """Write a delivery, with its sessions locked, so that a turn is stored once and amended by one process at once.

        Always in the same order, to avoid deadlocks.
        """
        with self._database.writing() as queries:
            for name in sorted({as_json([row["client"], row["session"]]) for row in delivery.rows if row["turn"]}):
                queries.lock(f"session/{name}")
            return deliver(queries, delivery)

    def claim(self, limit: int, together: int = 1) -> list[Item]:
        return self._readable(lambda: self._claim(min(limit, _AT_ONCE), together))

    def _claim(self, limit: int, together: int) -> list[Row]:
        with self._database.reading() as queries:
            if not queries.value("any_due", {"at": self._clock()}):
                return []  # by far the most frequent case
        with self._database.writing() as queries:
            queries.lock("claiming")  # one at a time: the second process sees what is claimed, and claims other items
            at = self._clock()
            values = {"at": at, "until": add_seconds(at, CLAIMED), "limit": limit, "together": together}
            return queries.all("claim_items", values, items=ITEMS)

    def give_back(self, items: Sequence[Item]) -> None:
        at = self._clock()
        with self._database.writing() as queries:
            queries.many("give_back_items", [{"id": item.id, "until": item.due_at, "at": at} for item in items])
