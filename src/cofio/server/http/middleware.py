"""Outermost middleware: counts and logs requests, and converts exceptions to replies."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cofio.errors import CofioError, Unavailable
from cofio.server.http.metrics import Metrics
from cofio.server.http.peer import is_loopback
from cofio.server.http.responses import failure, redact_for_stranger, refusal

STRANGER = "cofio.stranger"  # in a request's scope: whether internals must be hidden from the caller
_log = logging.getLogger("cofio.server.http")
_ENDING = Unavailable("The service is stopping.", "Captures it accepted are stored; retry when it is back.")
_GONE = 499  # the client has disconnected; status used in the log only


class RequestMiddleware:
    """Outermost layer of the service, the only place that catches everything."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        with self._metrics.in_flight.track_inprogress():
            status = await self._run_app(scope, receive, send)
        seconds = time.perf_counter() - began
        route = getattr(scope.get("endpoint"), "path", "other")
        self._metrics.answered(route, scope["method"], status, seconds)
        level = logging.INFO if status >= 400 else logging.DEBUG  # a log of every reply would grow without limit
        _log.log(level, "%s %s %d %.1f ms", scope["method"], route, status, seconds * 1000)

    async def _run_app(self, scope: Scope, receive: Receive, send: Send) -> int:
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            return status or _GONE
        except CancelledError:  # the shutdown timeout has passed
            if not status:
                await refusal(_ENDING, path=scope["path"])(scope, receive, noting)
        except CofioError as error:
            # Internals are hidden from strangers; before the key check, from all other machines.
            is_stranger = scope.get(STRANGER, not is_loopback((scope.get("client") or ("",))[0]))
            reply = refusal(redact_for_stranger(error) if is_stranger else error, path=scope["path"])
            if reply.status_code >= 500:
                _log.warning("%s %s: %s", scope["method"], type(error).__name__, error)
            await reply(scope, receive, noting)
        except Exception:  # noqa: BLE001 - outermost layer: log bugs and return a uniform error
            _log.exception("Unexpected error while answering a %s request", scope["method"])
            if not status:
                await failure(scope["path"])(scope, receive, noting)
        return status
