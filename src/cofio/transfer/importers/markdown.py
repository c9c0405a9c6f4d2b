"""Markdown as facts: the front matter, and each bullet and paragraph under its headings.

    text ─ parted ─▶ front matter, body ─ chunks ─▶ [Chunk]

A bullet is a fact, and so is a paragraph; a numbered list is one fact, because its steps belong together. Short code
stays with the paragraph or bullet before it. A line that ends in a colon is the lead of what follows.

Pure functions over str, each linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cofio.notes import frontmatter
from cofio.notes.frontmatter import FrontMatter
from cofio.text import lazy_re

_LONGEST_CODE = 2_000  # characters; a longer listing is a file, not a fact
_LONGEST_JOINED = 8_000  # characters; a chunk of this length is not extended
_FEW = 5  # words; with fewer, the heading is added
_HEADING = lazy_re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = lazy_re.compile(r"[ \t]*(`{3,}|~{3,})")
_BULLET = lazy_re.compile(r"([ \t]*)(?:[-*+])[ \t]+(?=\S)")
_ROW = lazy_re.compile(r"[ \t]*\|")
_STEP = lazy_re.compile(r"([ \t]*)\d{1,9}[.)][ \t]+(?=\S)")
_RULE = lazy_re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = lazy_re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_COMMENT = lazy_re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
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
    def told(self) -> str:
        """The text on its own: short texts, steps, tables and code are preceded by their lead or heading."""
        above = self.lead or (self.headings[-1] if self.headings else "")
        short = self.kind in ("paragraph", "bullet")
        if not above or (short and len(self.text.split()) >= _FEW):
            return self.text
        return f"{_strip_bold(above).rstrip(':')}:{' ' if short else _NEW_LINE}{self.text}"

    @property
    def where(self) -> tuple[str, ...]:
        """The headings and lead above it that are not part of `told`, top down."""
        path = (*self.headings, _strip_bold(self.lead).rstrip(":")) if self.lead else self.headings
        return path[:-1] if self.told != self.text else path


def _strip_bold(line: str) -> str:
    """Return a line without the marks that make all of it bold."""
    bold = _BOLD.fullmatch(line.strip())
    return bold.group(2) if bold else line.strip()


# ── front matter ──────────────────────────────────────────────────────────────────────────────────────────────────────


def split_front_matter(text: str) -> tuple[FrontMatter, str, int]:
    """Return the front matter, the body, and the body's first line number. Unclosed front matter is body."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    matter, body = frontmatter.split_front_matter(plain)
    return matter.fields, body, plain.count("\n", 0, len(plain) - len(body)) + 1


# ── chunks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def chunks(body: str, first_line: int = 1) -> Iterator[Chunk]:
    """Yield the facts of a page in order."""
    section: list[Chunk] = []
    for block in _split_blocks(_COMMENT.sub(_keep_newlines, body).split("\n"), first_line):
        if section and section[-1].headings != block.headings:
            yield from filter(_has_words, section)
            section = []
        at = _find_owner(section, block)
        if at is None or len(section[at].text) > _LONGEST_JOINED:
            section.append(block)
        elif block.text:
            section[at] = replace(section[at], text=f"{section[at].text}\n{block.text}")
    yield from filter(_has_words, section)


def _find_owner(section: list[Chunk], block: Chunk) -> int | None:
    """Return the index of the chunk that a block belongs to: code to the one before, a reason to the last paragraph."""
    if block.kind == "code" and section and section[-1].kind != "code" and section[-1].lead == block.lead:
        return len(section) - 1
    if block.kind == "paragraph" and _REASON.match(block.text):
        near = range(len(section) - 1, max(-1, len(section) - 50), -1)
        return next((at for at in near if section[at].kind == "paragraph"), None)
    return None


def _keep_newlines(comment: re.Match[str]) -> str:
    return "\n" * comment.group().count("\n")  # so that the lines keep their numbers


def _has_words(chunk: Chunk) -> bool:
    """Return whether it contains words, and more than links to other pages."""
    rest = _LINK.sub("", chunk.text)
    least = 3 if len(rest) < len(chunk.text) else 1
    return sum(any(letter.isalnum() for letter in word) for word in rest.split()) >= least


def _split_blocks(lines: list[str], first_line: int) -> Iterator[Chunk]:
    """Yield paragraphs, bullets, lists of steps and code, each with its headings and its lead."""
    headings: list[tuple[int, str]] = []
    lead, at = "", 0
    while at < len(lines):
        if heading := _match_heading(lines, at):
            level, title, at = heading
            headings, lead = [*(outer for outer in headings if outer[0] < level), (level, title)], ""
        elif not lines[at].strip() or _RULE.match(lines[at]) or _NOTHING.match(lines[at]):
            at += 1
        else:
            kind, end = _find_extent(lines, at)
            path = tuple(title for _, title in headings if title)
            chunk = Chunk(_get_text(kind, lines[at:end]), path, "", first_line + at, kind)
            leads = kind in ("paragraph", "bullet") and chunk.text.endswith(_COLON) and _introduces(lines, end)
            if not leads:
                yield from _emit(chunk, lines[at:end], lead)
            if leads or kind == "paragraph":
                lead = chunk.text if leads else ""
            at = end


