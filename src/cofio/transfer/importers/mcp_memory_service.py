"""Reader of mcp-memory-service's SQLite-vec file. Vectors are not read, so the extension is not needed.

Tested with files of 8.24.0 and 12.4.0.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.markdown_notes.frontmatter import text_of
from cofio.transfer.importers import sqlite_reader
from cofio.transfer.importers.base import (
    Found,
    Importer,
    as_absolute_path,
    check_exists,
    object_of,
    to_fact,
    to_iso_time,
    to_list,
)

_NAME, _FILE = "mcp-memory-service", "sqlite_vec.db"
_NEEDED = {"content_hash", "content"}
_WANTED = (
    "content_hash", "content", "tags", "memory_type", "metadata", "created_at", "created_at_iso", "updated_at_iso",
    "store", "parent_id", "version", "confidence",
)  # fmt: skip
_PROJECT_KEYS = ("project", "project_path", "cwd")
#: Kind of each memory type. Unknown types become learnings of kind other.
_KIND_OF = {
    "decision": "decision", "architecture": "decision", "tool_choice": "technology", "approach": "decision",
    "configuration": "technology", "learning": "learning", "insight": "learning", "best_practice": "policy",
    "anti_pattern": "policy", "gotcha": "learning", "error": "learning", "bug": "learning", "mistake": "learning",
    "pattern": "pattern", "recurring_issue": "pattern", "design_pattern": "pattern", "workflow": "pattern",
    "preference": "preference", "preference_signal": "preference", "user_correction": "policy",
    "constraint": "policy", "requirement": "policy", "deadline": "temporal", "milestone": "temporal",
    "finding": "learning", "observation": "observation",
}  # fmt: skip


def _read(path: Path) -> Iterator[Found]:
    with _open(check_exists(path, "the database of mcp-memory-service")) as (db, columns, is_live):
        for row in sqlite_reader.rows(db, "memories", [name for name in _WANTED if name in columns], is_live):
            yield _to_fact(dict(row))


def _to_fact(row: dict[str, Any]) -> Found:
    metadata = object_of(row.get("metadata"))
    kind = _KIND_OF.get(str(row.get("memory_type") or "").strip().lower(), "other")
    store = str(row.get("store") or "")
    confidence = row.get("confidence")
    noted = ("content_hash", "memory_type", "updated_at_iso", "parent_id", "version")
    return to_fact(
        _NAME,
        str(row["content_hash"] or f"row {row['at_row']}"),
        row["content"],
        source=f"{_NAME}/{store}" if store not in ("", "default") else _NAME,
        project=next(filter(None, (as_absolute_path(metadata.get(key)) for key in _PROJECT_KEYS)), ""),
        kind=kind,
        category="learning" if kind in ("other", "observation") else "",
        confidence=confidence if isinstance(confidence, float) and 0 <= confidence <= 1 else 1.0,
        tags=[tag for tag in to_list(row.get("tags")) if tag != "untagged"],
        session=text_of(metadata, "session_id"),
        agent=text_of(metadata, "agent_id"),
        created_at=row.get("created_at") if to_iso_time(row.get("created_at")) else row.get("created_at_iso"),
        notes={**metadata, **{name: row.get(name) for name in noted}},
    )


@contextmanager
def _open(path: Path) -> Iterator[tuple[sqlite3.Connection, list[str], str]]:
    """Yield the database, its columns, and a condition for memories neither deleted nor replaced by a newer version."""
    file = sqlite_reader.file_in(path, _FILE)
    with sqlite_reader.opened(file) as db:
        columns = sqlite_reader.tables(db).get("memories", [])
        if not set(columns) >= _NEEDED:
            hint = "Such a database has a table `memories` with the columns content_hash and content."
            raise InvalidInput(f"{file} is not a database of mcp-memory-service.", hint)
        is_live = "deleted_at IS NULL" if "deleted_at" in columns else "1"
        if "superseded_by" in columns:
            is_live += " AND coalesce(superseded_by, '') = ''"
        yield db, columns, is_live


def _count(path: Path) -> int:
    with _open(path) as (db, _, is_live):
        return sqlite_reader.total(db, "memories", is_live)


READER = Importer(
    name=_NAME,
    says="the SQLite-vec database of mcp-memory-service (sqlite_vec.db)",
    read=_read,
    count=_count,
    fits=lambda path: set(sqlite_reader.shapes(sqlite_reader.file_in(path, _FILE)).get("memories", ())) >= _NEEDED,
)
