"""Patterns of secrets, read from data: `vendor_tokens.txt` has a row per kind of token, `patterns.toml` the others."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from cofio.text import lazy_re

_FOLDER = __file__.rpartition("/")[0]
_COLUMNS = re.compile(r" {2,}")
_MACRO = re.compile(r"%([a-z]|U)")
_MACROS = {
    "a": "[A-Za-z0-9]", "l": "[a-z0-9]", "U": "[A-Z0-9]", "x": "[0-9a-f]", "u": "[A-Za-z0-9_-]", "b": "[A-Za-z0-9+/]",
    "i": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "e": "(?![A-Za-z0-9])",
}  # fmt: skip
#: Start of a token: the start of a word, or what follows an escaped line break.
_START, _START_OF_BASE64 = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))", "(?<![A-Za-z0-9+/])"


class TokenPattern(NamedTuple):
    """Kind of token: its hints, and the pattern of its extent (the last group, or the whole match)."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    needs: tuple[str, ...]  # classes of characters that the token must have
    example: str
    near_miss: str


def _read(name: str) -> str:
    with open(f"{_FOLDER}/{name}", encoding="utf-8") as file:  # noqa: PTH123 (hooks do without pathlib, which is slow)
        return file.read()


def _read_tokens() -> tuple[TokenPattern, ...]:
    lines = _read("vendor_tokens.txt").splitlines()
    return tuple(_parse_token(*_COLUMNS.split(line)) for line in lines if line and not line.startswith("#"))


def _parse_token(kind: str, hints: str, shape: str, example: str, near_miss: str) -> TokenPattern:
    needs = {"": (), "~": ("[A-Za-z]", "[0-9]"), "~~": ("[a-z]", "[A-Z]", "[0-9]")}[kind[len(kind.rstrip("~")) :]]
    first = shape.lstrip("(?:[")[:1]
    start = _START_OF_BASE64 if shape.startswith("%b") else _START if first.isalnum() or first == "%" else ""
    pattern = start + _MACRO.sub(lambda macro: _MACROS.get(macro[1], macro[0]), shape)
    return TokenPattern(kind.rstrip("~"), tuple(hints.split(" ")), lazy_re.compile(pattern), needs, example, near_miss)


def _compile(row: Mapping[str, Any]) -> re.Pattern[str]:
    return lazy_re.compile("".join(row["pattern"]))


#: The rows of patterns.toml: each pattern by its name, with its example.
ROWS: Mapping[str, Any] = tomllib.loads(_read("patterns.toml"))["pattern"]
PATTERNS: Mapping[str, re.Pattern[str]] = {name: _compile(row) for name, row in ROWS.items()}
TOKENS = _read_tokens()
