"""Two service processes on one PostgreSQL with many concurrent writers and readers: a check for lost or double writes.

    python -m bench.crowd [--url URL] [--seconds 60] [--writers 8] [--readers 8] [--strict]

    writers ─ add, capture, correct, forget ─▶ service one ┐
                                               service two ├─▶ one database ─▶ afterwards every promise is checked
    readers ─ search, list, history ─────────▶ either      ┘

A writer alternates between the services, sends each turn of a conversation to both at once, and records the
acknowledgements: the text of each memory, and the replacements. A reader searches one service for the latest
acknowledgements of the other. At the end, when both inboxes are drained, the database is compared with all records.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofio.client import Client
from cofio.errors import CofioError

_STARTED = 90.0  # seconds until a service must answer
_KINDS = {"add", "capture", "read"}  # operations that every run has to do
_DRAINED = 300.0  # seconds until the captures must be settled
_REMEMBERED = 200  # acknowledged memories that readers choose from


@dataclass
class Promises:
    """Acknowledgements of the services, and problems found."""

    live: dict[int, str] = field(default_factory=dict)  # memory -> its text
    archived: dict[int, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # text of a captured turn -> its turn
    newest: list[tuple[int, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wrong(self, what: str) -> None:
        with self.lock:
            self.problems.append(what)

    def acknowledged(self, memory_id: int, text: str) -> None:
        with self.lock:
            if memory_id in self.live:
                self.problems.append(f"memory {memory_id} was given out twice")
            self.live[memory_id] = text
            self.newest = [*self.newest[-_REMEMBERED:], (memory_id, text)]

    def replaced(self, old_id: int, new_id: int, text: str) -> None:
        with self.lock:
            self.archived[old_id] = self.live.pop(old_id)
        self.acknowledged(new_id, text)


class Writer:
    """Client that writes distinct memories through either service."""

    def __init__(self, number: int, services: Sequence[Client], promises: Promises) -> None:
        self._number = number
        self._services = itertools.cycle(services)
        self._both = services
        self._promises = promises
        self._round = 0
        self._mine: list[int] = []
        self._random = random.Random(number)

    def step(self) -> None:
        """Run one random client operation."""
        self._round += 1
        acts: tuple[Callable[[], None], ...] = (self._add, self._add, self._capture, self._correct, self._forget)
        act = self._random.choice(acts) if self._mine else self._add
        act()
        self._promises.counts[act.__name__.strip("_")] += 1

    def _text(self, what: str) -> str:
        return f"Crate W{self._number}N{self._round} {what} on shelf {self._number * 100_000 + self._round}."

    def _add(self) -> None:
        text = self._text("stands")
        change = next(self._services).add(text, source="crowd/crates")
        if change.action != "add":
            self._promises.wrong(f"{text!r} was taken for memory {change.memory_id}")
            return
        self._promises.acknowledged(change.memory_id, text)
        self._mine.append(change.memory_id)

    def _capture(self) -> None:
        """Send the same turn to both services at the same time: it must be learned once."""
        number = self._number * 100_000 + self._round
        said = f"We switched from Toolx{number} to Tooly{number}."
        turn = {"client": "crowd", "session": f"w{self._number}", "turn": str(self._round), "source": "crowd/tools"}
        threads = [threading.Thread(target=self._deliver, args=(each, said, turn)) for each in self._both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self._promises.lock:
            self._promises.said[f"Team switched from Toolx{number} to Tooly{number}"] = f"{number}"

    def _deliver(self, service: Client, said: str, turn: dict[str, Any]) -> None:
        try:
            service.capture([{"role": "user", "content": said}], **turn)
        except CofioError as error:
            self._promises.wrong(f"a capture was refused: {error}")

    def _correct(self) -> None:
        old = self._mine.pop(self._random.randrange(len(self._mine)))
        text = self._text("now stands")
        written, _ = next(self._services).supersede(old, text)
        self._promises.replaced(old, written.memory_id, text)
        self._mine.append(written.memory_id)

    def _forget(self) -> None:
        """Delete a memory through one service and restore it through the other."""
        memory_id = self._random.choice(self._mine)
        next(self._services).delete(memory_id)
        next(self._services).restore(memory_id)


class Reader:
    """Client that searches either service for acknowledged memories."""

    def __init__(self, number: int, services: Sequence[Client], promises: Promises) -> None:
        self._services = itertools.cycle(services)
        self._promises = promises
        self._random = random.Random(1_000 + number)

    def step(self) -> None:
        with self._promises.lock:
            known = list(self._promises.newest)
        service = next(self._services)
        if not known:
            service.list(limit=20)
            return
        memory_id, text = self._random.choice(known)
        hits = service.search(text, k=10, include_archived=True)
        if memory_id not in {hit.id for hit in hits}:
            self._promises.wrong(f"memory {memory_id} was acknowledged and is not found: {text!r}")
        service.list(limit=20)
        service.history(memory_id)
        self._promises.counts["read"] += 1


def crowd(url: str, *, seconds: float, writers: int = 8, readers: int = 8, folder: Path) -> dict[str, Any]:
    """Return the operations done, and all promises that were broken."""
    promises = Promises()
    with ExitStack() as stack:
        places = [stack.enter_context(_service(url, folder / name)) for name in ("one", "two")]
        clients = [stack.enter_context(Client(place, timeout=60.0)) for place in places]
        until = time.monotonic() + seconds
        steps = [Writer(each, clients, promises).step for each in range(1, writers + 1)]
        steps += [Reader(each, clients, promises).step for each in range(readers)]
        threads = [threading.Thread(target=_keep_on, args=(step, until, promises)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        drained = _drained(clients[0])
        promises.problems += _broken(clients, promises) if drained else ["the inbox was not drained in time"]
    promises.problems += _deadlocks(url)
    told = dict(sorted(promises.counts.items()))
    return {"seconds": seconds, "done": told, "memories": len(promises.live), "problems": promises.problems}


def _keep_on(step: Callable[[], None], until: float, promises: Promises) -> None:
    """Repeat a step until the time is over; on a slow machine longer, until each kind of operation was done once."""
    latest = until + 120.0
    while (now := time.monotonic()) < until or (now < latest and not promises.counts.keys() >= _KINDS):
        try:
            step()
        except CofioError as error:
            promises.wrong(f"{step.__qualname__}: {error}")


def _drained(client: Client) -> bool:
    until = time.monotonic() + _DRAINED
    while time.monotonic() < until:
        if client.inbox_status().pending == 0:
            return True
        time.sleep(0.2)
    return False


def _broken(clients: Sequence[Client], promises: Promises) -> Iterator[str]:
    """Yield the promises that do not hold in the end."""
    memories = {memory.id: memory for memory in _all(clients[0])}
    for memory_id, text in promises.live.items():
        memory = memories.get(memory_id)
        if memory is None or memory.text != text or memory.archived:
            yield f"memory {memory_id} is lost or changed: {text!r}"
    for memory_id, text in promises.archived.items():
        memory = memories.get(memory_id)
        if memory is None or memory.text != text or not memory.archived:
            yield f"memory {memory_id} should be archived and there: {text!r}"
    times = Counter(memory.text for memory in memories.values())
    yield from (f"{text!r} is there {count} times" for text, count in times.items() if count > 1)
    occurrences = {memory.text: memory.occurrences for memory in memories.values()}
    for text in promises.said:
        if occurrences.get(text) != 1:
            yield f"{text!r} was learned {occurrences.get(text, 0)} times"
    if len(memories) != len(promises.live) + len(promises.archived) + len(promises.said):
        yield f"{len(memories)} memories are there"
    statuses = [client.inbox_status() for client in clients]
    if not statuses[0].balanced or statuses[0] != statuses[1] or statuses[0].captured != len(promises.said):
        yield f"the inbox status is {statuses[0].as_dict()} where {len(promises.said)} turns were captured"
    if statuses[0].parked or statuses[0].rejected:
        yield f"captures were parked or rejected: {statuses[0].as_dict()}"


def _all(client: Client) -> Iterator[Any]:
    after: int | None = None
    while True:
        page = client.list(limit=1_000, after=after, include_archived=True)
        yield from page.memories
        if page.next is None:
            return
        after = page.next


def _deadlocks(url: str) -> list[str]:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return [f"{row[0]} deadlocks"] if row and row[0] else []


@contextmanager
def _service(url: str, home: Path) -> Iterator[str]:
    """Yield the URL of a new service process on this database."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home.mkdir(parents=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "EXTRACT_"))}
    around = {**plain, "COFIO_STORE": url, "COFIO_HOME": str(home), "COFIO_PORT": str(port)}
    with (home / "log").open("w") as log:
        command = [sys.executable, "-m", "cofio", "serve"]
        process = subprocess.Popen(command, env=around, stdout=log, stderr=log)
    try:
        _wait(process, port, home / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _STARTED
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"The service did not start:\n{log.read_text(encoding='utf-8')}")


def show(told: dict[str, Any]) -> None:
    print(f"{told['seconds']:g} s, {told['memories']:,} memories added")
    for name, count in told["done"].items():
        print(f"  {name:10}{count:8,}")
    for each in told["problems"][:20]:
        print(f"- {each}")
    print(f"bar: {'not met' if told['problems'] else 'met'}: nothing lost, nothing twice, no deadlock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty PostgreSQL database; default: one on a server started for the run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--strict", action="store_true", help="exit 1 if a promise was broken")
    given = parser.parse_args()
    from bench.server import database

    with database(given.url) as url, tempfile.TemporaryDirectory(prefix="cofio-bench-") as name:
        told = crowd(url, seconds=given.seconds, writers=given.writers, readers=given.readers, folder=Path(name))
    show(told)
    sys.exit(1 if given.strict and told["problems"] else 0)


if __name__ == "__main__":
    main()
