"""Ids of imported rows of domain knowledge: their own, unless it belongs to another thing here.

An id derives from what the row is about, so the same id is the same thing in every store, and existing rows are kept.
But people choose ids too: if two things share one, the imported row gets a suffix, the same on each import. Verdicts
follow the claims that they judge, and claims the memories that express them. A verdict that was applied to claims
there, but to none of those here, is imported as unprocessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from cofio.models.knowledge import MAX_ID, TABLES, Claim, Feedback, Knowledge
from cofio.ports import Store
from cofio.transfer.id_mapping import IdMapping


class KnowledgeIdMapping:
    """Rows of one import."""

    def __init__(self, store: Store, identity: str, places: IdMapping | None) -> None:
        self._store = store
        self._places = places  # of the memories; None for a dry run, which stores nothing
        self._end = "~" + blake2b(identity.encode(), digest_size=3).hexdigest()
        self._renamed: dict[str, str] = {}  # new references by the original ones
        self._counted: dict[str, bool] = {}  # whether the claim here has the same verdicts as the imported one

    def new(self, rows: Sequence[Knowledge]) -> list[Knowledge]:
        """Return the rows that are not here yet, each once, as they are to be stored."""
        named = self._named(rows)
        there = self._there(named)
        fresh = {each.ref: each for each in reversed(named) if each.ref not in there}
        return self._linked([self._judging(each) for each in reversed(fresh.values())])

    def _named(self, rows: Sequence[Knowledge]) -> list[Knowledge]:
        there = self._there(rows)
        named = []
        for row in rows:
            mine = row
            if row.ref in there and not _is_same(row, there[row.ref]):
                mine = replace(row, id=row.id[: MAX_ID - len(self._end)] + self._end)
                self._renamed[row.ref] = mine.ref
            if isinstance(row, Claim):
                self._counted[row.ref] = mine is not row or _is_judged_alike(row, there.get(row.ref))
            named.append(mine)
        return named

    def _there(self, rows: Sequence[Knowledge]) -> dict[str, Knowledge]:
        """Return the existing rows of the same ids."""
        found = [
            each
            for table in TABLES
            if (keys := [row.id for row in rows if table == row.TABLE])
            for each in self._store.domain.get(table, keys)
        ]
        return {each.ref: each for each in found}

    def _judging(self, known: Knowledge) -> Knowledge:
        """Return the verdict with its claims under their ids here, and processed only if it is applied here."""
        if not isinstance(known, Feedback):
            return known
        told = [self._counted[each] for each in known.about if each in self._counted]
        about = tuple(self._renamed.get(each, each) for each in known.about)
        return replace(known, about=about, processed=known.processed and (any(told) or not told))

    def _linked(self, rows: Sequence[Knowledge]) -> list[Knowledge]:
        """Return the rows with the ids here of the memories that express them; None for missing memories."""
        if self._places is None:
            return list(rows)
        theirs = {row.memory for row in rows if isinstance(row, Claim) and row.memory is not None}
        ours = {each: self._places.linked(each) for each in theirs}
        there = self._store.said([each for each in ours.values() if each is not None])
        links = {each: here for each, here in ours.items() if here in there}
        return [
            replace(row, memory=links.get(row.memory)) if isinstance(row, Claim) and row.memory else row for row in rows
        ]


def _is_same(one: Knowledge, other: Knowledge) -> bool:
    """Return whether they are the same thing, even if changed: created at the same time, or about the same."""
    return one.created_at == other.created_at or replace(one, id="").id == replace(other, id="").id


def _is_judged_alike(one: Claim, there: Knowledge | None) -> bool:
    """Return whether the claim here, if there is one, has the same verdicts as the imported one."""
    if not isinstance(there, Claim):
        return True
    names = ("created_at", "prior", "confirmed", "refuted")
    return all(getattr(one, name) == getattr(there, name) for name in names)
