"""Types of the doctor: the service interface it needs, and its findings.

Kept apart from the doctor, so that a service can be given one without importing code that inspects the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cofio.models.exchange import Item

State = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check: the finding and the remedy."""

    name: str
    state: State
    says: str
    remedy: str = ""


class ServiceProbe(Protocol):
    """Service interface used by the doctor, over HTTP or in-process."""

    def is_novel(self, fact: str, /) -> object:
        """Check the novelty of a text, which requires embedding it."""

    def extraction(self) -> dict[str, Any]:
        """Return whether a model is configured for extraction, which one, and its state."""

    def stats(self) -> dict[str, Any]:
        """Return counts of memories and vectors, and the size of the store."""

    def items(self, state: Any = None, /, *, limit: int = 50) -> Sequence[Item]:
        """List the newest captures in this state."""


#: Checks this machine and the service from within; with True, only the hooks of the clients.
Doctor = Callable[[ServiceProbe, bool], Iterable[Check]]
