"""Key of a home: the service of that home accepts it as the owner's, and its own clients send it by themselves.

COFIO_HOME/service.key   32 random bytes in URL-safe base64; readable by its owner only
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from cofio.errors import StoreError

NAME = "service.key"
_BYTES = 32
_log = logging.getLogger(__name__)


def load_or_create(home: Path) -> str:
    """Return the key of the home, which is created by the first service. A key that others could read is replaced."""
    home = home.expanduser()
    path = home / NAME
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if problem := find_problem(home):
            _log.warning("%s A new key replaces it.", problem)
            path.unlink()
        with suppress(FileExistsError):
            _create(path)
        return read(home)
    except OSError as error:
        hint = "Check the permissions of the home, or set COFIO_HOME."
        raise StoreError(f"{path} cannot be used: {error.strerror}.", hint) from error


def read(home: Path) -> str:
    """Return the key of the home; "" if it has none that can be read."""
    try:
        return (home / NAME).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""


def find_problem(home: Path) -> str:
    """Return why the key of the home cannot be trusted; "" if it can, or does not exist."""
    path = home / NAME
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return f"{path} is not a file of this user."
    if status.st_mode & 0o077:
        return f"{path} can be read by others."
    return "" if len(read(home)) >= _BYTES else f"{path} contains no key."


def _create(path: Path) -> None:
    """Write a new key, all of it or nothing. Raise FileExistsError if there is one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # with the mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
    finally:
        Path(name).unlink()
