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

from cofio.conversation import AT_ONCE, COMPACT_SUMMARY, Batching, Captured, Exchange, Item, Learned, Task
from cofio.errors import BudgetSpent, CofioError, Conflict, Misconfigured, NotFound, Refused, StoreError, Unavailable
from cofio.learning import Learner, session_of
from cofio.llm_calls import exchange_occasion
from cofio.model import seconds_until
from cofio.ports import Clock, Inbox

HELD = 300.0  # seconds for which nobody else takes up what is being worked on at once
PARKED_AFTER = 3  # attempts that fail for a reason that does not pass
_SOON, _SLOWLY, _LONGEST = 5.0, 60.0, 600.0  # seconds
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
            self._inbox.hold(client, session, self._batching)
        else:
            self._inbox.release(client, session)

    @property
    def _is_batching(self) -> bool:
        return self._learner.llm is not None and self._batching.seconds > 0

    def _waits(self, exchange: Exchange) -> bool:
        """Whether a turn waits for more of its session; what ends a session, or is lost soon, does not."""
        return self._is_batching and bool(exchange.session) and exchange.context == "stop"

    def batches(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """The items, oldest first; turns of one session that a language model can read together are together.

        One that failed before is alone, so that it takes no other along.
        """
        left = list(items)
        while left:
            first, *others = left
            together = [first]
            for each in others if self._is_batching and _is_batchable(first) else ():
                is_more = _is_batchable(each) and session_of(first.exchange) == session_of(each.exchange)
                if is_more and self._has_room(together, each):
                    together.append(each)
            left = [each for each in others if each not in together]
            yield together

    def _has_room(self, together: Sequence[Item], item: Item) -> bool:
        is_full = len(together) >= self._batching.turns
        return not is_full and sum(map(_characters, (*together, item))) <= self._batching.characters

    def attempt(self, items: Sequence[Item], by: str) -> None:
        """Learn from items of one session: each is settled, postponed or parked by the end, or left if it has grown."""
        now = [(each, self._worked_on.item(each.id)) for each in items]  # as it stands now: words may be purged
        ready = [item for given_out, item in now if item.state == "pending" and item.due_at <= given_out.due_at]
        forgotten = [item for item in ready if item.exchange is None]
        for item in forgotten:
            self._fail(item, NotFound("Its words are forgotten.", "There is nothing left to learn from."))
        said = [item for item in ready if item.exchange]
        for item, outcome in zip(said, self._learned(said, by), strict=True):
            if isinstance(outcome, Exception):
                self._fail(item, outcome)
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

    def _fail(self, item: Item, error: Exception) -> None:
        """Postpone or park an item, by what went wrong with it."""
        match error:
            case Conflict():  # gone when it is read again; if that is what has changed, it has its own time
                if self._worked_on.item(item.id).exchange == item.exchange:
                    self._postpone(item, error, _SOON)
            case BudgetSpent():  # no attempt of the item: nothing was tried
                with suppress(Conflict):
                    seconds = seconds_until(error.resets_at, self._clock()) + random.uniform(0.0, 60.0)  # noqa: S311
                    self._worked_on.postpone(item.id, seconds, error.message, attempt=False)
            case Unavailable() | StoreError():
                self._postpone(item, error, _SOON)
            case Misconfigured():  # the owner's to mend, and mended it may be at any time
                self._postpone(item, error, _SLOWLY)
            case Refused():  # it would refuse again
                self._park(item, error.message)
            case CofioError():
                self._count_against(item, error.message)
            case _:
                self._count_against(item, f"{type(error).__name__}: {error}")

    def _postpone(self, item: Item, error: CofioError, first: float) -> None:
        _log.info("item %d waits: %s", item.id, error.message)
        with suppress(Conflict):  # somebody else has settled it meanwhile
            self._worked_on.postpone(item.id, _pause(first, item.attempts), error.message)

    def _count_against(self, item: Item, reason: str) -> None:
        if item.faults + 1 >= PARKED_AFTER:
            self._park(item, reason)
            return
        with suppress(Conflict):
            self._worked_on.postpone(item.id, _pause(_SOON, item.faults), reason, fault=True)

    def _park(self, item: Item, reason: str) -> None:
        _log.warning("item %d is parked: %s", item.id, reason)
        with suppress(Conflict):
            self._worked_on.park(item.id, reason)

    def _again(self, item_id: int) -> Captured:
        return _captured(self._inbox.item(item_id), new=False)


def _is_batchable(item: Item) -> bool:
    said = item.exchange
    is_turn = said is not None and bool(said.session) and said.context != COMPACT_SUMMARY
    return is_turn and item.task == "learn" and not item.faults


def _characters(item: Item) -> int:
    return sum(len(each.text) for each in item.exchange.messages) if item.exchange else 0


def _captured(item: Item, *, new: bool) -> Captured:
    return Captured(item.id, new, item.state, item.reason, item.result)


def _pause(first: float, attempts: int) -> float:
    """Longer with every attempt, and not the same for all that failed together."""
    jitter = random.uniform(0.75, 1.0)  # noqa: S311 (spreads the attempts, guards nothing)
    return min(first * 2.0 ** min(attempts, 16), _LONGEST) * jitter
