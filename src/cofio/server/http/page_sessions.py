"""Sessions of the web pages: a link that works once is exchanged for a cookie. Both are lost when the service stops.

A browser sends a cookie to every port of a host. So each service has its own cookie name, and on Linux a cookie counts
only when it comes from a process of the service's own user.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock

from starlette.requests import cookie_parser

from cofio.server.http.key_cache import Ticks

LINK_SECONDS = 120
SESSION_SECONDS = 12 * 3600
_MOST = 100  # links and sessions kept
_BYTES = 32


class PageSessions:
    """Open links and sessions, by digest, with the time at which they end."""

    def __init__(self, ticks: Ticks = time.monotonic) -> None:
        self._ticks = ticks
        self._lock = Lock()
        self._links: OrderedDict[str, float] = OrderedDict()
        self._sessions: OrderedDict[str, float] = OrderedDict()

    def issue_code(self) -> str:
        """Return the code of a new link."""
        with self._lock:
            return self._add(self._links, LINK_SECONDS)

    def redeem(self, code: str) -> str:
        """Return a new session for the code of a link, which then is used up; "" if it is unknown or too old."""
        with self._lock:
            if self._links.pop(_digest(code), 0.0) <= self._ticks():
                return ""
            return self._add(self._sessions, SESSION_SECONDS)

    def has_session(self, headers: Mapping[str, str]) -> bool:
        """Return whether a page of this service sent the request, with the cookie of a session."""
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return False
        session = cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")
        with self._lock:
            return self._sessions.get(_digest(session), 0.0) > self._ticks()

    def _add(self, entries: OrderedDict[str, float], seconds: float) -> str:
        secret = secrets.token_urlsafe(_BYTES)
        entries[_digest(secret)] = self._ticks() + seconds
        while len(entries) > _MOST:
            entries.popitem(last=False)
        return secret


def cookie_name(headers: Mapping[str, str]) -> str:
    """Return the name of the cookie, by the port in the request's address."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"cofio-session-{port if port.isdecimal() else 80}"


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
