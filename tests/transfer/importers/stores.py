"""Stores of other tools, rebuilt from what the tools wrote (see samples/)."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from pathlib import Path

from cofio.models.memory import Fact
from cofio.transfer.importers import READERS, SkippedEntry

SAMPLES = Path(__file__).parent / "samples"


def database(path: Path, *samples: str) -> Path:
    """Create an SQLite file from SQL samples."""
    db = sqlite3.connect(path)
    for sample in samples:
        db.executescript((SAMPLES / sample).read_text(encoding="utf-8"))
    db.close()
    return path


def writers() -> list[str]:
    """Return the versions of qdrant-client with samples."""
    return list(json.loads((SAMPLES / "points.json").read_text()))


def points(writer: str) -> list[tuple[str, bytes]]:
    rows = json.loads((SAMPLES / "points.json").read_text())[writer]
    return [(name, base64.b64decode(point)) for name, point in rows]


def qdrant(folder: Path, rows: list[tuple[str, bytes]], collection: str = "mem0") -> Path:
    """Create a local Qdrant folder with these points."""
    inner = folder / "collection" / collection
    inner.mkdir(parents=True)
    (folder / "meta.json").write_text('{"collections": {}, "aliases": {}}')
    db = sqlite3.connect(inner / "storage.sqlite")
    with db:
        db.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        db.executemany("INSERT INTO points VALUES (?, ?)", rows)
    db.close()
    return folder


def facts(name: str, path: Path) -> list[Fact]:
    """Return all facts of the reader, expecting no skipped entries."""
    results = list(READERS[name].read(path))
    assert [item for item in results if isinstance(item, SkippedEntry)] == []
    return [item for item in results if isinstance(item, Fact)]


def skipped(name: str, path: Path) -> list[SkippedEntry]:
    return [item for item in READERS[name].read(path) if isinstance(item, SkippedEntry)]


def traces(folder: Path) -> dict[str, str]:
    """Return a digest of every file below the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
