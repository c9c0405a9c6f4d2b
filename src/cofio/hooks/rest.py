"""`hook.rest` in the home: a service that hung or talked nonsense is left alone for a while, so that it costs one
deadline and not one a prompt.

    until (seconds since 1970)  failures in a row

Rests last 30 s, then twice as long each time, at most five minutes. The first answer ends them, and so does a service
that has started since: it wrote `hook.at` anew. One that has only just started is not left alone: it loads its model.
"""

from __future__ import annotations

import posix
import time

from cofio.hooks.around import read

FIRST, LONGEST = 30.0, 300.0
_WARM = 20.0  # seconds after its start by which a service answers as it always will


def until(home: bytes) -> float:
    """When the service may be asked again; 0 when it may be now."""
    end, _ = _told(home)
    now = time.time()
    if not now < end <= now + LONGEST + 1 or _has_started_since(home):  # a clock may have been set back
        return 0.0
    return end


def begin(home: bytes) -> None:
    """Leave it alone from now on, longer than the last time. Hooks that waited together count as one."""
    if time.time() - _written(home + b"/hook.at") < _WARM or until(home):
        return
    failures = _told(home)[1] + 1
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
    """It has answered."""
    try:
        posix.unlink(home + b"/hook.rest")
    except OSError:
        return


def _told(home: bytes) -> tuple[float, int]:
    """The end of the last rest, and how many failures there were by then."""
    end, _, failures = read(home + b"/hook.rest").strip().partition(b" ")
    return (float(end), int(failures)) if end.isdigit() and failures.isdigit() else (0.0, 0)


def _has_started_since(home: bytes) -> bool:
    return _written(home + b"/hook.at") > _written(home + b"/hook.rest")


def _written(path: bytes) -> float:
    try:
        return posix.stat(path).st_mtime
    except OSError:
        return 0.0
