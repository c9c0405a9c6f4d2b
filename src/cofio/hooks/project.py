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
    """Return the project of this folder: the main working tree of its repository, or a bare repository itself.

    A submodule is its own project. Outside a repository the project is the folder; "" for the root and for the home
    folder of the `user` (default: the current one), where memories belong to no project.
    """
    raw = cwd.encode("utf-8", "surrogateescape")
    if not raw.startswith(b"/") or b"\0" in raw:
        return ""
    here = real_path(raw)
    home = real_path(user.encode("utf-8", "surrogateescape") if user else user_folder())
    if here in (b"/", home):
        return ""
    path = _find_repository(here, home) or here
    return path.decode("utf-8", "replace")  # text that can be stored and sent


def name(project: str) -> str:
    """Return a short display name: the last part of the path."""
    parts = [part for part in project.split("/") if part]
    if len(parts) > 1 and parts[-1] in _PLUMBING:
        parts.pop()
    return parts[-1].removesuffix(".git") or parts[-1] if parts else ""


def real_path(path: bytes) -> bytes:
    """Return the absolute path with every link resolved, even if it does not exist."""
    resolved, parts, links = b"", path.split(b"/")[::-1], 0
    while parts:
        part = parts.pop()
        if part in (b"", b"."):
            continue
        if part == b"..":
            resolved = resolved.rpartition(b"/")[0]
            continue
        try:
            target = posix.readlink(resolved + b"/" + part)
        except OSError:  # not a link, or missing
            resolved += b"/" + part
            continue
        links += 1
        if links > _NESTED:
            return path
        if target.startswith(b"/"):
            resolved = b""
        parts.extend(target.split(b"/")[::-1])
    return resolved or b"/"


def _find_repository(here: bytes, home: bytes) -> bytes:
    """Return the repository of this folder, named by its main tree; b"" if there is none below the home or the root.

    A bare repository inside another one is ignored: a clone may contain it, and its config would name any folder.
    """
    bare = b""
    while here not in (b"", home):
        kind = _read_kind(here + b"/.git")
        if kind == _FOLDER and _is_git(here + b"/.git"):
            return here
        if kind == _FILE and (target := _follow_pointer(here)):
            return target
        if _is_git(here):
            tree = _find_main_tree(here)
            if tree != here:
                return tree
            bare = here
        here = here.rpartition(b"/")[0]
    return bare


def _follow_pointer(tree: bytes) -> bytes:
    """Return the project of a tree whose `.git` is a file; b"" if that names no repository.

    The file may have been unpacked with the folder, so the repository must name the tree too; else the tree is a
    project of its own.
    """
    folder = _read_pointer(tree)
    common = read(folder + b"/commondir").strip()  # only in a linked worktree
    if common:
        shared = _join(folder, common)
        is_linked = (
            folder.rpartition(b"/")[0] == shared + b"/worktrees"
            and _join(folder, read(folder + b"/gitdir").strip()) == tree + b"/.git"
        )
    else:
        shared = folder
        is_linked = folder.rpartition(b"/")[0] == tree  # such as ./.bare, beside its worktrees
    if not _is_git(shared):
        return b""
    return _find_main_tree(shared) if is_linked else tree


def _read_pointer(tree: bytes) -> bytes:
    """Return the folder that a `.git` file names; b"" if it names none."""
    content = read(tree + b"/.git")
    return _join(tree, content[len(b"gitdir:") :].strip()) if content.startswith(b"gitdir:") else b""


def _find_main_tree(common: bytes) -> bytes:
    """Return the main tree of a common directory: its parent, or `core.worktree` if that points back; else itself."""
    if common.endswith(b"/.git"):
        return common[: -len(b"/.git")] or b"/"
    settings = read(common + b"/config") + b"\n" + read(common + b"/config.worktree")
    for line in settings.splitlines():
        key, equals, value = line.partition(b"=")
        if equals and key.strip().lower() == b"worktree":
            tree = _join(common, value.strip().strip(b'"'))
            if _read_pointer(tree) == common:  # as in submodules
                return tree
    return common


def _is_git(folder: bytes) -> bool:
    return (
        _read_kind(folder + b"/HEAD") == _FILE
        and _read_kind(folder + b"/objects") == _FOLDER
        and _read_kind(folder + b"/refs") == _FOLDER
    )


def _join(folder: bytes, path: bytes) -> bytes:
    return real_path(path if path.startswith(b"/") else folder + b"/" + path)


def _read_kind(path: bytes) -> int:
    try:
        return posix.stat(path).st_mode & _MODE
    except (OSError, ValueError):
        return 0
