"""Kills whoever receives and learns with SIGKILL, over and over, and looks for captures that are lost or learned twice.

    python -m tests.stores.crash_inbox STORE KILLS SEED

One thread delivers and says so once it has the receipt; another one learns from what is due, a memory a capture, and
says so once it is settled. After each kill, whatever was said is so, every capture is there once, and there are as many
memories and changesets as there are captures that led to one. It goes on after KILLS, to ten times as many, until
ENOUGH was delivered and learned in between: kills that interrupt nothing prove nothing.
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
from tests.stores.crash import enough, killed
from tests.stores.inbox_contract import said
from tests.stores.test_sqlite import assert_in_step

ENOUGH = 30


def now() -> str:
    return to_utc_iso(datetime.now(UTC))


class Victim:
    """Delivers and learns until it is killed."""

    def __init__(self, path: Path, pipe: int, seed: int, again: list[str]) -> None:
        self._store = SqliteStore(path, now)
        self._pipe = pipe
        self._seed = seed
        self._delivered = again  # not all of it was acknowledged

    def run(self) -> NoReturn:
        self._store.nearest(vector("ready"), 1, Scope())  # what is slow once is over when the killer's clock starts
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
            receipts = self._store.inbox.receive([said(f"turn {turn} " + "word " * 50, turn) for turn in turns])
            self._say(kept={turn: receipt.id for turn, receipt in zip(turns, receipts, strict=True)})
            self._delivered += turns
            turns = []
            time.sleep(rng.expovariate(1 / 0.001))  # the other one wants a turn too

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


def deliver_and_learn(path: Path, seed: int, again: list[str], pipe: int) -> None:
    Victim(path, pipe, seed, list(again)).run()


def _turn(item: Item) -> str:
    assert item.exchange
    return item.exchange.turn


class Known:
    """What was said by all victims so far."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}
        self.settled: dict[int, str] = {}
        self.unsure: list[str] = []  # delivered, and killed before there was a receipt

    def hear(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            self.kept.update(line.get("kept", {}))
            self.settled.update({int(number): state for number, state in line.get("settled", {}).items()})
        tried = {turn for line in lines for turn in line.get("trying", ())} | set(self.unsure)
        self.unsure = sorted(tried - self.kept.keys())

    def least(self) -> int:
        """How much was delivered, learned, or kept as a memory, whichever is the least."""
        return min(len(self.kept), len(self.settled), list(self.settled.values()).count("stored"))

    def wrong(self, path: Path) -> list[str]:
        """What is not as it was said, or not once."""
        connection = sqlite3.connect(path)
        rows = connection.execute("SELECT id, turn, state, changeset_id FROM inbox").fetchall()
        memories = connection.execute(
            "SELECT c.changeset_id, m.text FROM memories m JOIN changes c ON c.memory_id = m.id"
        ).fetchall()
        changesets = connection.execute("SELECT count(*) FROM changesets").fetchone()[0]
        connection.close()
        there = {turn: number for number, turn, _, _ in rows}
        states = {number: state for number, _, state, _ in rows}
        stored = {(changeset, f"learned {turn}") for _, turn, state, changeset in rows if state == "stored"}
        wrong = [f"turn {t} was kept as {n}, is {there.get(t)}" for t, n in self.kept.items() if there.get(t) != n]
        wrong += [f"item {n} was {s}, is {states.get(n)}" for n, s in self.settled.items() if states.get(n) != s]
        if len(there) != len(rows):
            wrong.append(f"{len(rows)} items hold {len(there)} turns")
        if stored != set(memories) or not len(stored) == len(memories) == changesets:
            wrong.append(f"{len(stored)} stored, {len(memories)} memories, {changesets} changesets")
        return wrong


def main() -> int:
    path, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng, known, number, wrong = random.Random(seed), Known(), 0, []
    SqliteStore(path, now).close()
    while not enough(number, kills, known.least(), ENOUGH):
        known.hear(killed(partial(deliver_and_learn, path, seed * 1_000 + number, known.unsure), rng, "settled"))
        wrong += known.wrong(path)
        number += 1
        if number % 20 == 0:
            assert_in_step(path)
    assert_in_step(path)
    store = SqliteStore(path, now)
    inbox_status = store.inbox.status()
    store.close()
    if not inbox_status.balanced or inbox_status.captured < len(known.kept):
        wrong.append(f"the inbox status is {inbox_status}")
    told = {"kills": number, "kept": len(known.kept), "settled": len(known.settled), "stored": inbox_status.stored}
    sys.stdout.write(json.dumps({**told, "wrong": wrong}) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
