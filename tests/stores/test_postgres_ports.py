"""The inbox, the runs, what is carried and the keys on PostgreSQL: the contracts, and several processes at once."""

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
from cofio.stores.postgres.inbox import CLAIMED
from cofio.testing import FixedClock, HashEmbedder
from tests.stores.contract import add, apply
from tests.stores.inbox_contract import InboxContract, ending, receive, said, settling, texts
from tests.stores.keys_contract import KeysContract
from tests.stores.runs_contract import MONDAY, NOW, RunsContract
from tests.stores.snapshots_contract import CarryingContract
from tests.stores.turn_merge_contract import AmendContract


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def store(postgres_url: str, clock: FixedClock) -> Iterator[Store]:
    store = PostgresStore(postgres_url, clock)
    yield store
    store.close()


class TestPostgresDatabase(RunsContract, CarryingContract):
    """What is counted from the first, in a database of its own."""


class TestPostgresAside(InboxContract, AmendContract, KeysContract):
    """Every other sentence of the ports."""

    @pytest.fixture
    def store(self, tenant_url: str, clock: FixedClock) -> Iterator[Store]:
        store = PostgresStore(tenant_url, clock)
        yield store
        store.close()


# ── claiming ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def turn(number: int, session: str = "s") -> Exchange:
    return Exchange(messages=(Message("user", f"We use {number}"),), client="cc", session=session, turn=f"t{number}")


def test_what_is_claimed_is_nobody_elses_and_says_until_when(store: Store, clock: FixedClock) -> None:
    one, two = receive(store, "one", "two")
    claimed = store.inbox.claim(1)
    assert [item.id for item in claimed] == [one]
    assert claimed[0].due_at > clock()
    assert store.inbox.item(one) == claimed[0]
    assert [item.id for item in store.inbox.due(9)] == [two]
    assert [item.id for item in store.inbox.claim(9)] == [two]
    assert store.inbox.claim(9) == []
    assert store.inbox.status().pending == 2


def test_a_few_are_claimed_at_a_time_oldest_first(store: Store) -> None:
    numbers = receive(store, *"abcdefg")
    assert [[item.id for item in store.inbox.claim(32)] for _ in range(3)] == [numbers[:4], numbers[4:], []]


def test_what_is_later_in_a_session_waits_for_what_is_worked_on(store: Store) -> None:
    kept = [each.id for each in store.inbox.receive([turn(1), turn(2), turn(3, "other")])]
    (first,) = store.inbox.claim(1)
    assert first.id == kept[0]
    assert [item.id for item in store.inbox.claim(9)] == [kept[2]]
    store.inbox.settle(ending(first.id))
    assert [item.id for item in store.inbox.claim(9)] == [kept[1]]


def test_what_is_read_together_is_claimed_together(store: Store) -> None:
    said = [turn(1), turn(1, "b"), turn(2), turn(1, "c"), turn(1, "d"), turn(3), turn(1, "e"), turn(4)]
    kept = [receipt.id for receipt in store.inbox.receive(said)]
    assert [item.id for item in store.inbox.claim(32, together=3)] == [kept[place] for place in (0, 1, 2, 3, 5)]
    assert [item.id for item in store.inbox.claim(32, together=3)] == [kept[4], kept[6]]
    assert store.inbox.claim(32, together=3) == []  # the fourth turn waits for the first three


def test_what_is_given_back_is_due_at_once(store: Store) -> None:
    numbers = receive(store, "one", "two")
    claimed = store.inbox.claim(9)
    store.inbox.settle(ending(numbers[0]))
    store.inbox.give_back(claimed)
    assert [item.id for item in store.inbox.claim(9)] == [numbers[1]]
    assert store.inbox.item(numbers[0]).state == "stored"


def test_what_failed_waits_its_time_though_it_is_given_back(store: Store, clock: FixedClock) -> None:
    (number,) = receive(store, "one")
    claimed = store.inbox.claim(9)
    store.inbox.postpone(number, 60, "down")
    store.inbox.give_back(claimed)
    assert store.inbox.claim(9) == []
    clock.advance(61)
    assert [item.id for item in store.inbox.claim(9)] == [number]


def test_what_nobody_has_heard_of_for_a_while_is_given_out_again(store: Store, clock: FixedClock) -> None:
    receive(store, "one")
    (lost,) = store.inbox.claim(9)
    clock.advance(CLAIMED - 60)
    assert store.inbox.claim(9) == store.inbox.due(9) == []
    clock.advance(120)
    (again,) = store.inbox.claim(9)
    assert again.id == lost.id
    assert again.due_at > lost.due_at  # whoever had it sees that it is another's now
    store.inbox.give_back([lost])  # it comes to life again: too late
    assert store.inbox.claim(9) == []


