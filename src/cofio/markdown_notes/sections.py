"""Splitting of a Markdown page into parts; each part becomes a memory.

A part is the text under one heading up to the next; text before the first heading is a part too. Long sections are
split between paragraphs, and fenced code is kept in one piece. [[X|y]] reads as y, with X as an entity of the part. A
file written by `flush` is one part, verbatim. Pure functions, linear in the size of the text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from cofio.errors import InvalidInput
from cofio.markdown_notes import frontmatter
from cofio.markdown_notes.frontmatter import FrontMatter
from cofio.models.memory import MAX_LABEL, MAX_LABELS, MAX_TEXT, Memory, to_utc_iso
from cofio.text import lazy_re
from cofio.text.markdown import MarkdownBlock, parse_blocks, walk

PIECE = 1_500  # characters: roughly the input limit of a small embedding model
_FEW = 5  # words; shorter parts get their heading as a prefix
_ROOM = 16_384  # characters of fields stored as metadata
_LONGEST = 500  # characters of a heading
_MARKED = lazy_re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`{1,9})(?!`)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`))"
    r"|!?\[\[(?P<target>[^\[\]|\n]{1,400})(?:\|(?P<shown>[^\[\]\n]{0,400}))?\]\]"
    r"|(?<!\S)#(?P<tag>[\w/-]{1,200})"
)
_ATTACHED = lazy_re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif|pdf|mp[34]|m4a|wav|ogg|webm|mov|canvas|excalidraw)$", re.I
)
_SENTENCE = lazy_re.compile(r"(?<=[.!?])\s+|\s+")
_DATES = ("created", "date", "created_at")
_OURS = ("tags", "tag", "aliases", "alias", "title", "kind", "category")
_RESERVED = frozenset(Memory.__dataclass_fields__) | {"timestamp", "note"}
_FLUSHED = lazy_re.compile(r"# Memory: (\d{4}-\d\d-\d\d-\d\d)\n\nTags:[ \t]*([^\n]*)\n(?:\n|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Part of a page: text, heading path and fields."""

    text: str
    heading: str = ""  # heading path: "Deploy > Staging"
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    context: str = ""
    kind: str = "other"
    category: str = ""
    created_at: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)  # front matter without a meaning to cofio
    defined_fields: tuple[str, ...] = ("tags", "entities", "context", "kind", "category")  # those that the page defines

    @property
    def text_digest(self) -> str:
        """Return a digest of the text."""
        return digest(self.text)

    @property
    def heading_digest(self) -> str:
        """Return a digest of the heading path, or ""; lets records of reads hold no text."""
        return digest(self.heading) if self.heading else ""

    @property
    def fields_digest(self) -> str:
        """Return a digest of the other fields."""
        fields = [self.tags, self.entities, self.context, self.kind, self.category, dict(self.fields)]
        return digest(json.dumps(fields, ensure_ascii=False, sort_keys=True))

    def to_metadata(self, path: str) -> dict[str, Any]:
        """Return its metadata: location, and fields of its page."""
        names = {"fields": sorted(self.fields)} if self.fields else {}
        return {**self.fields, "note": {"path": path, "heading": self.heading, **names}}


