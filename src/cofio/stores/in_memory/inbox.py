"""Inbox of the fake store in `cofio.testing`: the same rules over dictionaries. For tests only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from cofio.models.exchange import SETTLED, Batching, Exchange, InboxStatus, Item, ItemResolution, Receipt, State, Task
from cofio.models.memory import Viewer, to_utc_iso
from cofio.ports import Clock
from cofio.stores import inbox_rules, turn_merge


class InboxState:
    """Items by id, and the turns received."""

    def __init__(self) -> None:
        self.items: dict[int, Item] = {}
        self.turns: dict[tuple[str, str, str, Task], int] = {}
        self.session_by_item: dict[int, tuple[str, str]] = {}  # client and session, kept when the words are forgotten
        self.cut: dict[int, tuple[str, ...]] = {}  # parts from which words were purged

    def keep(self, exchange: Exchange, task: Task, at: str, due_at: str) -> Receipt:
        if self.knows(exchange, task):
            return Receipt(self.turns[_turn(exchange, task)], False)
        number = len(self.items) + 1
        self.items[number] = Item(
            id=number, task=task, state="pending", exchange=exchange, received_at=at, due_at=due_at
        )
        self.session_by_item[number] = (exchange.client, exchange.session)
        if exchange.turn and (exchange.client or exchange.session):
            self.turns[_turn(exchange, task)] = number
        return Receipt(number, True)

    def knows(self, exchange: Exchange, task: Task) -> bool:
        return _turn(exchange, task) in self.turns

    def parts(self, exchange: Exchange) -> list[turn_merge.StoredMessage]:
        """Return the items of the turn, in order."""
        parts: list[turn_merge.StoredMessage] = []
        while self.knows(part := replace(exchange, turn=exchange.turn + (f"+{len(parts)}" if parts else "")), "learn"):
            number = self.turns[_turn(part, "learn")]
            parts.append(turn_merge.StoredMessage(self.items[number], self.cut.get(number, ())))
        return parts

    def of(self, client: str, session: str) -> list[Item]:
        """Return the items of a session that still have their words."""
        pairs = ((item, item.exchange) for item in self.items.values() if item.exchange)
        return [item for item, exchange in pairs if (exchange.client, exchange.session) == (client, session)]

    def waiting(self) -> int:
        return sum(item.state == "pending" for item in self.items.values())

    def pending(self, item_id: int) -> Item:
        item = self.items.get(item_id)
        if item is None or item.state != "pending":
            inbox_rules.refuse(item_id, item.state if item else None)
        return item

    def put(self, item: Item) -> Item:
        self.items[item.id] = item
        return item

    def settle(self, settlement: ItemResolution, at: str, changeset: int | None = None) -> None:
        reason, result = inbox_rules.settled_item(settlement, changeset)
        item = self.pending(settlement.item)
        inbox_rules.refuse_if_moved(settlement, item.exchange, item.result)
        ended: dict[str, Any] = {"state": settlement.state, "reason": reason, "result": result}
        finished = None if settlement.state == "pending" else at
        self.put(replace(item, **ended, changeset=changeset or item.changeset, finished_at=finished))

    def erase(self, words: Sequence[str], changesets: Container[int | None], viewer: Viewer | None) -> None:
        """Remove the words of a memory that these changesets made; with a viewer, only from the viewer's items."""
        for item in [item for item in self.items.values() if inbox_rules.is_owned_by(item.exchange, viewer)]:
            texts = (
                [*(message.text for message in item.exchange.messages), *item.exchange.injected]
                if item.exchange
                else []
            )
            texts += [action.get("text", "") for action in item.result.get("actions", ())]
            has_words = any(word in text for word in words for text in texts)
            updated = replace(item, reason="") if any(word in item.reason for word in words) else item
            if item.state in SETTLED and (has_words or item.changeset in changesets):
                updated = replace(updated, exchange=None, result={})
            elif item.state not in SETTLED and item.exchange:
                rest = inbox_rules.without_words(item.exchange, words)
                halfway: dict[str, Any] = {"actions": []} if item.result else {}
                updated = replace(updated, exchange=rest, result=halfway) if rest != item.exchange else updated
                self.cut[item.id] = (*self.cut.get(item.id, ()), *inbox_rules.parts_cut(item.exchange, rest))
            self.put(updated)


