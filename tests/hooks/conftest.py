"""Run hooks in new processes, against listeners that misbehave in various ways."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import launcher, run_log, spool

RECALL, CAPTURE = 0.8, 0.3  # default deadlines in seconds
SLACK = 10  # tolerance factor for loaded machines


def make_context(text: str) -> dict[str, Any]:
    """Return the service's reply to a prompt."""
    block = f"<cofio-memory>\n{text}\n</cofio-memory>"
    return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": block}}


CONTEXT = make_context("We deploy with Fly.io")


def make_event(name: str, **fields: Any) -> dict[str, Any]:
    """Return the JSON that Claude Code sends for this event."""
    common = {
        "session_id": "s1",
        "prompt_id": "p1",
        "transcript_path": "/none.jsonl",
        "cwd": "/",
        "hook_event_name": name,
    }
    return {**common, **fields}


PROMPT = make_event("UserPromptSubmit", prompt="Where do we deploy the web shop?")
START = make_event("SessionStart", source="startup")
STOP = make_event("Stop", last_assistant_message="Done.", stop_hook_active=False)
END = make_event("SessionEnd", reason="other")


def hold_lock(path: Path, url: str) -> int:
    """Hold the lock of the service at this URL until the returned file is closed."""
    path.write_text(json.dumps({"pid": os.getpid(), "url": url}))
    file = os.open(path, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@dataclass
class HookResult:
    """Output and duration of a hook run that exited with 0 and printed nothing but JSON."""

    out: bytes
    seconds: float

    @property
    def reply(self) -> dict[str, Any] | None:
        return json.loads(self.out) if self.out else None


@dataclass
class Hook:
    """Runs `python -I -S entry.py --home HOME CLIENT` with a clean environment."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)
    client: str = "claude-code"
    lock: int | None = None  # file that holds the lock of the service

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(launcher.ENTRY), "--home", str(self.home), *arguments]

    def environment(self, env: dict[str, str] | None = None) -> dict[str, str]:
        return {"HOME": str(self.home.parent), "COFIO_AUTOSTART": "off", **self.env, **(env or {})}

    def __call__(
        self, event: Any, *arguments: str, env: dict[str, str] | None = None, limit: float = RECALL, **options: Any
    ) -> HookResult:
        raw = event if isinstance(event, bytes) else json.dumps(event).encode()
        return self.run(
            self.command(*(arguments or (self.client,))), raw, env=self.environment(env), limit=limit, **options
        )

    def run(self, command: list[str], raw: bytes, *, limit: float = RECALL, **options: Any) -> HookResult:
        start_time = time.monotonic()
        result = subprocess.run(command, input=raw, capture_output=True, timeout=60, check=False, **options)
        return check_result(result.returncode, result.stdout, result.stderr, time.monotonic() - start_time, limit)

    @property
    def log(self) -> list[dict[str, Any]]:
        return run_log.recent(self.home)

    @property
    def rung(self) -> str:
        return str(self.log[-1]["rung"])

    @property
    def why(self) -> str:
        return str(self.log[-1]["why"])

    @property
    def spooled(self) -> list[Any]:
        return [json.loads(entry.raw) for entry in spool.entries(self.home)]

    def set_endpoint(self, url: str, store: str = "", key: str = "") -> None:
        """Write an endpoint file for a service that has been running for a minute, and hold its lock."""
        self.home.mkdir(exist_ok=True)
        lock = self.home / "cofio.db.service"
        lines = (url, key, "800 300", store or self.home / "cofio.db", "", lock)
        (self.home / "hook.at").write_text("".join(f"{line}\n" for line in lines))
        self.set_service_age(60)
        self.release_lock()
        self.lock = hold_lock(lock, url)

    def release_lock(self) -> None:
        """Release the lock of the service, as when its process ends."""
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None

    def set_service_age(self, ago: float) -> None:
        """Set the age of the service in seconds."""
        os.utime(self.home / "hook.at", (time.time() - ago, time.time() - ago))


def check_result(code: int, out: bytes, err: bytes, seconds: float, limit: float) -> HookResult:
    """Check the exit code, output and duration of a run."""
    assert code == 0
    assert err == b""
    assert out == b"" or isinstance(json.loads(out), dict)
    assert seconds < SLACK * limit
    return HookResult(out, seconds)


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    home = tmp_path / "home"
    home.mkdir()
    hook = Hook(home)
    yield hook
    hook.release_lock()


# ── listeners ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Behaviour = Callable[[socket.socket], None]


class Listener:
    """A loopback server that reads complete requests and then follows the behaviour."""

    def __init__(self, behaviour: Behaviour, *, reads: bool = True) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self._behaviour, self._reads = behaviour, reads
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._reads:
                self.requests.append(_request(connection))
            self._behaviour(connection)
        except OSError:
            return  # the hook has disconnected

    def close(self) -> None:
        for item in (self._server, *self._open):
            item.close()


def _request(connection: socket.socket) -> tuple[str, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65_536)
    return head.decode(), body


def http(status: str, body: bytes = b"", length: int | None = None) -> bytes:
    content_length = len(body) if length is None else length
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {content_length}\r\n\r\n".encode()
        + body
    )


def reply_with(reply: bytes) -> Behaviour:
    """Send the reply and disconnect."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_WR)
        connection.close()

    return answer


def reply_with_context(context: Any = CONTEXT) -> Behaviour:
    return reply_with(http("200 OK", json.dumps(context).encode()))


def hang(_connection: socket.socket) -> None:
    """Keep the connection open without sending anything."""


def drip(connection: socket.socket) -> None:
    """Send a valid reply endlessly, one byte at a time."""
    for byte in http("200 OK", json.dumps(CONTEXT).encode() + b" " * 10_000):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


@pytest.fixture
def listen(hook: Hook) -> Iterator[Callable[..., Listener]]:
    """Yield a function that starts a listener and makes it the hook's endpoint."""
    created: list[Listener] = []

    def make_listener(behaviour: Behaviour, **options: Any) -> Listener:
        created.append(Listener(behaviour, **options))
        hook.set_endpoint(created[-1].url)
        return created[-1]

    yield make_listener
    for item in created:
        item.close()


def unused_url() -> str:
    """Return a URL that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def without_privileges() -> None:
    """Make this process obey file permissions even as root. For use as `preexec_fn`."""
    import ctypes

    if os.getuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def write_script(folder: Path, *lines: str) -> Path:
    """Write a script that executes these lines and then runs the hook."""
    path = folder / "driven.py"
    run = "import sys; from cofio.hooks import entry; entry.main(sys.argv[1:])"
    path.write_text("\n".join((*lines, run)))
    return path
