"""`hook.rest` in the home: circuit breaker for a service that hung or sent invalid replies, so that it costs one
deadline and not one per prompt.

    end (seconds since 1970)  consecutive failures

Pauses last 30 s, doubling up to five minutes. The first answer ends them, and so does a restart of the service, which
rewrites `hook.at`. A service that has just started is not paused: it is loading its model.
"""

from __future__ import annotations

import posix
import time

from cofio.hooks.environment import read

FIRST, LONGEST = 30.0, 300.0
_WARM = 20.0  # seconds after its start until a service responds at full speed


def until(home: bytes) -> float:
    """Return the end of the pause; 0 if the service may be asked now."""
    end, _ = _read_pause(home)
    now = time.time()
    is_paused = now < end <= now + LONGEST + 1  # the clock may have been set back
    has_restarted = _read_mtime(home + b"/hook.at") > _read_mtime(home + b"/hook.rest")
    return end if is_paused and not has_restarted else 0.0


def begin(home: bytes) -> None:
    """Pause the service, longer than the last time. Failures during a pause count as one."""
    if time.time() - _read_mtime(home + b"/hook.at") < _WARM or until(home):
        return
    failures = _read_pause(home)[1] + 1
    pause = min(LONGEST, FIRST * 2 ** min(failures - 1, 10))
    try:
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC
        file = posix.open(home + b"/hook.rest", flags, 0o600)
        try:
            posix.write(file, f"{int(time.time() + pause)} {failures}\n".encode())
        finally:
            posix.close(file)
    except OSError:
        return


def end(home: bytes) -> None:
    """End the pause: the service has answered."""
    try:
        posix.unlink(home + b"/hook.rest")
    except OSError:
        return


def _read_pause(home: bytes) -> tuple[float, int]:
    end, _, failures = read(home + b"/hook.rest").strip().partition(b" ")
    return (float(end), int(failures)) if end.isdigit() and failures.isdigit() else (0.0, 0)


def _read_mtime(path: bytes) -> float:
    try:
        return posix.stat(path).st_mtime
    except OSError:
        return 0.0