def test_what_grows_while_it_is_worked_on_is_not_given_to_another_meanwhile(store: Store) -> None:
    store.inbox.amend(turn(1))
    (claimed,) = store.inbox.claim(9)
    more = Exchange(messages=(Message("assistant", "Noted."),), client="cc", session="s", turn="t1")
    store.inbox.amend(more)
    assert store.inbox.claim(9) == store.inbox.due(9) == []
    with pytest.raises(Conflict, match="has changed"):
        store.inbox.settle(ending(claimed.id, read=claimed))
    store.inbox.give_back([claimed])
    (grown,) = store.inbox.claim(9)
    assert grown.exchange is not None
    assert [message.text for message in grown.exchange.messages] == ["We use 1", "Noted."]


def test_what_is_learned_halfway_stays_claimed(store: Store) -> None:
    (number,) = receive(store, "one")
    store.inbox.claim(9)
    apply(store, Add(Fact(text="one")), settles=settling(number, "pending"))
    assert store.inbox.claim(9) == []
    store.inbox.settle(ending(number))
    assert store.inbox.item(number).state == "stored"


def test_what_is_released_is_what_was_held_not_what_is_worked_on(store: Store) -> None:
    store.inbox.receive([turn(1)])
    store.inbox.receive([turn(2)], hold=3600)
    assert len(store.inbox.claim(9)) == 1
    assert store.inbox.release("cc", "s") == 1


def test_an_item_that_grows_just_now_holds_back_what_is_later_in_its_session(store: Store, postgres_url: str) -> None:
    kept = [each.id for each in store.inbox.receive([turn(1), turn(2), turn(3, "other")])]
    with psycopg.connect(postgres_url) as busy:
        busy.execute("SELECT 1 FROM inbox WHERE id = %s FOR UPDATE", (kept[0],))
        assert [item.id for item in store.inbox.claim(9)] == [kept[2]]
    assert [item.id for item in store.inbox.claim(9)] == kept[:2]


def test_of_two_that_claim_at_once_the_second_waits_and_gets_something_else(postgres_url: str) -> None:
    one, two = (PostgresStore(postgres_url, FixedClock()) for _ in range(2))
    kept = [each.id for each in one.inbox.receive([turn(1), turn(2), turn(3, "other")])]
    had: list[list[int]] = []
    second = threading.Thread(target=lambda: had.append([item.id for item in two.inbox.claim(2)]))
    with one._server.writing() as rows:  # a claim, half done
        rows.lock("claiming")
        until = add_seconds(FixedClock()(), CLAIMED)
        rows.connection.execute(
            "UPDATE inbox SET claimed_until = %(until)s, due_at = %(until)s WHERE id = %(id)s",
            {"id": kept[0], "until": until},
        )
        second.start()
        second.join(0.5)
        assert had == []
    second.join(30)
    assert had == [[kept[2]]]
    one.close()
    two.close()


def test_what_two_tell_of_a_new_turn_at_once_is_kept_of_both(postgres_url: str) -> None:
    one, two = (PostgresStore(postgres_url, FixedClock()) for _ in range(2))
    more = Exchange(messages=(Message("assistant", "Noted."),), client="cc", session="s", turn="t1")
    second = threading.Thread(target=lambda: two.inbox.amend(more))
    with one._server.writing() as rows:  # a delivery, half done
        rows.lock('session/["cc","s"]')
        second.start()
        second.join(0.5)
        assert two.inbox.items() == []
        rows.run("receive", to_row(turn(1), "learn", FixedClock()(), FixedClock()()))
    second.join(30)
    (item,) = one.inbox.items()
    assert item.exchange is not None
    assert [message.text for message in item.exchange.messages] == ["We use 1", "Noted."]
    one.close()
    two.close()


def test_what_cannot_be_read_is_parked_and_stands_in_nobodys_way(store: Store, postgres_url: str) -> None:
    broken, whole = receive(store, "broken", "whole")
    with psycopg.connect(postgres_url) as beside:
        beside.execute("UPDATE inbox SET payload = '{' WHERE id = %s", (broken,))
    assert [item.id for item in store.inbox.claim(9)] == [whole]
    assert store.inbox.item(broken).state == "parked"


def test_a_worker_that_is_told_to_stop_gives_back_what_it_did_not_get_to(store: Store, clock: FixedClock) -> None:
    keeper = Keeper(store, HashEmbedder(), clock)
    worker = InboxWorker(keeper)
    keeper.on_learned(lambda _: worker.stop())
    numbers = receive(store, "We always use tabs", "We always use pnpm", "We always use Fly.io")
    assert worker.drain() == 1
    assert store.inbox.item(numbers[0]).state in SETTLED
    assert [item.id for item in store.inbox.claim(9)] == numbers[1:]


