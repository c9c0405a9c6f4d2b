"""That something has moved, told to all who watch: one looks for all of them, and only while there are any.

    store's pulse ─ a look every now and then ─▶ News ─ since ─▶ Watching, a relay for each reader

A reader that is told nothing for long is told that we are still here. After a while it has to come again, so that a key
that was revoked does not watch for ever.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable

from cofio.api.replies import Reply
from cofio.errors import CofioError, Unavailable
from cofio.picture import Pulse

MEDIA = "text/event-stream"
STILL = 15.0  # seconds without news, after which a reader is told that we are there
_EVERY = 0.5  # seconds between two looks, which cost next to nothing
_LONGEST = 900.0  # seconds that a reader stays; then it shows its key anew
_HERE = b"event: here\ndata: {}\n\n"
_STILL_HERE = b": still here\n\n"
_log = logging.getLogger(__name__)


class News:
    """How the store stands, as of the last look. For any number of threads."""

    def __init__(self, pulse: Callable[[], Pulse], *, every: float = _EVERY) -> None:
        self._pulse, self._every = pulse, every
        self._told = threading.Condition()
        self._latest: Pulse | None = None
        self._watchers = 0
        self._ended = False
        self._looking: threading.Thread | None = None

    @property
    def watchers(self) -> int:
        """How many watch."""
        return self._watchers

    @property
    def looks(self) -> bool:
        """Whether anybody looks."""
        return self._looking is not None

    def enter(self) -> Pulse:
        """Begin to watch; how things stand now. Whoever enters leaves."""
        now = self._pulse()
        with self._told:
            if self._ended:
                raise Unavailable("The service is stopping.", "Ask again when it is back.")
            self._watchers += 1
            self._latest = now
            if self._looking is None or not self._looking.is_alive():  # a look that failed badly ends no later one
                self._looking = threading.Thread(target=self._look, name="cofio-news", daemon=True)
                self._looking.start()
            self._told.notify_all()
        return now

    def leave(self) -> None:
        with self._told:
            self._watchers -= 1
            self._told.notify_all()

    def since(self, seen: Pulse, seconds: float, is_over: Callable[[], bool]) -> Pulse | None:
        """How things stand once they are not as seen, or so much time has passed; None when it is over."""
        with self._told:
            self._told.wait_for(lambda: self._ended or is_over() or self._latest != seen, seconds)
            return None if self._ended or is_over() else self._latest

    def stir(self) -> None:
        """Have everybody look up who waits."""
        with self._told:
            self._told.notify_all()

    def end(self) -> None:
        """Have everybody go home. Waits for nobody."""
        with self._told:
            self._ended = True
            self._told.notify_all()

    def close(self) -> None:
        """The same, and wait until nobody looks any more."""
        self.end()
        if looking := self._looking:
            looking.join()

    def _look(self) -> None:
        while self._pause():
            try:
                now = self._pulse()
            except CofioError as error:
                _log.warning("whether anything has moved is not known: %s", error)
                continue
            with self._told:
                if now != self._latest:
                    self._latest = now
                    self._told.notify_all()

    def _pause(self) -> bool:
        """Wait for the next look; False when nobody watches any more."""
        with self._told:
            self._told.wait_for(lambda: self._ended or not self._watchers, self._every)
            if self._ended or not self._watchers:
                self._looking = None
                return False
            return True


class Watching:
    """What moves, as a relay of events for one reader."""

    def __init__(self, news: News, *, still: float = STILL, longest: float = _LONGEST) -> None:
        self._news, self._still = news, still
        self._until = time.monotonic() + longest
        self._seen: Pulse | None = None
        self._greeted = self._stopped = False

    def head(self) -> Reply:
        self._seen = self._news.enter()
        return Reply(b"", media=MEDIA, headers={"X-Accel-Buffering": "no"})

    def part(self) -> bytes:
        if not self._greeted:
            self._greeted = True
            return _HERE
        seen = self._seen
        now = self._news.since(seen, self._still, self._is_over) if seen else None
        if seen is None or now is None:
            return b""
        self._seen = now
        moved = now.moved(seen)
        return f"event: moved\ndata: {json.dumps({'what': moved})}\n\n".encode() if moved else _STILL_HERE

    def done(self) -> None:
        if self._seen is not None:
            self._news.leave()

    def stop(self) -> None:
        self._stopped = True
        self._news.stir()

    def _is_over(self) -> bool:
        return self._stopped or time.monotonic() >= self._until
