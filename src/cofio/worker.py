"""The worker: drains the inbox in a thread of its own, oldest first, one item or one batch of a session at a time.

One at a time, because what is said later may correct what was said before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from cofio.errors import CofioError, StoreBusy
from cofio.keeper import Keeper
from cofio.ports import Probeable

_LOOK = 2.0  # seconds between two looks at the inbox, when nobody says that there is something
_QUIET = 0.02  # seconds without a capture, before the next item is taken up
_PATIENCE = 1.0  # seconds that an item waits for such a moment
_REST = 5.0  # seconds, after the store itself failed
_READ = 8  # memories read word by word at a time: a fifth of a second
_INDEXED = 16  # captures indexed at a time
_EMBEDDED = 4  # passages embedded at a time: a fifth of a second
_TIDY = 3600.0  # seconds between two rounds of forgetting
_log = logging.getLogger(__name__)


class Worker:
    """Learns from what is captured."""

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
        self._fetch = fetch  # brings in what was left for us outside the inbox
        self._days_kept = days_kept
        self._retrieval_days = retrieval_days
        self._audit_days = audit_days
        self._episode_days = episode_days
        self._episode_mb = episode_mb
        self._llm_text_days = llm_text_days
        self._tidied = 0.0
        self._heard = 0.0  # when something came in last
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="cofio-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something in the inbox."""
        self._heard = time.monotonic()
        self._wake.set()

    def stop(self, patience: float = 5.0) -> None:
        """Finish the item at hand and end. One that takes longer than `patience` seconds is left; it stays pending."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def drain(self) -> int:
        """Take up everything that is due; how many items."""
        self._find_out()
        taken = 0
        while not self._stopping and (items := self._keeper.claim()):
            heard = self._heard
            try:
                for batch in self._keeper.batches(items):
                    self._let_pass()
                    if self._stopping:
                        break
                    self._keeper.attempt(*batch)
                    taken += len(batch)
                    if self._heard != heard and batch[0].exchange and batch[0].exchange.series:
                        break  # what was captured live meanwhile goes before the rest of a backfill
            finally:
                self._keeper.give_back(items)  # what was not got to, or has grown meanwhile; the rest is settled
        return taken

    def _find_out(self) -> None:
        """Find out what the model can do, before it is needed for the first capture."""
        llm = self._keeper.llm
        if isinstance(llm, Probeable) and not llm.profile.reconciles_known:
            llm.probe(ask=bool(self._keeper.due(1)))

    def _let_pass(self) -> None:
        """Whoever hands something over goes first: learning can wait, a hook cannot."""
        until = time.monotonic() + _PATIENCE
        while (now := time.monotonic()) < min(until, self._heard + _QUIET) and not self._stopping:
            time.sleep(min(until, self._heard + _QUIET) - now)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            pause = _LOOK
            try:
                self._bring_in()
                self.drain()
                self._tidy()
                pause = self._catch_up()
            except CofioError as error:
                _log.warning("the inbox cannot be drained: %s", error)
                pause = _REST
            except Exception:  # noqa: BLE001 - the worker outlives whatever goes wrong once
                _log.exception("the worker stumbled")
                pause = _REST
            self._wake.wait(pause)

    def _catch_up(self) -> float:
        """Do some of what is left to do for memories and episodes; return the seconds to rest.

        That is as long as it took while there is more to do.
        """
        started = time.monotonic()
        try:
            has_more = self._keeper.index_episodes(most=_INDEXED) == _INDEXED
            has_more |= self._keeper.read_missing(most=_READ) == _READ
        except StoreBusy:  # whoever has facts to write goes first
            return _LOOK
        try:
            has_more |= self._keeper.embed_episodes(most=_EMBEDDED) == _EMBEDDED
        except CofioError as error:  # such as an embedder that is down; word search works meanwhile
            _log.debug("episodes are embedded later: %s", error)
        return time.monotonic() - started if has_more else _LOOK

    def _bring_in(self) -> None:
        """Have what was left outside taken in; if that fails now, what is in already is learned from all the same."""
        try:
            if self._fetch:
                self._fetch()
        except CofioError as error:
            _log.warning("what waits outside is not taken in: %s", error)

    def _tidy(self) -> None:
        """Forget the words of what was settled, what was asked and what was done with keys long ago, now and then."""
        if self._tidied and time.monotonic() < self._tidied + _TIDY:
            return
        self._tidied = time.monotonic()
        self._keeper.tidy(
            captures=self._days_kept,
            retrievals=self._retrieval_days,
            deeds=self._audit_days,
            episodes=self._episode_days,
            episode_mb=self._episode_mb,
            llm_texts=self._llm_text_days,
        )
