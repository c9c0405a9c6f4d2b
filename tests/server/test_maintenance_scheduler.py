"""The maintenance scheduler: due chores run once per slot, also with several processes."""

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
from tests.server.test_inbox_worker import wait_until

DAILY, WEEKLY = "0 3 * * *", "0 4 * * 0"
START = "2026-03-02T12:00:00Z"  # a Monday


class ManualClock:
    """Clock of the store and the scheduler, set by the test."""

    def __init__(self) -> None:
        self.now = to_utc_iso(START)

    def __call__(self) -> str:
        return self.now

    def set_time(self, day: int, hour: int = 12, minute: int = 0) -> str:
        """Set the time to this many days after the start, at the given time of day."""
        midnight = datetime.fromisoformat(START).replace(hour=0)
        self.now = to_utc_iso(midnight + timedelta(days=day, hours=hour, minutes=minute))
        return self.now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def keeper(tmp_path: Path, clock: ManualClock) -> Iterator[Keeper]:
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        yield keeper


def summarize_runs(runs: list[MaintenanceRun]) -> list[tuple[str, str, str]]:
    return [(run.chore, run.slot[:16], run.outcome) for run in runs]


def test_first_run_is_at_the_next_slot(keeper: Keeper, clock: ManualClock) -> None:
    scheduler = Scheduler(keeper, {"prune": DAILY}, clock)
    assert scheduler.tick(clock()) == []
    assert summarize_runs(keeper.runs()) == [("prune", "2026-03-02T03:00", "began")]
    assert scheduler.tick(clock.set_time(1, 2, 59)) == []
    assert summarize_runs(scheduler.tick(clock.set_time(1, 3))) == [("prune", "2026-03-03T03:00", "done")]
    assert scheduler.tick(clock.set_time(1, 3, 1)) == []
    assert scheduler.tick(clock.set_time(1, 23)) == []
    assert summarize_runs(keeper.runs()) == [
        ("prune", "2026-03-03T03:00", "done"),
        ("prune", "2026-03-02T03:00", "began"),
    ]
    assert keeper.runs()[0].by == "schedule"


def test_missed_slots_are_caught_up_with_one_run(keeper: Keeper, clock: ManualClock) -> None:
    schedules = {"prune": DAILY}
    Scheduler(keeper, schedules, clock).tick(clock())
    later = Scheduler(keeper, schedules, clock)
    assert summarize_runs(later.tick(clock.set_time(8, 9))) == [("prune", "2026-03-10T03:00", "done")]
    assert later.tick(clock.set_time(8, 10)) == []
    assert summarize_runs(later.tick(clock.set_time(9, 3))) == [("prune", "2026-03-11T03:00", "done")]


def test_chores_have_separate_schedules_and_disabled_ones_never_run(keeper: Keeper, clock: ManualClock) -> None:
    scheduler = Scheduler(keeper, {"consolidate": DAILY, "prune": WEEKLY, "backup": ""}, clock)
    scheduler.tick(clock())
    result = [run for day in range(1, 9) for run in scheduler.tick(clock.set_time(day))]
    assert [run.chore for run in result].count("consolidate") == 8
    assert [run.slot[:16] for run in result if run.chore == "prune"] == ["2026-03-08T04:00"]
    assert keeper.runs(chore="backup") == []


def test_scheduled_prune_archives_memories_and_can_be_undone(keeper: Keeper, clock: ManualClock) -> None:
    recalled = [keeper.add(f"the port of service{number} is {8000 + number}").memory for number in range(10)]
    archived = keeper.add("the build of Tuesday was red").memory
    for day in range(0, 70, 7):
        keeper.services.access.store.note([Retrieval(item.id, "port", "ann", clock.set_time(day)) for item in recalled])
    clock.set_time(0)
    scheduler = Scheduler(keeper, {"prune": WEEKLY}, clock)
    scheduler.tick(clock())
    (run,) = scheduler.tick(clock.set_time(70))
    assert run.details["decisions"] == 1
    assert keeper.get(archived.id).archived
    assert run.changeset is not None
    assert keeper.changeset(run.changeset).why == "prune, as scheduled"
    keeper.undo(run.changeset)
    assert not keeper.get(archived.id).archived


def test_slot_of_a_dead_run_is_repeated(keeper: Keeper, clock: ManualClock) -> None:
    scheduler = Scheduler(keeper, {"prune": DAILY}, clock)
    scheduler.tick(clock())
    clock.set_time(1, 3)
    assert keeper.services.access.store.runs.claim("prune", clock(), "a process that is killed") is not None
    assert scheduler.tick(clock.set_time(1, 3, 5)) == []
    assert summarize_runs(scheduler.tick(clock.set_time(1, 3, 11))) == [("prune", "2026-03-03T03:00", "done")]
    assert [run.outcome for run in keeper.runs()] == ["done", "died", "began"]


