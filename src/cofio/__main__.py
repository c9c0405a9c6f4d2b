"""`cofio`, and `python -m cofio`. A hook is told by its name before anything is loaded that it can do without."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_OPTIONS = ("--home", "--store", "--url", "--api-key")  # those that have a value and may stand before a command
_ASKING = ("-h", "--help", "--version")


def main() -> NoReturn:
    """The entry point `cofio`."""
    hook = _hook(sys.argv[1:])
    if hook is not None:
        from cofio.hooks import entry

        entry.main(hook)
    from cofio import cli

    cli.main()


def _hook(argv: list[str]) -> list[str] | None:
    """The arguments of a hook; None for any other command, and for a person who asks what a hook is.

    Click would end with 2 over a wrong argument, which tells some clients to throw the prompt away.
    """
    place = 0
    while argv[place : place + 1] and argv[place].startswith("-"):
        place += 2 if argv[place] in _OPTIONS else 1
    before, after = argv[:place], argv[place + 1 :]
    if argv[place : place + 1] != ["hook"] or any(each in _ASKING for each in (*before, *after[:1])):
        return None
    if os.isatty(0) and (not after or after[-1] in _ASKING):
        return None
    return [*before, *after]


if __name__ == "__main__":
    main()
