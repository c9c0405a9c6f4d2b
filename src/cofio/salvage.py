"""What a model meant by its reply: the JSON array in it, however it is wrapped, talked about or cut off.

Nothing to be found and an empty array are two answers. Somebody who takes the one for the other loses what was said and
never hears of it.

Part of the words: pure functions over str. The time is linear in the text, and nothing in it makes them raise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from cofio import late

_DEEPEST = 24  # lists and objects inside each other; whatever is deeper is no reply of a model's
#: An object with one of these, as a plain value, is an entry; any other one is a wrapper around the entries.
_OF_AN_ENTRY = frozenset({"text", "fact", "fact_index", "content", "action"})
_LISTS_OF_AN_ENTRY = frozenset({"entities", "tags"})

_BLANK = late.compile(r"[\s,]*+")  # a comma too many, or one too few, hides nothing
_STRING = late.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_PLAIN = late.compile(
    r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|(?:true|false|null|True|False|None|NaN|-?Infinity)\b"
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_WORDS |= dict.fromkeys(("NaN", "Infinity", "-Infinity"))  # no numbers to reckon with
_OPENING = late.compile(r"[\[{]")
_ESCAPE = late.compile(r"\\(?:([\"\\/bfnrt]|u[0-9a-fA-F]{4})|)")
_THOUGHTS = late.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT = late.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


class Reply(NamedTuple):
    """What could be read of a reply: the entries, None when there are none to be found, and whether it was all."""

    entries: list[Any] | None
    whole: bool = True


def array(text: str) -> list[Any] | None:
    """The entries of the array that the reply means, whole ones only; None when there is none to be found."""
    return read(text).entries


def read(text: str) -> Reply:
    """The array that the reply means.

    Of several the one with the most texts and objects is meant, and of equals the last. Objects that stand on their
    own, one a line or amid prose, are an array too.
    """
    pieces = _pieces(_after_thinking(text))
    best = max(reversed(pieces), key=_worth, default=Reply(None))
    if best.entries and _worth(best):
        return best
    return Reply([]) if any(piece.entries == [] for piece in pieces) else Reply(None)


def _worth(piece: Reply) -> int:
    return sum(isinstance(each, dict | str) for each in piece.entries or ())


def _after_thinking(text: str) -> str:
    """The reply without what a reasoning model says to itself first. Thoughts without an end are all there is."""
    if text.lstrip()[:1] in ("[", "{", "`"):
        return text
    if _THOUGHTS.match(text):
        ends = _THOUGHT.search(text)
        return text[ends.end() :] if ends else ""
    return _THOUGHT.split(text)[-1]  # some open their thoughts in the prompt, and only close them here


def _pieces(text: str) -> list[Reply]:
    """Every array in the text; what stands loose, or was saved from a broken one, is gathered with its neighbours."""
    reader = _Reader(text)
    pieces: list[Reply] = []
    loose: list[Any] = []
    all_of_it = True
    while (opening := _OPENING.search(text, reader.at)) and not reader.ended:
        reader.at, reader.broken = opening.start(), False
        value = reader.outermost()
        entries = _entries(value)
        if reader.broken or _is_entry(value):
            loose += entries or []
            all_of_it &= not reader.broken or (opening.group() == "[" and not entries)  # prose has brackets too
        elif entries is not None:
            pieces.append(Reply(entries))
    return [*pieces, Reply(loose, all_of_it)] if loose else pieces


def _entries(value: Any) -> list[Any] | None:
    """The entries that a value holds: its own, those of the list or the object in a wrapper, or itself."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if _is_entry(value):
        return [value]
    lists = [inner for key, inner in value.items() if isinstance(inner, list) and key not in _LISTS_OF_AN_ENTRY]
    if lists:
        return max(lists, key=lambda entries: sum(isinstance(each, dict) for each in entries))
    return next((_entries(inner) for inner in value.values() if isinstance(inner, dict)), None)


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and any(_tells(key, inner) for key, inner in value.items())


def _tells(key: str, inner: Any) -> bool:
    return key in _OF_AN_ENTRY and not isinstance(inner, dict | list)


class _CutOffError(Exception):
    """Here the JSON ends, or is none any more."""


class _Reader:
    """Reads JSON from where it stands, forgiving; leaves off where it cannot go on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self.broken = False  # the last value is what could be saved of it
        self.ended = False  # a string runs to the end: whatever comes after is inside of it

    def outermost(self) -> Any:
        """The value here. Of a broken list, or of one in a broken wrapper, its whole entries; None of anything else."""
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
        """An object. Unless it must be whole, or is an entry, which is all or nothing, its last list may be broken."""
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
        """The keys of the object here; the value of each is to be read before the next one is asked for."""
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
    except ValueError:  # a backslash that escapes nothing, as in a Windows path, is meant as one
        return str(json.loads(_ESCAPE.sub(lambda found: found[0] if found[1] else "\\\\", written), strict=False))


def _storable(text: str) -> str:
    """The text without NUL and halves of surrogate pairs, which an escape can bring and nothing can keep."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()
