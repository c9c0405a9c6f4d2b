"""`cofio`, and `python -m cofio`. A hook is told by its name before anything is loaded that it can do without."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


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
    home: list[str] = []
    if argv[:1] == ["--home"] and len(argv) > 1:
        home, argv = argv[:2], argv[2:]
    if argv[:1] != ["hook"] or argv[1:2] in (["-h"], ["--help"]) or (len(argv) == 1 and os.isatty(0)):
        return None
    return [*home, *argv[1:]]


if __name__ == "__main__":
    main()
