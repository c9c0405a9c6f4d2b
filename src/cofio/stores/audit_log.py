"""Buffered writes to the audit log, outside the request path."""

from __future__ import annotations

import logging
import threading

from cofio.errors import CofioError
from cofio.models.auth import AuditEntry
from cofio.ports import Store

_log = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two batches
_MOST_WAITING = 10_000  # beyond that, entries go to the service's own log: the list must not exhaust memory
_MINUTE = len("2026-01-01T00:00")  # of a time: the last use of a key is recorded once a minute


class AuditLog:
    """Buffer of audit log entries that a background thread writes to the store; reading the log flushes it first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[AuditEntry] = []
        self._used: dict[int, str] = {}  # pending writes by key id
        self._noted: dict[int, str] = {}  # minute of the last recorded use, by key id
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, entry: AuditEntry) -> None:
        """Queue an entry. Costs the caller an append."""
        with self._lock:
            if len(self._waiting) < _MOST_WAITING:
                self._waiting.append(entry)
            else:
                _log.warning(
                    "Entry missing from the audit log, since too many entries wait to be written: %s %s by %s",
                    entry.act,
                    entry.outcome,
                    entry.name,
                )
            self._begin()

    def used(self, key_id: int, at: str) -> None:
        """Queue the last use of a key. Costs the caller a dictionary look-up."""
        with self._lock:
            if self._noted.get(key_id) == at[:_MINUTE]:
                return
            self._noted[key_id] = at[:_MINUTE]
            self._used[key_id] = at
            self._begin()

    def flush(self) -> None:
        """Write pending entries now."""
        with self._writing:
            with self._lock:
                batch, used = self._waiting[:], dict(self._used)
            if batch:
                self._store.keys.log(batch)  # on failure, kept for the next time
                with self._lock:
                    del self._waiting[: len(batch)]
            if used:
                self._store.keys.used(used)
                with self._lock:
                    self._used = {key_id: at for key_id, at in self._used.items() if used.get(key_id) != at}

    def flush_or_tell(self) -> None:
        """Write pending entries; log a failure, which must not fail the request."""
        try:
            self.flush()
        except CofioError as error:
            _log.warning("The audit log could not be written: %s", error)

    def close(self) -> None:
        """Write pending entries and stop."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.flush_or_tell()

    def _begin(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="cofio-audit", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY):
            self.flush_or_tell()
