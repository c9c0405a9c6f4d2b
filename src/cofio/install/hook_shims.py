"""The five named hooks as files in a client's folder: each runs the launcher, and does nothing if cofio is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from cofio.hooks import launcher
from cofio.install.plan import FileCopy

_ASKS = b"home=${COFIO_HOME:-${HOME:-}/.cofio}\n"  # replaced in installed shims, kept in those of plugins


def folder_in(home: Path) -> Path:
    """Return the folder of a client's shims."""
    return home / "hooks" / "memory"


def hooks_in(folder: Path, events: Mapping[str, tuple[str, int]], argument: str = "") -> dict[str, dict[str, Any]]:
    """Return a hook for each event, given its shim and timeout. The path is quoted, since a shell runs the command."""
    return {
        event: {"command": quote(str(folder / name)) + argument, "timeout": seconds}
        for event, (name, seconds) in events.items()
    }


def copies(folder: Path, home: Path) -> tuple[FileCopy, ...]:
    """Return the shims with the path of our home written into them."""
    line = b"home=" + os.fsencode(quote(str(home))) + b"\n"
    contents = {name: (launcher.SHIMS / name).read_bytes().replace(_ASKS, line) for name in launcher.NAMES}
    return tuple(
        FileCopy(path=folder / name, content=content, mode=0o755, is_ours=is_ours) for name, content in contents.items()
    )


def is_ours(path: Path, content: bytes) -> bool:
    """Return whether this is one of our shims, of any home and version."""
    return path.name in launcher.NAMES and b'"$home/hook"' in content
