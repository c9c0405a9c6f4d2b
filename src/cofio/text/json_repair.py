"""Tolerant extraction of the JSON array from a model's reply, even if wrapped, commented or truncated.

"No array found" and "empty array" are different results: confusing them would silently lose facts.

Pure functions over str, linear in the length of the text, that never raise.
"""

from __future__ import annotations

import json
import re
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


def parse_reply(text: str) -> ParsedReply:
    """Parse the array in the reply; standalone objects, one per line or within prose, count as an array too.

    Of several arrays, the one with the most strings and objects is used; of equals the last.
    """
    pieces = _find_pieces(_strip_thinking(text))
    best = max(reversed(pieces), key=_score, default=ParsedReply(None))
    if best.entries and _score(best):
        return best
    return ParsedReply([]) if any(piece.entries == [] for piece in pieces) else ParsedReply(None)


def _score(piece: ParsedReply) -> int:
    return sum(isinstance(entry, dict | str) for entry in piece.entries or ())


def _strip_thinking(text: str) -> str:
    """Return the reply without the reasoning at its start; "" if the reasoning does not end."""
    if text.lstrip()[:1] in ("[", "{", "`"):
        return text
    if _THOUGHTS.match(text):
        ends = _THOUGHT.search(text)
        return text[ends.end() :] if ends else ""
    return _THOUGHT.split(text)[-1]  # some models only emit the closing tag


def _find_pieces(text: str) -> list[ParsedReply]:
    """Return every array in the text; standalone objects and entries of broken arrays are collected into one."""
    reader = _LenientParser(text)
    pieces: list[ParsedReply] = []
    loose: list[Any] = []
    all_of_it = True
    while (opening := _OPENING.search(text, reader.at)) and not reader.ended:
        reader.at, reader.broken = opening.start(), False
        value = reader.outermost()
        entries = _find_entries(value)
        if reader.broken or _is_entry(value):
            loose += entries or []
            all_of_it &= not reader.broken or (opening.group() == "[" and not entries)  # a bracket in prose
        elif entries is not None:
            pieces.append(ParsedReply(entries))
    return [*pieces, ParsedReply(loose, all_of_it)] if loose else pieces


def _find_entries(value: Any) -> list[Any] | None:
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
    return next((_find_entries(inner) for inner in value.values() if isinstance(inner, dict)), None)


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and any(
        key in _OF_AN_ENTRY and not isinstance(inner, dict | list) for key, inner in value.items()
    )


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
            return self._read_value(1, whole=False)
        except _CutOffError:
            self.broken = True
            return None

    def _read_value(self, depth: int, *, whole: bool = True) -> Any:
        start = self._peek()
        if depth > _DEEPEST:
            raise _CutOffError
        if start == "[":
            return self._read_list(depth, whole=whole)
        if start == "{":
            return self._read_object(depth, whole=whole)
        return self._read_string() if start == '"' else self._read_plain()

    def _read_object(self, depth: int, *, whole: bool) -> dict[str, Any]:
        """Read an object. Its last list may be broken, unless the object must be whole or is an entry."""
        values: dict[str, Any] = {}
        self.at += 1
        try:
            while not self.broken and not self._closes("}"):
                key = self._read_string()
                if self._peek() != ":":
                    raise _CutOffError
                self.at += 1
                values[key] = self._read_value(depth + 1, whole=whole)
                whole = whole or _is_entry({key: values[key]})
        except _CutOffError:
            self.broken = True
        if self.broken and (whole or _find_entries(values) is None):
            raise _CutOffError
        return values

    def _read_list(self, depth: int, *, whole: bool) -> list[Any]:
        items: list[Any] = []
        self.at += 1
        try:
            while not self._closes("]"):
                items.append(self._read_value(depth + 1))
        except _CutOffError:
            if whole:
                raise
            self.broken = True
        return items

    def _closes(self, mark: str) -> bool:
        closes = self._peek() == mark
        self.at += closes
        return closes

    def _peek(self) -> str:
        """Return the next sign that is not blank; "" at the end."""
        blank = _BLANK.match(self._text, self.at)
        self.at = blank.end() if blank else self.at
        return self._text[self.at : self.at + 1]

    def _read_string(self) -> str:
        match = _STRING.match(self._text, self.at)
        if not match:
            self.ended = self._text[self.at : self.at + 1] == '"'
            raise _CutOffError
        self.at = match.end()
        try:
            text = str(json.loads(match[0], strict=False))
        except ValueError:  # an invalid escape, as in a Windows path, is a literal backslash
            escaped = _ESCAPE.sub(lambda escape: escape[0] if escape[1] else "\\\\", match[0])
            text = str(json.loads(escaped, strict=False))
        # Escapes can produce NUL and lone surrogates, which a store cannot hold.
        return text.replace("\x00", "").encode("utf-8", "ignore").decode()

    def _read_plain(self) -> Any:
        match = _PLAIN.match(self._text, self.at)
        if not match:
            raise _CutOffError
        self.at = match.end()
        literal = match.group()
        if literal in _WORDS:
            return _WORDS[literal]
        return int(literal) if len(literal) < 19 and literal.lstrip("-").isdigit() else float(literal)
