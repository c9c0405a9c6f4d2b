"""Atomic file writes: written under a temporary name, then renamed."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, content: bytes, *, mode: int = 0o600, sync: bool = False) -> None:
    """Write a file atomically with this mode; create a missing folder. Raise OSError on failure."""
    import tempfile  # slow import, and hooks only read

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
