"""Whoever tells of a turn, in what order and how often, and whenever it is learned from: every word is, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from cofio.errors import CofioError, Conflict
from cofio.models.exchange import OPEN, Exchange, Item, ItemResolution, Message
from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import MemoryStore
from tests.stores.test_inbox_properties import Watch

ASKED = ("We use tabs", "Not for YAML", "use tabs", "Deploy on Fridays")
TOLD = ("Looking into it.", "The tests pass.", "Done.")
LONG = 4 * 3600


def joined(role: str, lines: tuple[str, ...]) -> tuple[Message, ...]:
    return (Message(role, "\n\n".join(lines)),) if lines else ()


def one_by_one(role: str, lines: tuple[str, ...]) -> tuple[Message, ...]:
    return tuple(Message(role, line) for line in lines)


#: A prompt, an answer, what notify tells of the turn so far, what a transcript holds of it so far.
TELLINGS = st.one_of(
    st.sampled_from(ASKED).map(lambda line: one_by_one("user", (line,))),
    st.sampled_from(TOLD).map(lambda line: one_by_one("assistant", (line,))),
    st.tuples(st.integers(0, len(ASKED)), st.sampled_from(TOLD)).map(
        lambda far: (*joined("user", ASKED[: far[0]]), Message("assistant", far[1]))
    ),
    st.tuples(st.integers(0, len(ASKED)), st.integers(0, len(TOLD)), st.booleans()).map(
        lambda far: (
            *one_by_one("user", ASKED[: far[0]]),
            *(joined if far[2] else one_by_one)("assistant", TOLD[: far[1]]),
        )
    ),
)


class Turns(RuleBasedStateMachine):
    """Two turns are told in parts while several work on what is there; both inboxes have to say the same."""

    at_work: Bundle[Item] = Bundle("at_work")

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.watch = Watch()
        self.real = SqliteStore(Path(self.folder.name) / "cofio.db", self.watch)
        self.fake = MemoryStore(self.watch)
        self.told: set[tuple[str, str, str]] = set()
        self.learned: Counter[tuple[str, str, str]] = Counter()
        self.captured = 0

    def both(self, act: Callable[[Store], Any]) -> Any:
        """What both answer; the error, where both refuse."""
        answers = []
        for store in (self.real, self.fake):
            try:
                answers.append(act(store))
            except CofioError as error:
                answers.append((type(error), str(error)))
        assert answers[0] == answers[1]
        return answers[0]

    @rule(turn=st.sampled_from(("t1", "t2")), messages=TELLINGS, hold=st.sampled_from((0.0, 30.0, LONG)))
    def tell(self, turn: str, messages: tuple[Message, ...], hold: float) -> None:
        exchange = Exchange(messages=messages, client="cc", session="s", turn=turn)
        receipt = self.both(lambda store: store.inbox.amend(exchange, hold=hold))
        self.captured += receipt.new
        self.told |= lines_of(turn, messages)
        assert turn in self.both(lambda store: store.inbox.turns("cc", "s"))

    @rule(target=at_work, limit=st.integers(1, 3))
    def take_up(self, limit: int) -> Any:
        return multiple(*self.both(lambda store: store.inbox.due(limit)))

    @rule(item=at_work, state=st.sampled_from(("stored", "merged", "rejected", "pending")))
    def learn(self, item: Item, state: Any) -> None:
        """Learn from what was read, some time ago; what has changed since refuses that."""
        now = self.real.inbox.item(item.id)
        result = {"actions": [{"text": state}]}
        ends = ItemResolution(item=item.id, state=state, result=result, read=item)
        answer = self.both(lambda store: store.inbox.settle(ends))
        moved = now.state != "pending" or (now.exchange, dict(now.result)) != (item.exchange, dict(item.result))
        assert (answer is None) != moved
        assert answer is None or answer[0] is Conflict
        if answer is None and not item.result:  # of one that was halfway, nothing has changed since
            self.count(item)

    @rule(item=at_work, seconds=st.sampled_from((0, 45)))
    def fail(self, item: Item, seconds: float) -> None:
        self.both(lambda store: store.inbox.postpone(item.id, seconds, "down"))

    @rule(item=at_work)
    def park(self, item: Item) -> None:
        self.both(lambda store: store.inbox.park(item.id, "odd"))

    @rule(item=at_work)
    def retry(self, item: Item) -> None:
        if self.real.inbox.item(item.id).state == "parked":
            self.both(lambda store: store.inbox.retry(item.id))

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.watch.seconds += seconds

    @rule()
    def release(self) -> None:
        self.both(lambda store: store.inbox.release("cc", "s"))

    @invariant()
    def nothing_is_lost_or_learned_twice(self) -> None:
        if not hasattr(self, "real"):
            return
        items = self.both(lambda store: store.inbox.items(limit=1_000))
        inbox_status = self.both(lambda store: store.inbox.status())
        assert inbox_status.balanced
        assert inbox_status.captured == self.captured == len(items)
        waiting = Counter(
            line for item in items if item.state in OPEN and not item.result for line in lines_in(item.exchange)
        )
        assert self.learned + waiting == Counter(self.told)

    def count(self, item: Item) -> None:
        self.learned.update(lines_in(item.exchange))

    def teardown(self) -> None:
        if hasattr(self, "real"):
            self.real.close()
            self.folder.cleanup()


def lines_of(turn: str, messages: tuple[Message, ...]) -> set[tuple[str, str, str]]:
    return set(_lines(turn, messages))


def lines_in(exchange: Exchange | None) -> list[tuple[str, str, str]]:
    assert exchange is not None
    return _lines(exchange.turn.partition("+")[0], exchange.messages)


def _lines(turn: str, messages: tuple[Message, ...]) -> list[tuple[str, str, str]]:
    return [(turn, message.role, line) for message in messages for line in message.text.splitlines() if line]


TestTurns = Turns.TestCase
TestTurns.settings = settings(
    max_examples=75, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
