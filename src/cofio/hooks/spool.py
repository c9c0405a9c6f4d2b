"""The spool: deliveries that no service took, one file each, until one does.

    spool/<time in ns>-<pid>-<random>.hook  a line of JSON (client, at, project, event, bytes), then the client's own
    spool/bad/                              what cannot be read, or not be delivered; nobody deletes it

A file gets its name before it is synced: a hook that is ended at its deadline, while a slow disk still syncs, leaves it
in place, and only a power cut can still take it. The header says how long the rest is, so half a file is known as one.

Hooks write here: what only the reader needs is imported by the reader.
"""

from __future__ import annotations

import posix
import time

from cofio.errors import StoreError, TooBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_FILES = 10_000
MOST_BYTES = 200_000_000
_ENDING, _UNNAMED = ".hook", ".part"
MOST_BAD_FILES = 1_000
MOST_BAD_BYTES = 100_000_000
_LEFT_OVER = 60.0  # seconds after which nobody is still writing a file
_STALE = 3_600.0  # seconds after which an empty one is swept away


class Full(TooBusy):
    """Too much waits already. What came first is kept: it may be the beginning of what comes later."""


class Entry:
    """A delivery that waits."""

    __slots__ = ("at", "client", "event", "path", "project", "raw")

    def __init__(self, path: Path, client: str, at: str, project: str, event: str, raw: bytes) -> None:
        self.path, self.client, self.at = path, client, at
        self.project, self.event, self.raw = project, event, raw


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def put(home: str | Path, client: str, raw: bytes, *, at: str, project: str, event: str) -> Path:
    """Keep a delivery: it is on disk when this returns. Full or StoreError when it cannot be."""
    from pathlib import Path

    try:
        folder = posix.fspath(home).encode("utf-8", "surrogateescape")
        path = write(folder, client, raw, at=at, project=project, event=event)
        sync(path)
    except OSError as error:
        hint = "Check the folder's permissions and the room on its disk."
        raise StoreError(f"Nothing can be written to the spool in {home}: {error.strerror}.", hint) from error
    return Path(path.decode("utf-8", "surrogateescape"))


def write(home: bytes, client: str, raw: bytes, *, at: str, project: str, event: str, aside: bool = False) -> bytes:
    """Write a delivery under its name, and its path; `sync` makes sure of it. Full or OSError when it cannot be.

    `aside`: to where nobody reads it by himself.
    """
    folder = home + b"/spool"
    _make(home, folder)
    if aside:
        _make(folder, folder + b"/bad")
        folder += b"/bad"
    _check_room(folder, len(raw), *((MOST_BAD_FILES, MOST_BAD_BYTES) if aside else (MOST_FILES, MOST_BYTES)))
    about = (("client", client), ("at", at), ("project", project), ("event", event))
    fields = "".join(f"{_quoted(name)}: {_quoted(value)}, " for name, value in about)
    name = f"{time.time_ns():020}-{posix.getpid()}-{posix.urandom(4).hex()}"
    unnamed, path = (folder + b"/" + f"{start}{name}{end}".encode() for start, end in ((".", _UNNAMED), ("", _ENDING)))
    file = posix.open(unnamed, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
    try:
        try:
            left = f'{{{fields}"bytes": {len(raw)}}}\n'.encode() + raw
            while left:
                left = left[posix.write(file, left) :]
        finally:
            posix.close(file)
        posix.rename(unnamed, path)
    except BaseException:
        _unlink(unnamed)
        raise
    return path


def sync(path: bytes) -> None:
    """Have the disk hold the file, and its name."""
    for each in (path, path.rpartition(b"/")[0]):
        file = posix.open(each, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            posix.fsync(file)
        finally:
            posix.close(file)


def _make(home: bytes, folder: bytes) -> None:
    try:
        posix.mkdir(folder, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        posix.mkdir(home, 0o700)
        posix.mkdir(folder, 0o700)


def _check_room(folder: bytes, size: int, most_files: int, most_bytes: int) -> None:
    """Full when there is none. What a writer that died left empty is swept away."""
    files = 0
    with posix.scandir(folder) as found:
        for each in found:
            try:
                about = each.stat(follow_symlinks=False)
            except FileNotFoundError:  # taken in just now
                continue
            if each.name.endswith(_UNNAMED.encode()) and not about.st_size and time.time() - about.st_mtime > _STALE:
                _unlink(each.path)
                continue
            files += 1
            size += about.st_size
    if files >= most_files or size > most_bytes:
        raise Full("The spool is full.", "Start the service with `cofio up`: it takes in what waits.")


def _unlink(path: bytes) -> None:
    try:
        posix.unlink(path)
    except OSError:  # it is gone
        return


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:  # another Python than CPython
        from json.encoder import encode_basestring_ascii
    return str(encode_basestring_ascii(text))


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def entries(home: str | Path) -> Iterator[Entry]:
    """What waits, oldest first. What is no delivery, or only half of one, is put aside on the way."""
    from pathlib import Path

    for path in waiting(Path(home)):
        try:
            raw = path.read_bytes()
        except PermissionError:
            _move(path)
        except OSError:  # taken by somebody else just now; or the disk's trouble, or ours, which may pass
            continue
        else:
            if entry := _read(path, raw):
                yield entry
            elif not raw and path.name.endswith(_UNNAMED):
                path.unlink(missing_ok=True)  # there was no room for a single byte
            else:
                _move(path)


def waiting(home: Path) -> list[Path]:
    """The files of the spool, oldest first, but for those that are being written."""
    try:
        found = sorted(path for path in (home / "spool").iterdir() if not path.is_dir() or path.is_symlink())
    except OSError:
        return []
    return [path for path in found if not path.name.startswith(".") or _is_left_over(path)]


def bad(home: Path) -> int:
    """How many files were put aside."""
    try:
        return sum(1 for _ in (home / "spool" / "bad").iterdir())
    except OSError:
        return 0


def done(entry: Entry) -> None:
    """Take it away: it has been taken in."""
    entry.path.unlink(missing_ok=True)


def set_aside(entry: Entry) -> None:
    """Put it where nobody reads it again by himself."""
    _move(entry.path)


def _read(path: Path, raw: bytes) -> Entry | None:
    import json

    if path.is_symlink():
        return None
    head, _, rest = raw.partition(b"\n")
    try:
        about = json.loads(head)
        client, at, project, event = (about[name] for name in ("client", "at", "project", "event"))
        whole = len(rest) == about["bytes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not whole or not rest or not all(isinstance(each, str) for each in (client, at, project, event)):
        return None
    return Entry(path, client, at, project, event, rest)


def _is_left_over(path: Path) -> bool:
    """Whether its writer died over it."""
    try:
        return path.name.endswith(_UNNAMED) and time.time() - path.lstat().st_mtime > _LEFT_OVER
    except OSError:
        return False


def _move(path: Path) -> None:
    folder = path.parent / "bad"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path.rename(folder / path.name)
    except OSError as error:
        import logging

        logging.getLogger(__name__).warning("%s cannot be put aside: %s", path.name, error.strerror)
