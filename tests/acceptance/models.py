"""A model server on loopback. It streams Anthropic's messages and OpenAI's responses, and keeps what it was asked.

with Models() as models:
    models.when("list the files", Call("Bash", {"command": "ls"}), Say("There are two."))
    …  # run a client with models.url as its base URL
    models.asked()[-1].text
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class TextReply:
    """A text reply, sent `after` this many seconds; `tokens` is the reported prompt size."""

    text: str
    after: float = 0.0
    tokens: int = 100


@dataclass(frozen=True)
class ToolCallReply:
    """A call of one of the client's tools."""

    name: str
    arguments: dict[str, Any]
    namespace: str = ""  # Codex groups its agent tools in one


@dataclass(frozen=True)
class ErrorReply:
    """An API error with this status."""

    status: int
    kind: str = "overloaded_error"
    message: str = "Overloaded"


Reply = TextReply | ToolCallReply | ErrorReply
Scripted = Reply | Callable[["ModelRequest"], Reply]  # may depend on the request
NOTHING_SPECIAL = TextReply("Noted.")


@dataclass(frozen=True)
class ModelRequest:
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def is_for_a_model(self) -> bool:
        return self.method == "POST" and self.path.split("?")[0] in ("/v1/messages", "/v1/responses")

    @property
    def text(self) -> str:
        """Return all text sent to the model: system prompt and messages, without tools."""
        body = self.body if isinstance(self.body, dict) else {}
        return "\n".join(_texts([body.get(part) for part in ("system", "instructions", "messages", "input")]))

    @property
    def last(self) -> str:
        """Return the last message to the model."""
        body = self.body if isinstance(self.body, dict) else {}
        text = body.get("messages") or body.get("input") or []
        tail = [item for item in text if isinstance(item, dict) and item.get("role", "user") == "user"]
        return "\n".join(_texts(tail[-1:]))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value in order; of objects, those below text, content and output."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name in ("text", "content", "output"):
            yield from _texts(value.get(name))


@dataclass
class Models:
    """The server. It records model requests; other paths return 404."""

    port: int = 0
    requests: list[ModelRequest] = field(default_factory=list)
    scripts: list[tuple[str, list[Scripted]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), type("Desk", (_Handler,), {"models": self}))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def when(self, words: str, *replies: Scripted) -> None:
        """Reply to conversations with this text, one reply after the other; the last one is repeated."""
        with self.lock:
            self.scripts.insert(0, (words, list(replies)))

    def asked(self) -> list[ModelRequest]:
        """Return the model requests, oldest first."""
        with self.lock:
            return [request for request in self.requests if request.is_for_a_model]

    def about(self, words: str) -> list[ModelRequest]:
        """Return the model requests that contain this text."""
        return [memory for memory in self.asked() if words in memory.text]

    def reply(self, asked: ModelRequest) -> Reply:
        with self.lock:
            for words, replies in self.scripts:
                if words in asked.text:
                    reply = replies.pop(0) if len(replies) > 1 else replies[0]
                    return reply(asked) if callable(reply) else reply
        return NOTHING_SPECIAL


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    models: Models
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._keep(None)
        self._end(200)

    def do_GET(self) -> None:
        self._keep(None)
        if self.path.split("?")[0] == "/v1/models":
            self._tell(200, {"object": "list", "data": [], "models": []})
        else:
            self._tell(404, _refusal("not_found_error", "not here"))

    def do_POST(self) -> None:
        request = self._keep(self._body())
        if request.path.split("?")[0] == "/v1/messages/count_tokens":
            self._tell(200, {"input_tokens": len(request.text) // 4})
        elif not request.is_for_a_model:
            self._tell(404, _refusal("not_found_error", "not here"))
        else:
            self._answer(request, self.models.reply(request))

    def _answer(self, asked: ModelRequest, reply: Reply) -> None:
        if isinstance(reply, ErrorReply):
            self._tell(reply.status, _refusal(reply.kind, reply.message))
            return
        if isinstance(reply, TextReply) and reply.after:
            self.models.closing.wait(reply.after)
        anthropic = asked.path.startswith("/v1/messages")
        if anthropic and not asked.body.get("stream"):
            self._tell(200, _message(asked, reply))
        else:
            self._stream(_anthropic(asked, reply) if anthropic else _openai(reply))

    def _body(self) -> Any:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            return json.loads(raw)
        except ValueError:
            return raw.decode("utf-8", "replace")

    def _keep(self, body: Any) -> ModelRequest:
        request = ModelRequest(
            self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body
        )
        with self.models.lock:
            self.models.requests.append(request)
        return request

    def _tell(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self._end(status, ("Content-Type", "application/json"), length=len(raw))
        self.wfile.write(raw)

    def _end(self, status: int, *headers: tuple[str, str], length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _stream(self, events: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Suppress logging."""


def _refusal(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


_numbers = iter(range(1, 1_000_000))


def _block(reply: TextReply | ToolCallReply) -> dict[str, Any]:
    if isinstance(reply, TextReply):
        return {"type": "text", "text": reply.text}
    return {"type": "tool_use", "id": f"toolu_{next(_numbers):08}", "name": reply.name, "input": reply.arguments}


def _message(asked: ModelRequest, reply: TextReply | ToolCallReply) -> dict[str, Any]:
    """Return a complete message of Anthropic's API."""
    return {
        "id": f"msg_{next(_numbers):08}",
        "type": "message",
        "role": "assistant",
        "model": asked.body.get("model", "model"),
        "content": [_block(reply)],
        "stop_reason": "end_turn" if isinstance(reply, TextReply) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": getattr(reply, "tokens", 100), "output_tokens": 5},
    }


def _anthropic(asked: ModelRequest, reply: TextReply | ToolCallReply) -> Iterator[dict[str, Any]]:
    """Yield the message as a stream."""
    complete = _message(asked, reply)
    (block,) = complete["content"]
    yield {"type": "message_start", "message": {**complete, "content": [], "stop_reason": None}}
    if isinstance(reply, TextReply):
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": reply.text}
    else:
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": complete["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _openai(reply: TextReply | ToolCallReply) -> Iterator[dict[str, Any]]:
    """Yield a response of OpenAI's API as a stream."""
    number = next(_numbers)
    if isinstance(reply, TextReply):
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number:08}", "role": "assistant", "content": content}
    else:
        item = {"type": "function_call", "id": f"fc_{number:08}", "call_id": f"call_{number:08}", "name": reply.name,
                "arguments": json.dumps(reply.arguments)}  # fmt: skip
        item |= {"namespace": reply.namespace} if reply.namespace else {}
    used = getattr(reply, "tokens", 100)
    usage = {"input_tokens": used, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": used + 5}  # fmt: skip
    response = {"id": f"resp_{number:08}", "object": "response", "output": []}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": [item], "usage": usage},
    }
