"""Property tests of the inbox: the counts add up, and PostgreSQL behaves like SQLite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from cofio.errors import CofioError
from cofio.models.exchange import OPEN, SETTLED, STATES, State
from cofio.models.memory import Add, Delete, Fact, Noop, Purge, to_utc_iso
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import MemoryStore
from tests.stores.contract import apply, everything
from tests.stores.inbox_contract import make_exchange, resolution, resolve_with
from tests.stores.test_sqlite import assert_consistent

START = 1_767_225_600  # 2026
TEXTS = ("we use tabs", "port is 8080", 'a "b" \\ c', "x\ny", "Ünïcode 🌊", "tab", "")
EXCHANGES = st.builds(
    make_exchange,
    st.lists(st.sampled_from(TEXTS), max_size=3).map(" ".join),
    st.sampled_from(("", "t1", "t2", "t3")),
    session=st.sampled_from(("", "s1")),
    injected=st.lists(st.sampled_from(TEXTS), max_size=1).map(tuple),
)
REASONS = st.sampled_from(("Small talk", "A question", "we use tabs", ""))


class ManualClock:
    """Clock that a test advances by hand."""

    def __init__(self) -> None:
        self.seconds = 0

    def __call__(self) -> str:
        return to_utc_iso(START + self.seconds)


class InboxMachine(RuleBasedStateMachine):
    """Execute random operations on a store, or on several whose results and errors are compared."""

    items: Bundle[int] = Bundle("items")

    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.stores = self.open_stores()
        self.store = self.stores[0]
        self.captured = 0

    def open_stores(self) -> tuple[Store, ...]:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "cofio.db"
        return (SqliteStore(self.path, self.clock),)

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                store.close()
            self.check_files()

    def check_files(self) -> None:
        assert_consistent(self.path)
        self.folder.cleanup()

    def execute(self, operation: Callable[[Store], Any]) -> Any:
        """Return the common result of the stores, or None if they raise the same error."""
        results = []
        for store in self.stores:
            try:
                results.append(operation(store))
            except CofioError as error:
                results.append((type(error), str(error)))
        assert all(result == results[0] for result in results)
        is_error = isinstance(results[0], tuple) and isinstance(results[0][0], type)
        return None if is_error else results[0]

    @rule(
        target=items,
        exchanges=st.lists(EXCHANGES, min_size=1, max_size=3),
        most=st.none() | st.integers(0, 6),
        hold=st.sampled_from((0.0, 0.0, 30.0)),
        task=st.sampled_from(("learn", "extract")),
    )
    def receive(self, exchanges: Any, most: Any, hold: float, task: Any) -> Any:
        receipts = self.execute(lambda store: store.inbox.receive(exchanges, most=most, hold=hold, task=task)) or []
        self.captured += sum(receipt.new for receipt in receipts)
        return multiple(*(receipt.id for receipt in receipts if receipt.new))

    @rule(
        target=items,
        exchange=EXCHANGES,
        most=st.none() | st.integers(0, 6),
        hold=st.sampled_from((0.0, 0.0, 30.0)),
    )
    def amend(self, exchange: Any, most: Any, hold: float) -> Any:
        receipt = self.execute(lambda store: store.inbox.amend(exchange, most=most, hold=hold))
        new = receipt is not None and receipt.new
        self.captured += new
        return multiple(*([receipt.id] if new else []))

    @rule(session=st.sampled_from(("", "s1")))
    def release(self, session: str) -> None:
        self.execute(lambda store: store.inbox.release("cc", session))
        self.execute(lambda store: store.inbox.turns("cc", session))

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @rule(limit=st.integers(0, 5))
    def due(self, limit: int) -> None:
        due = self.execute(lambda store: store.inbox.due(limit))
        assert [item.id for item in due] == sorted(item.id for item in due)
        assert all(item.state == "pending" and item.due_at <= self.clock() for item in due)

    @rule(item=items, state=st.sampled_from(STATES), reason=REASONS)
    def settle(self, item: int, state: State, reason: str) -> None:
        before = self.store.inbox.item(item).state
        result = {"actions": [{"text": "we use tabs"}]}
        outcome = self.execute(
            lambda store: store.inbox.settle(resolution(item, state, reason=reason, result=result)) or "done"
        )
        assert bool(outcome) == (before == "pending" and state != "parked")

    @rule(item=items, text=st.sampled_from(TEXTS[:-1]), good=st.booleans())
    def learn(self, item: int, text: str, good: bool) -> None:
        before, memories = self.store.inbox.item(item).state, len(everything(self.store))
        decisions = [Add(Fact(text=text)), *([] if good else [Delete(999)])]
        result = self.execute(lambda store: apply(store, *decisions, settles=resolve_with(item)).id)
        assert bool(result) == (good and before == "pending")
        assert len(everything(self.store)) == memories + bool(result)
        assert result is None or self.store.inbox.item(item).changeset == result

    @rule(item=items)
    def learn_duplicate(self, item: int) -> None:
        if memories := everything(self.store):
            before, memory_id = self.store.inbox.item(item).state, memories[-1].id
            result = self.execute(lambda store: apply(store, Noop(memory_id), settles=resolve_with(item, "merged")).id)
            assert bool(result) == (before == "pending")

    @rule(item=items, seconds=st.sampled_from((0, 1, 45)), reason=REASONS)
    def postpone(self, item: int, seconds: float, reason: str) -> None:
        before = self.store.inbox.item(item).state
        done = self.execute(lambda store: store.inbox.postpone(item, seconds, reason) or "done")
        assert bool(done) == (before == "pending")

    @rule(item=items, reason=REASONS)
    def park(self, item: int, reason: str) -> None:
        before = self.store.inbox.item(item).state
        done = self.execute(lambda store: store.inbox.park(item, reason) or "done")
        assert bool(done) == (before == "pending")

    @rule(item=items)
    def retry(self, item: int) -> None:
        before = self.store.inbox.item(item)
        repeated = self.execute(lambda store: store.inbox.retry(item))
        assert bool(repeated) == (before.state in ("parked", "rejected") and before.exchange is not None)

    @rule(ago=st.integers(0, 40))
    def forget(self, ago: int) -> None:
        before = to_utc_iso(START + self.clock.seconds - ago)
        old = [item for item in self.store.inbox.items(limit=1_000) if item.finished_at and item.finished_at < before]
        assert self.execute(lambda store: store.inbox.forget(before)) == sum(item.exchange is not None for item in old)

    @rule()
    def purge(self) -> None:
        if memories := everything(self.store):
            self.execute(lambda store: apply(store, Purge(memories[0].id)).id)
            said_now = [item for item in self.store.inbox.items(limit=1_000) if item.state in SETTLED]
            assert all(memories[0].text not in message.text for item in said_now for message in _messages(item))

    @invariant()
    def every_capture_is_accounted_for(self) -> None:
        if not hasattr(self, "stores"):
            return
        inbox_status = self.execute(lambda store: store.inbox.status())
        assert inbox_status.balanced
        assert inbox_status.captured == self.captured
        assert sum(inbox_status.reasons.values()) == inbox_status.rejected
        items = self.execute(lambda store: store.inbox.items(limit=1_000))
        assert inbox_status.pending == sum(item.state in OPEN for item in items)
        assert {item.state for item in items if item.finished_at} <= set(SETTLED)
        changesets = [item.changeset for item in items if item.changeset]
        assert len(changesets) == len(set(changesets))  # no changeset settles two items
        self.execute(lambda store: store.stats()["inbox_pending"])


def _messages(item: Any) -> Any:
    return item.exchange.messages if item.exchange else ()


TestInboxMachine = InboxMachine.TestCase
TestInboxMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class PostgresInboxMachine(InboxMachine):
    """PostgreSQL, compared with SQLite. Rejected operations consume sequence numbers there and are left out."""

    url = ""

    def open_stores(self) -> tuple[Store, ...]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("TRUNCATE memories, changesets, inbox, meta RESTART IDENTITY CASCADE")
        return PostgresStore(self.url, self.clock), MemoryStore(self.clock)

    def check_files(self) -> None:
        """Do nothing: the fixture drops the database."""

    @rule(item=InboxMachine.items, text=st.sampled_from(TEXTS[:-1]))
    def learn(self, item: int, text: str) -> None:
        if self.store.inbox.item(item).state == "pending":
            assert self.execute(lambda store: apply(store, Add(Fact(text=text)), settles=resolve_with(item)).id)

    @rule(item=InboxMachine.items)
    def learn_duplicate(self, item: int) -> None:
        if self.store.inbox.item(item).state == "pending":
            super().learn_duplicate(item=item)

    @rule(limit=st.integers(1, 5))
    def claim(self, limit: int) -> None:
        """Claimed items are the due ones. They are due again after they are given back or the claim expires."""
        due = [item.id for item in self.store.inbox.due(limit)]
        claimed = self.store.inbox.claim(limit)
        assert [item.id for item in claimed] == due[: len(claimed)]
        assert bool(claimed) == bool(due)
        assert not {item.id for item in claimed} & {item.id for item in self.store.inbox.due(1_000)}
        self.store.inbox.give_back(claimed)
        assert [item.id for item in self.store.inbox.due(limit)] == due
        for item in claimed:  # it is due again now; update the other store accordingly
            number = item.id
            self.execute(lambda store, number=number: store.inbox.postpone(number, 0, "") or "done")


def test_postgres_inbox_behaves_like_sqlite(postgres_url: str) -> None:
    machine = type("OnServer", (PostgresInboxMachine,), {"url": postgres_url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
