"""Processing of the inbox: deliveries are stored first, then retried until they are settled.

    turn ─ amend ─▶ waits until its session pauses, or is a full batch ─▶ read together by a language model

A transient failure (the provider is down) is retried without limit; a permanent one (three unusable replies) parks the
item for manual review. Nothing is dropped without a recorded reason.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from cofio.errors import (
    BudgetSpent,
    CofioError,
    Conflict,
    Misconfigured,
    NotFound,
    RefusedError,
    StoreError,
    Unavailable,
)
from cofio.ingest.manipulation import find_manipulation
from cofio.ingest.pipeline import Learner, session_of
from cofio.ingest.review import REASON
from cofio.models.exchange import (
    ANALYSIS,
    AT_ONCE,
    CANDIDATE,
    COMPACT_SUMMARY,
    OBSERVATION,
    Batching,
    CaptureStatus,
    Exchange,
    Item,
    LearningResult,
    Receipt,
    Task,
)
from cofio.models.llm_calls import exchange_occasion
from cofio.models.memory import seconds_until
from cofio.ports import Clock, Inbox

HELD = 300.0  # seconds for which an item that is processed immediately is reserved
PARKED_AFTER = 3  # failed attempts with a permanent cause
_SOON, _SLOWLY, _LONGEST = 5.0, 60.0, 600.0  # seconds
_ALONE = (COMPACT_SUMMARY, OBSERVATION, ANALYSIS, CANDIDATE)  # contexts that are read by rules of their own
_JITTER = random.Random()  # noqa: S311 - not the shared generator, which programs may seed
_log = logging.getLogger(__name__)


class InboxProcessor:
    """Receiver of exchanges that learns from them item by item."""

    def __init__(
        self,
        inbox: Inbox,
        learner: Learner,
        clock: Clock,
        limit: int,
        *,
        worked_on: Inbox | None = None,
        batching: Batching = AT_ONCE,
        attempted: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._inbox = inbox  # as visible to the caller who delivers
        self._worked_on = worked_on or inbox
        self._clock = clock
        self._learner = learner
        self._limit = limit
        self._batching = batching
        self._most = batching.turns  # turns per batch: halved after a failure, doubled after a success
        self._attempted = attempted  # called with the id of each item that was tried, whether or not it succeeded

    def receive(self, exchanges: Sequence[Exchange], task: Task = "learn") -> list[CaptureStatus]:
        """Store exchanges for later. Raise TooBusy if too many are waiting."""
        receipts = self._inbox.receive(exchanges, task=task, most=self._limit)
        return [
            CaptureStatus(receipt.id, True, "pending") if receipt.new else self._get_status(receipt)
            for receipt in receipts
        ]

    def take_in(self, exchange: Exchange, task: Task, by: str) -> CaptureStatus:
        """Store an exchange and learn from it immediately. It stays pending if that fails."""
        receipt = self._inbox.receive([exchange], task=task, most=self._limit, hold=HELD)[0]
        item = self._inbox.item(receipt.id)
        if receipt.new or (item.state == "pending" and item.due_at <= self._clock()):
            self.attempt([self._worked_on.item(item.id)], by)
        return self._get_status(receipt)

    def amend(self, exchange: Exchange, hold: float) -> CaptureStatus:
        """Store the new part of a turn that may have been delivered before. Raise TooBusy if too many are waiting."""
        # Turns that end a session or are lost soon do not wait for more of their session.
        waits = not hold and self._is_batching and bool(exchange.session) and exchange.context == "stop"
        receipt = self._inbox.amend(exchange, hold=self._batching.seconds if waits else hold, most=self._limit)
        if waits:
            self._inbox.hold(exchange.client, exchange.session, self._batching)
        return self._get_status(receipt)

    def _get_status(self, receipt: Receipt) -> CaptureStatus:
        item = self._inbox.item(receipt.id)
        return CaptureStatus(item.id, receipt.new, item.state, item.reason, item.result)

    def go_on(self, client: str, session: str) -> None:
        """Note that the session continues: learn from an interrupted prompt together with the waiting turns."""
        if self._is_batching and session:
            self._inbox.hold(client, session, self._batching, broken_off=True)
        else:
            self._inbox.release(client, session)

    @property
    def _is_batching(self) -> bool:
        return self._learner.llm is not None and self._batching.seconds > 0

    def claim(self, limit: int) -> list[Item]:
        """Claim items that are due for this process."""
        return self._worked_on.claim(limit, self._batching.turns if self._is_batching else 1)

    def batches(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield the items in batches, oldest first; turns of one session that the model can read together share a
        batch.

        The order within a session is kept. After a model failure batches shrink, down to one turn: an item that the
        model cannot answer does not block others for long, and a slow model gets less work.
        """
        waiting = list(items)
        while waiting:
            batch, *others = [waiting[0]], *waiting[1:]
            for item in others if self._is_batching and _is_batchable(waiting[0]) else ():
                if _get_session(item) != _get_session(waiting[0]):
                    continue
                is_more = _is_batchable(item) and session_of(item.exchange) == session_of(waiting[0].exchange)
                exchanges = [other.exchange for other in (*batch, item) if other.exchange]
                size = sum(len(message.text) for exchange in exchanges for message in exchange.messages)
                if not is_more or len(batch) >= self._most or size > self._batching.characters:
                    break
                batch.append(item)
            waiting = [item for item in others if item not in batch]
            yield batch

    def attempt(self, items: Sequence[Item], by: str) -> None:
        """Learn from items of one session: each ends settled, postponed or parked, or is left alone if it has grown."""
        current = [self._worked_on.item(item.id) for item in items]
        ready = [
            item
            for claimed, item in zip(items, current, strict=True)
            if item.state == "pending" and item.due_at <= claimed.due_at
        ]
        for item in ready:
            if item.exchange is None:
                purged = "The text of this capture was deleted before it was processed."
                self._fail(item, NotFound(purged, "Capture the turn again."), 0, 0.0)
            elif item.exchange.context == CANDIDATE:  # the service stopped before it was parked
                self._park(item, REASON.format(find_manipulation(item.exchange.messages[0].text)))
        readable = [item for item in ready if item.exchange and item.exchange.context != CANDIDATE]
        attempts, jitter = max((item.attempts for item in readable), default=0), _JITTER.random()
        outcomes = self._learn(readable, by)
        is_away = any(isinstance(outcome, Unavailable) and not isinstance(outcome, BudgetSpent) for outcome in outcomes)
        self._most = max(1, len(readable) // 2) if is_away else min(2 * self._most, self._batching.turns)
        for item, outcome in zip(readable, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._fail(item, outcome, attempts, jitter)
        for item in ready:
            self._attempted(item.id)

    def _learn(self, items: Sequence[Item], by: str) -> Sequence[LearningResult | Exception]:
        if not items or items[0].exchange is None:
            return []
        try:
            with exchange_occasion(items[0].task, items[0].exchange, items[0].id):
                return self._learner.learn_items(items, by=by)
        except CofioError as error:
            return [error] * len(items)
        except Exception as error:  # noqa: BLE001 - an unexpected error in one batch must not stop the others
            _log.exception("Captures %s could not be processed", [item.id for item in items])
            return [error] * len(items)

    def _fail(self, item: Item, error: Exception, attempts: int, jitter: float) -> None:
        """Postpone or park an item, depending on the error. All items of a batch wait equally long."""
        match error:
            case Conflict():  # resolved by the next read; if the item itself changed, it has a new due time
                if self._worked_on.item(item.id).exchange == item.exchange:
                    self._postpone(item, error, _compute_pause(_SOON, attempts, jitter))
            case BudgetSpent():  # not counted as an attempt: nothing was tried
                with suppress(Conflict):
                    seconds = seconds_until(error.resets_at, self._clock()) + 60.0 * jitter
                    self._worked_on.postpone(item.id, seconds, error.message, attempt=False)
            case Unavailable() | StoreError():
                self._postpone(item, error, _compute_pause(_SOON, attempts, jitter))
            case Misconfigured():  # the owner may fix it at any time
                self._postpone(item, error, _compute_pause(_SLOWLY, attempts, jitter))
            case RefusedError():  # a retry would be refused again
                self._park(item, error.message)
            case CofioError():
                self._count_against(item, error.message)
            case _:
                self._count_against(item, f"{type(error).__name__}: {error}")

    def _postpone(self, item: Item, error: CofioError, seconds: float) -> None:
        _log.info("Capture %d is retried later: %s", item.id, error.message)
        with suppress(Conflict):  # another process has settled it
            self._worked_on.postpone(item.id, seconds, error.message)

    def _count_against(self, item: Item, reason: str) -> None:
        if item.faults + 1 >= PARKED_AFTER:
            self._park(item, reason)
            return
        with suppress(Conflict):
            pause = _compute_pause(_SOON, item.faults, _JITTER.random())
            self._worked_on.postpone(item.id, pause, reason, fault=True)

    def _park(self, item: Item, reason: str) -> None:
        _log.warning(
            "Capture %d failed and is parked; `cofio inbox --retry %d` tries again: %s", item.id, item.id, reason
        )
        with suppress(Conflict):
            self._worked_on.park(item.id, reason)


def _is_batchable(item: Item) -> bool:
    exchange = item.exchange
    is_turn = exchange is not None and bool(exchange.session) and exchange.context not in _ALONE
    return is_turn and item.task == "learn" and not item.faults


def _get_session(item: Item) -> tuple[str, str] | None:
    return (item.exchange.client, item.exchange.session) if item.exchange else None


def _compute_pause(first: float, attempts: int, jitter: float) -> float:
    """Return the seconds until the next attempt, which grow exponentially; `jitter` is from 0 to 1."""
    return min(first * 2.0 ** min(attempts, 16), _LONGEST) * (0.75 + 0.25 * jitter)
