"""PostgreSQL implementations of the inbox, runs, copying and keys: contract suites and concurrent processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator

import psycopg
import pytest

from cofio.core import Keeper
from cofio.errors import Conflict
from cofio.models.auth import Grant, digest
from cofio.models.exchange import SETTLED, Exchange, Message
from cofio.models.memory import Add, Fact, Purge
from cofio.ports import Store
from cofio.server.background.inbox_worker import InboxWorker
from cofio.stores.inbox_rules import add_seconds, to_row
from cofio.stores.postgres import PostgresStore
from cofio.stores.postgres.store import CLAIMED
from cofio.testing import FixedClock, HashEmbedder
from tests.stores.contract import add, apply
from tests.stores.inbox_contract import InboxContract, first_texts, make_exchange, receive, resolution, resolve_with
from tests.stores.keys_contract import KeysContract
from tests.stores.runs_contract import MONDAY, NOW, RunsContract
from tests.stores.snapshots_contract import SnapshotsContract
from tests.stores.turn_merge_contract import AmendContract


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def store(postgres_url: str, clock: FixedClock) -> Iterator[Store]:
    store = PostgresStore(postgres_url, clock)
    yield store
    store.close()


class TestPostgresDatabase(RunsContract, SnapshotsContract):
    """Tests that count from 1, in a separate database."""


class TestPostgresTenant(InboxContract, AmendContract, KeysContract):
    """Tests that share a database with other tenants."""

    @pytest.fixture
    def store(self, tenant_url: str, clock: FixedClock) -> Iterator[Store]:
        store = PostgresStore(tenant_url, clock)
        yield store
        store.close()


# ── claiming ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def turn(number: int, session: str = "s") -> Exchange:
    return Exchange(messages=(Message("user", f"We use {number}"),), client="cc", session=session, turn=f"t{number}")


def test_claimed_item_is_exclusive_until_its_lease_ends(store: Store, clock: FixedClock) -> None:
    first, second = receive(store, "one", "two")
    claimed = store.inbox.claim(1)
    assert [item.id for item in claimed] == [first]
    assert claimed[0].due_at > clock()
    assert store.inbox.item(first) == claimed[0]
    assert [item.id for item in store.inbox.due(9)] == [second]
    assert [item.id for item in store.inbox.claim(9)] == [second]
    assert store.inbox.claim(9) == []
    assert store.inbox.status().pending == 2


def test_claims_are_limited_and_oldest_first(store: Store) -> None:
    numbers = receive(store, *"abcdefg")
    assert [[item.id for item in store.inbox.claim(32)] for _ in range(3)] == [numbers[:4], numbers[4:], []]


def test_later_turn_of_a_session_waits_for_the_claimed_one(store: Store) -> None:
    stored = [item.id for item in store.inbox.receive([turn(1), turn(2), turn(3, "other")])]
    (first,) = store.inbox.claim(1)
    assert first.id == stored[0]
    assert [item.id for item in store.inbox.claim(9)] == [stored[2]]
    store.inbox.settle(resolution(first.id))
    assert [item.id for item in store.inbox.claim(9)] == [stored[1]]


def test_turns_processed_together_are_claimed_together(store: Store) -> None:
    exchanges = [turn(1), turn(1, "b"), turn(2), turn(1, "c"), turn(1, "d"), turn(3), turn(1, "e"), turn(4)]
    stored = [receipt.id for receipt in store.inbox.receive(exchanges)]
    assert [item.id for item in store.inbox.claim(32, together=3)] == [stored[place] for place in (0, 1, 2, 3, 5)]
    assert [item.id for item in store.inbox.claim(32, together=3)] == [stored[4], stored[6]]
    assert store.inbox.claim(32, together=3) == []  # the fourth turn waits for the first three


def test_returned_item_is_due_at_once(store: Store) -> None:
    numbers = receive(store, "one", "two")
    claimed = store.inbox.claim(9)
    store.inbox.settle(resolution(numbers[0]))
    store.inbox.give_back(claimed)
    assert [item.id for item in store.inbox.claim(9)] == [numbers[1]]
    assert store.inbox.item(numbers[0]).state == "stored"


def test_postponed_item_keeps_its_delay_when_returned(store: Store, clock: FixedClock) -> None:
    (number,) = receive(store, "one")
    claimed = store.inbox.claim(9)
    store.inbox.postpone(number, 60, "down")
    store.inbox.give_back(claimed)
    assert store.inbox.claim(9) == []
    clock.advance(61)
    assert [item.id for item in store.inbox.claim(9)] == [number]


def test_expired_claim_makes_the_item_due_again(store: Store, clock: FixedClock) -> None:
    receive(store, "one")
    (expired,) = store.inbox.claim(9)
    clock.advance(CLAIMED - 60)
    assert store.inbox.claim(9) == store.inbox.due(9) == []
    clock.advance(120)
    (again,) = store.inbox.claim(9)
    assert again.id == expired.id
    assert again.due_at > expired.due_at  # the first claimant notices that the claim was lost
    store.inbox.give_back([expired])  # a late result is rejected
    assert store.inbox.claim(9) == []


def test_amended_item_stays_claimed(store: Store) -> None:
    store.inbox.amend(turn(1))
    (claimed,) = store.inbox.claim(9)
    more = Exchange(messages=(Message("assistant", "Noted."),), client="cc", session="s", turn="t1")
    store.inbox.amend(more)
    assert store.inbox.claim(9) == store.inbox.due(9) == []
    with pytest.raises(Conflict, match="has changed"):
        store.inbox.settle(resolution(claimed.id, read=claimed))
    store.inbox.give_back([claimed])
    (grown,) = store.inbox.claim(9)
    assert grown.exchange is not None
    assert [message.text for message in grown.exchange.messages] == ["We use 1", "Noted."]


def test_partly_processed_item_stays_claimed(store: Store) -> None:
    (number,) = receive(store, "one")
    store.inbox.claim(9)
    apply(store, Add(Fact(text="one")), settles=resolve_with(number, "pending"))
    assert store.inbox.claim(9) == []
    store.inbox.settle(resolution(number))
    assert store.inbox.item(number).state == "stored"


def test_release_affects_held_items_only(store: Store) -> None:
    store.inbox.receive([turn(1)])
    store.inbox.receive([turn(2)], hold=3600)
    assert len(store.inbox.claim(9)) == 1
    assert store.inbox.release("cc", "s") == 1


def test_locked_item_delays_later_turns_of_its_session(store: Store, postgres_url: str) -> None:
    stored = [item.id for item in store.inbox.receive([turn(1), turn(2), turn(3, "other")])]
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT 1 FROM inbox WHERE id = %s FOR UPDATE", (stored[0],))
        assert [item.id for item in store.inbox.claim(9)] == [stored[2]]
    assert [item.id for item in store.inbox.claim(9)] == stored[:2]


def test_concurrent_claims_get_different_items(postgres_url: str) -> None:
    first_store, second_store = (PostgresStore(postgres_url, FixedClock()) for _ in range(2))
    stored = [item.id for item in first_store.inbox.receive([turn(1), turn(2), turn(3, "other")])]
    claimed: list[list[int]] = []
    second = threading.Thread(target=lambda: claimed.append([item.id for item in second_store.inbox.claim(2)]))
    with first_store._server.writing() as rows:  # a claim in progress
        rows.lock("claiming")
        until = add_seconds(FixedClock()(), CLAIMED)
        rows.connection.execute(
            "UPDATE inbox SET claimed_until = %(until)s, due_at = %(until)s WHERE id = %(id)s",
            {"id": stored[0], "until": until},
        )
        second.start()
        second.join(0.5)
        assert claimed == []
    second.join(30)
    assert claimed == [[stored[2]]]
    first_store.close()
    second_store.close()


def test_concurrent_amendments_of_a_new_turn_are_both_stored(postgres_url: str) -> None:
    first_store, second_store = (PostgresStore(postgres_url, FixedClock()) for _ in range(2))
    more = Exchange(messages=(Message("assistant", "Noted."),), client="cc", session="s", turn="t1")
    second = threading.Thread(target=lambda: second_store.inbox.amend(more))
    with first_store._server.writing() as rows:  # a delivery in progress
        rows.lock('session/["cc","s"]')
        second.start()
        second.join(0.5)
        assert second_store.inbox.items() == []
        rows.run("receive", to_row(turn(1), "learn", FixedClock()(), FixedClock()()))
    second.join(30)
    (item,) = first_store.inbox.items()
    assert item.exchange is not None
    assert [message.text for message in item.exchange.messages] == ["We use 1", "Noted."]
    first_store.close()
    second_store.close()


def test_unreadable_item_is_parked_and_does_not_block_others(store: Store, postgres_url: str) -> None:
    broken, whole = receive(store, "broken", "whole")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE inbox SET payload = '{' WHERE id = %s", (broken,))
    assert [item.id for item in store.inbox.claim(9)] == [whole]
    assert store.inbox.item(broken).state == "parked"


def test_stopped_worker_returns_unprocessed_items(store: Store, clock: FixedClock) -> None:
    keeper = Keeper(store, HashEmbedder(), clock)
    worker = InboxWorker(keeper)
    keeper.on_learned(lambda _: worker.stop())
    numbers = receive(store, "We always use tabs", "We always use pnpm", "We always use Fly.io")
    assert worker.drain() == 1
    assert store.inbox.item(numbers[0]).state in SETTLED
    assert [item.id for item in store.inbox.claim(9)] == numbers[1:]


def test_worker_processes_all_items(store: Store, clock: FixedClock) -> None:
    keeper = Keeper(store, HashEmbedder(), clock)
    numbers = receive(store, *(f"We always use tool{number}" for number in range(9)))
    assert InboxWorker(keeper).drain() == 9
    assert {store.inbox.item(number).state for number in numbers} <= set(SETTLED)
    assert InboxWorker(keeper).drain() == 0


# ── several processes ─────────────────────────────────────────────────────────────────────────────────────────────────

_CLAIMER = """
import sys, time
from cofio.models.exchange import ItemResolution
from cofio.models.memory import to_utc_iso
from cofio.stores.inbox_rules import add_seconds as later, to_row
from cofio.stores.postgres import PostgresStore
store = PostgresStore(sys.argv[1], lambda: to_utc_iso(time.time()))
print("ready", flush=True)
sys.stdin.readline()
idle = 0
while idle < 40:
    items = store.inbox.claim(3)
    for item in items:
        print(item.exchange.session, item.exchange.turn, time.monotonic_ns(), flush=True)
        store.inbox.settle(ItemResolution(item=item.id, state="rejected"))
    idle = 0 if items else idle + 1
    time.sleep(0 if items else 0.02)
