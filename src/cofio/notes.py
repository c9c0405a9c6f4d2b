"""The words of Markdown notes: files in folders, and the memories that were read from them.

    file ─ parts (`markdown`) ─▶ [Part] ─ compared with Filed ─▶ decisions ─ store.apply ─▶ Filed again

Part of the words, beside `model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class FiledPart(NamedTuple):
    """A part of a file, as it was read, and the memory that says it."""

    memory: int
    heading: str = ""  # digest of the way to it: once its memory is erased, no word of it is kept here
    says: str = ""  # digest of its words
    about: str = ""  # digest of what else it brings: tags, links, title
    exported: bool = False  # a memory that was written there: the file says whose it is


class Stamp(NamedTuple):
    """How a file looks from outside: while both are the same, it is taken to be the same."""

    size: int
    modified: int  # nanoseconds since 1970, as the file system says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of notes, as it stands."""

    folder: str
    followed: bool = False  # whether a service looks at it by itself
    there: bool = True  # whether there is such a folder now
    files: int = 0  # that were read
    read_at: str | None = None  # when one of them was read last


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """A file as it was read last."""

    path: str  # within its folder, with forward slashes
    hash: str  # of its content
    size: int
    modified: int  # nanoseconds since 1970, as the file system says it
    at: str = ""  # when it was read; "" is filled by the store
    parts: tuple[FiledPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """What reading a folder did: files by what became of them, and memories."""

    folder: str
    files: int = 0  # Markdown files that are there
    read: int = 0  # of these, new or changed
    gone: int = 0  # files that are there no more
    added: int = 0  # memories
    updated: int = 0
    archived: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # files that could not be read, and why
    unembedded: int = 0  # memories that have to wait for their vectors, because the embedder did not answer
    changeset: int | None = None  # the first of a series, where it took several
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "skipped": [{"path": path, "why": why} for path, why in self.skipped]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Indexed:
        """What `as_dict` wrote."""
        skipped = tuple((each["path"], each["why"]) for each in plain.get("skipped", ()))
        return cls(**{**plain, "skipped": skipped})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What writing a vault did: notes by what became of them."""

    folder: str
    notes: int = 0  # memories of the scope that have their note there
    written: int = 0  # of these, notes that are new or changed
    removed: int = 0  # notes of memories that were archived
    skipped: tuple[tuple[str, str], ...] = ()  # notes that were left as they are, and why

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "skipped": [{"path": path, "why": why} for path, why in self.skipped]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Exported:
        """What `as_dict` wrote."""
        skipped = tuple((each["path"], each["why"]) for each in plain.get("skipped", ()))
        return cls(**{**plain, "skipped": skipped})
