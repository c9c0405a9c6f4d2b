"""Application of decisions: the only place that defines what each decision does to memories and rows of knowledge.

                             ┌─▶ SqlRowStorage ─▶ Change
    [Decision] ─ UnitOfWork ─┤
                             └─▶ SqlKnowledgeRows ─▶ KnowledgeChange

Both kinds of rows are the few operations on the tables inside one transaction. Journalling, undo and purge are here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.domain_knowledge import Claim, Knowledge, KnowledgeAction, KnowledgeChange, Table, is_same_row
from cofio.models.memory import (
    Action,
    Add,
    Adopt,
    Change,
    Decision,
    Delete,
    DeleteRow,
    Edit,
    Fact,
    Memory,
    MemoryDecision,
    Merge,
    Noop,
    Occurrence,
    Purge,
    PurgeRow,
    PutRow,
    Restore,
    Revert,
    RevertRow,
    RowDecision,
    Update,
    apply_edit,
)
from cofio.models.merge import absorb
from cofio.models.provenance import least_trusted, successor_provenance
from cofio.stores.domain_knowledge import SqlKnowledgeRows
from cofio.stores.memory_rows import SqlRowStorage
from cofio.stores.row_mapping import JournalEntry, RowJournalEntry, journal_state, no_memory, no_row

Entry = TypeVar("Entry", JournalEntry, RowJournalEntry)


def _check_revertible(entry: Entry | None, change_id: int) -> Entry | None:
    """Return the journal entry of a change to revert; None if what it changed was purged since."""
    if entry is None:
        raise NotFound(f"There is no change {change_id}.", "`cofio history` lists the changes.")
    if entry.action == "purge":
        raise Conflict(f"{entry.label} was purged.", "A purge is permanent and cannot be undone.")
    return None if entry.erased else entry


def _refuse_if_changed_since(entry: Entry, later: Entry | None, current: Memory | Knowledge | None) -> None:
    if later is not None and _comparable(later.before) != _comparable(current):
        hint = f"Undo changeset {later.changeset} first; cofio history shows them all."
        raise Conflict(f"{entry.label} was changed again by changeset {later.changeset}.", hint)


def _comparable(state: Memory | Knowledge | None) -> object:
    return journal_state(state) if isinstance(state, Memory) else state


class UnitOfWork:
    """Application of one transaction's decisions, in order."""

    def __init__(
        self, memories: SqlRowStorage, rows: SqlKnowledgeRows, *, changeset: int, at: str, by: str, why: str
    ) -> None:
        self._memories = memories
        self._rows = rows
        self._changeset = changeset
        self._at, self._by, self._why = at, by, why

    def apply(
        self, decisions: Sequence[Decision], vectors: Mapping[int, bytes]
    ) -> tuple[tuple[Change, ...], tuple[KnowledgeChange, ...]]:
        """Return the changes of memories, then those of rows, which may refer to memories of the same transaction."""
        changes: dict[int, list[Change]] = {}  # of each decision on a memory, by its index
        row_changes: list[KnowledgeChange] = []
        for place, decision in enumerate(decisions):
            if not isinstance(decision, RowDecision):
                changes[place] = self._change_memory(decision, vectors.get(place))
        for decision in decisions:
            if isinstance(decision, RowDecision):
                row_changes += self._change_row(decision, changes)
        return tuple(chain.from_iterable(changes.values())), tuple(row_changes)

    # ── memories ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _change_memory(self, decision: MemoryDecision, vector: bytes | None) -> list[Change]:
        """Return the changes of the decision: one, or more where one memory replaces others."""
        match decision:
            case Delete():
                return self._delete(decision)
            case Restore():
                return self._restore(decision)
            case Noop():
                return [self._add_sighting(decision.id, decision.occurrence, decision.reason)]
            case Purge():
                return [self._purge(decision)]
            case Revert():
                return self._revert(decision)
            case _:
                return self._add_text(decision, vector)

    def _add_text(self, decision: Add | Update | Edit | Merge | Adopt, vector: bytes | None) -> list[Change]:
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
        duplicate = self._memories.find_duplicate(fact) if decision.unless_known else None
        if duplicate:
            occurrence = Occurrence(fact.agent, fact.session, fact.created_at)
            first = self._add_sighting(duplicate, occurrence, "said before")
        else:
            first = self._insert(fact, vector, decision.reason)
        again = [self._add_sighting(first.memory_id, occurrence, "said again") for occurrence in decision.again]
        return [first, *again]

    def _insert(self, fact: Fact, vector: bytes | None, reason: str, old: Memory | None = None) -> Change:
        values: dict[str, Any] = {name: getattr(fact, name) for name in Fact.__dataclass_fields__}
        values["created_at"] = fact.created_at or self._at
        lineage: dict[str, Any] = {"supersedes": old.id, "previous_text": old.text, "pinned": old.pinned} if old else {}
        memory = Memory(id=0, **values, **lineage, updated_at=values["created_at"])
        memory = replace(memory, id=self._memories.insert(memory))
        self._memories.set_vector(memory.id, vector)
        return self._record("update" if old else "add", memory.id, None, memory, reason)

    def _update(self, decision: Update, vector: bytes | None) -> list[Change]:
        old = self._load_live(decision.id)
        provenance = successor_provenance(decision.fact.provenance, old.provenance)
        fact = replace(decision.fact, provenance=provenance)
        added = self._insert(fact, vector, decision.reason, old)  # before the old one is archived
        return [added, self._archive(old, decision.reason, added.memory_id)]

    def _edit(self, decision: Edit, vector: bytes | None) -> Change:
        before = self._load_existing(decision.id)
        after = replace(apply_edit(before, decision.fields, decision.provenance), updated_at=self._at)
        has_new_words = vector is not None or (after.text, after.speaker) != (before.text, before.speaker)
        replaced = self._memories.vector(before.id) if has_new_words else None
        if has_new_words:  # the old vector does not fit new words: without a new one, it is computed later
            self._memories.set_vector(before.id, vector)
        return self._save("edit", before, after, decision.reason, vector=replaced)

    def _delete(self, decision: Delete) -> list[Change]:
        before = self._load_live(decision.id, decision.as_of)
        if decision.into is None:
            return [self._archive(before, decision.reason)]
        if decision.into == decision.id:
            raise InvalidInput(f"Memory {decision.id} cannot be merged into itself.", "Give the id of another memory.")
        successor = self._load_live(decision.into, decision.as_of)
        changed = self._archive(before, decision.reason, successor.id)
        richer = absorb(successor, [before])
        return [changed, self._save("noop", successor, richer, f"represents memory {before.id} too")]

    def _merge(self, decision: Merge, vector: bytes | None) -> list[Change]:
        if len(set(decision.ids)) < 2:
            hint = "Use Update to replace a single memory."
            raise InvalidInput("A merge needs at least two different memories.", hint)
        members = [self._load_live(memory_id, decision.as_of) for memory_id in dict.fromkeys(decision.ids)]
        provenance = least_trusted(decision.fact.provenance, *(member.provenance for member in members))
        added = self._insert(replace(decision.fact, provenance=provenance), vector, decision.reason)
        retrieved = [member.last_retrieved_at for member in members if member.last_retrieved_at]
        successor = replace(
            absorb(replace(added.memory, occurrences=0), members),
            pinned=any(member.pinned for member in members),
            retrieval_count=sum(member.retrieval_count for member in members),
            last_retrieved_at=max(retrieved, default=None),
        )
        self._memories.save(successor)
        self._memories.set_counts(successor)
        archived = [self._archive(member, decision.reason, successor.id) for member in members]
        return [replace(added, after=successor), *archived]

    def _archive(self, memory: Memory, reason: str, successor: int | None = None) -> Change:
        archived = replace(memory, archived_at=self._at, updated_at=self._at)
        if successor is not None:
            archived = replace(archived, superseded_by=successor)
        return self._save("delete", memory, archived, reason)

    def _adopt(self, decision: Adopt, vector: bytes | None) -> Change:
        memory = decision.memory
        if memory.id and self._memories.load(memory.id):
            raise Conflict(f"Memory {memory.id} exists already.", "Set the id to 0 to get a new one.")
        memory = replace(memory, id=self._memories.insert(memory))
        self._memories.set_vector(memory.id, vector)
        change = self._record("add", memory.id, None, memory, decision.reason)
        for sighting in decision.sightings:
            self._memories.add_sighting(memory.id, change.id, sighting)
        return change

    def _restore(self, decision: Restore) -> list[Change]:
        before = self._load_existing(decision.id)
        if not before.archived:
            raise Conflict(f"Memory {before.id} is not archived.", "It is live already; nothing was changed.")
        after = replace(before, archived_at=None, superseded_by=None, updated_at=self._at)
        changes = [self._save("restore", before, after, decision.reason)]
        successor = self._memories.load(before.superseded_by) if before.superseded_by else None
        if successor and successor.supersedes != before.id:  # it was merged: its occurrences are subtracted again
            alone = replace(successor, occurrences=max(1, successor.occurrences - before.occurrences))
            changes.append(self._save("noop", successor, alone, f"no longer represents memory {before.id}"))
        return changes

    def _add_sighting(self, memory_id: int, occurrence: Occurrence, reason: str) -> Change:
        before = self._load_existing(memory_id)
        dated = replace(occurrence, at=occurrence.at or self._at)
        after = replace(before, occurrences=before.occurrences + 1)
        change = self._save("noop", before, after, reason, occurrence=dated)
        self._memories.add_sighting(memory_id, change.id, dated)
        return change

    def _purge(self, decision: Purge) -> Change:
        memory = self._load_existing(decision.id)
        self._memories.remove(decision.id)
        change = self._record("purge", decision.id, None, None, decision.reason)
        # Its own entry included: what remains shows that a memory existed, not its content.
        self._memories.erase(memory, decision.viewer)
        return change

    def _revert(self, decision: Revert) -> list[Change]:
        entry = _check_revertible(self._memories.recorded(decision.change_id), decision.change_id)
        if entry is None:
            return []  # there is nothing to restore or to remove
        current = self._memories.load(entry.memory_id)
        _refuse_if_changed_since(entry, self._memories.next_recorded(entry), current)
        counters = self._memories.counters(entry.memory_id) if current and entry.before is None else None
        replaced = self._restore_state(entry, current)
        kept = {"vector": replaced, "occurrence": entry.occurrence, "counters": counters}
        change = self._record("revert", entry.memory_id, current, entry.before, decision.reason, **kept)
        if entry.before and entry.counters and current is None:
            count, last, sightings = entry.counters
            self._memories.set_counts(replace(entry.before, retrieval_count=count, last_retrieved_at=last))
            for sighting in sightings:
                self._memories.add_sighting(entry.memory_id, change.id, sighting)
        if entry.occurrence and not self._memories.remove_sighting(entry.id) and entry.before:
            self._memories.add_sighting(entry.memory_id, change.id, entry.occurrence)
        return [change]

    def _restore_state(self, entry: JournalEntry, current: Memory | None) -> bytes | None:
        """Restore the old version; return the vector that it replaced."""
        if entry.before is None:
            removed = self._memories.vector(entry.memory_id)
            self._memories.remove(entry.memory_id)
            return removed
        if current is None:
            self._memories.insert(entry.before)
            self._memories.set_vector(entry.memory_id, entry.vector)
            return None
        self._memories.save(entry.before)
        if entry.before.text == current.text and entry.before.speaker == current.speaker:
            return None
        replaced = self._memories.vector(entry.memory_id)
        self._memories.set_vector(entry.memory_id, entry.vector)
        return replaced

    def _save(self, action: Action, before: Memory, after: Memory, reason: str, **kept: Any) -> Change:
        self._memories.save(after)
        return self._record(action, before.id, before, after, reason, **kept)

    def _record(
        self, action: Action, memory_id: int, before: Memory | None, after: Memory | None, reason: str, **kept: Any
    ) -> Change:
        """Journal a change of a memory; `kept` is further data that undoing it needs."""
        entry = JournalEntry(
            changeset=self._changeset, memory_id=memory_id, action=action, reason=reason, before=before, **kept
        )
        return replace(entry, id=self._memories.record(entry)).to_change(after, self._at, self._by, self._why)

    def _load_existing(self, memory_id: int) -> Memory:
        memory = self._memories.load(memory_id)
        if memory is None:
            raise no_memory(memory_id)
        return memory

    def _load_live(self, memory_id: int, as_of: int | None = None) -> Memory:
        memory = self._load_existing(memory_id)
        if as_of is not None and as_of < self._memories.last_changeset(memory_id) != self._changeset:
            hint = "Read it again, then repeat the change."
            raise Conflict(f"Memory {memory_id} has changed since it was read.", hint)
        if memory.archived:
            hint = f"Memory {memory.superseded_by} replaced it." if memory.superseded_by else "It can be restored."
            raise Conflict(f"Memory {memory_id} is archived.", hint)
        return memory

    # ── rows of domain knowledge ──────────────────────────────────────────────────────────────────────────────────────

    def _change_row(self, decision: RowDecision, memory_changes: Mapping[int, list[Change]]) -> list[KnowledgeChange]:
        """Return the changes of the decision. `memory_changes` are those of the decisions on memories, by index."""
        match decision:
            case PutRow():
                self._check_unchanged(decision.row.TABLE, decision.row.id, decision.as_of)
                return [self._put_row(_link_memory(decision, memory_changes), decision.reason)]
            case DeleteRow():
                self._check_unchanged(decision.table, decision.id, decision.as_of)
                return [self._delete_row(decision.table, decision.id, decision.reason)]
            case PurgeRow():
                return [self._purge_row(decision.table, decision.id, decision.reason)]
            case RevertRow():
                return self._revert_row(decision)

    def _put_row(self, row: Knowledge, reason: str) -> KnowledgeChange:
        before = self._rows.load(row.TABLE, row.id)
        if before is None:
            times = {"created_at": row.created_at or self._at, "updated_at": row.updated_at or self._at}
        elif is_same_row(before, row):
            return self._record_row("noop", row.TABLE, row.id, before, before, reason)
        else:
            times = {"created_at": before.created_at, "updated_at": self._at}
        after = replace(row, **times)
        self._rows.save(after)
        return self._record_row("update" if before else "add", row.TABLE, row.id, before, after, reason)

    def _delete_row(self, table: Table, key: str, reason: str) -> KnowledgeChange:
        before = self._rows.load(table, key)
        if before is None:
            raise no_row(table, key)
        self._rows.remove(table, key)
        return self._record_row("delete", table, key, before, None, reason)

    def _purge_row(self, table: Table, key: str, reason: str) -> KnowledgeChange:
        """Erase the row. Also one that was removed before: the journal still has its words."""
        if self._rows.load(table, key):
            self._rows.remove(table, key)
        elif not self._rows.was_known(table, key):
            raise no_row(table, key)
        change = self._record_row("purge", table, key, None, None, reason)
        # Its own entry included: what remains shows that a row existed, not its content.
        self._rows.erase(table, key)
        return change

    def _revert_row(self, decision: RevertRow) -> list[KnowledgeChange]:
        entry = _check_revertible(self._rows.recorded(decision.change_id), decision.change_id)
        if entry is None:
            return []  # there is nothing to restore or to remove
        current = self._rows.load(entry.table, entry.key)
        _refuse_if_changed_since(entry, self._rows.next_recorded(entry), current)
        if entry.before:
            self._rows.save(entry.before)
        elif current:
            self._rows.remove(entry.table, entry.key)
        return [self._record_row("revert", entry.table, entry.key, current, entry.before, decision.reason)]

    def _check_unchanged(self, table: Table, key: str, as_of: str | None) -> None:
        if as_of is None:
            return
        current = self._rows.load(table, key)
        if as_of != (current.updated_at if current else ""):
            raise Conflict(f"{table}/{key} was changed meanwhile.", "Read it again, then repeat the change.")

    def _record_row(
        self,
        action: KnowledgeAction,
        table: Table,
        key: str,
        before: Knowledge | None,
        after: Knowledge | None,
        reason: str,
    ) -> KnowledgeChange:
        entry = RowJournalEntry(
            changeset=self._changeset, table=table, key=key, action=action, reason=reason, before=before
        )
        if action != "noop":
            entry = replace(entry, id=self._rows.record(entry, after or before))
        return entry.to_change(after, self._at, self._by, self._why)


def _link_memory(decision: PutRow, memory_changes: Mapping[int, list[Change]]) -> Knowledge:
    """Return the row to put, linked to the memory that expresses it in words."""
    place, row = decision.stated_by, decision.row
    if place is None:
        return row
    if not isinstance(row, Claim) or place not in memory_changes:
        hint = "Set stated_by to the position of a decision on a memory in the same call."
        raise InvalidInput(f"{row.ref} refers to decision {place}, which does not exist or cannot state it.", hint)
    changes = memory_changes[place]
    return replace(row, memory=changes[0].memory_id) if changes else row
