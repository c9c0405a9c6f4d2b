"""Replies of handlers and of errors, and how they are written. The types of replies are in `response_types`.

Errors have one format and one table of statuses, and show no internals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from cofio.errors import (
    CofioError,
    Conflict,
    Denied,
    EmbedderMismatch,
    Forbidden,
    InvalidInput,
    NotConfigured,
    NotFound,
    RefusedError,
    StoreBusy,
    StoreError,
    TooBusy,
    TooLarge,
    TooManyTries,
    Unavailable,
    Unreadable,
)
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


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: By the nearest class; 500 for all others.
_STATUS: Mapping[type[CofioError], int] = {
    InvalidInput: 400,
    TooLarge: 413,
    Denied: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    EmbedderMismatch: 409,
    NotConfigured: 501,
    TooBusy: 429,
    RefusedError: 502,
    Unreadable: 502,
    StoreError: 503,
    Unavailable: 503,
}
_HEADERS: Mapping[type[CofioError], Mapping[str, str]] = {
    StoreBusy: {"Retry-After": "1"},
    TooBusy: {"Retry-After": "5"},
    TooLarge: {"Connection": "close"},  # parts of the body may still be on their way
}
_LONGEST = 1_000  # in characters: a message may quote the request
#: OpenAI's error types by status; api_error for all others.
_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    405: "invalid_request_error", 413: "invalid_request_error", 429: "rate_limit_error",
}  # fmt: skip
_UNTRIED = {501: {"X-Should-Retry": "false"}}  # OpenAI's clients would retry twice


def refusal(
    error: CofioError, status: int | None = None, headers: Mapping[str, str] | None = None, *, path: str = ""
) -> Response:
    """Return the error reply with its hint; below /v1 in OpenAI's format."""
    nearest = next((kind for kind in type(error).__mro__ if kind in _STATUS), CofioError)
    more = headers or _HEADERS.get(type(error), {})
    if isinstance(error, TooManyTries):
        more = {"Retry-After": str(error.seconds)}
    code = status or _STATUS.get(nearest, 500)
    body = {"code": error.code, "message": _clip(error.message), "hint": _clip(error.hint)}
    if path.startswith("/v1/"):
        body, more = {**body, **openai_error(_clip(str(error)), code)}, {**more, **_UNTRIED.get(code, {})}
    return to_response(HandlerReply({"error": body}, code, headers=more))


def openai_error(message: str, status: int) -> dict[str, str]:
    """Return the fields of OpenAI's error format, besides the code."""
    return {"message": message, "type": _TYPES.get(status, "api_error")}


def redact_for_stranger(error: CofioError) -> CofioError:
    """Return the error for callers who may not know details of the store; these are in the log."""
    if not isinstance(error, StoreError):
        return error
    return type(error)(
        "The store is not available at the moment.", "Retry in a moment; the service's log has the details."
    )


def failure(path: str = "") -> Response:
    """Return the reply to an unexpected error; details are only in the log."""
    hint = "See the log of the service for details, and report the error."
    return refusal(CofioError("An internal error occurred in cofio.", hint), path=path)


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
