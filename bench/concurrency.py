"""Two service processes on one PostgreSQL with many concurrent writers and readers: a check for lost or double writes.

    python -m bench.concurrency [--url URL] [--seconds 60] [--writers 8] [--readers 8] [--strict]

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

_START_TIMEOUT = 90.0  # seconds until a service must answer
_REQUIRED = {"add", "capture", "read"}  # operations that every run has to do
_DRAIN_TIMEOUT = 300.0  # seconds until the captures must be settled
_MAX_NEWEST = 200  # acknowledged memories that readers choose from


@dataclass
class WriteLog:
    """Acknowledgements of the services, and problems found."""

    live: dict[int, str] = field(default_factory=dict)  # memory -> its text
    archived: dict[int, str] = field(default_factory=dict)
    captures: dict[str, str] = field(default_factory=dict)  # text of a captured turn -> its turn
    newest: list[tuple[int, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, problem: str) -> None:
        with self.lock:
            self.problems.append(problem)

    def acknowledged(self, memory_id: int, text: str) -> None:
        with self.lock:
            if memory_id in self.live:
                self.problems.append(f"memory {memory_id} was given out twice")
            self.live[memory_id] = text
            self.newest = [*self.newest[-_MAX_NEWEST:], (memory_id, text)]

    def replaced(self, old_id: int, new_id: int, text: str) -> None:
        with self.lock:
            self.archived[old_id] = self.live.pop(old_id)
        self.acknowledged(new_id, text)


class Writer:
    """Client that writes distinct memories through either service."""

    def __init__(self, number: int, services: Sequence[Client], log: WriteLog) -> None:
        self._number = number
        self._services = itertools.cycle(services)
        self._all_services = services
        self._log = log
        self._round = 0
        self._memory_ids: list[int] = []
        self._random = random.Random(number)

    def step(self) -> None:
        """Run one random client operation."""
        self._round += 1
        operations: tuple[Callable[[], None], ...] = (self._add, self._add, self._capture, self._correct, self._forget)
        operation = self._random.choice(operations) if self._memory_ids else self._add
        operation()
        self._log.counts[operation.__name__.strip("_")] += 1

    def _text(self, verb: str) -> str:
        return f"Crate W{self._number}N{self._round} {verb} on shelf {self._number * 100_000 + self._round}."

    def _add(self) -> None:
        text = self._text("stands")
        change = next(self._services).add(text, source="crowd/crates")
        if change.action != "add":
            self._log.report(f"{text!r} was taken for memory {change.memory_id}")
            return
        self._log.acknowledged(change.memory_id, text)
        self._memory_ids.append(change.memory_id)

    def _capture(self) -> None:
        """Send the same turn to both services at the same time: it must be learned once."""
        number = self._number * 100_000 + self._round
        text = f"We switched from Toolx{number} to Tooly{number}."
        turn = {"client": "crowd", "session": f"w{self._number}", "turn": str(self._round), "source": "crowd/tools"}
        threads = [threading.Thread(target=self._deliver, args=(service, text, turn)) for service in self._all_services]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self._log.lock:
            self._log.captures[f"Team switched from Toolx{number} to Tooly{number}"] = f"{number}"

    def _deliver(self, service: Client, text: str, turn: dict[str, Any]) -> None:
        try:
            service.capture([{"role": "user", "content": text}], **turn)
        except CofioError as error:
            self._log.report(f"a capture was refused: {error}")

    def _correct(self) -> None:
        old_id = self._memory_ids.pop(self._random.randrange(len(self._memory_ids)))
        text = self._text("now stands")
        change, _ = next(self._services).supersede(old_id, text)
        self._log.replaced(old_id, change.memory_id, text)
        self._memory_ids.append(change.memory_id)

    def _forget(self) -> None:
        """Delete a memory through one service and restore it through the other."""
        memory_id = self._random.choice(self._memory_ids)
        next(self._services).delete(memory_id)
        next(self._services).restore(memory_id)


class Reader:
    """Client that searches either service for acknowledged memories."""

    def __init__(self, number: int, services: Sequence[Client], log: WriteLog) -> None:
        self._services = itertools.cycle(services)
        self._log = log
        self._random = random.Random(1_000 + number)

    def step(self) -> None:
        with self._log.lock:
            newest = list(self._log.newest)
        service = next(self._services)
        if not newest:
            service.list(limit=20)
            return
        memory_id, text = self._random.choice(newest)
        hits = service.search(text, k=10, include_archived=True)
        if memory_id not in {hit.id for hit in hits}:
            self._log.report(f"memory {memory_id} was acknowledged and is not found: {text!r}")
        service.list(limit=20)
        service.history(memory_id)
        self._log.counts["read"] += 1


def run_load(url: str, *, seconds: float, writers: int = 8, readers: int = 8, folder: Path) -> dict[str, Any]:
    """Return the operations done, and all promises that were broken."""
    log = WriteLog()
    with ExitStack() as stack:
        urls = [stack.enter_context(_start_service(url, folder / name)) for name in ("one", "two")]
        clients = [stack.enter_context(Client(url_of_service, timeout=60.0)) for url_of_service in urls]
        deadline = time.monotonic() + seconds
        steps = [Writer(number, clients, log).step for number in range(1, writers + 1)]
        steps += [Reader(number, clients, log).step for number in range(readers)]
        threads = [threading.Thread(target=_repeat_step, args=(step, deadline, log)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        is_drained = _wait_until_drained(clients[0])
        log.problems += _find_problems(clients, log) if is_drained else ["the inbox was not drained in time"]
    log.problems += _deadlocks(url)
    counts = dict(sorted(log.counts.items()))
    return {"seconds": seconds, "done": counts, "memories": len(log.live), "problems": log.problems}


def _repeat_step(step: Callable[[], None], deadline: float, log: WriteLog) -> None:
    """Repeat a step until the time is over; on a slow machine longer, until each kind of operation was done once."""
    last_deadline = deadline + 120.0
    while (time_now := time.monotonic()) < deadline or (
        time_now < last_deadline and not log.counts.keys() >= _REQUIRED
    ):
        try:
            step()
        except CofioError as error:
            log.report(f"{step.__qualname__}: {error}")


def _wait_until_drained(client: Client) -> bool:
    deadline = time.monotonic() + _DRAIN_TIMEOUT
    while time.monotonic() < deadline:
        if client.inbox_status().pending == 0:
            return True
        time.sleep(0.2)
    return False


def _find_problems(clients: Sequence[Client], log: WriteLog) -> Iterator[str]:
    """Yield the promises that do not hold in the end."""
    memories = {memory.id: memory for memory in _list_all(clients[0])}
    for memory_id, text in log.live.items():
        memory = memories.get(memory_id)
        if memory is None or memory.text != text or memory.archived:
            yield f"memory {memory_id} is lost or changed: {text!r}"
    for memory_id, text in log.archived.items():
        memory = memories.get(memory_id)
        if memory is None or memory.text != text or not memory.archived:
            yield f"memory {memory_id} should be archived and there: {text!r}"
    text_counts = Counter(memory.text for memory in memories.values())
    yield from (f"{text!r} is there {count} times" for text, count in text_counts.items() if count > 1)
    occurrences = {memory.text: memory.occurrences for memory in memories.values()}
    for text in log.captures:
        if occurrences.get(text) != 1:
            yield f"{text!r} was learned {occurrences.get(text, 0)} times"
    if len(memories) != len(log.live) + len(log.archived) + len(log.captures):
        yield f"{len(memories)} memories are there"
    statuses = [client.inbox_status() for client in clients]
    if not statuses[0].balanced or statuses[0] != statuses[1] or statuses[0].captured != len(log.captures):
        yield f"the inbox status is {statuses[0].as_dict()} where {len(log.captures)} turns were captured"
    if statuses[0].parked or statuses[0].rejected:
        yield f"captures were parked or rejected: {statuses[0].as_dict()}"


def _list_all(client: Client) -> Iterator[Any]:
    after_id: int | None = None
    while True:
        page = client.list(limit=1_000, after=after_id, include_archived=True)
        yield from page.memories
        if page.next is None:
            return
        after_id = page.next


def _deadlocks(url: str) -> list[str]:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return [f"{row[0]} deadlocks"] if row and row[0] else []


@contextmanager
def _start_service(url: str, home: Path) -> Iterator[str]:
    """Yield the URL of a new service process on this database."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home.mkdir(parents=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "EXTRACT_"))}
    environment = {**inherited, "COFIO_STORE": url, "COFIO_HOME": str(home), "COFIO_PORT": str(port)}
    with (home / "log").open("w") as log:
        command = [sys.executable, "-m", "cofio", "serve"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_until_up(process, port, home / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"The service did not start:\n{log.read_text(encoding='utf-8')}")


def show(results: dict[str, Any]) -> None:
    print(f"{results['seconds']:g} s, {results['memories']:,} memories added")
    for name, count in results["done"].items():
        print(f"  {name:10}{count:8,}")
    for problem in results["problems"][:20]:
        print(f"- {problem}")
    print(f"bar: {'not met' if results['problems'] else 'met'}: nothing lost, nothing twice, no deadlock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty PostgreSQL database; default: one on a server started for the run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--strict", action="store_true", help="exit 1 if a promise was broken")
    options = parser.parse_args()
    from bench.server import database

    with database(options.url) as url, tempfile.TemporaryDirectory(prefix="cofio-bench-") as name:
        results = run_load(
            url, seconds=options.seconds, writers=options.writers, readers=options.readers, folder=Path(name)
        )
    show(results)
    sys.exit(1 if options.strict and results["problems"] else 0)


if __name__ == "__main__":
    main()
