"""Environment of a hook: variables, `hook.at` in the home, or config.toml if no service wrote that file.

No other module of the hook reads any of them. On the fast path: `posix` and bytes only.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RECALL_MS, CAPTURE_MS = 800, 300
_LEAST_MS, _MOST_MS = 50, 10_000
_OFF = ("off", "0", "no", "false")


class HookEnvironment:
    """Settings of a hook run: home, service address, deadlines, and the working folder of the agent."""

    def __init__(self, home: str = "", options: Mapping[str, str] | None = None) -> None:
        """Read the environment. `options` from the command line (--url, --api-key, --store) win over variables."""
        self.variables = posix.environ
        self.user = user_folder()
        raw = home.encode("utf-8", "surrogateescape") or posix.environ.get(b"COFIO_HOME", b"")
        self.home = _expand(raw, self.user)
        if not self.home and self.user:
            self.home = self.user + b"/.cofio"
        self.off = variable("COFIO_HOOKS").lower() in _OFF
        self.may_start = variable("COFIO_AUTOSTART").lower() not in _OFF
        self.project = variable("COFIO_PROJECT")
        self.folder = posix.environ.get(b"CLAUDE_PROJECT_DIR") or posix.environ.get(b"CURSOR_PROJECT_DIR", b"")

        # A URL from a variable is remote: never start it, never use local files for it.
        options = options or {}
        lines = read(self.home + b"/hook.at").decode("utf-8", "replace").split("\n") + [""] * 6
        url, key, times, store, self.start_tokens, self.lock = lines[:6]
        given_url = (options.get("--url") or variable("COFIO_URL", "FAISS_URL")).rstrip("/")
        if not given_url and not url:
            values = configured(self.home)
            url, key = (str(values.get(name) or "").rstrip("/") for name in ("url", "api_key"))
        is_known = not given_url or normalize_url(given_url) == normalize_url(url)
        self.url = given_url or url
        self.key = options.get("--api-key") or variable("COFIO_API_KEY", "FAISS_API_KEY") or (key if is_known else "")
        self.elsewhere = bool(self.url) and not (is_known and store)
        #: True if this hook has to deliver the spool; a service of this home collects it by itself.
        self.delivers = self.elsewhere and not store
        self.store = "" if self.elsewhere else options.get("--store") or store or variable("COFIO_STORE")
        recall, _, capture = times.partition(" ")
        self.recall = _parse_seconds(variable("COFIO_HOOK_RECALL_TIMEOUT_MS"), recall, RECALL_MS)
        self.capture = _parse_seconds(variable("COFIO_HOOK_CAPTURE_TIMEOUT_MS"), capture, CAPTURE_MS)


def configured(home: bytes) -> Mapping[str, Any]:
    """Return the contents of config.toml; empty if it is missing or broken."""
    content = read(home + b"/config.toml")
    if not content:
        return {}
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError:
        return {}


def variable(*names: str) -> str:
    """Return the value of the first variable that is not empty."""
    for name in names:
        if value := posix.environ.get(name.encode(), b"").strip():
            return value.decode("utf-8", "replace")
    return ""


def user_folder() -> bytes:
    """Return the home folder of the current user; b"" if there is none."""
    if (path := posix.environ.get(b"HOME", b"")).startswith(b"/"):
        return path.rstrip(b"/") or b"/"
    import pwd

    try:
        path = pwd.getpwuid(posix.getuid()).pw_dir.encode("utf-8", "surrogateescape")
    except (KeyError, OSError):
        return b""
    return path.rstrip(b"/") or b"/" if path.startswith(b"/") else b""


def read(path: bytes, most: int = 65_536) -> bytes:
    """Return the beginning of a small file; b"" if it cannot be read."""
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


def _expand(path: bytes, user: bytes) -> bytes:
    if path == b"~" or path.startswith(b"~/"):
        path = user + path[1:] if user else b""
    if path and not path.startswith(b"/"):
        try:
            path = posix.getcwdb() + b"/" + path
        except OSError:
            return b""
    return path


def normalize_url(url: str) -> str:
    """Return the URL in the form in which two are compared."""
    return url.rstrip("/").replace("://localhost", "://127.0.0.1")


def _parse_seconds(from_variable: str, from_file: str, usual: int) -> float:
    for value in (from_variable, from_file):
        if value.isascii() and value.isdigit():
            return max(_LEAST_MS, min(_MOST_MS, int(value))) / 1000
    return usual / 1000
