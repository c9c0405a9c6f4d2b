"""Blocks of a Markdown page with their lines."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cofio.text.markdown import MarkdownBlock, parse_blocks, walk

PAGE = """# Title ##
one
two

- bullet
  ```
  # code
  ```
  - inner
- other

1. first
2. second

Heading
=======
> quoted
> ~~~
> # code
"""


def summarize(text: str) -> list[tuple[str, int, int]]:
    return [(block.kind, block.start, block.end) for block in walk(parse_blocks(text)[1])]


def test_blocks_have_their_lines() -> None:
    assert summarize(PAGE) == [
        ("heading", 0, 1),
        ("paragraph", 1, 3),
        ("bullet", 4, 9),
        ("paragraph", 4, 5),
        ("code", 5, 8),
        ("bullet", 8, 9),
        ("paragraph", 8, 9),
        ("bullet", 9, 11),
        ("paragraph", 9, 10),
        ("steps", 11, 14),
        ("step", 11, 12),
        ("paragraph", 11, 12),
        ("step", 12, 14),
        ("paragraph", 12, 13),
        ("heading", 14, 16),
        ("paragraph", 16, 19),
        ("paragraph", 16, 17),
        ("code", 17, 19),
    ]


def test_headings_have_level_and_title() -> None:
    headings = [block for block in parse_blocks(PAGE)[1] if block.kind == "heading"]
    assert [(heading.level, heading.title) for heading in headings] == [(1, "Title"), (1, "Heading")]


def test_line_of_dashes_makes_a_heading_of_one_line_only() -> None:
    assert parse_blocks("one\n---")[1] == [MarkdownBlock("heading", 0, 2, 2, "one")]
    assert parse_blocks("one\ntwo\n---")[1] == [MarkdownBlock("paragraph", 0, 2)]
    assert parse_blocks("one\n- ")[1] == [MarkdownBlock("paragraph", 0, 1)]


def test_comments_outside_of_code_are_replaced_by_their_line_ends() -> None:
    lines, blocks = parse_blocks("a <!-- b\n\n# c --> d\n```\n<!-- e -->\n```\n<!-- f")
    assert lines == ["a ", "", " d", "```", "<!-- e -->", "```", ""]
    assert [block.kind for block in blocks] == ["paragraph", "paragraph", "code"]


@given(st.text("#-=`~<!> \t\n1.)ab|_*+\\\u2028\x0b", max_size=300))
def test_every_word_is_in_a_block_and_blocks_are_in_order(text: str) -> None:
    lines, blocks = parse_blocks(text)
    assert len(lines) == text.count("\n") + 1
    inside = {number for block in blocks for number in range(block.start, block.end)}
    assert all(number in inside for number, line in enumerate(lines) if "a" in line or "b" in line)
    assert all(first.end <= second.start for first, second in pairwise(blocks))
