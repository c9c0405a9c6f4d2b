"""The worker in its thread."""

from __future__ import annotations

import time

import pytest

from cofio.core import Keeper
from cofio.errors import StoreError
from cofio.models.memory import Retrieval, days_before
from cofio.server.background.inbox_worker import InboxWorker


def until(done: object, seconds: float = 20.0) -> None:
    """Wait until the function says so."""
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ago(keeper: Keeper, days: int) -> str:
    return days_before(keeper.services.shared.clock(), days)


def test_it_learns_from_what_comes_in_while_it_runs_and_ends_when_it_is_told(keeper: Keeper) -> None:
    worker = InboxWorker(keeper)
    worker.start()
    try:
        for number in range(5):
            keeper.capture(f"The port of service{number} is {8000 + number}.")
            worker.wake()
        until(lambda: keeper.inbox_status().stored == 5)
    finally:
        worker.stop()
    keeper.capture("I prefer tabs over spaces.")
    worker.wake()
    time.sleep(0.1)
    assert keeper.inbox_status().pending == 1


def test_it_outlives_a_store_that_fails(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
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
        until(lambda: worker.times >= 1)
        while keeper.inbox_status().pending and worker.times < 100:
            worker.wake()
            time.sleep(0.02)
        assert keeper.inbox_status().stored == 1
    finally:
        worker.stop()
    assert "The disk is full" in caplog.text
    assert "unexpected error" in caplog.text


def test_what_was_asked_long_ago_is_forgotten_and_still_counts(keeper: Keeper) -> None:
    memory = keeper.add("I prefer tabs over spaces.").memory
    keeper.services.access.store.note(
        [Retrieval(memory.id, "tabs", "ann", at) for at in (ago(keeper, 400), ago(keeper, 1))]
    )
    worker = InboxWorker(keeper, retrieval_days=180)
    worker.start()
    until(lambda: keeper.services.access.store.usage.tracking(ago(keeper, 1_000)).days == 1)
    worker.stop()
    assert keeper.get(memory.id).retrieval_count == 2


def test_the_words_of_old_captures_are_forgotten_in_time(keeper: Keeper) -> None:
    captured = keeper.capture("I prefer tabs over spaces.", wait=True)
    worker = InboxWorker(keeper, days_kept=0)
    worker.start()
    until(lambda: keeper.item(captured.id).exchange is None)
    worker.stop()


def test_what_was_just_said_is_kept_whatever_the_clock_of_the_machine_says(keeper: Keeper) -> None:
    captured = keeper.capture("Hi there!", wait=True)  # dated by the keeper's clock, which is not the machine's
    worker = InboxWorker(keeper, days_kept=30)
    worker.start()
    until(lambda: worker._tidied)
    worker.stop()
    assert keeper.retry(captured.id).state == "pending"
