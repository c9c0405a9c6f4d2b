"""What the inbox of the embedded store promises beyond the contract: many threads, many processes, one file."""

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
from tests.stores.inbox_contract import FOR_EVER, ending, learn, receive, said, texts
from tests.stores.test_sqlite import assert_in_step, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = opened(tmp_path / "cofio.db")
    yield store
    store.close()


def together(store: SqliteStore, *deliveries: Callable[[], Any]) -> list[Any]:
    """What each delivery answers or raises, when all of them come while somebody else writes."""
    answers: list[Any] = [None] * len(deliveries)

    def deliver(place: int) -> None:
        try:
            answers[place] = deliveries[place]()
        except CofioError as error:
            answers[place] = error

    threads = [threading.Thread(target=deliver, args=(place,)) for place in range(len(deliveries))]
    with store._file.alone():
        for place, thread in enumerate(threads):
            thread.start()
            while len(store.inbox._commit._waiting) <= place:  # in this order
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return answers


def commits(store: SqliteStore) -> list[str]:
    """Grows by one with every commit from now on."""
    seen: list[str] = []
    store._file._writer.set_trace_callback(lambda statement: seen.append(statement) if statement == "COMMIT" else None)
    return seen


# ── many threads ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_callers_that_come_at_once_share_one_commit(store: SqliteStore) -> None:
    seen = commits(store)
    deliveries = [lambda n=n: receive(store, f"{n} first", f"{n} second") for n in range(12)]
    answers = together(store, *deliveries)
    assert len(seen) == 1
    assert sorted(number for answer in answers for number in answer) == list(range(1, 25))
    for place, (first, second) in enumerate(answers):
        kept = [store.inbox.item(number) for number in (first, second)]
        assert texts(kept) == [f"{place} first", f"{place} second"]
        assert first < second


def test_a_caller_is_answered_only_when_another_process_can_read_it(store: SqliteStore, tmp_path: Path) -> None:
    def readable() -> bool:
        (number,) = receive(store, "kept")
        other = sqlite3.connect(tmp_path / "cofio.db")
        found = other.execute("SELECT count(*) FROM inbox WHERE id = ?", (number,)).fetchone()
        other.close()
        return bool(found == (1,))

    for _ in range(20):
        assert together(store, *[readable] * 6) == [True] * 6


def test_one_that_is_refused_does_not_hinder_those_who_came_with_it(store: SqliteStore) -> None:
    known = store.inbox.receive([said("known", "t0")])
    answers = together(
        store,
        lambda: receive(store, "fits", most=2),
        lambda: receive(store, "too many", most=2),
        lambda: store.inbox.receive([said("known", "t0")], most=2),
        lambda: receive(store, "has no limit"),
    )
    assert isinstance(answers[1], TooBusy)
    assert answers[2] == [Receipt(known[0].id, False)]
    assert texts(store.inbox.items()) == ["has no limit", "fits", "known"]


def test_one_that_the_disk_has_no_room_for_does_not_take_the_others_down(store: SqliteStore) -> None:
    receive(store, "before")
    with store._file.alone() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
    answers = together(
        store,
        lambda: receive(store, "small"),
        lambda: receive(store, "huge " * 20_000),
        lambda: receive(store, "small too"),
    )
    assert isinstance(answers[1], StoreError)
    assert "full" in answers[1].message
    assert sorted(texts(store.inbox.items())) == ["before", "small", "small too"]
    assert [store.inbox.item(answers[place][0]).state for place in (0, 2)] == ["pending", "pending"]


def test_a_turn_that_two_callers_deliver_at_once_is_kept_once(store: SqliteStore) -> None:
    answers = together(store, *[lambda: store.inbox.receive([said(turn="t1")])] * 6)
    assert sorted(receipt.new for (receipt,) in answers) == [False] * 5 + [True]
    assert {receipt.id for (receipt,) in answers} == {1}


