"""The words of the doctor: what it asks of a service, and what it finds.

Part of the words, so that the service can be handed a doctor without knowing the machine that it looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cofio.conversation import Item

State = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, what was found, and what to do about it."""

    name: str
    state: State
    says: str
    remedy: str = ""


class Asked(Protocol):
    """What the doctor asks of the service: over HTTP, or from within it."""

    def is_novel(self, fact: str, /) -> object:
        """Whether the text says something new: it has to become a vector for that."""

    def extraction(self) -> dict[str, Any]:
        """Whether a model reads conversations, which, and how it is."""

    def stats(self) -> dict[str, Any]:
        """Counts of memories and vectors, and the size of the store."""

    def items(self, state: Any = None, /, *, limit: int = 50) -> Sequence[Item]:
        """The newest captures in this state."""


#: Looks at this machine and at the service, from within it; with True, at the hooks of the clients alone.
Doctor = Callable[[Asked, bool], Iterable[Check]]
