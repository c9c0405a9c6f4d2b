"""What a hook finds around it: its variables, and `hook.at` in the home. The only module here that reads either.

On the fast path: `posix` and bytes; no other module of ours.
"""

from __future__ import annotations

import posix

RECALL_MS, CAPTURE_MS = 800, 300
_LEAST_MS, _MOST_MS = 50, 10_000
_OFF = ("off", "0", "no", "false")


class Around:
    """Where the home is, whom to ask and for how long, and where in the file tree the agent is at work."""

    def __init__(self, home: str = "") -> None:
        self.variables = posix.environ
        self.user = user_folder()
        told = home.encode("utf-8", "surrogateescape") or posix.environ.get(b"COFIO_HOME", b"")
        self.home = _expanded(told, self.user)
        if not self.home and self.user:
            self.home = self.user + b"/.cofio"
        self.off = variable("COFIO_HOOKS").lower() in _OFF
        self.may_start = variable("COFIO_AUTOSTART").lower() not in _OFF
        self.project = variable("COFIO_PROJECT")
        self.folder = posix.environ.get(b"CLAUDE_PROJECT_DIR") or posix.environ.get(b"CURSOR_PROJECT_DIR", b"")
        self._ask()

    def _ask(self) -> None:
        """Whom to ask. A service that a variable names is another's: it is not started, and no file of ours is its."""
        url, key, times, store = (read(self.home + b"/hook.at").decode("utf-8", "replace").split("\n") + [""] * 4)[:4]
        named = variable("COFIO_URL", "FAISS_URL").rstrip("/")
        known = not named or named == url.rstrip("/")
        self.url = named or url
        self.key = variable("COFIO_API_KEY", "FAISS_API_KEY") or (key if known else "")
        self.elsewhere = bool(self.url) and not (known and store)
        self.store = "" if self.elsewhere else store or variable("COFIO_STORE")
        recall, _, capture = times.partition(" ")
        self.recall = _seconds(variable("COFIO_HOOK_RECALL_MS"), recall, RECALL_MS)
        self.capture = _seconds(variable("COFIO_HOOK_CAPTURE_MS"), capture, CAPTURE_MS)


def variable(*names: str) -> str:
    """The first of these variables that is set to something."""
    for name in names:
        if value := posix.environ.get(name.encode(), b"").strip():
            return value.decode("utf-8", "replace")
    return ""


def user_folder() -> bytes:
    """The home folder of whoever runs this; b"" for somebody without one."""
    if (told := posix.environ.get(b"HOME", b"")).startswith(b"/"):
        return told.rstrip(b"/") or b"/"
    import pwd

    try:
        told = pwd.getpwuid(posix.getuid()).pw_dir.encode("utf-8", "surrogateescape")
    except (KeyError, OSError):
        return b""
    return told.rstrip(b"/") or b"/" if told.startswith(b"/") else b""


def read(path: bytes, most: int = 65_536) -> bytes:
    """A small file; b"" when it cannot be read."""
    try:
        file = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return posix.read(file, most)
    except OSError:
        return b""
    finally:
        posix.close(file)


def _expanded(path: bytes, user: bytes) -> bytes:
    if path == b"~" or path.startswith(b"~/"):
        path = user + path[1:] if user else b""
    if path and not path.startswith(b"/"):
        try:
            path = posix.getcwdb() + b"/" + path
        except OSError:
            return b""
    return path


def _seconds(told: str, written: str, usual: int) -> float:
    for each in (told, written):
        if each.isascii() and each.isdigit():
            return max(_LEAST_MS, min(_MOST_MS, int(each))) / 1000
    return usual / 1000
