"""Background worker: drains the inbox in its own thread, oldest first, one item or one batch of a session at a time.

Items are not processed in parallel, because later statements may correct earlier ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from cofio.core import Keeper
from cofio.errors import CofioError, StoreBusy
from cofio.ports import Probeable

_POLL = 2.0  # seconds between two checks of the inbox without a wake-up
_QUIET = 0.02  # seconds without a capture before the next item is processed
_PATIENCE = 1.0  # longest delay of an item for such a pause, in seconds
_REST = 5.0  # seconds to wait after the store itself failed
_RERANK_BATCH = 8  # memories encoded for re-ranking per step: about 0.2 s
_INDEX_BATCH = 16  # captures indexed per step
_EMBED_BATCH = 4  # memories and passages embedded per step: about 0.2 s
_RETENTION_EVERY = 3600.0  # seconds between two retention runs
_log = logging.getLogger(__name__)


class InboxWorker:
    """Background thread that learns from captures."""

    def __init__(
        self,
        keeper: Keeper,
        *,
        days_kept: int = 30,
        retrieval_days: int = 180,
        audit_days: int = 365,
        episode_days: int = 180,
        episode_mb: int = 500,
        llm_text_days: int = 7,
        fetch: Callable[[], int] | None = None,
    ) -> None:
        self._keeper = keeper
        self._fetch = fetch  # imports deliveries left outside the inbox
        self._apply_retention = partial(
            keeper.services.retention.apply,
            captures=days_kept,
            retrievals=retrieval_days,
            audit=audit_days,
            episodes=episode_days,
            episode_mb=episode_mb,
            llm_texts=llm_text_days,
        )
        self._retention_at = 0.0
        self._may_lack_vectors = True
        self._last_capture = 0.0  # time of the last capture
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="cofio-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Signal that the inbox has an item."""
        self._last_capture = time.monotonic()
        self._wake.set()

    def stop(self, patience: float = 5.0) -> None:
        """Finish the current item and stop. An item that takes longer than `patience` seconds stays pending."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def drain(self) -> int:
        """Process everything that is due; return the number of items."""
        llm = self._keeper.llm
        if isinstance(llm, Probeable) and not llm.profile.reconciles_known:  # before the first capture needs it
            llm.probe(ask=bool(self._keeper.services.captures.due(1)))
        count = 0
        while not self._stopping and (items := self._keeper.services.captures.claim()):
            previous_capture = self._last_capture
            try:
                for batch in self._keeper.services.captures.batches(items):
                    self._wait_for_quiet()
                    if self._stopping:
                        break
                    self._keeper.services.captures.process(*batch)
                    count += len(batch)
                    if self._last_capture != previous_capture and batch[0].exchange and batch[0].exchange.series:
                        break  # live captures made meanwhile go before the rest of a backfill
            finally:
                # Items not processed, or extended meanwhile; the rest is settled.
                self._keeper.services.captures.give_back(items)
        return count

    def _wait_for_quiet(self) -> None:
        """Wait for incoming captures: learning can wait, a hook cannot."""
        until = time.monotonic() + _PATIENCE
        while (now := time.monotonic()) < min(until, self._last_capture + _QUIET) and not self._stopping:
            time.sleep(min(until, self._last_capture + _QUIET) - now)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            pause = _POLL
            try:
                if self._fetch:
                    try:
                        self._fetch()
                    except CofioError as error:  # the inbox is processed nevertheless
                        _log.warning("captures that hooks stored on disk could not be imported: %s", error)
                self.drain()
                if not self._retention_at or time.monotonic() >= self._retention_at + _RETENTION_EVERY:
                    self._retention_at = time.monotonic()
                    self._apply_retention()
                    if damaged := self._keeper.services.embeddings.drop_damaged():
                        _log.warning("%d damaged vectors were deleted and are computed again", damaged)
                    self._may_lack_vectors = True
                pause = self._do_pending_work()
            except CofioError as error:
                _log.warning("the inbox cannot be processed: %s", error)
                pause = _REST
            except Exception:  # noqa: BLE001 - the worker survives any error
                _log.exception("unexpected error in the inbox worker")
                pause = _REST
            self._wake.wait(pause)

    def _do_pending_work(self) -> float:
        """Do some pending work on memories and episodes; return the seconds to rest.

        That is as long as the work took, while there is more to do.
        """
        started = time.monotonic()
        try:
            has_more = self._keeper.services.episodes.index_missing(most=_INDEX_BATCH) == _INDEX_BATCH
            has_more |= self._keeper.services.embeddings.build_token_embeddings(most=_RERANK_BATCH) == _RERANK_BATCH
        except StoreBusy:  # writers of facts go first
            return _POLL
        try:
            if self._may_lack_vectors:
                self._may_lack_vectors = self._keeper.embed_missing(most=_EMBED_BATCH) == _EMBED_BATCH
            has_more |= self._may_lack_vectors
            has_more |= self._keeper.services.episodes.embed_missing(most=_EMBED_BATCH) == _EMBED_BATCH
        except CofioError as error:  # such as an embedder that is down; word search works meanwhile
            _log.debug("embedding postponed: %s", error)
        return time.monotonic() - started if has_more else _POLL
