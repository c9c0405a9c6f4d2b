"""JSON as people write it (comments, trailing commas, JSON5), parsed with positions: edits keep every other byte.

text ─ parse ─▶ Node ─ put, append, drop ─▶ text
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from cofio.errors import InvalidInput

Path: TypeAlias = tuple[str | int, ...]

_TRIVIA = re.compile(r"(?:[\s\ufeff]+|//[^\r\n\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\r\n]|\\(?:\r\n|.))*"|\'(?:[^\'\\\r\n]|\\(?:\r\n|.))*\'', re.DOTALL)
_NAME = re.compile(r"[^\W\d]|\$")
_WORD = re.compile(r"[\w$.+-]+")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "\n": "", "\r\n": "", "\r": ""}
_REST_OF_LINE_IS_EMPTY = re.compile(r"[ \t]*(?:\r?\n|$)")
_PIECE = re.compile(r"//[^\r\n]*|/\*.*?\*/|.", re.DOTALL)
_CONSTANTS = {"true": True, "false": False, "null": None}
_SPACE = " \t\r\n"
_DEEPEST = 200


class MalformedConfig(InvalidInput):
    """A configuration file is not JSON (with comments, or JSON5) or TOML; the message names the line."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its position. `keys` are those of an object; `children` its values, or the items of an array."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    value: Any = None
    keys: tuple[tuple[str, int], ...] = ()  # each with its start
    children: tuple[Node, ...] = ()

    def plain(self) -> Any:
        """Return the value in Python types. Of duplicate keys the last wins, as in the clients."""
        if self.kind == "object":
            return {key: child.plain() for (key, _), child in zip(self.keys, self.children, strict=True)}
        return [child.plain() for child in self.children] if self.kind == "array" else self.value

    def at(self, path: Path) -> Node | None:
        """Return the node at this path, or None."""
        node: Node | None = self
        for step in path:
            place = node.place(step) if node else None
            node = node.children[place] if node and place is not None else None
        return node

    def place(self, step: str | int) -> int | None:
        """Return the index of a child, or None."""
        if isinstance(step, int):
            return step if self.kind == "array" and 0 <= step < len(self.children) else None
        positions = [number for number, (key, _) in enumerate(self.keys) if key == step]
        return positions[-1] if positions else None

    def begins(self, place: int) -> int:
        """Return the start of a child, including its key."""
        return self.keys[place][1] if self.kind == "object" else self.children[place].start


def parse(text: str) -> Node:
    """Parse the text. Raise Malformed if it does not contain exactly one value."""
    reader = _JsoncParser(text)
    node = reader.value(reader.skipped(0), 0)
    end = reader.skipped(node.end)
    if end != len(text):
        raise reader.wrong(end)
    return node


def loads(text: str) -> Any:
    """Parse the text and return the value in Python types."""
    return parse(text).plain()


class _JsoncParser:
    def __init__(self, text: str) -> None:
        self._text = text

    def wrong(self, position: int) -> MalformedConfig:
        line = self._text.count("\n", 0, position) + 1
        if position >= len(self._text):
            return MalformedConfig(f"it ends in line {line} in the middle of a value")
        return MalformedConfig(f"line {line} has {self._text[position]!r} where it is not allowed")

    def skipped(self, position: int) -> int:
        """Return the position after white space and comments."""
        match = _TRIVIA.match(self._text, position)
        return match.end() if match else position

    def value(self, start: int, depth: int) -> Node:
        if depth > _DEEPEST:
            raise MalformedConfig("it is nested too deeply")
        opening = self._text[start : start + 1]
        if opening not in ("{", "["):
            return self._parse_scalar(start)

        closing = "}" if opening == "{" else "]"
        keys: list[tuple[str, int]] = []
        children: list[Node] = []
        position = self.skipped(start + 1)
        while self._text[position : position + 1] != closing:
            if opening == "{":
                key, after = self._parse_key(position)
                keys.append((key, position))
                colon = self.skipped(after)
                if self._text[colon : colon + 1] != ":":
                    raise self.wrong(colon)
                position = self.skipped(colon + 1)
            children.append(self.value(position, depth + 1))
            position = self.skipped(children[-1].end)
            if self._text[position : position + 1] == ",":
                position = self.skipped(position + 1)
            elif self._text[position : position + 1] != closing:
                raise self.wrong(position)
        kind: Literal["object", "array"] = "object" if opening == "{" else "array"
        return Node(kind, start, position + 1, None, tuple(keys), tuple(children))

    def _parse_key(self, position: int) -> tuple[str, int]:
        if match := _STRING.match(self._text, position):
            return _unquote(match.group()), match.end()
        match = _WORD.match(self._text, position) if _NAME.match(self._text, position) else None
        if not match:
            raise self.wrong(position)
        return match.group(), match.end()

    def _parse_scalar(self, start: int) -> Node:
        if match := _STRING.match(self._text, start):
            return Node("scalar", start, match.end(), _unquote(match.group()))
        match = _WORD.match(self._text, start)
        word = match.group() if match else ""
        value: Any
        if word in _CONSTANTS:
            value = _CONSTANTS[word]
        elif not _NUMBER.fullmatch(word):
            raise self.wrong(start)
        elif "x" in word.lower():
            value = int(word, 16)
        else:
            value = int(word) if re.fullmatch(r"[+-]?\d{1,300}", word) else float(word)
        return Node("scalar", start, start + len(word), value)


