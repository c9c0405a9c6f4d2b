"""Markdown as facts: the front matter, and each bullet and paragraph under its headings.

A bullet is a fact, and so is a paragraph; a numbered list is one fact, because its steps belong together. Short code
stays with the paragraph or bullet before it. A line that ends in a colon is the lead of what follows.

Pure functions over str, each linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from cofio.markdown_notes import frontmatter
from cofio.markdown_notes.frontmatter import FrontMatter
from cofio.text import lazy_re
from cofio.text.markdown import MarkdownBlock, parse_blocks, walk

_LONGEST_CODE = 2_000  # characters; a longer listing is a file, not a fact
_LONGEST_JOINED = 8_000  # characters; a chunk of this length is not extended
_FEW = 5  # words; with fewer, the heading is added
_BULLET = lazy_re.compile(r"[ \t]*[-*+](?:[ \t]+|$)")
_ROW = lazy_re.compile(r"[ \t]*\|")
_NOTHING = lazy_re.compile(r"[ \t]*(?:!\[[^\]]*\]\([^)]*\)|\[[^\]]+\]:[ \t]*\S+.*)[ \t]*$")
_REASON = lazy_re.compile(r"\**(?:why|how to apply|because|reason|rationale)\b[^\n]{0,20}?[:.]", re.IGNORECASE)
_BOLD = lazy_re.compile(r"(\*\*|__)((?:(?!\1)[^\n]){1,200})\1:?")
_LINK = lazy_re.compile(r"!?\[[^\[\]\n]{0,300}\]\((?![a-z]{2,9}:)[^)\n]{0,300}\)|\[\[[^\[\]\n]{1,300}\]\]")
_NEW_LINE = "\n"
_COLON = (":", ":**", ":*", ":__")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Piece of a page that is a fact."""

    text: str
    headings: tuple[str, ...] = ()
    lead: str = ""  # the line that introduces it: "We use these databases:"
    line: int = 1
    kind: str = "paragraph"  # paragraph, bullet, steps, table, code

    @property
    def statement(self) -> str:
        """Return the text on its own: short texts, steps, tables and code are preceded by their lead or heading."""
        above = self.lead or (self.headings[-1] if self.headings else "")
        short = self.kind in ("paragraph", "bullet")
        if not above or (short and len(self.text.split()) >= _FEW):
            return self.text
        return f"{_strip_bold(above).rstrip(':')}:{' ' if short else _NEW_LINE}{self.text}"

    @property
    def where(self) -> tuple[str, ...]:
        """Return the headings and lead above it that are not part of `statement`, top down."""
        path = (*self.headings, _strip_bold(self.lead).rstrip(":")) if self.lead else self.headings
        return path[:-1] if self.statement != self.text else path


def _strip_bold(line: str) -> str:
    """Return a line without the marks that make all of it bold."""
    bold = _BOLD.fullmatch(line.strip())
    return bold.group(2) if bold else line.strip()


