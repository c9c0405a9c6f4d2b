"""Domain knowledge of the fake store in `cofio.testing`: the same rules over dictionaries. For tests only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from cofio.models.domain_knowledge import (
    CLAIMS,
    TABLES,
    Claim,
    Feedback,
    Knowledge,
    KnowledgeChange,
    Table,
    check_table,
    sees,
)
from cofio.models.memory import Changeset, Scope, Viewer, check_fraction, check_int
from cofio.stores.apply import RowJournalEntry, refuse_unknown
from cofio.stores.domain_knowledge import (
    column_conditions,
    erased_name,
    matches_conditions,
    refuse_after,
    row_words,
    sort_by_confidence,
    sort_key,
    to_search_words,
)

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class FakeKnowledgeRows:
    """KnowledgeRows in dictionaries."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Knowledge]] = {table: {} for table in TABLES}
        self.entries: list[RowJournalEntry] = []
        self.owned: dict[int, Knowledge | None] = {}  # the row that each journal entry is about

    def load(self, table: Table, key: str) -> Knowledge | None:
        return self.rows[check_table(table)].get(key)

    def save(self, row: Knowledge) -> None:
        self.rows[row.TABLE][row.id] = row

    def remove(self, table: Table, key: str) -> None:
        del self.rows[table][key]

    def record(self, entry: RowJournalEntry, owned: Knowledge | None) -> int:
        self.entries.append(replace(entry, id=len(self.entries) + 1))
        self.owned[len(self.entries)] = owned
        return len(self.entries)

    def recorded(self, change_id: int) -> RowJournalEntry | None:
        return self.entries[change_id - 1] if 1 <= change_id <= len(self.entries) else None

    def next_recorded(self, entry: RowJournalEntry) -> RowJournalEntry | None:
        later = (other for other in self.entries[entry.id :] if (other.table, other.key) == (entry.table, entry.key))
        return next(later, None)

    def was_known(self, table: Table, key: str) -> bool:
        return any((entry.table, entry.key) == (table, key) for entry in self.entries)

    def erase(self, table: Table, key: str) -> None:
        ref, mark = f"{table}/{key}", erased_name(table, key)

        def clear_reference(row: Knowledge | None) -> Knowledge | None:
            if isinstance(row, Feedback) and ref in row.about:
                return replace(row, about=tuple(reference for reference in row.about if reference != ref))
            return row

        def scrub_entry(entry: RowJournalEntry) -> RowJournalEntry:
            if (entry.table, entry.key) == (table, key):
                self.owned[entry.id] = None
                return replace(entry, key=mark, before=None, reason="", erased=True)
            return replace(entry, before=clear_reference(entry.before))

        self.entries = [scrub_entry(entry) for entry in self.entries]
        for feedback in list(self.rows["feedback"].values()):
            self.save(clear_reference(feedback) or feedback)

    def changes(
        self, entries: Iterable[RowJournalEntry], changesets: Sequence[Changeset]
    ) -> tuple[KnowledgeChange, ...]:
        """Return the changes of these journal entries, each with the row after it."""
        changes = []
        for entry in entries:
            later, changeset = self.next_recorded(entry), changesets[entry.changeset - 1]
            after = later.before if later else self.rows[entry.table].get(entry.key)
            changes.append(entry.to_change(after, changeset.at, changeset.by, changeset.why))
        return tuple(changes)

    def of_changeset(self, changeset: Changeset, changesets: Sequence[Changeset]) -> tuple[KnowledgeChange, ...]:
        return self.changes((entry for entry in self.entries if entry.changeset == changeset.id), changesets)

    def changed_within(self, scope: Scope) -> set[int]:
        """Return the changesets that changed rows of the scope; none if it narrows by a field of memories only."""
        if replace(scope, viewer=None, include_archived=False).narrows:
            return set()
        entries = (entry for entry in self.entries if _may_see(scope.viewer, self.owned[entry.id]))
        return {entry.changeset for entry in entries}


def _may_see(viewer: Viewer | None, row: Knowledge | None) -> bool:
    return viewer is None or (row is not None and sees(viewer, row))


class FakeKnowledgeTables:
    """Domain of a MemoryStore; `holding` locks its tables for one caller at a time."""

    def __init__(
        self, holding: Callable[[], AbstractContextManager[tuple[FakeKnowledgeRows, Sequence[Changeset]]]]
    ) -> None:
        self._holding = holding

    def get(self, table: Table, keys: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        with self._holding() as (tables, _):
            rows = [tables.load(table, key) for key in keys if isinstance(key, str)]
        return [row for row in rows if row and sees(viewer, row)]

    def rows(
        self,
        table: Table,
        *,
        least: float = 0.0,
        where: Mapping[str, Any] = _NOTHING,
        limit: int | None = None,
        after: str | None = None,
        viewer: Viewer | None = None,
    ) -> list[Knowledge]:
        conditions = column_conditions(table, where)
        least, limit = check_fraction(least, "least"), None if limit is None else check_int(limit, "limit", least=0)
        ordered = self._sort_rows(table, viewer)
        if after is not None:
            places = [place for place, row in enumerate(ordered, start=1) if row.id == after]
            ordered = ordered[places[0] :] if places else refuse_after(table, after)
        matches = [row for row in ordered if matches_conditions(row, conditions) and _get_confidence(row) >= least]
        return matches[:limit]

    def _sort_rows(self, table: Table, viewer: Viewer | None) -> list[Knowledge]:
        with self._holding() as (tables, _):
            rows = [row for row in tables.rows[table].values() if sees(viewer, row)]
        rows.sort(key=lambda row: row.id)
        return sorted(rows, key=lambda row: sort_key(row)[0], reverse=True)

    def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        sought = set(to_search_words(words))
        claims = (row for table in CLAIMS for row in self._sort_rows(table, viewer))
        return sort_by_confidence(row for row in claims if sought.intersection(row_words(row)))

    def stated_by(self, memories: Sequence[int]) -> list[Knowledge]:
        claims = [row for table in CLAIMS for row in sorted(self._sort_rows(table, None), key=lambda row: row.id)]
        return [row for row in claims if isinstance(row, Claim) and row.memory in memories]

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        names = (key, erased_name(check_table(table), key))
        with self._holding() as (tables, changesets):
            entries = [entry for entry in tables.entries if entry.table == table and entry.key in names]
            changes = tables.changes(entries, changesets)
        return [replace(change, key=key) for change in changes] or refuse_unknown(table, key)

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:
        return {table: len(self._sort_rows(table, viewer)) for table in TABLES}


def _get_confidence(row: Knowledge) -> float:
    return row.confidence if isinstance(row, Claim) else 1.0
