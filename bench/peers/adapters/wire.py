"""Common part of the adapters: one request per line on stdin, one reply per line on stdout, both JSON.

    {"do": "open", "folder", "vectors", "url", "options"}        {"about": {"version", …}}
    {"do": "add", "collection", "item": {"id", "text", …}}       {"kept": 1 or 0}
    {"do": "add_many", "collection", "items"}                    {"kept": how many}
    {"do": "said", "collection", "text"}                         a person's statement, by the interface meant for it
    {"do": "search", "collection", "text", "k"}                  {"found": [texts], best first}
    {"do": "count", "collection"}                                {"count"}
    {"do": "weigh"}                                              {"resident_mb"}
    {"do": "close"}                                              {}

Every reply also has `took`, the seconds of the call itself, and `embedding`, its part for vectors. Errors are replied
as {"error"}. An adapter runs in the environment of its peer, so it may import only the standard library, NumPy, this
module and the peer, but not cofio.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np

Item = Mapping[str, Any]


class Peer(Protocol):
    """Interface of a wrapped peer. A collection is the separate memory of a user or a conversation."""

    version: str

    def add(self, collection: str, item: Item) -> int: ...
    def add_many(self, collection: str, items: Sequence[Item]) -> int: ...
    def search(self, collection: str, text: str, k: int) -> list[str]: ...
    def count(self, collection: str) -> int: ...
    def close(self) -> None: ...


class Embed:
    """The single embedder of the run: vectors from a table that has the text, else from the server.

    The server has the OpenAI wire format on the loopback interface; all peers use the same connection.
    """

    def __init__(self, vectors: str, url: str) -> None:
        self.seconds = 0.0
        self.url = url
        self._places: dict[str, int] = {}
        self._table = np.empty((0, 0), np.float32)
        if vectors:
            folder = Path(vectors)
            texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
            self._places = {text: place for place, text in enumerate(texts)}
            self._table = np.load(folder / "vectors.npy", mmap_mode="r")
        self._server: http.client.HTTPConnection | None = None

    @property
    def dimension(self) -> int:
        return int(self._table.shape[1]) if self._table.size else int(self(["how long is a vector"]).shape[1])

    def __call__(self, texts: Sequence[str]) -> Any:
        """Return one unit vector per text, as float32."""
        started = time.perf_counter()
        try:
            places = [self._places.get(text, -1) for text in texts]
            if min(places, default=0) >= 0:
                return np.array(self._table[places], np.float32)
            return self._request_vectors(texts)
        finally:
            self.seconds += time.perf_counter() - started

    def _request_vectors(self, texts: Sequence[str]) -> Any:
        if not self.url:
            raise KeyError(f"there is no vector for {texts[0][:80]!r}, and no embedder")
        address = urlsplit(self.url)
        if self._server is None:
            self._server = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        body = json.dumps({"model": "bge-small-en-v1.5", "input": list(texts)})
        self._server.request("POST", f"{address.path}/embeddings", body, {"Content-Type": "application/json"})
        reply = self._server.getresponse()
        body_of_reply = json.loads(reply.read())
        if reply.status != 200:
            raise RuntimeError(f"the embedder answered {reply.status}: {body_of_reply}")
        return np.array([entry["embedding"] for entry in body_of_reply["data"]], np.float32)


def resident_mb() -> float:
    """Return the resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines() if ":" in line)
        return int(lines["VmRSS"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def serve(make: Callable[[Path, Embed, Mapping[str, Any]], Peer]) -> None:
    """Answer requests until the input ends. `make` opens the peer on a folder."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of the peer must not mix with replies
    dispatcher = _Dispatcher(make)
    for line in sys.stdin:
        try:
            answer = dispatcher.answer(json.loads(line))
        except Exception as error:  # noqa: BLE001  errors of a peer are reported, and the run continues without it
            answer = {"error": f"{type(error).__name__}: {error}".strip()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class _Dispatcher:
    """Dispatcher of requests with timing."""

    def __init__(self, make: Callable[[Path, Embed, Mapping[str, Any]], Peer]) -> None:
        self._make = make
        self._peer: Peer | None = None
        self._embed = Embed("", "")

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        name = question.pop("do")
        if name == "weigh":
            return {"resident_mb": resident_mb()}
        if name == "open":
            self._embed = Embed(question["vectors"], question["url"])
        embedding_before, started = self._embed.seconds, time.perf_counter()
        result = self._dispatch(name, question)
        took = time.perf_counter() - started
        return {**result, "took": took, "embedding": self._embed.seconds - embedding_before}

    def _dispatch(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name == "open":
            self._peer = self._make(Path(arguments["folder"]), self._embed, arguments["options"])
            return {"about": {"version": self._peer.version}}
        if self._peer is None:
            raise RuntimeError("open comes first")
        if name == "said":
            add_statement = getattr(self._peer, "said", None)
            collection, text = arguments["collection"], arguments["text"]
            return {
                "kept": add_statement(collection, text)
                if add_statement
                else self._peer.add(collection, {"id": "", "text": text})
            }
        result_names = {"add": "kept", "add_many": "kept", "search": "found", "count": "count", "close": "closed"}
        return {result_names[name]: getattr(self._peer, name)(**arguments)}
