"""Inbox of the fake store in `cofio.testing`: the same rules over dictionaries. For tests only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from cofio.models.exchange import SETTLED, Batching, Exchange, Item, ItemResolution, Ledger, Receipt, State, Task
from cofio.models.memory import Viewer, to_utc_iso
from cofio.ports import Clock
from cofio.stores import inbox_rules, turn_merge


class InboxState:
    """Items by id, and the turns received."""

    def __init__(self) -> None:
        self.items: dict[int, Item] = {}
        self.turns: dict[tuple[str, str, str, Task], int] = {}
        self.told_in: dict[int, tuple[str, str]] = {}  # client and session, kept when the words are forgotten
        self.cut: dict[int, tuple[str, ...]] = {}  # parts from which words were purged

    def keep(self, exchange: Exchange, task: Task, at: str, due_at: str) -> Receipt:
        if self.knows(exchange, task):
            return Receipt(self.turns[_turn(exchange, task)], False)
        number = len(self.items) + 1
        self.items[number] = Item(
            id=number, task=task, state="pending", exchange=exchange, received_at=at, due_at=due_at
        )
        self.told_in[number] = (exchange.client, exchange.session)
        if exchange.turn and (exchange.client or exchange.session):
            self.turns[_turn(exchange, task)] = number
        return Receipt(number, True)

    def knows(self, exchange: Exchange, task: Task) -> bool:
        return _turn(exchange, task) in self.turns

    def parts(self, exchange: Exchange) -> list[turn_merge.StoredMessage]:
        """Return the items of the turn, in order."""
        parts: list[turn_merge.StoredMessage] = []
        while self.knows(named := replace(exchange, turn=exchange.turn + (f"+{len(parts)}" if parts else "")), "learn"):
            number = self.turns[_turn(named, "learn")]
            parts.append(turn_merge.StoredMessage(self.items[number], self.cut.get(number, ())))
        return parts

    def of(self, client: str, session: str) -> list[Item]:
        """Return the items of a session that still have their words."""
        told = ((item, item.exchange) for item in self.items.values() if item.exchange)
        return [item for item, said in told if (said.client, said.session) == (client, session)]

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

    def erase(self, said: Sequence[str], changesets: Container[int | None], viewer: Viewer | None) -> None:
        """Remove the words of a memory that these changesets made; with a viewer, only from the viewer's items."""
        for item in [each for each in self.items.values() if inbox_rules.is_told_by(each.exchange, viewer)]:
            kept = (
                [*(message.text for message in item.exchange.messages), *item.exchange.injected]
                if item.exchange
                else []
            )
            kept += [action.get("text", "") for action in item.result.get("actions", ())]
            says = any(each in text for each in said for text in kept)
            left = replace(item, reason="") if any(each in item.reason for each in said) else item
            if item.state in SETTLED and (says or item.changeset in changesets):
                left = replace(left, exchange=None, result={})
            elif item.state not in SETTLED and item.exchange:
                rest = inbox_rules.without_words(item.exchange, said)
                halfway: dict[str, Any] = {"actions": []} if item.result else {}
                left = replace(left, exchange=rest, result=halfway) if rest != item.exchange else left
                self.cut[item.id] = (*self.cut.get(item.id, ()), *inbox_rules.parts_cut(item.exchange, rest))
            self.put(left)


