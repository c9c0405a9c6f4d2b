"""Loopback server for the embedding formats of OpenAI and Ollama with scripted failures."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


def pseudo_vectors(texts: Sequence[str], dimension: int = 48) -> list[list[float]]:
    """Return one reproducible meaningless vector per text, not of unit length."""
    return [_pseudo_vector(text, dimension) for text in texts]


def _pseudo_vector(text: str, dimension: int) -> list[float]:
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    values: list[float] = (3 * np.random.default_rng(seed).standard_normal(dimension)).tolist()
    return values


@dataclass(frozen=True)
class Reply:
    """A scripted reply instead of an embedding, sent after `after` seconds."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0
    promised: int | None = None  # a wrong Content-Length

    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def refusal(status: int, message: str = "no", *, code: str = "", **headers: str) -> Reply:
    """Return an error in the format of OpenAI."""
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": {"message": message, "code": code}}, header_fields)


@dataclass(frozen=True)
class Seen:
    """A received request."""

    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        texts: list[str] = self.body["input"]
        return texts


class Wire:
    """The server. `embed` makes the vectors, `say` scripts replies, `seen` lists the requests."""

    def __init__(self, embed: Embed = pseudo_vectors, files: Path | None = None) -> None:
        self.embed = embed
        self.files = files
        self.seen: list[Seen] = []
        self.shape: Callable[[Any], Any] = lambda reply: reply  # last transformation of a successful reply
        self._script: deque[Reply] = deque()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> Wire:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def close(self) -> None:
        """Refuse connections, like a server that is not running."""
        self._server.shutdown()
        self._server.server_close()

    def open_again(self) -> None:
        """Serve at the same port again after close."""
        if self._server.socket.fileno() == -1:
            self._server = ThreadingHTTPServer(self._server.server_address[:2], _handler(self))  # type: ignore[arg-type]
            self._server.daemon_threads = True
            threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def say(self, *replies: Reply) -> None:
        self._script.extend(replies)

    def answer(self, request: Seen) -> Reply:
        self.seen.append(request)
        if self._script:
            return self._script.popleft()
        if self.files is not None:
            return self._file(request.path)
        if request.path.endswith("/embeddings"):
            return Reply(body=self.shape(self._openai(request)))
        if request.path.endswith("/api/embed"):
            return Reply(body=self.shape(self._ollama(request)))
        return refusal(404, "no such path")

    def _openai(self, request: Seen) -> dict[str, Any]:
        rows = [list(map(float, row)) for row in self.embed(request.texts)]
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        data.reverse()  # clients must not rely on the order
        return {"object": "list", "data": data, "model": request.body["model"], "usage": {"total_tokens": 1}}

    def _ollama(self, request: Seen) -> dict[str, Any]:
        rows = [list(map(float, row)) for row in self.embed(request.texts)]
        return {"model": request.body["model"], "embeddings": rows, "total_duration": 1}

    def _file(self, path: str) -> Reply:
        assert self.files is not None
        file = self.files / path.lstrip("/")
        return Reply(body=file.read_bytes()) if file.is_file() else Reply(404, b"no such file")


def _handler(wire: Wire) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            self._reply(wire.answer(self._seen(json.loads(raw))))

        def do_GET(self) -> None:
            self._reply(wire.answer(self._seen(None)))

        def _seen(self, body: Any) -> Seen:
            return Seen(self.path, {name.title(): value for name, value in self.headers.items()}, body)

        def _reply(self, reply: Reply) -> None:
            time.sleep(reply.after)
            raw = reply.raw()
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(raw) if reply.promised is None else reply.promised))
                self.end_headers()
                self.wfile.write(raw)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client timed out, as the test intends

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
