"""`hook.at` in the home: the address of the service, in a line format that a hook reads without a parser.

1 URL   2 key or empty   3 deadlines of recall and of capture in milliseconds   4 file of the store
5 maximum tokens of the block at the start of a session   6 lock file of the service

A remote service has the first three. For a local one the file may be stale, so a hook checks the lock (`service_lock`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cofio.hooks import atomic_write, service_lock

NAME = "hook.at"


def write_endpoint(
    home: Path,
    url: str,
    key: str,
    deadlines: tuple[int, int],
    store: str,
    start_tokens: int = 0,
    lock: Path | None = None,
) -> None:
    """Write the address of the service, readable by its owner only: the file holds the key."""
    lines: tuple[str, ...] = (url, key, f"{deadlines[0]} {deadlines[1]}", store)
    if lock:
        lines += (str(start_tokens or ""), str(lock))
    with suppress(OSError):  # hooks then try the default address, or read the store's file
        atomic_write.write_atomic(home / NAME, "".join(f"{line}\n" for line in lines).encode())


def is_others(home: Path, store: str) -> bool:
    """Return whether `hook.at` names the service of another store."""
    return _read_store(home) not in (None, store)


def is_stale(home: Path) -> bool:
    """Return whether `hook.at` names a service of this machine that does not run."""
    try:
        url, _, _, store, *more = (home / NAME).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return bool(store) and not service_lock.is_served("".join(more[1:2]), url)


def remove(home: Path, store: str) -> None:
    """Delete the file, unless it names the service of another store by now."""
    with suppress(OSError):
        if _read_store(home) == store:
            (home / NAME).unlink()


def _read_store(home: Path) -> str | None:
    try:
        return (home / NAME).read_text(encoding="utf-8").splitlines()[3]
    except (OSError, UnicodeError, IndexError):
        return None