store.close()
"""

_STUCK = """
import sys, time
from cofio.models.memory import to_utc_iso
from cofio.stores.inbox_rules import add_seconds as later, to_row
from cofio.stores.postgres import PostgresStore
store = PostgresStore(sys.argv[1], lambda: to_utc_iso(time.time() - float(sys.argv[2])))
print(len(store.inbox.claim(2)), flush=True)
sys.stdin.readline()
"""


def start_process(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_concurrent_claimers_get_each_item_once_and_sessions_in_order(postgres_url: str, store: Store) -> None:
    store.inbox.receive([turn(number, f"s{number % 7}") for number in range(200)])
    claimers = [start_process(_CLAIMER, postgres_url) for _ in range(4)]
    for claimer in claimers:
        assert claimer.stdout is not None
        assert claimer.stdout.readline() == "ready\n"
    for claimer in claimers:
        assert claimer.stdin is not None
        claimer.stdin.write("go\n")
        claimer.stdin.flush()
    had = [line.split() for claimer in claimers for line in claimer.communicate(timeout=120)[0].splitlines()]
    assert [claimer.returncode for claimer in claimers] == [0] * 4
    assert sorted(int(turn[1:]) for _, turn, _ in had) == list(range(200))
    by_session = defaultdict(list)
    for session, name, _ in sorted(had, key=lambda each: int(each[2])):
        by_session[session].append(int(name[1:]))
    assert all(turns == sorted(turns) for turns in by_session.values())
    assert store.inbox.status().rejected == 200


def test_items_of_a_killed_process_are_claimed_again(postgres_url: str) -> None:
    now = FixedClock("2026-01-07T12:00:00Z")
    store = PostgresStore(postgres_url, now)
    numbers = receive(store, "one", "two", "three")
    script = _STUCK.replace("time.time() - float(sys.argv[2])", f"{1_767_787_260}")  # one minute later
    stuck = start_process(script, postgres_url, "0")
    assert stuck.stdout is not None
    assert stuck.stdout.readline() == "2\n"
    stuck.kill()
    stuck.communicate()
    now.advance(120)
    assert [item.id for item in store.inbox.claim(9)] == numbers[2:]
    now.advance(CLAIMED - 30)
    assert [item.id for item in store.inbox.claim(9)] == numbers[:2]
    store.close()


def test_concurrent_deliveries_of_a_turn_through_two_stores_create_one_item(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock()) for _ in range(2)]
    start, kept = threading.Barrier(8), []

    def deliver(index: int) -> None:
        start.wait()
        for number in range(10):
            exchanges = [turn(number), turn(100 + number)]
            receipts = stores[index % 2].inbox.receive(exchanges if index % 3 else exchanges[::-1])
            kept.append(
                (number, tuple(sorted(receipt.id for receipt in receipts)), sum(receipt.new for receipt in receipts))
            )

    threads = [threading.Thread(target=deliver, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 80  # no delivery was rejected
    assert len({(number, ids) for number, ids, _ in kept}) == 10
    assert sum(new for *_, new in kept) == 20
    assert stores[0].inbox.status().captured == 20
    for item in stores:
        item.close()


def test_concurrent_amendments_of_a_turn_store_every_message_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock()) for _ in range(2)]
    start = threading.Barrier(8)

    def deliver(index: int) -> None:
        start.wait()
        for number in range(5):
            messages = (Message("user", f"We use number {index}.{number} of all"),)
            stores[index % 2].inbox.amend(Exchange(messages=messages, client="cc", session="s", turn="t"))

    threads = [threading.Thread(target=deliver, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (item,) = stores[0].inbox.items()
    assert item.exchange is not None
    assert len(item.exchange.messages) == 40
    for entry in stores:
        entry.close()


def test_slot_claimed_concurrently_is_won_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock(NOW)) for _ in range(2)]
    start, won = threading.Barrier(8), []

    def race(index: int) -> None:
        for day in range(1, 6):
            start.wait()
            run = stores[index % 2].runs.claim(f"chore {day}", MONDAY, f"racer {index}")
            if run:
                won.append(run.chore)

    threads = [threading.Thread(target=race, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [f"chore {day}" for day in range(1, 6)]
    for item in stores:
        item.close()


# ── tenants and shared data ───────────────────────────────────────────────────────────────────────────────────────────


def test_tenants_are_isolated(postgres_url: str, clock: FixedClock) -> None:
    first, second = (PostgresStore(f"{postgres_url}?tenant={name}", clock) for name in ("one", "two"))
    (kept,) = first.inbox.receive([turn(1)])
    assert second.inbox.receive([turn(1)])[0].new
    assert kept.id not in {item.id for item in second.inbox.items()}
    assert len(first.inbox.claim(9)) == len(second.inbox.claim(9)) == 1
    assert first.runs.claim("prune", MONDAY, "x")
    assert second.runs.claim("prune", MONDAY, "x")
    first.keys.create(Grant(name="ada", user="ada"), digest("secret"), "cofio_s", "owner")
    assert second.keys.find(digest("secret")) is None
    assert not second.keys.any_valid()
    assert first.snapshots.identity() != second.snapshots.identity()
    add(first, "ours")
    assert second.snapshots.counts() == (0, 0)
    assert second.snapshots.adopt_identity("another's")
    assert not first.snapshots.adopt_identity("another's")
    first.close()
    second.close()


def test_reserved_ids_are_per_tenant(postgres_url: str, clock: FixedClock) -> None:
    first, second = (PostgresStore(f"{postgres_url}?tenant={name}", clock) for name in ("one", "two"))
    before = add(first, "before")
    last = first.snapshots.reserve(50)
    assert last >= before.id
    assert add(first, "after").id > last + 50
    rooms = first.snapshots.room("laptop", 10)
    assert rooms == first.snapshots.room("laptop", 10) == first.snapshots.room("laptop", 0)
    ((_, offset),) = rooms
    assert add(second, "theirs").id > offset
    assert add(first, "later").id > 10 + offset
    assert not second.snapshots.adopt_identity("x")
    first.close()
    second.close()


def test_reserving_ids_makes_the_store_non_new(store: Store) -> None:
    store.snapshots.reserve(3)
    assert not store.snapshots.adopt_identity("another's")


def test_purged_text_is_removed_from_inbox_and_shared_contexts(store: Store, postgres_url: str) -> None:
    purged = add(store, 'the "secret" is x\ny', context="we said: the secret")
    other = add(store, "another", context="we said: the secret")
    settled, open_one, unlike = receive(store, 'ah, the "secret" is x\ny!', 'the "secret" is x\ny', "something else")
    for number in (settled, unlike):
        store.inbox.settle(resolution(number, "rejected", reason='the "secret" is x\ny'))
    apply(store, Purge(purged.id))
    assert store.inbox.item(settled).exchange is None
    assert first_texts([store.inbox.item(open_one)]) == [""]
    assert first_texts([store.inbox.item(unlike)]) == ["something else"]
    assert store.inbox.item(unlike).reason == ""
    assert store.get([other.id])[0].context == ""
    with psycopg.connect(postgres_url) as second:
        for table in ("inbox", "memories", "changes", "occurrences"):
            (written,) = second.execute(f"SELECT coalesce(string_agg(t::text, ''), '') FROM {table} t").fetchone() or (
                "",
            )
            assert "secret" not in written, table


def test_logs_are_trimmed_in_batches_until_done(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.stores.query_runner._BATCH", 10)
    monkeypatch.setattr("cofio.stores.inbox._BATCH", 3)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "INSERT INTO retrievals (tenant, memory_id, query, caller, at)"
            " SELECT 'main', 1, 'q', 'c', to_char(n, 'FM0000') || '-01-01' FROM generate_series(2000, 2024) n"
        )
    assert store.usage.forget("2021-06-01T00:00:00Z") == 22
    assert store.usage.forget("2021-06-01T00:00:00Z") == 0
    for number in receive(store, *"abcdefg"):
        store.inbox.settle(resolution(number))
    assert store.inbox.forget("2100-01-01T00:00:00Z") == 7
    assert store.inbox.forget("2100-01-01T00:00:00Z") == 0


def test_invalid_characters_are_replaced_or_removed(store: Store) -> None:
    (number,) = receive(store, "one")
    store.inbox.postpone(number, 0, "a \x00 and half a \ud800")
    assert store.inbox.item(number).reason == "a  and half a ?"
    assert store.inbox.receive([make_exchange("x")])[0].new
