"""Hypothesis strategies for hand-written config files: JSON with comments and odd spacing, TOML with all kinds of
values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["hooks", "Stop", "env", "model", "a b", "é", "permissions", "x"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def jsonc(draw: st.DrawFn, values: st.SearchStrategy[Any] = VALUES) -> str:
    """Return JSON text of an object with comments, trailing commas, JSON5 quotes and random spacing."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    root = draw(st.dictionaries(NAMES, values, max_size=4))
    mark = draw(st.sampled_from(["", "", "\ufeff"]))
    return mark + _gap(draw, newline) + _encode(draw, root, newline) + _gap(draw, newline)


def _gap(draw: st.DrawFn, newline: str) -> str:
    pieces = [
        "",
        "",
        " ",
        newline,
        newline + "  ",
        "\t",
        f"// it's {{ \" [{newline}",
        "/* , } */",
        f" /* a{newline}b */ ",
    ]
    return "".join(draw(st.lists(st.sampled_from(pieces), max_size=2)))


def _encode(draw: st.DrawFn, value: Any, newline: str) -> str:
    if isinstance(value, dict):
        entries = [
            _name(draw, key) + _gap(draw, newline) + ":" + _gap(draw, newline) + _encode(draw, each, newline)
            for key, each in value.items()
        ]
        return "{" + _join_entries(draw, entries, newline) + "}"
    if isinstance(value, list):
        return "[" + _join_entries(draw, [_encode(draw, item, newline) for item in value], newline) + "]"
    if isinstance(value, str) and draw(st.booleans()):
        return _single(value)
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def _join_entries(draw: st.DrawFn, entries: list[str], newline: str) -> str:
    text = _gap(draw, newline)
    for place, entry in enumerate(entries):
        last = place + 1 == len(entries)
        comma = "," if not last or draw(st.booleans()) else ""
        text += _gap(draw, newline) + entry + _gap(draw, newline) + comma + _gap(draw, newline)
    return text


def _single(value: str) -> str:
    inner = json.dumps(value)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{inner}'"


def _name(draw: st.DrawFn, key: str) -> str:
    if key.isidentifier() and draw(st.booleans()):
        return key
    return _single(key) if draw(st.booleans()) else json.dumps(key)


TOML_VALUES = st.sampled_from(
    [
        '"text"',
        "'C:\\path # no comment'",
        '"a \\"quoted\\" # one"',
        "1_000",
        "true",
        "1979-05-27T07:32:00Z",
        '[ "a", "b" ]',
        '[\n  "one", # first ]\n  "two",\n]',
        '{ x = 1, "y z" = [1, 2] }',
        '"""\nmany\n[lines]\nnotify = 1\n"""',
        "'''\n# raw \"\"\" ]\n'''",
    ]
)
TOML_NAMES = ["model", "approval_policy", "model_provider", '"odd key"', "sandbox.mode"]
TOML_TABLES = ["[tui]", "[mcp_servers.other]", "[[hooks.Stop]]", '[projects."/a b/c"]', "[ features ]", "[a.b.c]"]


@st.composite
def toml(draw: st.DrawFn) -> str:
    """Return TOML text with pairs, tables, comments and either line ending."""
    lines = draw(_pairs())
    for header in draw(st.lists(st.sampled_from(TOML_TABLES), unique=True, max_size=4)):
        lines += [*draw(_comments()), header + draw(st.sampled_from(["", "  # said beside"])), *draw(_pairs())]
    text = "\n".join([*lines, *draw(_comments())])
    text += draw(st.sampled_from(["", "\n", "\n\n", "\n# the end"]))
    mark = draw(st.sampled_from(["", "", "\ufeff"]))
    return mark + (text.replace("\n", "\r\n") if draw(st.booleans()) else text)


@st.composite
def _pairs(draw: st.DrawFn) -> list[str]:
    lines: list[str] = []
    for name in draw(st.lists(st.sampled_from(TOML_NAMES), unique=True, max_size=3)):
        equals, beside = draw(st.sampled_from([" = ", "=", " =\t"])), draw(st.sampled_from(["", " # [why] ="]))
        lines += [*draw(_comments()), f"{draw(st.sampled_from(['', '  ']))}{name}{equals}{draw(TOML_VALUES)}{beside}"]
    return lines


def _comments() -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(["", "# a comment [not.a.table]", "   ", '# notify = ["x"]']), max_size=2)
