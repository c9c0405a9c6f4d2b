"""Client of the upstream chat server: one connection per request, which another thread may close.

The reply is forwarded as it arrives, so it is read in chunks and never buffered in full unless requested. Redirects
are not followed: the key is for one server only.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from cofio.errors import Unavailable
from cofio.providers.http import check_key, check_url, open_client, read_error

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 64 << 20  # of a reply
_MAX_ERROR_BYTES = 1 << 20
_CONNECT_TIMEOUT = 15.0  # seconds; the timeout for the reply is a setting
_HINT = "Check that the server at CHAT_UPSTREAM_URL runs; CHAT_UPSTREAM_TIMEOUT sets how long it may be silent."


class ReplyHead(NamedTuple):
    """Status and headers of a reply."""

    status: int
    headers: Mapping[str, str]  # by lower-case name; the last of repeated ones


class Upstream:
    """OpenAI-compatible server with its key. `timeout` is the longest silence in seconds."""

    def __init__(self, url: str, key: str = "", timeout: float = 600.0) -> None:
        self.url = check_url(url.strip(), "the chat upstream").rstrip("/")
        hint = "Set CHAT_UPSTREAM_KEY again, without line breaks."
        self.key = check_key(key, "The key for the chat upstream", hint)
        self.timeout = timeout

    @cached_property
    def client(self) -> httpx2.Client:
        """HTTP client, shared by all requests; created for the first one."""
        return open_client(self.url)

    def prepare(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> UpstreamCall:
        """Prepare a request without sending it. It carries the key and the given headers only."""
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        if self.key:
            sent["Authorization"] = f"Bearer {self.key}"
        return UpstreamCall(self, self.url + path, body, sent)


class UpstreamCall:
    """Request in progress with its reply. Used by one thread; any thread may cancel it."""

    def __init__(self, upstream: Upstream, url: str, body: bytes | None, headers: Mapping[str, str]) -> None:
        self._upstream = upstream
        self._url, self._body, self._headers = url, body, headers
        self._response: httpx2.Response | None = None
        self._parts: Iterator[bytes] = iter(())
        self._size = 0
        self._socket: socket.socket | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    def open(self) -> ReplyHead:
        """Send the request and wait for the status and headers. Unavailable if none arrive."""
        import httpx2

        timeout = self._upstream.timeout
        client = self._upstream.client
        request = client.build_request(
            "GET" if self._body is None else "POST",
            self._url,
            content=self._body,
            headers=self._headers,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, _CONNECT_TIMEOUT)),
            extensions={"trace": self._trace},
        )
        try:
            self._response = client.send(request, stream=True)
        except (httpx2.RequestError, httpx2.InvalidURL, ValueError) as error:
            raise self._map_error(error) from error
        status = self._response.status_code
        if not 200 <= status < 600:
            raise Unavailable(f"The chat upstream answered {status}, which is not an HTTP status.", _HINT)
        self._parts = self._response.iter_bytes()
        return ReplyHead(status, dict(self._response.headers.multi_items()))

    def read(self) -> bytes:
        """Return the bytes received, at least one; b"" at the end. Unavailable if the connection breaks."""
        import httpx2

        try:
            part = next(self._parts, b"")
        except (httpx2.RequestError, httpx2.StreamError) as error:
            raise self._map_error(error) from error
        self._size += len(part)
        if self._size > MAX_BYTES:
            raise Unavailable(f"The chat upstream's answer is longer than {MAX_BYTES:,} bytes.", _HINT)
        return part

    def read_all(self) -> bytes:
        """Return the rest of the reply."""
        return b"".join(iter(self.read, b""))

    def read_error(self) -> bytes:
        """Return the body of an error response, as much as is readable."""
        return b"" if self._response is None else read_error(self._response, _MAX_ERROR_BYTES)

    def cancel(self) -> None:
        """Abort the request from any thread at any time: its reader gets an error."""
        with self._lock:
            self._cancelled = True
            self._shut_down()

    def close(self) -> None:
        """Close the connection; called by the thread that uses it."""
        self.cancel()
        if self._response is not None:
            self._response.close()

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Keep the socket of a new connection, of TCP or TLS. A cancelled request gets one that is shut down."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._socket = details["return_value"].get_extra_info("socket")
                if self._cancelled:
                    self._shut_down()

    def _shut_down(self) -> None:
        """Shut the socket down below TLS: the reading thread wakes up, without a lock."""
        if self._socket is not None:
            with suppress(OSError):  # already closed
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _map_error(self, error: Exception) -> Unavailable:
        import httpx2

        if isinstance(error, httpx2.TimeoutException):
            return Unavailable(f"The chat upstream was silent for {self._upstream.timeout:g} seconds.", _HINT)
        if self._response is not None:
            return Unavailable("The chat upstream closed the connection in the middle of its answer.", _HINT)
        return Unavailable(f"The chat upstream could not be reached at {self._upstream.url}: {error}.", _HINT)
