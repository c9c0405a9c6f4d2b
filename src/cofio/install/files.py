"""Client configuration files: read and written atomically, through symbolic links, with their permissions kept."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from cofio.errors import InvalidInput, StoreError


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
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new_file = Path(name)
            if target.exists():  # keep its permissions and, as far as allowed, its owner
                current = target.stat()
                new_file.chmod(current.st_mode & 0o7777 if mode is None else mode)
                with suppress(PermissionError):
                    os.chown(new_file, current.st_uid, current.st_gid)
            else:
                new_file.chmod(0o600 if mode is None else mode)
            new_file.replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.", "Check the folder's permissions.") from error


def remove(path: Path) -> None:
    """Delete the file that the path leads to; keep a link to it."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def missing_folders(path: Path) -> list[Path]:
    """Return the missing folders above a file, the outermost first."""
    folders = []
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists():
        folders.append(folder)
        folder = folder.parent
    return folders[::-1]
