"""Adapter of txtai: one index each, content stored, vectors by an external function; `hybrid` adds its keyword index.

An index is in memory until it is saved, which happens when the adapter is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import wire  # type: ignore[import-not-found]
from txtai import Embeddings  # type: ignore[import-not-found,unused-ignore]


class Txtai:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        self.version = version("txtai")
        self._folder = folder / "txtai"
        self._hybrid = bool(options.get("hybrid"))
        self._transform = lambda texts: embed(list(texts))  # a plain function is required, other callables are rejected
        self._open: dict[str, Any] = {}

    def add(self, collection: str, item: wire.Item) -> int:
        return self.add_many(collection, [item])

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        self._index(collection).upsert([(item["id"] or uuid4().hex, item["text"], None) for item in items])
        return len(items)

    def search(self, collection: str, text: str, k: int) -> list[str]:
        return [hit["text"] for hit in self._index(collection).search(text, k)]

    def count(self, collection: str) -> int:
        return int(self._index(collection).count())

    def close(self) -> None:
        for name, index in self._open.items():
            if index.count():
                index.save(str(self._folder / name))
            index.close()

    def _index(self, name: str) -> Any:
        if name not in self._open:
            settings = {"method": "external", "transform": self._transform, "content": True, "hybrid": self._hybrid}
            self._open[name] = Embeddings(**settings)
            if (self._folder / name).exists():
                self._open[name].load(str(self._folder / name), config={"transform": self._transform})
        return self._open[name]


if __name__ == "__main__":
    wire.serve(Txtai)
