"""Blocks of a Markdown page with their lines, parsed by markdown-it.

    text ─▶ lines without comments, [MarkdownBlock(kind, start, end)]

Callers cut the text by line numbers and never render it again. Quotations, tables, HTML and indented text are
paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from cofio.text import lazy_re

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_COMMENT = lazy_re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_RULES = ["fence", "blockquote", "list", "hr", "heading", "lheading", "paragraph"]
_DEEPEST = 100  # nested lists and items
Kind: TypeAlias = Literal["heading", "paragraph", "code", "bullet", "steps", "step"]
_CONTAINERS: Mapping[str, Kind] = {
    "ordered_list_open": "steps",
    "list_item_open": "bullet",
    "blockquote_open": "paragraph",
}
_ENDS = ("bullet_list_close", "ordered_list_close", "list_item_close", "blockquote_close")
_LEAVES: Mapping[str, Kind] = {"fence": "code", "paragraph_open": "paragraph"}


class MarkdownBlock(NamedTuple):
    """Lines from `start` up to `end`. Each bullet is a block; the steps of a numbered list are the children of one."""

    kind: Kind
    start: int
    end: int
    level: int = 0  # of a heading
    title: str = ""
    children: tuple[MarkdownBlock, ...] = ()  # blocks inside an item or a quotation


def parse_blocks(text: str) -> tuple[list[str], list[MarkdownBlock]]:
    """Return the lines of a text and its top-level blocks. Comments outside of code are replaced by their line ends."""
    lines = text.split("\n")
    blocks = _parse(text)
    if "<!--" in text:
        lines = _remove_comments(lines, blocks)
        blocks = _parse("\n".join(lines))
    return lines, blocks


def walk(blocks: Iterable[MarkdownBlock]) -> Iterator[MarkdownBlock]:
    """Yield the blocks and those inside them, in order."""
    for block in blocks:
        yield block
        yield from walk(block.children)


def _remove_comments(lines: list[str], blocks: list[MarkdownBlock]) -> list[str]:
    result: list[str] = []
    end = MarkdownBlock("code", len(lines), len(lines))
    for code in [*(block for block in walk(blocks) if block.kind == "code"), end]:
        if len(result) < code.start:
            prose = "\n".join(lines[len(result) : code.start])
            result += _COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), prose).split("\n")
        result += lines[code.start : code.end]
    return result


def _parse(text: str) -> list[MarkdownBlock]:
    return list(_read(iter(_get_parser().parse(text)), text.split("\n")))


@cache
def _get_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("zero", {"maxNesting": _DEEPEST})
    parser.block.ruler.enableOnly(_RULES)
    parser.core.ruler.enableOnly(["block"])
    return parser


def _read(tokens: Iterator[Token], lines: Sequence[str]) -> Iterator[MarkdownBlock]:
    """Yield the blocks up to the end of the list, item or quotation that the tokens are in."""
    for token in tokens:
        start, end = token.map or (0, 0)
        if token.type in _ENDS:
            return
        if token.type == "bullet_list_open":
            yield from _read(tokens, lines)
        elif token.type in _CONTAINERS:  # an item of a numbered list has its number as `info`
            kind: Kind = "step" if token.info else _CONTAINERS[token.type]
            yield MarkdownBlock(kind, start, end, children=tuple(_read(tokens, lines)))
        elif token.type == "heading_open":
            title = next(tokens).content
            # A rule below several lines, or a dash that is an empty bullet, makes no heading.
            if token.markup == "-" and (end - start > 2 or lines[end - 1].strip() == "-"):
                yield MarkdownBlock("paragraph", start, end - 1)
            else:
                yield MarkdownBlock("heading", start, end, int(token.tag[1]), title)
        elif token.type in _LEAVES:
            yield MarkdownBlock(_LEAVES[token.type], start, end)
