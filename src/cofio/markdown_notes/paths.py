"""Names of note files, and labels of note folders.

A flushed note is named by its hour, an exported note by its first words and its id. A folder is identified by its label
and path; the label is part of the sources of its memories, so that equal file names in two folders do not collide.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cofio.errors import InvalidInput
from cofio.models.memory import MAX_LABEL, Memory

_WORDS = 9
_BYTES = 120  # of a name; file systems allow 255
_SOURCE = "file:"
_UNFIT = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff`]+')
_LABEL = re.compile(r"[^/=,\x00-\x1f\x7f]+")


class FolderPath(NamedTuple):
    """Folder and its label in sources; "" for the folder of flushed notes."""

    label: str
    path: Path

    @property
    def key(self) -> str:
        """Return the key of the folder in the store."""
        return f"{self.label}={self.path}" if self.label else str(self.path)

    def source(self, path: str) -> str:
        """Return the source of memories read from this file."""
        return f"{_SOURCE}{self.label}/{path}" if self.label else f"{_SOURCE}{path}"

    @classmethod
    def of(cls, key: str) -> FolderPath:
        label, named, path = key.partition("=")
        return cls(label, Path(path)) if named and "/" not in label else cls("", Path(key))


def label_of(label: str) -> str:
    """Return the stripped label if it is valid."""
    bare = label.strip()
    if bare and (not _LABEL.fullmatch(bare) or len(bare) > MAX_LABEL // 4):
        raise InvalidInput(f"{label!r} is not a valid label of a folder.", "Give a short name without /, = and commas.")
    return bare


def free_label(path: Path, taken: Iterable[str]) -> str:
    """Return a label for an unlabelled folder: its name, with a number if that label is taken."""
    labels = set(taken)
    name = re.sub(r"[/=,\x00-\x1f\x7f]+", " ", path.name).strip()[: MAX_LABEL // 8] or "notes"
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(labels) + 3))
    return next(candidate for candidate in names if candidate not in labels)


def hour_of(at: str) -> str:
    """Return the UTC hour of a timestamp as used in names: 2026-01-31-23."""
    return f"{at[:10]}-{at[11:13]}"


def note_name(memory: Memory) -> str:
    """Return the file name of an exported note: first words and id of the memory."""
    plain = unicodedata.normalize("NFC", _UNFIT.sub(" ", memory.text[:1_000].strip().partition("\n")[0]))
    words: list[str] = []
    for word in plain.split()[:_WORDS]:
        if len(" ".join([*words, word]).encode()) > _BYTES:
            break
        words.append(word)
    name = " ".join(words).strip(" .,;-~%")
    return f"{name or 'Memory'} ({memory.id}).md"
