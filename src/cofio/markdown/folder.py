"""A folder of Markdown on this machine: which files it has, what stands in one, and how one is written.

    folder ─ look ─▶ stamps, and what was left out ─ text_of ─▶ what stands there

Hidden folders are not looked into, and links are not followed: they lead out, or to what is read anyway. A file is
written beside its place and moved there when it is whole, so that nobody reads half of one.
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
from cofio.model import MAX_LABEL
from cofio.notes import Stamp

BIGGEST = 1 << 20  # bytes of a page; what has more is no note
_ENDING = ".md"
_LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages"})
_LONGEST = MAX_LABEL // 2  # characters of a path within its folder
_LINKLESS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)


@dataclass(slots=True)
class Looked:
    """The Markdown files of a folder, by path, and what was left out. `unseen` are folders that cannot be read."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    empty: bool = True  # there is nothing at all in it

    def is_unseen(self, path: str) -> bool:
        """Whether it cannot be told if this file is there."""
        return path in self.skipped or any(path.startswith(f"{folder}/") for folder in self.unseen)


def whole(folder: Path | str) -> Path:
    """The folder's own path, once it is known to be one."""
    given = Path(folder).expanduser()
    try:
        path = given.resolve(strict=True)
    except FileNotFoundError as error:
        raise NotFound(f"There is no folder {given}.", "Check the path; nothing was changed.") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{given} cannot be looked at.", "Give the path of a folder.") from error
    if not path.is_dir():
        raise InvalidInput(f"{given} is not a folder.", "Give the folder that the notes are in.")
    if path == Path(path.anchor):
        raise InvalidInput(f"{given} is the whole machine.", "Give the folder that the notes are in.")
    if not _fits(str(path)):
        raise InvalidInput(f"The path of {given} is no UTF-8.", "Rename the folder.")
    return path


def look(folder: Path) -> Looked:
    """The Markdown files below a folder, in order of their paths. InvalidInput when it cannot be read."""
    looked = Looked()
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(folder / below) as entries:
                for entry in entries:
                    looked.empty = False
                    if inner := _noted(entry, f"{below}/{entry.name}" if below else entry.name, looked):
                        waiting.append(inner)
        except OSError as error:
            if not below:
                raise InvalidInput(f"{folder} cannot be read: {error.strerror}.", "Check its permissions.") from error
            looked.unseen.append(below)
            looked.skipped[_shown(below)] = f"It cannot be read: {error.strerror}."
    looked.stamps = dict(sorted(looked.stamps.items()))
    return looked


def _noted(entry: os.DirEntry[str], path: str, looked: Looked) -> str:
    """Note a file where it is Markdown; the path of a folder that is to be looked into."""
    if entry.name.startswith(".") or entry.name in _LEFT_OUT:
        return ""
    is_folder, is_page = entry.is_dir(follow_symlinks=False), entry.name.lower().endswith(_ENDING)
    if is_folder:
        return path
    if not is_page:
        return ""
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError as error:
        looked.skipped[_shown(path)] = f"It cannot be read: {error.strerror}."
        return ""
    if why := _unfit(entry, path, about.st_size):
        looked.skipped[_shown(path)] = why
    else:
        looked.stamps[path] = Stamp(about.st_size, about.st_mtime_ns)
    return ""


def _unfit(entry: os.DirEntry[str], path: str, size: int) -> str:
    """Why a file is left out; "" when it is not."""
    if not entry.is_file(follow_symlinks=False):
        return "It is a link, or no file."
    if not _fits(path):
        return "Its name is no UTF-8, or has more than a line."
    if len(path) > _LONGEST:
        return f"Its path has more than {_LONGEST} characters."
    return f"It has more than {BIGGEST >> 20} MB." if size > BIGGEST else ""


def _fits(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return "\n" not in path and "\x00" not in path


def _shown(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()


# ── one file ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def content_of(path: Path) -> bytes:
    """What is in a file; no link is followed at its end, and no pipe is waited for. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        with open(handle, "rb", closefd=False) as file:
            return file.read(BIGGEST + 1)
    finally:
        os.close(handle)


def hash_of(content: bytes) -> str:
    """A name for exactly this content."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def text_of(content: bytes) -> str:
    """The content as text. ValueError, with the reason, when it is none."""
    if len(content) > BIGGEST:
        raise ValueError(f"It has more than {BIGGEST >> 20} MB.")
    if b"\x00" in content:
        raise ValueError("It is no text.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("It is no UTF-8.") from error


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def make(folder: Path) -> Path:
    """The folder's own path, made where there was none: for its owner alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InvalidInput(f"{folder} is not a folder.", "Name a folder, or one that is to be made.") from error
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be made: {error.strerror}.", "Check the path and its permissions."
        ) from error
    return whole(folder)


@contextmanager
def draft(folder: Path, text: str) -> Iterator[Path]:
    """A file with this text that nobody sees yet, for its owner alone; gone at the end, unless it was put in place."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".cofio-", suffix=".tmp")
    except OSError as error:
        raise _unwritten(folder, error) from error
    try:
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritten(folder, error) from error
        yield Path(name)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def put_new(written: Path, target: Path) -> None:
    """Move a draft to where no file is. FileExistsError when there is one."""
    try:
        os.link(written, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _LINKLESS:
            raise _unwritten(target, error) from error
        if os.path.lexists(target):  # this file system knows no links
            raise FileExistsError(errno.EEXIST, "there is a file", str(target)) from error
        put_over(written, target)


def put_over(written: Path, target: Path) -> None:
    """Move a draft to where a file may be."""
    try:
        written.replace(target)
    except OSError as error:
        raise _unwritten(target, error) from error


def _unwritten(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be written: {error.strerror}.", "Check the folder's permissions and its disk.")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One at a time among the processes of this machine, where the file system can tell."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
