"""The SQLite inbox with concurrent threads and processes."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import capture
from cofio.errors import CofioError, Conflict, StoreBusy, StoreError, TooBusy
from cofio.models.exchange import Exchange, Message, Receipt
from cofio.models.memory import Purge
from cofio.stores.inbox_rules import ITEMS
from cofio.stores.sql_loader import migrations, queries
from cofio.stores.sqlite.connection import APPLICATION_ID, statements
from cofio.stores.sqlite.store import SqliteStore
from tests.stores.contract import add, apply, everything
from tests.stores.inbox_contract import FAR_FUTURE, first_texts, learn, make_exchange, receive, resolution
from tests.stores.test_sqlite import assert_consistent, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_store(tmp_path / "cofio.db")
    yield store
    store.close()


def deliver_concurrently(store: SqliteStore, *deliveries: Callable[[], Any]) -> list[Any]:
    """Run the deliveries while another thread holds the write lock. Return their results or errors."""
    results: list[Any] = [None] * len(deliveries)

    def deliver(index: int) -> None:
        try:
            results[index] = deliveries[index]()
        except CofioError as error:
            results[index] = error

    threads = [threading.Thread(target=deliver, args=(index,)) for index in range(len(deliveries))]
    with store._file.alone():
        for place, thread in enumerate(threads):
            thread.start()
            while len(store.inbox._commit._waiting) <= place:  # in this order
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return results


def record_commits(store: SqliteStore) -> list[str]:
    """Return a list that gets an element with every commit from now on."""
    statements: list[str] = []
    store._file._writer.set_trace_callback(
        lambda statement: statements.append(statement) if statement == "COMMIT" else None
    )
    return statements


# ── threads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_deliveries_share_one_commit(store: SqliteStore) -> None:
    statements = record_commits(store)
    deliveries = [lambda n=n: receive(store, f"{n} first", f"{n} second") for n in range(12)]
    answers = deliver_concurrently(store, *deliveries)
    assert len(statements) == 1
    assert sorted(number for answer in answers for number in answer) == list(range(1, 25))
    for place, (first, second) in enumerate(answers):
        stored = [store.inbox.item(number) for number in (first, second)]
        assert first_texts(stored) == [f"{place} first", f"{place} second"]
        assert first < second


def test_receipt_is_returned_after_the_commit(store: SqliteStore, tmp_path: Path) -> None:
    def readable() -> bool:
        (number,) = receive(store, "kept")
        other = sqlite3.connect(tmp_path / "cofio.db")
        results = other.execute("SELECT count(*) FROM inbox WHERE id = ?", (number,)).fetchone()
        other.close()
        return bool(results == (1,))

    for _ in range(20):
        assert deliver_concurrently(store, *[readable] * 6) == [True] * 6


def test_rejected_delivery_does_not_affect_concurrent_ones(store: SqliteStore) -> None:
    known = store.inbox.receive([make_exchange("known", "t0")])
    answers = deliver_concurrently(
        store,
        lambda: receive(store, "fits", most=2),
        lambda: receive(store, "too many", most=2),
        lambda: store.inbox.receive([make_exchange("known", "t0")], most=2),
        lambda: receive(store, "has no limit"),
    )
    assert isinstance(answers[1], TooBusy)
    assert answers[2] == [Receipt(known[0].id, False)]
    assert first_texts(store.inbox.items()) == ["has no limit", "fits", "known"]


def test_delivery_without_disk_space_does_not_affect_concurrent_ones(store: SqliteStore) -> None:
    receive(store, "before")
    with store._file.alone() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
    answers = deliver_concurrently(
        store,
        lambda: receive(store, "small"),
        lambda: receive(store, "huge " * 20_000),
        lambda: receive(store, "small too"),
    )
    assert isinstance(answers[1], StoreError)
    assert "full" in answers[1].message
    assert sorted(first_texts(store.inbox.items())) == ["before", "small", "small too"]
    assert [store.inbox.item(answers[place][0]).state for place in (0, 2)] == ["pending", "pending"]


def test_concurrent_deliveries_of_a_turn_store_it_once(store: SqliteStore) -> None:
    answers = deliver_concurrently(store, *[lambda: store.inbox.receive([make_exchange(turn="t1")])] * 6)
    assert sorted(receipt.new for (receipt,) in answers) == [False] * 5 + [True]
    assert {receipt.id for (receipt,) in answers} == {1}


def test_deliveries_that_time_out_do_so_together(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.stores.sqlite.connection._BUSY_SECONDS", 0.4)
    holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    start_time = time.monotonic()
    answers = deliver_concurrently(store, *[lambda: receive(store, "too early")] * 40)
    took = time.monotonic() - start_time
    assert all(isinstance(answer, StoreBusy) for answer in answers)
    assert len({id(answer) for answer in answers}) == 40
    assert took < 0.4 * 40 / 2
    holder.execute("ROLLBACK")
    holder.close()
    assert receive(store, "now")
    assert first_texts(store.inbox.items()) == ["now"]


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also when the tests run in the background of a shell, which ignores
    SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupted_delivery_releases_the_lock(store: SqliteStore, interrupts: None) -> None:
    held, done = threading.Event(), threading.Event()

    def hold_and_interrupt() -> None:
        with store._file.alone():
            held.set()
            while not store.inbox._commit._writing:
                time.sleep(0.001)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            done.wait()

    holder = threading.Thread(target=hold_and_interrupt, daemon=True)
    holder.start()
    held.wait()
    try:
        with pytest.raises(KeyboardInterrupt):
            receive(store, "interrupted")
    finally:
        done.set()
    holder.join()
    assert first_texts([store.inbox.item(number) for number in receive(store, "next")]) == ["next"]


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_DELIVERER = """
import sys
from pathlib import Path
from tests.stores.inbox_contract import make_exchange
from tests.stores.test_sqlite import open_store
store = open_store(Path(sys.argv[1]))
new = 0
for index in range(40):
    exchanges = [make_exchange("mine", f"{sys.argv[2]} {index}"), make_exchange("ours", f"ours {index}")]
    own, shared = store.inbox.receive(exchanges)
    assert own.new
    new += shared.new
