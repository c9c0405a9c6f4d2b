"""Conversion of memories to rows of a table and to the journal's JSON. Shared by every SQL store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from cofio.errors import InvalidInput
from cofio.models.memory import Anchor, Memory, Occurrence
from cofio.ports import Vector
from cofio.text.tokens import fingerprint

COLUMNS = tuple(f.name for f in fields(Memory))
#: The columns for a SELECT or an INSERT. Quoted, because an unquoted `user` is the current user in PostgreSQL.
LISTED = ", ".join(f'"{name}"' for name in COLUMNS)
#: Columns written by the retrieval log only: not journalled, and not compared by an undo.
COUNTED = ("retrieval_count", "last_retrieved_at")
#: Columns in which memories of equal text differ.
PLACED = ("source", "project", "visibility", "speaker", "agent", "user", "team")
_JSON = ("entities", "tags", "metadata")
_AT = {name: place for place, name in enumerate(COLUMNS)}
_ENTITIES, _TAGS, _METADATA, _PINNED, _ANCHORS = (
    _AT[name] for name in ("entities", "tags", "metadata", "pinned", "anchors")
)


def to_memory(row: Sequence[Any]) -> Memory:
    """Return the memory of a row selected with COLUMNS."""
    values = list(row)
    values[_ENTITIES] = tuple(json.loads(row[_ENTITIES])) if row[_ENTITIES] != "[]" else ()
    values[_TAGS] = tuple(json.loads(row[_TAGS])) if row[_TAGS] != "[]" else ()
    values[_METADATA] = json.loads(row[_METADATA]) if row[_METADATA] != "{}" else {}
    values[_PINNED] = bool(row[_PINNED])
    values[_ANCHORS] = tuple(Anchor(**load) for load in json.loads(row[_ANCHORS])) if row[_ANCHORS] != "[]" else ()
    return Memory(**dict(zip(COLUMNS, values, strict=True)))


def to_row(memory: Memory) -> dict[str, Any]:
    """Return the values of a row, by column, with the fingerprint."""
    row = {name: getattr(memory, name) for name in COLUMNS}
    for name in _JSON:
        row[name] = as_json(row[name])
    row["anchors"] = as_json([asdict(anchor) for anchor in memory.anchors])
    row["pinned"] = int(memory.pinned)
    row["fingerprint"] = fingerprint(memory.text)
    return row


def journal_state(memory: Memory) -> dict[str, Any]:
    """Return the journalled state, which an undo compares: everything but the retrieval counts."""
    return {name: value for name, value in memory.as_dict().items() if name not in (*COUNTED, "timestamp")}


def to_json(memory: Memory) -> str:
    return as_json(journal_state(memory))


def from_json(text: str) -> Memory:
    return Memory.from_dict(json.loads(text))


def occurrence_json(occurrence: Occurrence) -> str:
    return as_json([occurrence.agent, occurrence.session, occurrence.at])


def occurrence_from(text: str) -> Occurrence:
    return Occurrence(*json.loads(text))


def as_json(value: Any) -> str:
    """Return compact JSON with non-ASCII characters unescaped."""
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_storable_int(number: int) -> bool:
    """Return whether it is an integer that a column can hold."""
    return isinstance(number, int) and -(1 << 63) <= number < 1 << 63


def storable_ids(ids: Iterable[int]) -> list[int]:
    """Return the ids that a column can hold."""
    return [number for number in ids if is_storable_int(number)]


def check_vectors(vectors: Mapping[int, Vector], dimension: int | None) -> None:
    """Raise InvalidInput unless all are vectors of finite numbers and of one length: the store's, if it has one."""
    lengths = set() if dimension is None else {dimension}
    for vector in vectors.values():
        row = np.asarray(vector)
        if row.ndim != 1 or row.dtype.kind != "f" or not np.isfinite(row).all() or not row.any():
            raise InvalidInput(
                "The embedder returned an unusable vector: not one-dimensional, not finite or all zero.",
                "Choose another model with COFIO_EMBEDDER, or fix your own embedder.",
            )
        lengths.add(len(row))
    if len(lengths) > 1:
        raise InvalidInput(
            f"Vectors with {' and '.join(map(str, sorted(lengths)))} dimensions cannot be mixed in a store.",
            "Use the embedder of the existing vectors, or run `cofio reembed`.",
        )
