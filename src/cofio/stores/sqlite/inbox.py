"""The inbox in the SQLite file: many threads deliver with one commit, and one process works on the items."""

from __future__ import annotations

from collections.abc import Sequence

from cofio.models.exchange import Item, Receipt
from cofio.ports import Clock
from cofio.stores.inbox import Delivery, SqlInbox, deliver
from cofio.stores.query_runner import Row
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.group_commit import GroupCommit


class SqliteInbox(SqlInbox):
    """Inbox in the SQLite file of a store."""

    def __init__(self, file: StoreFile, clock: Clock) -> None:
        super().__init__(file, clock)
        self._commit: GroupCommit[Delivery, list[Receipt]] = GroupCommit(file, deliver)

    def _deliver(self, delivery: Delivery) -> list[Receipt]:
        return self._commit(delivery)

    def _due(self, limit: int) -> list[Row]:
        with self._database.reading() as queries:
            if not queries.value("any_pending"):
                return []  # by far the most frequent case
        return super()._due(limit)

    def claim(self, limit: int, together: int = 1) -> list[Item]:  # noqa: ARG002
        return self.due(limit)  # a file is served by one process

    def give_back(self, items: Sequence[Item]) -> None:
        """Do nothing: `claim` takes no claims."""
