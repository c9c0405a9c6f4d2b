"""Authorization: what one caller may see in a store, in whose name they write, and what only the owner may do."""

from __future__ import annotations

from cofio.models.domain_knowledge import Knowledge
from cofio.models.exchange import Exchange
from cofio.models.memory import Fact, Memory, Viewer, check_int
from cofio.ports import Store
from cofio.stores.row_mapping import no_memory
from cofio.stores.scoped import ScopedStore, refuse


class Access:
    """Access of one caller to a store."""

    def __init__(self, whole: Store, viewer: Viewer | None = None) -> None:
        self.whole = whole
        self.viewer = viewer  # None for the owner, who sees everything
        self._scoped = ScopedStore(whole, viewer) if viewer else None
        self.store: Store = self._scoped or whole  # limited to what the caller may see and change

    def require_owner(self, action: str) -> None:
        """Raise Forbidden unless the caller is the owner."""
        if self._scoped:
            refuse(action)

    def get_memory(self, memory_id: int) -> Memory:
        """Return a memory, archived or not; raise NotFound if the caller sees none of this id."""
        memories = self.store.get([check_int(memory_id, "id")])
        if not memories:
            raise no_memory(memory_id)
        return memories[0]

    def own_fact(self, fact: Fact) -> Fact:
        """Return the fact with the owner and visibility that the caller may set."""
        return self._scoped.fact(fact) if self._scoped else fact

    def own_row(self, row: Knowledge) -> Knowledge:
        """Return the row with the owner that the caller may set, and with the id that follows from it."""
        return self._scoped.row(row) if self._scoped else row

    def own_exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange with the owner that the caller may set."""
        return self._scoped.exchange(exchange) if self._scoped else exchange
