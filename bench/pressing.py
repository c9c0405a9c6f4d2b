"""Load generator that keeps a service busy while something else is timed, in a process of its own.

python -m bench.pressing URL KEY CALLERS      runs until SIGTERM; then prints its counts as JSON

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

_ASKED = 400


def press(url: str, key: str, callers: int) -> dict[str, int]:
    """Return the counts of operations until SIGTERM."""
    done: Counter[str] = Counter()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Client(url, key, timeout=120.0) as client:
        deeds = [partial(_call, client, number) for number in range(callers)] + [partial(_upkeep, client)]
        threads = [threading.Thread(target=_keep_on, args=(deed(), done, ended), daemon=True) for deed in deeds]
        for thread in threads:
            thread.start()
        print("pressing", flush=True)
        ended.wait()
        for thread in threads:
            thread.join(5.0)
    return dict(done)


def _keep_on(deeds: Iterator[tuple[str, Callable[[], object]]], done: Counter[str], ended: threading.Event) -> None:
    for name, deed in deeds:
        if ended.is_set():
            return
        try:
            deed()
            done[name] += 1
        except CofioError:
            done["refused"] += 1


def _call(client: Client, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    asked, said = prompts(_ASKED), facts(_ASKED)
    for turn in count(number):
        yield "searches", partial(client.search, asked[turn % _ASKED], k=5)
        told = [
            {"role": "user", "content": f"Remember this: {said[turn % _ASKED].text}"},
            {"role": "assistant", "content": "I shall."},
        ]
        session = f"caller {number}"
        yield "captures", partial(client.capture, told, client="bench", session=session, turn=str(turn), source="bench")


def _upkeep(client: Client) -> Iterator[tuple[str, Callable[[], object]]]:
    while True:
        yield "upkeep", partial(client.consolidate, dry_run=True)


if __name__ == "__main__":
    print(json.dumps(press(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
