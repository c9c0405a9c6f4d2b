"""Tolerant extraction of the JSON array from a model's reply, even if wrapped, commented or truncated.

"No array found" and "empty array" are different results: confusing them would silently lose facts.

Pure functions over str, linear in the length of the text, that never raise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from cofio.text import lazy_re

_DEEPEST = 24  # nesting depth; anything deeper is not a valid reply
#: An object with one of these keys and a plain value is an entry; any other object wraps the entries.
_OF_AN_ENTRY = frozenset({"text", "fact", "fact_index", "content", "action"})
_LISTS_OF_AN_ENTRY = frozenset({"entities", "tags"})

_BLANK = lazy_re.compile(r"[\s,]*+")  # tolerates extra and missing commas
_STRING = lazy_re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_PLAIN = lazy_re.compile(
    r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|(?:true|false|null|True|False|None|NaN|-?Infinity)\b"
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_WORDS |= dict.fromkeys(("NaN", "Infinity", "-Infinity"))  # not valid numbers
_OPENING = lazy_re.compile(r"[\[{]")
_ESCAPE = lazy_re.compile(r"\\(?:([\"\\/bfnrt]|u[0-9a-fA-F]{4})|)")
_THOUGHTS = lazy_re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT = lazy_re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


class ParsedReply(NamedTuple):
    """Parsed reply: the entries, None if no array was found, and whether they are complete."""

    entries: list[Any] | None
    whole: bool = True


def parse_array(text: str) -> list[Any] | None:
    """Return the complete entries of the array in the reply; None if there is none."""
    return parse_reply(text).entries


def parse_reply(text: str) -> ParsedReply:
    """Parse the array in the reply.

    Of several arrays, the one with the most strings and objects is used; of equals the last. Standalone objects, one
    per line or within prose, count as an array too.
    """
    pieces = _pieces(_after_thinking(text))
    best = max(reversed(pieces), key=_worth, default=ParsedReply(None))
    if best.entries and _worth(best):
        return best
    return ParsedReply([]) if any(piece.entries == [] for piece in pieces) else ParsedReply(None)


def _worth(piece: ParsedReply) -> int:
    return sum(isinstance(entry, dict | str) for entry in piece.entries or ())


def _after_thinking(text: str) -> str:
    """Return the reply without the reasoning at its start; "" if the reasoning does not end."""
    if text.lstrip()[:1] in ("[", "{", "`"):
        return text
    if _THOUGHTS.match(text):
        ends = _THOUGHT.search(text)
        return text[ends.end() :] if ends else ""
    return _THOUGHT.split(text)[-1]  # some models only emit the closing tag


def _pieces(text: str) -> list[ParsedReply]:
    """Return every array in the text; standalone objects and entries of broken arrays are collected into one."""
    reader = _LenientParser(text)
    pieces: list[ParsedReply] = []
    loose: list[Any] = []
    all_of_it = True
    while (opening := _OPENING.search(text, reader.at)) and not reader.ended:
        reader.at, reader.broken = opening.start(), False
        value = reader.outermost()
        entries = _entries(value)
        if reader.broken or _is_entry(value):
            loose += entries or []
            all_of_it &= not reader.broken or (opening.group() == "[" and not entries)  # a bracket in prose
        elif entries is not None:
            pieces.append(ParsedReply(entries))
    return [*pieces, ParsedReply(loose, all_of_it)] if loose else pieces


def _entries(value: Any) -> list[Any] | None:
    """Return the entries of a value: its own, those inside a wrapper, or itself."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if _is_entry(value):
        return [value]
    lists = [inner for key, inner in value.items() if isinstance(inner, list) and key not in _LISTS_OF_AN_ENTRY]
    if lists:
        return max(lists, key=lambda entries: sum(isinstance(entry, dict) for entry in entries))
    return next((_entries(inner) for inner in value.values() if isinstance(inner, dict)), None)


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and any(_tells(key, inner) for key, inner in value.items())


def _tells(key: str, inner: Any) -> bool:
    return key in _OF_AN_ENTRY and not isinstance(inner, dict | list)


class _CutOffError(Exception):
    """The JSON ends or becomes invalid here."""


class _LenientParser:
    """Tolerant JSON reader that stops where it cannot continue."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self.broken = False  # the last value was only partly readable
        self.ended = False  # an unterminated string covers the rest of the text

    def outermost(self) -> Any:
        """Return the value here; of a broken list, also inside a broken wrapper, its complete entries; else None."""
        try:
            return self._value(1, whole=False)
        except _CutOffError:
            self.broken = True
            return None

    def _value(self, depth: int, *, whole: bool = True) -> Any:
        self._skip()
        start = self._text[self.at : self.at + 1]
        if depth > _DEEPEST:
            raise _CutOffError
        if start == "[":
            return self._list(depth, whole=whole)
        if start == "{":
            return self._object(depth, whole=whole)
        return self._string() if start == '"' else self._plain()

    def _object(self, depth: int, *, whole: bool) -> dict[str, Any]:
        """Read an object. Its last list may be broken, unless the object must be whole or is an entry."""
        found: dict[str, Any] = {}
        try:
            for key in self._keys():
                found[key] = self._value(depth + 1, whole=whole)
                whole = whole or _tells(key, found[key])
                if self.broken:
                    break
        except _CutOffError:
            self.broken = True
        if self.broken and (whole or _entries(found) is None):
            raise _CutOffError
        return found

    def _list(self, depth: int, *, whole: bool) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        try:
            while not self._closes("]"):
                found.append(self._value(depth + 1))
        except _CutOffError:
            if whole:
                raise
            self.broken = True
        return found

    def _keys(self) -> Iterator[str]:
        """Yield the keys of the object here; the caller reads each value before advancing."""
        self.at += 1
        while not self._closes("}"):
            key = self._string()
            self._skip()
            if self._text[self.at : self.at + 1] != ":":
                raise _CutOffError
            self.at += 1
            yield key

    def _closes(self, mark: str) -> bool:
        self._skip()
        closes = self._text[self.at : self.at + 1] == mark
        self.at += closes
        return closes

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self.at)
        self.at = blank.end() if blank else self.at

    def _string(self) -> str:
        found = _STRING.match(self._text, self.at)
        if not found:
            self.ended = self._text[self.at : self.at + 1] == '"'
            raise _CutOffError
        self.at = found.end()
        return _storable(_unescaped(found.group()))

    def _plain(self) -> Any:
        found = _PLAIN.match(self._text, self.at)
        if not found:
            raise _CutOffError
        self.at = found.end()
        written = found.group()
        if written in _WORDS:
            return _WORDS[written]
        return int(written) if len(written) < 19 and written.lstrip("-").isdigit() else float(written)


def _unescaped(written: str) -> str:
    try:
        return str(json.loads(written, strict=False))
    except ValueError:  # an invalid escape, as in a Windows path, is a literal backslash
        return str(json.loads(_ESCAPE.sub(lambda found: found[0] if found[1] else "\\\\", written), strict=False))


def _storable(text: str) -> str:
    """Remove NUL and lone surrogates, which escapes can produce and a store cannot hold."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()
