"""The spool: undelivered hook events, one file each, until a service accepts them.

    spool/<time in ns>-<pid>-<random>.hook  a JSON line (client, at, project, event, bytes, redacted), then the input
    spool/bad/                              unreadable and undeliverable files; deleted after a week

A file is renamed before it is synced: if a hook reaches its deadline while a slow disk still syncs, the file stays in
place, and only a power cut can lose it. The header states the length of the rest, so truncated files are detected.

Hooks write here: modules that only the reader needs are imported by the reader.
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
BAD_DAYS = 7
_LEFT_OVER = 60.0  # seconds after which an unrenamed file has no writer any more
_STALE = 3_600.0  # seconds after which an empty file is deleted


class SpoolFull(TooBusy):
    """The spool is full. Older deliveries are kept, since later ones may continue them."""


class SpoolEntry:
    """A spooled delivery."""

    __slots__ = ("at", "client", "event", "path", "project", "raw")

    def __init__(self, path: Path, client: str, at: str, project: str, event: str, raw: bytes) -> None:
        self.path, self.client, self.at = path, client, at
        self.project, self.event, self.raw = project, event, raw


def store_delivery(home: str | Path, client: str, raw: bytes, *, at: str, project: str, event: str) -> Path:
    """Spool a delivery without its secrets and sync it to disk. Raise Full or StoreError on failure."""
    from pathlib import Path

    from cofio.hooks.spool_redaction import redact_delivery

    try:
        folder = posix.fspath(home).encode("utf-8", "surrogateescape")
        clean = redact_delivery(raw)
        path = write(folder, client, clean, at=at, project=project, event=event, redacted=True)
        sync(path)
    except OSError as error:
        hint = "Check the folder's permissions and the free disk space."
        raise StoreError(f"The folder spool in {home} cannot be written: {error.strerror}.", hint) from error
    return Path(path.decode("utf-8", "surrogateescape"))


def write(
    home: bytes,
    client: str,
    raw: bytes,
    *,
    at: str,
    project: str,
    event: str,
    redacted: bool = False,
    aside: bool = False,
) -> bytes:
    """Write a delivery, not yet synced, and return its path. Raise Full or OSError on failure.

    `redacted` says that its secrets were removed. With `aside` it goes to spool/bad, which is not read automatically.
    """
    for folder in (home, home + b"/spool", home + b"/spool/bad")[: 3 if aside else 2]:
        try:
            posix.mkdir(folder, 0o700)
        except FileExistsError:
            continue
    _check_room(folder, len(raw), *((MOST_BAD_FILES, MOST_BAD_BYTES) if aside else (MOST_FILES, MOST_BYTES)))
    about = (("client", client), ("at", at), ("project", project), ("event", event))
    fields = "".join(f"{_quote(name)}: {_quote(value)}, " for name, value in about)
    name = f"{time.time_ns():020}-{posix.getpid()}-{posix.urandom(4).hex()}"
    unnamed, path = (folder + b"/" + f"{start}{name}{end}".encode() for start, end in ((".", _UNNAMED), ("", _ENDING)))
    file = posix.open(unnamed, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
    try:
        try:
            data = f'{{{fields}"bytes": {len(raw)}, "redacted": {"true" if redacted else "false"}}}\n'.encode() + raw
            while data:
                data = data[posix.write(file, data) :]
        finally:
            posix.close(file)
        posix.rename(unnamed, path)
    except BaseException:
        _unlink(unnamed)
        raise
    return path


def sync(path: bytes) -> None:
    """Sync the file and its folder to disk."""
    for target in (path, path.rpartition(b"/")[0]):
        file = posix.open(target, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            posix.fsync(file)
        finally:
            posix.close(file)


def _check_room(folder: bytes, size: int, most_files: int, most_bytes: int) -> None:
    """Raise Full if the spool is full. Delete empty files that a dead writer left."""
    files = 0
    with posix.scandir(folder) as listing:
        for entry in listing:
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # delivered just now
                continue
            if entry.name.endswith(_UNNAMED.encode()) and not about.st_size and time.time() - about.st_mtime > _STALE:
                _unlink(entry.path)
                continue
            files += 1
            size += about.st_size
    if files >= most_files or size > most_bytes:
        hint = "Start the service with `cofio up`: it imports the stored captures."
        raise SpoolFull("The folder for captures that wait for the service is full.", hint)


def _unlink(path: bytes) -> None:
    try:
        posix.unlink(path)
    except OSError:  # already gone
        return


def _quote(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:  # not CPython
        from json.encoder import encode_basestring_ascii
    return str(encode_basestring_ascii(text))


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def entries(home: str | Path) -> Iterator[SpoolEntry]:
    """Yield deliveries, oldest first. Move invalid and truncated files to spool/bad."""
    from pathlib import Path

    for path in waiting_files(Path(home)):
        try:
            raw = path.read_bytes()
        except PermissionError:
            _move(path)
        except OSError:  # taken by another process; or a temporary I/O error
            continue
        else:
            if entry := _parse(path, raw):
                yield entry
            elif not raw and path.name.endswith(_UNNAMED):
                path.unlink(missing_ok=True)  # the disk was full
            else:
                _move(path)


def waiting_files(home: Path) -> list[Path]:
    """Return the files of the spool, oldest first, without those being written."""
    try:
        paths = sorted(path for path in (home / "spool").iterdir() if not path.is_dir() or path.is_symlink())
    except OSError:
        return []
    return [path for path in paths if not path.name.startswith(".") or _is_left_over(path)]


def count_bad(home: Path) -> int:
    """Return the number of files in spool/bad."""
    try:
        return sum(1 for _ in (home / "spool" / "bad").iterdir())
    except OSError:
        return 0


def expire_bad(home: Path) -> None:
    """Delete the files in spool/bad that nobody looked into for BAD_DAYS."""
    from contextlib import suppress

    with suppress(OSError):
        for path in (home / "spool" / "bad").iterdir():
            if time.time() - path.lstat().st_mtime > 86_400 * BAD_DAYS:
                path.unlink(missing_ok=True)


def remove_entry(entry: SpoolEntry) -> None:
    """Delete a delivered entry."""
    entry.path.unlink(missing_ok=True)


def set_aside(entry: SpoolEntry) -> None:
    """Move an entry to spool/bad, which is not read automatically."""
    _move(entry.path)


def _parse(path: Path, raw: bytes) -> SpoolEntry | None:
    import json

    if path.is_symlink():
        return None
    head, _, rest = raw.partition(b"\n")
    try:
        about = json.loads(head)
        client, at, project, event = (about[name] for name in ("client", "at", "project", "event"))
        is_complete = len(rest) == about["bytes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not is_complete or not rest or not all(isinstance(value, str) for value in (client, at, project, event)):
        return None
    return SpoolEntry(path, client, at, project, event, rest)


def _is_left_over(path: Path) -> bool:
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

        logging.getLogger(__name__).warning("%s cannot be moved to spool/bad: %s", path.name, error.strerror)
