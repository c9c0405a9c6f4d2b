"""Value types of Markdown notes: files in folders, and the memories read from them.

file ─ parts (`markdown`) ─▶ [Part] ─ compared with Filed ─▶ decisions ─ store.apply ─▶ updated Filed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cofio.models.json_values import JsonFields


class FiledPart(NamedTuple):
    """Part of a file as it was last read, and its memory."""

    memory: int
    heading: str = ""  # digest of the heading path; a digest, so that no text remains after its memory is erased
    text_digest: str = ""  # digest of its text
    fields_digest: str = ""  # digest of its other content: tags, links, title
    exported: bool = False  # an exported memory, identified in the file


class Stamp(NamedTuple):
    """Size and modification time of a file; a file with the same stamp is assumed unchanged."""

    size: int
    modified: int  # nanoseconds since 1970, as reported by the file system


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesFolder:
    """Folder of notes and its state."""

    folder: str
    followed: bool = False  # watched by a service
    there: bool = True  # the folder exists
    files: int = 0  # files read
    read_at: str | None = None  # time of the last read


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """File as it was last read."""

    path: str  # relative to its folder, with forward slashes
    hash: str  # of its content
    size: int
    modified: int  # nanoseconds since 1970, as reported by the file system
    at: str = ""  # when it was read; "" is set by the store
    parts: tuple[FiledPart, ...] = ()


class SkippedNote(NamedTuple):
    """File that was not read or written, with the reason."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult(JsonFields):
    """Result of reading a folder: counts of files and of changed memories."""

    folder: str
    files: int = 0  # Markdown files found
    read: int = 0  # of these, new or changed
    gone: int = 0  # files that no longer exist
    added: int = 0  # memories
    updated: int = 0
    archived: int = 0
    skipped: tuple[SkippedNote, ...] = ()  # files that could not be read, with the reason
    unembedded: int = 0  # memories without vectors yet, because the embedder did not answer
    changeset: int | None = None  # the first, if it took several
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultExportResult(JsonFields):
    """Result of writing a vault: counts of notes."""

    folder: str
    notes: int = 0  # memories of the scope that have a note there
    written: int = 0  # of these, new or changed notes
    removed: int = 0  # notes of archived memories
    skipped: tuple[SkippedNote, ...] = ()  # notes left unchanged, with the reason