def digest(text: str) -> str:
    """Return a short hash of the text, which may hold lone surrogates."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def split_sections(text: str, path: str) -> list[Section]:
    """Return the parts of a page in order. The path provides the title if the page has none."""
    unchanged = text.removeprefix("\ufeff")
    plain = unchanged.replace("\r\n", "\n").replace("\r", "\n")
    for variant in (unchanged, plain):
        if head := _FLUSHED.match(variant):
            return _parse_flushed(head, variant[head.end() :].strip())
    fields, body = frontmatter.split_front_matter(plain)
    title = frontmatter.to_list(fields.fields.get("title"))
    name = title[0].strip() if title else PurePosixPath(path).stem
    page = _parse_fields(fields.fields)
    sections = (_make_section(page, name, *piece) for piece in _pieces(*parse_blocks(body)))
    return [section for section in sections if section is not None]


def flushed_page(summary: str, tags: Sequence[str], hour: str) -> str:
    """Return the page of a flushed memory."""
    return f"# Memory: {hour}\n\n{('Tags: ' + ', '.join(tags)).rstrip()}\n\n{summary}\n"


def _parse_flushed(head: re.Match[str], summary: str) -> list[Section]:
    if not summary or len(summary) > MAX_TEXT:
        return []
    tags = tuple(tag.strip() for tag in head.group(2).split(",") if tag.strip())
    try:
        at = to_utc_iso(datetime.strptime(head.group(1), "%Y-%m-%d-%H").replace(tzinfo=UTC))
    except ValueError:
        at = ""
    return [Section(text=summary, tags=tags[:MAX_LABELS], created_at=at, defined_fields=("tags",))]


def _parse_fields(fields: FrontMatter) -> Section:
    """Return a part without text, with the fields shared by every part of the page.

    Fields without a meaning to cofio become metadata. Reserved names get the prefix `note_`; fields beyond the size
    limit are dropped.
    """
    aliases = [*frontmatter.to_list(fields.get("aliases")), *frontmatter.to_list(fields.get("alias"))]
    date = next((name for name in _DATES if _to_time(fields.get(name))), "")
    kind, category = frontmatter.kind_and_category(fields)
    metadata: dict[str, Any] = {}
    room = _ROOM
    for name, value in fields.items():
        if name in (*_OURS, date):
            continue
        room -= len(name) + len(json.dumps(value, ensure_ascii=False))
        if room < 0:
            break
        metadata[f"note_{name}" if name in _RESERVED else name] = value
    return Section(
        text="",
        tags=_labels(frontmatter.tags_of(fields)),
        entities=_labels(aliases),
        kind=kind,
        category=category,
        created_at=_to_time(fields.get(date)),
        fields=metadata,
    )


def _to_time(value: str | list[str] | None) -> str:
    if not isinstance(value, str):
        return ""
    try:
        return to_utc_iso(value)
    except InvalidInput:
        return ""


def _labels(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip()[:MAX_LABEL] for name in names if name.strip()))


def _make_section(
    page: Section, title: str, headings: tuple[str, ...], blocks: Sequence[tuple[str, bool]]
) -> Section | None:
    """Return the part made of these blocks, each with whether it is code; None if it has no words."""
    tags, links = list(page.tags), list(page.entities)
    texts = [text if code else _plain(text, tags, links) for text, code in blocks]
    text = "".join(texts).strip()
    titles = tuple(filter(None, (_plain(heading, tags, links).strip() for heading in headings)))
    words = [word for word in text.split() if any(char.isalnum() for char in word)]
    if not words:
        return None
    if titles and len(words) < _FEW:
        gap = "\n" if "\n" in text else " "
        text = f"{titles[-1].rstrip(':')}:{gap}{text}"
    return replace(
        page,
        text=text,
        heading=" > ".join(titles)[:MAX_LABEL],
        tags=_labels(tags)[:MAX_LABELS],
        entities=_labels(links)[:MAX_LABELS],
        context=" > ".join(dict.fromkeys((title, *titles)))[:MAX_TEXT],
    )


def _plain(text: str, tags: list[str], links: list[str]) -> str:
    """Return the text as displayed; append its tags and links to the lists."""

    def read(match: re.Match[str]) -> str:
        if match.group("code"):
            return match.group()
        if tag := match.group("tag"):
            if not tag.replace("/", "").replace("-", "").isdecimal():
                tags.append(tag.strip("/-"))
            return match.group()
        if _ATTACHED.search(match.group("target").strip()):
            return ""
        name, _, inner = match.group("target").partition("#")
        if name.strip():
            links.append(name.strip().rstrip("/").rpartition("/")[2])
        shown = (match.group("shown") or "").strip()
        return shown or " > ".join(part.strip() for part in (name, inner) if part.strip())

    return _MARKED.sub(read, text)


def _pieces(
    lines: Sequence[str], blocks: Sequence[MarkdownBlock]
) -> Iterator[tuple[tuple[str, ...], list[tuple[str, bool]]]]:
    """Yield pieces with their headings; a piece is a list of texts, each with whether it is code."""
    code = {block.start: block.end for block in walk(blocks) if block.kind == "code"}
    for headings, start, end in _sections(blocks, len(lines)):
        room, piece = PIECE, list[tuple[str, bool]]()
        for text, is_code in _split_long(_paragraphs(lines, start, end, code)):
            if piece and len(text) > room:
                yield headings, piece
                room, piece = PIECE, []
            room -= len(text)
            piece.append((text, is_code))
        if piece:
            yield headings, piece


def _sections(blocks: Sequence[MarkdownBlock], end: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield the heading path of each section, and start and end of the lines below it."""
    path: list[tuple[int, str]] = []
    start = 0
    for heading in (block for block in blocks if block.kind == "heading"):
        yield tuple(title for _, title in path if title), start, heading.start
        path = [*(outer for outer in path if outer[0] < heading.level), (heading.level, heading.title[:_LONGEST])]
        start = heading.end
    yield tuple(title for _, title in path if title), start, end


def _paragraphs(lines: Sequence[str], start: int, end: int, code: Mapping[int, int]) -> Iterator[tuple[str, bool]]:
    """Yield paragraphs with the blank lines after them, and fenced code. `code` has its last line by its first."""
    first = start
    while start < end:
        stop = min(code.get(start, start + 1), end)
        is_code = start in code
        starts_next = stop in code or is_code or (not lines[stop - 1].strip() and stop < end and lines[stop].strip())
        if stop == end or starts_next:
            yield "".join(f"{line}\n" for line in lines[first:stop]), is_code
            first = stop
        start = stop


def _split_long(blocks: Iterator[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Split blocks that are too long; code only if it exceeds the size of a memory."""
    for text, code in blocks:
        most = MAX_TEXT // 2 if code else PIECE
        while len(text) > most:
            end = _find_break(text, most)
            yield text[:end], code
            text = text[end:]
        if text:
            yield text, code


def _find_break(text: str, most: int) -> int:
    """Return where to cut a long text: after a line, a sentence or a word, the last one in the second half."""
    line = text.rfind("\n", most // 2, most)
    if line > 0:
        return line + 1
    ends = [match.end() for match in _SENTENCE.finditer(text, most // 2, most)]
    sentences = [end for end in ends if text[:end].rstrip()[-1:] in ".!?"]
    return (sentences or ends or [most])[-1]
