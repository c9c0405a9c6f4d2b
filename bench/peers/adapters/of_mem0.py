"""Adapter of mem0 with `infer=False`, on the in-process Qdrant; one user each.

A subclass of its EmbeddingBase replaces its embedder. Its inference model is never called; since its constructor needs
a URL and a key, it gets invalid ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import wire  # type: ignore[import-not-found]
from mem0 import Memory  # type: ignore[import-not-found,unused-ignore]
from mem0.embeddings.base import EmbeddingBase  # type: ignore[import-not-found,unused-ignore]

_NOWHERE = {"openai_base_url": "http://127.0.0.1:9/v1", "api_key": "none"}
_ALL = 1_000_000


class Mem0:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        del options
        self.version = version("mem0ai")
        store = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": embed.dimension}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": {"collection_name": "memories", **store}},
                "embedder": {"provider": "openai", "config": {"model": "bge-small-en-v1.5", **_NOWHERE}},
                "llm": {"provider": "openai", "config": {"model": "none", **_NOWHERE}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = _SharedEmbedder(embed)

    def add(self, collection: str, item: wire.Item) -> int:
        return len(self._memory.add(item["text"], user_id=collection, infer=False)["results"])

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        messages = [{"role": "user", "content": item["text"]} for item in items]
        return len(self._memory.add(messages, user_id=collection, infer=False)["results"])

    def search(self, collection: str, text: str, k: int) -> list[str]:
        results = self._memory.search(text, top_k=k, filters={"user_id": collection})["results"]
        return [result["memory"] for result in results]

    def count(self, collection: str) -> int:
        return len(self._memory.get_all(filters={"user_id": collection}, top_k=_ALL)["results"])

    def close(self) -> None:
        self._memory.close()
        self._memory.vector_store.client.close()


class _SharedEmbedder(EmbeddingBase):  # type: ignore[misc,unused-ignore]
    def __init__(self, embed: wire.Embed) -> None:
        super().__init__()
        self._embed = embed

    def embed(self, text: str, memory_action: str | None = None) -> Any:
        del memory_action
        return self._embed([text])[0].tolist()

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> Any:
        del memory_action
        return self._embed(texts).tolist()


if __name__ == "__main__":
    wire.serve(Mem0)
