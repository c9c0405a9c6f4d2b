"""Adapter of mcp-memory-service: its SQLite-vec storage, one file each; `store` for one memory, `store_batch` for many.

An environment variable selects its external embedding server; an object with the same method then replaces that model,
so that its vectors come over the same connection as for the others. Searches use `retrieve`, or `retrieve_hybrid` with
the option `hybrid`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import wire  # type: ignore[import-not-found]


class McpMemoryService:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        self.version = version("mcp-memory-service")
        os.environ["MCP_EXTERNAL_EMBEDDING_URL"] = f"{embed.url}/embeddings"
        os.environ["MCP_EXTERNAL_EMBEDDING_MODEL"] = "bge-small-en-v1.5"
        os.environ["MCP_MEMORY_BASE_DIR"] = str(folder)
        self._folder = folder
        self._embed = embed
        self._hybrid = bool(options.get("hybrid"))
        self._loop = asyncio.Runner()
        self._open: dict[str, Any] = {}
        from mcp_memory_service.models.memory import Memory  # type: ignore[import-not-found,unused-ignore]
        from mcp_memory_service.storage.sqlite_vec import (  # type: ignore[import-not-found,unused-ignore]
            SqliteVecMemoryStorage,
        )
        from mcp_memory_service.utils.hashing import (  # type: ignore[import-not-found,unused-ignore]
            generate_content_hash,
        )

        self._memory, self._storage, self._hash = Memory, SqliteVecMemoryStorage, generate_content_hash

    def add(self, collection: str, item: wire.Item) -> int:
        is_stored, message = self._loop.run(self._store(collection).store(self._make_memory(item)))
        return _count_stored(is_stored, message)

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        replies = self._loop.run(self._store(collection).store_batch([self._make_memory(item) for item in items]))
        return sum(_count_stored(is_stored, message) for is_stored, message in replies)

    def search(self, collection: str, text: str, k: int) -> list[str]:
        store = self._store(collection)
        results = self._loop.run(store.retrieve_hybrid(text, k) if self._hybrid else store.retrieve(text, k))
        return [result.memory.content for result in results]

    def count(self, collection: str) -> int:
        return int(self._loop.run(self._store(collection).count_all_memories()))

    def close(self) -> None:
        for storage in self._open.values():
            self._loop.run(storage.close())
        self._loop.close()

    def _make_memory(self, item: wire.Item) -> Any:
        return self._memory(content=item["text"], content_hash=self._hash(item["text"]), tags=["bench"])

    def _store(self, name: str) -> Any:
        if name not in self._open:
            storage = self._storage(str(self._folder / f"{name}.db"))
            self._loop.run(storage.initialize())
            storage.embedding_model = _SharedEmbedder(self._embed)
            self._open[name] = storage
        return self._open[name]


def _count_stored(is_stored: bool, message: str) -> int:
    """Return 1 for a stored memory, 0 for a duplicate. Raise RuntimeError for other failures."""
    if not is_stored and "uplicate" not in message:
        raise RuntimeError(message)
    return int(is_stored)


class _SharedEmbedder:
    def __init__(self, embed: wire.Embed) -> None:
        self._embed = embed

    def encode(self, texts: Sequence[str], **_: Any) -> Any:
        return self._embed(list(texts))


if __name__ == "__main__":
    wire.serve(McpMemoryService)
