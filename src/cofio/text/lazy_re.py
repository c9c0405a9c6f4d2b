"""Lazily compiled regular expressions.

There are hundreds, and a command uses few; compiling all of them would be a large part of its start-up time.
"""

from __future__ import annotations

import re
from typing import Any, cast

_all: list[_LazyPattern] = []


def compile(pattern: str, flags: int = 0) -> re.Pattern[str]:  # noqa: A001 - same interface as re.compile
    """Return a lazy `re.Pattern`, compiled on first use. A syntax error is raised then."""
    lazy = _LazyPattern(pattern, flags)
    _all.append(lazy)
    return cast("re.Pattern[str]", lazy)


def compile_all() -> None:
    """Compile all patterns that are not compiled yet, to keep the delay out of the first request."""
    for lazy in _all:
        lazy.search  # noqa: B018 - the access compiles it


class _LazyPattern:
    """Lazy proxy for `re.Pattern`. Methods are cached on the proxy after first access."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if "_made" not in self.__dict__:
            self._made = re.compile(*self._given)
        value = getattr(self._made, name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"lazy_re.compile({self._given[0]!r})"
