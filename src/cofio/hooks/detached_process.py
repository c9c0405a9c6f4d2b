"""Detached processes that outlive a hook, so that no client waits for them."""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EVERY = 30.0  # minimum seconds between two starts


def start(command: list[str], variables: Mapping[bytes, bytes], stamp: bytes) -> bool:
    """Start a detached process; return whether it was tried. The time of the last start is that of the file `stamp`."""
    return _is_due(stamp) and spawn(command, variables)


def spawn(command: list[str], variables: Mapping[bytes, bytes]) -> bool:
    """Start a detached process; return whether the system allowed it."""
    _close_on_exec()
    streams = [(posix.POSIX_SPAWN_OPEN, descriptor, "/dev/null", posix.O_RDWR, 0) for descriptor in (0, 1, 2)]
    try:
        posix.posix_spawn(command[0], command, variables, file_actions=streams, setsid=True)
    except (OSError, NotImplementedError):
        return False
    return True


def _is_due(stamp: bytes) -> bool:
    """Return whether the last start is at least EVERY seconds ago; if so, record this one."""
    try:
        if 0 <= time.time() - posix.stat(stamp).st_mtime < EVERY:
            return False
        posix.unlink(stamp)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    for folder in (b"", stamp.rpartition(b"/")[0]):
        try:
            if folder:
                posix.mkdir(folder, 0o700)
            posix.close(posix.open(stamp, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600))
        except OSError:  # no folder; another hook was faster; or it is not writable, and the process could not run
            continue
        return True
    return False


def _close_on_exec() -> None:
    """Make all descriptors non-inheritable: a client waits until every copy of its pipes is closed."""
    try:
        names = posix.listdir("/dev/fd")
    except OSError:  # /dev may be missing
        return
    for name in names:
        if name.isdigit() and int(name) > 2:
            try:
                posix.set_inheritable(int(name), False)
            except OSError:  # the descriptor of the listing itself
                continue
