"""The inbox at work: what is delivered is kept before anybody looks at it, and tried until it is settled.

    turn ─ amend ─▶ waits until its session pauses, or is a full batch ─▶ read together by a language model

A failure that may pass (the provider is down) is waited out, however long; one that does not (nothing usable comes
back, three times over) parks the item for a person. Nothing is dropped without a reason that can be read.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from cofio.conversation import (
    ANALYSIS,
    AT_ONCE,
    COMPACT_SUMMARY,
    OBSERVATION,
    Batching,
    Captured,
    Exchange,
    Item,
    Learned,
    Task,
)
from cofio.errors import BudgetSpent, CofioError, Conflict, Misconfigured, NotFound, Refused, StoreError, Unavailable
from cofio.learning import Learner, session_of
from cofio.llm_calls import exchange_occasion
from cofio.model import seconds_until
from cofio.ports import Clock, Inbox

HELD = 300.0  # seconds for which nobody else takes up what is being worked on at once
PARKED_AFTER = 3  # attempts that fail for a reason that does not pass
_SOON, _SLOWLY, _LONGEST = 5.0, 60.0, 600.0  # seconds
_ALONE = (COMPACT_SUMMARY, OBSERVATION, ANALYSIS)  # contexts of what is read by rules of its own
_log = logging.getLogger(__name__)


class Intake:
    """Receives exchanges, and learns from them item by item."""

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
        self._inbox = inbox  # as whoever delivers may see it
        self._worked_on = worked_on or inbox
        self._clock = clock
        self._learner = learner
        self._limit = limit
        self._batching = batching
        self._most = batching.turns  # of a batch: fewer after a failure, until the model answers again
        self._attempted = attempted  # called with each item that was tried, whatever came of it

    def receive(self, exchanges: Sequence[Exchange], task: Task = "learn") -> list[Captured]:
        """Keep them for later. TooBusy when too many are waiting already."""
        receipts = self._inbox.receive(exchanges, task=task, most=self._limit)
        return [Captured(each.id, True, "pending") if each.new else self._again(each.id) for each in receipts]

    def take_in(self, exchange: Exchange, task: Task, by: str) -> Captured:
        """Keep it, and learn from it at once. It stays pending when that does not work out now."""
        receipt = self._inbox.receive([exchange], task=task, most=self._limit, hold=HELD)[0]
        item = self._inbox.item(receipt.id)
        if receipt.new or (item.state == "pending" and item.due_at <= self._clock()):
            self.attempt([self._worked_on.item(item.id)], by)
        return _captured(self._inbox.item(receipt.id), new=receipt.new)

    def amend(self, exchange: Exchange, hold: float) -> Captured:
        """Keep what is new in it of a turn that may have come in before. TooBusy when too many are waiting already."""
        waits = not hold and self._waits(exchange)
        receipt = self._inbox.amend(exchange, hold=self._batching.seconds if waits else hold, most=self._limit)
        if waits:
            self._inbox.hold(exchange.client, exchange.session, self._batching)
        return _captured(self._inbox.item(receipt.id), new=receipt.new)

    def go_on(self, client: str, session: str) -> None:
        """The session goes on: a prompt that was broken off is learned from, together with the turns that wait."""
        if self._is_batching and session:
            self._inbox.hold(client, session, self._batching, broken_off=True)
        else:
            self._inbox.release(client, session)

    @property
    def _is_batching(self) -> bool:
        return self._learner.llm is not None and self._batching.seconds > 0

    def _waits(self, exchange: Exchange) -> bool:
        """Whether a turn waits for more of its session; what ends a session, or is lost soon, does not."""
        return self._is_batching and bool(exchange.session) and exchange.context == "stop"

    def claim(self, limit: int) -> list[Item]:
        """Return what is due, for this process to work on."""
        return self._worked_on.claim(limit, self._batching.turns if self._is_batching else 1)

    def batches(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield the items, oldest first; turns of one session that a language model can read together are together.

        The order of a session is kept. After a failure of the model batches are smaller, down to one turn: one that it
        cannot answer takes no other along for long, and a slow model is asked for less.
        """
        left = list(items)
        while left:
            batch, *others = [left[0]], *left[1:]
            for item in others if self._is_batching and _is_batchable(left[0]) else ():
                if _session(item) != _session(left[0]):
                    continue
                is_more = _is_batchable(item) and session_of(item.exchange) == session_of(left[0].exchange)
                if not is_more or not self._has_room([*batch, item]):
                    break
                batch.append(item)
            left = [item for item in others if item not in batch]
            yield batch

    def _has_room(self, batch: Sequence[Item]) -> bool:
        return len(batch) <= self._most and sum(map(_characters, batch)) <= self._batching.characters

    def attempt(self, items: Sequence[Item], by: str) -> None:
        """Learn from items of one session: each is settled, postponed or parked by the end, or left if it has grown."""
        now = [(each, self._worked_on.item(each.id)) for each in items]  # as it stands now: words may be purged
        ready = [item for given_out, item in now if item.state == "pending" and item.due_at <= given_out.due_at]
        forgotten = [item for item in ready if item.exchange is None]
        for item in forgotten:
            self._fail(item, NotFound("Its words are forgotten.", "There is nothing left to learn from."), _Spread())
        said = [item for item in ready if item.exchange]
        spread = _Spread(max((item.attempts for item in said), default=0), random.random())  # noqa: S311
        outcomes = self._learned(said, by)
        is_away = any(isinstance(outcome, Unavailable) and not isinstance(outcome, BudgetSpent) for outcome in outcomes)
        self._most = max(1, len(said) // 2) if is_away else min(2 * self._most, self._batching.turns)
        for item, outcome in zip(said, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._fail(item, outcome, spread)
        for item in ready:
            self._attempted(item.id)

    def _learned(self, items: Sequence[Item], by: str) -> Sequence[Learned | Exception]:
        if not items or items[0].exchange is None:
            return []
        try:
            with exchange_occasion(items[0].task, items[0].exchange, items[0].id):
                return self._learner.learn_items(items, by=by)
        except CofioError as error:
            return [error] * len(items)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with these, others go on
            _log.exception("items %s failed", [item.id for item in items])
            return [error] * len(items)

    def _fail(self, item: Item, error: Exception, spread: _Spread) -> None:
        """Postpone or park an item, by what went wrong with it."""
        match error:
            case Conflict():  # gone when it is read again; if that is what has changed, it has its own time
                if self._worked_on.item(item.id).exchange == item.exchange:
                    self._postpone(item, error, spread.pause(_SOON))
            case BudgetSpent():  # no attempt of the item: nothing was tried
                with suppress(Conflict):
                    seconds = seconds_until(error.resets_at, self._clock()) + 60.0 * spread.share
                    self._worked_on.postpone(item.id, seconds, error.message, attempt=False)
            case Unavailable() | StoreError():
                self._postpone(item, error, spread.pause(_SOON))
            case Misconfigured():  # the owner's to mend, and mended it may be at any time
                self._postpone(item, error, spread.pause(_SLOWLY))
            case Refused():  # it would refuse again
                self._park(item, error.message)
            case CofioError():
                self._count_against(item, error.message)
            case _:
                self._count_against(item, f"{type(error).__name__}: {error}")

    def _postpone(self, item: Item, error: CofioError, seconds: float) -> None:
        _log.info("item %d waits: %s", item.id, error.message)
        with suppress(Conflict):  # somebody else has settled it meanwhile
            self._worked_on.postpone(item.id, seconds, error.message)

    def _count_against(self, item: Item, reason: str) -> None:
        if item.faults + 1 >= PARKED_AFTER:
            self._park(item, reason)
            return
        with suppress(Conflict):
            pause = _Spread(item.faults, random.random()).pause(_SOON)  # noqa: S311
            self._worked_on.postpone(item.id, pause, reason, fault=True)

    def _park(self, item: Item, reason: str) -> None:
        _log.warning("item %d is parked: %s", item.id, reason)
        with suppress(Conflict):
            self._worked_on.park(item.id, reason)

    def _again(self, item_id: int) -> Captured:
        return _captured(self._inbox.item(item_id), new=False)


def _is_batchable(item: Item) -> bool:
    said = item.exchange
    is_turn = said is not None and bool(said.session) and said.context not in _ALONE
    return is_turn and item.task == "learn" and not item.faults


def _session(item: Item) -> tuple[str, str] | None:
    return (item.exchange.client, item.exchange.session) if item.exchange else None


def _characters(item: Item) -> int:
    return sum(len(each.text) for each in item.exchange.messages) if item.exchange else 0


def _captured(item: Item, *, new: bool) -> Captured:
    return Captured(item.id, new, item.state, item.reason, item.result)


class _Spread(NamedTuple):
    """Pauses after a failure: longer with every attempt, not the same for all batches, but the same within one."""

    attempts: int = 0
    share: float = 0.0  # at random, from 0 to 1: it spreads the attempts, and guards nothing

    def pause(self, first: float) -> float:
        return min(first * 2.0 ** min(self.attempts, 16), _LONGEST) * (0.75 + 0.25 * self.share)
