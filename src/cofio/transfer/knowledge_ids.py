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

from cofio.models.domain_knowledge import MAX_ID, TABLES, Claim, Feedback, Knowledge
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
        renamed = self._rename(rows)
        existing = self._find_existing(renamed)
        fresh = {row.ref: row for row in reversed(renamed) if row.ref not in existing}
        return self._link_memories(
            [self._translate(row) if isinstance(row, Feedback) else row for row in reversed(fresh.values())]
        )

    def _rename(self, rows: Sequence[Knowledge]) -> list[Knowledge]:
        existing = self._find_existing(rows)
        renamed = []
        for row in rows:
            mine = row
            # Rows are the same thing, even if changed, if created at the same time or about the same.
            other = existing.get(row.ref, row)
            if row.created_at != other.created_at and replace(row, id="").id != replace(other, id="").id:
                mine = replace(row, id=row.id[: MAX_ID - len(self._end)] + self._end)
                self._renamed[row.ref] = mine.ref
            if isinstance(row, Claim):
                self._counted[row.ref] = mine is not row or _is_judged_alike(row, existing.get(row.ref))
            renamed.append(mine)
        return renamed

    def _find_existing(self, rows: Sequence[Knowledge]) -> dict[str, Knowledge]:
        """Return the existing rows of the same ids."""
        by_ref: dict[str, Knowledge] = {}
        for table in TABLES:
            keys = [row.id for row in rows if table == row.TABLE]
            by_ref.update((row.ref, row) for row in (self._store.domain.get(table, keys) if keys else ()))
        return by_ref

    def _translate(self, verdict: Feedback) -> Feedback:
        """Return the verdict with its claims under their ids here, and processed only if it is applied here."""
        states = [self._counted[ref] for ref in verdict.about if ref in self._counted]
        about = tuple(self._renamed.get(ref, ref) for ref in verdict.about)
        return replace(verdict, about=about, processed=verdict.processed and (any(states) or not states))

    def _link_memories(self, rows: Sequence[Knowledge]) -> list[Knowledge]:
        """Return the rows with the ids here of the memories that express them; None for missing memories."""
        if self._places is None:
            return list(rows)
        theirs = {row.memory for row in rows if isinstance(row, Claim) and row.memory is not None}
        ours = {memory_id: self._places.id_here(memory_id) for memory_id in theirs}
        existing = self._store.said([memory_id for memory_id in ours.values() if memory_id is not None])
        links = {memory_id: here for memory_id, here in ours.items() if here in existing}
        return [
            replace(row, memory=links.get(row.memory)) if isinstance(row, Claim) and row.memory else row for row in rows
        ]


def _is_judged_alike(claim: Claim, existing: Knowledge | None) -> bool:
    """Return whether the claim here, if there is one, has the same verdicts as the imported one."""
    if not isinstance(existing, Claim):
        return True
    names = ("created_at", "prior", "confirmed", "refuted")
    return all(getattr(claim, name) == getattr(existing, name) for name in names)