def test_failed_chore_does_not_affect_others(
    keeper: Keeper, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(keeper, {"backup": DAILY, "prune": DAILY}, clock)  # this keeper has no backup
    scheduler.tick(clock())
    assert [(run.chore, run.outcome) for run in scheduler.tick(clock.set_time(1, 4))] == [
        ("backup", "failed"),
        ("prune", "done"),
    ]
    assert scheduler.tick(clock.set_time(1, 5)) == []
    assert "backup" in caplog.text
    assert "can only back up SQLite" in keeper.runs(chore="backup")[0].details["error"]


def test_invalid_schedule_is_rejected(keeper: Keeper, clock: ManualClock) -> None:
    with pytest.raises(Misconfigured, match="such as"):
        Scheduler(keeper, {"prune": "every night"}, clock)


# ── thread ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ScriptedKeeper(Keeper):
    """A keeper whose chores call a function of the test."""

    act: Callable[[Callable[[], bool]], Any] = staticmethod(lambda halted: None)
    threads: list[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.services.maintenance.run_scheduled = self._run  # type: ignore[method-assign]

    def _run(self, chore: str, *, slot: str, by: str = "schedule", halted: Callable[[], bool] = lambda: False) -> None:
        self.threads.append(threading.current_thread().name)
        self.act(halted)


@pytest.fixture
def scripted_keeper(tmp_path: Path, clock: ManualClock) -> Iterator[ScriptedKeeper]:
    with ScriptedKeeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.threads = []
        keeper.services.maintenance.begin_schedule("prune", "2026-03-01T03:00:00Z")
        yield keeper


def test_thread_continues_after_errors(
    scripted_keeper: ScriptedKeeper, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_halted: Callable[[], bool]) -> None:
        if len(scripted_keeper.threads) == 1:
            raise StoreBusy("The store is held.", "Wait.")
        if len(scripted_keeper.threads) == 2:
            raise ValueError("a bug")

    scripted_keeper.act = fail
    scheduler = Scheduler(scripted_keeper, {"prune": DAILY}, clock, every=0.01)
    scheduler.start()
    wait_until(lambda: len(scripted_keeper.threads) >= 4)
    scheduler.stop()
    assert set(scripted_keeper.threads) == {"cofio-scheduler"}
    assert "The store is held." in caplog.text
    assert "unexpected error in the scheduled prune" in caplog.text
    count = len(scripted_keeper.threads)
    time.sleep(0.1)
    assert len(scripted_keeper.threads) == count


def test_stop_interrupts_the_running_chore(scripted_keeper: ScriptedKeeper, clock: ManualClock) -> None:
    halted = threading.Event()

    def long_work(is_halted: Callable[[], bool]) -> None:
        while not is_halted():
            time.sleep(0.005)
        halted.set()

    scripted_keeper.act = long_work
    scheduler = Scheduler(scripted_keeper, {"prune": DAILY}, clock, every=0.01)
    scheduler.start()
    wait_until(lambda: bool(scripted_keeper.threads))
    scheduler.stop()
    assert halted.is_set()


def test_uninterruptible_chore_does_not_delay_shutdown(scripted_keeper: ScriptedKeeper, clock: ManualClock) -> None:
    finished = threading.Event()
    scripted_keeper.act = lambda halted: finished.wait(20)
    scheduler = Scheduler(scripted_keeper, {"prune": DAILY}, clock, every=0.01)
    scheduler.start()
    wait_until(lambda: bool(scripted_keeper.threads))
    start_time = time.monotonic()
    scheduler.stop(patience=0.1)
    assert time.monotonic() - start_time < 10
    finished.set()


def test_no_thread_without_schedules(keeper: Keeper, clock: ManualClock) -> None:
    scheduler = Scheduler(keeper, {"prune": "off"}, clock)
    scheduler.start()
    assert "cofio-scheduler" not in {thread.name for thread in threading.enumerate()}
    scheduler.stop()


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_SCHEDULER = """
import sys
from pathlib import Path
from cofio.server.background.scheduler import Scheduler
from cofio.core import Keeper
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import HashEmbedder
now = "2026-03-03T03:00:10.000000+00:00"
keeper = Keeper(SqliteStore(Path(sys.argv[1]), lambda: now), HashEmbedder(), lambda: now)
scheduler = Scheduler(keeper, {"consolidate": "0 3 * * *", "prune": "0 3 * * *"}, lambda: now)
print("ready", flush=True)
sys.stdin.readline()
print(",".join(run.chore for _ in range(5) for run in scheduler.tick(now)))
keeper.close()
"""


def test_due_chore_runs_in_only_one_of_several_processes(keeper: Keeper, clock: ManualClock, tmp_path: Path) -> None:
    for chore in ("consolidate", "prune"):
        keeper.services.maintenance.begin_schedule(chore, "2026-03-02T03:00:00Z")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SCHEDULER, str(tmp_path / "cofio.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for other in processes:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
    for other in processes:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    answers = [other.communicate(timeout=60) for other in processes]
    assert [other.returncode for other in processes] == [0, 0, 0], answers
    assert sorted(chore for out, _ in answers for chore in out.strip().split(",") if chore) == ["consolidate", "prune"]
    result = [(run.chore, run.slot[:16]) for run in keeper.runs() if run.outcome == "done"]
    assert sorted(result) == [("consolidate", "2026-03-03T03:00"), ("prune", "2026-03-03T03:00")]


# ── in the service ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("enabled", "expected"), [("true", True), ("false", False)])
def test_service_runs_the_scheduler_while_enabled(keeper: Keeper, tmp_path: Path, enabled: str, expected: bool) -> None:
    app = make(keeper, Settings.load({"home": tmp_path / "home"}, {"MAINTENANCE_ENABLED": enabled}))
    observed: list[set[str]] = []

    async def run() -> None:
        async with app.router.lifespan_context(app):
            observed.append({thread.name for thread in threading.enumerate()})

    anyio.run(run)
    assert ("cofio-scheduler" in observed[0]) is expected
    assert "cofio-scheduler" not in {thread.name for thread in threading.enumerate()}