print(new)
store.close()
"""


def test_processes_that_deliver_the_same_turns_store_each_once(tmp_path: Path) -> None:
    path, count = tmp_path / "cofio.db", 4
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _DELIVERER, str(path), str(name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in range(count)
    ]
    output = [process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), output
    assert sum(int(out) for out, _ in output) == 40
    store = open_store(path)
    turns = [item.exchange.turn for item in store.inbox.items(limit=1_000) if item.exchange]
    assert len(turns) == len(set(turns)) == count * 40 + 40
    store.close()
    assert_consistent(path)


def test_item_processed_twice_is_settled_once(tmp_path: Path) -> None:
    first, second = open_store(tmp_path / "cofio.db"), open_store(tmp_path / "cofio.db")
    (number,) = receive(first, "We use tabs")
    assert [item.id for item in second.inbox.due(1)] == [number]
    learn(first, number, "tabs")
    with pytest.raises(Conflict, match="already processed"):
        learn(second, number, "tabs")
    assert [memory.text for memory in everything(second)] == ["tabs"]
    first.close()
    second.close()


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_file_of_schema_version_1_gets_the_inbox(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    first = sqlite3.connect(path, isolation_level=None)
    for statement in statements(migrations("sqlite")[0][1]):
        first.execute(statement)
    first.execute("PRAGMA user_version = 1")
    first.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    first.execute(
        "INSERT INTO memories SELECT 7, 'the zebra stays', '', 'detail', 'other', 1.0, 'manual', '[]', '[]', '', '',"
        " 'private', '{}', '', '', '2026', '2026', 0, NULL, NULL, NULL, NULL, 1, 0, NULL, 0"
    )
    first.close()
    store = open_store(path)
    assert [(memory.id, memory.text) for memory in everything(store)] == [(7, "the zebra stays")]
    assert store.inbox.status().captured == 0
    learn(store, receive(store, "We use tabs")[0], "tabs")
    assert store.inbox.status().stored == 1
    store.close()


@pytest.mark.parametrize(
    "payload", ['{"messages": [{"role"', "[]", "null", '{"messages": [{}]}', '{"at": "never"}', ""]
)
def test_unreadable_item_is_parked_and_others_are_due(store: SqliteStore, payload: str) -> None:
    damaged, whole = receive(store, "damaged", "whole")
    with store._file.writing() as connection:
        connection.execute("UPDATE inbox SET payload = ? WHERE id = ?", (payload, damaged))
    assert store.inbox.item(damaged).exchange is None
    assert [item.id for item in store.inbox.due(1)] == [whole]
    item = store.inbox.item(damaged)
    assert (item.state, item.exchange) == ("parked", None)
    assert "unreadable" in item.reason
    assert len(store.inbox.items()) == 2
    assert store.inbox.status().balanced


def test_forgotten_text_is_removed_from_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    forgotten, kept = receive(store, "quixoticsecret " * 1_000, "the zebra stays")
    store.inbox.settle(resolution(forgotten, result={"actions": [{"text": "zyzzyvatext"}]}))
    assert store.inbox.forget(FAR_FUTURE) == 1
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for word in (b"quixoticsecret", b"zyzzyvatext"):
        assert word not in raw
    assert b"zebra" in raw
    assert first_texts([store.inbox.item(kept)]) == ["the zebra stays"]
    store.close()


def test_purged_text_of_captures_is_removed_from_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    spoken = 'The "quixoticsecret"\tis ünique'
    learned, rejected, pending = receive(
        store, "xylophone: my quixoticsecret is ünique", f"{spoken}, he said", f"{spoken}. The zebra stays."
    )
    result = learn(store, learned, spoken)
    store.inbox.settle(resolution(rejected, "rejected", reason="An echo", result={"actions": [{"text": spoken}]}))
    store.inbox.postpone(pending, 0, f"Nothing came of {spoken}")
    apply(store, Purge(result.changes[0].memory_id))
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
    for word in (b"quixoticsecret", b"xylophone"):
        assert word not in raw
    assert first_texts([store.inbox.item(pending)]) == [". The zebra stays."]
    assert store.inbox.status().as_dict() | {"oldest": None} == {
        "captured": 3, "stored": 1, "merged": 0, "rejected": 1, "pending": 1, "parked": 0,
        "reasons": {"An echo": 1}, "oldest": None, "balanced": True,
    }  # fmt: skip
    store.close()


def test_purge_erases_a_damaged_capture_with_the_text(store: SqliteStore) -> None:
    memory = add(store, "The key is hunter2")
    (damaged,) = receive(store, "damaged")
    with store._file.writing() as connection:
        connection.execute("UPDATE inbox SET payload = '{The key is hunter2' WHERE id = ?", (damaged,))
    apply(store, Purge(memory.id))
    with store._file.reading() as connection:
        assert connection.execute("SELECT payload FROM inbox").fetchall() == [("",)]
    assert store.inbox.due(10) == []
    assert store.inbox.item(damaged).state == "parked"


def test_counting_and_listing_do_not_read_payloads(store: SqliteStore) -> None:
    """A large inbox is counted, listed and cleaned up through its indexes."""
    sql = {name: text.replace("{items}", ITEMS) for name, text in queries("sqlite").items()}
    values = {
        "at": "",
        "limit": 1,
        "state": "pending",
        "after": 9,
        "most": 9,
        "before": "",
        "turn": "t",
        "client": "",
        "until": "",
        "latest": "",
        "due_at": "",
        "any_key": 1,
    }
    request = {
        "is_full": sql["is_full"], "due": sql["due_items"], "newest": sql["newest_items"],
        "newest_in": sql["newest_items_in"], "inbox_status": sql["inbox_status"], "forget": sql["forget_items"],
        "received": sql["received"], "part_of_turn": sql["part_of_turn"], "turns": sql["turns"],
        "release": sql["release_items"], "waiting": sql["waiting_of_session"], "hold": sql["hold_items"],
    }  # fmt: skip
    with store._file.reading() as connection:
        for name, query in request.items():
            rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", {**values, "session": "", "task": "learn"})
            scans = [told for *_, told in rows if told.startswith("SCAN inbox") and "COVERING" not in told]
            assert scans == [], name


@pytest.mark.parametrize("spread", [1, 20])
def test_inbox_limit_is_exact(store: SqliteStore, spread: int) -> None:
    """The number of pending items is derived from dense ids, and counted if ids are sparse."""
    for index in range(10 * spread):
        (number,) = receive(store, f"number {index}")
        if index % spread:
            store.inbox.settle(resolution(number))
    assert receive(store, "the eleventh", most=11)
    with pytest.raises(TooBusy):
        receive(store, "one too many", most=11)


def test_capture_benchmark_prints_all_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture.main(["--seconds", "0.05", "--rounds", "1", "--threads", "4", "--folder", str(tmp_path)])
    table = capsys.readouterr().out
    for label in ("plain SQLite, 1 thread", "inbox, 1 thread", "inbox, 4 threads"):
        assert label in table
    assert list(tmp_path.iterdir()) == []


def test_large_exchange_is_stored_completely(store: SqliteStore) -> None:
    text = "wörd " * 13_000
    exchange = Exchange(messages=tuple(Message("user", text) for _ in range(20)), turn="t1")
    (receipt,) = store.inbox.receive([exchange])
    (item,) = store.inbox.due(1)
    assert item.id == receipt.id
    assert item.exchange
    assert item.exchange.messages == exchange.messages


# ── turns in parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_amendments_share_one_commit(store: SqliteStore) -> None:
    statements = record_commits(store)
    prompts = [lambda n=n: store.inbox.amend(make_exchange(f"prompt {n}", f"t{n}"), hold=60) for n in range(6)]
    answers = [lambda n=n: store.inbox.amend(make_exchange(f"answer {n}", f"t{n}")) for n in range(6)]
    receipts = deliver_concurrently(store, *prompts, lambda: receive(store, "somebody else's"), *answers)
    assert len(statements) == 1
    assert [receipt.new for receipt in receipts[:6]] == [True] * 6
    assert receipts[7:] == [Receipt(receipt.id, False) for receipt in receipts[:6]]
    for place, receipt in enumerate(receipts[:6]):
        exchange = store.inbox.item(receipt.id).exchange
        assert exchange
        assert {message.text for message in exchange.messages} == {f"prompt {place}", "Noted.", f"answer {place}"}


def test_turn_amended_by_two_processes_is_one_item(tmp_path: Path) -> None:
    first_store, second_store = open_store(tmp_path / "cofio.db"), open_store(tmp_path / "cofio.db")
    first = first_store.inbox.amend(make_exchange("We use tabs", "t1"), hold=3600)
    assert second_store.inbox.amend(make_exchange("Always semicolons", "t1")) == Receipt(first.id, False)
    (item,) = first_store.inbox.due(10)
    assert item.exchange
    assert [message.text for message in item.exchange.messages] == ["We use tabs", "Noted.", "Always semicolons"]
    first_store.close()
    second_store.close()


def test_purged_text_of_a_turn_in_parts_is_removed_from_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cofio.db")
    memory = add(store, "The quixoticsecret is ünique")
    store.mark_injected("cc", "s", {memory.id: "digestofquixoticsecret"})
    telling = make_exchange("The quixoticsecret is ünique. The zebra stays.", "t1")
    first = store.inbox.amend(telling, hold=3600)
    apply(store, Purge(memory.id))
    store.inbox.amend(telling)
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"quixoticsecret" not in raw
    assert first_texts([store.inbox.item(first.id)]) == [". The zebra stays."]
    store.close()


@pytest.mark.parametrize("payload", ['{"messages": [{"role"', "[]", "null", ""])
def test_unreadable_turn_accepts_no_amendment(store: SqliteStore, payload: str) -> None:
    first = store.inbox.amend(make_exchange("damaged", "t1"))
    with store._file.writing() as connection:
        connection.execute("UPDATE inbox SET payload = ? WHERE id = ?", (payload, first.id))
    assert store.inbox.amend(make_exchange("more", "t1")) == Receipt(first.id, False)
    assert store.inbox.status().captured == 1
