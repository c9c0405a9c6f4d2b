"""What the answers work with: the keeper, and what the service knows about itself."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from cofio.api.guard import Auth
from cofio.api.metrics import Metrics
from cofio.api.replies import Reply
from cofio.errors import StoreBusy
from cofio.keeper import Keeper

_PATIENCE = 0.5  # seconds that a count may take before the last one is good enough


@dataclass(frozen=True, slots=True)
class Call:
    """One request, beside what it sent: who asks, with what key, about which id of the path."""

    by: str
    auth: Auth
    id: int = 0


class Census:
    """How many memories there are, told in time even while the store is held up: then it is the last known count."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "cofio-census")
        self._counting: Future[int] | None = None
        self._known: int | None = None

    def count(self) -> int:
        with self._lock:  # one count at a time, however many ask
            if self._counting is None or self._counting.done():
                self._counting = self._thread.submit(self._count)
            counting = self._counting
        try:
            return counting.result(_PATIENCE)
        except TimeoutError:
            if self._known is None:
                raise StoreBusy("The store does not answer.", "Try again in a moment.") from None
            return self._known

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _count(self) -> int:
        self._known = self._keeper.count()
        return self._known


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that an answer may need."""

    keeper: Keeper
    census: Census
    metrics: Metrics
    document: Reply
    page: Reply
    began: float = field(default_factory=time.monotonic)
