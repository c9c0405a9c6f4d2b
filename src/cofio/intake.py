"""The inbox at work: what is delivered is kept before anybody looks at it, and tried until it is settled.

A failure that may pass (the provider is down) is waited out, however long; one that does not (nothing usable comes
back, three times over) parks the item for a person. Nothing is dropped without a reason that can be read.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from cofio.conversation import Captured, Exchange, Item, Task
from cofio.errors import BudgetSpent, CofioError, Conflict, Misconfigured, NotFound, Refused, StoreError, Unavailable
from cofio.learning import Learner
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
        attempted: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._inbox = inbox  # as whoever delivers may see it
        self._worked_on = worked_on or inbox
        self._clock = clock
        self._learner = learner
        self._limit = limit
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
            self.attempt(self._worked_on.item(item.id), by)
        return _captured(self._inbox.item(receipt.id), new=receipt.new)

    def amend(self, exchange: Exchange, hold: float) -> Captured:
        """Keep what is new in it of a turn that may have come in before. TooBusy when too many are waiting already."""
        receipt = self._inbox.amend(exchange, hold=hold, most=self._limit)
        return _captured(self._inbox.item(receipt.id), new=receipt.new)

    def attempt(self, item: Item, by: str) -> None:
        """Learn from an item: it is settled, postponed or parked by the end, or left for later if it has grown."""
        given_out, item = item, self._worked_on.item(item.id)  # as it stands now: words of it may be purged
        if item.state != "pending" or item.due_at > given_out.due_at:  # settled, or put off meanwhile
            return
        self._try(item, by)
        self._attempted(item.id)

    def _try(self, item: Item, by: str) -> None:
        try:
            if item.exchange is None:
                raise NotFound("Its words are forgotten.", "There is nothing left to learn from.")
            with exchange_occasion(item.task, item.exchange, item.id):
                self._learner.learn(item.exchange, item.task, by=by, item=item)
        except Conflict as error:  # gone when it is read again; if that is what has changed, it has its own time
            if self._worked_on.item(item.id).exchange == item.exchange:
                self._postpone(item, error, _SOON)
        except BudgetSpent as error:  # no attempt of the item: nothing was tried
            with suppress(Conflict):
                seconds = seconds_until(error.resets_at, self._clock()) + random.uniform(0.0, 60.0)  # noqa: S311
                self._worked_on.postpone(item.id, seconds, error.message, attempt=False)
        except (Unavailable, StoreError) as error:
            self._postpone(item, error, _SOON)
        except Misconfigured as error:  # the owner's to mend, and mended it may be at any time
            self._postpone(item, error, _SLOWLY)
        except Refused as error:  # it would refuse again
            self._park(item, error.message)
        except CofioError as error:
            self._count_against(item, error.message)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one item, the others go on
            _log.exception("item %d failed", item.id)
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


def _captured(item: Item, *, new: bool) -> Captured:
    return Captured(item.id, new, item.state, item.reason, item.result)


def _pause(first: float, attempts: int) -> float:
    """Longer with every attempt, and not the same for all that failed together."""
    jitter = random.uniform(0.75, 1.0)  # noqa: S311 (spreads the attempts, guards nothing)
    return min(first * 2.0 ** min(attempts, 16), _LONGEST) * jitter
