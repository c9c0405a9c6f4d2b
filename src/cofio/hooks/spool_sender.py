"""Delivery of the spool to a remote service, once it answers again.

    an answered hook ─ starts, detached ─▶ `entry.py --home HOME --drain` ─ oldest first ─▶ POST /hooks/<client>

A service of this home collects its spool by itself; a service on another machine cannot see it.
"""

from __future__ import annotations

import posix
import sys
import time

from cofio.hooks import circuit_breaker, detached_process, http, json_peek, spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cofio.hooks.environment import HookEnvironment

FLAG = "--drain"
_PATIENCE = 30.0  # seconds for one delivery
_LONGEST = 600.0  # seconds for a whole run; the next run delivers the rest
_REFUSED = (400, 413)  # would be refused every time


def start(around: HookEnvironment) -> bool:
    """Start a detached process that delivers the spool; return whether it was started."""
    if not around.delivers:
        return False
    try:
        with posix.scandir(around.home + b"/spool") as listing:
            if not any(entry.name.endswith(b".hook") for entry in listing):
                return False
    except OSError:
        return False
    home = around.home.decode("utf-8", "surrogateescape")
    command = [sys.executable, "-I", "-S", __file__.rpartition("/")[0] + "/entry.py", "--home", home, FLAG]
    variables = {b"COFIO_URL": around.url, b"COFIO_API_KEY": around.key}  # not as arguments, which other users can see
    encoded = {name: value.encode("utf-8", "surrogateescape") for name, value in variables.items() if value}
    return detached_process.start(command, {**around.variables, **encoded}, around.home + b"/hook.drain")


def run(around: HookEnvironment) -> int:
    """Deliver the spool, oldest first, until the service stops accepting; return the number. One process at a time."""
    if not around.delivers or circuit_breaker.until(around.home) or not _is_alone(around.home):
        return 0
    delivered, until = 0, time.monotonic() + _LONGEST
    for entry in spool.entries(around.home.decode("utf-8", "surrogateescape")):
        status = 400
        if entry.client in json_peek.CLIENTS:
            deadline = time.monotonic() + _PATIENCE
            request = http.HookRequest(around, entry.client, entry.project, entry.raw, deadline, at=entry.at)
            try:
                status, _ = http.ask(request)
            except http.NoAnswer:
                break
        if 200 <= status < 300:
            spool.remove_entry(entry)
            delivered += 1
        elif status in _REFUSED:
            spool.set_aside(entry)
        else:
            break
        if time.monotonic() > until:
            break
    return delivered


def _is_alone(home: bytes) -> bool:
    """Return whether no other process drains the spool. The lock is held until the process ends."""
    import fcntl

    try:
        file = posix.open(home + b"/hook.draining", posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
