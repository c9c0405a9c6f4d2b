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
    top = _list_top_pairs(statements(text))
    pair = next((candidate for candidate in top if candidate.key == (key,)), None)
    if pair:
        return _check(text[: pair.value] + to_toml(value) + text[pair.end :])
    line = f"{key} = {to_toml(value)}{_detect_newline(text)}"
    if top:
        end = _find_line_end(text, top[-1].end)
        return _check(_end_line(text[:end], _detect_newline(text)) + line + text[end:])
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    rest = text[len(mark) :]
    return _check(mark + line + (_detect_newline(text) if rest else "") + rest)


def drop(text: str, key: str) -> str:
    """Return the text without this top-level pair."""
    pair = next((candidate for candidate in _list_top_pairs(statements(text)) if candidate.key == (key,)), None)
    if pair is None:
        return text
    before, after = text[: pair.start], _after_line(text, pair.end)
    if not before.strip("\ufeff"):
        after = re.sub(r"^\r?\n", "", after)  # the empty line that `put` inserted
    return _check(before + after)


def raw(text: str, key: str) -> str:
    """Return the source text of a top-level value; "" if there is none."""
    pair = next((candidate for candidate in _list_top_pairs(statements(text)) if candidate.key == (key,)), None)
    return text[pair.value : pair.end] if pair else ""


def put_raw(text: str, key: str, value: str) -> str:
    """Return the text with the source text of this top-level value replaced."""
    pair = next((candidate for candidate in _list_top_pairs(statements(text)) if candidate.key == (key,)), None)
    return _check(text[: pair.value] + value + text[pair.end :]) if pair else text


def put_table(text: str, path: tuple[str, ...], pairs: Mapping[str, Any]) -> str:
    """Return the text with this table: its pairs changed in place, or the table added at the end."""
    table = _find_table(loads(text), path)
    if table is not None and all(table.get(name) == value for name, value in pairs.items()):
        return text
    if table is None:
        newline = _detect_newline(text)
        start = _end_line(text, newline)
        lines = [
            f"[{dotted_path(path)}]",
            *(f"{_format_key(name)} = {to_toml(value)}" for name, value in pairs.items()),
        ]
        gap = newline if start.strip("\ufeff") else ""
        return _check(start + gap + "".join(line + newline for line in lines))
    for name, value in pairs.items():
        text = _put_within(text, path, name, value)
    return text


def drop_table(text: str, path: tuple[str, ...]) -> str:
    """Return the text without this table, the tables below it, and the empty line before each.

    Entries that are not written as a table of their own are kept.
    """
    while (place := _find_first_below(parsed := statements(text), path)) is not None:
        last = parsed[place]
        for statement in parsed[place + 1 :]:
            if statement.kind != "pair":
                break
            last = statement
        before, after = text[: parsed[place].start], _after_line(text, last.end)
        text = re.sub(r"(\n|^)\r?\n\Z", r"\1", before) + after
    return _check(text)


def put_table_back(text: str, path: tuple[str, ...], before: str) -> str:
    """Return the text with this table restored from `before`, or removed if it was not there."""
    current, previous = _find_block(text, path), _find_block(before, path)
    if previous is None:
        return drop_table(text, path)
    if current is None:
        return text
    return _check(
        text[: current[0]] + _end_line(before[previous[0] : previous[1]], _detect_newline(before)) + text[current[1] :]
    )


