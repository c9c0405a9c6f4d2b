"""Process that writes to a store on request, for tests with several processes on one store.

  python -m tests.ingest.writing_process STORE

Each input line is a JSON list: the name of an operation and its arguments. The answer is one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofio.bootstrap import now
from cofio.core import Keeper
from cofio.ports import Store
from cofio.testing import HashEmbedder
from tests import judges

ROOT = Path(__file__).parents[2]


def open_keeper(address: str) -> Keeper:
    """Open a store by its path or its PostgreSQL URL."""
    store: Store
    if "://" in address:
        from cofio.stores.postgres import PostgresStore

        store = PostgresStore(address, now)
    else:
        from cofio.stores.sqlite.store import SqliteStore

        store = SqliteStore(Path(address), now)
    return Keeper(store, HashEmbedder(), now, judge=judges.judge())


def serve(keeper: Keeper) -> None:
    """Execute operations from the standard input until it ends."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        result: Any = None
        match name:
            case "add":
                result = keeper.add(arguments[0], project="shop").action
            case "learn":
                messages = [{"role": "user", "content": arguments[0]}]
                result = [action["action"] for action in keeper.learn(messages, source="test/shop").actions]
            case "tag":
                memory_id, tags = arguments
                for tag in tags:
                    keeper.bulk([memory_id], "tag", tags=[tag])
        print(json.dumps(result), flush=True)


class WritingProcess:
    """Handle of such a process."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "tests.ingest.writing_process", address]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def request(self, *operation: Any) -> None:
        """Start an operation."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(operation) + "\n")

    def answer(self) -> Any:
        """Return the result of the oldest operation without an answer."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def run_writers(address: str, count: int) -> Iterator[Sequence[WritingProcess]]:
    """Run several such processes, all of them ready."""
    writers = [WritingProcess(address) for _ in range(count)]
    try:
        for writer in writers:
            assert writer.answer() == "ready"
        yield writers
    finally:
        for writer in writers:
            writer.end()


if __name__ == "__main__":
    with open_keeper(sys.argv[1]) as opened:
        serve(opened)