def _emit(chunk: Chunk, lines: list[str], lead: str) -> Iterator[Chunk]:
    """Yield the chunk with its lead; of a bullet that introduces others, these."""
    parts = _find_children(lines) if chunk.kind == "bullet" else []
    if parts:
        yield from _emit_nested(parts, chunk.headings, chunk.line)
    else:
        yield replace(chunk, lead="" if chunk.kind == "paragraph" else lead)


def _match_heading(lines: list[str], at: int) -> tuple[int, str, int] | None:
    """Return the level and text of the heading that begins here, and the line after it."""
    if match := _HEADING.match(lines[at]):
        return len(match.group(1)), lines[at][match.end() :].strip().rstrip("#").strip(), at + 1
    next_line = lines[at + 1] if at + 1 < len(lines) else ""
    bold = _BOLD.fullmatch(lines[at].strip())
    if bold and not next_line.strip() and not _strip_bold(lines[at]).endswith((":", ".", "!", "?")):
        return 7, bold.group(2), at + 1
    if lines[at].strip() and _UNDERLINE.match(next_line) and not _opens(lines[at]) and len(next_line.strip()) > 1:
        return (1 if "=" in next_line else 2), lines[at].strip(), at + 2
    return None


def _opens(line: str) -> bool:
    """Return whether something other than a paragraph begins on the line."""
    begins = (_FENCE, _BULLET, _STEP, _HEADING, _RULE)
    return any(begin.match(line) for begin in begins)


def _introduces(lines: list[str], at: int) -> bool:
    next_line = next((line for line in lines[at : at + 2] if line.strip()), "")
    return any(pattern.match(next_line) for pattern in (_BULLET, _STEP, _FENCE, _ROW))


def _find_extent(lines: list[str], at: int) -> tuple[str, int]:
    """Return the kind of block that begins here, and the line after it."""
    if fence := _FENCE.match(lines[at]):
        return "code", _find_fence_end(lines, at, fence.group(1))
    if step := _STEP.match(lines[at]):
        return "steps", _find_item_end(lines, at, len(step.group(1)), _STEP)
    if bullet := _BULLET.match(lines[at]):
        return "bullet", _find_item_end(lines, at, len(bullet.group(1)), None)
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _opens(lines[end]):
        end += 1
    return ("table" if _ROW.match(lines[at]) else "paragraph"), end


def _find_fence_end(lines: list[str], at: int, fence: str) -> int:
    for end in range(at + 1, len(lines)):
        if lines[end].strip().startswith(fence) and not lines[end].strip().strip(fence[0]):
            return end + 1
    return len(lines)


def _find_item_end(lines: list[str], at: int, indent: int, siblings: re.Pattern[str] | None) -> int:
    """Return the line after an item and everything indented below it; with `siblings`, after the last of them."""
    end, blank = at + 1, False
    while end < len(lines):
        line = lines[end]
        if fence := _FENCE.match(line):
            if _measure_depth(line) <= indent:
                break
            end = _find_fence_end(lines, end, fence.group(1))
            continue
        deeper = _measure_depth(line) > indent
        if line.strip() and not deeper:
            more = siblings is not None and siblings.match(line)
            if not more and (blank or _opens(line)):
                break
        blank = not line.strip()
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def _measure_depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _get_text(kind: str, lines: list[str]) -> str:
    if kind == "code":
        text = "\n".join(lines).strip("\n")
        return text if len(text) <= _LONGEST_CODE else ""
    if kind == "bullet":
        mark = _BULLET.match(lines[0])
        lines = [lines[0][mark.end() :] if mark else lines[0], *_dedent(lines[1:])]
    if kind == "paragraph":
        lines = [line.strip().removeprefix(">").strip() for line in lines]
    return _join_lines([line.rstrip() for line in lines if line.strip()])


def _join_lines(lines: list[str]) -> str:
    """Join the lines, except those that begin an inner bullet, a row or code."""
    parts: list[str] = []
    fence, closed = "", False
    for line in lines:
        opening = _FENCE.match(line)
        own = bool(fence or opening or _ROW.match(line) or _BULLET.match(line) or _STEP.match(line))
        parts += ["\n" if own or closed else " ", line if own else line.strip()]
        closed = bool(opening and fence and line.strip().startswith(fence))
        fence = "" if closed else fence or (opening.group(1) if opening else "")
    return "".join(parts).strip()


def _dedent(lines: list[str]) -> list[str]:
    least = min((_measure_depth(line) for line in lines if line.strip()), default=0)
    return [line[least:] for line in lines]


def _find_children(lines: list[str]) -> list[tuple[int, list[str]]]:
    """Return the bullets inside a bullet whose own line ends in a colon, with their offsets; the first is that line."""
    if not lines[0].rstrip().endswith(_COLON):
        return []
    inner = [number for number, line in enumerate(lines[1:], 1) if line.strip()]
    if not inner or not _BULLET.match(lines[inner[0]]):
        return []
    depth = _measure_depth(lines[inner[0]])
    starts = [number for number in inner if _measure_depth(lines[number]) == depth and _BULLET.match(lines[number])]
    ends = [*starts[1:], len(lines)]
    return [(0, lines[:1]), *((start, lines[start:end]) for start, end in zip(starts, ends, strict=True))]


def _emit_nested(parts: list[tuple[int, list[str]]], path: tuple[str, ...], line: int) -> Iterator[Chunk]:
    lead = _get_text("bullet", parts[0][1])
    for offset, lines in parts[1:]:
        yield Chunk(_get_text("bullet", lines), path, lead, line + offset, "bullet")
