"""The launcher `hook` in the home: what clients' hooks call, by a path that stays when cofio is updated or moved.

It knows the Python and the script. Where they are gone, or that Python cannot start, a `cofio` on the PATH does it.
Whatever is missing or broken, it ends with 0 and says nothing. It is a POSIX shell script, as are the five named hooks:
Windows is not served.
"""

from __future__ import annotations

import os
import py_compile
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from shlex import quote

from cofio.hooks import whole

NAME = "hook"
ENTRY = Path(__file__).with_name("entry.py")
SHIMS = Path(__file__).with_name("shims")
#: The five named hooks, each a script in SHIMS.
NAMES = ("memory-recall", "memory-query", "memory-extract", "memory-flush", "memory-commit")

# Not `exec`: a Python that cannot even start would end with a code of its own. The trap: a shell that cannot fork ends
# with 2, which tells some clients to throw the prompt away.
_TEXT = """\
#!/bin/sh
# cofio's hook: CLIENT [EVENT], the client's JSON on standard input. Written by cofio, and anew whenever it starts.
trap 'exit 0' 0
[ -x {python} ] && [ -r {entry} ] && {python} -I -S {entry} --home {home} "$@" 2>/dev/null && exit 0
command -v cofio >/dev/null 2>&1 && cofio --home {home} hook "$@" 2>/dev/null
exit 0
"""


def launcher(python: str | Path, entry: str | Path, home: str | Path) -> str:
    """The text of a launcher for this Python, script and home."""
    return _TEXT.format(python=quote(str(python)), entry=quote(str(entry)), home=quote(str(home)))


def write(home: Path) -> Path | None:
    """Write the launcher into the home, if it is not there as it should be; its path, or None when it cannot be."""
    path, text = home / NAME, launcher(sys.executable, ENTRY, home)
    _compile()
    try:
        if path.is_file() and path.read_bytes() == os.fsencode(text) and os.access(path, os.X_OK):
            return path
        whole.put(path, os.fsencode(text), mode=0o755)
    except OSError:
        return None
    return path


def _compile() -> None:
    """Have the hook's modules compiled: an installer may have left that out, and a hook cannot always write there."""
    for path in ENTRY.parent.glob("*.py"):
        with suppress(OSError, py_compile.PyCompileError):
            if not Path(cache_from_source(str(path))).is_file():
                py_compile.compile(str(path), doraise=True)