def test_a_worker_learns_everything_from_everybody(store: Store, clock: FixedClock) -> None:
    keeper = Keeper(store, HashEmbedder(), clock)
    numbers = receive(store, *(f"We always use tool{number}" for number in range(9)))
    assert InboxWorker(keeper).drain() == 9
    assert {store.inbox.item(number).state for number in numbers} <= set(SETTLED)
    assert InboxWorker(keeper).drain() == 0


# ── several processes ─────────────────────────────────────────────────────────────────────────────────────────────────

_CLAIMER = """
import sys, time
from cofio.models.exchange import ItemResolution as Settlement
from cofio.models.memory import to_utc_iso as moment
from cofio.stores.inbox_rules import add_seconds as later, to_row
from cofio.stores.postgres import PostgresStore
store = PostgresStore(sys.argv[1], lambda: moment(time.time()))
print("ready", flush=True)
sys.stdin.readline()
idle = 0
while idle < 40:
    items = store.inbox.claim(3)
    for item in items:
        print(item.exchange.session, item.exchange.turn, time.monotonic_ns(), flush=True)
        store.inbox.settle(Settlement(item=item.id, state="rejected"))
    idle = 0 if items else idle + 1
    time.sleep(0 if items else 0.02)
store.close()
"""

_STUCK = """
import sys, time
from cofio.models.memory import to_utc_iso as moment
from cofio.stores.inbox_rules import add_seconds as later, to_row
from cofio.stores.postgres import PostgresStore
store = PostgresStore(sys.argv[1], lambda: moment(time.time() - float(sys.argv[2])))
print(len(store.inbox.claim(2)), flush=True)
sys.stdin.readline()
"""


