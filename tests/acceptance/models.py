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
class Say:
    """An answer in words, `after` so many seconds; `tokens` is how long the server claims that the prompt was."""

    text: str
    after: float = 0.0
    tokens: int = 100


@dataclass(frozen=True)
class Call:
    """A call of one of the client's tools."""

    name: str
    arguments: dict[str, Any]
    namespace: str = ""  # Codex has its tools for agents in one


@dataclass(frozen=True)
class Fail:
    """An error of the API, with this status."""

    status: int
    kind: str = "overloaded_error"
    message: str = "Overloaded"


Reply = Say | Call | Fail
Scripted = Reply | Callable[["Asked"], Reply]  # what was asked may decide
NOTHING_SPECIAL = Say("Noted.")


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def is_for_a_model(self) -> bool:
        return self.method == "POST" and self.path.split("?")[0] in ("/v1/messages", "/v1/responses")

    @property
    def text(self) -> str:
        """Everything that the model is given to read: the system prompt and the messages, without the tools."""
        body = self.body if isinstance(self.body, dict) else {}
        return "\n".join(_texts([body.get(part) for part in ("system", "instructions", "messages", "input")]))

    @property
    def last(self) -> str:
        """The last thing that was said to the model."""
        body = self.body if isinstance(self.body, dict) else {}
        said = body.get("messages") or body.get("input") or []
        tail = [each for each in said if isinstance(each, dict) and each.get("role", "user") == "user"]
        return "\n".join(_texts(tail[-1:]))


def _texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, in order; of an object, what stands under text, content, output."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in ("text", "content", "output"):
            yield from _texts(value.get(name))


@dataclass
class Models:
    """The server. What it was asked is kept in order; a client that asks for anything but models finds a 404."""

    port: int = 0
    requests: list[Asked] = field(default_factory=list)
    scripts: list[tuple[str, list[Scripted]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), type("Desk", (_Desk,), {"models": self}))
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
        """Answer a conversation with these words in it so, one reply after the other; the last one again and again."""
        with self.lock:
            self.scripts.insert(0, (words, list(replies)))

    def asked(self) -> list[Asked]:
        """What the clients asked a model, oldest first."""
        with self.lock:
            return [request for request in self.requests if request.is_for_a_model]

    def about(self, words: str) -> list[Asked]:
        """The requests in which these words were given to a model."""
        return [each for each in self.asked() if words in each.text]

    def reply(self, asked: Asked) -> Reply:
        with self.lock:
            for words, replies in self.scripts:
                if words in asked.text:
                    reply = replies.pop(0) if len(replies) > 1 else replies[0]
                    return reply(asked) if callable(reply) else reply
        return NOTHING_SPECIAL


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone meanwhile is nothing to speak of."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Desk(BaseHTTPRequestHandler):
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
        asked = self._keep(self._body())
        if asked.path.split("?")[0] == "/v1/messages/count_tokens":
            self._tell(200, {"input_tokens": len(asked.text) // 4})
        elif not asked.is_for_a_model:
            self._tell(404, _refusal("not_found_error", "not here"))
        else:
            self._answer(asked, self.models.reply(asked))

    def _answer(self, asked: Asked, reply: Reply) -> None:
        if isinstance(reply, Fail):
            self._tell(reply.status, _refusal(reply.kind, reply.message))
            return
        if isinstance(reply, Say) and reply.after:
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

    def _keep(self, body: Any) -> Asked:
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        with self.models.lock:
            self.models.requests.append(asked)
        return asked

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
        """Nothing: the tests look at what was asked."""


def _refusal(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


_numbers = iter(range(1, 1_000_000))


def _block(reply: Say | Call) -> dict[str, Any]:
    if isinstance(reply, Say):
        return {"type": "text", "text": reply.text}
    return {"type": "tool_use", "id": f"toolu_{next(_numbers):08}", "name": reply.name, "input": reply.arguments}


def _message(asked: Asked, reply: Say | Call) -> dict[str, Any]:
    """A whole message of Anthropic's API."""
    return {
        "id": f"msg_{next(_numbers):08}",
        "type": "message",
        "role": "assistant",
        "model": asked.body.get("model", "model"),
        "content": [_block(reply)],
        "stop_reason": "end_turn" if isinstance(reply, Say) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": getattr(reply, "tokens", 100), "output_tokens": 5},
    }


def _anthropic(asked: Asked, reply: Say | Call) -> Iterator[dict[str, Any]]:
    """The same message, as a stream."""
    whole = _message(asked, reply)
    (block,) = whole["content"]
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    if isinstance(reply, Say):
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": reply.text}
    else:
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _openai(reply: Say | Call) -> Iterator[dict[str, Any]]:
    """A response of OpenAI's API, as a stream."""
    number = next(_numbers)
    if isinstance(reply, Say):
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
