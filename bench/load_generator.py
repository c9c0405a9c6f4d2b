"""Load generator that keeps a service busy while something else is timed, in a process of its own.

python -m bench.load_generator URL KEY CALLERS      runs until SIGTERM; then prints its counts as JSON

Each caller searches and captures turns without a pause; one more runs consolidation dry runs over the whole store in a
loop, as maintenance does.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from bench.corpus import facts, prompts
from cofio.client import Client
from cofio.errors import CofioError

_PROMPTS = 400


def generate_load(url: str, key: str, callers: int) -> dict[str, int]:
    """Return the counts of operations until SIGTERM."""
    counts: Counter[str] = Counter()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Client(url, key, timeout=120.0) as client:
        sources = [partial(_caller_operations, client, number) for number in range(callers)] + [
            partial(_maintenance_operations, client)
        ]
        threads = [
            threading.Thread(target=_run_operations, args=(operations(), counts, stop), daemon=True)
            for operations in sources
        ]
        for thread in threads:
            thread.start()
        print("started", flush=True)
        stop.wait()
        for thread in threads:
            thread.join(5.0)
    return dict(counts)


def _run_operations(
    operations: Iterator[tuple[str, Callable[[], object]]], counts: Counter[str], stop: threading.Event
) -> None:
    for name, operation in operations:
        if stop.is_set():
            return
        try:
            operation()
            counts[name] += 1
        except CofioError:
            counts["refused"] += 1


def _caller_operations(client: Client, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    searches, statements = prompts(_PROMPTS), facts(_PROMPTS)
    for turn in count(number):
        yield "searches", partial(client.search, searches[turn % _PROMPTS], k=5)
        messages = [
            {"role": "user", "content": f"Remember this: {statements[turn % _PROMPTS].text}"},
            {"role": "assistant", "content": "I shall."},
        ]
        session = f"caller {number}"
        yield (
            "captures",
            partial(client.capture, messages, client="bench", session=session, turn=str(turn), source="bench"),
        )


def _maintenance_operations(client: Client) -> Iterator[tuple[str, Callable[[], object]]]:
    while True:
        yield "upkeep", partial(client.consolidate, dry_run=True)


if __name__ == "__main__":
    print(json.dumps(generate_load(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
