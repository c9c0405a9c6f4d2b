"""What the answers work with: the keeper, and what the service knows about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import BoundedSemaphore, Lock
from typing import Generic, TypeVar

from cofio.access import Deed, Key, Role
from cofio.api.guard import Auth
from cofio.api.metrics import Metrics
from cofio.api.news import News
from cofio.api.replies import Reply
from cofio.attend import Attendant
from cofio.checkup import Doctor
from cofio.conversation import Ledger
from cofio.errors import StoreBusy
from cofio.keeper import Keeper
from cofio.model import Viewer
from cofio.ports import Health
from cofio.settings import Settings
from cofio.upstream import Upstream
from cofio.worker import Worker

_READERS = 4  # exchanges that the model reads at once while somebody waits for it
_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, beside what it sent: who asks, with what key, about which id of the path, at work on what, where."""

    by: str
    auth: Auth
    id: int = 0
    table: str = ""  # of domain knowledge, and the row of it, where the path names them
    row: str = ""
    file: str = ""  # of the pages
    project: str = ""
    local: bool = False  # from this machine: the paths that it names are ours
    at: str = ""  # when it happened, where that was a while ago
    viewer: Viewer | None = None  # what its key lets it see; None sees everything
    role: Role = "admin"  # what its key lets it do
    key: Key | None = None  # the key of the store that it came with
    address: str = ""  # from where
    holder: str = ""  # whose key it is, for the audit log
    headers: Mapping[str, str] = field(default_factory=dict)  # as they came; keys may be among them

    def deed(self, act: str = "", outcome: str = "done", what: str = "", at: str = "") -> Deed:
        """A line of the audit log about this request."""
        key = self.key.id if self.key else None
        name = self.holder or self.by
        return Deed(at=at, act=act, outcome=outcome, key=key, name=name, what=what, address=self.address)


class Lately(Generic[_Told]):
    """What somebody says who may take long: told in time, if need be as it was the last time.

    Within `fresh` seconds nobody is asked again.
    """

    def __init__(self, ask: Callable[[], _Told], *, patience: float = 0.5, fresh: float = 0.0) -> None:
        self._ask, self._patience, self._fresh = ask, patience, fresh
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "cofio-lately")
        self._asking: Future[_Told] | None = None
        self._known: tuple[_Told, float] | None = None  # and when it was so

    def told(self, patience: float | None = None) -> _Told:
        """The answer, or the last one; StoreBusy when there is neither. `patience` is for one who waits less long."""
        if self._known and time.monotonic() - self._known[1] < self._fresh:
            return self._known[0]
        with self._lock:  # one question at a time, however many ask
            if self._asking is None or self._asking.done():
                self._asking = self._thread.submit(self._answered)
            asking = self._asking
        try:
            return asking.result(self._patience if patience is None else patience)
        except TimeoutError:
            if self._known is None:
                raise StoreBusy("There is no answer yet.", "Try again in a moment.") from None
            return self._known[0]

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _answered(self) -> _Told:
        answer = self._ask()
        self._known = answer, time.monotonic()
        return answer


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that an answer may need."""

    keeper: Keeper
    worker: Worker
    attendant: Attendant
    census: Lately[int]
    ledger: Lately[Ledger]
    checkup: Lately[Health]
    metrics: Metrics
    news: News
    document: Callable[[], Reply]
    page: Callable[[], Reply]
    reading: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(_READERS))
    began: float = field(default_factory=time.monotonic)
    upstream: Upstream | None = None  # where a chat goes on to
    upstream_problem: str = ""  # why there is none, where one was asked for
    schedules: Mapping[str, str] = field(default_factory=dict)  # when the service does which chore by itself
    settings: Settings = field(default_factory=Settings)  # those in force
    doctor: Doctor | None = None

    def seen_by(self, viewer: Viewer | None) -> Desk:
        """The same desk, with no more on it than the viewer may see."""
        return replace(self, keeper=self.keeper.seen_by(viewer)) if viewer else self

    def close(self) -> None:
        """Ask nobody any more."""
        for each in (self.census, self.ledger, self.checkup, self.news):
            each.close()
        self.attendant.close()
