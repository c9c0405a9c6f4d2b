"""Which memories were returned, for what and to whom, and how much was put before agents.

Noted off the request's path, in batches.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from cofio.errors import CofioError
from cofio.model import Briefing, Hit, Memory, Retrieval
from cofio.picture import Injection, Occasion
from cofio.ports import Clock, Store

_log = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two batches
_QUERY_CHARACTERS = 500
_MOST_WAITING = 50_000  # beyond that nothing is noted: a log may not eat the memory
_Line = TypeVar("_Line")


class RetrievalLog:
    """A buffer that a background thread empties into the store; reading counts empties it first."""

    def __init__(self, store: Store, clock: Clock, redact: Callable[[str], str] = str) -> None:
        self._store = store
        self._clock = clock
        self._redact = redact  # what is asked may hold a secret; that is seen to here, where nobody waits
        self._waiting: list[Retrieval] = []
        self._injected: list[Injection] = []
        self.told: Callable[[Injection], None] = lambda _: None  # hears at once of all that is put before agents
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, hits: Sequence[Hit | Memory], query: str, caller: str) -> None:
        """Remember that these were returned. Costs the caller an append."""
        if not hits:
            return
        at, asked = self._clock(), query[:_QUERY_CHARACTERS]
        self._wait(self._waiting, [Retrieval(hit.id, asked, caller, at) for hit in hits])

    def inject(self, told: Briefing, occasion: Occasion, caller: str) -> None:
        """Remember how much was put before an agent; also that nothing was. Costs the caller an append."""
        injection = Injection(self._clock(), caller, occasion, len(told.ids), told.tokens)
        self._wait(self._injected, [injection])
        self.told(injection)

    def _wait(self, waiting: list[_Line], lines: list[_Line]) -> None:
        with self._lock:
            if len(waiting) < _MOST_WAITING:
                waiting.extend(lines)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="cofio-retrievals", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Write what waits, now."""
        with self._writing:
            with self._lock:
                batch, injections = self._waiting[:], self._injected[:]
            if batch:
                clean = {each: self._redact(each) for each in {retrieval.query for retrieval in batch}}
                # What cannot be written waits for the next time.
                self._store.note([replace(each, query=clean[each.query]) for each in batch])
                with self._lock:
                    del self._waiting[: len(batch)]
            if injections:
                self._store.pictures.inject(injections)
                with self._lock:
                    del self._injected[: len(injections)]

    def close(self) -> None:
        """Write what waits and stop."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.flush_or_tell()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY):
            self.flush_or_tell()

    def flush_or_tell(self) -> None:
        """Write what waits, if the store takes it: nothing that only reads may fail because of a log."""
        try:
            self.flush()
        except CofioError as error:
            _log.warning("retrievals could not be noted: %s", error)
