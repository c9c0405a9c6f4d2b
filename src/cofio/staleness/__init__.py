"""Freshness: detects whether code that a memory refers to has changed since the memory was recorded.

A memory that names a file, a definition or a command of a repository keeps an anchor: its location and a hash. Names
that do not exist when the memory is recorded get no anchor. A memory is labelled as changed if its code has changed,
and no longer presented as a fact if its code has vanished.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from cofio.models.memory import Anchor, Fact, FreshnessResult, Memory
from cofio.staleness import commands, symbols
from cofio.staleness.references import Reference, find_references
from cofio.staleness.worktree import MOST_BYTES, WorkTree

__all__ = ["MOST", "FreshnessResult", "StalenessChecker"]

MOST = 4  # anchors of one memory
_PATIENCE = 0.5  # seconds to search a tree for the names of a text
_TREES = 16  # cached trees
_WORST = ("vanished", "changed", "fresh", "")
_TESTS = ("test", "spec", "__tests__")  # beginnings of names of test files and folders
_SECRET = re.compile(
    r"(?:^|/)(?:\.env[^/]*|[^/]*\.(?:pem|key|p12|pfx|jks|keystore)|id_(?:rsa|dsa|ecdsa|ed25519)[^/]*"
    r"|\.?credentials[^/]*|\.netrc|\.npmrc|\.pypirc|\.pgpass)$",
    re.IGNORECASE,
)


class StalenessChecker:
    """Creates and checks anchors. Thread-safe. With `reads=False` it reads no files; everything is unknown then."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self._trees: dict[str, WorkTree] = {}

    def anchored(self, fact: Fact) -> Fact:
        """Return the fact with anchors for its text as of now, replacing existing ones."""
        anchors = self.anchors(fact.text, fact.project)
        return fact if anchors == fact.anchors else replace(fact, anchors=anchors)

    def anchors(self, text: str, project: str) -> tuple[Anchor, ...]:
        """Return anchors for existing code named by the text, in order; a definition replaces the file named with it.

        Returns () if the project is not a working tree on this machine.
        """
        tree = self._get_tree(project)
        if tree is None:
            return ()
        until = time.monotonic() + _PATIENCE
        names = find_references(text, tree.root)
        files = {
            name.name: path for name in names if name.kind == "file" and (path := _find_file(tree, name.name, until))
        }
        by_key: dict[tuple[str, str, str], Anchor] = {}
        for name in names:
            anchor = _make_anchor(tree, name, files, until)
            if anchor:
                by_key.setdefault((anchor.kind, anchor.path, anchor.name if anchor.kind != "file" else ""), anchor)
        inside = {anchor.path for anchor in by_key.values() if anchor.kind != "file"}
        return tuple(anchor for anchor in by_key.values() if anchor.kind != "file" or anchor.path not in inside)[:MOST]

    def check(self, memory: Memory) -> FreshnessResult:
        """Return the current freshness of a memory: the worst state of its anchors, with a note for each stale one."""
        tree = self._get_tree(memory.project) if memory.anchors else None
        if tree is None:
            return FreshnessResult()
        states = [_check_anchor(tree, anchor) for anchor in memory.anchors]
        worst = min((state for state, _ in states), key=_WORST.index)
        return FreshnessResult(worst, tuple(dict.fromkeys(note for _, note in states if note)))

    def _get_tree(self, project: str) -> WorkTree | None:
        """Return the tree of the project; None if there is none on this machine or reading is disabled."""
        if not self.reads or not project.startswith("/") or "\x00" in project:
            return None
        tree = self._trees.get(project)
        if tree is None:
            if len(self._trees) >= _TREES:
                self._trees.clear()
            tree = self._trees[project] = WorkTree(os.path.normpath(project))
        return tree if tree.is_here else None


