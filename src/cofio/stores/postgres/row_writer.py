"""Tables of the server store for `stores.apply`: inside one transaction, one writer at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cofio.models.memory import Fact, Memory, Occurrence, Viewer
from cofio.stores.apply import Counters, JournalEntry
from cofio.stores.journal import beside_json, to_entry
from cofio.stores.postgres.bm25 import searchable
from cofio.stores.postgres.connection import TenantQueries
from cofio.stores.postgres.inbox import erase
from cofio.stores.postgres.vector_search import to_matrix
from cofio.stores.row_mapping import (
    COLUMNS,
    LISTED,
    PLACED,
    is_storable_int,
    occurrence_json,
    to_json,
    to_memory,
    to_row,
)
from cofio.text.tokens import fingerprint

_UNNAMED = tuple(name for name in COLUMNS if name != "id")  # for a memory that gets a new id
_ERASED = ("erase_changes", "erase_retrievals", "erase_previous_text", "erase_previous_text_in_changes")


class PostgresRowStorage:
    """Rows for `UnitOfWork`."""

    def __init__(self, rows: TenantQueries) -> None:
        self._rows = rows

    def load(self, memory_id: int) -> Memory | None:
        row = self._rows.one("get_memory", {"id": memory_id}, columns=LISTED) if is_storable_int(memory_id) else None
        return to_memory(row) if row else None

    def insert(self, memory: Memory) -> int:
        names = COLUMNS if memory.id else _UNNAMED
        columns, places = ", ".join(f'"{name}"' for name in names), ", ".join(f"%({name})s" for name in names)
        number = int(self._rows.value("insert_memory", _written(memory), columns=columns, places=places))
        if memory.id:
            self._rows.run("raise_sequence", {"id": number}, table="memories")
        return number

    def save(self, memory: Memory) -> None:
        self._rows.run("save_memory", _written(memory))

    def touched(self, memory_id: int) -> int:
        return int(self._rows.value("last_touched", {"id": memory_id}) or 0)

    def count(self, memory: Memory) -> None:
        counts = {"count": memory.retrieval_count, "last": memory.last_retrieved_at}
        self._rows.run("set_counts", {**counts, "id": memory.id})

    def remove(self, memory_id: int) -> None:
        self._rows.run("remove_memory", {"id": memory_id})

    def vector(self, memory_id: int) -> bytes | None:
        vector = self._rows.value("get_vector", {"id": memory_id})
        return to_matrix([vector])[0].astype("<f4").tobytes() if vector else None

    def beside(self, memory_id: int) -> Counters:
        count, last = self._rows.one("counts_of", {"id": memory_id}) or (0, None)
        sightings = self._rows.all("sightings_beside", {"id": memory_id})
        return Counters(count, last, tuple(Occurrence(*row) for row in sightings))

    def set_vector(self, memory_id: int, vector: bytes | None) -> None:
        if vector is None:
            self._rows.run("drop_vector", {"id": memory_id})
        else:
            self._rows.run("set_vector", {"id": memory_id, "vector": np.frombuffer(vector, "<f4")})

    def twin(self, fact: Fact) -> int | None:
        values = {name: getattr(fact, name) for name in PLACED}
        memory_id: int | None = self._rows.value("twin", {**values, "fingerprint": fingerprint(fact.text)})
        return memory_id

    def record(self, entry: JournalEntry) -> int:
        values = {
            "changeset": entry.changeset,
            "memory_id": entry.memory_id,
            "action": entry.action,
            "reason": entry.reason,
            "before": to_json(entry.before) if entry.before else None,
            "vector": entry.vector,
            "occurrence": occurrence_json(entry.occurrence) if entry.occurrence else None,
            "erased": int(entry.erased),
            "beside": beside_json(entry.beside) if entry.beside else None,
        }
        return int(self._rows.value("record", values))

    def recorded(self, change_id: int) -> JournalEntry | None:
        row = self._rows.one("recorded", {"id": change_id}) if is_storable_int(change_id) else None
        return to_entry(row) if row else None

    def next_recorded(self, entry: JournalEntry) -> JournalEntry | None:
        row = self._rows.one("next_recorded", {"memory_id": entry.memory_id, "id": entry.id})
        return to_entry(row) if row else None

    def see(self, memory_id: int, change_id: int, occurrence: Occurrence) -> None:
        values = {"agent": occurrence.agent, "session": occurrence.session, "at": occurrence.at}
        self._rows.run("see", {**values, "memory_id": memory_id, "change_id": change_id})

    def unsee(self, change_id: int) -> bool:
        return self._rows.count("unsee", {"id": change_id}) > 0

    def erase(self, memory: Memory, viewer: Viewer | None) -> None:
        erase(self._rows, memory, viewer)
        for name in _ERASED:
            self._rows.run(name, {"id": memory.id})


def _written(memory: Memory) -> dict[str, Any]:
    return {**to_row(memory), **searchable(memory)}


def storable_ids(ids: Sequence[int]) -> list[int]:
    """Return the ids that a column can hold."""
    return [number for number in ids if is_storable_int(number)]
