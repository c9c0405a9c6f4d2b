"""`recalled.log` in the home: which memories were given without the service, for it to count when it is back.

    2026-11-15T10:00:04.456Z claude-code 12 40 7

No word of what was asked stands in it.
"""

from __future__ import annotations

import posix
import time

from cofio.hooks.record import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Line: TypeAlias = tuple[str, str, list[int]]

_NAME, _TAKEN = b"/recalled.log", b"/recalled.log.taken"
MOST_BYTES = 1_000_000  # beyond that nothing is noted: a log may not fill the disk


def note(home: bytes, client: str, ids: Sequence[int]) -> None:
    """Write the line. A log that cannot be written is done without."""
    line = " ".join((moment(time.time()), client or "-", *map(str, ids))).encode("utf-8", "replace") + b"\n"
    try:
        file = posix.open(home + _NAME, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        try:
            if posix.fstat(file).st_size < MOST_BYTES:
                posix.write(file, line)
        finally:
            posix.close(file)
    except OSError:
        return


def bring(home: bytes, note: Callable[[list[Line]], None]) -> None:
    """Have noted what was given since the last time: when, for which client, which ids. Then it is gone.

    OSError where the log cannot be read. What `note` does not take stays for the next time.
    """
    for name in (_TAKEN, _NAME):  # what a service was stopped over goes first
        try:
            if name == _NAME:
                posix.rename(home + _NAME, home + _TAKEN)
            with open(home + _TAKEN, encoding="utf-8", errors="replace") as lines:
                told = [line for each in lines if (line := _read(each))]
        except FileNotFoundError:
            continue
        note(told)
        posix.unlink(home + _TAKEN)


def _read(line: str) -> Line | None:
    at, _, rest = line.strip().partition(" ")
    client, *ids = rest.split(" ")
    known = [int(each) for each in ids if each.isascii() and each.isdigit() and len(each) < 19]
    return (at, client, known) if at and known else None