def _unquote(token: str) -> str:
    if token[0] == '"':
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            pass  # escapes that exist only in JSON5

    def unescape(escape: re.Match[str]) -> str:
        code = escape[1] or escape[2]
        return chr(int(code, 16)) if code else _LETTERS.get(escape[3], escape[3])

    return _ESCAPE.sub(unescape, token[1:-1])


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def put(text: str, path: Path, value: Any) -> str:
    """Return the text with this value at the path: changed in place, or added as the last member of its object.

    Missing objects on the path are created. Raise Malformed if another kind of value is in the way.
    """
    root = parse(text)
    node = root.at(path)
    if node:
        if node.plain() == value:
            return text
        style = _Style(text, root)
        return text[: node.start] + style.written(value, style.indent_at(node.start)) + text[node.end :]
    depth = next(size for size in range(len(path) - 1, -1, -1) if root.at(path[:size]))
    for step in reversed(path[depth + 1 :]):
        value = {step: value}
    return _add(text, root, path[:depth], str(path[depth]), value)


def append(text: str, path: Path, value: Any) -> str:
    """Return the text with this value appended to the array at the path, which is created if missing."""
    root = parse(text)
    if root.at(path) is None:
        return put(text, path, [value])
    return _add(text, root, path, None, value)


def drop(text: str, path: Path) -> str:
    """Return the text without the value at the path, the white space before it, and one comma."""
    holder = parse(text).at(path[:-1])
    place = holder.place(path[-1]) if holder else None
    if holder is None or place is None:
        return text

    child, begins = holder.children[place], holder.begins(place)
    previous_end = holder.children[place - 1].end if place else holder.start + 1
    start = previous_end + len(text[previous_end:begins].rstrip(_SPACE))
    before, after = text[:start], text[child.end :]
    comma = _find_comma(text, child.end)
    if comma is not None:
        after = text[child.end : comma] + text[comma + 1 :]
        if start == begins and comma == child.end and place + 1 < len(holder.children):
            after = after.lstrip(" \t")  # [ours, theirs]: theirs moves up
    elif place:
        comma_before = _find_comma(text, previous_end)
        before = text[:comma_before] + text[(comma_before or start) + 1 : start]

    pieces = [match.group() for match in _PIECE.finditer(text, previous_end, start)]
    ends_in_line_comment = bool(pieces) and pieces[-1].startswith("//")  # it would swallow text on the same line
    if ends_in_line_comment and not _REST_OF_LINE_IS_EMPTY.match(after):
        return before + _detect_newline(text) + after
    if len(holder.children) == 1 and start == holder.start + 1 and after.lstrip(_SPACE)[:1] in ("}", "]"):
        after = after.lstrip(_SPACE)
    return before + after


class _Style(NamedTuple):
    """Formatting of a file: line ends and indentation."""

    text: str
    root: Node

    @property
    def unit(self) -> str:
        """Return one step of indentation, taken from the first child of the root."""
        return self.find_child_indent(self.root) or "  "

    @property
    def is_one_line(self) -> bool:
        """Return whether the whole value is on one line and not empty."""
        return bool(self.root.children) and "\n" not in self.text[self.root.start : self.root.end]

    def indent_at(self, position: int) -> str:
        """Return the indentation of the line at this position."""
        line = self.text.rfind("\n", 0, position) + 1
        match = re.match(r"[ \t]*", self.text[line:position])
        return match.group() if match else ""

    def written(self, value: Any, indent: str) -> str:
        """Return the value as text with this indentation."""
        if self.is_one_line:
            return json.dumps(value, ensure_ascii=False)
        text = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return text.replace("\n", _detect_newline(self.text) + indent)

    def find_child_indent(self, node: Node) -> str:
        """Return the indentation of the first child if it begins a line, else ""."""
        if not node.children:
            return ""
        position = node.begins(0)
        indent = self.indent_at(position)
        line = self.text.rfind("\n", 0, position) + 1
        return indent if line + len(indent) == position else ""


def _add(text: str, root: Node, holder_path: Path, key: str | None, value: Any) -> str:
    """Return the text with a member added at the end of an object, or an item at the end of an array."""
    holder = root.at(holder_path)
    kind = "array" if key is None else "object"
    if holder is None or holder.kind != kind:
        place = ".".join(str(step) for step in holder_path) or "the file"
        raise MalformedConfig(f"{place} is not an {kind}")

    style = _Style(text, root)
    closing = holder.end - 1
    inside = text[holder.start + 1 : closing]
    end = holder.start + 1 + len(inside.rstrip(_SPACE))  # of the content, comments included
    tail = text[end:]
    if "\n" not in inside and (holder.children or inside.strip() or style.is_one_line):
        gap = " " if holder.children else ""
        entry = json.dumps(value, ensure_ascii=False)
    else:
        newline = _detect_newline(text)
        indent = style.find_child_indent(holder) or style.indent_at(holder.start) + style.unit
        gap = newline + indent
        entry = style.written(value, indent)
        if not holder.children and "\n" not in text[end:closing]:
            tail = newline + style.indent_at(holder.start) + text[closing:]
    if key is not None:
        entry = f"{json.dumps(key, ensure_ascii=False)}: {entry}"

    if not holder.children:
        return text[:end] + gap + entry + tail
    last = holder.children[-1].end
    if _find_comma(text, last) is not None:
        return text[:end] + gap + entry + "," + tail
    return text[:last] + "," + text[last:end] + gap + entry + tail


def _find_comma(text: str, position: int) -> int | None:
    match = _TRIVIA.match(text, position)
    end = match.end() if match else position
    return end if text[end : end + 1] == "," else None


def _detect_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
