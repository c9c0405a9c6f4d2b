"""Project detection for a folder, from files alone: a hook has no time to run git.

    main tree, subfolder, linked worktree, worktree of a bare repository ─▶ git common directory ─▶ one name

On the fast path: `posix` and bytes, because `os` costs a millisecond and `pathlib` ten.
"""

from __future__ import annotations

import posix

from cofio.hooks.environment import read, user_folder

_NESTED = 40  # maximum links in a path, to detect cycles
_MODE, _FOLDER, _FILE = 0o170000, 0o040000, 0o100000
_PLUMBING = (".git", ".bare")  # names of common directories that do not name the project


def project_of(cwd: str, *, user: str = "") -> str:
    """Return the project of this folder: the main working tree of its repository, or the common directory of a bare
    one.

    A submodule is its own project. Outside a repository the project is the folder; "" for the root and for the home
    folder of the `user` (default: the current one), where memories belong to no project.
    """
    raw = _bytes(cwd)
    if not raw.startswith(b"/") or b"\0" in raw:
        return ""
    here = real_path(raw)
    home = real_path(_bytes(user) if user else user_folder())
    if here in (b"/", home):
        return ""
    return _text(_repository(here, home) or here)


def name(project: str) -> str:
    """Return a short display name: the last part of the path."""
    parts = [part for part in project.split("/") if part]
    if len(parts) > 1 and parts[-1] in _PLUMBING:
        parts.pop()
    return parts[-1].removesuffix(".git") or parts[-1] if parts else ""


def real_path(path: bytes) -> bytes:
    """Return the absolute path with every link resolved, even if it does not exist."""
    done, left, links = b"", path.split(b"/")[::-1], 0
    while left:
        part = left.pop()
        if part in (b"", b"."):
            continue
        if part == b"..":
            done = done.rpartition(b"/")[0]
            continue
        try:
            target = posix.readlink(done + b"/" + part)
        except OSError:  # not a link, or missing
            done += b"/" + part
            continue
        links += 1
        if links > _NESTED:
            return path
        if target.startswith(b"/"):
            done = b""
        left.extend(target.split(b"/")[::-1])
    return done or b"/"


# ── git ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _repository(here: bytes, home: bytes) -> bytes:
    """Return the repository of this folder, named by its main tree; b"" if there is none below the home or the root."""
    while here not in (b"", home):
        kind = _kind(here + b"/.git")
        if kind == _FOLDER and _is_git(here + b"/.git"):
            return here
        if kind == _FILE and (found := _pointed(here)):
            return found
        if _is_git(here):
            return _named_by(here)
        here = here.rpartition(b"/")[0]
    return b""


def _pointed(tree: bytes) -> bytes:
    """Return the repository that the `.git` file of a tree points to; b"" if there is none."""
    told = read(tree + b"/.git")
    if not told.startswith(b"gitdir:"):
        return b""
    folder = _within(tree, told[len(b"gitdir:") :].strip())
    common = read(folder + b"/commondir").strip()  # only in a linked worktree
    shared = _within(folder, common) if common else folder
    return _named_by(shared) if _is_git(shared) else b""


def _named_by(common: bytes) -> bytes:
    """Return the main tree of a common directory: its parent, or `core.worktree` as in submodules; else itself."""
    if common.endswith(b"/.git"):
        return common[: -len(b"/.git")] or b"/"
    for line in read(common + b"/config").splitlines():
        key, found, value = line.partition(b"=")
        if found and key.strip().lower() == b"worktree":
            return _within(common, value.strip().strip(b'"'))
    return common


def _is_git(folder: bytes) -> bool:
    return (
        _kind(folder + b"/HEAD") == _FILE
        and _kind(folder + b"/objects") == _FOLDER
        and _kind(folder + b"/refs") == _FOLDER
    )


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _within(folder: bytes, path: bytes) -> bytes:
    return real_path(path if path.startswith(b"/") else folder + b"/" + path)


def _kind(path: bytes) -> int:
    try:
        return posix.stat(path).st_mode & _MODE
    except (OSError, ValueError):
        return 0


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    """Decode a path to text that can be stored and sent, replacing invalid bytes."""
    return path.decode("utf-8", "replace")