def split_front_matter(text: str) -> tuple[FrontMatter, str, int]:
    """Return the front matter, the body, and the body's first line number. Unclosed front matter is body."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    matter, body = frontmatter.split_front_matter(plain)
    return matter.fields, body, plain.count("\n", 0, len(plain) - len(body)) + 1


def chunks(body: str, first_line: int = 1) -> Iterator[Chunk]:
    """Yield the facts of a page in order."""
    section: list[Chunk] = []
    for chunk in _ChunkReader(body, first_line).chunks():
        if section and section[-1].headings != chunk.headings:
            yield from filter(_has_words, section)
            section = []
        at = _find_owner(section, chunk)
        if at is None or len(section[at].text) > _LONGEST_JOINED:
            section.append(chunk)
        elif chunk.text:
            section[at] = replace(section[at], text=f"{section[at].text}\n{chunk.text}")
    yield from filter(_has_words, section)


def _find_owner(section: list[Chunk], block: Chunk) -> int | None:
    """Return the index of the chunk that a block belongs to: code to the one before, a reason to the last paragraph."""
    if block.kind == "code" and section and section[-1].kind != "code" and section[-1].lead == block.lead:
        return len(section) - 1
    if block.kind == "paragraph" and _REASON.match(block.text):
        near = range(len(section) - 1, max(-1, len(section) - 50), -1)
        return next((at for at in near if section[at].kind == "paragraph"), None)
    return None


def _has_words(chunk: Chunk) -> bool:
    """Return whether it contains words, and more than links to other pages."""
    text = _LINK.sub("", chunk.text)
    least = 3 if len(text) < len(chunk.text) else 1
    return sum(any(letter.isalnum() for letter in word) for word in text.split()) >= least


class _ChunkReader:
    """Lines and blocks of a page."""

    def __init__(self, body: str, first_line: int) -> None:
        self._lines, self._blocks = parse_blocks(body)
        self._first_line = first_line
        inner = list(walk(self._blocks))
        self._items = {block.start for block in inner if block.kind in ("bullet", "step")}
        self._code = {line for block in inner if block.kind == "code" for line in range(block.start, block.end)}

    def chunks(self) -> Iterator[Chunk]:
        """Yield paragraphs, bullets, lists of steps and code, each with its headings and its lead."""
        headings: list[tuple[int, str]] = []
        lead = ""
        for block, following in zip_longest(self._blocks, self._blocks[1:]):
            start, end = self._trim(block)
            if start == end:
                continue
            if heading := self._parse_heading(block, start, end):
                headings, lead = [*(outer for outer in headings if outer[0] < heading[0]), heading], ""
                continue
            chunk = self._make_chunk(block, start, end, tuple(title for _, title in headings if title))
            leads = (
                chunk.kind in ("paragraph", "bullet")
                and chunk.text.endswith(_COLON)
                and following is not None
                and following.start < end + 2
                and (following.kind in ("bullet", "steps", "code") or bool(_ROW.match(self._lines[following.start])))
            )
            if not leads:
                yield from self._split_nested(block, replace(chunk, lead="" if chunk.kind == "paragraph" else lead))
            if leads or chunk.kind == "paragraph":
                lead = chunk.text if leads else ""

    def _trim(self, block: MarkdownBlock) -> tuple[int, int]:
        """Return the lines of a block without blank lines at its end and pictures and link targets at its start."""
        start, end = block.start, block.end
        while start < end and not self._lines[end - 1].strip():
            end -= 1
        while block.kind == "paragraph" and start < end and _NOTHING.match(self._lines[start]):
            start += 1
        return start, end

    def _parse_heading(self, block: MarkdownBlock, start: int, end: int) -> tuple[int, str] | None:
        """Return level and text of a heading; a bold line on its own is a heading too."""
        if block.kind == "heading":
            return block.level, block.title
        stands_alone = end == start + 1 and not any(line.strip() for line in self._lines[end : end + 1])
        bold = _BOLD.fullmatch(self._lines[start].strip()) if block.kind == "paragraph" and stands_alone else None
        return (7, bold.group(2)) if bold and not bold.group(2).endswith((":", ".", "!", "?")) else None

    def _make_chunk(
        self, block: MarkdownBlock, start: int, end: int, headings: tuple[str, ...], lead: str = ""
    ) -> Chunk:
        kind = "table" if block.kind == "paragraph" and _ROW.match(self._lines[start]) else block.kind
        return Chunk(self._get_text(kind, start, end), headings, lead, self._first_line + start, kind)

    def _split_nested(self, block: MarkdownBlock, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the chunk; of a bullet that introduces others, these."""
        inner = [child for child in block.children[1:] if child.kind == "bullet"] if block.kind == "bullet" else []
        lead = self._get_text("bullet", block.start, inner[0].start) if inner else ""
        if not inner or block.children[1] != inner[0] or not lead.endswith(_COLON):
            yield chunk
            return
        ends = [*(child.start for child in inner[1:]), block.end]
        for child, end in zip(inner, ends, strict=True):
            yield self._make_chunk(child, child.start, end, chunk.headings, lead)

    def _get_text(self, kind: str, start: int, end: int) -> str:
        lines = self._lines[start:end]
        if kind == "code":
            text = "\n".join(lines).strip("\n")
            return text if len(text) <= _LONGEST_CODE else ""
        if kind == "bullet":
            indent = min((len(line) - len(line.lstrip(" \t")) for line in lines[1:] if line.strip()), default=0)
            lines = [_BULLET.sub("", lines[0], count=1), *(line[indent:] for line in lines[1:])]
        if kind == "paragraph":
            lines = [line.strip().removeprefix(">").strip() for line in lines]
        parts: list[str] = []
        after_code = False  # lines are joined, except those that begin an inner item, a row or code
        for number, line in enumerate(lines, start):
            if line.strip():
                own = number in self._code or number in self._items or bool(_ROW.match(line))
                parts += ["\n" if own or after_code else " ", line.rstrip() if own else line.strip()]
                after_code = number in self._code
        return "".join(parts).strip()
