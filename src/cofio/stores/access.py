"""Authorization: what one caller may see in a store, in whose name they write, and what only the owner may do."""

from __future__ import annotations

from dataclasses import replace

from cofio.models.domain_knowledge import Knowledge
from cofio.models.exchange import Exchange
from cofio.models.memory import Add, Adopt, Decision, Edit, Fact, Memory, Merge, Update, Viewer, check_int
from cofio.models.provenance import Provenance, least_trusted
from cofio.ports import Store
from cofio.stores.row_mapping import no_memory
from cofio.stores.scoped import ScopedStore, refuse


class Access:
    """Access of one caller to a store."""

    def __init__(self, whole: Store, viewer: Viewer | None = None, *, is_assistant: bool = False) -> None:
        """Initialise; `is_assistant`: an agent calls, in the name of the viewer."""
        self.whole = whole
        self.viewer = viewer  # None for the owner, who sees everything
        #: Whose words a text is that the caller gives.
        self.provenance: Provenance = "assistant" if is_assistant or (viewer and viewer.agent) else "user"
        self._scoped = ScopedStore(whole, viewer) if viewer else None
        self.store: Store = self._scoped or whole  # limited to what the caller may see and change

    @property
    def user(self) -> str:
        """Name of the user who reads; "" for the owner and for agents."""
        return self.viewer.user if self.viewer else ""

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
        """Return the fact with the owner and visibility that the caller may set, as the caller's words."""
        own = replace(fact, provenance=self.provenance, author="")
        return self._scoped.fact(own) if self._scoped else own

    def own_decision(self, decision: Decision) -> Decision:
        """Return the decision with its text as the caller's words, or as imported ones."""
        match decision:
            case Add() | Update() | Merge():
                return replace(decision, fact=replace(decision.fact, provenance=self.provenance, author=""))
            case Edit():
                return replace(decision, provenance=self.provenance)
            case Adopt(memory):
                provenance = least_trusted(memory.provenance, "import")
                return replace(decision, memory=replace(memory, provenance=provenance))
        return decision

    def own_row(self, row: Knowledge) -> Knowledge:
        """Return the row with the owner that the caller may set, and with the id that follows from it."""
        return self._scoped.row(row) if self._scoped else row

    def own_exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange with the owner that the caller may set."""
        return self._scoped.exchange(exchange) if self._scoped else exchange
