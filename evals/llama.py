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
_LOAD_TIMEOUT = 600.0  # timeout of loading the model, in seconds


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Server(Protocol):
    """Server with OpenAI's interface. `ours` if this process may stop and start it."""

    url: str
    name: str
    is_managed: bool

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass
class ExternalServer:
    """Server that runs already and is never stopped."""

    url: str
    name: str
    is_managed: bool = False

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
    is_managed: bool = True
    url: str = field(init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start the server and wait until it answers. Raise Unavailable if it does not."""
        script = ROOT / "scripts" / "llama_server.py"
        command = [str(part) for part in (self.python, script, self.file, self._port, self.name, self.threads)]
        HOME.mkdir(parents=True, exist_ok=True)
        with (HOME / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        deadline = time.monotonic() + _LOAD_TIMEOUT
        while not is_ready(self.url):
            if self._process.poll() is not None or time.monotonic() > deadline:
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


def is_ready(url: str) -> bool:
    """Return whether the model is loaded; until then the server answers 503."""
    return _fetch(url, "/health") is not None


def measure_speeds(url: str) -> dict[str, float]:
    """Return tokens per second by the server's own count, read without cache, and written. Empty if unavailable."""
    metrics = _fetch(url, "/metrics") or ""
    values = dict(re.findall(r"^llamacpp:(\w+) ([\d.e+-]+)$", metrics, re.MULTILINE))
    names = {"read": "prompt_tokens_seconds", "written": "predicted_tokens_seconds"}
    return {name: float(values[metric]) for name, metric in names.items() if metric in values}


def _fetch(url: str, path: str) -> str | None:
    root = urlsplit(url)
    with suppress(OSError), urllib.request.urlopen(f"{root.scheme}://{root.netloc}{path}", timeout=10) as reply:
        return str(reply.read().decode())
    return None


# ── recording the calls ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ModelCall:
    """Call of the model: duration, usage, and errors of the reply."""

    seconds: float
    usage: TokenUsage = TokenUsage()
    is_unreadable: bool = False  # the reply is not JSON
    is_truncated: bool = False
    failed: str = ""  # name of the error


class RecordingLLM:
    """Model wrapper that records every call."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.calls: list[ModelCall] = []
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
        started = time.perf_counter()
        try:
            reply = self._llm.complete(system, user, schema=schema)
        except CofioError as error:
            self.calls.append(ModelCall(time.perf_counter() - started, failed=type(error).__name__))
            raise
        seconds = time.perf_counter() - started
        self.calls.append(ModelCall(seconds, reply.usage, not _is_json(reply.text), reply.truncated))
        return reply


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
