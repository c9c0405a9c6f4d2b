"""Parsing and writing front matter."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cofio.markdown_notes import frontmatter
from cofio.markdown_notes.frontmatter import FrontMatter

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def fields(*lines: str) -> FrontMatter:
    return frontmatter.split_front_matter("\n".join(("---", *lines, "---", "body")))[0].fields


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("key: word", "word"),
        ("key: two words", "two words"),
        ("key: 'it''s'", "it's"),
        ('key: "a \\"b\\" \\n c\\u00e9"', 'a "b" \n cé'),
        ("key: no", "no"),
        ("key: 1.10", "1.10"),
        ("key: 2026-01-02", "2026-01-02"),
        ("key: http://x.y/z", "http://x.y/z"),
        ("key: a: b", "a: b"),
        ("key: word # a comment", "word"),
        ("key: C#", "C#"),
        ('key: "# no comment" # one', "# no comment"),
        ("key: [a, b c, 'd, e', \"f\"]", ["a", "b c", "d, e", "f"]),
        ("key: [[Link]]", "[[Link]]"),
        ('"my key": x', None),
    ],
)
def test_value_is_text_or_list(line: str, value: object) -> None:
    assert fields(line).get("key") == value


def test_multiline_lists_and_texts_are_parsed() -> None:
    read = fields("tags:", "  - a", '- "b: c"', "  -   ", "about: |", "  one", "   two", "", "rest: >-", "  x", "  y")
    assert read == {"tags": ["a", "b: c"], "about": "one\n two", "rest": "x y"}


def test_nested_keys_are_flattened() -> None:
    assert fields("metadata:", "  type: user", "  level: 3", "name: x") == {"type": "user", "level": "3", "name": "x"}


def test_empty_values_are_omitted() -> None:
    assert fields("a:", "b: ~", "c: null", "d: []", "# e: f", "just words", 'g: ""') == {}


@pytest.mark.parametrize(
    "text", ["", "plain", "---", "---\n", "---\nkey: x\nno end", "--- \nkey: x", " ---\nk: x\n---\n"]
)
def test_incomplete_front_matter_is_body_text(text: str) -> None:
    assert frontmatter.split_front_matter(text) == (frontmatter.ParsedFrontMatter(), text)


def test_body_is_unchanged() -> None:
    for ending in ("\n", "\r\n"):
        page = ending.join(("---", "a: b", "---", "", " x\r y ", "---", ""))
        read, body = frontmatter.split_front_matter("\ufeff" + page)
        assert (read.fields, body) == ({"a": "b"}, ending.join(("", " x\r y ", "---", "")))


def test_many_quotes_are_parsed_quickly() -> None:
    start_time = time.monotonic()
    assert fields(f"tags: [x{chr(39) * 300_000}, y]")["tags"] == ["x" + chr(39) * 300_000, "y"]
    assert time.monotonic() - start_time < 5


def test_tags_are_parsed_from_a_list_or_a_line() -> None:
    for line in ("tags: [a, b]", "tags: a, b", "tags: a b", "tags: '#a #b'", "tags: #a #b", "tag: [a, '#b']"):
        assert frontmatter.tags_of(fields(line)) == ["a", "b"], line
    assert frontmatter.tags_of(fields("tags:", "  - two words", "  - b")) == ["two words", "b"]
    assert frontmatter.tags_of({}) == []


@given(TEXTS, st.lists(TEXTS))
def test_written_values_are_read_back(text: str, several: list[str]) -> None:
    lines = frontmatter.to_front_matter((("one", frontmatter.quote_value(text)), ("many", several)))
    read = fields(*lines)
    assert read.get("one", "") == text
    assert read.get("many", []) == [item for item in several if item]


@given(TEXTS, st.lists(TEXTS))
def test_written_values_are_valid_yaml(text: str, several: list[str]) -> None:
    page = "\n".join(frontmatter.to_front_matter((("one", frontmatter.quote_value(text)), ("many", several))))
    read = yaml.safe_load(page)
    assert read["one"] == text
    assert read.get("many", []) == several


@given(st.text("-:#[]{}\"'|>~, \t\n\rab\\", max_size=200))
def test_random_text_never_raises(text: str) -> None:
    read, body = frontmatter.split_front_matter(f"---\n{text}\n---\nbody")
    assert all(isinstance(item, str) for value in read.fields.values() for item in frontmatter.to_list(value))
    assert body.endswith("body")