def started(script: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_of_processes_that_share_an_inbox_each_item_is_had_once_and_a_session_in_its_order(
    postgres_url: str, store: Store
) -> None:
    store.inbox.receive([turn(number, f"s{number % 7}") for number in range(200)])
    claimers = [started(_CLAIMER, postgres_url) for _ in range(4)]
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


def test_what_a_killed_process_had_comes_back(postgres_url: str) -> None:
    now = FixedClock("2026-01-07T12:00:00Z")
    store = PostgresStore(postgres_url, now)
    numbers = receive(store, "one", "two", "three")
    script = _STUCK.replace("time.time() - float(sys.argv[2])", f"{1_767_787_260}")  # a minute later
    stuck = started(script, postgres_url, "0")
    assert stuck.stdout is not None
    assert stuck.stdout.readline() == "2\n"
    stuck.kill()
    stuck.communicate()
    now.advance(120)
    assert [item.id for item in store.inbox.claim(9)] == numbers[2:]
    now.advance(CLAIMED - 30)
    assert [item.id for item in store.inbox.claim(9)] == numbers[:2]
    store.close()


def test_a_turn_that_many_deliver_at_once_through_two_stores_is_one_item(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock()) for _ in range(2)]
    start, kept = threading.Barrier(8), []

    def deliver(place: int) -> None:
        start.wait()
        for number in range(10):
            exchanges = [turn(number), turn(100 + number)]
            receipts = stores[place % 2].inbox.receive(exchanges if place % 3 else exchanges[::-1])
            kept.append(
                (number, tuple(sorted(receipt.id for receipt in receipts)), sum(receipt.new for receipt in receipts))
            )

    threads = [threading.Thread(target=deliver, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 80  # nobody was refused
    assert len({(number, ids) for number, ids, _ in kept}) == 10
    assert sum(new for *_, new in kept) == 20
    assert stores[0].inbox.status().captured == 20
    for each in stores:
        each.close()


def test_a_turn_that_grows_by_many_hands_at_once_says_everything_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock()) for _ in range(2)]
    start = threading.Barrier(8)

    def deliver(place: int) -> None:
        start.wait()
        for number in range(5):
            messages = (Message("user", f"We use number {place}.{number} of all"),)
            stores[place % 2].inbox.amend(Exchange(messages=messages, client="cc", session="s", turn="t"))

    threads = [threading.Thread(target=deliver, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (item,) = stores[0].inbox.items()
    assert item.exchange is not None
    assert len(item.exchange.messages) == 40
    for each in stores:
        each.close()


def test_a_slot_that_many_want_at_once_is_had_by_one(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url, FixedClock(NOW)) for _ in range(2)]
    start, won = threading.Barrier(8), []

    def race(place: int) -> None:
        for day in range(1, 6):
            start.wait()
            run = stores[place % 2].runs.claim(f"chore {day}", MONDAY, f"racer {place}")
            if run:
                won.append(run.chore)

    threads = [threading.Thread(target=race, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [f"chore {day}" for day in range(1, 6)]
    for each in stores:
        each.close()


# ── tenants, and what is shared ───────────────────────────────────────────────────────────────────────────────────────


def test_tenants_of_one_database_know_nothing_of_each_other(postgres_url: str, clock: FixedClock) -> None:
    one, two = (PostgresStore(f"{postgres_url}?tenant={name}", clock) for name in ("one", "two"))
    (kept,) = one.inbox.receive([turn(1)])
    assert two.inbox.receive([turn(1)])[0].new
    assert kept.id not in {item.id for item in two.inbox.items()}
    assert len(one.inbox.claim(9)) == len(two.inbox.claim(9)) == 1
    assert one.runs.claim("prune", MONDAY, "x")
    assert two.runs.claim("prune", MONDAY, "x")
    one.keys.create(Grant(name="ada", user="ada"), digest("secret"), "cofio_s", "owner")
    assert two.keys.find(digest("secret")) is None
    assert not two.keys.any_valid()
    assert one.snapshots.identity() != two.snapshots.identity()
    add(one, "ours")
    assert two.snapshots.counts() == (0, 0)
    assert two.snapshots.adopt_identity("another's")
    assert not one.snapshots.adopt_identity("another's")
    one.close()
    two.close()


def test_ids_that_are_kept_free_are_given_to_nobody_of_the_tenant(postgres_url: str, clock: FixedClock) -> None:
    one, two = (PostgresStore(f"{postgres_url}?tenant={name}", clock) for name in ("one", "two"))
    before = add(one, "before")
    last = one.snapshots.reserve(50)
    assert last >= before.id
    assert add(one, "after").id > last + 50
    rooms = one.snapshots.room("laptop", 10)
    assert rooms == one.snapshots.room("laptop", 10) == one.snapshots.room("laptop", 0)
    ((_, offset),) = rooms
    assert add(two, "theirs").id > offset
    assert add(one, "later").id > 10 + offset
    assert not two.snapshots.adopt_identity("x")
    one.close()
    two.close()


def test_a_reservation_counts_as_holding_something(store: Store) -> None:
    store.snapshots.reserve(3)
    assert not store.snapshots.adopt_identity("another's")


def test_what_is_purged_is_gone_from_the_inbox_and_from_what_shares_its_sentence(
    store: Store, postgres_url: str
) -> None:
    purged = add(store, 'the "secret" is x\ny', context="we said: the secret")
    other = add(store, "another", context="we said: the secret")
    settled, open_one, unlike = receive(store, 'ah, the "secret" is x\ny!', 'the "secret" is x\ny', "something else")
    for number in (settled, unlike):
        store.inbox.settle(ending(number, "rejected", reason='the "secret" is x\ny'))
    apply(store, Purge(purged.id))
    assert store.inbox.item(settled).exchange is None
    assert texts([store.inbox.item(open_one)]) == [""]
    assert texts([store.inbox.item(unlike)]) == ["something else"]
    assert store.inbox.item(unlike).reason == ""
    assert store.get([other.id])[0].context == ""
    with psycopg.connect(postgres_url) as beside:
        for table in ("inbox", "memories", "changes", "occurrences"):
            (written,) = beside.execute(f"SELECT coalesce(string_agg(t::text, ''), '') FROM {table} t").fetchone() or (
                "",
            )
            assert "secret" not in written, table


def test_the_log_is_trimmed_bit_by_bit_and_whole(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.stores.database._BATCH", 10)
    monkeypatch.setattr("cofio.stores.inbox._BATCH", 3)
    with psycopg.connect(postgres_url) as beside:
        beside.execute(
            "INSERT INTO retrievals (tenant, memory_id, query, caller, at)"
            " SELECT 'main', 1, 'q', 'c', to_char(n, 'FM0000') || '-01-01' FROM generate_series(2000, 2024) n"
        )
    assert store.usage.forget("2021-06-01T00:00:00Z") == 22
    assert store.usage.forget("2021-06-01T00:00:00Z") == 0
    for number in receive(store, *"abcdefg"):
        store.inbox.settle(ending(number))
    assert store.inbox.forget("2100-01-01T00:00:00Z") == 7
    assert store.inbox.forget("2100-01-01T00:00:00Z") == 0


def test_said_is_what_every_store_can_keep(store: Store) -> None:
    (number,) = receive(store, "one")
    store.inbox.postpone(number, 0, "a \x00 and half a \ud800")
    assert store.inbox.item(number).reason == "a  and half a ?"
    assert store.inbox.receive([said("x")])[0].new
