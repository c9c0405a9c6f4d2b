"""Patterns of secrets, read from `patterns.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cofio.text import lazy_re


class TokenPattern(NamedTuple):
    """Kind of token: its hints, and the pattern of its extent (the last group, or the whole match)."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    mixed: bool  # require letters and digits: the prefix alone proves little


def read_rows() -> Mapping[str, Any]:
    """Return the rows of the file: `token` is a list, `pattern` has each pattern by its name."""
    return tomllib.loads(Path(__file__).with_name("patterns.toml").read_text(encoding="utf-8"))


def _compile(row: Mapping[str, Any]) -> re.Pattern[str]:
    return lazy_re.compile("".join(row["pattern"]))


_ROWS = read_rows()
TOKENS = tuple(
    TokenPattern(row["kind"], tuple(row["hints"]), _compile(row), row.get("mixed", False)) for row in _ROWS["token"]
)
PATTERNS: Mapping[str, re.Pattern[str]] = {name: _compile(row) for name, row in _ROWS["pattern"].items()}
