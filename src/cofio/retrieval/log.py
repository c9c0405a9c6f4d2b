"""Log of returned memories and injected context, written asynchronously in batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from cofio.errors import CofioError, InvalidInput
from cofio.models.dashboard import Injection, Occasion
from cofio.models.memory import MAX_LABEL, Briefing, Hit, Memory, Retrieval, days_before, to_utc_iso
from cofio.ports import Clock, Store

_log = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two batches
_QUERY_CHARACTERS = 500
_MOST_WAITING = 50_000  # entries; further ones are dropped to bound memory use
_LATE_DAYS = 90  # maximum age of a recall that is reported later
_Line = TypeVar("_Line")
OfflineRecall: TypeAlias = tuple[str, str, Sequence[int]]  # time, caller, ids of the memories
ImportRecalls: TypeAlias = Callable[[Sequence[OfflineRecall]], None]


class RetrievalLog:
    """Buffer that a background thread writes to the store; reading counts flushes it first."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        redact: Callable[[str], str] = str,
        read_offline_log: Callable[[ImportRecalls], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._read_offline_log = read_offline_log  # passes on the recalls that hooks made without the service
        self._redact = redact  # redacts secrets in queries, on the background thread
        self._waiting: list[Retrieval] = []
        self._injected: list[Injection] = []
        self.on_inject: Callable[[Injection], None] = lambda _: None  # called at once for each injection
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, hits: Sequence[Hit | Memory], query: str, caller: str) -> None:
        """Log returned memories. Only appends to the buffer."""
        if not hits:
            return
        at, logged = self._clock(), query[:_QUERY_CHARACTERS]
        self._append(self._waiting, [Retrieval(hit.id, logged, caller, at) for hit in hits])

    def inject(self, briefing: Briefing, occasion: Occasion, caller: str) -> None:
        """Log an injection, even an empty one. Only appends to the buffer."""
        injection = Injection(self._clock(), caller, occasion, len(briefing.ids), briefing.tokens)
        self._append(self._injected, [injection])
        self.on_inject(injection)

    def _append(self, waiting: list[_Line], lines: list[_Line]) -> None:
        with self._lock:
            if len(waiting) < _MOST_WAITING:
                waiting.extend(lines)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="cofio-retrievals", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Write the buffer now."""
        with self._writing:
            with self._lock:
                batch, injections = self._waiting[:], self._injected[:]
            if batch:
                clean = {query: self._redact(query) for query in {retrieval.query for retrieval in batch}}
                # On failure the entries stay in the buffer.
                self._store.note([replace(retrieval, query=clean[retrieval.query]) for retrieval in batch])
                with self._lock:
                    del self._waiting[: len(batch)]
            if injections:
                self._store.dashboard.inject(injections)
                with self._lock:
                    del self._injected[: len(injections)]

    def import_recalls(self, recalls: Sequence[OfflineRecall]) -> None:
        """Count recalls made without the service. An impossible time is replaced by now."""
        now = self._clock()
        earliest = days_before(now, _LATE_DAYS)
        retrievals = []
        for at, caller, ids in recalls:
            try:
                when = to_utc_iso(at)
            except InvalidInput:
                when = now
            dated = when if earliest < when < now else now
            retrievals += [Retrieval(memory_id, "", caller[:MAX_LABEL], dated) for memory_id in ids]
        self._store.note(retrievals)

    def flush_all(self) -> None:
        """Write the buffer and the recalls made without the service; log a failure instead of raising."""
        try:
            self._read_offline_log(self.import_recalls)
        except (OSError, CofioError) as error:
            _log.warning("Recalls by other processes could not be counted and are retried later: %s", error)
        self.flush_or_tell()

    def close(self) -> None:
        """Write the buffer and stop the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.flush_or_tell()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY):
            self.flush_or_tell()

    def flush_or_tell(self) -> None:
        """Write the buffer; log a failure instead of raising, so that logging never breaks a read."""
        try:
            self.flush()
        except CofioError as error:
            _log.warning("The log of retrievals could not be written: %s", error)
