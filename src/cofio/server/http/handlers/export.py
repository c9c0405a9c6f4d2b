"""Handler of the export: lines of JSON, streamed from one snapshot of the store."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

MEDIA = "application/x-ndjson"
_PART = 65_536  # minimum characters per chunk


def export(state: AppState, request: requests.ExportRequest, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(ExportStream(state.keeper.export_lines(vectors=request.vectors)))


class ExportStream:
    """Export as a stream: read no faster than it is sent."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._first = b""
        self._stopped = Event()

    def head(self) -> HandlerReply:
        """Return the status and headers. Errors of the store appear here, before the reply has started."""
        self._first = self._next()
        return HandlerReply(b"", media=MEDIA)

    def part(self) -> bytes:
        first, self._first = self._first, b""
        return first or self._next()

    def stop(self) -> None:
        self._stopped.set()

    def done(self) -> None:
        """Release the snapshot."""
        close = getattr(self._lines, "close", None)
        if close:
            close()

    def _next(self) -> bytes:
        parts: list[str] = []
        size = 0
        while size < _PART and not self._stopped.is_set() and (line := next(self._lines, "")):
            parts.append(line)
            size += len(line)
        return "".join(parts).encode()
