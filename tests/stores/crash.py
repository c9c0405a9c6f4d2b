"""Kills a writer with SIGKILL, over and over, and looks whether anything that it acknowledged is missing.

    python -m tests.stores.crash STORE KILLS SEED

The writer says what it is about to do, does it, and says that it is done. After each kill, every memory must be as the
last acknowledged step left it, or as the step that was under way would have; at the end the file is checked whole. It
goes on after KILLS, to ten times as many, until a step a kill was acknowledged: kills that interrupt nothing prove
nothing.
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
from tests.stores.test_sqlite import assert_in_step


def write_until_killed(path: Path, pipe: int, seed: int) -> NoReturn:
    """The victim: random steps for ever, each announced and acknowledged."""
    rng = random.Random(seed)
    store = SqliteStore(path, FixedClock())
    mine: list[int] = []

    def say(**line: Any) -> None:
        os.write(pipe, json.dumps(line).encode() + b"\n")

    step = 0
    while True:
        step += 1
        text = f"seed {seed} step {step} " + "word " * rng.randint(0, 60)
        choice = rng.random()
        if choice < 0.5 or not mine:
            texts = [f"{text} part {part}" for part in range(rng.choice((1, 1, 1, 25)))]
            done = apply(store, *(Add(Fact(text=each)) for each in texts))
            mine += [change.memory_id for change in done.changes]
            say(done={change.memory_id: change.memory.text for change in done.changes})
        elif choice < 0.75:
            number = rng.choice(mine)
            say(trying={number: text.strip()})
            apply(store, Edit(number, {"text": text}))
            say(done={number: text.strip()})
        else:
            number = mine.pop(rng.randrange(len(mine)))
            say(trying={number: None})
            if choice < 0.9:
                apply(store, Delete(number))
                say(done={number: None})
            else:
                new = apply(store, Update(number, Fact(text=text))).changes[0].memory
                mine.append(new.id)
                say(done={number: None, new.id: new.text})


def killed(victim: Callable[[int], object], rng: random.Random, sign: str) -> list[dict[str, Any]]:
    """What a victim said into its pipe before it was killed.

    The killer's clock starts at the first word, or three times in four when the victim has said the sign once: however
    busy the machine is, most victims have done what they are for, and some are killed before they have done anything.
    """
    patient = rng.random() < 0.75
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            victim(writer)
        finally:
            os._exit(1)  # only a failure comes here
    os.close(writer)
    first = os.read(reader, 65_536)  # it is alive and writing
    while patient and f'"{sign}":'.encode() not in first and (more := os.read(reader, 65_536)):
        first += more
    time.sleep(rng.expovariate(1 / 0.015))
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reader, "rb") as rest:
        said = first + rest.read()
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, "the writer died by itself"
    return [json.loads(line) for line in said.split(b"\n")[:-1]]  # a half-written last line was no acknowledgement


def enough(kills: int, planned: int, done: int, wanted: int) -> bool:
    """Whether to stop: killed as often as planned with more than `wanted` done in between, or ten times as often."""
    return kills >= planned and (done > wanted or kills >= 10 * planned)


def missing(store: SqliteStore, said: list[dict[str, Any]]) -> list[str]:
    """What was acknowledged and is not so."""
    must: dict[int, str | None] = {}
    for line in said:
        must.update({int(number): text for number, text in line.get("done", {}).items()})
    under_way = {int(number): text for number, text in said[-1].get("trying", {}).items()} if said else {}
    there = {memory.id: memory for memory in store.get(list(must))}
    wrong = []
    for number, text in must.items():
        memory = there.get(number)
        now = (None if memory.archived else memory.text) if memory else "gone"
        if now != text and not (number in under_way and now == under_way[number]):
            wrong.append(f"memory {number} should be {text!r} and is {now!r}")
        elif memory and not memory.archived:
            best = store.nearest(vector(memory.text), 1, Scope())[0]
            if best.score < 0.999:
                wrong.append(f"memory {number} has lost its vector")
    return wrong


def main() -> int:
    path, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    SqliteStore(path, FixedClock()).close()
    acknowledged, number, wrong = 0, 0, []
    while not enough(number, kills, acknowledged, kills):
        said = killed(partial(write_until_killed, path, seed=seed * 1_000_000 + number), rng, "done")
        acknowledged += sum("done" in line for line in said)
        store = SqliteStore(path, FixedClock())
        wrong += missing(store, said)
        store.close()
        number += 1
        if number % 25 == 0:
            assert_in_step(path)
    assert_in_step(path)
    sys.stdout.write(json.dumps({"kills": number, "acknowledged": acknowledged, "wrong": wrong}) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
