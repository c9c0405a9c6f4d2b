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
    TooManyTries,
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
#: What OpenAI's API calls an error of this status; what is not here is an api_error.
_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    405: "invalid_request_error", 413: "invalid_request_error", 429: "rate_limit_error",
}  # fmt: skip
_UNTRIED = {501: {"X-Should-Retry": "false"}}  # OpenAI's clients would ask twice more


def refusal(
    error: CofioError, status: int | None = None, headers: Mapping[str, str] | None = None, *, path: str = ""
) -> Response:
    """What went wrong, with what to do about it; below /v1 as OpenAI's clients read it."""
    nearest = next((each for each in type(error).__mro__ if each in _STATUS), CofioError)
    more = _headers(error) if headers is None else headers
    code = status or _STATUS.get(nearest, 500)
    told = {"code": error.code, "message": _clipped(error.message), "hint": _clipped(error.hint)}
    if path.startswith("/v1/"):
        told, more = {**told, **openai_error(_clipped(str(error)), code)}, {**more, **_UNTRIED.get(code, {})}
    return written(Reply({"error": told}, code, headers=more))


def openai_error(message: str, status: int) -> dict[str, str]:
    """What OpenAI's clients read in an error, beside its code."""
    return {"message": message, "type": _TYPES.get(status, "api_error")}


def _headers(error: CofioError) -> Mapping[str, str]:
    if isinstance(error, TooManyTries):
        return {"Retry-After": str(error.seconds)}
    return _HEADERS.get(type(error), {})


def to_stranger(error: CofioError) -> CofioError:
    """What somebody is told who has no business to know where the store is; the log has the rest."""
    if not isinstance(error, StoreError):
        return error
    return type(error)(
        "The store does not answer just now.", "Try again in a moment; the service's log has the details."
    )


def failure(path: str = "") -> Response:
    """What an unexpected error looks like from outside; its details are in the log only."""
    hint = "The service's log has the details; please report it."
    return refusal(CofioError("Something went wrong inside cofio.", hint), path=path)


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
