"""Limits of connections: size and time of request headers, idle time, number of connections.

    connected ─▶ waiting for a complete request ─▶ answering ─▶ waiting ...
                 closed after a time limit, or when the connections run out

A service on this machine sees every client at one address. So an arriving connection is not refused while another one
waits: the one that has waited longest is closed instead.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from cofio.errors import CofioError, InvalidInput, TooBusy, TooLarge
from cofio.server.http.peer import PEER, Peer
from cofio.server.http.responses import refusal

_PATIENCE = 16  # multiple of the limit of headers that is read and discarded after a refusal
_HINT = "Send a request as HTTP/1.1 defines it."


def _count_connections() -> int:
    """Return the number of connections to keep open: at most half of the process's file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000 if soft == resource.RLIM_INFINITY else max(8, min(1_000, soft // 2))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of each connection, in bytes and seconds, and of all connections."""

    header_bytes: int = 65_536
    header_count: int = 100
    request_line: int = 16_384
    pipelined: int = 16  # requests sent before the reply to the first
    header_seconds: float = 10  # from the connection to the end of the first request's headers
    idle_seconds: float = 20  # from a reply to the end of the next request's headers
    write_seconds: float = 20  # for a client that does not read its reply
    linger_seconds: float = 5  # for a client that still sends after it was refused
    connections: int = field(default_factory=_count_connections)
    share: float = 0.75  # of the connections that one address may use

    @property
    def per_address(self) -> int:
        return max(1, int(self.connections * self.share))

    @property
    def backlog(self) -> int:
        """Return how many clients the operating system may hold ready: each takes a file descriptor at once."""
        return max(16, self.connections // 2)


class ConnectionPool:
    """Open connections by address, and those that wait for a complete request, longest first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._addresses: dict[LimitedProtocol, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[LimitedProtocol, None] = {}

    def add(self, connection: LimitedProtocol, address: str) -> bool:
        """Add a connection; return whether there is room, if need be after closing a waiting one."""
        if self._counts[address] >= self.limits.per_address:
            has_room = self._evict(address)
        else:
            has_room = len(self._addresses) < self.limits.connections or self._evict()
        self._addresses[connection] = address
        self._counts[address] += 1
        return has_room

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection, which may have been removed before."""
        self._waiting.pop(connection, None)
        if (address := self._addresses.pop(connection, None)) is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def set_waiting(self, connection: LimitedProtocol, *, is_waiting: bool) -> None:
        self._waiting.pop(connection, None)
        if is_waiting:
            self._waiting[connection] = None

    def _evict(self, address: str | None = None) -> bool:
        """Close the connection that has waited longest, of this address or else of the one with most connections."""
        busiest = max(self._counts, key=self._counts.__getitem__) if address is None else address
        others = self._waiting if address is None else ()
        waiting = (connection for connection in self._waiting if self._addresses[connection] == busiest)
        victim = next(chain(waiting, others), None)
        if victim is None:
            return False
        self.remove(victim)
        victim.abort()
        return True


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on headers, time and connections."""

    def __init__(self, pool: ConnectionPool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._pool, self._limits = pool, pool.limits
        self.timeout_keep_alive = pool.limits.idle_seconds  # type: ignore[assignment]
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._unparsed = 0  # bytes since the last complete headers or part of a body
        self._header_bytes = 0
        self._cycles: deque[RequestResponseCycle] = deque()  # requests without a complete reply, in order
        self._problem: tuple[CofioError, int] | None = None
        self._is_refused = False

    # ── connection ────────────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = Peer(self.client, self.server)
        if self._pool.add(self, self.client[0] if self.client else ""):
            self._pool.set_waiting(self, is_waiting=True)
            self._close_after(self._limits.header_seconds)
        else:
            hint = "Retry in a moment, with fewer connections at once."
            self._refuse(TooBusy("The service has too many connections.", hint), 503)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.remove(self)
        self._stop_timer()
        self._disconnect()
        self.resume_writing()
        super().connection_lost(exc)

    def abort(self) -> None:
        self._disconnect()
        self.transport.abort()

    def _disconnect(self) -> None:
        """Let no handler write any more; uvicorn tells the last one only."""
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()

    def _close_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.abort)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    # ── request ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        if self._is_refused:
            if self._unparsed > _PATIENCE * self._limits.header_bytes:
                self.abort()
            return
        super().data_received(data)
        if self._unparsed > self._limits.header_bytes and not self._is_refused:
            self._refuse(*self._too_large())

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        super().on_message_begin()
        self.scope[PEER] = self._peer  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.request_line:
            limit = f"The limit is {self._limits.request_line:,} bytes."
            self._problem = TooLarge("The request line is too long.", limit), 414
            raise self._problem[0]

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._limits.header_bytes or len(self.headers) >= self._limits.header_count:
            self._problem = self._too_large()
            raise self._problem[0]
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self._stop_timer()
        if len(self._cycles) >= self._limits.pipelined:
            raise InvalidInput("Too many requests are pipelined.")
        super().on_headers_complete()
        self._cycles.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        super().on_message_complete()
        self._pool.set_waiting(self, is_waiting=False)
        if self.cycle.response_complete:  # the rest of a body that was refused
            self._wait_for_request()

    def _too_large(self) -> tuple[CofioError, int]:
        most = f"The limits are {self._limits.header_count} headers and {self._limits.header_bytes:,} bytes."
        return TooLarge("The headers of the request are too large.", most), 431

    # ── reply ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_response_complete(self) -> None:
        has_next = bool(self.pipeline)
        self._cycles.popleft()
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_after(self._limits.write_seconds)
        elif self.cycle.more_body and not has_next:  # the rest of a body that was refused
            self._close_after(self._limits.linger_seconds)
        elif not has_next:
            self._wait_for_request()

    def _wait_for_request(self) -> None:
        self._pool.set_waiting(self, is_waiting=True)
        self._close_after(self._limits.idle_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._limits.write_seconds, self.abort)

    def resume_writing(self) -> None:
        if self._write_timer:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, or that exceeds a limit."""
        self._refuse(*(self._problem or (InvalidInput(msg, _HINT), 400)))

    def _refuse(self, error: CofioError, status: int) -> None:
        """Send the error and close the connection once the client has read it."""
        self._is_refused = True
        if self._cycles and self._cycles[0].response_started:
            self.abort()
            return
        self._disconnect()
        self.flow.resume_reading()  # to notice the end of the connection
        reply = refusal(error, status, {"Connection": "close"})
        headers: Sequence[tuple[bytes, bytes]] = [*self.server_state.default_headers, *reply.raw_headers]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(reply.body))
        self._close_after(self._limits.linger_seconds)