def _make_anchor(tree: WorkTree, reference: Reference, files: dict[str, str], until: float) -> Anchor | None:
    """Return the anchor of a name; None if it does not exist or is ambiguous."""
    paths: Iterable[str]
    if reference.kind == "file":
        paths = [files[reference.name]] if reference.name in files else []
    elif reference.kind == "command":
        paths = commands.files(reference.name)
    else:
        paths = [] if reference.name in files else _find_definition(tree, reference.name, set(files.values()), until)
    for path in paths:
        try:
            if digest := _hash_of(tree, reference.kind, reference.name, path):
                return Anchor(kind=reference.kind, name=reference.name, path=path, hash=digest)
        except OSError:
            continue
    return None


def _find_file(tree: WorkTree, name: str, until: float) -> str:
    """Return the path of the named file: as written from the root, else the only file with this ending; else "".

    Files that hold secrets are skipped: even the hash of a short secret can reveal it.
    """
    if _SECRET.search(name):
        return ""
    with suppress(OSError):
        return name if tree.read_cached(name, "file", _hash) else ""
    listing = tree.listing(until)
    same = listing.by_name.get(name.rpartition("/")[2], [])
    ending = [path for path in same if path.endswith(f"/{name}")]
    return ending[0] if len(ending) == 1 and listing.complete else ""


def _find_definition(tree: WorkTree, name: str, files: set[str], until: float) -> list[str]:
    """Return the only file that defines the name: of files named in the text, else outside tests, else of all files."""
    if named := list(_hash_definitions(tree, name, sorted(files))):
        return named if len(named) == 1 else []
    last = symbols.split_name(name)[-1]
    paths, are_all = tree.defining(last, symbols.name_reader, until)
    if last != name:
        paths, are_all = list(_hash_definitions(tree, name, paths)), True  # rarely do two share both owner and name
    if not are_all:
        return []
    tests = {path for path in paths if any(part.startswith(_TESTS) for part in path.lower().split("/"))}
    candidates = [path for path in paths if path not in tests] or paths
    return candidates if len(candidates) == 1 else []


def _hash_definitions(tree: WorkTree, name: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the hashes of the definitions of a name, by path."""
    digests: dict[str, str] = {}
    for path in paths:
        with suppress(OSError):
            if digest := _hash_of(tree, "symbol", name, path):
                digests[path] = digest
    return digests


def _hash_of(tree: WorkTree, kind: str, name: str, path: str) -> str | None:
    """Return the hash of a file, a definition or a command recipe; None if the file does not contain it."""
    if kind == "file":
        return tree.read_cached(path, "file", _hash)

    def hash_block(content: bytes, _: int) -> str | None:
        if kind == "symbol":
            text = symbols.definition_block(path, content, name)
        else:
            text = commands.command_definition(content, name)
        return None if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

    return tree.read_cached(path, f"{kind} {name}", hash_block)


def _hash(content: bytes, size: int) -> str:
    """Hash the content; for a large file, its beginning and its size."""
    return hashlib.sha256(content if size <= MOST_BYTES else content + str(size).encode()).hexdigest()[:16]


def _check_anchor(tree: WorkTree, anchor: Anchor) -> tuple[str, str]:
    """Return the state of the anchor and a note for people."""
    if anchor.kind not in ("file", "symbol", "command"):
        return "", ""  # kind of a newer version
    name = anchor.path if anchor.kind == "file" else anchor.name
    try:
        digest = _hash_of(tree, anchor.kind, anchor.name, anchor.path)
    except FileNotFoundError:
        digest = None
    except (OSError, ValueError):
        return "", ""
    if digest == anchor.hash:
        return "fresh", ""
    if digest is not None:
        return "changed", f"{name} has changed since"
    if anchor.kind != "symbol":
        return "vanished", f"{name} is gone"
    # A definition moved to the file with an identical one, else with the only one.
    paths = tree.search_briefly(symbols.split_name(anchor.name)[-1], symbols.name_reader)
    digests = _hash_definitions(tree, anchor.name, paths)
    same = [path for path, digest in digests.items() if digest == anchor.hash]
    if same or len(digests) == 1:
        return "changed", f"{name} is in {[*same, *digests][0]} now"
    return "vanished", f"{name} is gone from {anchor.path}"