def _find_block(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Return start and end of a table: its header and pairs with their full lines."""
    parsed = statements(text)
    place = next((n for n, statement in enumerate(parsed) if statement.kind == "table" and statement.key == path), None)
    if place is None:
        return None
    following = next((n for n in range(place + 1, len(parsed)) if parsed[n].kind != "pair"), len(parsed))
    return parsed[place].start, _find_line_end(text, parsed[following - 1].end)


def _find_first_below(parsed: list[Statement], path: tuple[str, ...]) -> int | None:
    headers = ((number, statement.key) for number, statement in enumerate(parsed) if statement.kind != "pair")
    return next((number for number, key in headers if key[: len(path)] == path), None)


def _put_within(text: str, path: tuple[str, ...], name: str, value: Any) -> str:
    parsed = statements(text)
    place = next((n for n, statement in enumerate(parsed) if statement.kind == "table" and statement.key == path), None)
    if place is None:
        raise MalformedJson(f"{dotted_path(path)} is not written as a table of its own")
    last = parsed[place]
    for statement in parsed[place + 1 :]:
        if statement.kind != "pair":
            break
        if statement.key == (name,):
            return _check(text[: statement.value] + to_toml(value) + text[statement.end :])
        last = statement
    end = _find_line_end(text, last.end)
    newline = _detect_newline(text)
    return _check(_end_line(text[:end], newline) + f"{_format_key(name)} = {to_toml(value)}{newline}" + text[end:])


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def statements(text: str) -> list[Statement]:
    """Return every pair and header, in order. Raise Malformed if the text is not TOML."""
    loads(text)
    parsed: list[Statement] = []
    position = 1 if text.startswith("\ufeff") else 0
    while (position := _skip_blank(text, position)) < len(text):
        statement = _parse_header(text, position) if text[position] == "[" else _parse_pair(text, position)
        parsed.append(statement)
        position = _find_line_end(text, statement.end)
    return parsed


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _parse_header(text: str, start: int) -> Statement:
    many = text.startswith("[[", start)
    key, position = _parse_key(text, start + (2 if many else 1))
    return Statement("array" if many else "table", key, start, position + (2 if many else 1))


def _parse_pair(text: str, start: int) -> Statement:
    key, position = _parse_key(text, start)
    value = position + 1 + len(text[position + 1 :]) - len(text[position + 1 :].lstrip(" \t"))
    return Statement("pair", key, start, _find_value_end(text, value), value)


def _parse_key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while match := _KEY.match(text, position):
        quoted, literal, bare = match.groups()
        parts.append(tomllib.loads(f'k = "{quoted}"')["k"] if quoted is not None else (literal or bare or ""))
        position = match.end()
        if text[position : position + 1] != ".":
            return tuple(parts), position
        position += 1
    raise MalformedJson(f"line {text.count(chr(10), 0, position) + 1} has a key that cannot be read")


def _find_value_end(text: str, start: int) -> int:
    """Return the end of a value: before a comment or line end outside all brackets."""
    depth, end = 0, start
    for match in _TEXT.finditer(text, start):
        piece = match.group()
        if depth == 0 and (piece.startswith("#") or (piece.endswith("\n") and len(piece) <= 2)):
            break
        depth += (piece in "[{") - (piece in "]}")
        if piece not in " \t":
            end = match.end()
    return end


def _find_line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _after_line(text: str, end: int) -> str:
    """Return the text after a removed statement. A comment on its line is kept on a line of its own."""
    close = _find_line_end(text, end)
    comment = text[end:close].strip()
    return (text[end:close].lstrip(" \t") if comment else "") + text[close:]


def _list_top_pairs(parsed: list[Statement]) -> list[Statement]:
    """Return the pairs before the first table."""
    end = next((n for n, statement in enumerate(parsed) if statement.kind != "pair"), len(parsed))
    return parsed[:end]


def _find_table(values: Any, path: tuple[str, ...]) -> Mapping[str, Any] | None:
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
        return "{ " + ", ".join(f"{_format_key(name)} = {to_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def dotted_path(path: tuple[str, ...]) -> str:
    """Return the path in the notation of a table header."""
    return ".".join(_format_key(step) for step in path)


def _format_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else to_toml(name)


def _detect_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _end_line(text: str, newline: str) -> str:
    return text if not text or text.endswith(("\n", "\ufeff")) else text + newline


def _check(text: str) -> str:
    loads(text)
    return text
