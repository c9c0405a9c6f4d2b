"""Markdown files of a folder: listing, reading and atomic writing.

Hidden folders are not read. Links are not followed: they lead outside, or to files that are read anyway. Files are
written to a temporary file and moved into place, so that readers never see a partial file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cofio.errors import InvalidInput, NotFound, StoreError
from cofio.models.markdown_notes import Stamp
from cofio.models.memory import MAX_LABEL

BIGGEST = 1 << 20  # bytes; larger files are not read as notes
_ENDING = ".md"
_LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages"})
_LONGEST = MAX_LABEL // 2  # characters of a relative path
_LINKLESS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)


@dataclass(slots=True)
class FolderListing:
    """Markdown files of a folder by path, and skipped files. `unseen` lists unreadable folders."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    empty: bool = True  # the folder has no entries at all

    def is_unseen(self, path: str) -> bool:
        """Return whether the existence of this file cannot be determined."""
        return path in self.skipped or any(path.startswith(f"{folder}/") for folder in self.unseen)


def resolve_folder(folder: Path | str) -> Path:
    """Return the resolved path of an existing folder."""
    requested = Path(folder).expanduser()
    try:
        path = requested.resolve(strict=True)
    except FileNotFoundError as error:
        raise NotFound(f"There is no folder {requested}.", "Check the path. Nothing was changed.") from error
    except (OSError, RuntimeError, ValueError) as error:
        hint = "Check the path, its permissions and its symbolic links."
        raise InvalidInput(f"{requested} cannot be resolved to a folder.", hint) from error
    if not path.is_dir():
        raise InvalidInput(f"{requested} is not a folder.", "Give the folder that contains the notes.")
    if path == Path(path.anchor):
        raise InvalidInput(f"{requested} is the root of the file system.", "Give the folder that contains the notes.")
    if not _fits(str(path)):
        hint = "Rename the folder so that its name is UTF-8."
        raise InvalidInput(f"The path of {requested} is not valid UTF-8.", hint)
    return path


def look(folder: Path) -> FolderListing:
    """Return the Markdown files below a folder, sorted by path. Raise InvalidInput if it cannot be read."""
    listing = FolderListing()
    waiting = [""]
    while waiting:
        subfolder = waiting.pop()
        try:
            with os.scandir(folder / subfolder) as entries:
                for entry in entries:
                    listing.empty = False
                    path = f"{subfolder}/{entry.name}" if subfolder else entry.name
                    if entry.name.startswith(".") or entry.name in _LEFT_OUT:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.name.lower().endswith(_ENDING):
                        _record_file(entry, path, listing)
        except OSError as error:
            if not subfolder:
                raise InvalidInput(f"{folder} cannot be read: {error.strerror}.", "Check its permissions.") from error
            listing.unseen.append(subfolder)
            listing.skipped[_printable(subfolder)] = f"The path cannot be read: {error.strerror}."
    listing.stamps = dict(sorted(listing.stamps.items()))
    return listing


def _record_file(entry: os.DirEntry[str], path: str, listing: FolderListing) -> None:
    """Record the stamp of a Markdown file, or the reason why it is skipped."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        reason = f"The path cannot be read: {error.strerror}."
    else:
        if not entry.is_file(follow_symlinks=False):
            reason = "The file is a link, or not a regular file."
        elif not _fits(path):
            reason = "The file name is not valid UTF-8, or contains a line break."
        elif len(path) > _LONGEST:
            reason = f"The path is longer than {_LONGEST} characters."
        elif status.st_size > BIGGEST:
            reason = f"The file is larger than {BIGGEST >> 20} MB."
        else:
            listing.stamps[path] = Stamp(status.st_size, status.st_mtime_ns)
            return
    listing.skipped[_printable(path)] = reason


def _fits(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return "\n" not in path and "\x00" not in path


def _printable(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()


def content_of(path: Path) -> bytes:
    """Return the content of a regular file, or raise OSError. Links are not followed, and a pipe does not block."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(handle, "rb", closefd=False) as file:
            return file.read(BIGGEST + 1)
    finally:
        os.close(handle)


def hash_of(content: bytes) -> str:
    """Return a hash of the content."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def text_of(content: bytes) -> str:
    """Decode the content. Raise ValueError with the reason if it is not text."""
    if len(content) > BIGGEST:
        raise ValueError(f"The file is larger than {BIGGEST >> 20} MB.")
    if b"\x00" in content:
        raise ValueError("The file is not text.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("The file is not valid UTF-8.") from error


def make(folder: Path) -> Path:
    """Return the resolved path of a folder, created with mode 0700 if missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InvalidInput(f"{folder} is not a folder.", "Give a folder, or a path to create one at.") from error
    except OSError as error:
        hint = "Check the path and its permissions."
        raise StoreError(f"{folder} cannot be created: {error.strerror}.", hint) from error
    return resolve_folder(folder)


@contextmanager
def draft(folder: Path, text: str) -> Iterator[Path]:
    """Create a hidden temporary file with this text, mode 0600; removed at the end unless moved into place."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".cofio-", suffix=".tmp")
    except OSError as error:
        raise _write_error(folder, error) from error
    try:
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _write_error(folder, error) from error
        yield Path(name)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def create_file(written: Path, target: Path) -> None:
    """Move a draft to a new path. Raise FileExistsError if a file exists there."""
    try:
        os.link(written, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _LINKLESS:
            raise _write_error(target, error) from error
        if os.path.lexists(target):  # no hard links on this file system
            raise FileExistsError(errno.EEXIST, "there is a file", str(target)) from error
        replace_file(written, target)


def replace_file(written: Path, target: Path) -> None:
    """Move a draft to a path, replacing an existing file."""
    try:
        written.replace(target)
    except OSError as error:
        raise _write_error(target, error) from error


def _write_error(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be written: {error.strerror}.", "Check the folder's permissions and its disk.")


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the folder among processes of this machine, if the file system supports locks."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
