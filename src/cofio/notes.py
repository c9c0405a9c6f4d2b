"""The words of Markdown notes: files in folders, and the memories that were read from them.

    file ─ parts (`markdown`) ─▶ [Part] ─ compared with Filed ─▶ decisions ─ store.apply ─▶ Filed again

Part of the words, beside `model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class FiledPart(NamedTuple):
    """A part of a file, as it was read: a digest of what it says, and the memory that says it."""

    digest: str
    memory: int


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
    changeset: int | None = None
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "skipped": [{"path": path, "why": why} for path, why in self.skipped]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Indexed:
        """What `as_dict` wrote."""
        skipped = tuple((each["path"], each["why"]) for each in plain.get("skipped", ()))
        return cls(**{**plain, "skipped": skipped})