class FakeInbox:
    """Inbox over `InboxState`; `changing` locks them for one caller at a time."""

    def __init__(self, changing: Callable[[], AbstractContextManager[InboxState]], clock: Clock) -> None:
        self._changing = changing
        self._clock = clock

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        with self._changing() as inbox:
            at = self._clock()
            due_at = inbox_rules.add_seconds(at, hold)
            dated = [inbox_rules.with_time(exchange, at) for exchange in exchanges]
            for exchange in dated:
                inbox_rules.to_payload(exchange)  # raises for what no store can hold
            if (
                most is not None
                and inbox.waiting() >= most
                and not all(inbox.knows(exchange, task) for exchange in dated)
            ):
                raise inbox_rules.too_busy(most)
            return [inbox.keep(exchange, task, at, due_at) for exchange in dated]

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        with self._changing() as inbox:
            at = self._clock()
            due_at = inbox_rules.add_seconds(at, hold)
            dated = inbox_rules.with_time(exchange, at)
            inbox_rules.to_payload(dated)
            parts = inbox.parts(dated)
            new = turn_merge.merge_turn(parts, dated) if parts else turn_merge.TurnMerge(None, dated)
            if new is None:
                last = parts[-1].item
                sooner = min(last.due_at, due_at) if last.state == "pending" else last.due_at
                return Receipt(inbox.put(replace(last, due_at=sooner)).id, False)
            if new.part:
                sooner = min(new.part.item.due_at, due_at)
                amended = replace(new.part.item, exchange=new.exchange, due_at=sooner, state="pending")
                return Receipt(inbox.put(amended).id, False)
            if most is not None and inbox.waiting() >= most:
                raise inbox_rules.too_busy(most)
            return inbox.keep(new.exchange, "learn", at, due_at)

    def release(self, client: str, session: str) -> int:
        with self._changing() as inbox:
            at = self._clock()
            delayed = (item for item in inbox.of(client, session) if item.state == "pending" and item.due_at > at)
            waiting = [item for item in delayed if not item.attempts]
            for item in waiting:
                inbox.put(replace(item, due_at=at))
            return len(waiting)

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        with self._changing() as inbox:
            at = self._clock()
            until = inbox_rules.add_seconds(at, batching.seconds)
            fresh = [item for item in inbox.of(client, session) if item.state == "pending" and not item.reason]
            waiting = sum(at < item.due_at <= until for item in fresh)
            due = inbox_rules.holding_columns(at, waiting, batching, broken_off=broken_off)
            for item in fresh:
                if at < item.due_at <= due["latest"]:
                    inbox.put(replace(item, due_at=due["due_at"]))

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        with self._changing() as inbox:
            pairs = [(client_key, turn) for client_key, session_key, turn, _ in inbox.turns if session_key == session]
        return {
            turn
            for client_key, turn in pairs
            if client_key == client or (any_key and client_key.startswith(f"{client}~"))
        }

    def purged_turns(self, client: str, session: str) -> set[str]:
        with self._changing() as inbox:
            return {
                turn
                for (client_key, session_key, turn, _), number in inbox.turns.items()
                if (client_key, session_key) == (client, session)
                and (not inbox.items[number].exchange or inbox.cut.get(number))
            }

    def due(self, limit: int) -> list[Item]:
        with self._changing() as inbox:
            at = self._clock()
            due = [item for item in inbox.items.values() if item.state == "pending" and item.due_at <= at]
            return sorted(due, key=inbox_rules.turn_of)[:limit]

    def claim(self, limit: int, together: int = 1) -> list[Item]:  # noqa: ARG002
        return self.due(limit)  # there is one process only

    def give_back(self, items: Sequence[Item]) -> None:
        """Do nothing: `claim` takes no claims."""

    def settle(self, settlement: ItemResolution) -> None:
        with self._changing() as inbox:
            inbox.settle(settlement, self._clock())

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        with self._changing() as inbox:
            due_at = inbox_rules.add_seconds(self._clock(), seconds)
            item = inbox.pending(item_id)
            counts: dict[str, Any] = {"attempts": item.attempts + attempt, "faults": item.faults + fault}
            inbox.put(replace(item, **counts, due_at=due_at, reason=inbox_rules.make_storable(reason)))

    def park(self, item_id: int, reason: str) -> None:
        with self._changing() as inbox:
            inbox.put(replace(inbox.pending(item_id), state="parked", reason=inbox_rules.make_storable(reason)))

    def retry(self, item_id: int) -> Item:
        with self._changing() as inbox:
            item = inbox.items.get(item_id)
            if item is None or item.state not in inbox_rules.RETRIED or item.exchange is None:
                inbox_rules.refuse_retry(item_id, item.state if item else None)
            again: dict[str, Any] = {"state": "pending", "attempts": 0, "faults": 0, "reason": ""}
            result = item.result if item.state == "parked" else {}
            return inbox.put(replace(item, **again, result=result, due_at=self._clock(), finished_at=None))

    def item(self, item_id: int) -> Item:
        with self._changing() as inbox:
            return inbox.items.get(item_id) or inbox_rules.refuse(item_id, None)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        with self._changing() as inbox:
            newest = [item for item in reversed(inbox.items.values()) if state in (None, item.state)]
            return [item for item in newest if after is None or item.id < after][:limit]

    def settled_by(self, changeset_id: int) -> Item | None:
        with self._changing() as inbox:
            settled = [item for item in inbox.items.values() if item.exchange and item.state in SETTLED]
            return next((item for item in settled if item.changeset == changeset_id), None)

    def status(self) -> InboxStatus:
        with self._changing() as inbox:
            items = inbox.items.values()
            reasons = Counter(item.reason for item in items if item.state == "rejected")
            waiting = (item.received_at for item in items if item.state not in SETTLED)
            return inbox_rules.make_status(Counter(item.state for item in items), reasons, min(waiting, default=None))

    def forget(self, before: str) -> int:
        limit = to_utc_iso(before)
        with self._changing() as inbox:
            old = [item for item in inbox.items.values() if item.exchange and (item.finished_at or limit) < limit]
            for item in old:
                inbox.put(replace(item, exchange=None, result={}))
            return len(old)


def _turn(exchange: Exchange, task: Task) -> tuple[str, str, str, Task]:
    return exchange.client, exchange.session, exchange.turn, task
