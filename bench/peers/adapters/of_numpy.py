"""Adapter of NumPy: exact cosine over one matrix in memory, one row per text; saved as two files on close."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wire  # type: ignore[import-not-found]


class Exact:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        del options
        self.version = np.__version__
        self._folder = folder
        self._embed = embed
        self._open: dict[str, _Rows] = {}

    def add(self, collection: str, item: wire.Item) -> int:
        return self.add_many(collection, [item])

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        texts = [item["text"] for item in items]
        self._rows(collection).append(texts, self._embed(texts))
        return len(items)

    def search(self, collection: str, text: str, k: int) -> list[str]:
        rows = self._rows(collection)
        if not rows.texts:
            return []
        cosines = rows.matrix @ self._embed([text])[0]
        k = min(k, len(cosines))
        rows_found = np.argpartition(-cosines, k - 1)[:k]
        return [rows.texts[row] for row in rows_found[np.argsort(-cosines[rows_found], kind="stable")]]

    def count(self, collection: str) -> int:
        return len(self._rows(collection).texts)

    def close(self) -> None:
        for name, rows in self._open.items():
            np.save(self._folder / f"{name}.npy", rows.matrix)
            (self._folder / f"{name}.json").write_text(json.dumps(rows.texts), encoding="utf-8")

    def _rows(self, name: str) -> _Rows:
        if name not in self._open:
            rows = self._open[name] = _Rows()
            if (self._folder / f"{name}.npy").exists():
                texts = json.loads((self._folder / f"{name}.json").read_text(encoding="utf-8"))
                rows.append(texts, np.load(self._folder / f"{name}.npy"))
        return self._open[name]


class _Rows:
    """Matrix with room to grow, and the texts of its rows."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._room = np.empty((0, 0), np.float32)

    @property
    def matrix(self) -> Any:
        return self._room[: len(self.texts)]

    def append(self, texts: Sequence[str], vectors: Any) -> None:
        needed = len(self.texts) + len(texts)
        if needed > len(self._room):
            grown = np.empty((max(needed, 2 * len(self._room)), vectors.shape[1]), np.float32)
            if self.texts:
                grown[: len(self.texts)] = self.matrix
            self._room = grown
        self._room[len(self.texts) : needed] = vectors
        self.texts.extend(texts)


if __name__ == "__main__":
    wire.serve(Exact)
