"""Sentence splitting and classification."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.text.sentences import LONGEST, capitalised, is_code, is_hypothetical, is_question, split


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("I use vim. You use emacs! Why? Because.", ["I use vim.", "You use emacs!", "Why?", "Because."]),
        ("one line\nand another\n\n", ["one line", "and another"]),
        ("lower case. also splits", ["lower case.", "also splits"]),
        ("We use Next.js and Node.js v1.2.3 today.", ["We use Next.js and Node.js v1.2.3 today."]),
        ("Use a linter, e.g. ruff, i.e. the fast one.", ["Use a linter, e.g. ruff, i.e. the fast one."]),
        (
            "See foo.py and https://a.example/b?c=d. Then stop.",
            ["See foo.py and https://a.example/b?c=d.", "Then stop."],
        ),
        ("It took 3.5 s. That is long.", ["It took 3.5 s.", "That is long."]),
        ("J. R. Smith owns it. Ask Dr. Jones.", ["J. R. Smith owns it.", "Ask Dr. Jones."]),
        ("Tabs, spaces, etc. are fine. Or so.", ["Tabs, spaces, etc. are fine.", "Or so."]),
        ("We like tabs, etc. We hate spaces.", ["We like tabs, etc.", "We hate spaces."]),
        ("That was not me. I was out.", ["That was not me.", "I was out."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("- one\n* two\n• three\n1. four\n2) five\n- [ ] six\n## seven", "one two three four five six seven".split()),
        ("**Always** use tabs", ["Always use tabs"]),
        ("Look:\n```python\nwe.always(x)\n```\nDone.", ["Look:", "Done."]),
        ("cut off\n```\nprose\n```python\nx = 1\n```\nafter", ["cut off", "after"]),
        ("run ```make``` now", ["run"]),
        ("> quoted\n| a | table |\nmine", ["mine"]),
        ("---\n***\n!!!\n", []),
        ("We use uv, can you fix the build?", ["We use uv", "can you fix the build?"]),
        ("I like tabs - how about you?", ["I like tabs", "how about you?"]),
        ("Is it red, blue or green?", ["Is it red, blue or green?"]),
        ("", []),
    ],
)
def test_text_is_split_into_sentences(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


def test_overlong_text_is_cut_without_loss() -> None:
    text = "word " * 1_000
    pieces = split(text)
    assert max(map(len, pieces)) <= LONGEST
    assert " ".join(pieces).split() == text.split()
    assert max(map(len, split("x" * 5_000))) == LONGEST


@given(st.text())
def test_sentences_are_bounded_stripped_lines(text: str) -> None:
    for sentence in split(text):
        assert 0 < len(sentence) <= LONGEST
        assert sentence == sentence.strip()
        assert "\n" not in sentence


def test_capitalizing_keeps_names_written_in_lower_case() -> None:
    texts = ["use tabs", "pnpm is fast", "iOS is there", "app.py starts it", "i see", "über alles"]
    assert [capitalised(text) for text in texts] == [
        "Use tabs", "pnpm is fast", "iOS is there", "app.py starts it", "I see", "Über alles",
    ]  # fmt: skip


def test_question_is_recognized_without_question_mark() -> None:
    assert all(
        map(is_question, ["Why?", 'is it "red"?"', "should we use tabs", "ok so how do I run it", "can you help"])
    )
    assert not any(map(is_question, ["We use tabs", "Do not use tabs", "When deploying, always tag", "Whatever works"]))


def test_hypothetical_statements_are_recognized() -> None:
    assert all(
        map(
            is_hypothetical, ["if ", "I wonder whether ", "he said ", "is it true? ", 'the sign reads "', "instead of "]
        )
    )
    assert not any(map(is_hypothetical, ["", "in our tests ", "last year ", 'the "fast" one: ']))


def test_code_is_distinguished_from_prose() -> None:
    code = ["x = 1", "foo();", "import os", "</div>", "<a_b>", "ValueError: no", '"a": 1', "const a = b", "{", "a::b"]
    prose = ["We use `a = b` here", "I import cars from Italy", "He returned", "A/B tests (both)", "Why not: because"]
    assert [line for line in code if not is_code(line)] == []
    assert [line for line in prose if is_code(line)] == []
