"""The script that a client's hook runs: `python -I -S entry.py --home FOLDER CLIENT [EVENT] [JSON]`.

It ends with exit code 0, with one JSON object or nothing on stdout, with nothing on stderr, and by its deadline
(`runner`). Every prompt waits for it, so start-up time counts. Python compiles a script every time it runs: this one
is short, and the other modules are loaded from the bytecode cache. `cofio/__init__.py` is not imported, because that
costs 40 ms; only the modules in its folder are.

`python -I -S -c pass` takes 7.4 ms. Imports add, in ms: `posix`, `time`, `_thread`, `_signal` 0, `_json` 0.2,
`select` 0.4, `_socket` 0.5, our own modules 1.6, `os` 1.2, `threading` 4.8, `sqlite3` 6, `re` 6.6, `json` 8.6, `socket`
9, `dataclasses` 17.5, `http.client` 31. Other modules that cost more than 1 ms are left to the fallback.
"""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: list[str]) -> NoReturn:
    """Run the hook, and end this process with 0 in any case."""
    try:
        _hold_streams()
        from cofio.hooks import runner

        runner.run(argv)
    finally:
        posix._exit(0)


def _hold_streams() -> None:
    """Open closed standard streams, so that no other file gets descriptor 0, 1 or 2; send stderr to /dev/null."""
    for stream in (0, 1, 2):
        try:
            posix.fstat(stream)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)
    nowhere = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    posix.dup2(nowhere, 2)


if __name__ == "__main__":
    package = type(sys)("cofio")  # registered without running its __init__
    package.__path__ = [__file__.rpartition("/")[0].rpartition("/")[0] or "."]
    sys.modules["cofio"] = package
    main(sys.argv[1:])
