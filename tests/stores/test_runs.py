"""Maintenance runs of every store, and concurrent claims."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import add
from tests.stores.runs_contract import MONDAY, NOW, RunsContract


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


class TestSqliteStore(RunsContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: FixedClock) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "cofio.db", clock)
        yield store
        store.close()


def test_runs_are_persistent(tmp_path: Path, clock: FixedClock) -> None:
    store = SqliteStore(tmp_path / "cofio.db", clock)
    add(store, "we use tabs")
    run = store.runs.claim("prune", MONDAY, "schedule")
    assert run is not None
    result = store.runs.finish(run.id, "done", {"note": "x"}, changeset=1)
    store.close()
    reopened = SqliteStore(tmp_path / "cofio.db", clock)
    assert reopened.runs.newest(5) == [result]
    assert result.changeset == 1
    reopened.close()


_RACER = """
import sys
from pathlib import Path
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
path, name, slots = Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
store = SqliteStore(path, FixedClock("2026-02-01T00:00:00Z"))
print("ready", flush=True)
sys.stdin.readline()
won = []
for slot in slots:
    run = store.runs.claim("prune", slot, name)
    if run:
        store.runs.finish(run.id, "done", {"by": name})
        won.append(slot)
print(",".join(won))
store.close()
"""


def test_slots_claimed_concurrently_are_won_once(tmp_path: Path) -> None:
    slots = [f"2026-01-{day:02}T03:00:00.000000+00:00" for day in range(1, 26)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, str(tmp_path / "cofio.db"), f"racer {number}", ",".join(slots)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    output = [racer.communicate() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4, output
    won = sorted(slot for out, _ in output for slot in out.strip().split(",") if slot)
    assert len(won) == len(set(won))
    store = SqliteStore(tmp_path / "cofio.db", FixedClock("2026-02-01T00:00:00Z"))
    runs = store.runs.newest(99)
    assert sorted(run.slot for run in runs) == won
    assert slots[-1] in won
    assert all(run.details["by"] == run.by for run in runs)
    store.close()
