"""State and size of a tenant's store, on which the validity of cached data depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cofio.stores.query_runner import Queries
from cofio.stores.sqlite.bm25 import FEW


class TenantState(NamedTuple):
    """State of the tenant's store at the newest commit of any process."""

    changeset: int
    newest: int  # the highest id
    signature: str  # of the embedder; "" until one is bound
    dimension: int  # of the vectors; 0 until there are any

    @classmethod
    def read(cls, queries: Queries, prefix: str = "") -> TenantState:
        return cls(*queries.one(f"{prefix}state") or (0, 0, "", 0))


@dataclass(frozen=True, slots=True)
class TenantSize:
    """Number of memories, archived ones included, and their mean number of words."""

    count: int
    mean: float
    at: TenantState  # when it was counted

    @classmethod
    def read(cls, queries: Queries, state: TenantState, prefix: str = "") -> TenantSize:
        count, length = queries.one(f"{prefix}lengths") or (0, 0)
        return cls(count, length / count if count else 1.0, state)

    @property
    def is_small(self) -> bool:
        """Return whether the store is small enough to count exactly, every time."""
        return self.count <= FEW

    def is_good_at(self, state: TenantState) -> bool:
        """Return whether the count is still valid: until a change, or in a large store until it has grown by 2 %."""
        if self.is_small:
            return self.at.changeset == state.changeset
        return 0 <= state.newest - self.at.newest <= self.count // 50
