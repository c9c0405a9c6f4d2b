"""Child process with llama.cpp's server, and a model wrapper that records every call."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from cofio.errors import CofioError, Unavailable
from cofio.models.exchange import TokenUsage
from cofio.ports import LLM, Completion, Health, Profile

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "local-model"  # download folder of scripts/local_model.py
_LOADING = 600.0  # timeout of loading the model, in seconds


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Server(Protocol):
    """Server with OpenAI's interface. `ours` if this process may stop and start it."""

    url: str
    name: str
    ours: bool

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass
class Given:
    """Server that runs already and is never stopped."""

    url: str
    name: str
    ours: bool = False

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


@dataclass
class LlamaServer:
    """Child process with llama.cpp's server on a free local port."""

    python: Path
    file: Path
    threads: int
    name: str = "local"
    ours: bool = True
    url: str = field(init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start the server and wait until it answers. Raise Unavailable if it does not."""
        script = ROOT / "scripts" / "llama_server.py"
        command = [str(each) for each in (self.python, script, self.file, self._port, self.name, self.threads)]
        HOME.mkdir(parents=True, exist_ok=True)
        with (HOME / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        until = time.monotonic() + _LOADING
        while not is_well(self.url):
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise Unavailable("llama.cpp's server does not come up.", f"Look into {HOME / 'server.log'}.")
            time.sleep(0.5)

    def stop(self) -> None:
        if self._process and self._process.stdin:
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:  # during a long prompt
                self._process.kill()
                self._process.wait()
        self._process = None


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Yield the started server; it is stopped in any case."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


def is_well(url: str) -> bool:
    """Return whether the model is loaded; until then the server answers 503."""
    return _got(url, "/health") is not None


def speeds(url: str) -> dict[str, float]:
    """Return tokens per second by the server's own count, read without cache, and written. Empty if unavailable."""
    told = _got(url, "/metrics") or ""
    found = dict(re.findall(r"^llamacpp:(\w+) ([\d.e+-]+)$", told, re.MULTILINE))
    names = {"read": "prompt_tokens_seconds", "written": "predicted_tokens_seconds"}
    return {ours: float(found[theirs]) for ours, theirs in names.items() if theirs in found}


def _got(url: str, path: str) -> str | None:
    root = urlsplit(url)
    with suppress(OSError), urllib.request.urlopen(f"{root.scheme}://{root.netloc}{path}", timeout=10) as reply:
        return str(reply.read().decode())
    return None


# ── recording the calls ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    """Call of the model: duration, usage, and errors of the reply."""

    seconds: float
    usage: TokenUsage = TokenUsage()
    unreadable: bool = False  # the reply is not JSON
    cut: bool = False
    failed: str = ""  # name of the error


class Watched:
    """Model wrapper that records every call."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.asked: list[Asked] = []
        self.provider_name, self.model = llm.provider_name, llm.model

    @property
    def profile(self) -> Profile:
        return self._llm.profile

    @property
    def supports_audn(self) -> bool:
        return self._llm.supports_audn

    def health_check(self) -> Health:
        return self._llm.health_check()

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        began = time.perf_counter()
        try:
            reply = self._llm.complete(system, user, schema=schema)
        except CofioError as error:
            self.asked.append(Asked(time.perf_counter() - began, failed=type(error).__name__))
            raise
        seconds = time.perf_counter() - began
        self.asked.append(Asked(seconds, reply.usage, not _is_json(reply.text), reply.truncated))
        return reply


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
