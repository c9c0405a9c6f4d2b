"""Stores of other tools, made again from what the tools themselves wrote (see samples/)."""

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
    """An SQLite file made from a sample's SQL."""
    db = sqlite3.connect(path)
    for sample in samples:
        db.executescript((SAMPLES / sample).read_text(encoding="utf-8"))
    db.close()
    return path


def writers() -> list[str]:
    """The versions of qdrant-client whose points there are."""
    return list(json.loads((SAMPLES / "points.json").read_text()))


def points(writer: str) -> list[tuple[str, bytes]]:
    rows = json.loads((SAMPLES / "points.json").read_text())[writer]
    return [(name, base64.b64decode(point)) for name, point in rows]


def qdrant(folder: Path, rows: list[tuple[str, bytes]], collection: str = "mem0") -> Path:
    """A local Qdrant folder that holds these points."""
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
    """All that the reader finds, when nothing is skipped."""
    found = list(READERS[name].read(path))
    assert [each for each in found if isinstance(each, SkippedEntry)] == []
    return [each for each in found if isinstance(each, Fact)]


def skipped(name: str, path: Path) -> list[SkippedEntry]:
    return [each for each in READERS[name].read(path) if isinstance(each, SkippedEntry)]


def traces(folder: Path) -> dict[str, str]:
    """Every file below the folder with a digest of what is in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
