"""A loopback server that speaks OpenAI's chat completions as OpenAI does, and stalls, refuses or breaks off as told."""

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
class Says:
    """What the model does next."""

    text: str = "Noted."
    status: int = 200
    body: Any = None  # in place of a completion: bytes as they are, anything else as JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[Mapping[str, Any], ...] = ()  # of tools, in place of the text
    ends: str = "stop"
    gate: threading.Event | None = None  # the rest comes only once this is set
    stalls: bool = False  # nothing comes, until the caller hangs up
    breaks_off: bool = False  # the connection ends after the text
    torn: bytes = b""  # half a line, before it breaks off


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    path: str
    headers: Mapping[str, str]  # by lower-case name
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def system(self) -> Any:
        """The content of the first message."""
        return self.body["messages"][0]["content"]


class Model:
    """The server. `says` scripts what it does, `seen` holds what was asked, `left` counts callers that hung up."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.sent: list[bytes] = []  # every body, without the chunks' lengths
        self.left = threading.Semaphore(0)
        self.waiting = threading.Semaphore(0)
        self._script: deque[Says] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def says(self, *script: Says) -> None:
        self._script.extend(script)

    def next(self) -> Says:
        return self._script.popleft() if self._script else Says()


class _Server(ThreadingHTTPServer):
    model: Model
    daemon_threads = True
    request_queue_size = 128


def completion(says: Says, asked: Mapping[str, Any]) -> dict[str, Any]:
    """An answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": None if says.calls else says.text, "refusal": None}
    if says.calls:
        message["tool_calls"] = list(says.calls)
    choices = [
        {"index": place, "message": message, "logprobs": None, "finish_reason": says.ends}
        for place in range(asked.get("n") or 1)
    ]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_767_225_600, "model": asked["model"],
        "choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        "service_tier": "default", "system_fingerprint": "fp_1",
    }  # fmt: skip


def events(says: Says, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """An answer in parts: the role, the words, how it ends, and what it cost where that was asked for."""
    usage = bool((asked.get("stream_options") or {}).get("include_usage"))
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_767_225_600, "model": asked["model"]}
    more = {"usage": None} if usage else {}

    def chunk(index: int, delta: Mapping[str, Any], ends: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": index, "delta": delta, "finish_reason": ends}], **more}

    for index in range(asked.get("n") or 1):
        yield chunk(index, {"role": "assistant", "content": None if says.calls else "", "refusal": None})
        for place, call in enumerate(says.calls):
            yield chunk(index, {"tool_calls": [{"index": place, **call}]})
        for word in () if says.calls else says.text.split(" "):
            yield chunk(index, {"content": word if word == says.text.split(" ")[0] else f" {word}"})
        if not says.breaks_off:
            yield chunk(index, {}, says.ends)
    if usage and not says.breaks_off:
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
        self.server.model.seen.append(Seen(self.path, headers, raw))
        says = self.server.model.next()
        try:
            if says.stalls:
                self._stall()
            elif says.body is not None or says.status != 200:
                self._whole(says)
            elif self.path == "/v1/models":
                listed = [{"id": "gpt-4o", "object": "model", "created": 1, "owned_by": "openai"}]
                self._whole(Says(body={"object": "list", "data": listed}))
            elif json.loads(raw).get("stream"):
                self._stream(says, json.loads(raw))
            else:
                self._whole(Says(body=completion(says, json.loads(raw)), gate=says.gate, headers=says.headers))
        except (BrokenPipeError, ConnectionResetError):
            self.server.model.left.release()

    def _whole(self, says: Says) -> None:
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

    def _stream(self, says: Says, asked: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("X-Request-Id", "req_1")
        self.send_header("Set-Cookie", "__cf_bm=secret")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = b""
        for place, event in enumerate(events(says, asked)):
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

    def _stall(self) -> None:
        self.server.model.waiting.release()
        select.select([self.connection], [], [], 60)
        self.close_connection = True
        self.server.model.left.release()

    def log_message(self, *_: Any) -> None:
        pass
