"""Rows of memories and of the journal, in both directions, and errors for rows that do not exist."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from cofio.errors import InvalidInput, NotFound
from cofio.models.domain_knowledge import Knowledge, KnowledgeAction, KnowledgeChange, Table, row_from_dict
from cofio.models.memory import Action, Anchor, Change, Changeset, Memory, Occurrence
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
#: Columns that the digest of a row covers. A column that is added later is not among them, or it needs new digests.
DIGESTED = (
    "text", "source", "project", "category", "kind", "confidence", "method", "entities", "tags", "session", "agent",
    "user", "team", "visibility", "metadata", "speaker", "context", "created_at", "updated_at", "pinned", "archived_at",
    "supersedes", "superseded_by", "previous_text", "occurrences", "anchors", "origin", "provenance", "author",
)  # fmt: skip
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
    """Return the values of a row, by column, with its fingerprint and digest."""
    row = {name: getattr(memory, name) for name in COLUMNS}
    for name in _JSON:
        row[name] = as_json(row[name])
    row["anchors"] = as_json([asdict(anchor) for anchor in memory.anchors])
    row["pinned"] = int(memory.pinned)
    row["confidence"] = float(memory.confidence)
    row["fingerprint"] = fingerprint(memory.text)
    content = "\x1f".join([str(row[name]) for name in DIGESTED])
    row["digest"] = blake2b(content.encode(), digest_size=8).hexdigest()
    return row


def journal_state(memory: Memory) -> dict[str, Any]:
    """Return the journalled state, which an undo compares: everything but the retrieval counts."""
    return {name: value for name, value in memory.as_dict().items() if name not in (*COUNTED, "timestamp")}


def to_state(text: str) -> Memory:
    """Return the memory that the journal has as JSON."""
    return Memory.from_dict(json.loads(text))


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


class Counters(NamedTuple):
    """Data of a memory beside its content: retrieval counts, and sightings after the first."""

    retrieval_count: int = 0
    last_retrieved_at: str | None = None
    sightings: tuple[Occurrence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """Journal entry: a memory before a change."""

    id: int = 0
    changeset: int
    memory_id: int
    action: Action
    reason: str = ""
    before: Memory | None = None
    vector: bytes | None = None  # the vector that the change replaced or removed
    occurrence: Occurrence | None = None
    erased: bool = False
    counters: Counters | None = None  # stored with a memory that the change removed

    @property
    def label(self) -> str:
        return f"Memory {self.memory_id}"

    def to_change(self, after: Memory | None, at: str, by: str, why: str) -> Change:
        """Return the entry as a Change, given the state after it."""
        names = ("id", "changeset", "action", "memory_id", "before", "reason")
        return Change(**{name: getattr(self, name) for name in names}, after=after, at=at, by=by, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowJournalEntry:
    """Journal entry: a row of domain knowledge before a change."""

    id: int = 0
    changeset: int
    table: Table
    key: str
    action: KnowledgeAction
    reason: str = ""
    before: Knowledge | None = None
    erased: bool = False

    @property
    def label(self) -> str:
        return "This row" if self.action == "purge" else f"{self.table}/{self.key}"

    def to_change(self, after: Knowledge | None, at: str, by: str, why: str) -> KnowledgeChange:
        """Return the entry as a KnowledgeChange, given the state after it."""
        names = ("id", "changeset", "action", "table", "key", "before", "reason")
        return KnowledgeChange(**{name: getattr(self, name) for name in names}, after=after, at=at, by=by, why=why)


def to_entry(row: Sequence[Any]) -> JournalEntry:
    """Return the journal entry of a row of changes."""
    number, changeset, memory_id, action, reason, before, vector, occurrence, erased, counters = row
    return JournalEntry(
        id=number,
        changeset=changeset,
        memory_id=memory_id,
        action=action,
        reason=reason,
        before=to_state(before) if before else None,
        vector=vector,
        occurrence=Occurrence(*json.loads(occurrence)) if occurrence else None,
        erased=bool(erased),
        counters=_read_counters(counters) if counters else None,
    )


def to_changeset(row: Sequence[Any]) -> Changeset:
    """Return the changeset of a row, without its changes."""
    return Changeset(**dict(zip(("id", "at", "by", "why", "undoes", "undone_by", "part_of"), row, strict=True)))


def _read_counters(text: str) -> Counters:
    count, last, sightings = json.loads(text)
    return Counters(count, last, tuple(Occurrence(*sighting) for sighting in sightings))


def to_row_entry(row: Sequence[Any]) -> RowJournalEntry:
    """Return the journal entry of a row."""
    change_id, changeset, table, key, action, reason, before, erased = row
    return RowJournalEntry(
        id=change_id,
        changeset=changeset,
        table=table,
        key=key,
        action=action,
        reason=reason,
        before=read_row(table, before),
        erased=bool(erased),
    )


def read_row(table: Table, text: str | None) -> Knowledge | None:
    """Return the row that the journal has as JSON."""
    return row_from_dict(table, json.loads(text)) if text else None


def no_memory(memory_id: int) -> NotFound:
    return NotFound(f"There is no memory {memory_id}.", "It may have been purged; `cofio list` lists the memories.")


def no_row(table: str, key: str) -> NotFound:
    return NotFound(f"There is no {table}/{key}.", f"`cofio knowledge list {table}` lists the rows.")


def no_changeset(changeset_id: int) -> NotFound:
    return NotFound(f"There is no changeset {changeset_id}.", "`cofio history` lists the newest changesets.")
