"""`hooks.log` in the home: one line per hook run.

    2026-11-15T10:00:00.123Z claude-code UserPromptSubmit service 23ms
    2026-11-15T10:00:04.456Z claude-code UserPromptSubmit file 61ms refused spooled

After the milliseconds follow the reason why the service did not answer, the fate of the turn (spooled, full,
unwritable), and whether the service was started.
"""

from __future__ import annotations

import posix
import time

from cofio.hooks.environment import variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

RUNGS = ("service", "file", "briefing", "nothing", "spooled", "skipped", "failed")
MOST_BYTES = 1_000_000  # of a log, before it is rotated to hooks.log.1
DAY = 86_400.0
PROOF = "proof-"  # prefix of the name of a proof, the last word in the lines of its runs


def append_run(home: bytes, client: str, event: str, rung: str, seconds: float, *why: str) -> None:
    """Append a line. Errors are ignored."""
    proof = variable("COFIO_HOOKS")  # of a run that `cofio doctor` started
    words = [format_time(time.time()), client or "-", event or "-", rung, f"{seconds * 1000:.0f}ms", *why]
    words.append(proof if proof.startswith(PROOF) else "")
    path = home + b"/hooks.log"
    try:
        file = posix.open(path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        try:
            posix.write(file, " ".join(word for word in words if word).encode("utf-8", "replace") + b"\n")
            full = posix.fstat(file).st_size > MOST_BYTES
        finally:
            posix.close(file)
        if full:
            posix.rename(path, path + b".1")
    except OSError:
        return


def format_time(seconds: float) -> str:
    """Return a time in the format of the log."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03}Z"


def recent(home: str | Path, n: int = 20) -> list[dict[str, Any]]:
    """Return the last n runs, oldest first, each with at, client, event, rung, ms and why. Skip other lines."""
    from contextlib import suppress
    from pathlib import Path

    runs: list[dict[str, Any]] = []
    for name in ("hooks.log", "hooks.log.1"):
        if len(runs) < n:
            with suppress(OSError):
                lines = (Path(home) / name).read_text(encoding="utf-8", errors="replace").splitlines()
                runs = [run for line in lines if (run := _parse_run(line))] + runs
    return runs[-n:]


def summary(home: str | Path) -> dict[str, Any]:
    """Summarise the hooks: last run; per rung the count in 24 hours and p50 and p95 in ms; failures by reason; the
    number of spooled and of unreadable deliveries; the end of the circuit breaker's pause, or None.
    """
    from collections import Counter
    from pathlib import Path

    from cofio.hooks import circuit_breaker, spool

    home = Path(home)
    since = format_time(time.time() - DAY)
    runs = [run for run in recent(home, 1_000_000) if PROOF not in run["why"]]  # proofs do not count as use
    lately = [run for run in runs if run["at"] >= since]
    times = {rung: sorted(run["ms"] for run in lately if run["rung"] == rung) for rung in RUNGS}
    failures = Counter(run["why"].rpartition(" ")[2] for run in lately if run["rung"] == "failed")
    until = circuit_breaker.until(str(home).encode("utf-8", "surrogateescape"))
    return {
        "last": runs[-1] if runs else None,
        "rungs": {
            rung: {"count": len(ms), "p50_ms": _take_percentile(ms, 0.50), "p95_ms": _take_percentile(ms, 0.95)}
            for rung, ms in times.items()
            if ms
        },
        "failed": dict(failures.most_common()),
        "spool": len(spool.waiting_files(home)),
        "bad": spool.count_bad(home),
        "resting_until": format_time(until) if until else None,
    }


def _parse_run(line: str) -> dict[str, Any] | None:
    at, client, event, rung, ms, *why = (line.split(" ") + [""] * 5)[: max(5, line.count(" ") + 1)]
    if len(at) != len("2026-11-15T10:00:00.123Z") or rung not in RUNGS or not ms.removesuffix("ms").isdigit():
        return None
    return {"at": at, "client": client, "event": event, "rung": rung, "ms": int(ms[:-2]), "why": " ".join(why)}


def _take_percentile(sorted_ms: Sequence[int], share: float) -> int:
    return sorted_ms[min(len(sorted_ms) - 1, int(share * len(sorted_ms)))]