class FakeInbox:
    """Inbox over `InboxState`; `changing` locks them for one caller at a time."""

    def __init__(self, changing: Callable[[], AbstractContextManager[InboxState]], clock: Clock) -> None:
        self._changing = changing
        self._clock = clock

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        with self._changing() as held:
            at = self._clock()
            due_at = inbox_rules.add_seconds(at, hold)
            dated = [inbox_rules.with_time(exchange, at) for exchange in exchanges]
            for each in dated:
                inbox_rules.to_payload(each)  # raises for what no store can hold
            if most is not None and held.waiting() >= most and not all(held.knows(each, task) for each in dated):
                raise inbox_rules.too_busy(most)
            return [held.keep(each, task, at, due_at) for each in dated]

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        with self._changing() as held:
            at = self._clock()
            due_at = inbox_rules.add_seconds(at, hold)
            dated = inbox_rules.with_time(exchange, at)
            inbox_rules.to_payload(dated)
            parts = held.parts(dated)
            new = turn_merge.merge_turn(parts, dated) if parts else turn_merge.TurnMerge(None, dated)
            if new is None:
                last = parts[-1].item
                sooner = min(last.due_at, due_at) if last.state == "pending" else last.due_at
                return Receipt(held.put(replace(last, due_at=sooner)).id, False)
            if new.part:
                sooner = min(new.part.item.due_at, due_at)
                grown = replace(new.part.item, exchange=new.exchange, due_at=sooner, state="pending")
                return Receipt(held.put(grown).id, False)
            if most is not None and held.waiting() >= most:
                raise inbox_rules.too_busy(most)
            return held.keep(new.exchange, "learn", at, due_at)

    def release(self, client: str, session: str) -> int:
        with self._changing() as held:
            at = self._clock()
            held_back = (item for item in held.of(client, session) if item.state == "pending" and item.due_at > at)
            waiting = [item for item in held_back if not item.attempts]
            for item in waiting:
                held.put(replace(item, due_at=at))
            return len(waiting)

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        with self._changing() as held:
            at = self._clock()
            until = inbox_rules.add_seconds(at, batching.seconds)
            fresh = [item for item in held.of(client, session) if item.state == "pending" and not item.reason]
            waiting = sum(at < item.due_at <= until for item in fresh)
            due = inbox_rules.holding_columns(at, waiting, batching, broken_off=broken_off)
            for item in fresh:
                if at < item.due_at <= due["latest"]:
                    held.put(replace(item, due_at=due["due_at"]))

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        with self._changing() as held:
            told = [(one, turn) for one, other, turn, _ in held.turns if other == session]
        return {turn for one, turn in told if one == client or (any_key and one.startswith(f"{client}~"))}

    def purged_turns(self, client: str, session: str) -> set[str]:
        with self._changing() as held:
            return {
                turn
                for (one, other, turn, _), number in held.turns.items()
                if (one, other) == (client, session) and (not held.items[number].exchange or held.cut.get(number))
            }

    def due(self, limit: int) -> list[Item]:
        with self._changing() as held:
            at = self._clock()
            due = [item for item in held.items.values() if item.state == "pending" and item.due_at <= at]
            return sorted(due, key=inbox_rules.turn_of)[:limit]

    def claim(self, limit: int, together: int = 1) -> list[Item]:  # noqa: ARG002
        return self.due(limit)  # there is one process only

    def give_back(self, items: Sequence[Item]) -> None:
        """Do nothing: `claim` takes no claims."""

    def settle(self, settlement: ItemResolution) -> None:
        with self._changing() as held:
            held.settle(settlement, self._clock())

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        with self._changing() as held:
            due_at = inbox_rules.add_seconds(self._clock(), seconds)
            item = held.pending(item_id)
            tried: dict[str, Any] = {"attempts": item.attempts + attempt, "faults": item.faults + fault}
            held.put(replace(item, **tried, due_at=due_at, reason=inbox_rules.make_storable(reason)))

    def park(self, item_id: int, reason: str) -> None:
        with self._changing() as held:
            held.put(replace(held.pending(item_id), state="parked", reason=inbox_rules.make_storable(reason)))

    def retry(self, item_id: int) -> Item:
        with self._changing() as held:
            item = held.items.get(item_id)
            if item is None or item.state not in inbox_rules.RETRIED or item.exchange is None:
                inbox_rules.refuse_retry(item_id, item.state if item else None)
            again: dict[str, Any] = {"state": "pending", "attempts": 0, "faults": 0, "reason": ""}
            result = item.result if item.state == "parked" else {}
            return held.put(replace(item, **again, result=result, due_at=self._clock(), finished_at=None))

    def item(self, item_id: int) -> Item:
        with self._changing() as held:
            return held.items.get(item_id) or inbox_rules.refuse(item_id, None)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        with self._changing() as held:
            newest = [item for item in reversed(held.items.values()) if state in (None, item.state)]
            return [item for item in newest if after is None or item.id < after][:limit]

    def settled_by(self, changeset_id: int) -> Item | None:
        with self._changing() as held:
            done = [item for item in held.items.values() if item.exchange and item.state in SETTLED]
            return next((item for item in done if item.changeset == changeset_id), None)

    def ledger(self) -> Ledger:
        with self._changing() as held:
            items = held.items.values()
            reasons = Counter(item.reason for item in items if item.state == "rejected")
            waiting = (item.received_at for item in items if item.state not in SETTLED)
            return inbox_rules.ledger_of(Counter(item.state for item in items), reasons, min(waiting, default=None))

    def forget(self, before: str) -> int:
        limit = to_utc_iso(before)
        with self._changing() as held:
            old = [item for item in held.items.values() if item.exchange and (item.finished_at or limit) < limit]
            for item in old:
                held.put(replace(item, exchange=None, result={}))
            return len(old)


def _turn(exchange: Exchange, task: Task) -> tuple[str, str, str, Task]:
    return exchange.client, exchange.session, exchange.turn, task
