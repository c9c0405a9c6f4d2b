"""How far a tenant's store has come, and how large it is: what is remembered between two searches hangs on these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cofio.stores.postgres.server import Rows
from cofio.stores.postings import FEW


class State(NamedTuple):
    """Where the tenant's store stands at the newest commit of any process."""

    changeset: int
    newest: int  # the highest id
    signature: str  # of the embedder; "" until somebody embeds
    dimension: int  # of the vectors; 0 until there is one

    @classmethod
    def read(cls, rows: Rows, prefix: str = "") -> State:
        return cls(*rows.one(f"{prefix}state") or (0, 0, "", 0))


@dataclass(frozen=True, slots=True)
class Extent:
    """How many memories there are, archived ones too, and how many words one has."""

    count: int
    mean: float
    at: State  # when that was counted

    @classmethod
    def read(cls, rows: Rows, state: State, prefix: str = "") -> Extent:
        count, length = rows.one(f"{prefix}lengths") or (0, 0)
        return cls(count, length / count if count else 1.0, state)

    @property
    def is_small(self) -> bool:
        """Whether all is reckoned exactly, every time."""
        return self.count <= FEW

    def is_good_at(self, state: State) -> bool:
        """Whether it need not be counted again: not before a change, or in a large store before it has grown a bit."""
        if self.is_small:
            return self.at.changeset == state.changeset
        return 0 <= state.newest - self.at.newest <= self.count // 50
