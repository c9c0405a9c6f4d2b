"""TOML edited as text: one key or table added or removed, every other byte unchanged.

The result is parsed by `tomllib`, and an edit that would break the file is rejected.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cofio.install.jsonc import MalformedJson

_BLANK = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n|[ \t]*#[^\n]*$|[ \t]+)*")
_KEY = re.compile(r"[ \t]*(?:\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\r?\n|.', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A pair, or the header of a table. `end` is the end of its value or header, before any comment on the line."""

    kind: Literal["pair", "table", "array"]
    key: tuple[str, ...]
    start: int
    end: int
    value: int = 0  # start of the value of a pair


def loads(text: str) -> dict[str, Any]:
    """Parse the text. Raise Malformed if it is not TOML."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise MalformedJson(str(error)) from error


def put(text: str, key: str, value: Any) -> str:
    """Return the text with this pair at the top level, before any table."""
    if loads(text).get(key) == value:
        return text
    top = _top(statements(text))
    there = next((each for each in top if each.key == (key,)), None)
    if there:
        return _sound(text[: there.value] + to_toml(value) + text[there.end :])
    line = f"{key} = {to_toml(value)}{_newline(text)}"
    if top:
        end = _line_end(text, top[-1].end)
        return _sound(_ended(text[:end], _newline(text)) + line + text[end:])
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    rest = text[len(mark) :]
    return _sound(mark + line + (_newline(text) if rest else "") + rest)


def drop(text: str, key: str) -> str:
    """Return the text without this top-level pair."""
    there = next((each for each in _top(statements(text)) if each.key == (key,)), None)
    if there is None:
        return text
    before, after = text[: there.start], _after_line(text, there.end)
    if not before.strip("\ufeff"):
        after = re.sub(r"^\r?\n", "", after)  # the empty line that `put` inserted
    return _sound(before + after)


def raw(text: str, key: str) -> str:
    """Return the source text of a top-level value; "" if there is none."""
    there = next((each for each in _top(statements(text)) if each.key == (key,)), None)
    return text[there.value : there.end] if there else ""


def put_raw(text: str, key: str, value: str) -> str:
    """Return the text with the source text of this top-level value replaced."""
    there = next((each for each in _top(statements(text)) if each.key == (key,)), None)
    return _sound(text[: there.value] + value + text[there.end :]) if there else text


def put_table(text: str, path: tuple[str, ...], pairs: Mapping[str, Any]) -> str:
    """Return the text with this table: its pairs changed in place, or the table added at the end."""
    known = _at(loads(text), path)
    if known is not None and all(known.get(name) == value for name, value in pairs.items()):
        return text
    if known is None:
        newline = _newline(text)
        start = _ended(text, newline)
        lines = [f"[{dotted_path(path)}]", *(f"{_bare(name)} = {to_toml(value)}" for name, value in pairs.items())]
        gap = newline if start.strip("\ufeff") else ""
        return _sound(start + gap + "".join(line + newline for line in lines))
    for name, value in pairs.items():
        text = _put_within(text, path, name, value)
    return text


def drop_table(text: str, path: tuple[str, ...]) -> str:
    """Return the text without this table, the tables below it, and the empty line before each.

    Entries that are not written as a table of their own are kept.
    """
    while (place := _first_below(found := statements(text), path)) is not None:
        last = found[place]
        for each in found[place + 1 :]:
            if each.kind != "pair":
                break
            last = each
        before, after = text[: found[place].start], _after_line(text, last.end)
        text = re.sub(r"(\n|^)\r?\n\Z", r"\1", before) + after
    return _sound(text)


def put_table_back(text: str, path: tuple[str, ...], before: str) -> str:
    """Return the text with this table restored from `before`, or removed if it was not there."""
    there, old = _block(text, path), _block(before, path)
    if old is None:
        return drop_table(text, path)
    if there is None:
        return text
    return _sound(text[: there[0]] + _ended(before[old[0] : old[1]], _newline(before)) + text[there[1] :])


def _block(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Return start and end of a table: its header and pairs with their full lines."""
    found = statements(text)
    place = next((n for n, each in enumerate(found) if each.kind == "table" and each.key == path), None)
    if place is None:
        return None
    following = next((n for n in range(place + 1, len(found)) if found[n].kind != "pair"), len(found))
    return found[place].start, _line_end(text, found[following - 1].end)


