"""The script that a client's hook runs: `python -I -S entry.py --home FOLDER CLIENT [EVENT] [JSON]`.

It ends with exit code 0, with one JSON object on stdout or nothing, with nothing on stderr, and by its deadline
(`delivery`). Every prompt waits for it, so its start counts. Python compiles a script anew each time that it is run:
this one is short, and the modules that do the work come compiled from their cache. `cofio` itself is not imported, only
what lies in its folder: the package's own front door costs forty milliseconds.

Where `python -I -S -c pass` takes 7.4 ms, an import adds: `posix`, `time`, `_thread`, `_signal` 0, `_json` 0.2,
`select` 0.4, `_socket` 0.5, our own modules 1.6, `os` 1.2, `threading` 4.8, `sqlite3` 6, `re` 6.6, `json` 8.6, `socket`
9, `dataclasses` 17.5, `http.client` 31. What costs more than one is left to a run that has to fall back.
"""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: list[str]) -> NoReturn:
    """Run the hook, and end this process with 0 whatever happens."""
    try:
        _hold_streams()
        from cofio.hooks import delivery

        delivery.run(argv)
    finally:
        posix._exit(0)


def _hold_streams() -> None:
    """Have 0, 1 and 2 be open, so that no file of ours comes to be what is printed to; and 2 lead nowhere."""
    for stream in (0, 1, 2):
        try:
            posix.fstat(stream)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)
    nowhere = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    posix.dup2(nowhere, 2)


def _stand_in(folder: str) -> None:
    """Have `cofio` be a package in this folder, without running what is in its __init__."""
    package = type(sys)("cofio")
    package.__path__ = [folder]
    sys.modules["cofio"] = package


if __name__ == "__main__":
    _stand_in(__file__.rpartition("/")[0].rpartition("/")[0] or ".")
    main(sys.argv[1:])
