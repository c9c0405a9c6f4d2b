"""Client configuration files: read and written atomically, through symbolic links, with their permissions kept."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from cofio.errors import InvalidInput, StoreError
from cofio.hooks.atomic_write import write_atomic


def read(path: Path) -> bytes | None:
    """Return the bytes of the file; None if it is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.", "Check the file and its permissions.") from error


def text_of(path: Path, content: bytes) -> str:
    """Return the text, with its line ends and byte order mark. Raise InvalidInput if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text.", "Convert it, or move it away; nothing was written.") from error


def read_text(path: Path) -> str:
    """Return the text of the file; "" if it is missing."""
    return text_of(path, read(path) or b"")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write the bytes atomically. Links are kept; a file keeps its permissions unless `mode` is given."""
    target = Path(os.path.realpath(path))
    try:
        current = target.stat() if target.exists() else None
        if mode is None:
            mode = current.st_mode & 0o7777 if current else 0o600
        write_atomic(target, content, mode=mode, sync=True)
        if current:
            with suppress(PermissionError):
                os.chown(target, current.st_uid, current.st_gid)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.", "Check the folder's permissions.") from error


def remove(path: Path) -> None:
    """Delete the file that the path leads to; keep a link to it."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def missing_folders(path: Path) -> list[Path]:
    """Return the missing folders above a file, the outermost first."""
    return [folder for folder in reversed(Path(os.path.realpath(path)).parents) if not folder.exists()]
