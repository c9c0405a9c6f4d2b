"""`recalled.log` in the home: memories recalled without the service, which counts them later.

    2026-11-15T10:00:04.456Z claude-code 12 40 7

It contains no text of the queries.
"""

from __future__ import annotations

import posix
import time

from cofio.hooks.run_log import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    Line: TypeAlias = tuple[str, str, list[int]]

_NAME, _TAKEN = b"/recalled.log", b"/recalled.log.taken"
MOST_BYTES = 1_000_000  # limit, so that the log cannot fill the disk


def append_line(home: bytes, client: str, ids: Sequence[int]) -> None:
    """Append a line. Errors are ignored."""
    line = " ".join((format_time(time.time()), client or "-", *map(str, ids))).encode("utf-8", "replace") + b"\n"
    try:
        file = posix.open(home + _NAME, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        try:
            if posix.fstat(file).st_size < MOST_BYTES:
                posix.write(file, line)
        finally:
            posix.close(file)
    except OSError:
        return


def import_log(home: bytes, note: Callable[[list[Line]], None]) -> None:
    """Pass the recalls since the last call to `note`, as (time, client, ids), then delete the log.

    Raise OSError if the log cannot be read. If `note` fails, the log is kept for the next call.
    """
    for name in (_TAKEN, _NAME):  # first a log that an interrupted call left
        try:
            if name == _NAME:
                posix.rename(home + _NAME, home + _TAKEN)
            with open(home + _TAKEN, encoding="utf-8", errors="replace") as lines:
                recalls = list(_parse_lines(lines))
        except FileNotFoundError:
            continue
        note(recalls)
        posix.unlink(home + _TAKEN)


def _parse_lines(lines: Iterable[str]) -> Iterator[Line]:
    for line in lines:
        at, client, *ids = [*line.strip().split(" "), ""]
        memory_ids = [int(word) for word in ids if word.isascii() and word.isdigit() and len(word) < 19]
        if at and memory_ids:
            yield at, client, memory_ids
