"""Crash and concurrency tests of the SQLite store."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cofio.models.memory import Add, Fact, Scope
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import add, apply, everything, vector
from tests.stores.crash import find_lost_writes
from tests.stores.crash_inbox import ENOUGH, AcknowledgedState
from tests.stores.inbox_contract import make_exchange, resolve_with
from tests.stores.test_sqlite import assert_consistent

KILLS = 200


@pytest.mark.timeout(600)
def test_no_acknowledged_write_is_lost_in_200_kills(tmp_path: Path) -> None:
    seed = str(random.randrange(1 << 20))
    command = [sys.executable, "-m", "tests.stores.crash", str(tmp_path / "cofio.db"), str(KILLS), seed]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, f"seed {seed}: {outcome.stdout[-2000:]} {outcome.stderr[-2000:]}"
    result = json.loads(outcome.stdout)
    assert result["wrong"] == []
    assert result["kills"] >= KILLS
    assert result["acknowledged"] > KILLS  # steps were written between the kills


@pytest.mark.timeout(600)
def test_no_capture_is_lost_or_learned_twice_in_60_kills(tmp_path: Path) -> None:
    seed = str(random.randrange(1 << 20))
    command = [sys.executable, "-m", "tests.stores.crash_inbox", str(tmp_path / "cofio.db"), "60", seed]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, f"seed {seed}: {outcome.stdout[-2000:]} {outcome.stderr[-2000:]}"
    result = json.loads(outcome.stdout)
    assert result["wrong"] == []
    assert result["kills"] >= 60
    assert (
        min(result["kept"], result["settled"], result["stored"]) > ENOUGH
    )  # captures were delivered and learned between the kills


def test_inbox_crash_test_detects_lost_and_duplicate_captures(tmp_path: Path) -> None:
    path = tmp_path / "cofio.db"
    store = SqliteStore(path, FixedClock())
    numbers = [receipt.id for receipt in store.inbox.receive([make_exchange(turn=f"t{index}") for index in range(3)])]
    apply(store, Add(Fact(text="learned t0")), settles=resolve_with(numbers[0]))

    def wrong(**line: Any) -> list[str]:
        known = AcknowledgedState()
        known.update([line])
        return known.find_problems(path)

    assert wrong(kept={"t0": numbers[0], "t1": numbers[1]}, settled={numbers[0]: "stored"}) == []
    assert wrong(kept={"t7": 7})
    assert wrong(kept={"t1": numbers[0]})
    assert wrong(settled={numbers[1]: "stored"})
    apply(store, Add(Fact(text="learned t0")))
    assert wrong()
    store.close()


def test_crash_test_detects_lost_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "cofio.db", FixedClock())
    memory = add(store, "here")
    assert find_lost_writes(store, [{"done": {str(memory.id): "here"}}]) == []
    assert find_lost_writes(store, [{"done": {str(memory.id): "here"}}, {"trying": {str(memory.id): "there"}}]) == []
    assert find_lost_writes(store, [{"done": {str(memory.id): "there"}}])
    assert find_lost_writes(store, [{"done": {"999": "anything"}}])
    store.close()


_WRITER = """
import sys
from pathlib import Path
from cofio.models.memory import Add, Fact
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import apply
store = SqliteStore(Path(sys.argv[1]), FixedClock())
for place in range(int(sys.argv[3])):
    apply(store, Add(Fact(text=f"writer {sys.argv[2]} wrote number {place}")))
    apply(store, Add(Fact(text="every writer writes this"), unless_known=True))
store.close()
"""


def test_concurrent_processes_write_the_same_file(tmp_path: Path) -> None:
    path, writers, writes_per_process = tmp_path / "cofio.db", 4, 40
    watching = SqliteStore(path, FixedClock())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(writer), str(writes_per_process)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for writer in range(writers)
    ]
    while any(process.poll() is None for process in processes):
        watching.nearest(vector("writer wrote number"), 5, Scope())
    for process in processes:
        assert process.wait() == 0, process.communicate()[1]
        process.communicate()
    texts = [memory.text for memory in everything(watching)]
    assert len(texts) == len(set(texts)) == writers * writes_per_process + 1
    results = watching.nearest(vector("writer wrote number"), 1_000, Scope())
    assert len(results) == writers * writes_per_process + 1
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT occurrences FROM memories WHERE text LIKE 'every%'").fetchone() == (
        writers * writes_per_process,
    )
    connection.close()
    watching.close()
    assert_consistent(path)


def test_processes_that_create_the_store_concurrently_create_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cofio.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(writer), "2"], stderr=subprocess.PIPE, text=True
        )
        for writer in range(6)
    ]
    for process in processes:
        assert process.wait() == 0, process.communicate()[1]
        process.communicate()
    store = SqliteStore(path, FixedClock())
    assert len(everything(store)) == 6 * 2 + 1
    store.close()
