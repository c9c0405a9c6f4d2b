"""A loopback fake of OpenAI's chat completions API that can delay, fail or cut off its replies."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class ScriptedReply:
    """What the upstream does for one request."""

    text: str = "Noted."
    status: int = 200
    body: Any = None  # replaces the completion: bytes are sent as they are, anything else as JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[Mapping[str, Any], ...] = ()  # tool calls that replace the text
    ends: str = "stop"
    gate: threading.Event | None = None  # the rest is sent once this is set
    stalls: bool = False  # sends nothing until the caller disconnects
    breaks_off: bool = False  # the connection ends after the text
    torn: bytes = b""  # part of a line that is sent before the connection ends


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that arrived."""

    path: str
    headers: Mapping[str, str]  # lower-case names
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def system(self) -> Any:
        """Return the content of the first message."""
        return self.body["messages"][0]["content"]

    @property
    def question(self) -> Any:
        """Return the content of the last message."""
        return self.body["messages"][-1]["content"]


class FakeUpstream:
    """The server. `add_replies` scripts its replies, `requests` holds what arrived, `disconnects` counts hang-ups."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.sent: list[bytes] = []  # every response body, without chunk lengths
        self.disconnects = threading.Semaphore(0)
        self.waiting = threading.Semaphore(0)
        self._script: deque[ScriptedReply] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self

    def __enter__(self) -> FakeUpstream:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def add_replies(self, *script: ScriptedReply) -> None:
        self._script.extend(script)

    def next(self) -> ScriptedReply:
        return self._script.popleft() if self._script else ScriptedReply()


class _Server(ThreadingHTTPServer):
    model: FakeUpstream
    daemon_threads = True
    request_queue_size = 128


def completion_body(reply: ScriptedReply, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion body."""
    message: dict[str, Any] = {"role": "assistant", "content": None if reply.calls else reply.text, "refusal": None}
    if reply.calls:
        message["tool_calls"] = list(reply.calls)
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": reply.ends}
        for index in range(request.get("n") or 1)
    ]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_767_225_600, "model": request["model"],
        "choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        "service_tier": "default", "system_fingerprint": "fp_1",
    }  # fmt: skip


def stream_events(reply: ScriptedReply, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield stream events: role, words, finish reason, and usage if requested."""
    usage = bool((request.get("stream_options") or {}).get("include_usage"))
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_767_225_600, "model": request["model"]}
    more = {"usage": None} if usage else {}

    def chunk(index: int, delta: Mapping[str, Any], ends: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": index, "delta": delta, "finish_reason": ends}], **more}

    for index in range(request.get("n") or 1):
        yield chunk(index, {"role": "assistant", "content": None if reply.calls else "", "refusal": None})
        for place, call in enumerate(reply.calls):
            yield chunk(index, {"tool_calls": [{"index": place, **call}]})
        for word in () if reply.calls else reply.text.split(" "):
            yield chunk(index, {"content": word if word == reply.text.split(" ")[0] else f" {word}"})
        if not reply.breaks_off:
            yield chunk(index, {}, reply.ends)
    if usage and not reply.breaks_off:
        yield {**head, "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, raw: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.model.requests.append(ReceivedRequest(self.path, headers, raw))
        says = self.server.model.next()
        try:
            if says.stalls:
                self._wait_for_disconnect()
            elif says.body is not None or says.status != 200:
                self._send_complete(says)
            elif self.path == "/v1/models":
                listing = [{"id": "gpt-4o", "object": "model", "created": 1, "owned_by": "openai"}]
                self._send_complete(ScriptedReply(body={"object": "list", "data": listing}))
            elif json.loads(raw).get("stream"):
                self._stream(says, json.loads(raw))
            else:
                self._send_complete(
                    ScriptedReply(body=completion_body(says, json.loads(raw)), gate=says.gate, headers=says.headers)
                )
        except (BrokenPipeError, ConnectionResetError):
            self.server.model.disconnects.release()

    def _send_complete(self, says: ScriptedReply) -> None:
        if says.gate:
            self._wait_for(says.gate)
        raw = says.body if isinstance(says.body, bytes) else json.dumps(says.body).encode()
        self.send_response(says.status)
        for name, value in {"Content-Type": "application/json", **says.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        self.server.model.sent.append(raw)

    def _stream(self, says: ScriptedReply, asked: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("X-Request-Id", "req_1")
        self.send_header("Set-Cookie", "__cf_bm=secret")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = b""
        for place, event in enumerate(stream_events(says, asked)):
            sent += self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
            if place == 1 and says.gate:
                self._wait_for(says.gate)
        if says.breaks_off:
            self._chunk(says.torn)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        sent += self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.server.model.sent.append(sent)

    def _chunk(self, raw: bytes) -> bytes:
        if raw:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        return raw

    def _wait_for(self, gate: threading.Event) -> None:
        self.server.model.waiting.release()
        while not gate.wait(0.02):
            if select.select([self.connection], [], [], 0)[0]:
                raise ConnectionResetError
        if select.select([self.connection], [], [], 0)[0]:
            raise ConnectionResetError

    def _wait_for_disconnect(self) -> None:
        self.server.model.waiting.release()
        select.select([self.connection], [], [], 60)
        self.close_connection = True
        self.server.model.disconnects.release()

    def log_message(self, *_: Any) -> None:
        pass
