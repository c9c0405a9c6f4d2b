"""The hook as a client runs it, in a process of its own; and listeners that behave as badly as a service can."""

from __future__ import annotations

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

RECALL, CAPTURE = 0.8, 0.3  # seconds: the usual deadlines
SLACK = 10  # no machine is so busy

CONTEXT = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "We deploy with Fly.io"}}


def said(name: str, **more: Any) -> dict[str, Any]:
    """What Claude Code sends at this event."""
    common = {
        "session_id": "s1",
        "prompt_id": "p1",
        "transcript_path": "/none.jsonl",
        "cwd": "/",
        "hook_event_name": name,
    }
    return {**common, **more}


PROMPT = said("UserPromptSubmit", prompt="Where do we deploy the web shop?")
START = said("SessionStart", source="startup")
STOP = said("Stop", last_assistant_message="Done.", stop_hook_active=False)
END = said("SessionEnd", reason="other")


@dataclass
class Done:
    """How a run ended. That it ended with 0, and said nothing that is no JSON object, has been seen to."""

    out: bytes
    seconds: float

    @property
    def told(self) -> dict[str, Any] | None:
        return json.loads(self.out) if self.out else None


@dataclass
class Hook:
    """`python -I -S entry.py --home HOME CLIENT`, with nothing in its environment that was not put there."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)
    client: str = "claude-code"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(launcher.ENTRY), "--home", str(self.home), *arguments]

    def around(self, env: dict[str, str] | None = None) -> dict[str, str]:
        return {"HOME": str(self.home.parent), "COFIO_AUTOSTART": "off", **self.env, **(env or {})}

    def __call__(
        self, given: Any, *arguments: str, env: dict[str, str] | None = None, limit: float = RECALL, **how: Any
    ) -> Done:
        raw = given if isinstance(given, bytes) else json.dumps(given).encode()
        return self.run(self.command(*(arguments or (self.client,))), raw, env=self.around(env), limit=limit, **how)

    def run(self, command: list[str], raw: bytes, *, limit: float = RECALL, **how: Any) -> Done:
        started = time.monotonic()
        done = subprocess.run(command, input=raw, capture_output=True, timeout=60, check=False, **how)
        return checked(done.returncode, done.stdout, done.stderr, time.monotonic() - started, limit)

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

    def finds(self, url: str, store: str = "", key: str = "") -> None:
        """Have the service be there, as far as `hook.at` says, for a minute."""
        self.home.mkdir(exist_ok=True)
        (self.home / "hook.at").write_text(f"{url}\n{key}\n800 300\n{store or self.home / 'cofio.db'}\n")
        self.started(60)

    def started(self, ago: float) -> None:
        """Have the service be so many seconds old."""
        os.utime(self.home / "hook.at", (time.time() - ago, time.time() - ago))


def checked(code: int, out: bytes, err: bytes, seconds: float, limit: float) -> Done:
    """What every run must keep to, whatever happens."""
    assert code == 0
    assert err == b""
    assert out == b"" or isinstance(json.loads(out), dict)
    assert seconds < SLACK * limit
    return Done(out, seconds)


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    home = tmp_path / "home"
    home.mkdir()
    return Hook(home)


# ── who listens ───────────────────────────────────────────────────────────────────────────────────────────────────────

Behaviour = Callable[[socket.socket], None]


class Listener:
    """A loopback server that takes requests whole and then does as it was told to."""

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
            return  # the hook has hung up

    def close(self) -> None:
        for each in (self._server, *self._open):
            each.close()


def _request(connection: socket.socket) -> tuple[str, bytes]:
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += connection.recv(65_536)
    head, _, body = heard.partition(b"\r\n\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65_536)
    return head.decode(), body


def http(status: str, body: bytes = b"", length: int | None = None) -> bytes:
    told = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {told}\r\n\r\n".encode() + body


def answers(reply: bytes) -> Behaviour:
    """Sends this and hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_WR)
        connection.close()

    return answer


def tells(context: Any = CONTEXT) -> Behaviour:
    return answers(http("200 OK", json.dumps(context).encode()))


def hangs(_connection: socket.socket) -> None:
    """Keeps the connection, and never says a word."""


def drips(connection: socket.socket) -> None:
    """Sends a good reply so slowly that it never ends, but always something."""
    for byte in http("200 OK", json.dumps(CONTEXT).encode() + b" " * 10_000):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


@pytest.fixture
def listening(hook: Hook) -> Iterator[Callable[..., Listener]]:
    """Makes a listener that the hook finds."""
    made: list[Listener] = []

    def make(behaviour: Behaviour, **how: Any) -> Listener:
        made.append(Listener(behaviour, **how))
        hook.finds(made[-1].url)
        return made[-1]

    yield make
    for each in made:
        each.close()


def unused_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def without_privileges() -> None:
    """Have this process, though it be root's, obey permissions: as a `preexec_fn`."""
    import ctypes

    if os.getuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def driven(folder: Path, *lines: str) -> Path:
    """A script that does this and then runs the hook: some things happen on bad days alone."""
    path = folder / "driven.py"
    run = "import sys; from cofio.hooks import entry; entry.main(sys.argv[1:])"
    path.write_text("\n".join((*lines, run)))
    return path
