"""Reader of mem0: the JSON of its `get_all()` and of the platform's export, and its local Qdrant folder.

    entry   id, memory, user_id, agent_id, run_id, metadata, categories, created_at, updated_at …
    point   the same in Qdrant's payload, with the text in `data` and the metadata beside it

Tested with stores of mem0 0.1.118 and 2.2.1, with qdrant-client 1.1.7 to 1.20.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.transfer.importers import sqlite_reader
from cofio.transfer.importers.base import (
    Found,
    Importer,
    SkippedEntry,
    as_absolute_path,
    check_exists,
    object_of,
    to_fact,
    to_list,
)
from cofio.transfer.importers.json_stream import entries
from cofio.transfer.importers.safe_unpickle import BadPickle, state_of

_LISTS = ("results", "memories", "data", "items")
_TEXTS = ("memory", "data", "text", "content")
_COUNTED = 64 << 20  # bytes; a larger document is not read twice
#: Fields used for the fact, or meaningless without the vector.
_USED = frozenset(
    """id memory data text content metadata user_id agent_id run_id actor_id categories created_at score embedding
    text_lemmatized""".split()
)
_KIND_OF = {"user_preferences": "preference", "preferences": "preference", "technology": "technology"}


def _read_json(path: Path) -> Iterator[Found]:
    for number, entry in enumerate(entries(check_exists(path, "a JSON export of mem0"), _LISTS), 1):
        if not isinstance(entry, dict):
            yield SkippedEntry("The entry is not a JSON object.", f"mem0/entry {number}")
        elif not _is_hidden(entry):
            # An entry without an id is named by its content rather than its position.
            digest = blake2b(json.dumps(entry, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
            yield _make_fact(str(entry.get("id") or f"entry {digest}"), entry)


def _make_fact(name: str, entry: Mapping[str, Any]) -> Found:
    text = next((entry[field_name] for field_name in _TEXTS if isinstance(entry.get(field_name), str)), None)
    metadata = object_of(entry.get("metadata"))
    user = str(entry.get("user_id") or "")
    categories = to_list(entry.get("categories"))
    kind = next((_KIND_OF[category] for category in categories if category in _KIND_OF), "other")
    return to_fact(
        "mem0",
        name,
        text,
        source=f"mem0/{user}" if user else "mem0",
        project=as_absolute_path(metadata.get("project")) or as_absolute_path(metadata.get("cwd")),
        kind=kind,
        category="" if kind != "other" else "learning",
        tags=categories,
        session=str(entry.get("run_id") or ""),
        agent=str(entry.get("agent_id") or ""),
        speaker=str(entry.get("actor_id") or ""),
        created_at=entry.get("created_at"),
        notes={**metadata, **{key: value for key, value in entry.items() if key not in _USED}},
    )


def _is_hidden(entry: Mapping[str, Any]) -> bool:
    """Return whether mem0 itself would hide it: deleted or expired."""
    try:
        expired = date.fromisoformat(str(entry.get("expiration_date"))[:10]) < datetime.now(UTC).date()
    except ValueError:
        expired = False
    return expired or bool(entry.get("deleted_at") or entry.get("is_deleted"))


def _fits_json(path: Path) -> bool:
    if not path.is_file() or path.suffix.lower() not in (".json", ".jsonl", ".ndjson"):
        return False
    try:
        first = next(islice(entries(path, _LISTS), 1), None)
    except InvalidInput:
        return False
    return isinstance(first, dict) and isinstance(first.get("memory"), str)


JSON = Importer(
    name="mem0",
    says="a JSON file with what mem0's get_all() returns, or an export of its platform",
    read=_read_json,
    count=lambda path: None if path.stat().st_size > _COUNTED else sum(1 for _ in entries(path, _LISTS)),
    fits=_fits_json,
)


def _read_qdrant(path: Path) -> Iterator[Found]:
    files = _find_collections(check_exists(path, "a Qdrant folder of mem0"))
    if not files:
        hint = "Give a folder that contains collection/NAME/storage.sqlite."
        raise InvalidInput(f"{path} is not a local Qdrant folder.", hint)
    for file in files:
        with sqlite_reader.opened(file) as db:
            if "point" not in sqlite_reader.tables(db).get("points", ()):
                hint = "Give a folder that qdrant-client wrote."
                raise InvalidInput(f"{file} has no table `points` with a column `point`.", hint)
            for row in sqlite_reader.rows(db, "points", ("id", "point")):
                entry = _read_point(f"{file.parent.name}/row {row['at_row']}", row["point"])
                if entry is not None:
                    yield entry


def _read_point(where: str, blob: Any) -> Found | None:
    """Return the fact of a point; None if it is not a memory: mem0 stores entities and markers as points too."""
    if not isinstance(blob, bytes):
        return SkippedEntry("The entry is not a Qdrant point, or is too large.", f"mem0/{where}")
    try:
        point = state_of(blob)
    except BadPickle as error:
        return SkippedEntry(str(error), f"mem0/{where}")
    payload = point.get("payload")
    if not isinstance(payload, dict) or not isinstance(payload.get("data"), str):
        return None
    if "linked_memory_ids" in payload or _is_hidden(payload):
        return None
    own_fields = {key: value for key, value in payload.items() if key not in _USED}
    inner = payload.get("metadata")
    return _make_fact(str(point.get("id") or where), {**payload, "metadata": {**own_fields, **object_of(inner)}})


def _find_collections(path: Path) -> list[Path]:
    if path.name == "storage.sqlite":
        return [path]
    return sorted(path.glob("collection/*/storage.sqlite")) if path.is_dir() else []


def _count_points(file: Path) -> int:
    with sqlite_reader.opened(file) as db:
        return sqlite_reader.total(db, "points")


def _fits_qdrant(path: Path) -> bool:
    files = _find_collections(path)
    return any("point" in sqlite_reader.shapes(file).get("points", ()) for file in files)


QDRANT = Importer(
    name="mem0-qdrant",
    says="mem0's local Qdrant folder, as stored on disk",
    read=_read_qdrant,
    count=lambda path: sum(map(_count_points, _find_collections(path))),
    fits=_fits_qdrant,
)
