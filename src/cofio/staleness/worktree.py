"""Safe, bounded reading of a working tree: only regular files inside it, with limits on size and number.

Names come from untrusted memories. Paths are therefore walked one folder at a time without following links; a link
whose target is inside the tree is resolved once.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

MOST_BYTES = 1_048_576  # read from a file
MOST_FILES = 20_000  # listed in a tree
MOST_SOURCES = 5_000  # searched for definitions
_MOST_FOLDERS = 5_000
_DEEPEST = 30  # folder depth
_REMEMBERED = 10_000  # cached results per tree
_RECENT = 5.0  # seconds before a listing expires
_BRIEF = 0.05  # seconds to spend on listings during a request

#: Entries that mark a folder as a working tree: a repository or a project manifest.
SIGNS = (
    ".git", ".hg", ".jj", ".svn", "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle",
    "build.gradle.kts", "CMakeLists.txt", "Makefile", "Gemfile", "composer.json", "setup.py", "justfile",
)  # fmt: skip
#: Folders of third-party or tool files: never read, even if a memory names a file in them.
_NEVER = frozenset(
    ".git .hg .jj .svn .bare node_modules bower_components .venv venv .tox .nox .direnv __pycache__ .mypy_cache"
    " .pytest_cache .ruff_cache .hypothesis .cache .gradle .terraform .yarn .pnpm-store .eggs site-packages".split()
)
#: Build outputs: not searched, but a file in them can be named by its path.
_MADE = frozenset("dist build target out .next .nuxt .output coverage htmlcov .idea .vscode".split())

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Stamp = tuple[int, int, int]
T = TypeVar("T")
#: Maps a path to a function that reads the names defined in such a file; None if its type is unsupported.
Names = Callable[[str], Callable[[bytes], frozenset[str]] | None]


@dataclass(slots=True)
class FileListing:
    """Files of a tree, by name and in search order."""

    at: float
    complete: bool = True
    timed_out: bool = False  # stopped by the deadline
    seconds_spent: float = 0.0  # seconds spent in `search_briefly`
    paths: list[str] = field(default_factory=list)
    by_name: dict[str, list[str]] = field(default_factory=dict)
    searched: int = 0  # paths searched for definitions so far
    sources: int = 0  # of these, files of a supported type
    defining: dict[str, list[str]] = field(default_factory=dict)  # paths by defined name


class WorkTree:
    """Working tree on this machine. Thread-safe."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._real = os.path.realpath(root)
        self._cache: dict[tuple[str, str], tuple[Stamp, Any]] = {}
        self._listing: FileListing | None = None
        self._lock = threading.Lock()

    @property
    def is_here(self) -> bool:
        """Return whether the tree exists. An empty folder may be an unmounted mount point, so a sign is required."""
        return any(os.path.lexists(f"{self.root}/{sign}") for sign in SIGNS)

    def read_cached(self, path: str, name: str, make: Callable[[bytes, int], T]) -> T:
        """Return `make(first megabyte, size)` of a file, cached under `name` until the file changes.

        Raise FileNotFoundError if the tree has no such regular file, another OSError if it cannot be read.
        """
        folder, leaf = self._open_parent(path)
        try:
            status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(path)
            cached = self._cache.get((path, name))
            if cached and cached[0] == _to_stamp(status):
                value: T = cached[1]
                return value
            with os.fdopen(os.open(leaf, _FILE, dir_fd=folder), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise FileNotFoundError(path)
                content = bytearray()
                while len(content) < MOST_BYTES and (part := file.read(MOST_BYTES - len(content))):
                    content += part
        finally:
            os.close(folder)
        value = make(bytes(content), status.st_size)
        if len(self._cache) >= _REMEMBERED:
            self._cache.clear()
        self._cache[path, name] = _to_stamp(status), value
        return value

    def _open_parent(self, path: str) -> tuple[int, str]:
        """Return an open descriptor of the file's folder, and the file's name in it."""
        try:
            return self._open_folder(_split_path(path))
        except OSError as error:
            if not isinstance(error, _Link) and not isinstance(error, NotADirectoryError):
                raise
        real = os.path.realpath(f"{self.root}/{path}")
        if not real.startswith(f"{self._real}/"):
            raise FileNotFoundError(path)
        try:
            return self._open_folder(_split_path(real[len(self._real) + 1 :]))
        except (_Link, NotADirectoryError) as error:
            raise FileNotFoundError(path) from error

    def _open_folder(self, parts: list[str]) -> tuple[int, str]:
        folder = os.open(self.root, _FOLDER)
        try:
            for part in parts[:-1]:
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            if stat.S_ISLNK(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                raise _Link
        except OSError:
            os.close(folder)
            raise
        return folder, parts[-1]

    def listing(self, until: float) -> FileListing:
        """Return the files, up to some seconds old; of a large tree only the first, by depth."""
        with self._lock:
            return self._refresh(until)

    def search_briefly(self, name: str, names: Names) -> list[str]:
        """Return files that define the name, within a small time budget shared by all glances of a listing."""
        began = time.monotonic()
        listing = self._listing
        budget = _BRIEF - (listing.seconds_spent if listing and began - listing.at <= _RECENT else 0.0)
        paths, _ = self.defining(name, names, began + max(0.0, budget))
        if self._listing:
            self._listing.seconds_spent += time.monotonic() - began
        return paths

    def defining(self, name: str, names: Names, until: float) -> tuple[list[str], bool]:
        """Return files that define the name, searched until the deadline, and whether the search was complete."""
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            return [], False
        try:
            listing = self._refresh(until)
            while listing.searched < len(listing.paths) and time.monotonic() < until:
                path = listing.paths[listing.searched]
                listing.searched += 1
                read_names = names(path) if listing.sources < MOST_SOURCES else None
                if read_names is not None:
                    listing.sources += 1
                    for defined in self._read_names(path, read_names):
                        listing.defining.setdefault(defined, []).append(path)
            searched = listing.searched == len(listing.paths) and listing.sources < MOST_SOURCES
            return listing.defining.get(name, []), searched and listing.complete
        finally:
            self._lock.release()

    def _read_names(self, path: str, read_names: Callable[[bytes], frozenset[str]]) -> frozenset[str]:
        try:
            status = os.lstat(f"{self.root}/{path}")
            cached = self._cache.get((path, "names"))
            if cached and cached[0] == _to_stamp(status):
                names: frozenset[str] = cached[1]
                return names
            return self.read_cached(path, "names", lambda content, _: read_names(content))
        except OSError:
            return frozenset()

    def _refresh(self, until: float) -> FileListing:
        now, listing = time.monotonic(), self._listing
        if listing is None or now - listing.at > _RECENT or (listing.timed_out and until - now > _BRIEF):
            listing = self._listing = _list_files(self.root, now, until)
        return listing


class _Link(OSError):
    """A symbolic link was found instead of a file or folder."""


def _list_files(root: str, now: float, until: float) -> FileListing:
    """List the files of the tree breadth-first."""
    listing = FileListing(now)
    waiting, folders = deque([""]), 0
    while waiting:
        if len(listing.paths) >= MOST_FILES or folders >= _MOST_FOLDERS or time.monotonic() > until:
            listing.complete, listing.timed_out = False, time.monotonic() > until
            break
        folder = waiting.popleft()
        folders += 1
        for name, is_folder in _list_entries(f"{root}/{folder}"):
            if is_folder:
                waiting.append(f"{folder}{name}/")
            else:
                listing.paths.append(f"{folder}{name}")
                listing.by_name.setdefault(name, []).append(f"{folder}{name}")
        if folder.count("/") >= _DEEPEST:
            waiting.clear()
    return listing


def _list_entries(folder: str) -> list[tuple[str, bool]]:
    """List a folder by name: its regular files, and subfolders that are not excluded."""
    try:
        with os.scandir(folder) as entries:
            by_name = {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}
            if "pyvenv.cfg" in by_name:
                return []
            folders = {name for name, entry in by_name.items() if entry.is_dir(follow_symlinks=False)}
            others = {name for name, entry in by_name.items() if not entry.is_file(follow_symlinks=False)} - folders
            left_out = others | (folders & (_NEVER | _MADE))
            return [(name, name in folders) for name in by_name if name not in left_out and not _is_odd(name)]
    except OSError:
        return []


def _split_path(path: str) -> list[str]:
    """Split a path relative to the root. Raise FileNotFoundError if it leaves the tree or enters an excluded folder."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or part in _NEVER or _is_odd(part) for part in parts) or len(parts) > _DEEPEST:
        raise FileNotFoundError(path)
    return parts


def _is_odd(name: str) -> bool:
    """Return whether it is not a valid or encodable file name."""
    return "\x00" in name or len(name) > 255 or any("\ud800" <= letter <= "\udfff" for letter in name)


def _to_stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size
