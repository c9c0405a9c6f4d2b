"""The single embedder of a run: a local server with OpenAI's wire format, and tables of vectors.

`POST /v1/embeddings` answers from cofio's local model, one text after another, for all peers. To measure the time of a
peer alone, its adapter reads texts and vectors from a table instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cofio.ports import Embedder, Matrix


def write_table(folder: Path, texts: Sequence[str], vectors: Matrix) -> Path:
    """Write the texts with their vectors for the adapters."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(list(texts)), encoding="utf-8")
    np.save(folder / "vectors.npy", np.ascontiguousarray(vectors, np.float32))
    return folder


class CachedEmbedder:
    """Embedder with a file cache: the texts that a run embeds at its start are embedded only once."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._folder = folder
        self.signature, self.floor, self.dimension = embedder.signature, embedder.floor, embedder.dimension

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        key = json.dumps([self.signature, kind, list(texts)])
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            np.save(path, np.asarray(self._embedder.embed(texts, kind), np.float32))
        matrix: Matrix = np.load(path)
        return matrix


@contextmanager
def serve(embedder: Embedder) -> Iterator[str]:
    """Yield the URL of the embedder's server, ending in /v1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(embedder))
    server.daemon_threads = True
    worker = threading.Thread(target=server.serve_forever, name="embedder")
    worker.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        worker.join()
        server.server_close()


def _make_handler(embedder: Embedder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections open
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            vectors = embedder.embed(texts, "document")  # as documents, since query vectors are cached
            self._reply({"object": "list", "model": request.get("model", ""), "data": _data(vectors, request)})

        def _reply(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name
            """Write no log."""

    return Handler


def _data(vectors: Matrix, request: dict[str, Any]) -> list[dict[str, Any]]:
    as_base64 = request.get("encoding_format") == "base64"
    return [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(row.tobytes()).decode() if as_base64 else row.tolist(),
        }
        for index, row in enumerate(np.asarray(vectors, np.float32))
    ]
