"""The last briefing of each project as a file: a fallback if neither service nor store answers."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from cofio.hooks import atomic_write


def cache_path(home: str | Path, project: str) -> Path:
    """Return the path of a project's last briefing."""
    name = hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Path(home) / "briefings" / f"{name}.txt"


def save_briefing(home: str | Path, project: str, text: str) -> None:
    """Save the briefing, readable by its owner only. Errors are ignored."""
    if load_briefing(home, project) != text:
        with suppress(OSError, UnicodeError):
            atomic_write.write_atomic(cache_path(home, project), text.encode())


def load_briefing(home: str | Path, project: str) -> str:
    """Return the last briefing; "" if there is none."""
    try:
        return cache_path(home, project).read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""


def clear(home: str | Path) -> None:
    """Delete all briefings: any of them may contain a deleted or corrected memory."""
    for path in (Path(home) / "briefings").glob("*.txt"):
        path.unlink(missing_ok=True)
