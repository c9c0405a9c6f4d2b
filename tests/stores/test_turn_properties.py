"""Property tests of amended turns: every message is learned exactly once, whatever the order of deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from cofio.errors import Conflict
from cofio.models.exchange import OPEN, Exchange, Item, ItemResolution, Message
from cofio.ports import Inbox
from cofio.testing import MemoryStore
from tests.stores.test_inbox_properties import ManualClock

PROMPTS = ("We use tabs", "Not for YAML", "use tabs", "Deploy on Fridays")
REPLIES = ("Looking into it.", "The tests pass.", "Done.")
HOLD_S = 4 * 3600


def joined_message(role: str, lines: tuple[str, ...]) -> tuple[Message, ...]:
    return (Message(role, "\n\n".join(lines)),) if lines else ()


def separate_messages(role: str, lines: tuple[str, ...]) -> tuple[Message, ...]:
    return tuple(Message(role, line) for line in lines)


#: A prompt, a reply, what notify reports of the turn so far, what a transcript contains so far.
DELIVERIES = st.one_of(
    st.sampled_from(PROMPTS).map(lambda line: separate_messages("user", (line,))),
    st.sampled_from(REPLIES).map(lambda line: separate_messages("assistant", (line,))),
    st.tuples(st.integers(0, len(PROMPTS)), st.sampled_from(REPLIES)).map(
        lambda far: (*joined_message("user", PROMPTS[: far[0]]), Message("assistant", far[1]))
    ),
    st.tuples(st.integers(0, len(PROMPTS)), st.integers(0, len(REPLIES)), st.booleans()).map(
        lambda far: (
            *separate_messages("user", PROMPTS[: far[0]]),
            *(joined_message if far[2] else separate_messages)("assistant", REPLIES[: far[1]]),
        )
    ),
)


class TurnMachine(RuleBasedStateMachine):
    """Deliver two turns in parts while workers process them."""

    claimed: Bundle[Item] = Bundle("claimed")

    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.delivered: set[tuple[str, str, str]] = set()
        self.learned: Counter[tuple[str, str, str]] = Counter()
        self.captured = 0

    @rule(turn=st.sampled_from(("t1", "t2")), messages=DELIVERIES, hold=st.sampled_from((0.0, 30.0, HOLD_S)))
    def deliver(self, turn: str, messages: tuple[Message, ...], hold: float) -> None:
        exchange = Exchange(messages=messages, client="cc", session="s", turn=turn)
        receipt = self.store.inbox.amend(exchange, hold=hold)
        self.captured += receipt.new
        self.delivered |= message_lines(turn, messages)
        assert turn in self.store.inbox.turns("cc", "s")

    @rule(target=claimed, limit=st.integers(1, 3))
    def claim(self, limit: int) -> Any:
        return multiple(*self.store.inbox.due(limit))

    @rule(item=claimed, state=st.sampled_from(("stored", "merged", "rejected", "pending")))
    def learn(self, item: Item, state: Any) -> None:
        """Settle an item with the state that was read earlier. The store rejects it if the item has changed since."""
        current = self.store.inbox.item(item.id)
        result = {"actions": [{"text": state}]}
        resolution = ItemResolution(item=item.id, state=state, result=result, read=item)
        has_changed = current.state != "pending" or (current.exchange, dict(current.result)) != (
            item.exchange,
            dict(item.result),
        )
        if has_changed:
            with pytest.raises(Conflict):
                self.store.inbox.settle(resolution)
            return
        self.store.inbox.settle(resolution)
        if not item.result:  # a partly processed item has not changed
            self.learned.update(exchange_lines(item.exchange))

    @rule(item=claimed, seconds=st.sampled_from((0, 45)))
    def fail(self, item: Item, seconds: float) -> None:
        self.change_pending(item, lambda inbox: inbox.postpone(item.id, seconds, "down"))

    @rule(item=claimed)
    def park(self, item: Item) -> None:
        self.change_pending(item, lambda inbox: inbox.park(item.id, "odd"))

    def change_pending(self, item: Item, change: Callable[[Inbox], None]) -> None:
        """Execute the change; the store rejects it if the item is no longer pending."""
        is_pending = self.store.inbox.item(item.id).state == "pending"
        with nullcontext() if is_pending else pytest.raises(Conflict):
            change(self.store.inbox)

    @rule(item=claimed)
    def retry(self, item: Item) -> None:
        if self.store.inbox.item(item.id).state == "parked":
            assert self.store.inbox.retry(item.id).state == "pending"

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @rule()
    def release(self) -> None:
        self.store.inbox.release("cc", "s")

    @invariant()
    def every_line_is_learned_once(self) -> None:
        if not hasattr(self, "store"):
            return
        items = self.store.inbox.items(limit=1_000)
        inbox_status = self.store.inbox.status()
        assert inbox_status.balanced
        assert inbox_status.captured == self.captured == len(items)
        pending_lines = Counter(
            line for item in items if item.state in OPEN and not item.result for line in exchange_lines(item.exchange)
        )
        assert self.learned + pending_lines == Counter(self.delivered)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


def message_lines(turn: str, messages: tuple[Message, ...]) -> set[tuple[str, str, str]]:
    return set(_lines(turn, messages))


def exchange_lines(exchange: Exchange | None) -> list[tuple[str, str, str]]:
    assert exchange is not None
    return _lines(exchange.turn.partition("+")[0], exchange.messages)


def _lines(turn: str, messages: tuple[Message, ...]) -> list[tuple[str, str, str]]:
    return [(turn, message.role, line) for message in messages for line in message.text.splitlines() if line]


TestTurnMachine = TurnMachine.TestCase
TestTurnMachine.settings = settings(
    max_examples=75, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