def _first_below(found: list[Statement], path: tuple[str, ...]) -> int | None:
    headers = ((number, each.key) for number, each in enumerate(found) if each.kind != "pair")
    return next((number for number, key in headers if key[: len(path)] == path), None)


def _put_within(text: str, path: tuple[str, ...], name: str, value: Any) -> str:
    found = statements(text)
    place = next((n for n, each in enumerate(found) if each.kind == "table" and each.key == path), None)
    if place is None:
        raise MalformedJson(f"{dotted_path(path)} is not written as a table of its own")
    last = found[place]
    for each in found[place + 1 :]:
        if each.kind != "pair":
            break
        if each.key == (name,):
            return _sound(text[: each.value] + to_toml(value) + text[each.end :])
        last = each
    end = _line_end(text, last.end)
    newline = _newline(text)
    return _sound(_ended(text[:end], newline) + f"{_bare(name)} = {to_toml(value)}{newline}" + text[end:])


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def statements(text: str) -> list[Statement]:
    """Return every pair and header, in order. Raise Malformed if the text is not TOML."""
    loads(text)
    found: list[Statement] = []
    position = 1 if text.startswith("\ufeff") else 0
    while (position := _skipped(text, position)) < len(text):
        one = _header(text, position) if text[position] == "[" else _pair(text, position)
        found.append(one)
        position = _line_end(text, one.end)
    return found


def _skipped(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


def _header(text: str, start: int) -> Statement:
    many = text.startswith("[[", start)
    key, position = _key(text, start + (2 if many else 1))
    return Statement("array" if many else "table", key, start, position + (2 if many else 1))


def _pair(text: str, start: int) -> Statement:
    key, position = _key(text, start)
    value = position + 1 + len(text[position + 1 :]) - len(text[position + 1 :].lstrip(" \t"))
    return Statement("pair", key, start, _value_end(text, value), value)


def _key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while found := _KEY.match(text, position):
        quoted, literal, bare = found.groups()
        parts.append(tomllib.loads(f'k = "{quoted}"')["k"] if quoted is not None else (literal or bare or ""))
        position = found.end()
        if text[position : position + 1] != ".":
            return tuple(parts), position
        position += 1
    raise MalformedJson(f"line {text.count(chr(10), 0, position) + 1} has a key that cannot be read")


def _value_end(text: str, start: int) -> int:
    """Return the end of a value: before a comment or line end outside all brackets."""
    depth, end = 0, start
    for found in _TEXT.finditer(text, start):
        piece = found.group()
        if depth == 0 and (piece.startswith("#") or (piece.endswith("\n") and len(piece) <= 2)):
            break
        depth += (piece in "[{") - (piece in "]}")
        if piece not in " \t":
            end = found.end()
    return end


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _after_line(text: str, end: int) -> str:
    """Return the text after a removed statement. A comment on its line is kept on a line of its own."""
    close = _line_end(text, end)
    comment = text[end:close].strip()
    return (text[end:close].lstrip(" \t") if comment else "") + text[close:]


def _top(found: list[Statement]) -> list[Statement]:
    """Return the pairs before the first table."""
    first = next((n for n, each in enumerate(found) if each.kind != "pair"), len(found))
    return found[:first]


def _at(values: Any, path: tuple[str, ...]) -> Mapping[str, Any] | None:
    for step in path:
        values = values.get(step) if isinstance(values, dict) else None
    if values is not None and not isinstance(values, dict):
        raise MalformedJson(f"{dotted_path(path)} is not a table")
    return values


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_toml(value: Any) -> str:
    """Return the value as TOML: strings, numbers, booleans, lists, and inline tables."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_bare(name)} = {to_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(each) for each in value) + "]"
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def dotted_path(path: tuple[str, ...]) -> str:
    """Return the path in the notation of a table header."""
    return ".".join(_bare(step) for step in path)


def _bare(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else to_toml(name)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _ended(text: str, newline: str) -> str:
    return text if not text or text.endswith(("\n", "\ufeff")) else text + newline


def _sound(text: str) -> str:
    loads(text)
    return text
