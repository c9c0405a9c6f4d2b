"""Parsing JSON from LLM replies, and detecting unreadable ones."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.text.json_repair import parse_reply


def parse_array(reply: str) -> list[Any] | None:
    return parse_reply(reply).entries


ENTRIES = [{"text": "a", "entities": []}, {"text": "b", "entities": ["x"]}]
ENTRIES_JSON = json.dumps(ENTRIES)

READABLE = [
    ("a bare array", ENTRIES_JSON),
    ("a fenced array", f"```json\n{ENTRIES_JSON}\n```"),
    ("a fence without a language", f"```\n{ENTRIES_JSON}\n```"),
    ("a fence that is never closed", f"Sure:\n```json\n{ENTRIES_JSON}"),
    ("an array amid prose", f"Here are the facts [as asked]: {ENTRIES_JSON}\nLet me know (or see [1])."),
    ("a wrapped array", f'{{"facts": {ENTRIES_JSON}}}'),
    ("a wrapper with another name", f'{{"result": {ENTRIES_JSON}}}'),
    ("a wrapper with a remark", f'{{"note": "two found", "facts": {ENTRIES_JSON}, "count": 2}}'),
    ("a wrapper with its thoughts first", f'{{"steps": ["read", "think"], "facts": {ENTRIES_JSON}}}'),
    ("a wrapper in a wrapper", f'{{"output": {{"facts": {ENTRIES_JSON}}}}}'),
    ("thoughts before it", f'<think>Perhaps [] or {{}}? Maybe [{{"text": "no"}}]</think>\n{ENTRIES_JSON}'),
    ("thoughts that were opened elsewhere", f'I could say ["x", "y", "z"].</think>{ENTRIES_JSON}'),
    ("trailing commas", '[{"text": "a", "entities": [],}, {"text": "b", "entities": ["x",]},]'),
    ("commas forgotten", '[{"text": "a" "entities": []} {"text": "b", "entities": ["x"]}]'),
    ("an object a line", '{"text": "a", "entities": []}\n{"text": "b", "entities": ["x"]}'),
    ("objects in a list of bullets", '- {"text": "a", "entities": []}\n- {"text": "b", "entities": ["x"]}'),
    ("cut off in a string", ENTRIES_JSON[:-1] + ', {"text": "half of'),
    ("cut off in a wrapper", f'{{"facts": {ENTRIES_JSON[:-1]}, {{"text": "c", "entities": ["ha'),
    ("cut off in a wrapper in a wrapper", f'{{"output": {{"facts": {ENTRIES_JSON[:-1]}, {{"text": "c"'),
    ("cut off after a comma", ENTRIES_JSON[:-1] + ","),
    ("cut off in a line", '{"text": "a", "entities": []}\n{"text": "b", "entities": ["x"]}\n{"entities": ["y"], "te'),
    ("a quote within quotes", '[{"text": "a", "entities": []}, {"text": "says "no""}, {"text":"b","entities":["x"]}]'),
    ("a draft before it", f'Draft: ["a"]\nFinal: {ENTRIES_JSON}'),
]


@pytest.mark.parametrize("reply", [pytest.param(text, id=name) for name, text in READABLE])
def test_array_is_found(reply: str) -> None:
    assert parse_array(reply) == ENTRIES


def test_single_object_is_an_array_of_one() -> None:
    assert parse_array('The fact: {"text": "a", "entities": ["b", "c"]}') == [{"text": "a", "entities": ["b", "c"]}]


def test_strings_are_accepted_as_entries() -> None:
    assert parse_array('["one", "two", "thr') == ["one", "two"]
    assert parse_array('{"facts": ["one", "two"]}') == ["one", "two"]


@pytest.mark.parametrize("reply", ["[]", " [ ] ", "```json\n[]\n```", '{"facts": []}', "Nothing lasts: []"])
def test_empty_array_is_a_valid_reply(reply: str) -> None:
    assert parse_array(reply) == []


@pytest.mark.parametrize(
    "reply",
    [
        *(
            "",
            " ",
            "Sorry, I cannot do that.",
            "[",
            "{",
            "{}",
            "null",
            "42",
            '"text"',
            "see [1] and [2]",
            "[1, 2, null]",
        ),
        *(
            '{"facts": [',
            '{"text": "half',
            '{"text": "a", "entities": ["x", "y',
            '{"error": "no"}',
            "```json```",
            "<think>so much to say [",
            "<think>[]",
        ),
    ],
)
def test_unreadable_reply_is_not_an_empty_array(reply: str) -> None:
    assert parse_array(reply) is None


def test_result_tells_whether_everything_was_parsed() -> None:
    assert parse_reply(ENTRIES_JSON).whole
    assert parse_reply(f"As [you] said {{so}}: {ENTRIES_JSON}").whole
    assert parse_reply('{"text": "a"}\n{"text": "b"}').whole
    assert not parse_reply(ENTRIES_JSON[:-1]).whole
    assert not parse_reply(f'{{"facts": {ENTRIES_JSON[:-1]}, {{"te').whole
    assert not parse_reply('{"text": "a"}\n{"text": "b').whole
    assert not parse_reply('[{"text": "a"}, {"text": "says "no""}, {"text": "b"}]').whole


def test_thinking_tags_inside_a_fact_are_kept() -> None:
    assert parse_array('[{"text": "We strip </think> from replies"}]') == [{"text": "We strip </think> from replies"}]


def test_escapes_are_decoded_and_invalid_ones_kept() -> None:
    assert parse_array(r'["tab\tquote\" \u00e9", "C:\dev\users\ünder"]') == ['tab\tquote" é', "C:\\dev\\users\\ünder"]
    assert parse_array('["two\nlines"]') == ["two\nlines"]


def test_invalid_characters_are_removed() -> None:
    assert parse_array(r'["a\u0000b\ud800c", "\ud83d\ude00"]') == ["abc", "\N{GRINNING FACE}"]


def test_numbers_and_literals_are_parsed() -> None:
    (found,) = parse_array('[{"text": "a", "b": [1, -2.5, 1e3, true, null, None, False, NaN, -Infinity]}]') or []
    assert found["b"] == [1, -2.5, 1000.0, True, None, None, False, None, None]
    assert parse_array('["a", ' + "9" * 5_000 + "]") == ["a", float("inf")]


def test_endless_nesting_is_ignored() -> None:
    assert parse_array('["a", ' + "[" * 100_000) == ["a"]
    assert parse_array("[" * 100_000) is None
    assert parse_array('{"facts":' * 100_000) is None


JUNK = [
    "[",
    "{",
    '{"a":',
    '["a",',
    '[{"text":"a"},',
    '"',
    "\\",
    '"\\',
    "}",
    "```",
    "<think>",
    '{"text":',
    " ",
    ",",
    "-",
    "[1]",
]


@pytest.mark.parametrize("junk", JUNK)
def test_long_junk_is_parsed_in_linear_time(junk: str) -> None:
    start_time = time.perf_counter()
    parse_array(junk * (200_000 // len(junk)))
    parse_array("[" + '"a":1,' * 20_000 + junk)
    parse_array("{" + ",".join(f'"{number}":1' for number in range(20_000)) + junk)
    assert time.perf_counter() - start_time < 20  # usually below 2; quadratic time would take hours


@given(st.text())
def test_random_text_never_raises(text: str) -> None:
    results = parse_array(text)
    assert results is None or isinstance(results, list)


PIECES = st.sampled_from(
    [*JUNK, "]", ":", '"text"', "1", "null", '{"text": "a"}', "</think>", "prose", "\n", "\\u0000"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_random_fragments_never_raise(text: str) -> None:
    results = parse_reply(text)
    assert results.entries is None or isinstance(results.entries, list)


ENTRY = st.fixed_dictionaries(
    {
        "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        "entities": st.lists(st.text("ab")),
    }
)


@given(st.lists(ENTRY, min_size=1), st.booleans())
def test_json_output_is_parsed_back(entries: list[object], ascii_only: bool) -> None:
    assert parse_array(json.dumps(entries, ensure_ascii=ascii_only)) == entries
    assert parse_array(json.dumps({"facts": entries}, indent=1)) == entries


@given(st.lists(ENTRY, min_size=1), st.data())
def test_complete_entries_before_a_cut_are_kept(entries: list[object], data: st.DataObject) -> None:
    content = json.dumps({"facts": entries})
    cut = data.draw(st.integers(0, len(content)))
    results = parse_array(content[:cut]) or []
    before = [len(json.dumps({"facts": entries[: count + 1]})) - 2 for count in range(len(entries))]
    assert results == entries[: sum(end <= cut for end in before)]
