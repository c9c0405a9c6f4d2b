"""Crash test of the SQLite store: kill a writer with SIGKILL repeatedly and check that no acknowledged write is lost.

  python -m tests.stores.crash STORE KILLS SEED

The writer announces each step, executes it and acknowledges it. After each kill, every memory must have the state of
the last acknowledged step, or of the step in progress. At the end the integrity of the file is checked. After KILLS
kills the test continues, up to ten times as many, until the number of acknowledged steps exceeds the number of kills:
kills that interrupt nothing prove nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cofio.models.memory import Add, Delete, Edit, Fact, Scope, Update
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import apply, vector
from tests.stores.test_sqlite import assert_consistent


def write_until_killed(path: Path, pipe: int, seed: int) -> NoReturn:
    """Execute random steps forever. Announce and acknowledge each one."""
    rng = random.Random(seed)
    store = SqliteStore(path, FixedClock())
    memory_ids: list[int] = []

    def say(**line: Any) -> None:
        os.write(pipe, json.dumps(line).encode() + b"\n")

    step = 0
    while True:
        step += 1
        text = f"seed {seed} step {step} " + "word " * rng.randint(0, 60)
        choice = rng.random()
        if choice < 0.5 or not memory_ids:
            texts = [f"{text} part {part}" for part in range(rng.choice((1, 1, 1, 25)))]
            result = apply(store, *(Add(Fact(text=text)) for text in texts))
            memory_ids += [change.memory_id for change in result.changes]
            say(done={change.memory_id: change.memory.text for change in result.changes})
        elif choice < 0.75:
            memory_id = rng.choice(memory_ids)
            say(trying={memory_id: text.strip()})
            apply(store, Edit(memory_id, {"text": text}))
            say(done={memory_id: text.strip()})
        else:
            memory_id = memory_ids.pop(rng.randrange(len(memory_ids)))
            say(trying={memory_id: None})
            if choice < 0.9:
                apply(store, Delete(memory_id))
                say(done={memory_id: None})
            else:
                new = apply(store, Update(memory_id, Fact(text=text))).changes[0].memory
                memory_ids.append(new.id)
                say(done={memory_id: None, new.id: new.text})


def run_until_killed(victim: Callable[[int], object], rng: random.Random, sign: str) -> list[dict[str, Any]]:
    """Return the lines that the victim wrote into its pipe before it was killed.

    The delay before the kill starts at the first output, or in three of four runs when the victim has written `sign`
    once: on a loaded machine most victims still complete some work, and some are killed before they do anything.
    """
    waits_for_sign = rng.random() < 0.75
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            victim(writer)
        finally:
            os._exit(1)  # reached only after a failure
    os.close(writer)
    first = os.read(reader, 65_536)  # the victim is running and writing
    while waits_for_sign and f'"{sign}":'.encode() not in first and (chunk := os.read(reader, 65_536)):
        first += chunk
    time.sleep(rng.expovariate(1 / 0.015))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(reader, "rb") as remaining:
        output = first + remaining.read()
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL, "the writer died by itself"
    return [json.loads(line) for line in output.split(b"\n")[:-1]]  # a partial last line is not an acknowledgement


def is_finished(kills: int, planned: int, done: int, wanted: int) -> bool:
    """Return True after the planned number of kills with more than `wanted` steps done, or after ten times as many."""
    return kills >= planned and (done > wanted or kills >= 10 * planned)


def find_lost_writes(store: SqliteStore, lines: list[dict[str, Any]]) -> list[str]:
    """Return a message for each acknowledged write that is not in the store."""
    expected: dict[int, str | None] = {}
    for line in lines:
        expected.update({int(number): text for number, text in line.get("done", {}).items()})
    in_progress = {int(number): text for number, text in lines[-1].get("trying", {}).items()} if lines else {}
    memories = {memory.id: memory for memory in store.get(list(expected))}
    problems = []
    for number, text in expected.items():
        memory = memories.get(number)
        actual = (None if memory.archived else memory.text) if memory else "gone"
        if actual != text and not (number in in_progress and actual == in_progress[number]):
            problems.append(f"memory {number} should be {text!r} and is {actual!r}")
        elif memory and not memory.archived:
            best = store.nearest(vector(memory.text), 1, Scope())[0]
            if best.score < 0.999:
                problems.append(f"memory {number} has lost its vector")
    return problems


def main() -> int:
    path, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    SqliteStore(path, FixedClock()).close()
    acknowledged, kill_count, problems = 0, 0, []
    while not is_finished(kill_count, kills, acknowledged, kills):
        lines = run_until_killed(partial(write_until_killed, path, seed=seed * 1_000_000 + kill_count), rng, "done")
        acknowledged += sum("done" in line for line in lines)
        store = SqliteStore(path, FixedClock())
        problems += find_lost_writes(store, lines)
        store.close()
        kill_count += 1
        if kill_count % 25 == 0:
            assert_consistent(path)
    assert_consistent(path)
    sys.stdout.write(json.dumps({"kills": kill_count, "acknowledged": acknowledged, "wrong": problems}) + "\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
