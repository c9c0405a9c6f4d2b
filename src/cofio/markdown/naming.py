"""What files, notes and folders are called.

A flushed note is named by its hour, a note of a vault by its first words and its id. A folder is known by its label and
its path; the label stands in the sources of its memories, so that equal names in two folders do not mix.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cofio.errors import InvalidInput
from cofio.model import MAX_LABEL, Memory

_WORDS = 9
_BYTES = 120  # of a name; file systems take 255
_SOURCE = "file:"
_UNFIT = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff`]+')
_LABEL = re.compile(r"[^/=,\x00-\x1f\x7f]+")


class Place(NamedTuple):
    """A folder, and what it is called in sources: "" for the folder of flushed notes."""

    label: str
    path: Path

    @property
    def key(self) -> str:
        """What the store knows it by."""
        return f"{self.label}={self.path}" if self.label else str(self.path)

    def source(self, path: str) -> str:
        """The source of what is read from this file of it."""
        return f"{_SOURCE}{self.label}/{path}" if self.label else f"{_SOURCE}{path}"

    @classmethod
    def of(cls, key: str) -> Place:
        label, named, path = key.partition("=")
        return cls(label, Path(path)) if named and "/" not in label else cls("", Path(key))


def label_of(label: str) -> str:
    """The label, once it is known to be one."""
    bare = label.strip()
    if bare and (not _LABEL.fullmatch(bare) or len(bare) > MAX_LABEL // 4):
        raise InvalidInput(f"label is {label!r}.", "Give a short name without /, = and commas.")
    return bare


def free_label(path: Path, taken: Iterable[str]) -> str:
    """What to call a folder that nobody named: its own name, with a number if there is such a label already."""
    known = set(taken)
    name = re.sub(r"[/=,\x00-\x1f\x7f]+", " ", path.name).strip()[: MAX_LABEL // 8] or "notes"
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(known) + 3))
    return next(each for each in names if each not in known)


def hour_of(at: str) -> str:
    """The hour of a moment in UTC, as it is written in names: 2026-01-31-23."""
    return f"{at[:10]}-{at[11:13]}"


def note_name(memory: Memory) -> str:
    """What the note of a memory is called: its first words and its id."""
    plain = unicodedata.normalize("NFC", _UNFIT.sub(" ", memory.text[:1_000].strip().partition("\n")[0]))
    words: list[str] = []
    for word in plain.split()[:_WORDS]:
        if len(" ".join([*words, word]).encode()) > _BYTES:
            break
        words.append(word)
    name = " ".join(words).strip(" .,;-~%")
    return f"{name or 'Memory'} ({memory.id}).md"
