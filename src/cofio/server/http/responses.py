"""Replies of handlers and errors, and how they are written. The types of replies are in `response_types`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from cofio.server.http.response_types import ResponseModel

JSON = "application/json"
#: On every reply: no caching, no framing, no access for other sites.
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class StreamBody(Protocol):
    """Reply streamed from another source. One thread at a time makes the calls; any thread may stop it."""

    def head(self) -> HandlerReply:
        """Wait for the status and headers; the content is in it if complete, else `part` returns it."""

    def part(self) -> bytes:
        """Wait for the next chunk; b"" at the end."""

    def done(self) -> None:
        """Clean up, after the reply was sent or the client disconnected."""

    def stop(self) -> None:
        """Wake the thread that waits for the rest."""


class HandlerReply(NamedTuple):
    """Reply other than a dictionary with status 200."""

    content: dict[str, Any] | bytes | StreamBody
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = {}


def to_response(reply: HandlerReply | dict[str, Any]) -> Response:
    """Return the reply as bytes, with the common headers. Streams are handled by `streaming.StreamResponse`."""
    content, status, media, headers = reply if isinstance(reply, HandlerReply) else HandlerReply(reply)
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(body, status, {**HEADERS, **headers}, media)


class FaultResponse(ResponseModel):
    code: str
    message: str
    hint: str
    type: str | UnsetType = UNSET  # only below /v1: the error type of OpenAI's API


class ErrorResponse(ResponseModel):
    error: FaultResponse
