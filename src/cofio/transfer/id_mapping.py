"""Ids of an export's memories in a store: their own, one assigned by an earlier import, or a new one.

In the store that wrote the export, or in a copy of it, a memory keeps its id. In any other store it gets a new one,
from a range reserved for that store, and its origin is set to its old name, "STORE/ID". An existing origin is kept, so
that an import from A by way of B gives the same memory as one from A itself. Links are translated; those to memories
that are not in the file are dropped.

The id of a row of domain knowledge derives from what the row is about, so the same id is the same thing in every store,
and existing rows are kept. But people choose ids too: if two things share one, the imported row gets a suffix, the same
on each import. Verdicts follow the claims that they judge, and claims the memories that express them. A verdict that
was applied to claims there, but to none of those here, is imported as unprocessed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise

from cofio.errors import Conflict
from cofio.models.domain_knowledge import MAX_ID, TABLES, Claim, Feedback, Knowledge
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import MAY_REPLACE, Memory
from cofio.ports import Store
from cofio.transfer.jsonl_format import MemoryOutline


class IdMapping:
    """Ids of one import. Call `note` for every memory, then `settle`; after that `placed` returns each in place.

    Only ids are held, eight bytes each, so that an export of millions fits in memory.
    """

    def __init__(self, store: Store, identity: str, *, same: bool) -> None:
        self._store = store
        self._identity = identity  # of the store that wrote the export
        self._same = same
        self._own = store.snapshots.identity()
        self._shifted = array("q")  # ids that are not kept
        self._moved: list[array[int]] = [array("q"), array("q")]  # outside the reserved range: original ids, ids here
        self._highest = 0  # highest id of a memory or a link
        self._room_of = "" if same else identity
        self._room = store.snapshots.room(identity, 0) if not same else []

    def note(self, memories: Sequence[Memory | MemoryOutline]) -> None:
        """Register these memories."""
        ids_here, existing = self._look(memories)
        for memory, here in zip(memories, ids_here, strict=True):
            links = (memory.supersedes or 0, memory.superseded_by or 0) if self._same else ()
            self._highest = max(self._highest, memory.id, *links)
            if self._same and (here == memory.id or memory.id not in existing):
                continue
            if not self._room_of:  # two copies were used separately: the first foreign memory names the branch
                self._room_of = f"{self._identity}@{memory.created_at}"
                self._room = self._store.snapshots.room(self._room_of, 0)
            self._shifted.append(memory.id)
            if here is not None and here != self._find_in_room(memory.id):
                self._moved[0].append(memory.id)
                self._moved[1].append(here)

    def settle(self) -> None:
        """Reserve the ids that will be needed."""
        # An export is sorted by id, unless it was edited.
        if not _is_ascending(self._shifted):
            self._shifted = array("q", sorted(set(self._shifted)))
        if not _is_ascending(self._moved[0]):
            pairs = sorted(zip(*self._moved, strict=True))
            self._moved = [array("q", (pair[side] for pair in pairs)) for side in (0, 1)]
        carrying = self._store.snapshots
        missing = self._highest - carrying.reserve(0) if self._same else 0
        if missing > 0:  # ids named by links are not assigned to other memories later
            carrying.reserve(missing)
        if self._shifted:
            self._room = carrying.room(self._room_of, self._shifted[-1])

    def new(self, batch: Sequence[ExportedMemory]) -> list[ExportedMemory]:
        """Return the memories that are not in the store yet, each once."""
        ids_here, _ = self._look([exported.memory for exported in batch])
        new = {exported.memory.id: exported for exported, here in zip(batch, ids_here, strict=True) if here is None}
        return list(new.values())

    def placed(self, memory: Memory) -> Memory:
        """Return the memory as it is to be stored."""
        here = self.id_here(memory.id)
        if here is None:
            raise Conflict("The file was changed while it was imported.", "Import it again: nothing is imported twice.")
        origin = memory.origin if here == memory.id and self._same else self._make_name(memory)
        before, after = self.id_here(memory.supersedes), self.id_here(memory.superseded_by)
        placed = replace(memory, id=here, origin=origin, supersedes=before, superseded_by=after)
        if not memory.may_replace:
            return placed
        older = [memory_id for memory_id in map(self.id_here, memory.may_replace) if memory_id is not None]
        return replace(placed, metadata={**memory.metadata, MAY_REPLACE: older})

    def id_here(self, theirs: int | None) -> int | None:
        """Return the id here of the memory with that original id, after the import; None if it is not imported."""
        if theirs is None:
            return None
        if _find(self._shifted, theirs) is None:
            return theirs if self._same else None
        place = _find(self._moved[0], theirs)
        return self._find_in_room(theirs) if place is None else self._moved[1][place]

    def _find_in_room(self, theirs: int) -> int | None:
        return next((offset + theirs for last, offset in self._room if theirs <= last), None)

    def _look(self, memories: Sequence[Memory | MemoryOutline]) -> tuple[list[int | None], set[int]]:
        """Return the known id of each memory, and which of these ids exist in the store.

        An id alone is not enough, because two copies of one store assign the same one to different memories. Memories
        with the same id and the same `created_at` are the same.
        """
        homes = [memory.id if self._same else self._find_home(memory.origin) for memory in memories]
        existing = self._store.said([memory_id for memory_id in homes if memory_id])
        origins = self._store.snapshots.origins([self._make_name(memory) for memory in memories])
        ids_here: list[int | None] = []
        for memory, home in zip(memories, homes, strict=True):
            is_home = home in existing and existing[home][1] == memory.created_at
            ids_here.append(home if is_home else origins.get(self._make_name(memory)))
        return ids_here, set(existing)

    def _find_home(self, origin: str) -> int:
        """Return the id of a memory that was created here; 0 if it was created elsewhere."""
        store, _, number = origin.rpartition("/")
        return int(number) if store == self._own and number.isdecimal() and len(number) < 10 else 0

    def _make_name(self, memory: Memory | MemoryOutline) -> str:
        if memory.origin:
            return memory.origin
        name = f"{self._identity}/{memory.id}"
        return f"{name}@{memory.created_at}" if self._same else name


def _find(ids: Sequence[int], target: int) -> int | None:
    place = bisect_left(ids, target)
    return place if place < len(ids) and ids[place] == target else None


def _is_ascending(ids: Sequence[int]) -> bool:
    return all(lower < higher for lower, higher in pairwise(ids))


class KnowledgeIdMapping:
    """Rows of domain knowledge of one import: their own ids, unless these belong to other things here."""

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
