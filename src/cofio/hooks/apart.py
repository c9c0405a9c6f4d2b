"""What a hook leaves running when it ends: a process of its own, detached, for which no client waits."""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EVERY = 30.0  # seconds between two starts


def start(command: list[str], variables: Mapping[bytes, bytes], stamp: bytes) -> bool:
    """Start it, and wait for nothing; whether it was tried. The file `stamp` tells when it was started last."""
    if not _is_due(stamp):
        return False
    _let_go()
    streams = [(posix.POSIX_SPAWN_OPEN, each, "/dev/null", posix.O_RDWR, 0) for each in (0, 1, 2)]
    try:
        posix.posix_spawn(command[0], command, variables, file_actions=streams, setsid=True)
    except (OSError, NotImplementedError):
        return False
    return True


def _is_due(stamp: bytes) -> bool:
    """Whether the last start was a while ago; if so, this one is noted."""
    try:
        if 0 <= time.time() - posix.stat(stamp).st_mtime < EVERY:
            return False
        posix.unlink(stamp)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return _make(stamp) or (_make_folder(stamp.rpartition(b"/")[0]) and _make(stamp))


def _make(stamp: bytes) -> bool:
    try:
        posix.close(posix.open(stamp, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600))
    except OSError:  # another was faster; or nothing can be written, and what is started could not run
        return False
    return True


def _make_folder(folder: bytes) -> bool:
    try:
        posix.mkdir(folder, 0o700)
    except OSError:
        return False
    return True


def _let_go() -> None:
    """Have it inherit nothing: a client waits until every copy of its pipes is closed."""
    try:
        names = posix.listdir("/dev/fd")
    except OSError:  # there may be no /dev
        return
    for name in names:
        if name.isdigit() and int(name) > 2:
            try:
                posix.set_inheritable(int(name), False)
            except OSError:  # the one that was listed with
                continue
