"""The scheduler: chores when they are due, each slot once, whoever looks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from cofio.core import Keeper
from cofio.errors import Misconfigured, StoreBusy
from cofio.models.maintenance import MaintenanceRun
from cofio.models.memory import Retrieval, to_utc_iso
from cofio.server.background.scheduler import Scheduler
from cofio.server.http.app import make
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import HashEmbedder
from tests.server.test_inbox_worker import until

DAILY, WEEKLY = "0 3 * * *", "0 4 * * 0"
START = "2026-03-02T12:00:00Z"  # a Monday


class Time:
    """The store's clock and the scheduler's, set by the test."""

    def __init__(self) -> None:
        self.now = to_utc_iso(START)

    def __call__(self) -> str:
        return self.now

    def to(self, day: int, hour: int = 12, minute: int = 0) -> str:
        """So many days after the start, at that time of the day."""
        midnight = datetime.fromisoformat(START).replace(hour=0)
        self.now = to_utc_iso(midnight + timedelta(days=day, hours=hour, minutes=minute))
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def keeper(tmp_path: Path, clock: Time) -> Iterator[Keeper]:
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        yield keeper


def told(runs: list[MaintenanceRun]) -> list[tuple[str, str, str]]:
    return [(run.chore, run.slot[:16], run.outcome) for run in runs]


def test_a_schedule_begins_with_the_next_slot_and_not_with_a_past_one(keeper: Keeper, clock: Time) -> None:
    scheduler = Scheduler(keeper, {"prune": DAILY}, clock)
    assert scheduler.tick(clock()) == []
    assert told(keeper.runs()) == [("prune", "2026-03-02T03:00", "began")]
    assert scheduler.tick(clock.to(1, 2, 59)) == []
    assert told(scheduler.tick(clock.to(1, 3))) == [("prune", "2026-03-03T03:00", "done")]
    assert scheduler.tick(clock.to(1, 3, 1)) == []
    assert scheduler.tick(clock.to(1, 23)) == []
    assert told(keeper.runs()) == [("prune", "2026-03-03T03:00", "done"), ("prune", "2026-03-02T03:00", "began")]
    assert keeper.runs()[0].by == "schedule"


def test_a_week_off_is_caught_up_once(keeper: Keeper, clock: Time) -> None:
    schedules = {"prune": DAILY}
    Scheduler(keeper, schedules, clock).tick(clock())
    later = Scheduler(keeper, schedules, clock)
    assert told(later.tick(clock.to(8, 9))) == [("prune", "2026-03-10T03:00", "done")]
    assert later.tick(clock.to(8, 10)) == []
    assert told(later.tick(clock.to(9, 3))) == [("prune", "2026-03-11T03:00", "done")]


def test_every_chore_has_its_own_schedule_and_one_that_is_off_never_runs(keeper: Keeper, clock: Time) -> None:
    scheduler = Scheduler(keeper, {"consolidate": DAILY, "prune": WEEKLY, "backup": ""}, clock)
    scheduler.tick(clock())
    done = [run for day in range(1, 9) for run in scheduler.tick(clock.to(day))]
    assert [run.chore for run in done].count("consolidate") == 8
    assert [run.slot[:16] for run in done if run.chore == "prune"] == ["2026-03-08T04:00"]
    assert keeper.runs(chore="backup") == []


def test_what_is_due_is_done_to_the_memories_and_can_be_undone(keeper: Keeper, clock: Time) -> None:
    asked = [keeper.add(f"the port of service{number} is {8000 + number}").memory for number in range(10)]
    dead = keeper.add("the build of Tuesday was red").memory
    for day in range(0, 70, 7):
        keeper.services.access.store.note([Retrieval(each.id, "port", "ann", clock.to(day)) for each in asked])
    clock.to(0)
    scheduler = Scheduler(keeper, {"prune": WEEKLY}, clock)
    scheduler.tick(clock())
    (run,) = scheduler.tick(clock.to(70))
    assert run.details["decisions"] == 1
    assert keeper.get(dead.id).archived
    assert run.changeset is not None
    assert keeper.changeset(run.changeset).why == "prune, as scheduled"
    keeper.undo(run.changeset)
    assert not keeper.get(dead.id).archived


def test_a_slot_whose_run_died_is_done_again(keeper: Keeper, clock: Time) -> None:
    scheduler = Scheduler(keeper, {"prune": DAILY}, clock)
    scheduler.tick(clock())
    clock.to(1, 3)
    assert keeper.services.access.store.runs.claim("prune", clock(), "a process that is killed") is not None
    assert scheduler.tick(clock.to(1, 3, 5)) == []
    assert told(scheduler.tick(clock.to(1, 3, 11))) == [("prune", "2026-03-03T03:00", "done")]
    assert [run.outcome for run in keeper.runs()] == ["done", "died", "began"]


def test_a_chore_that_fails_leaves_its_slot_and_hinders_no_other(
    keeper: Keeper, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(keeper, {"backup": DAILY, "prune": DAILY}, clock)  # this keeper has no backup
    scheduler.tick(clock())
    assert [(run.chore, run.outcome) for run in scheduler.tick(clock.to(1, 4))] == [
        ("backup", "failed"),
        ("prune", "done"),
    ]
    assert scheduler.tick(clock.to(1, 5)) == []
    assert "backup" in caplog.text
    assert "cannot back up" in keeper.runs(chore="backup")[0].details["error"]


def test_a_schedule_that_cannot_be_read_is_refused_before_anything_starts(keeper: Keeper, clock: Time) -> None:
    with pytest.raises(Misconfigured, match="such as"):
        Scheduler(keeper, {"prune": "every night"}, clock)


# ── the thread ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Watched(Keeper):
    """A keeper whose chore is the test's."""

    act: Callable[[Callable[[], bool]], Any] = staticmethod(lambda halted: None)
    threads: list[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.services.maintenance.run_scheduled = self._run  # type: ignore[method-assign]

    def _run(self, chore: str, *, slot: str, by: str = "schedule", halted: Callable[[], bool] = lambda: False) -> None:
        self.threads.append(threading.current_thread().name)
        self.act(halted)


@pytest.fixture
def watched(tmp_path: Path, clock: Time) -> Iterator[Watched]:
    with Watched(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.threads = []
        keeper.services.maintenance.begin_schedule("prune", "2026-03-01T03:00:00Z")
        yield keeper


def test_it_works_in_a_thread_of_its_own_and_outlives_what_goes_wrong(
    watched: Watched, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_halted: Callable[[], bool]) -> None:
        if len(watched.threads) == 1:
            raise StoreBusy("The store is held.", "Wait.")
        if len(watched.threads) == 2:
            raise ValueError("a bug")

    watched.act = fail
    scheduler = Scheduler(watched, {"prune": DAILY}, clock, every=0.01)
    scheduler.start()
    until(lambda: len(watched.threads) >= 4)
    scheduler.stop()
    assert set(watched.threads) == {"cofio-scheduler"}
    assert "The store is held." in caplog.text
    assert "unexpected error in prune" in caplog.text
    count = len(watched.threads)
    time.sleep(0.1)
    assert len(watched.threads) == count


def test_stopping_halts_the_chore_at_hand(watched: Watched, clock: Time) -> None:
    halted = threading.Event()

    def long_work(is_halted: Callable[[], bool]) -> None:
        while not is_halted():
            time.sleep(0.005)
        halted.set()

    watched.act = long_work
    scheduler = Scheduler(watched, {"prune": DAILY}, clock, every=0.01)
    scheduler.start()
    until(lambda: bool(watched.threads))
    scheduler.stop()
    assert halted.is_set()


def test_a_chore_that_hears_nothing_does_not_hold_up_the_end(watched: Watched, clock: Time) -> None:
    over = threading.Event()
    watched.act = lambda halted: over.wait(20)
    scheduler = Scheduler(watched, {"prune": DAILY}, clock, every=0.01)
    scheduler.start()
    until(lambda: bool(watched.threads))
    started = time.monotonic()
    scheduler.stop(patience=0.1)
    assert time.monotonic() - started < 10
    over.set()


def test_without_a_schedule_there_is_no_thread(keeper: Keeper, clock: Time) -> None:
    scheduler = Scheduler(keeper, {"prune": "off"}, clock)
    scheduler.start()
    assert "cofio-scheduler" not in {thread.name for thread in threading.enumerate()}
    scheduler.stop()


# ── several processes ─────────────────────────────────────────────────────────────────────────────────────────────────

_CARETAKER = """
import sys
from pathlib import Path
from cofio.server.background.scheduler import Scheduler as Caretaker
from cofio.core import Keeper
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import HashEmbedder
now = "2026-03-03T03:00:10.000000+00:00"
keeper = Keeper(SqliteStore(Path(sys.argv[1]), lambda: now), HashEmbedder(), lambda: now)
scheduler = Caretaker(keeper, {"consolidate": "0 3 * * *", "prune": "0 3 * * *"}, lambda: now)
print("ready", flush=True)
sys.stdin.readline()
print(",".join(run.chore for _ in range(5) for run in scheduler.tick(now)))
keeper.close()
"""


def test_of_schedulers_in_several_processes_one_does_what_is_due(keeper: Keeper, clock: Time, tmp_path: Path) -> None:
    for chore in ("consolidate", "prune"):
        keeper.services.maintenance.begin_schedule(chore, "2026-03-02T03:00:00Z")
    others = [
        subprocess.Popen(
            [sys.executable, "-c", _CARETAKER, str(tmp_path / "cofio.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    answers = [other.communicate(timeout=60) for other in others]
    assert [other.returncode for other in others] == [0, 0, 0], answers
    assert sorted(chore for out, _ in answers for chore in out.strip().split(",") if chore) == ["consolidate", "prune"]
    done = [(run.chore, run.slot[:16]) for run in keeper.runs() if run.outcome == "done"]
    assert sorted(done) == [("consolidate", "2026-03-03T03:00"), ("prune", "2026-03-03T03:00")]


# ── in the service ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("enabled", "there"), [("true", True), ("false", False)])
def test_the_service_has_a_scheduler_for_as_long_as_it_runs(
    keeper: Keeper, tmp_path: Path, enabled: str, there: bool
) -> None:
    app = make(keeper, Settings.load({"home": tmp_path / "home"}, {"MAINTENANCE_ENABLED": enabled}))
    seen: list[set[str]] = []

    async def run() -> None:
        async with app.router.lifespan_context(app):
            seen.append({thread.name for thread in threading.enumerate()})

    anyio.run(run)
    assert ("cofio-scheduler" in seen[0]) is there
    assert "cofio-scheduler" not in {thread.name for thread in threading.enumerate()}
