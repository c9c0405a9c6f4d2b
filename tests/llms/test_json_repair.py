"""What is read out of a model's reply, and what is admitted to be unreadable."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.text.json_repair import parse_array, parse_reply

TWO = [{"text": "a", "entities": []}, {"text": "b", "entities": ["x"]}]
WRITTEN = json.dumps(TWO)

MEANT = [
    ("a bare array", WRITTEN),
    ("a fenced array", f"```json\n{WRITTEN}\n```"),
    ("a fence without a language", f"```\n{WRITTEN}\n```"),
    ("a fence that is never closed", f"Sure:\n```json\n{WRITTEN}"),
    ("an array amid prose", f"Here are the facts [as asked]: {WRITTEN}\nLet me know (or see [1])."),
    ("a wrapped array", f'{{"facts": {WRITTEN}}}'),
    ("a wrapper with another name", f'{{"result": {WRITTEN}}}'),
    ("a wrapper with a remark", f'{{"note": "two found", "facts": {WRITTEN}, "count": 2}}'),
    ("a wrapper with its thoughts first", f'{{"steps": ["read", "think"], "facts": {WRITTEN}}}'),
    ("a wrapper in a wrapper", f'{{"output": {{"facts": {WRITTEN}}}}}'),
    ("thoughts before it", f'<think>Perhaps [] or {{}}? Maybe [{{"text": "no"}}]</think>\n{WRITTEN}'),
    ("thoughts that were opened elsewhere", f'I could say ["x", "y", "z"].</think>{WRITTEN}'),
    ("trailing commas", '[{"text": "a", "entities": [],}, {"text": "b", "entities": ["x",]},]'),
    ("commas forgotten", '[{"text": "a" "entities": []} {"text": "b", "entities": ["x"]}]'),
    ("an object a line", '{"text": "a", "entities": []}\n{"text": "b", "entities": ["x"]}'),
    ("objects in a list of bullets", '- {"text": "a", "entities": []}\n- {"text": "b", "entities": ["x"]}'),
    ("cut off in a string", WRITTEN[:-1] + ', {"text": "half of'),
    ("cut off in a wrapper", f'{{"facts": {WRITTEN[:-1]}, {{"text": "c", "entities": ["ha'),
    ("cut off in a wrapper in a wrapper", f'{{"output": {{"facts": {WRITTEN[:-1]}, {{"text": "c"'),
    ("cut off after a comma", WRITTEN[:-1] + ","),
    ("cut off in a line", '{"text": "a", "entities": []}\n{"text": "b", "entities": ["x"]}\n{"entities": ["y"], "te'),
    ("a quote within quotes", '[{"text": "a", "entities": []}, {"text": "says "no""}, {"text":"b","entities":["x"]}]'),
    ("a draft before it", f'Draft: ["a"]\nFinal: {WRITTEN}'),
]


@pytest.mark.parametrize("written", [pytest.param(text, id=name) for name, text in MEANT])
def test_the_array_that_was_meant_is_found(written: str) -> None:
    assert parse_array(written) == TWO


def test_a_single_object_is_an_array_of_one() -> None:
    assert parse_array('The fact: {"text": "a", "entities": ["b", "c"]}') == [{"text": "a", "entities": ["b", "c"]}]


def test_texts_are_found_as_well_as_objects() -> None:
    assert parse_array('["one", "two", "thr') == ["one", "two"]
    assert parse_array('{"facts": ["one", "two"]}') == ["one", "two"]


@pytest.mark.parametrize("written", ["[]", " [ ] ", "```json\n[]\n```", '{"facts": []}', "Nothing lasts: []"])
def test_an_empty_array_is_an_answer(written: str) -> None:
    assert parse_array(written) == []


@pytest.mark.parametrize(
    "written",
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
def test_what_cannot_be_read_is_not_taken_for_an_empty_array(written: str) -> None:
    assert parse_array(written) is None


def test_it_is_told_whether_all_of_it_could_be_read() -> None:
    assert parse_reply(WRITTEN).whole
    assert parse_reply(f"As [you] said {{so}}: {WRITTEN}").whole
    assert parse_reply('{"text": "a"}\n{"text": "b"}').whole
    assert not parse_reply(WRITTEN[:-1]).whole
    assert not parse_reply(f'{{"facts": {WRITTEN[:-1]}, {{"te').whole
    assert not parse_reply('{"text": "a"}\n{"text": "b').whole
    assert not parse_reply('[{"text": "a"}, {"text": "says "no""}, {"text": "b"}]').whole


def test_markers_of_thinking_inside_a_fact_belong_to_it() -> None:
    assert parse_array('[{"text": "We strip </think> from replies"}]') == [{"text": "We strip </think> from replies"}]


def test_escapes_are_read_and_false_ones_are_kept() -> None:
    assert parse_array(r'["tab\tquote\" \u00e9", "C:\dev\users\ünder"]') == ['tab\tquote" é', "C:\\dev\\users\\ünder"]
    assert parse_array('["two\nlines"]') == ["two\nlines"]


def test_what_no_store_could_keep_is_taken_out_of_texts() -> None:
    assert parse_array(r'["a\u0000b\ud800c", "\ud83d\ude00"]') == ["abc", "\N{GRINNING FACE}"]


def test_numbers_and_words_are_values() -> None:
    (found,) = parse_array('[{"text": "a", "b": [1, -2.5, 1e3, true, null, None, False, NaN, -Infinity]}]') or []
    assert found["b"] == [1, -2.5, 1000.0, True, None, None, False, None, None]
    assert parse_array('["a", ' + "9" * 5_000 + "]") == ["a", float("inf")]


def test_what_is_nested_without_end_is_left_where_it_is() -> None:
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
def test_a_great_deal_of_anything_is_read_in_linear_time(junk: str) -> None:
    began = time.perf_counter()
    parse_array(junk * (200_000 // len(junk)))
    parse_array("[" + '"a":1,' * 20_000 + junk)
    parse_array("{" + ",".join(f'"{number}":1' for number in range(20_000)) + junk)
    assert time.perf_counter() - began < 20  # usually below 2; in quadratic time it would be hours


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    found = parse_array(text)
    assert found is None or isinstance(found, list)


PIECES = st.sampled_from(
    [*JUNK, "]", ":", '"text"', "1", "null", '{"text": "a"}', "</think>", "prose", "\n", "\\u0000"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_heap_of_pieces_makes_it_raise(text: str) -> None:
    found = parse_reply(text)
    assert found.entries is None or isinstance(found.entries, list)


ENTRY = st.fixed_dictionaries(
    {
        "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        "entities": st.lists(st.text("ab")),
    }
)


@given(st.lists(ENTRY, min_size=1), st.booleans())
def test_what_json_wrote_is_read_back(entries: list[object], ascii_only: bool) -> None:
    assert parse_array(json.dumps(entries, ensure_ascii=ascii_only)) == entries
    assert parse_array(json.dumps({"facts": entries}, indent=1)) == entries


@given(st.lists(ENTRY, min_size=1), st.data())
def test_wherever_it_is_cut_the_whole_entries_before_are_kept(entries: list[object], data: st.DataObject) -> None:
    written = json.dumps({"facts": entries})
    cut = data.draw(st.integers(0, len(written)))
    found = parse_array(written[:cut]) or []
    before = [len(json.dumps({"facts": entries[: count + 1]})) - 2 for count in range(len(entries))]
    assert found == entries[: sum(end <= cut for end in before)]
