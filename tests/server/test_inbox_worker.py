"""The inbox worker thread."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.errors import StoreError
from cofio.models.memory import Retrieval, days_before
from cofio.server.background.inbox_worker import InboxWorker
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder


def wait_until(condition: object, seconds: float = 20.0) -> None:
    """Wait until the condition returns True."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def time_days_ago(keeper: Keeper, days: int) -> str:
    return days_before(keeper.services.shared.clock(), days)


def test_worker_processes_captures_until_stopped(keeper: Keeper) -> None:
    worker = InboxWorker(keeper)
    worker.start()
    try:
        for number in range(5):
            keeper.capture(f"The port of service{number} is {8000 + number}.")
            worker.wake()
        wait_until(lambda: keeper.inbox_status().stored == 5)
    finally:
        worker.stop()
    keeper.capture("I prefer tabs over spaces.")
    worker.wake()
    time.sleep(0.1)
    assert keeper.inbox_status().pending == 1


def test_worker_continues_after_a_store_error(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(InboxWorker):
        times = 0

        def drain(self) -> int:
            self.times += 1
            if self.times == 1:
                raise StoreError("The disk is full.", "Free some space.")
            if self.times == 2:
                raise ValueError("a bug")
            return super().drain()

    worker = Failing(keeper)
    worker.start()
    try:
        keeper.capture("I prefer tabs over spaces.")
        wait_until(lambda: worker.times >= 1)
        while keeper.inbox_status().pending and worker.times < 100:
            worker.wake()
            time.sleep(0.02)
        assert keeper.inbox_status().stored == 1
    finally:
        worker.stop()
    assert "The disk is full" in caplog.text
    assert "unexpected error" in caplog.text


def test_damaged_vector_is_computed_again_in_the_background(tmp_path: Path) -> None:
    path, clock = tmp_path / "cofio.db", FixedClock()
    with Keeper(SqliteStore(path, clock), HashEmbedder(), clock) as keeper:
        keeper.add_all(["We deploy with Fly.io", "The team lead is Ada"])
    with sqlite3.connect(path) as file:
        file.execute("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE memory_id = 1")
    file.close()
    with Keeper(SqliteStore(path, clock), HashEmbedder(), clock) as keeper:
        store = keeper.services.access.store
        assert store.damaged_vectors() == [1]
        worker = InboxWorker(keeper)
        worker.start()
        try:
            wait_until(lambda: not store.damaged_vectors() and not store.missing_vectors(), 60.0)
        finally:
            worker.stop()


def test_old_retrievals_are_forgotten_and_still_counted(keeper: Keeper) -> None:
    memory = keeper.add("I prefer tabs over spaces.").memory
    keeper.services.access.store.note(
        [Retrieval(memory.id, "tabs", "ann", at) for at in (time_days_ago(keeper, 400), time_days_ago(keeper, 1))]
    )
    worker = InboxWorker(keeper, retrieval_days=180)
    worker.start()
    wait_until(lambda: keeper.services.access.store.usage.tracking(time_days_ago(keeper, 1_000)).days == 1)
    worker.stop()
    assert keeper.get(memory.id).retrieval_count == 2


def test_texts_of_old_captures_are_forgotten(keeper: Keeper) -> None:
    capture = keeper.capture("I prefer tabs over spaces.", wait=True)
    worker = InboxWorker(keeper, days_kept=0)
    worker.start()
    wait_until(lambda: keeper.item(capture.id).exchange is None)
    worker.stop()


def test_retention_uses_the_keepers_clock(keeper: Keeper) -> None:
    capture = keeper.capture("Hi there!", wait=True)  # dated by the keeper's clock, which differs from the system clock
    worker = InboxWorker(keeper, days_kept=30)
    worker.start()
    wait_until(lambda: worker._retention_at)
    worker.stop()
    assert keeper.retry(capture.id).state == "pending"
