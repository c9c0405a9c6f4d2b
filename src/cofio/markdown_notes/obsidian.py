"""Notes of a vault: a memory as a page that can be edited in Obsidian and read back.

The text follows the front matter verbatim. Of the front matter, tags and `pinned` are read back; the rest is
informational and rewritten when the memory changes. Fields added by the user are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cofio.markdown_notes import frontmatter
from cofio.markdown_notes.frontmatter import ParsedFrontMatter
from cofio.markdown_notes.sections import digest
from cofio.models.memory import Memory

_OURS = (
    "cofio", "store", "tags", "kind", "category", "source", "project", "created", "updated", "pinned", "archived",
    "supersedes",
)  # fmt: skip
_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_SECOND = 19  # characters of a timestamp, up to the second


class Note(NamedTuple):
    """Content of an exported note."""

    memory: int
    text: str
    tags: tuple[str, ...] = ()
    pinned: bool = False
    updated: str = ""  # `updated_at` of the memory at export

    @property
    def text_digest(self) -> str:
        return digest(self.text)

    @property
    def fields_digest(self) -> str:
        return digest(json.dumps([self.tags, self.pinned], ensure_ascii=False))


def render_note(
    memory: Memory, store: str, *, supersedes: str = "", kept: Mapping[str, tuple[str, ...]] = _NONE
) -> str:
    """Return the page of a memory; `supersedes` is the name of another note, `kept` are lines of user fields."""
    link = supersedes.removesuffix(".md")
    fields = frontmatter.to_front_matter(
        (
            ("cofio", str(memory.id)),
            ("store", frontmatter.quote_value(store)),
            ("tags", memory.tags),
            ("kind", memory.kind),
            ("category", memory.category),
            ("source", frontmatter.quote_value(memory.source) if memory.source else ""),
            ("project", frontmatter.quote_value(memory.project) if memory.project else ""),
            ("created", memory.created_at[:_SECOND]),
            ("updated", memory.updated_at[:_SECOND]),
            ("pinned", "true" if memory.pinned else "false"),
            ("archived", (memory.archived_at or "")[:_SECOND]),
            ("supersedes", frontmatter.quote_value(f"[[{link}]]") if link else ""),
        )
    )
    own = [line for name, lines in kept.items() if name not in _OURS for line in lines]
    return "\n".join(("---", *fields, *own, "---", "", f"{memory.text}\n"))


def parse_note(text: str, store: str) -> Note | None:
    """Parse the note of a memory of this store; return None for any other page."""
    fields, body = _split(text)
    number, whose = fields.fields.get("cofio"), fields.fields.get("store")
    if whose != store or not isinstance(number, str) or not number.isdecimal() or len(number) > 18:
        return None
    updated = fields.fields.get("updated")
    return Note(
        memory=int(number),
        text=body.strip(),
        tags=_read_tags(fields),
        pinned=fields.fields.get("pinned") in ("true", "True", "yes"),
        updated=updated if isinstance(updated, str) else "",
    )


def unchanged_note(memory: Memory) -> Note:
    """Return the content of a memory's note when it is unedited."""
    return Note(memory.id, memory.text.strip(), memory.tags, memory.pinned, memory.updated_at[:_SECOND])


def is_up_to_date(page: str, current: str) -> bool:
    """Return whether two pages have the same content, ignoring the update time and user fields."""
    (here, body), (there, text) = _split(page), _split(current)
    ours = [name for name in _OURS if name != "updated"]
    same = all(here.fields.get(name) == there.fields.get(name) for name in ours if name != "tags")
    return same and _read_tags(here) == _read_tags(there) and body.strip() == text.strip()


def own_fields(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return the fields of a page with their original lines."""
    return _split(text)[0].lines


def _read_tags(fields: ParsedFrontMatter) -> tuple[str, ...]:
    """Return the tags: verbatim from a list, else parsed as on any page."""
    tags = fields.fields.get("tags")
    return tuple(dict.fromkeys(tags if isinstance(tags, list) else frontmatter.tags_of(fields.fields)))


def _split(text: str) -> tuple[ParsedFrontMatter, str]:
    """Split front matter and body, normalizing CRLF line ends added by other tools."""
    plain = text.removeprefix("\ufeff")
    return frontmatter.split_front_matter(plain.replace("\r\n", "\n") if plain.startswith("---\r\n") else plain)
