"""Entry point of `cofio` and `python -m cofio`. A hook command is detected before any slow import."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_OPTIONS = ("--home", "--store", "--url", "--api-key")  # options with a value, allowed before a command
_ASKING = ("-h", "--help", "--version")


def main() -> NoReturn:
    """Run a hook or the command line."""
    hook = _parse_hook(sys.argv[1:])
    if hook is not None:
        from cofio.hooks import entry

        entry.main(hook)
    from cofio import cli

    cli.main()


def _parse_hook(argv: list[str]) -> list[str] | None:
    """Return the arguments of a hook; None for any other command, and for a user who asks for the help of `hook`.

    Click would exit with 2 on a wrong argument, which makes some clients discard the prompt.
    """
    place = 0
    while argv[place : place + 1] and argv[place].startswith("-"):
        place += 2 if argv[place] in _OPTIONS else 1
    before, after = argv[:place], argv[place + 1 :]
    if argv[place : place + 1] != ["hook"] or any(word in _ASKING for word in (*before, *after[:1])):
        return None
    if os.isatty(0) and (not after or after[-1] in _ASKING):
        return None
    return [*before, *after]


if __name__ == "__main__":
    main()
