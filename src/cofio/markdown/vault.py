"""The notes of a vault: a memory as a page that can be edited in Obsidian and read in again.

    memory ─ written ─▶ front matter that says whose it is, and the text ─ read ─▶ Note: what it says by now

The text stands below the front matter as it is, every character of it. Of the front matter, tags and `pinned` are read
back; the rest is for people, and is written anew when the memory has changed. Fields of one's own stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cofio.markdown import front
from cofio.markdown.front import Front
from cofio.markdown.parts import digest
from cofio.model import Memory

_OURS = (
    "cofio", "store", "tags", "kind", "category", "source", "project", "created", "updated", "pinned", "archived",
    "supersedes",
)  # fmt: skip
_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_SECOND = 19  # characters of a moment, up to the second


class Note(NamedTuple):
    """What a note says of the memory that was written there."""

    memory: int
    text: str
    tags: tuple[str, ...] = ()
    pinned: bool = False
    updated: str = ""  # when the memory was changed last, as of when it was written

    @property
    def says(self) -> str:
        return digest(self.text)

    @property
    def about(self) -> str:
        return digest(json.dumps([self.tags, self.pinned], ensure_ascii=False))


def written(memory: Memory, store: str, *, supersedes: str = "", kept: Mapping[str, tuple[str, ...]] = _NONE) -> str:
    """The page of a memory; `supersedes` is the name of another note, `kept` are fields of one's own, as they stand."""
    link = supersedes.removesuffix(".md")
    fields = front.written(
        (
            ("cofio", str(memory.id)),
            ("store", front.quoted(store)),
            ("tags", memory.tags),
            ("kind", memory.kind),
            ("category", memory.category),
            ("source", front.quoted(memory.source) if memory.source else ""),
            ("project", front.quoted(memory.project) if memory.project else ""),
            ("created", memory.created_at[:_SECOND]),
            ("updated", memory.updated_at[:_SECOND]),
            ("pinned", "true" if memory.pinned else "false"),
            ("archived", (memory.archived_at or "")[:_SECOND]),
            ("supersedes", front.quoted(f"[[{link}]]") if link else ""),
        )
    )
    own = [line for name, lines in kept.items() if name not in _OURS for line in lines]
    return "\n".join(("---", *fields, *own, "---", "", f"{memory.text}\n"))


def read(text: str, store: str) -> Note | None:
    """What the note of a memory of this store says; None for any other page."""
    fields, body = _parted(text)
    number, whose = fields.fields.get("cofio"), fields.fields.get("store")
    if whose != store or not isinstance(number, str) or not number.isdecimal() or len(number) > 18:
        return None
    updated = fields.fields.get("updated")
    return Note(
        memory=int(number),
        text=body.strip(),
        tags=_tags(fields),
        pinned=fields.fields.get("pinned") in ("true", "True", "yes"),
        updated=updated if isinstance(updated, str) else "",
    )


def noted(memory: Memory) -> Note:
    """What the note of a memory says when nobody has touched it."""
    return Note(memory.id, memory.text.strip(), memory.tags, memory.pinned, memory.updated_at[:_SECOND])


def is_level(one: str, other: str) -> bool:
    """Whether two pages say the same of a memory, but for when it was changed and for fields of one's own."""
    (here, body), (there, text) = _parted(one), _parted(other)
    ours = [name for name in _OURS if name != "updated"]
    same = all(here.fields.get(name) == there.fields.get(name) for name in ours if name != "tags")
    return same and _tags(here) == _tags(there) and body.strip() == text.strip()


def own_fields(text: str) -> Mapping[str, tuple[str, ...]]:
    """The fields of a page that are not ours, as they stand."""
    return _parted(text)[0].lines


def _tags(fields: Front) -> tuple[str, ...]:
    """The tags as they stand in a list; from a line, as of any page."""
    given = fields.fields.get("tags")
    return tuple(dict.fromkeys(given if isinstance(given, list) else front.tags_of(fields.fields)))


def _parted(text: str) -> tuple[Front, str]:
    """The front matter and the body. Where some tool has put another end to every line, it is taken back."""
    plain = text.removeprefix("\ufeff")
    return front.parted(plain.replace("\r\n", "\n") if plain.startswith("---\r\n") else plain)
