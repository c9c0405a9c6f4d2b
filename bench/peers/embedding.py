"""The one embedder of a run: a server on the loopback interface in OpenAI's wire format, and tables of vectors.

`POST /v1/embeddings` answers from cofio's local model, one text after another, whoever asks. Where the time of a peer
alone is wanted, its texts and vectors lie in a table that its adapter reads instead.
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


def table(folder: Path, texts: Sequence[str], vectors: Matrix) -> Path:
    """Write the texts with their vectors where adapters can read them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(list(texts)), encoding="utf-8")
    np.save(folder / "vectors.npy", np.ascontiguousarray(vectors, np.float32))
    return folder


class Kept:
    """An embedder whose vectors of a list are kept in a file: what a run embeds before it starts is embedded once."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._folder = folder
        self.signature, self.floor, self.dimension = embedder.signature, embedder.floor, embedder.dimension

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        told = json.dumps([self.signature, kind, list(texts)])
        path = self._folder / f"{hashlib.sha256(told.encode()).hexdigest()[:24]}.npy"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            np.save(path, np.asarray(self._embedder.embed(texts, kind), np.float32))
        known: Matrix = np.load(path)
        return known


@contextmanager
def served(embedder: Embedder) -> Iterator[str]:
    """The address that the embedder answers at, ending in /v1, while it does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(embedder))
    server.daemon_threads = True
    worker = threading.Thread(target=server.serve_forever, name="embedder")
    worker.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        worker.join()
        server.server_close()


def _answering(embedder: Embedder) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # so that a connection is kept
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            vectors = embedder.embed(texts, "document")  # as documents: the vectors of recent queries are kept
            self._tell({"object": "list", "model": asked.get("model", ""), "data": _data(vectors, asked)})

        def _tell(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name
            """Nothing: a line a request would be in the way."""

    return Answering


def _data(vectors: Matrix, asked: dict[str, Any]) -> list[dict[str, Any]]:
    coded = asked.get("encoding_format") == "base64"
    return [
        {
            "object": "embedding",
            "index": place,
            "embedding": base64.b64encode(row.tobytes()).decode() if coded else row.tolist(),
        }
        for place, row in enumerate(np.asarray(vectors, np.float32))
    ]
