"""Tables of memories for `stores.apply`, in an SQL store: inside one transaction, one writer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cache
from typing import Any

from cofio.models.memory import Fact, Memory, Occurrence, Viewer
from cofio.stores.filters import Dialect
from cofio.stores.inbox import erase_captures
from cofio.stores.purge import PurgedTraces
from cofio.stores.query_runner import Queries
from cofio.stores.row_mapping import (
    COLUMNS,
    COUNTED,
    LISTED,
    PLACED,
    Counters,
    JournalEntry,
    as_json,
    is_storable_int,
    journal_state,
    to_entry,
    to_memory,
    to_row,
    to_state,
)
from cofio.text.stemmer import stem
from cofio.text.tokens import fingerprint, search_terms

_ERASED = ("erase_changes", "erase_retrievals")


@cache
def _list_columns(dialect: Dialect, *, with_id: bool) -> tuple[str, str]:
    """Return the columns and the values of an INSERT of a memory."""
    names = [name for name in COLUMNS if with_id or name != "id"]
    return ", ".join(f'"{name}"' for name in names), ", ".join(map(dialect.value.format, names))


@cache
def _list_changed(dialect: Dialect) -> str:
    """Return the assignments of an UPDATE of a memory."""
    names = (name for name in COLUMNS if name not in ("id", *COUNTED))
    return ", ".join(f'"{name}" = {dialect.value.format(name)}' for name in names)


class SqlRowStorage:
    """Memories inside one transaction. The columns of a memory follow from its dataclass."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def load(self, memory_id: int) -> Memory | None:
        if not is_storable_int(memory_id):
            return None
        row = self._queries.one("get_memory", {"id": memory_id}, columns=LISTED)
        return to_memory(row) if row else None

    def insert(self, memory: Memory) -> int:
        columns, places = _list_columns(self._queries.dialect, with_id=bool(memory.id))
        return int(self._queries.value("insert_memory", self._to_row(memory), columns=columns, places=places))

    def save(self, memory: Memory) -> None:
        self._queries.run("save_memory", self._to_row(memory), changed=_list_changed(self._queries.dialect))

    def _to_row(self, memory: Memory) -> dict[str, Any]:
        return to_row(memory)

    def last_changeset(self, memory_id: int) -> int:
        return int(self._queries.value("last_touched", {"id": memory_id}) or 0)

    def set_counts(self, memory: Memory) -> None:
        """Set its retrieval counts, which `save` does not change."""
        counts = {"count": memory.retrieval_count, "last": memory.last_retrieved_at}
        self._queries.run("set_counts", {**counts, "id": memory.id})

    def remove(self, memory_id: int) -> None:
        self._queries.run("remove_memory", {"id": memory_id})

    def vector(self, memory_id: int) -> bytes | None:
        vector = self._queries.value("get_vector", {"id": memory_id})
        return None if vector is None else self._queries.to_blob(vector)

    def set_vector(self, memory_id: int, vector: bytes | None) -> None:
        if vector is None:
            self._queries.run("drop_vector", {"id": memory_id})
        else:
            self._queries.run("set_vector", {"id": memory_id, "vector": self._queries.to_vector(vector)})

    def counters(self, memory_id: int) -> Counters:
        count, last = self._queries.one("counts_of", {"id": memory_id}) or (0, None)
        sightings = self._queries.all("sightings_beside", {"id": memory_id})
        return Counters(count, last, tuple(Occurrence(*row) for row in sightings))

    def find_duplicate(self, fact: Fact) -> int | None:
        """Return the live memory with the same text in the same place."""
        values = {name: getattr(fact, name) for name in PLACED}
        memory_id: int | None = self._queries.value("twin", {**values, "fingerprint": fingerprint(fact.text)})
        return memory_id

    def record(self, entry: JournalEntry) -> int:
        counters = entry.counters
        values = {
            "changeset": entry.changeset,
            "memory_id": entry.memory_id,
            "action": entry.action,
            "reason": entry.reason,
            "before": as_json(journal_state(entry.before)) if entry.before else None,
            "vector": entry.vector,
            "occurrence": as_json(astuple(entry.occurrence)) if entry.occurrence else None,
            "erased": int(entry.erased),
            "counters": as_json([*counters[:2], list(map(astuple, counters.sightings))]) if counters else None,
        }
        return int(self._queries.value("record", values))

    def recorded(self, change_id: int) -> JournalEntry | None:
        row = self._queries.one("recorded", {"id": change_id}) if is_storable_int(change_id) else None
        return to_entry(row) if row else None

    def next_recorded(self, entry: JournalEntry) -> JournalEntry | None:
        row = self._queries.one("next_recorded", {"memory_id": entry.memory_id, "id": entry.id})
        return to_entry(row) if row else None

    def add_sighting(self, memory_id: int, change_id: int, occurrence: Occurrence) -> None:
        values = {"agent": occurrence.agent, "session": occurrence.session, "at": occurrence.at}
        self._queries.run("see", {**values, "memory_id": memory_id, "change_id": change_id})

    def remove_sighting(self, change_id: int) -> bool:
        return self._queries.count("unsee", {"id": change_id}) > 0

    def erase(self, memory: Memory, viewer: Viewer | None) -> None:
        """Remove its words from the inbox, the journal, the retrieval log, and from memories that have copies of them.

        With a viewer, only from items and memories of that viewer.
        """
        texts = erase_captures(self._queries, memory, viewer)
        lineage = self._list_lineage(memory)
        traces = PurgedTraces(memory, texts, lineage, anybody=viewer is None)
        bounds = {"id": memory.id, "lineage": self._queries.listed(lineage), "said": self._queries.listed(texts)}
        for row in self._queries.all("memories_with_copies", bounds, columns=LISTED):
            other = to_memory(row)
            if (clean := traces.remove_from(other)) != other:
                self.save(clean)
        for change_id, state in self._queries.all("changes_with_copies", bounds):
            before = to_state(state)
            if (clean := traces.remove_from(before)) != before:
                self._queries.run("set_before", {"id": change_id, "before": as_json(journal_state(clean))})
        if viewer is None:
            self._queries.run("erase_reasons_of_changes", bounds)
        found_by = {"ids": self._queries.listed([memory.id, *lineage]), "anybody": int(viewer is None)}
        self._erase_logged_queries(found_by, texts)
        for name in _ERASED:
            self._queries.run(name, {"id": memory.id})

    def _list_lineage(self, memory: Memory) -> list[int]:
        """Return the memories linked to a removed one by replacement or merging, over any number of links."""
        lineage: set[int] = set()
        links = {link for link in (memory.id, memory.supersedes, memory.superseded_by) if link is not None}
        while links - lineage:
            lineage |= links
            rows = self._queries.all("linked", {"ids": self._queries.listed(sorted(lineage))})
            links = {link for row in rows for link in row if link is not None}
        return sorted(lineage - {memory.id})

    def _erase_logged_queries(self, bounds: Mapping[str, Any], texts: Sequence[str]) -> None:
        """Blank logged queries that have a word that only the purged texts had."""
        words = {word for text in texts for word in search_terms(text)}
        gone = {stem(word) for word in words if not self._queries.value("any_holding", {"word": self._to_phrase(word)})}
        logged = self._queries.column("logged_queries", bounds) if gone else []
        told = [query for query in logged if gone & {stem(word) for word in search_terms(query)}]
        self._queries.run("erase_queries", {"queries": self._queries.listed(told)})

    def _to_phrase(self, word: str) -> str:
        """Return a word as the full-text index of the dialect matches it."""
        raise NotImplementedError
