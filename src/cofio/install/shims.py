"""The five named hooks as files in a client's folder: each starts the launcher, and does nothing without cofio."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from cofio.hooks import launch
from cofio.install.plan import Copy

_ASKS = b"home=${COFIO_HOME:-${HOME:-}/.cofio}\n"  # where a shim of a plugin, which anybody may have, looks for it


def folder_in(home: Path) -> Path:
    """Where a client's shims are."""
    return home / "hooks" / "memory"


def copies(folder: Path, home: Path) -> tuple[Copy, ...]:
    """The shims, each with the path of our home in it."""
    return tuple(
        Copy(path=folder / name, content=baked(name, home), mode=0o755, is_ours=is_ours) for name in launch.NAMES
    )


def is_ours(path: Path, content: bytes) -> bool:
    """Whether this is one of our shims, of whichever home and version."""
    return path.name in launch.NAMES and b'"$home/hook"' in content


def baked(name: str, home: Path) -> bytes:
    """A shim that knows our home, whatever the variables say when it runs."""
    content = (launch.SHIMS / name).read_bytes()
    assert _ASKS in content
    return content.replace(_ASKS, b"home=" + os.fsencode(quote(str(home))) + b"\n")
