"""Conversion of journal entries to rows of a table and back. Shared by every SQL store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cofio.models.domain_knowledge import KnowledgeChange
from cofio.models.memory import Change, Changeset, Occurrence
from cofio.stores.apply import Counters, JournalEntry
from cofio.stores.row_mapping import as_json, from_json, occurrence_from

_HEAD = ("id", "at", "by", "why", "undoes", "undone_by", "part_of")


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