def test_callers_that_get_no_turn_are_told_together_and_not_one_after_another(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.stores.sqlite.connection._BUSY_SECONDS", 0.4)
    holder = sqlite3.connect(tmp_path / "cofio.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    answers = together(store, *[lambda: receive(store, "too early")] * 40)
    took = time.monotonic() - started
    assert all(isinstance(answer, StoreBusy) for answer in answers)
    assert len({id(answer) for answer in answers}) == 40
    assert took < 0.4 * 40 / 2
    holder.execute("ROLLBACK")
    holder.close()
    assert receive(store, "now")
    assert texts(store.inbox.items()) == ["now"]


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Have SIGINT interrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_caller_who_is_interrupted_leaves_the_turn_to_the_next(store: SqliteStore, interrupts: None) -> None:
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
    assert texts([store.inbox.item(number) for number in receive(store, "next")]) == ["next"]


# ── many processes ────────────────────────────────────────────────────────────────────────────────────────────────────

_DELIVERER = """
import sys
from pathlib import Path
from tests.stores.inbox_contract import said
from tests.stores.test_sqlite import opened
store = opened(Path(sys.argv[1]))
new = 0
for place in range(40):
    mine, ours = store.inbox.receive([said("mine", f"{sys.argv[2]} {place}"), said("ours", f"ours {place}")])
    assert mine.new
    new += ours.new
print(new)
store.close()
"""


def test_processes_that_deliver_the_same_turns_keep_each_once(tmp_path: Path) -> None:
    path, count = tmp_path / "cofio.db", 4
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _DELIVERER, str(path), str(name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in range(count)
    ]
    told = [process.communicate() for process in started]
    assert all(process.returncode == 0 for process in started), told
    assert sum(int(out) for out, _ in told) == 40
    store = opened(path)
    turns = [item.exchange.turn for item in store.inbox.items(limit=1_000) if item.exchange]
    assert len(turns) == len(set(turns)) == count * 40 + 40
    store.close()
    assert_in_step(path)


def test_two_who_work_on_one_item_settle_it_once(tmp_path: Path) -> None:
    here, there = opened(tmp_path / "cofio.db"), opened(tmp_path / "cofio.db")
    (number,) = receive(here, "We use tabs")
    assert [item.id for item in there.inbox.due(1)] == [number]
    learn(here, number, "tabs")
    with pytest.raises(Conflict, match="already processed"):
        learn(there, number, "tabs")
    assert [memory.text for memory in everything(there)] == ["tabs"]
    here.close()
    there.close()


# ── one file ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_of_the_first_shape_gets_the_inbox_and_keeps_its_memories(tmp_path: Path) -> None:
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
    store = opened(path)
    assert [(memory.id, memory.text) for memory in everything(store)] == [(7, "the zebra stays")]
    assert store.inbox.status().captured == 0
    learn(store, receive(store, "We use tabs")[0], "tabs")
    assert store.inbox.status().stored == 1
    store.close()


@pytest.mark.parametrize(
    "payload", ['{"messages": [{"role"', "[]", "null", '{"messages": [{}]}', '{"at": "never"}', ""]
)
def test_what_cannot_be_read_any_more_is_parked_and_the_others_go_on(store: SqliteStore, payload: str) -> None:
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


def test_what_is_forgotten_is_gone_from_the_file(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    forgotten, kept = receive(store, "quixoticsecret " * 1_000, "the zebra stays")
    store.inbox.settle(ending(forgotten, result={"actions": [{"text": "zyzzyvatext"}]}))
    assert store.inbox.forget(FOR_EVER) == 1
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for word in (b"quixoticsecret", b"zyzzyvatext"):
        assert word not in raw
    assert b"zebra" in raw
    assert texts([store.inbox.item(kept)]) == ["the zebra stays"]
    store.close()


def test_a_purge_leaves_no_word_of_what_a_memory_was_learned_from(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    spoken = 'The "quixoticsecret"\tis ünique'
    learned, rejected, pending = receive(
        store, "xylophone: my quixoticsecret is ünique", f"{spoken}, he said", f"{spoken}. The zebra stays."
    )
    done = learn(store, learned, spoken)
    store.inbox.settle(ending(rejected, "rejected", reason="An echo", result={"actions": [{"text": spoken}]}))
    store.inbox.postpone(pending, 0, f"Nothing came of {spoken}")
    apply(store, Purge(done.changes[0].memory_id))
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
    for word in (b"quixoticsecret", b"xylophone"):
        assert word not in raw
    assert texts([store.inbox.item(pending)]) == [". The zebra stays."]
    assert store.inbox.status().as_dict() | {"oldest": None} == {
        "captured": 3, "stored": 1, "merged": 0, "rejected": 1, "pending": 1, "parked": 0,
        "reasons": {"An echo": 1}, "oldest": None, "balanced": True,
    }  # fmt: skip
    store.close()


def test_a_purge_that_meets_a_damaged_capture_that_says_it_empties_that(store: SqliteStore) -> None:
    memory = add(store, "The key is hunter2")
    (damaged,) = receive(store, "damaged")
    with store._file.writing() as connection:
        connection.execute("UPDATE inbox SET payload = '{The key is hunter2' WHERE id = ?", (damaged,))
    apply(store, Purge(memory.id))
    with store._file.reading() as connection:
        assert connection.execute("SELECT payload FROM inbox").fetchall() == [("",)]
    assert store.inbox.due(10) == []
    assert store.inbox.item(damaged).state == "parked"


def test_whoever_is_asked_how_full_it_is_does_not_read_what_is_kept(store: SqliteStore) -> None:
    """A busy inbox is counted, listed and tidied by its indexes: the captures of years are not read for that."""
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
    asked = {
        "is_full": sql["is_full"], "due": sql["due_items"], "newest": sql["newest_items"],
        "newest_in": sql["newest_items_in"], "inbox_status": sql["inbox_status"], "forget": sql["forget_items"],
        "received": sql["received"], "part_of_turn": sql["part_of_turn"], "turns": sql["turns"],
        "release": sql["release_items"], "waiting": sql["waiting_of_session"], "hold": sql["hold_items"],
    }  # fmt: skip
    with store._file.reading() as connection:
        for name, query in asked.items():
            rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", {**values, "session": "", "task": "learn"})
            scans = [told for *_, told in rows if told.startswith("SCAN inbox") and "COVERING" not in told]
            assert scans == [], name


@pytest.mark.parametrize("spread", [1, 20])
def test_it_is_full_when_it_is_and_not_before(store: SqliteStore, spread: int) -> None:
    """Whether the pending ones lie close together, so that their ids tell, or apart, so that they are counted."""
    for place in range(10 * spread):
        (number,) = receive(store, f"number {place}")
        if place % spread:
            store.inbox.settle(ending(number))
    assert receive(store, "the eleventh", most=11)
    with pytest.raises(TooBusy):
        receive(store, "one too many", most=11)


def test_the_bench_counts_what_it_says_it_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture.main(["--seconds", "0.05", "--rounds", "1", "--threads", "4", "--folder", str(tmp_path)])
    table = capsys.readouterr().out
    for label in ("plain SQLite, 1 thread", "inbox, 1 thread", "inbox, 4 threads"):
        assert label in table
    assert list(tmp_path.iterdir()) == []


def test_a_large_exchange_is_kept_whole(store: SqliteStore) -> None:
    text = "wörd " * 13_000
    exchange = Exchange(messages=tuple(Message("user", text) for _ in range(20)), turn="t1")
    (receipt,) = store.inbox.receive([exchange])
    (item,) = store.inbox.due(1)
    assert item.id == receipt.id
    assert item.exchange
    assert item.exchange.messages == exchange.messages


# ── turns in parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_prompts_and_answers_that_come_at_once_share_one_commit(store: SqliteStore) -> None:
    seen = commits(store)
    prompts = [lambda n=n: store.inbox.amend(said(f"prompt {n}", f"t{n}"), hold=60) for n in range(6)]
    answers = [lambda n=n: store.inbox.amend(said(f"answer {n}", f"t{n}")) for n in range(6)]
    told = together(store, *prompts, lambda: receive(store, "somebody else's"), *answers)
    assert len(seen) == 1
    assert [receipt.new for receipt in told[:6]] == [True] * 6
    assert told[7:] == [Receipt(receipt.id, False) for receipt in told[:6]]
    for place, receipt in enumerate(told[:6]):
        exchange = store.inbox.item(receipt.id).exchange
        assert exchange
        assert {message.text for message in exchange.messages} == {f"prompt {place}", "Noted.", f"answer {place}"}


def test_a_turn_that_is_told_in_two_processes_is_one(tmp_path: Path) -> None:
    here, there = opened(tmp_path / "cofio.db"), opened(tmp_path / "cofio.db")
    first = here.inbox.amend(said("We use tabs", "t1"), hold=3600)
    assert there.inbox.amend(said("Always semicolons", "t1")) == Receipt(first.id, False)
    (item,) = here.inbox.due(10)
    assert item.exchange
    assert [message.text for message in item.exchange.messages] == ["We use tabs", "Noted.", "Always semicolons"]
    here.close()
    there.close()


def test_what_is_purged_from_a_turn_in_parts_is_gone_from_the_file(tmp_path: Path) -> None:
    store = opened(tmp_path / "cofio.db")
    memory = add(store, "The quixoticsecret is ünique")
    store.give("cc", "s", {memory.id: "digestofquixoticsecret"})
    telling = said("The quixoticsecret is ünique. The zebra stays.", "t1")
    first = store.inbox.amend(telling, hold=3600)
    apply(store, Purge(memory.id))
    store.inbox.amend(telling)
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"quixoticsecret" not in raw
    assert texts([store.inbox.item(first.id)]) == [". The zebra stays."]
    store.close()


@pytest.mark.parametrize("payload", ['{"messages": [{"role"', "[]", "null", ""])
def test_a_turn_that_cannot_be_read_any_more_takes_nothing_in(store: SqliteStore, payload: str) -> None:
    first = store.inbox.amend(said("damaged", "t1"))
    with store._file.writing() as connection:
        connection.execute("UPDATE inbox SET payload = ? WHERE id = ?", (payload, first.id))
    assert store.inbox.amend(said("more", "t1")) == Receipt(first.id, False)
    assert store.inbox.status().captured == 1
