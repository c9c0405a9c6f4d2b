"""Client of the upstream chat server: one request per connection, which another thread may close.

The answer is forwarded as it arrives, so it is read in chunks and never buffered in full unless asked for. Redirects
are not followed: the key is for one server only.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from cofio.errors import Misconfigured, Unavailable
from cofio.providers.http import build_opener, check_url

MOST = 64 << 20  # largest answer in bytes; no server may fill our memory or stream for ever
_LONGEST_ERROR = 1 << 20
_AT_ONCE = 1 << 16
_CONNECT = 15.0  # seconds to connect; the time to think is a setting
_HINT = "Is it up? CHAT_UPSTREAM_URL is its address, CHAT_UPSTREAM_TIMEOUT the longest silence in seconds."


class ReplyHead(NamedTuple):
    """Status and headers of an answer."""

    status: int
    headers: Mapping[str, str]  # by lower-case name; the last of repeated ones


class Upstream:
    """OpenAI-compatible server with its key. `timeout` is the longest silence in seconds."""

    def __init__(self, url: str, key: str = "", timeout: float = 600.0) -> None:
        self.url = check_url(url.strip(), "the chat upstream").rstrip("/")
        if key and not (key.isascii() and key.isprintable() and " " not in key.strip()):
            hint = "Set CHAT_UPSTREAM_KEY again, without line breaks."
            raise Misconfigured("The key for the chat upstream contains spaces or non-ASCII characters.", hint)
        self.key = key.strip()
        self._timeout = timeout
        self._opener = build_opener(self.url, _Plain(), _Secure(), _NoUpstreamRedirect())

    def line(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> UpstreamCall:
        """Prepare a request without sending it. It carries the key and the given headers only."""
        sent = {"Accept-Encoding": "identity", "User-Agent": "cofio", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if self.key:
            sent["Authorization"] = f"Bearer {self.key}"
        line = UpstreamCall(self._opener, self._timeout)
        line.request = _CancellableRequest(self.url + path, body, sent, line)
        return line


class UpstreamCall:
    """Request in progress with its answer. Used by one thread; any thread may hang it up."""

    request: _CancellableRequest

    def __init__(self, opened_by: urllib.request.OpenerDirector, timeout: float) -> None:
        self._opener = opened_by
        self._timeout = timeout
        self._reply: Any = None
        self._size = 0
        self._socket: socket.socket | None = None
        self._hung_up = False
        self._lock = threading.Lock()

    def open(self) -> ReplyHead:
        """Send the request and wait for the status and headers. Unavailable if none arrive."""
        try:
            self._reply = self._opener.open(self.request, timeout=self._timeout)
        except urllib.error.HTTPError as error:  # handled like any other answer
            self._reply = error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._silence(error) from error
        if not 200 <= self._reply.status < 600:
            raise Unavailable(f"The upstream answered {self._reply.status}, which is not an HTTP status.", _HINT)
        headers = {
            name.lower(): " ".join(value.split()) for name, value in self._reply.headers.items()
        }  # some headers are folded
        return ReplyHead(self._reply.status, headers)

    def read(self) -> bytes:
        """Return the bytes received, at least one; b"" at the end. Unavailable if the connection breaks."""
        try:
            part: bytes = self._reply.read1(_AT_ONCE)
        except (OSError, http.client.HTTPException, ValueError) as error:  # reading a closed reply raises ValueError
            raise self._silence(error) from error
        self._size += len(part)
        if self._size > MOST:
            raise Unavailable(f"The upstream's answer is longer than {MOST:,} bytes.", _HINT)
        if not part and self._reply.length:  # `read1` does not report that the connection was cut
            raise Unavailable("The upstream closed the connection in the middle of its answer.", _HINT)
        return part

    def whole(self) -> bytes:
        """Return the rest of the answer."""
        return b"".join(iter(self.read, b""))

    def error(self) -> bytes:
        """Return the body of an error response, as much as is readable."""
        try:
            raw: bytes = self._reply.read(_LONGEST_ERROR)
        except (OSError, http.client.HTTPException, ValueError):  # the status alone must do
            return b""
        return raw

    def hang_up(self) -> None:
        """Abort the request from any thread at any time: its reader gets an error."""
        with self._lock:
            self._hung_up = True
            if self._socket is not None:
                _shut(self._socket)

    def close(self) -> None:
        """Close the connection; called by the thread that uses it."""
        self.hang_up()
        if self._reply is not None:
            self._reply.close()

    def hold(self, connected: socket.socket) -> None:
        """Store the connection once it exists."""
        with self._lock:
            self._socket = connected
            if self._hung_up:
                raise ConnectionAbortedError("hung up")

    def _silence(self, error: Exception) -> Unavailable:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return Unavailable(f"The upstream sent nothing for {self._timeout:g} seconds.", _HINT)
        if self._reply is not None:
            return Unavailable("The upstream closed the connection in the middle of its answer.", _HINT)
        where = self.request.host if isinstance(self.request.host, str) else ""
        return Unavailable(f"The upstream could not be reached at {where}: {reason}.", _HINT)


class _CancellableRequest(urllib.request.Request):
    """urllib request with a reference to its line."""

    def __init__(self, url: str, body: bytes | None, headers: Mapping[str, str], line: UpstreamCall) -> None:
        super().__init__(url, body, dict(headers))
        self.line = line


class _CancellableConnection:
    """Connection that registers its socket with its line as soon as it exists."""

    sock: Any
    timeout: Any

    def __init__(self, *args: Any, line: UpstreamCall, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._line = line

    def connect(self) -> None:
        patience, self.timeout = self.timeout, min(self.timeout, _CONNECT)
        super().connect()  # type: ignore[misc]
        self.sock.settimeout(patience)
        self._line.hold(self.sock)


class _PlainConnection(_CancellableConnection, http.client.HTTPConnection):
    pass


class _SecureConnection(_CancellableConnection, http.client.HTTPSConnection):
    pass


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        assert isinstance(req, _CancellableRequest)
        return self.do_open(partial(_PlainConnection, line=req.line), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self) -> None:
        self._trusted = ssl.create_default_context()  # created once, as it reads all CA certificates
        super().__init__(context=self._trusted)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        assert isinstance(req, _CancellableRequest)
        return self.do_open(partial(_SecureConnection, line=req.line), req, context=self._trusted)


class _NoUpstreamRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _shut(connected: socket.socket) -> None:
    """Shut the socket down below TLS: the reading thread wakes up, without a lock."""
    with suppress(OSError):  # already closed
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
