"""Capture throughput, durable before each acknowledgement, compared with plain SQLite in the same run.

    python -m bench.capture [--seconds 2] [--rounds 3] [--threads 32] [--folder FOLDER]

Plain is the obvious implementation: one INSERT and one COMMIT per capture, WAL, synchronous FULL, no index. The inbox
checks for an earlier turn, maintains the indexes for the inbox status, and lets concurrent callers share a commit. All
variants run in every round, and the median round is reported. Figures depend on the sync time of the disk, ratios less.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from bench import measure
from cofio.models.exchange import Exchange, Message
from cofio.models.memory import to_utc_iso
from cofio.stores.sqlite.store import SqliteStore

_MESSAGES = (
    Message("user", "We switched from JWT to Clerk for auth last week, and the tests run against Postgres now. " * 4),
    Message("assistant", "Noted: Clerk for auth, Postgres for the tests. I will leave the old tokens alone. " * 8),
)
_LIMIT = 1_000_000  # the service has one too, so the check is included

#: Takes one capture, given its number.
Capture = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate of one variant."""

    label: str
    per_second: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Variant:
    """Capture implementation: `opened` creates a store in the folder, and returns its capture and close functions."""

    label: str
    open_store: Callable[[Path], tuple[Capture, Callable[[], None]]]
    threads: int


def open_plain_sqlite(folder: Path) -> tuple[Capture, Callable[[], None]]:
    """Return a store that uses INSERT and COMMIT only."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE inbox (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)",
    ):
        connection.execute(statement)

    def take(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO inbox (payload) VALUES (?)", (json.dumps(_exchange(number).as_dict()),))
        connection.execute("COMMIT")

    return take, connection.close


def open_inbox(folder: Path) -> tuple[Capture, Callable[[], None]]:
    """Return the inbox of the embedded store."""
    store = SqliteStore(folder / "cofio.db", lambda: to_utc_iso(datetime.now(UTC)))
    return lambda number: store.inbox.receive([_exchange(number)], most=_LIMIT), store.close


def start_service(folder: Path) -> tuple[Capture, Callable[[], None]]:
    """Return the service in a process of its own, as run by `cofio serve`: hygiene, inbox, and the learning worker."""
    command = [sys.executable, "-m", "cofio", "--home", str(folder), "serve", "--port", "0", "--json"]
    limit = {**os.environ, "COFIO_INBOX_LIMIT": str(_LIMIT), "COFIO_LOG_LEVEL": "error"}
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=limit)
    assert service.stdout
    url = json.loads(service.stdout.readline())["url"]
    connections: dict[int, _HttpConnection] = {}

    def take(number: int) -> None:
        thread_id = threading.get_ident()
        if thread_id not in connections:
            connections[thread_id] = _HttpConnection(url)
        connections[thread_id].capture(number)

    def close() -> None:
        for connection in connections.values():
            connection.close()
        service.terminate()
        service.communicate()

    return take, close


class _HttpConnection:
    """Persistent raw connection with minimal overhead, so that the service is measured."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        host, port = self._host.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def capture(self, number: int) -> None:
        messages = [{"role": message.role, "content": message.text} for message in _MESSAGES]
        turn = {"client": "bench", "session": f"s{number // 50}", "turn": f"t{number}", "source": "bench/app"}
        body = json.dumps({"messages": messages, **turn}).encode()
        head = f"POST /capture HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        reply = b""
        while not reply.endswith(b"}"):  # head and body may arrive separately
            reply += self._socket.recv(4096)
        assert reply.startswith(b"HTTP/1.1 202"), reply


def list_variants(threads: int) -> tuple[Variant, ...]:
    """Return all variants; the first one is the divisor of the ratios."""
    return (
        Variant("plain SQLite, 1 thread", open_plain_sqlite, 1),
        Variant("inbox, 1 thread", open_inbox, 1),
        Variant(f"inbox, {threads} threads", open_inbox, threads),
        Variant(f"HTTP, {threads} connections", start_service, threads),
    )


def run_benchmark(seconds: float, rounds: int, threads: int, folder: Path | None = None) -> list[Rate]:
    """Return the rate of each variant."""
    runs: dict[str, list[Rate]] = {}
    for _, variant in itertools.product(range(rounds), list_variants(threads)):
        with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=folder) as name:
            runs.setdefault(variant.label, []).append(_run(variant, Path(name), seconds))
    return [sorted(run, key=lambda rate: rate.per_second)[len(run) // 2] for run in runs.values()]


def _run(variant: Variant, folder: Path, seconds: float) -> Rate:
    take, close = variant.open_store(folder)
    numbers, durations_by_thread = itertools.count(), [[0.0] for _ in range(variant.threads)]
    for _ in range(20):
        take(next(numbers))  # one-time costs are not measured
    deadline = time.perf_counter() + seconds

    def work(durations: list[float]) -> None:
        durations.clear()
        while time.perf_counter() < deadline:
            number = next(numbers)
            durations.append(measure.time_call(lambda: take(number)))  # noqa: B023 (called at once)

    started = time.perf_counter()
    workers = [threading.Thread(target=work, args=(durations,)) for durations in durations_by_thread]
    if variant.threads == 1:
        work(durations_by_thread[0])  # an SQLite connection stays in its own thread
    else:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    elapsed = time.perf_counter() - started
    close()
    all_durations = [duration for durations in durations_by_thread for duration in durations]
    percentiles = measure.p50_p95("take", all_durations)
    return Rate(variant.label, len(all_durations) / elapsed, percentiles["take_p50_ms"], percentiles["take_p95_ms"])


def _exchange(number: int) -> Exchange:
    return Exchange(
        messages=_MESSAGES, client="bench", session=f"s{number // 50}", turn=f"t{number}", source="bench/app"
    )


def show(rates: Sequence[Rate]) -> None:
    """Print the table."""
    about = measure.machine()
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, SQLite {about['sqlite']}")
    if about["load"] > measure.BUSY:
        print(f"The machine is busy (load {about['load']}): trust the ratios.")
    print(f"\n{'':26}{'captures/s':>12}{'ratio':>8}{'p50 ms':>9}{'p95 ms':>9}")
    for rate in rates:
        ratio = rate.per_second / rates[0].per_second
        print(f"{rate.label:26}{rate.per_second:12,.0f}{ratio:8.2f}{rate.p50_ms:9.2f}{rate.p95_ms:9.2f}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.capture", description="Measure captures per second.")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per variant and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--folder", type=Path, help="folder for the files; default: a temporary folder")
    options = parser.parse_args(arguments)
    show(run_benchmark(options.seconds, options.rounds, options.threads, options.folder))


if __name__ == "__main__":
    main()
