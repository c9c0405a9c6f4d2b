"""The plugin in its own process under Node with a recorded host, and the real service on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.hooks import endpoint_file
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.hooks.conftest import hold_lock
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.openclaw.node import node

ROOT = Path(__file__).parents[2] / "integrations" / "openclaw"
HOST = Path(__file__).with_name("host.mjs")


class Plugin:
    """The plugin, loaded and registered in a recording host. `do` makes the host perform one action."""

    def __init__(self, binary: str, env: Mapping[str, str], entry: Path) -> None:
        self.home = Path(env["HOME"]) / ".cofio"
        self.ms = 0.0  # duration of the last action
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([binary, str(HOST), str(entry)], env=dict(env), cwd=env["HOME"], **pipes)

    def do(self, action: str, **fields: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"do": action, **fields}) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        self.ms = reply["ms"]
        if "thrown" in reply:
            raise Thrown(reply["thrown"])
        return reply["answer"]

    def fire(self, name: str, event: Mapping[str, Any], **context: Any) -> Any:
        """Fire an event, in a user's session unless the context says otherwise."""
        return self.do("fire", name=name, event=event, context={**CONTEXT, **context})

    def prompt(self, text: str, **context: Any) -> str:
        """Return the context injected before a prompt."""
        answer = self.fire("before_prompt_build", {"prompt": text, "messages": []}, **context)
        return str((answer or {}).get("prependContext", ""))

    def end(self, *messages: Mapping[str, Any], success: bool = True, **context: Any) -> None:
        """End a run with these messages."""
        run = {**CONTEXT, **context}.get("runId")
        event = {"messages": list(messages), "success": success, "durationMs": 183}
        assert self.fire("agent_end", event if run is None else {**event, "runId": run}, **context) is None

    def close(self) -> None:
        """Close the process, as when a gateway stops."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(30) == 0


class Thrown(Exception):
    """The error that the plugin raised in the host."""


#: The context in calls of the real OpenClaw 2026.9.6: `openclaw agent --local --session-key … --message …`.
CONTEXT: dict[str, Any] = {
    "runId": "0a34915e-5ab9-475b-a703-469c059b46b7",
    "agentId": "main",
    "sessionKey": "agent:main:main",
    "sessionId": "683003ea-9a55-4bfe-8811-e45aff08b524",
    "modelProviderId": "anthropic",
    "modelId": "model",
    "trigger": "user",
}


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1794781301709, **fields}


def agent(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return {"role": "assistant", "content": content, "stopReason": "stop", "timestamp": 1794781301733, **fields}


@pytest.fixture(scope="session")
def binary() -> str:
    return node()


@pytest.fixture
def ann(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user with an empty home."""
    home = tmp_path.resolve() / "ann"
    (home / ".cofio").mkdir(parents=True, mode=0o700)
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


Load = Callable[..., Plugin]


@pytest.fixture
def load(binary: str, ann: dict[str, str]) -> Iterator[Load]:
    """Load and register the plugin: `load()`, `load(autoCapture=False)`, `load(env={…}, baseUrl=…)`."""
    with ExitStack() as stack:

        def start(env: Mapping[str, str] | None = None, entry: str = "js/index.js", **config: Any) -> Plugin:
            plugin = Plugin(binary, {**ann, **(env or {})}, ROOT / entry)
            stack.callback(plugin.close)
            plugin.do("register", config=config)
            return plugin

        yield start


Serve = Callable[..., Caller]


@pytest.fixture
def serve(tmp_path: Path, ann: dict[str, str]) -> Iterator[Serve]:
    """Start the user's service; the file `hook.at` contains its address, as with the daemon."""
    home = Path(ann["HOME"]) / ".cofio"
    with ExitStack() as stack:

        def start(api_key: str = "", **settings: Any) -> Caller:
            clock = FixedClock()
            keeper = stack.enter_context(Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock))
            paths = {"home": home, "store": str(tmp_path / "cofio.db")}
            url = stack.enter_context(serving(keeper, api_key=api_key, **paths, **settings))
            # On a busy machine a reply may take longer; deadlines have their own tests.
            store, lock = tmp_path / "cofio.db", tmp_path / "cofio.db.service"
            endpoint_file.write_endpoint(home, url, api_key, (8_000, 8_000), str(store), lock=lock)
            stack.callback(os.close, hold_lock(lock, url))
            return Caller(url, {"X-API-Key": api_key} if api_key else {})

        yield start


@pytest.fixture
def service(serve: Serve) -> Caller:
    return serve()


def captured_exchanges(service: Caller, expected: int) -> list[dict[str, Any]]:
    """Return the captured exchanges, oldest first, once this many are captured and none is pending."""
    for _ in range(600):
        inbox_status = service.get("/inbox/status").json
        if inbox_status["captured"] >= expected and not inbox_status["pending"]:
            break
        time.sleep(0.05)
    items: list[dict[str, Any]] = service.get("/inbox").json["items"]
    assert len(items) == expected, items
    return [item["exchange"] for item in items[::-1]]


@dataclass
class StubService:
    """A stub of the service: it records requests and replies after a delay, or never."""

    delay: float = 0.0
    status: int = 200
    success_count: int = 1_000_000  # successful answers before failures
    reply: bytes = b"{}"
    location: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def events(self) -> list[Any]:
        return [json.loads(body) for path, _, body in self.requests if path == "/hooks/openclaw"]


@pytest.fixture
def stub() -> Iterator[StubService]:
    stub_service = StubService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            stub_service.requests.append(
                (self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
            stub_service.stopped.wait(stub_service.delay)
            self.send_response(stub_service.status if len(stub_service.requests) <= stub_service.success_count else 503)
            self.send_header("Content-Length", str(len(stub_service.reply)))
            if stub_service.location:
                self.send_header("Location", stub_service.location)
            self.end_headers()
            self.wfile.write(stub_service.reply)

        def handle(self) -> None:
            with suppress(OSError):  # the plugin closed the connection
                super().handle()

        def log_message(self, *_: Any) -> None:
            """Log nothing: the tests inspect the recorded requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    stub_service.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield stub_service
    stub_service.stopped.set()
    server.shutdown()
    server.server_close()
    thread.join(30)
