"""State shared by the handlers: the keeper, and what the service knows about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import BoundedSemaphore, Lock
from typing import Any, Generic, TypeVar

from cofio.core import Keeper
from cofio.errors import StoreBusy
from cofio.models.auth import AuditEntry, Key, Role
from cofio.models.diagnostics import Doctor
from cofio.models.exchange import InboxStatus
from cofio.models.memory import Viewer
from cofio.ports import Health
from cofio.server.background.inbox_worker import InboxWorker
from cofio.server.http.auth import Auth
from cofio.server.http.event_stream import EventBroadcaster
from cofio.server.http.metrics import Metrics
from cofio.server.http.page_sessions import PageSessions
from cofio.server.http.responses import HandlerReply
from cofio.server.mcp.caller import BY as MCP
from cofio.server.openai_proxy.upstream import Upstream
from cofio.server.session_handler import SessionHandler
from cofio.settings import Settings

_LOGGED = ("id", "old_id", "new_id", "job", "changeset")  # fields of a reply that are logged: numbers, never texts
_MAX_LOGGED = 20  # ids of a reply that are logged
_AGENTS = (MCP, "openclaw")  # clients that add what an agent says, not what a person types
_READERS = 4  # exchanges that the model reads at once for waiting callers
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request besides its body: caller, key, ids in the path, and current project."""

    by: str
    auth: Auth
    id: int = 0
    table: str = ""  # of domain knowledge, with its row, if named in the path
    row: str = ""
    file: str = ""  # of the web UI
    project: str = ""
    local: bool = False  # from this machine: its paths are valid here
    at: str = ""  # time of the event, for a late delivery
    viewer: Viewer | None = None  # what its key lets it see; None for everything
    role: Role = "admin"  # what its key lets it do
    key: Key | None = None  # the store's key it was sent with
    address: str = ""  # of the caller
    holder: str = ""  # holder of the key, for the audit log
    headers: Mapping[str, str] = field(default_factory=dict)  # as received; may contain keys

    def entry(self, act: str = "", outcome: str = "done", what: str = "", at: str = "") -> AuditEntry:
        """Return an audit log entry for this request."""
        key = self.key.id if self.key else None
        name = self.holder or self.by
        return AuditEntry(at=at, act=act, outcome=outcome, key=key, name=name, what=what, address=self.address)


class CachedProbe(Generic[_Value]):
    """Cached call of a slow function: waits for a limited time, then returns the last known value.

    Within `fresh` seconds the function is not called again.
    """

    def __init__(self, call: Callable[[], _Value], *, patience: float = 0.5, fresh: float = 0.0) -> None:
        self._call, self._patience, self._fresh = call, patience, fresh
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "cofio-probe")
        self._pending: Future[_Value] | None = None
        self._known: tuple[_Value, float] | None = None  # value and time of the last call

    def value(self, patience: float | None = None) -> _Value:
        """Return the value, or the last one; StoreBusy if neither is known. `patience` overrides the time to wait."""
        if self._known and time.monotonic() - self._known[1] < self._fresh:
            return self._known[0]
        with self._lock:  # one call at a time, for all callers
            if self._pending is None or self._pending.done():
                self._pending = self._thread.submit(self._refresh)
            pending = self._pending
        try:
            return pending.result(self._patience if patience is None else patience)
        except TimeoutError:
            if self._known is None:
                raise StoreBusy("The service is still computing the reply.", "Try again in a moment.") from None
            return self._known[0]

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _refresh(self) -> _Value:
        value = self._call()
        self._known = value, time.monotonic()
        return value


@dataclass(frozen=True, slots=True)
class AppState:
    """Dependencies of the handlers."""

    keeper: Keeper
    worker: InboxWorker
    sessions: SessionHandler
    memory_count: CachedProbe[int]
    inbox_status: CachedProbe[InboxStatus]
    model_health: CachedProbe[Health]
    metrics: Metrics
    news: EventBroadcaster
    document: Callable[[], HandlerReply]
    page: Callable[[], HandlerReply]
    reading: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(_READERS))
    began: float = field(default_factory=time.monotonic)
    upstream: Upstream | None = None  # where chats are sent on to
    upstream_problem: str = ""  # why a configured upstream is not used
    schedules: Mapping[str, str] = field(default_factory=dict)  # cron expression of each scheduled chore
    settings: Settings = field(default_factory=Settings)  # in force
    doctor: Doctor | None = None
    page_sessions: PageSessions = field(default_factory=PageSessions)

    def for_caller(self, context: RequestContext) -> AppState:
        """Return the same state, limited to what the caller may see."""
        state = replace(self, keeper=self.keeper.as_viewer(context.viewer)) if context.viewer else self
        return state.as_assistant() if context.headers.get("x-cofio-client", "").strip() in _AGENTS else state

    def as_assistant(self) -> AppState:
        """Return the same state, as an agent uses it."""
        return replace(self, keeper=self.keeper.as_assistant())

    def audit(self, context: RequestContext, act: str, outcome: str, summary: str, at: str = "") -> None:
        """Write an audit log entry. Without keys, callers cannot be identified and nothing is recorded."""
        if context.auth == "ok":
            self.keeper.services.keys.record(context.entry(act, outcome, summary, at))

    def close(self) -> None:
        """Stop all background calls."""
        for service in (self.memory_count, self.inbox_status, self.model_health, self.news):
            service.close()
        self.sessions.close()


def summarize_response(content: Mapping[str, Any]) -> str:
    """Return the ids of memories and changesets in a reply for the audit log, without texts."""
    names = _LOGGED if "table" not in content else ("changeset",)  # the id of a knowledge row contains words
    parts = [f"{name.replace('_', ' ')} {content[name]}" for name in names if isinstance(content.get(name), int)]
    result_ids = [result.get("id") for result in content.get("results", ()) if isinstance(result, dict)]
    ids = [str(result_id) for result_id in result_ids if isinstance(result_id, int)]
    listed = [f"ids {' '.join(ids[:_MAX_LOGGED])}{' …' if len(ids) > _MAX_LOGGED else ''}"] if ids else []
    return ", ".join(parts + listed)
