"""The service is killed repeatedly and everything is delivered twice: the counts of the inbox add up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cofio.client import Client
from cofio.errors import CofioError

ROUNDS = 8
TURNS = 120
SERVICE = """
import sys
from cofio import bootstrap as assemble
from cofio.server import daemon
from cofio.settings import Settings
from cofio.testing import HashEmbedder

settings = Settings.load({"home": sys.argv[1], "port": 0, "judge": False}, environ={})
daemon.serve(settings, lambda s: assemble.keeper(s, embedder=HashEmbedder()), lambda i: print(i.url, flush=True))
"""


class Service:
    """The real service in its own process, with the hashing embedder."""

    def __init__(self, home: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO", "EXTRACT"))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVICE, str(home)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        assert self.url

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=30)


def turn(number: int) -> dict[str, Any]:
    """Return a turn: one third states a new fact, one third repeats one, one third states nothing."""
    text = (
        f"The port of service{number} is {8000 + number}.",
        f"The port of service{number - 1} is {8000 + number - 1}.",
        "Hi there!",
    )[number % 3]
    return {"messages": text, "client": "test", "session": "s", "turn": str(number), "source": "a/b"}


def deliver(url: str, turns: list[int], acknowledged: set[int], stop: threading.Event) -> None:
    """Deliver every turn twice, until the service is gone."""
    with Client(url, timeout=10) as client:
        for number in turns:
            for _ in range(2):
                if stop.is_set():
                    return
                try:
                    client.capture(**turn(number))
                except CofioError:
                    return
                acknowledged.add(number)


def test_acknowledged_captures_are_neither_lost_nor_learned_twice(tmp_path: Path) -> None:
    random_source = random.Random(7)
    acknowledged: set[int] = set()
    for _ in range(ROUNDS):
        service = Service(tmp_path)
        remaining = [number for number in range(TURNS) if number not in acknowledged]
        repeated = random_source.sample(sorted(acknowledged), min(10, len(acknowledged)))
        stop = threading.Event()
        threads = [
            threading.Thread(target=deliver, args=(service.url, part, acknowledged, stop))
            for part in (remaining[::2] + repeated, remaining[1::2])
        ]
        for thread in threads:
            thread.start()
        time.sleep(random_source.uniform(0.02, 0.25))
        service.kill()
        stop.set()
        for thread in threads:
            thread.join(30)
    service = Service(tmp_path)
    try:
        check(service.url, acknowledged)
    finally:
        service.stop()


def check(url: str, acknowledged: set[int]) -> None:
    with Client(url) as client:
        lost = [number for number in sorted(acknowledged) if client.capture(**turn(number)).new]
        assert lost == []
    deliver(url, list(range(TURNS)), acknowledged, threading.Event())
    with Client(url) as client:
        deadline = time.monotonic() + 120
        while (inbox_status := client.inbox_status()).pending and time.monotonic() < deadline:
            time.sleep(0.1)
        assert inbox_status.as_dict()["balanced"]
        assert (inbox_status.captured, inbox_status.pending) == (TURNS, 0), json.dumps(inbox_status.as_dict())
        fact_count = sum(number % 3 == 0 for number in range(TURNS))
        assert (inbox_status.stored, inbox_status.merged, inbox_status.rejected) == (
            fact_count,
            fact_count,
            TURNS - 2 * fact_count,
        )
        memories = client.list(limit=1000).memories
        assert Counter(memory.occurrences for memory in memories) == {2: fact_count}
        assert len({memory.text for memory in memories}) == fact_count
