"""Domain knowledge of the fake store in `cofio.testing`: the same rules over dictionaries. For tests only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from cofio.models.knowledge import CLAIMS, TABLES, Claim, Feedback, Knowledge, KnowledgeChange, Table, check_table, sees
from cofio.models.memory import Changeset, Scope, Viewer, check_fraction, check_int
from cofio.stores.knowledge import (
    RowJournalEntry,
    column_conditions,
    erased_name,
    is_what_is_wanted,
    place_in_order,
    refuse_after,
    refuse_unknown,
    sort_by_confidence,
    to_knowledge_change,
    words_kept,
    words_sought,
)

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class FakeKnownRows:
    """KnownRows in dictionaries."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Knowledge]] = {table: {} for table in TABLES}
        self.lines: list[RowJournalEntry] = []
        self.whose: dict[int, Knowledge | None] = {}  # the row that each journal entry is about

    def load(self, table: Table, key: str) -> Knowledge | None:
        return self.rows[check_table(table)].get(key)

    def save(self, known: Knowledge) -> None:
        self.rows[known.TABLE][known.id] = known

    def remove(self, table: Table, key: str) -> None:
        del self.rows[table][key]

    def record(self, line: RowJournalEntry, whose: Knowledge | None) -> int:
        self.lines.append(replace(line, id=len(self.lines) + 1))
        self.whose[len(self.lines)] = whose
        return len(self.lines)

    def recorded(self, change_id: int) -> RowJournalEntry | None:
        return self.lines[change_id - 1] if 1 <= change_id <= len(self.lines) else None

    def next_recorded(self, line: RowJournalEntry) -> RowJournalEntry | None:
        later = (each for each in self.lines[line.id :] if (each.table, each.key) == (line.table, line.key))
        return next(later, None)

    def was_known(self, table: Table, key: str) -> bool:
        return any((line.table, line.key) == (table, key) for line in self.lines)

    def erase(self, table: Table, key: str) -> None:
        ref, mark = f"{table}/{key}", erased_name(table, key)

        def cleared(known: Knowledge | None) -> Knowledge | None:
            if isinstance(known, Feedback) and ref in known.about:
                return replace(known, about=tuple(each for each in known.about if each != ref))
            return known

        def scrubbed(line: RowJournalEntry) -> RowJournalEntry:
            if (line.table, line.key) == (table, key):
                self.whose[line.id] = None
                return replace(line, key=mark, before=None, reason="", erased=True)
            return replace(line, before=cleared(line.before))

        self.lines = [scrubbed(line) for line in self.lines]
        for each in list(self.rows["feedback"].values()):
            self.save(cleared(each) or each)

    def changes(self, lines: Iterable[RowJournalEntry], changesets: Sequence[Changeset]) -> tuple[KnowledgeChange, ...]:
        """Return the changes of these journal entries, each with the row after it."""
        told = []
        for line in lines:
            later, done = self.next_recorded(line), changesets[line.changeset - 1]
            after = later.before if later else self.rows[line.table].get(line.key)
            told.append(to_knowledge_change(line, after, done.at, done.by, done.why))
        return tuple(told)

    def of_changeset(self, changeset: Changeset, changesets: Sequence[Changeset]) -> tuple[KnowledgeChange, ...]:
        return self.changes((line for line in self.lines if line.changeset == changeset.id), changesets)

    def changed_within(self, scope: Scope) -> set[int]:
        """Return the changesets that changed rows of the scope; none if it narrows by a field of memories only."""
        if replace(scope, viewer=None, include_archived=False).narrows:
            return set()
        seen = (line for line in self.lines if _may_see(scope.viewer, self.whose[line.id]))
        return {line.changeset for line in seen}


def _may_see(viewer: Viewer | None, whose: Knowledge | None) -> bool:
    return viewer is None or (whose is not None and sees(viewer, whose))


class FakeKnowledgeTables:
    """Domain of a MemoryStore; `holding` locks its tables for one caller at a time."""

    def __init__(
        self, holding: Callable[[], AbstractContextManager[tuple[FakeKnownRows, Sequence[Changeset]]]]
    ) -> None:
        self._holding = holding

    def get(self, table: Table, keys: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        with self._holding() as (held, _):
            found = [held.load(table, key) for key in keys if isinstance(key, str)]
        return [known for known in found if known and sees(viewer, known)]

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
        asked = column_conditions(table, where)
        least, limit = check_fraction(least, "least"), None if limit is None else check_int(limit, "limit", least=0)
        ordered = self._ordered(table, viewer)
        if after is not None:
            places = [place for place, known in enumerate(ordered, start=1) if known.id == after]
            ordered = ordered[places[0] :] if places else refuse_after(table, after)
        found = [known for known in ordered if is_what_is_wanted(known, asked) and _confidence(known) >= least]
        return found[:limit]

    def _ordered(self, table: Table, viewer: Viewer | None) -> list[Knowledge]:
        with self._holding() as (held, _):
            rows = [known for known in held.rows[table].values() if sees(viewer, known)]
        rows.sort(key=lambda known: known.id)
        return sorted(rows, key=lambda known: place_in_order(known)[0], reverse=True)

    def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        sought = set(words_sought(words))
        claims = (known for table in CLAIMS for known in self._ordered(table, viewer))
        return sort_by_confidence(known for known in claims if sought.intersection(words_kept(known)))

    def told_by(self, memories: Sequence[int]) -> list[Knowledge]:
        claims = [known for table in CLAIMS for known in sorted(self._ordered(table, None), key=lambda known: known.id)]
        return [known for known in claims if isinstance(known, Claim) and known.memory in memories]

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        names = (key, erased_name(check_table(table), key))
        with self._holding() as (held, changesets):
            lines = [line for line in held.lines if line.table == table and line.key in names]
            changes = held.changes(lines, changesets)
        return [replace(change, key=key) for change in changes] or refuse_unknown(table, key)

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:
        return {table: len(self._ordered(table, viewer)) for table in TABLES}


def _confidence(known: Knowledge) -> float:
    return known.confidence if isinstance(known, Claim) else 1.0
