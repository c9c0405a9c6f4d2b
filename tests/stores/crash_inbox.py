"""Crash test of the inbox: kill a process that receives and learns with SIGKILL repeatedly, and check its captures.

  python -m tests.stores.crash_inbox STORE KILLS SEED

One thread delivers captures and acknowledges each receipt. Another one learns from due captures, one memory per
capture, and acknowledges each resolution. After each kill, everything acknowledged must be in the store, every capture
must exist once, and the numbers of memories and changesets must equal the number of captures that were stored. After
KILLS kills the test continues, up to ten times as many, until ENOUGH captures were delivered and learned: kills that
interrupt nothing prove nothing.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cofio.models.exchange import Item, ItemResolution, State
from cofio.models.memory import Add, Fact, Scope, to_utc_iso
from cofio.stores.sqlite.store import SqliteStore
from tests.stores.contract import apply, vector
from tests.stores.crash import is_finished, run_until_killed
from tests.stores.inbox_contract import make_exchange
from tests.stores.test_sqlite import assert_consistent

ENOUGH = 30


def now() -> str:
    return to_utc_iso(datetime.now(UTC))


class Victim:
    """Delivers and learns until it is killed."""

    def __init__(self, path: Path, pipe: int, seed: int, unacknowledged: list[str]) -> None:
        self._store = SqliteStore(path, now)
        self._pipe = pipe
        self._seed = seed
        self._delivered = unacknowledged  # not all of it was acknowledged

    def run(self) -> NoReturn:
        self._store.nearest(
            vector("ready"), 1, Scope()
        )  # finish slow first-time work before the timer of the kill starts
        threading.Thread(target=self._learn, daemon=True).start()
        self._deliver()

    def _say(self, **line: Any) -> None:
        os.write(self._pipe, json.dumps(line).encode() + b"\n")

    def _deliver(self) -> NoReturn:
        rng, step = random.Random(self._seed), 0
        turns = self._delivered[:]
        while True:
            step += 1
            turns += [f"{self._seed}.{step}.{part}" for part in range(rng.choice((1, 1, 4)))]
            turns += rng.sample(self._delivered, min(1, len(self._delivered)))
            self._say(trying=turns)
            receipts = self._store.inbox.receive(
                [make_exchange(f"turn {turn} " + "word " * 50, turn) for turn in turns]
            )
            self._say(kept={turn: receipt.id for turn, receipt in zip(turns, receipts, strict=True)})
            self._delivered += turns
            turns = []
            time.sleep(rng.expovariate(1 / 0.001))  # let the other thread run

    def _learn(self) -> NoReturn:
        rng = random.Random(-self._seed)
        while True:
            for item in self._store.inbox.due(3):
                self._work_on(item, rng.random())

    def _work_on(self, item: Item, choice: float) -> None:
        state: State = "stored" if choice < 0.6 else "rejected"
        ending = ItemResolution(item=item.id, state=state, result={"turn": _turn(item)})
        if choice < 0.6:
            apply(self._store, Add(Fact(text=f"learned {_turn(item)}")), settles=lambda _: ending)
        elif choice < 0.8:
            self._store.inbox.settle(ending)
        else:
            self._store.inbox.postpone(item.id, 0, "not now")
            return
        self._say(settled={item.id: state})


def deliver_and_learn(path: Path, seed: int, unacknowledged: list[str], pipe: int) -> None:
    Victim(path, pipe, seed, list(unacknowledged)).run()


def _turn(item: Item) -> str:
    assert item.exchange
    return item.exchange.turn


class AcknowledgedState:
    """What all victims acknowledged so far."""

    def __init__(self) -> None:
        self.receipts: dict[str, int] = {}
        self.resolutions: dict[int, str] = {}
        self.unacknowledged: list[str] = []  # delivered, but killed before the receipt

    def update(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            self.receipts.update(line.get("kept", {}))
            self.resolutions.update({int(number): state for number, state in line.get("settled", {}).items()})
        tried = {turn for line in lines for turn in line.get("trying", ())} | set(self.unacknowledged)
        self.unacknowledged = sorted(tried - self.receipts.keys())

    def smallest_count(self) -> int:
        """Return the smallest of the numbers of delivered, resolved and stored captures."""
        return min(len(self.receipts), len(self.resolutions), list(self.resolutions.values()).count("stored"))

    def find_problems(self, path: Path) -> list[str]:
        """Return a message for each difference between the file and the acknowledgements."""
        connection = sqlite3.connect(path)
        rows = connection.execute("SELECT id, turn, state, changeset_id FROM inbox").fetchall()
        memories = connection.execute(
            "SELECT c.changeset_id, m.text FROM memories m JOIN changes c ON c.memory_id = m.id"
        ).fetchall()
        changesets = connection.execute("SELECT count(*) FROM changesets").fetchone()[0]
        connection.close()
        ids_by_turn = {turn: number for number, turn, _, _ in rows}
        states = {number: state for number, _, state, _ in rows}
        stored = {(changeset, f"learned {turn}") for _, turn, state, changeset in rows if state == "stored"}
        problems = [
            f"turn {t} was kept as {n}, is {ids_by_turn.get(t)}"
            for t, n in self.receipts.items()
            if ids_by_turn.get(t) != n
        ]
        problems += [f"item {n} was {s}, is {states.get(n)}" for n, s in self.resolutions.items() if states.get(n) != s]
        if len(ids_by_turn) != len(rows):
            problems.append(f"{len(rows)} items hold {len(ids_by_turn)} turns")
        if stored != set(memories) or not len(stored) == len(memories) == changesets:
            problems.append(f"{len(stored)} stored, {len(memories)} memories, {changesets} changesets")
        return problems


def main() -> int:
    path, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng, state, kill_count, problems = random.Random(seed), AcknowledgedState(), 0, []
    SqliteStore(path, now).close()
    while not is_finished(kill_count, kills, state.smallest_count(), ENOUGH):
        state.update(
            run_until_killed(
                partial(deliver_and_learn, path, seed * 1_000 + kill_count, state.unacknowledged), rng, "settled"
            )
        )
        problems += state.find_problems(path)
        kill_count += 1
        if kill_count % 20 == 0:
            assert_consistent(path)
    assert_consistent(path)
    store = SqliteStore(path, now)
    inbox_status = store.inbox.status()
    store.close()
    if not inbox_status.balanced or inbox_status.captured < len(state.receipts):
        problems.append(f"the inbox status is {inbox_status}")
    summary = {
        "kills": kill_count,
        "kept": len(state.receipts),
        "settled": len(state.resolutions),
        "stored": inbox_status.stored,
    }
    sys.stdout.write(json.dumps({**summary, "wrong": problems}) + "\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
