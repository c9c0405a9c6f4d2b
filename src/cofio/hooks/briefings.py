"""The last briefing of each project, as a file: what a hook can still give when neither service nor store answers."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cofio.hooks import whole


def place(home: str | Path, project: str) -> Path:
    """Where a project's last briefing stands."""
    name = hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Path(home) / "briefings" / f"{name}.txt"


def put(home: str | Path, project: str, text: str) -> None:
    """Keep the briefing, for its owner alone; one that cannot be kept is done without."""
    path = place(home, project)
    try:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return
        whole.put(path, text.encode())
    except (OSError, UnicodeError):
        return


def get(home: str | Path, project: str) -> str:
    """The last briefing; "" where there is none."""
    try:
        return place(home, project).read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""


def clear(home: str | Path) -> None:
    """Take them all away: what was deleted or corrected may stand in any."""
    for path in (Path(home) / "briefings").glob("*.txt"):
        path.unlink(missing_ok=True)
