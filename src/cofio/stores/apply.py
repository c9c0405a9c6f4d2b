"""Application of decisions: the only place that defines what each decision does to the rows.

A store provides `RowStorage`, the few operations on its tables inside one transaction. Everything that must be
the same in every store (journalling, undo, purge) is implemented here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.memory import (
    MAX_LABELS,
    Action,
    Add,
    Adopt,
    Change,
    Decision,
    Delete,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    Restore,
    Revert,
    Update,
    Viewer,
    apply_edit,
)
from cofio.stores.row_mapping import journal_state

_FACT_FIELDS = tuple(f.name for f in fields(Fact))


@dataclass(frozen=True, slots=True)
class Counters:
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
    beside: Counters | None = None  # stored with a memory that the change removed


class RowStorage(Protocol):
    """Operations on the tables inside a transaction."""

    def load(self, memory_id: int) -> Memory | None: ...
    def insert(self, memory: Memory) -> int:
        """Insert the memory, with a new id if its id is 0; return the id."""

    def save(self, memory: Memory) -> None: ...
    def touched(self, memory_id: int) -> int:
        """Return the newest changeset that touched it; 0 if there is none."""

    def count(self, memory: Memory) -> None:
        """Set its retrieval counts, which `save` does not change."""

    def remove(self, memory_id: int) -> None: ...
    def vector(self, memory_id: int) -> bytes | None: ...
    def set_vector(self, memory_id: int, vector: bytes | None) -> None: ...
    def beside(self, memory_id: int) -> Counters: ...
    def twin(self, fact: Fact) -> int | None:
        """Return the live memory with the same text in the same place."""

    def record(self, entry: JournalEntry) -> int: ...
    def recorded(self, change_id: int) -> JournalEntry | None: ...
    def next_recorded(self, entry: JournalEntry) -> JournalEntry | None:
        """Return the following change of the same memory."""

    def see(self, memory_id: int, change_id: int, occurrence: Occurrence) -> None: ...
    def unsee(self, change_id: int) -> bool:
        """Remove the sighting recorded by that change; return whether there was one."""

    def erase(self, memory: Memory, viewer: Viewer | None) -> None:
        """Remove its words from the inbox, the journal, the retrieval log and the memories that replaced it.

        With a viewer, only from items and memories of that viewer.
        """


class UnitOfWork:
    """Application of one transaction's decisions, in order (`do`)."""

    def __init__(self, rows: RowStorage, *, changeset: int, at: str, by: str, why: str) -> None:
        self._rows = rows
        self._changeset = changeset
        self._at, self._by, self._why = at, by, why

    def each(self, decisions: Sequence[Decision], vectors: Mapping[int, bytes]) -> list[list[Change]]:
        """Return the changes of each decision, in their order."""
        return [self.do(decision, vectors.get(place)) for place, decision in enumerate(decisions)]

    def do(self, decision: Decision, vector: bytes | None) -> list[Change]:
        """Return the changes of the decision: one, or more where one memory replaces others."""
        match decision:
            case Delete():
                return self._delete(decision)
            case Restore():
                return self._restore(decision)
            case Noop():
                return [self._see_again(decision.id, decision.occurrence, decision.reason)]
            case Purge():
                return [self._purge(decision)]
            case Revert():
                return self._revert(decision)
            case _:
                return self._bring(decision, vector)

    def _bring(self, decision: Add | Update | Edit | Merge | Adopt, vector: bytes | None) -> list[Change]:
        """Apply a decision that adds text."""
        match decision:
            case Add():
                return self._add(decision, vector)
            case Update():
                return self._update(decision, vector)
            case Edit():
                return [self._edit(decision, vector)]
            case Merge():
                return self._merge(decision, vector)
            case Adopt():
                return [self._adopt(decision, vector)]

    def _add(self, decision: Add, vector: bytes | None) -> list[Change]:
        fact = decision.fact
        twin = self._rows.twin(fact) if decision.unless_known else None
        first = (
            self._see_again(twin, _to_sighting(fact), "said before")
            if twin
            else self._keep(fact, vector, decision.reason)
        )
        return [first, *(self._see_again(first.memory_id, occurrence, "said again") for occurrence in decision.again)]

    def _keep(self, fact: Fact, vector: bytes | None, reason: str, old: Memory | None = None) -> Change:
        values: dict[str, Any] = {name: getattr(fact, name) for name in _FACT_FIELDS}
        values["created_at"] = fact.created_at or self._at
        lineage: dict[str, Any] = {"supersedes": old.id, "previous_text": old.text, "pinned": old.pinned} if old else {}
        memory = Memory(id=0, **values, **lineage, updated_at=values["created_at"])
        memory = replace(memory, id=self._rows.insert(memory))
        self._rows.set_vector(memory.id, vector)
        return self._record("update" if old else "add", memory.id, None, memory, reason)

    def _update(self, decision: Update, vector: bytes | None) -> list[Change]:
        old = self._load_live(decision.id)
        added = self._keep(
            decision.fact, vector, decision.reason, old
        )  # insert the new one before archiving the old one
        archived = replace(old, archived_at=self._at, updated_at=self._at, superseded_by=added.memory_id)
        return [added, self._save("delete", old, archived, decision.reason)]

    def _edit(self, decision: Edit, vector: bytes | None) -> Change:
        before = self._load_existing(decision.id)
        after = replace(apply_edit(before, decision.fields), updated_at=self._at)
        has_new_words = vector is not None or (after.text, after.speaker) != (before.text, before.speaker)
        replaced = self._rows.vector(before.id) if has_new_words else None
        if has_new_words:  # the old vector does not fit new words: without a new one, it is computed later
            self._rows.set_vector(before.id, vector)
        return self._save("edit", before, after, decision.reason, vector=replaced)

    def _delete(self, decision: Delete) -> list[Change]:
        before = self._load_live(decision.id, decision.as_of)
        if decision.into is None:
            archived = replace(before, archived_at=self._at, updated_at=self._at)
            return [self._save("delete", before, archived, decision.reason)]
        if decision.into == decision.id:
            raise InvalidInput(f"Memory {decision.id} cannot be merged into itself.", "Name another one.")
        heir = self._load_live(decision.into, decision.as_of)
        archived = replace(before, archived_at=self._at, updated_at=self._at, superseded_by=heir.id)
        tags = tuple(dict.fromkeys((*heir.tags, *before.tags)))[:MAX_LABELS]  # it was found by these
        richer = replace(heir, occurrences=heir.occurrences + before.occurrences, tags=tags)
        changed = self._save("delete", before, archived, decision.reason)
        return [changed, self._save("noop", heir, richer, f"represents memory {before.id} too")]

    def _merge(self, decision: Merge, vector: bytes | None) -> list[Change]:
        if len(set(decision.ids)) < 2:
            raise InvalidInput("A merge needs at least two memories.", "Use Update to replace one.")
        members = [self._load_live(memory_id, decision.as_of) for memory_id in dict.fromkeys(decision.ids)]
        added = self._keep(decision.fact, vector, decision.reason)
        heir = replace(
            added.memory,
            pinned=any(member.pinned for member in members),
            occurrences=sum(member.occurrences for member in members),
            retrieval_count=sum(member.retrieval_count for member in members),
            last_retrieved_at=max(
                (member.last_retrieved_at for member in members if member.last_retrieved_at), default=None
            ),
        )
        self._rows.save(heir)
        self._rows.count(heir)
        after = [
            replace(member, archived_at=self._at, updated_at=self._at, superseded_by=heir.id) for member in members
        ]
        archived = [self._save("delete", *states, decision.reason) for states in zip(members, after, strict=True)]
        return [replace(added, after=heir), *archived]

    def _adopt(self, decision: Adopt, vector: bytes | None) -> Change:
        memory = decision.memory
        if memory.id and self._rows.load(memory.id):
            raise Conflict(f"Memory {memory.id} exists already.", "Leave the id 0 to assign a new one.")
        memory = replace(memory, id=self._rows.insert(memory))
        self._rows.set_vector(memory.id, vector)
        change = self._record("add", memory.id, None, memory, decision.reason)
        for sighting in decision.sightings:
            self._rows.see(memory.id, change.id, sighting)
        return change

    def _restore(self, decision: Restore) -> list[Change]:
        before = self._load_existing(decision.id)
        if not before.archived:
            raise Conflict(f"Memory {before.id} is not archived.", "There is nothing to restore.")
        after = replace(before, archived_at=None, superseded_by=None, updated_at=self._at)
        changes = [self._save("restore", before, after, decision.reason)]
        heir = self._rows.load(before.superseded_by) if before.superseded_by else None
        if heir and heir.supersedes != before.id:  # it was merged: its occurrences are subtracted again
            alone = replace(heir, occurrences=max(1, heir.occurrences - before.occurrences))
            changes.append(self._save("noop", heir, alone, f"no longer represents memory {before.id}"))
        return changes

    def _see_again(self, memory_id: int, occurrence: Occurrence, reason: str) -> Change:
        before = self._load_existing(memory_id)
        dated = replace(occurrence, at=occurrence.at or self._at)
        after = replace(before, occurrences=before.occurrences + 1)
        change = self._save("noop", before, after, reason, occurrence=dated)
        self._rows.see(memory_id, change.id, dated)
        return change

    def _purge(self, decision: Purge) -> Change:
        memory = self._load_existing(decision.id)
        self._rows.remove(decision.id)
        change = self._record("purge", decision.id, None, None, decision.reason)
        # Its own entry included: what remains shows that a memory existed, not its content.
        self._rows.erase(memory, decision.viewer)
        return change

    def _revert(self, decision: Revert) -> list[Change]:
        entry = self._rows.recorded(decision.change_id)
        if entry is None:
            raise NotFound(f"There is no change {decision.change_id}.", "`cofio history` lists the changes.")
        if entry.action == "purge":
            raise Conflict(f"Memory {entry.memory_id} was purged.", "A purge is permanent; nothing of it is kept.")
        if entry.erased:
            return []  # purged since: there is nothing to restore or to remove
        current = self._rows.load(entry.memory_id)
        self._refuse_if_changed_since(entry, current)
        beside = self._rows.beside(entry.memory_id) if current and entry.before is None else None
        replaced = self._put_back(entry, current)
        change = self._record(
            "revert",
            entry.memory_id,
            current,
            entry.before,
            decision.reason,
            vector=replaced,
            occurrence=entry.occurrence,
            beside=beside,
        )
        if entry.before and entry.beside and current is None:
            self._bring_back(entry.before, entry.beside, change.id)
        if entry.occurrence and not self._rows.unsee(entry.id) and entry.before:
            self._rows.see(entry.memory_id, change.id, entry.occurrence)
        return [change]

    def _bring_back(self, memory: Memory, beside: Counters, change_id: int) -> None:
        counts = {"retrieval_count": beside.retrieval_count, "last_retrieved_at": beside.last_retrieved_at}
        self._rows.count(replace(memory, **counts))  # type: ignore[arg-type]
        for sighting in beside.sightings:
            self._rows.see(memory.id, change_id, sighting)

    def _put_back(self, entry: JournalEntry, current: Memory | None) -> bytes | None:
        """Restore the old version; return the vector that it replaced."""
        if entry.before is None:
            removed = self._rows.vector(entry.memory_id)
            self._rows.remove(entry.memory_id)
            return removed
        if current is None:
            self._rows.insert(entry.before)
            self._rows.set_vector(entry.memory_id, entry.vector)
            return None
        self._rows.save(entry.before)
        if entry.before.text == current.text and entry.before.speaker == current.speaker:
            return None
        replaced = self._rows.vector(entry.memory_id)
        self._rows.set_vector(entry.memory_id, entry.vector)
        return replaced

    def _refuse_if_changed_since(self, entry: JournalEntry, current: Memory | None) -> None:
        later = self._rows.next_recorded(entry)
        if later is None:
            return
        former = later.before and journal_state(later.before)
        if former != (current and journal_state(current)):
            hint = f"Undo changeset {later.changeset} first; cofio history {entry.memory_id} shows them all."
            raise Conflict(f"Memory {entry.memory_id} was changed again by changeset {later.changeset}.", hint)

    def _save(
        self,
        action: Action,
        before: Memory,
        after: Memory,
        reason: str,
        *,
        vector: bytes | None = None,
        occurrence: Occurrence | None = None,
    ) -> Change:
        self._rows.save(after)
        return self._record(action, before.id, before, after, reason, vector=vector, occurrence=occurrence)

    def _record(
        self,
        action: Action,
        memory_id: int,
        before: Memory | None,
        after: Memory | None,
        reason: str,
        *,
        vector: bytes | None = None,
        occurrence: Occurrence | None = None,
        beside: Counters | None = None,
    ) -> Change:
        entry = JournalEntry(
            changeset=self._changeset,
            memory_id=memory_id,
            action=action,
            reason=reason,
            before=before,
            vector=vector,
            occurrence=occurrence,
            beside=beside,
        )
        return to_change(replace(entry, id=self._rows.record(entry)), after, self._at, self._by, self._why)

    def _load_existing(self, memory_id: int) -> Memory:
        memory = self._rows.load(memory_id)
        if memory is None:
            raise NotFound(
                f"There is no memory {memory_id}.", "It may have been purged; `cofio list` lists the others."
            )
        return memory

    def _load_live(self, memory_id: int, as_of: int | None = None) -> Memory:
        memory = self._load_existing(memory_id)
        if as_of is not None and as_of < self._rows.touched(memory_id) != self._changeset:
            raise Conflict(f"Memory {memory_id} has changed since it was read.", "Read it again, then retry.")
        if memory.archived:
            hint = f"Memory {memory.superseded_by} replaced it." if memory.superseded_by else "It can be restored."
            raise Conflict(f"Memory {memory_id} is archived.", hint)
        return memory


def to_change(entry: JournalEntry, after: Memory | None, at: str, by: str, why: str) -> Change:
    """Return the journal entry as a Change."""
    return Change(
        id=entry.id,
        changeset=entry.changeset,
        action=entry.action,
        memory_id=entry.memory_id,
        at=at,
        by=by,
        why=why,
        before=entry.before,
        after=after,
        reason=entry.reason,
    )


def _to_sighting(fact: Fact) -> Occurrence:
    return Occurrence(fact.agent, fact.session, fact.created_at)
