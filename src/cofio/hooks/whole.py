"""Files that are there whole or not at all: written under another name, then renamed."""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put the bytes there, with this mode, in a folder that is made if it is missing. OSError when they cannot be."""
    import tempfile  # heavy, and a hook only reads

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
