"""Findings about a running service: the problems its components report, and the checks of the doctor.

The doctor's types are kept apart from it, so that a service can be given one without importing code that inspects the
machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from cofio.errors import CofioError, StoreBusy
from cofio.models.exchange import Item

State = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check: the finding and the remedy."""

    name: str
    state: State
    says: str
    remedy: str = ""


class StoreDamage(NamedTuple):
    """Damage of a store: what its database reports, and the ids of rows."""

    files: Sequence[str]
    memories: Sequence[int]  # that do not match their digest
    vectors: Sequence[int]  # memories whose vector cannot be used
    passages: Sequence[int]  # of episodes, whose vector cannot be used


@runtime_checkable
class ProblemReporter(Protocol):
    """Component that knows its own problems."""

    def problems(self) -> Sequence[Check]:
        """Return the current problems, from what is known already: `/health` asks at every call."""


class FailureMonitor:
    """The last error of one kind of call, until such a call succeeds."""

    def __init__(self, name: str, *errors: type[CofioError], least: int = 1) -> None:
        """Initialise; a problem is reported from the `least` consecutive error on."""
        self._name, self._errors, self._least = name, errors, least
        self._count, self._last = 0, Check(name, "ok", "")

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Record the outcome of one call. Other errors, and a busy store, count as neither success nor failure."""
        try:
            yield
        except StoreBusy:
            raise
        except self._errors as error:
            self._last = Check(self._name, "wrong", error.message, error.hint)
            self._count += 1
            raise
        self._count = 0

    def problems(self) -> list[Check]:
        return [self._last] if self._count >= self._least else []


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
