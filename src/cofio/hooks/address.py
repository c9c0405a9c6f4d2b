"""`hook.at` in the home: where the service is, in lines that a hook can read without parsing anything.

1 the URL   2 the key, if any   3 the deadlines of recall and of capture in milliseconds   4 the store's file
5 the tokens of a block at the start of a session
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cofio.hooks import whole

NAME = "hook.at"


def put(home: Path, url: str, key: str, deadlines: tuple[int, int], store: str, start_tokens: int = 0) -> None:
    """Say where the service is. For its owner alone: the key stands in it."""
    lines = (url, key, f"{deadlines[0]} {deadlines[1]}", store, *([str(start_tokens)] if start_tokens else []))
    with suppress(OSError):  # hooks then find the service by its usual address, or read the file themselves
        whole.put(home / NAME, "".join(f"{line}\n" for line in lines).encode())


def is_others(home: Path, store: str) -> bool:
    """Whether hooks deliver to the service of another store."""
    try:
        return (home / NAME).read_text(encoding="utf-8").splitlines()[3] != store
    except (OSError, UnicodeError, IndexError):
        return False


def remove(home: Path, store: str) -> None:
    """Take it away, unless it speaks of the service of another store by now."""
    with suppress(OSError, UnicodeError):
        lines = (home / NAME).read_text(encoding="utf-8").splitlines()
        if lines[3:4] == [store]:
            (home / NAME).unlink()
