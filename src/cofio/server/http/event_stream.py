"""Change notification for event streams: one thread polls for all readers, and only while there are any.

    store's pulse ─ polled ─▶ News ─ since ─▶ Watching, a stream for each reader

A reader without news gets a keep-alive. After a while it has to reconnect, so that a revoked key does not watch for
ever.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from cofio.errors import CofioError, Unavailable
from cofio.models.dashboard import ChangeCounters
from cofio.server.http.responses import HandlerReply

MEDIA = "text/event-stream"
STILL = 15.0  # seconds without news, after which a keep-alive is sent
_EVERY = 0.5  # seconds between two polls, which are cheap
_LONGEST = 900.0  # longest stream in seconds; to reconnect, the reader needs a valid key
_HERE = b"event: here\ndata: {}\n\n"
_STILL_HERE = b": still here\n\n"
_log = logging.getLogger(__name__)
#: Return the kinds of changes between two states that the reader may know of.
Moved: TypeAlias = Callable[[ChangeCounters, ChangeCounters], list[str]]


def name_all(since: ChangeCounters, now: ChangeCounters) -> list[str]:
    """Return every kind of change."""
    return now.moved(since)


class EventBroadcaster:
    """State of the store as of the last poll. Thread-safe."""

    def __init__(self, pulse: Callable[[], ChangeCounters], *, every: float = _EVERY) -> None:
        self._pulse, self._every = pulse, every
        self._condition = threading.Condition()
        self._latest: ChangeCounters | None = None
        self._watchers = 0
        self._ended = False
        self._looking: threading.Thread | None = None

    @property
    def watchers(self) -> int:
        """Number of readers."""
        return self._watchers

    @property
    def looks(self) -> bool:
        """Return whether the polling thread runs."""
        return self._looking is not None

    def enter(self) -> ChangeCounters:
        """Register a reader and return the current state. Every `enter` needs a `leave`."""
        now = self._pulse()
        with self._condition:
            if self._ended:
                raise Unavailable("The service is stopping.", "Reconnect when it is back.")
            self._watchers += 1
            self._latest = now
            if self._looking is None or not self._looking.is_alive():  # a crashed polling thread is replaced
                self._looking = threading.Thread(target=self._look, name="cofio-news", daemon=True)
                self._looking.start()
            self._condition.notify_all()
        return now

    def leave(self) -> None:
        with self._condition:
            self._watchers -= 1
            self._condition.notify_all()

    def since(self, seen: ChangeCounters, seconds: float, is_over: Callable[[], bool]) -> ChangeCounters | None:
        """Return the state once it differs from `seen`, or after `seconds`; None if the stream is over."""
        with self._condition:
            self._condition.wait_for(lambda: self._ended or is_over() or self._latest != seen, seconds)
            return None if self._ended or is_over() else self._latest

    def wake_readers(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def end(self) -> None:
        """End all streams, without waiting."""
        with self._condition:
            self._ended = True
            self._condition.notify_all()

    def close(self) -> None:
        """End all streams, and wait for the polling thread."""
        self.end()
        if looking := self._looking:
            looking.join()

    def _look(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._ended or not self._watchers, self._every)
                if self._ended or not self._watchers:
                    self._looking = None
                    return
            try:
                now = self._pulse()
            except CofioError as error:
                _log.warning("the event stream cannot check the store for changes: %s", error)
                continue
            with self._condition:
                if now != self._latest:
                    self._latest = now
                    self._condition.notify_all()


class EventStream:
    """Event stream for one reader."""

    def __init__(
        self, news: EventBroadcaster, moved: Moved = name_all, *, still: float = STILL, longest: float = _LONGEST
    ) -> None:
        self._news, self._moved, self._still = news, moved, still
        self._until = time.monotonic() + longest
        self._seen: ChangeCounters | None = None
        self._greeted = self._stopped = False

    def head(self) -> HandlerReply:
        self._seen = self._news.enter()
        return HandlerReply(b"", media=MEDIA, headers={"X-Accel-Buffering": "no"})

    def part(self) -> bytes:
        if not self._greeted:
            self._greeted = True
            return _HERE
        until = time.monotonic() + self._still
        while previous := self._seen:
            now = self._news.since(previous, max(0.0, until - time.monotonic()), self._is_over)
            if now is None:
                break
            self._seen = now
            if now == previous:
                return _STILL_HERE
            if moved := self._moved(previous, now):  # of what others did, not even a keep-alive tells
                return f"event: moved\ndata: {json.dumps({'what': moved})}\n\n".encode()
        return b""

    def done(self) -> None:
        if self._seen is not None:
            self._news.leave()

    def stop(self) -> None:
        self._stopped = True
        self._news.wake_readers()

    def _is_over(self) -> bool:
        return self._stopped or time.monotonic() >= self._until
