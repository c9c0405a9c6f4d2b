"""Adapter of plain SQLite FTS5: porter stemming, words without stop words joined by OR; one file each, no vectors."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wire  # type: ignore[import-not-found]

_WORD = re.compile(r"\w+")


class Fts5:
    def __init__(self, folder: Path, embed: wire.Embed, options: Mapping[str, Any]) -> None:
        del embed
        self.version = sqlite3.sqlite_version
        self._folder = folder
        self._stop = frozenset(options.get("stop") or ())
        self._open: dict[str, sqlite3.Connection] = {}

    def add(self, collection: str, item: wire.Item) -> int:
        return self.add_many(collection, [item])

    def add_many(self, collection: str, items: Sequence[wire.Item]) -> int:
        run = self._file(collection)
        run.execute("BEGIN")
        run.executemany("INSERT INTO words (text) VALUES (?)", [(item["text"],) for item in items])
        run.execute("COMMIT")
        return len(items)

    def search(self, collection: str, text: str, k: int) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in self._stop]
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        query = "SELECT text FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return [row[0] for row in self._file(collection).execute(query, (match, k))]

    def count(self, collection: str) -> int:
        return int(self._file(collection).execute("SELECT count(*) FROM words").fetchone()[0])

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def _file(self, name: str) -> sqlite3.Connection:
        if name not in self._open:
            run = sqlite3.connect(self._folder / f"{name}.db", isolation_level=None)
            for pragma in ("journal_mode = WAL", "synchronous = FULL"):
                run.execute(f"PRAGMA {pragma}")
            run.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, tokenize = 'porter')")
            self._open[name] = run
        return self._open[name]


if __name__ == "__main__":
    wire.serve(Fts5)
