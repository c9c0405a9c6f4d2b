"""Errors as replies: one shape, one table of statuses, nothing of our insides."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from cofio.api.replies import Reply, written
from cofio.errors import (
    CofioError,
    Conflict,
    Denied,
    EmbedderMismatch,
    Forbidden,
    InvalidInput,
    NotConfigured,
    NotFound,
    Refused,
    StoreBusy,
    StoreError,
    TooBusy,
    TooLarge,
    Unavailable,
    Unreadable,
)

#: The nearest class decides; what is not here is 500.
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
    Refused: 502,
    Unreadable: 502,
    StoreError: 503,
    Unavailable: 503,
}
_HEADERS: Mapping[type[CofioError], Mapping[str, str]] = {
    StoreBusy: {"Retry-After": "1"},
    TooBusy: {"Retry-After": "5"},
    TooLarge: {"Connection": "close"},  # some of the body may be on its way still
}
_LONGEST = 1_000  # characters: a message may quote what was sent


def refusal(error: CofioError, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """What went wrong, with what to do about it."""
    nearest = next((each for each in type(error).__mro__ if each in _STATUS), CofioError)
    more = _HEADERS.get(type(error), {}) if headers is None else headers
    told = {"code": error.code, "message": _clipped(error.message), "hint": _clipped(error.hint)}
    return written(Reply({"error": told}, status or _STATUS.get(nearest, 500), headers=more))


def failure() -> Response:
    """What an unexpected error looks like from outside; its details are in the log only."""
    hint = "The service's log has the details; please report it."
    return refusal(CofioError("Something went wrong inside cofio.", hint))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
