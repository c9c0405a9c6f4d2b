"""Audit log entries for requests: every request with a key that changed something or was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cofio.errors import Forbidden
from cofio.models.auth import AuditEntry
from cofio.ports import Clock
from cofio.server.http.context import RequestContext
from cofio.server.http.responses import HandlerReply

if TYPE_CHECKING:
    from cofio.server.http.operations import Route

_NAMED = ("id", "old_id", "new_id", "job", "changeset")  # fields of a reply that are logged: numbers, never texts
_MOST = 20  # ids of a reply that are logged


class AuditRecorder:
    """Audit of one request. Without keys, callers cannot be identified and nothing is recorded."""

    def __init__(self, route: Route, call: RequestContext, clock: Clock, note: Callable[[AuditEntry], None]) -> None:
        self._route, self._call, self._clock, self._note = route, call, clock, note

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Record requests that the caller's key does not permit."""
        try:
            yield
        except Forbidden as error:
            if self._call.auth == "ok":
                self._note(self._make_entry("refused", error.message))
            raise

    def done(self, reply: HandlerReply | dict[str, Any]) -> None:
        """Record a change, if there was one."""
        content = reply.content if isinstance(reply, HandlerReply) else reply
        fields: Mapping[str, Any] = content if isinstance(content, dict) else {}
        if self._call.auth == "ok" and self._route.writes_audit and not fields.get("dry_run"):
            self._note(self._make_entry("done", summarize_response(fields)))

    def _make_entry(self, outcome: str, summary: str) -> AuditEntry:
        path = self._route.path.replace("{id}", str(self._call.id)).replace("{table}", self._call.table)
        return self._call.entry(f"{self._route.method} {path}", outcome, summary, self._clock())


def summarize_response(content: Mapping[str, Any]) -> str:
    """Return the ids of memories and changesets in a reply, without texts."""
    names = _NAMED if "table" not in content else ("changeset",)  # the id of a knowledge row contains words
    parts = [f"{name.replace('_', ' ')} {content[name]}" for name in names if isinstance(content.get(name), int)]
    result_ids = [result.get("id") for result in content.get("results", ()) if isinstance(result, dict)]
    ids = [str(result_id) for result_id in result_ids if isinstance(result_id, int)]
    listed = [f"ids {' '.join(ids[:_MOST])}{' …' if len(ids) > _MOST else ''}"] if ids else []
    return ", ".join(parts + listed)
