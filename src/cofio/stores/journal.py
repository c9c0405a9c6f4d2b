"""Journal: entries as the units of `stores.apply` record them, rows of its tables, errors for what it does not have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cofio.errors import NotFound
from cofio.models.domain_knowledge import Knowledge, KnowledgeAction, KnowledgeChange, Table, row_from_dict
from cofio.models.memory import Action, Change, Changeset, Memory, Occurrence
from cofio.stores.row_mapping import as_json, from_json, occurrence_from

_HEAD = ("id", "at", "by", "why", "undoes", "undone_by", "part_of")


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
        before=from_json(before) if before else None,
        vector=vector,
        occurrence=occurrence_from(occurrence) if occurrence else None,
        erased=bool(erased),
        counters=counters_from(counters) if counters else None,
    )


def to_changeset(
    row: Sequence[Any], changes: Sequence[Change], knowledge: tuple[KnowledgeChange, ...] = ()
) -> Changeset:
    """Return the changeset of a row, with its changes."""
    return Changeset(**dict(zip(_HEAD, row, strict=True)), changes=tuple(changes), knowledge=knowledge)


def counters_json(counters: Counters) -> str:
    sightings = [[sighting.agent, sighting.session, sighting.at] for sighting in counters.sightings]
    return as_json([counters.retrieval_count, counters.last_retrieved_at, sightings])


def counters_from(text: str) -> Counters:
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
