"""Regular expressions that are compiled when they are first used.

There are hundreds of them, and a command uses few: to compile them all would be a good part of its start.
"""

from __future__ import annotations

import re
from typing import Any, cast

_all: list[_Late] = []


def compile(pattern: str, flags: int = 0) -> re.Pattern[str]:  # noqa: A001 - it takes the place of that of `re`
    """What `re.compile` makes of it, made at the first use. An error in it is raised then."""
    late = _Late(pattern, flags)
    _all.append(late)
    return cast("re.Pattern[str]", late)


def compile_all() -> None:
    """Compile what nobody has used yet, so that the first who does waits for nothing."""
    for late in _all:
        late.search  # noqa: B018 - to ask for it is enough


class _Late:
    """Stands for a compiled expression. What was asked of it once it has itself, and is as fast as the real one."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if "_made" not in self.__dict__:
            self._made = re.compile(*self._given)
        found = getattr(self._made, name)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return f"late.compile({self._given[0]!r})"
