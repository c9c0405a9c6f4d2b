"""Editing JSON as text: only the requested value changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.install import jsonc
from cofio.install.jsonc import MalformedConfig

from .config_files import SCALARS, VALUES
from .config_files import jsonc as texts

HOOK = {"type": "command", "command": "'/a b/hook' x", "timeout": 5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("// c\n{a: 'it\\'s', 'b': 0x1F, c: +.5, d: -Infinity, /* e */ e: [1,],}\n", None),
        ('\ufeff{"a": "\\u00e9\\n"}', {"a": "é\n"}),
        ("{a: 'line\\\ncontinued \\x41'}", {"a": "linecontinued A"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"url": "http://x//y", "b": "/* no */"}', {"url": "http://x//y", "b": "/* no */"}),
    ],
)
def test_json_with_comments_is_parsed(text: str, value: Any) -> None:
    read = jsonc.loads(text)
    if value is None:
        value = {"a": "it's", "b": 31, "c": 0.5, "d": float("-inf"), "e": [1]}
    assert read == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends in line 1"),
        ('{"a":\n 1', "ends in line 2"),
        ('{"a" 1}', "line 1"),
        ('{\n"a": tru}', "line 2"),
        ('{"a": 1} x', "'x'"),
        ('{"a": "b\nc"}', "line 1"),
        ("[" * 5_000, "deeply"),
        ("{,}", "','"),
        ("/* never closed", "'/'"),
    ],
)
def test_invalid_json_is_rejected_with_position(text: str, message: str) -> None:
    with pytest.raises(MalformedConfig, match=message):
        jsonc.parse(text)


def test_member_is_added_in_the_style_of_the_file() -> None:
    text = '{\n\t"model": "x", // mine\n\t"env": {}\n}\n'
    after = jsonc.put(text, ("env", "A"), "1")
    assert after == '{\n\t"model": "x", // mine\n\t"env": {\n\t\t"A": "1"\n\t}\n}\n'
    assert jsonc.drop(after, ("env", "A")) == text


def test_comment_after_the_last_member_is_kept_there() -> None:
    text = '{\n  "a": 1 // one\n}\n'
    after = jsonc.put(text, ("b",), 2)
    assert after == '{\n  "a": 1, // one\n  "b": 2\n}\n'
    assert jsonc.drop(after, ("b",)) == text


def test_trailing_comma_and_crlf_are_preserved() -> None:
    text = "{\r\n    a: 1,\r\n}\r\n"
    after = jsonc.put(text, ("b", "c"), [1])
    assert after == '{\r\n    a: 1,\r\n    "b": {\r\n        "c": [\r\n            1\r\n        ]\r\n    },\r\n}\r\n'
    assert jsonc.drop(after, ("b",)) == text


def test_one_line_file_stays_one_line() -> None:
    text = '{"a":1,"url":"http://x"}'
    after = jsonc.append(text, ("list",), HOOK)
    assert "\n" not in after
    assert jsonc.loads(after)["list"] == [HOOK]
    assert jsonc.drop(after, ("list",)) == text


def test_changed_value_is_replaced_in_place() -> None:
    text = '{\n  "ours": {"old": 1}, /* keep */\n  "b": 2\n}'
    assert jsonc.put(text, ("ours",), {"new": 2}) == '{\n  "ours": {\n    "new": 2\n  }, /* keep */\n  "b": 2\n}'
    assert jsonc.put(text, ("ours",), {"old": 1}) == text


def test_removal_does_not_comment_out_the_next_member() -> None:
    text = '{ "a": 1, // c\n  "ours": 2 }'
    assert jsonc.loads(jsonc.drop(text, ("ours",))) == {"a": 1}


def test_blocking_value_is_named() -> None:
    with pytest.raises(MalformedConfig, match="hooks is not an object"):
        jsonc.put('{"hooks": []}', ("hooks", "Stop"), 1)
    with pytest.raises(MalformedConfig, match=r"hooks\.Stop is not an array"):
        jsonc.append('{"hooks": {"Stop": {}}}', ("hooks", "Stop"), 1)
    with pytest.raises(MalformedConfig, match="the file is not an object"):
        jsonc.put("[]", ("a",), 1)


@given(texts(), VALUES)
def test_added_member_changes_nothing_else_and_is_removable(text: str, value: Any) -> None:
    before = jsonc.loads(text)
    after = jsonc.put(text, ("ours",), value)
    assert jsonc.loads(after) == {**before, "ours": value}
    assert jsonc.put(after, ("ours",), value) == after
    without = jsonc.drop(after, ("ours",))
    assert jsonc.loads(without) == before
    if before:
        assert without == text


@given(texts(), st.data())
def test_members_are_dropped_in_any_order(text: str, data: st.DataObject) -> None:
    values = jsonc.loads(text)
    while values:
        deleted = data.draw(st.sampled_from(sorted(values)))
        text = jsonc.drop(text, (deleted,))
        del values[deleted]
        assert jsonc.loads(text) == values


@given(texts(st.lists(SCALARS, max_size=4)), SCALARS, st.data())
def test_items_are_added_and_removed(text: str, value: Any, data: st.DataObject) -> None:
    values = jsonc.loads(text)
    name = data.draw(st.sampled_from([*sorted(values), "new"]))
    after = jsonc.append(text, (name,), value)
    items = [*values.get(name, []), value]
    assert jsonc.loads(after) == {**values, name: items}
    place = data.draw(st.integers(0, len(items) - 1))
    del items[place]
    assert jsonc.loads(jsonc.drop(after, (name, place))) == {**values, name: items}


@given(texts(), st.data())
def test_replacing_a_value_keeps_its_surroundings(text: str, data: st.DataObject) -> None:
    values = jsonc.loads(text)
    if values:
        name = data.draw(st.sampled_from(sorted(values)))
        node = jsonc.parse(text).at((name,))
        assert node
        after = jsonc.put(text, (name,), HOOK)
        assert jsonc.loads(after) == {**values, name: HOOK}
        assert after.startswith(text[: node.start])
        assert after.endswith(text[node.end :])
