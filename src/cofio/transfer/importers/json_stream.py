"""Streaming parser for large JSON documents: a million entries are never in memory together.

Reads a list of objects, an object that contains such a list, and objects one per line, all through a sliding buffer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TextIO

from cofio.errors import InvalidInput

_CHUNK = 1 << 16  # characters
BIGGEST = 1 << 24  # characters of one entry
_BLANK = re.compile(r"[\s\ufeff]*")
_DECODER = json.JSONDecoder()


def entries(path: Path, lists: Collection[str]) -> Iterator[Any]:
    """Yield the values in the lists of these names, or of a document that is itself a list or lines."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from _SlidingWindow(file, path).documents(lists)
    except OSError as error:
        hint = "Check the path and its permissions."
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", hint) from error


class _SlidingWindow:
    """Position in a text of which only a part is in memory."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self._path = file, path
        self._text, self._at, self._ended = "", 0, False

    def documents(self, lists: Collection[str]) -> Iterator[Any]:
        while head := self._next():
            if head == "[":
                yield from self._elements()
            elif head == "{":
                yield from self._members(lists)
            else:
                self._wrong("the top level is neither a list nor an object")

    def _elements(self) -> Iterator[Any]:
        """Yield the values of a list, up to its closing bracket."""
        self._take("[")
        while self._next() != "]":
            yield self._value()
            if self._next() != "]":
                self._take(",")
        self._take("]")

    def _members(self, lists: Collection[str]) -> Iterator[Any]:
        """Yield the values of an object's lists of these names; the object itself if it has no such list."""
        self._take("{")
        members: dict[str, Any] = {}
        has_list = False
        while self._next() != "}":
            name = self._value()
            self._take(":")
            if name in lists and self._next() == "[":
                has_list = True
                yield from self._elements()
            elif self._next() == "[" and has_list:
                for _ in self._elements():  # not the entries, but possibly as long: skipped
                    pass
            else:
                members[str(name)] = self._value()
            if self._next() != "}":
                self._take(",")
        self._take("}")
        if not has_list:
            yield members

    def _value(self) -> Any:
        """Return the value that begins here. If the buffer ends before it, read twice as much and try again."""
        self._next()
        more = _CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                self._wrong("a value is nested too deeply")
            except json.JSONDecodeError as error:
                if self._ended:
                    self._wrong(error.msg)
            except ValueError:  # a number of thousands of digits
                self._wrong("a number is too long")
            else:
                if end < len(self._text) or self._ended:  # a number could continue
                    self._at = end
                    return value
            if len(self._text) - self._at > BIGGEST:
                self._wrong(f"an entry is longer than {BIGGEST >> 20} million characters")
            self._read(more)
            more *= 2

    def _next(self) -> str:
        """Return the next character that is not white space; "" at the end."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            self._at = blank.end() if blank else self._at
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read(_CHUNK)

    def _take(self, mark: str) -> None:
        if self._next() != mark:
            self._wrong(f"{mark!r} is missing")
        self._at += 1

    def _read(self, length: int) -> None:
        chunk = self._file.read(length)
        self._text, self._at, self._ended = self._text[self._at :] + chunk, 0, not chunk

    def _wrong(self, problem: str) -> None:
        near = self._text[self._at : self._at + 40]
        hint = "Give the unchanged JSON file that the tool wrote."
        raise InvalidInput(f"{self._path} cannot be parsed: {problem}, near {near!r}.", hint)
