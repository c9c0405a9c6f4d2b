"""Adapter of cofio itself, through its public interface: one store each.

`fields` passes speaker, date and preceding turns as fields of a fact; otherwise it gets only the text. `dedup` enables
deduplication in bulk adds; single adds always have it. `capture` sends statements through the capture interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import wire  # type: ignore[import-not-found]

import cofio

_FLOOR = 0.40  # the cosine of unrelated texts with the model of the run, as in cofio's own embedder


class Cofio:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        self.version = cofio.__version__
        self._folder = folder
        self._embedder = _SharedEmbedder(embed)
        self._fields = bool(options.get("fields"))
        self._dedup = bool(options.get("dedup"))
        self._capture = bool(options.get("capture"))
        self._open: dict[str, Any] = {}

    def add(self, collection: str, item: wire.Item) -> int:
        return int(self._keeper(collection).add(self._fact(item)).action == "add")

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        changes = self._keeper(collection).add_all([self._fact(item) for item in items], dedup=self._dedup)
        return sum(change.action == "add" for change in changes)

    def said(self, collection: str, text: str) -> int:
        if not self._capture:
            return self.add(collection, {"text": text})
        count_before = self.count(collection)
        self._keeper(collection).capture(text, wait=True)
        return max(self.count(collection) - count_before, 0)

    def search(self, collection: str, text: str, k: int) -> list[str]:
        memories = [hit.memory for hit in self._keeper(collection).search(text, k=k)]
        return [f"{memory.speaker}: {memory.text}" if memory.speaker else memory.text for memory in memories]

    def count(self, collection: str) -> int:
        return int(self._keeper(collection).list(limit=1).total)

    def close(self) -> None:
        for keeper in self._open.values():
            keeper.close()

    def _fact(self, item: wire.Item) -> cofio.Fact:
        fields: Mapping[str, Any] = item.get("fields") or {}
        return cofio.Fact(**fields) if self._fields and fields else cofio.Fact(text=item["text"])

    def _keeper(self, name: str) -> Any:
        if name not in self._open:
            store = f"sqlite://{self._folder / name}.db"
            self._open[name] = cofio.open(store, embedder=self._embedder, home=self._folder)
        return self._open[name]


class _SharedEmbedder:
    signature = "bench:bge-small-en-v1.5:384"
    floor = _FLOOR

    def __init__(self, embed: wire.Embed) -> None:
        self._embed = embed
        self.dimension = embed.dimension

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Any:
        del kind
        return self._embed(texts) if texts else self._embed([""])[:0]


if __name__ == "__main__":
    wire.serve(Cofio)
