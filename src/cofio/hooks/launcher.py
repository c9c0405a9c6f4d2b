"""The launcher `hook` in the home: the path that clients' hooks call, stable when cofio is updated or moved.

It runs this Python with the hook script. If that fails, it runs a `cofio` on the PATH. It always exits with 0 and
prints nothing on errors. It is a POSIX shell script, as are the five named hooks: Windows is not supported.
"""

from __future__ import annotations

import os
import py_compile
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from shlex import quote

from cofio.hooks import atomic_write

NAME = "hook"
ENTRY = Path(__file__).with_name("entry.py")
SHIMS = Path(__file__).with_name("shims")
#: The five named hooks, each a script in SHIMS.
NAMES = ("memory-recall", "memory-query", "memory-extract", "memory-flush", "memory-commit")

# Not `exec`: a Python that cannot start would end with its own exit code. The trap: a shell that cannot fork exits with
# 2, which makes some clients discard the prompt.
_TEXT = """\
#!/bin/sh
# cofio's hook: CLIENT [EVENT], the client's JSON on standard input. Written by cofio whenever its service starts.
trap 'exit 0' 0
[ -x {python} ] && [ -r {entry} ] && {python} -I -S {entry} --home {home} "$@" 2>/dev/null && exit 0
command -v cofio >/dev/null 2>&1 && cofio --home {home} hook "$@" 2>/dev/null
exit 0
"""


def launcher(python: str | Path, entry: str | Path, home: str | Path) -> str:
    """Return the text of a launcher for this Python, script and home."""
    return _TEXT.format(python=quote(str(python)), entry=quote(str(entry)), home=quote(str(home)))


def write(home: Path) -> Path | None:
    """Write the launcher into the home unless it is up to date; return its path, or None if it cannot be written."""
    for module in ENTRY.parent.glob("*.py"):  # an installer may have skipped this, and a hook cannot always write it
        with suppress(OSError, py_compile.PyCompileError):
            if not Path(cache_from_source(str(module))).is_file():
                py_compile.compile(str(module), doraise=True)
    path, text = home / NAME, launcher(sys.executable, ENTRY, home)
    try:
        if path.is_file() and path.read_bytes() == os.fsencode(text) and os.access(path, os.X_OK):
            return path
        atomic_write.write_atomic(path, os.fsencode(text), mode=0o755)
    except OSError:
        return None
    return path
