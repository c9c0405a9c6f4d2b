"""Adapter of chromadb: one collection each, with vectors passed along with the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import chromadb  # type: ignore[import-not-found,unused-ignore]
import wire  # type: ignore[import-not-found]


class Chroma:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        del options
        self.version = version("chromadb")
        self._embed = embed
        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(str(folder / "chroma"), settings=settings)
        self._open: dict[str, Any] = {}

    def add(self, collection: str, item: wire.Item) -> int:
        return self.add_many(collection, [item])

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        texts = [item["text"] for item in items]
        self._collection(collection).add(
            ids=[item["id"] or uuid4().hex for item in items], documents=texts, embeddings=self._embed(texts)
        )
        return len(items)

    def search(self, collection: str, text: str, k: int) -> list[str]:
        results = self._collection(collection).query(query_embeddings=self._embed([text]), n_results=k)
        return list(results["documents"][0])

    def count(self, collection: str) -> int:
        return int(self._collection(collection).count())

    def close(self) -> None:
        self._open.clear()

    def _collection(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = self._client.get_or_create_collection(
                name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
        return self._open[name]


if __name__ == "__main__":
    wire.serve(Chroma)
