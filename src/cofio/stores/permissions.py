"""Permissions of a viewer in a store: what they may read and write, and the ownership of what they write.

Hidden objects raise NotFound, as if they did not exist; visible objects with a forbidden operation raise Forbidden.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from cofio.errors import Forbidden, NotFound
from cofio.models.domain_knowledge import MAX_ID, Knowledge, KnowledgeChange, Table, sees
from cofio.models.exchange import Exchange, Item
from cofio.models.memory import (
    MAX_LABEL,
    Add,
    Adopt,
    Change,
    Changeset,
    Decision,
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
    Revert,
    RevertRow,
    RowDecision,
    Scope,
    Update,
    Viewer,
    apply_edit,
    audience,
    merge_scope,
)
from cofio.ports import Store
from cofio.stores.row_mapping import no_changeset, no_memory, no_row

ADMIN_KEY = "use an admin key"
_OWNER = ("user", "agent", "team")  # the owner fields
AnyChange = TypeVar("AnyChange", bound=Change | KnowledgeChange)


class ReadPolicy:
    """Read permissions of a viewer in a store."""

    def __init__(self, store: Store, viewer: Viewer) -> None:
        self.store = store
        self.viewer = viewer

    def scope(self, scope: Scope) -> Scope:
        """Return the scope limited to what the viewer sees."""
        return replace(scope, viewer=self.viewer)

    def sees(self, state: Memory | Knowledge) -> bool:
        """Return whether the viewer may see this state of a memory or a row."""
        return sees(self.viewer, state) if isinstance(state, Knowledge) else self.viewer.sees(state)

    def ids(self, ids: Iterable[int]) -> list[int]:
        """Return the visible ones of these memories, in order."""
        wanted = list(ids)
        memories = self.store.get(list(dict.fromkeys(wanted))) if wanted else []
        visible_ids = {memory.id for memory in memories if self.viewer.sees(memory)}
        return [memory_id for memory_id in wanted if memory_id in visible_ids]

    def memories(self, memories: Iterable[Memory]) -> list[Memory]:
        """Return the visible memories; without the previous text, if the memory they replaced is hidden."""
        visible = [memory for memory in memories if self.viewer.sees(memory)]
        replaced = {memory.supersedes for memory in visible if memory.previous_text is not None and memory.supersedes}
        visible_ids = set(self.ids(sorted(replaced)))
        return [
            memory
            if memory.previous_text is None or memory.supersedes in visible_ids
            else replace(memory, previous_text=None)
            for memory in visible
        ]

    # ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def changes(self, changes: Sequence[AnyChange]) -> list[AnyChange]:
        """Return the visible changes. Reasons are included only if the whole changeset is visible."""
        visible = self._filter(changes)
        complete = {
            changeset_id: self.sees_all(self.store.changeset(changeset_id))
            for changeset_id in dict.fromkeys(change.changeset for change in visible)
        }
        return [self._redact(change, complete=complete[change.changeset]) for change in visible]

    def changeset(self, changeset: Changeset) -> Changeset | None:
        """Return the visible part of the changeset; None if nothing is visible."""
        visible = self._filter(_changes_of(changeset))
        complete = len(visible) == len(_changes_of(changeset))
        shown = [self._redact(change, complete=complete) for change in visible]
        return _with_changes(replace(changeset, why=changeset.why if complete else ""), shown) if shown else None

    def sees_all(self, changeset: Changeset) -> bool:
        """Return whether the changeset is not empty and fully visible."""
        changes = _changes_of(changeset)
        return bool(changes) and len(self._filter(changes)) == len(changes)

    def own_changeset(self, changeset: Changeset) -> Changeset:
        """Return the viewer's own write without hidden changes: a restore may change counts of a hidden memory."""
        visible = filter(self._sees_change, _changes_of(changeset))
        return _with_changes(changeset, list(map(self._show_states, visible)))

    def _filter(self, changes: Sequence[AnyChange]) -> list[AnyChange]:
        """Return the changes whose before and after are visible, of memories and rows that are still visible.

        Deleted ones count by their last state. The id of a row may be reused, so that its erasure cannot be attributed
        to an owner.
        """
        visible = [
            change
            for change in changes
            if self._sees_change(change) and (isinstance(change, Change) or change.before or change.after)
        ]
        memory_ids = {change.memory_id for change in visible if isinstance(change, Change)}
        last: dict[int | str, Memory | Knowledge | None] = {
            memory.id: memory for memory in self.store.get(sorted(memory_ids))
        }
        for change in visible:
            if _target(change) not in last:
                last[_target(change)] = self._last_state(change)
        return [change for change in visible if (state := last[_target(change)]) and self.sees(state)]

    def _last_state(self, change: Change | KnowledgeChange) -> Memory | Knowledge | None:
        """Return the current row, or the last state of a deleted memory or row; None if nothing is known of it."""
        if isinstance(change, KnowledgeChange):
            return self.last_row(change.table, change.key)
        memory_id = change.memory_id
        changes = [past for past in self.store.history(memory_id) if past.memory_id == memory_id]
        return next((state for past in reversed(changes) if (state := past.after or past.before)), None)

    def _sees_change(self, change: Change | KnowledgeChange) -> bool:
        """Return whether both states are visible. A purged memory or row has no owner any more."""
        states = [state for state in (change.before, change.after) if state]
        return (bool(states) or change.action == "purge") and all(map(self.sees, states))

    def last_row(self, table: Table, key: str) -> Knowledge | None:
        """Return the current row; if deleted, its last state; None if nothing is known of it."""
        current = self.store.domain.get(table, [key])
        return current[0] if current else next(reversed(self.row_states(table, key)), None)

    def row_states(self, table: Table, key: str) -> list[Knowledge]:
        """Return all known states of the row, oldest first. An id may have belonged to several owners."""
        try:
            changes = self.store.domain.history(table, key)
        except NotFound:
            return []
        return [state for change in changes for state in (change.before, change.after) if state]

    def _redact(self, change: AnyChange, *, complete: bool) -> AnyChange:
        """Return the change as the viewer may read it. A reason may quote hidden memories that led to it."""
        reason = change.reason if complete and not self.viewer.prefixes else ""
        return replace(self._show_states(change), reason=reason, why=change.why if complete else "")

    def _show_states(self, change: AnyChange) -> AnyChange:
        """Return the change with its memories as `memories` shows them."""
        if isinstance(change, KnowledgeChange):
            return change
        before, after = (self.memories([state])[0] if state else None for state in (change.before, change.after))
        return replace(change, before=before, after=after)


class WritePolicy:
    """Write permissions of a viewer, and the ownership of what they write."""

    def __init__(self, read: ReadPolicy) -> None:
        self._read = read
        self._viewer = viewer = read.viewer
        owner = "\x1f".join((viewer.user, viewer.agent, viewer.team, *viewer.prefixes))
        self._client_suffix = "~" + hashlib.blake2b(owner.encode(), digest_size=6).hexdigest()
        name = f"user\x1f{viewer.user}" if viewer.user else f"agent\x1f{viewer.agent}"
        # The same for all keys of this owner.
        self._id_suffix = "~" + hashlib.blake2b(name.encode(), digest_size=3).hexdigest()

    def _owner(self, agent: str = "") -> dict[str, Any]:
        """Return the owner fields. A user's key that is not bound to an agent accepts the agent given."""
        return {"user": self._viewer.user, "agent": self._viewer.agent or agent, "team": self._viewer.team}

    def fact(self, fact: Fact) -> Fact:
        """Return the fact owned by the viewer. Forbidden if its source is out of reach."""
        self._check_source(fact.source)
        return replace(fact, **self._owner(fact.agent))

    # ── captures ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange owned by the viewer. Forbidden if its source is out of reach."""
        self._check_source(exchange.source)
        return replace(exchange, **self._owner(exchange.agent), reach=self._viewer.prefixes, by_key=True)

    def client(self, client: str) -> str:
        """Return the client name with the viewer's suffix: sessions of two users may have the same name."""
        suffix = self._client_suffix
        return client[: MAX_LABEL - len(suffix)].removesuffix(suffix) + suffix

    def to_stored(self, exchange: Exchange) -> Exchange:
        """Return the exchange as stored. Without client and session, it has no suffix."""
        own = self.exchange(exchange)
        return replace(own, client=self.client(own.client)) if own.client or own.session else own

    def to_delivered(self, item: Item) -> Item:
        """Return the item as delivered, without the injected context: it may no longer be visible to the viewer."""
        exchange = item.exchange
        if exchange is None:
            return item
        client = exchange.client.removesuffix(self._client_suffix)
        return replace(item, exchange=replace(exchange, client=client, injected=()))

    def owns_item(self, item: Item) -> bool:
        """Return whether the viewer captured the item, and has all the access with which it is learned from.

        The team decides what it is compared with, and where memories of it go.
        """
        exchange, viewer = item.exchange, self._viewer
        if exchange is None or not viewer.reaches(exchange.source) or exchange.team != viewer.team:
            return False
        if viewer.prefixes and not (exchange.reach and all(map(viewer.reaches, exchange.reach))):
            return False
        return viewer.owns(exchange)

    # ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def decisions(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return the decisions with the viewer as owner. Raise NotFound or Forbidden if one is not allowed.

        A reverted change was checked with its changeset.
        """
        created: set[str] = set()  # rows created by these decisions
        return [
            self._row_decision(decision, created) if isinstance(decision, RowDecision) else self._decision(decision)
            for decision in decisions
        ]

    def _decision(self, decision: MemoryDecision) -> MemoryDecision:
        ids = (*getattr(decision, "ids", ()), getattr(decision, "id", None), getattr(decision, "into", None))
        memories = [self._get_memory(memory_id) for memory_id in ids if memory_id is not None]
        match decision:
            case Add():
                return self._add(decision)
            case Update() | Merge():
                return replace(decision, fact=self.fact(decision.fact))
            case Adopt():
                return self._adopt(decision)
            case Noop():
                return replace(decision, occurrence=self._sighting(decision.occurrence))
            case Edit():
                self._check_edit(memories[0], decision)
            case Purge():
                if memories[0].visibility != "private":
                    hint = f"Archive it instead; to erase it, {ADMIN_KEY}."
                    raise Forbidden(f"Memory {decision.id} is not private to you, so this key may not erase it.", hint)
                return replace(decision, viewer=self._viewer)
        return decision

    def _add(self, decision: Add) -> Add:
        fact = self.fact(decision.fact)
        unless_known = decision.unless_known
        if unless_known and self._viewer.prefixes and fact.project:
            # Within a project, sources do not matter for equal texts: the existing memory must be visible to be used.
            twins = self._read.store.get(self._read.store.known(fact.text, merge_scope(fact)))
            twin = next((twin for twin in twins if twin.speaker == fact.speaker), None)
            unless_known = twin is not None and self._viewer.sees(twin)
        return replace(decision, fact=fact, again=tuple(map(self._sighting, decision.again)), unless_known=unless_known)

    def _adopt(self, decision: Adopt) -> Adopt:
        memory = decision.memory
        if memory.id:
            raise Forbidden("Memory ids cannot be set with this key.", f"Set the id to 0; to choose it, {ADMIN_KEY}.")
        self._check_source(memory.source)
        for link in (memory.supersedes, memory.superseded_by):
            if link is not None:
                self._get_memory(link)
        before = memory.previous_text if memory.supersedes is not None else None
        memory = replace(memory, **self._owner(memory.agent), previous_text=before)
        return replace(decision, memory=memory, sightings=tuple(map(self._sighting, decision.sightings)))

    def _check_edit(self, before: Memory, decision: Edit) -> None:
        after = apply_edit(before, decision.fields, decision.provenance)
        if _has_other_owner(before, after):
            raise Forbidden("The owner of a memory cannot be changed with this key.", "Use an admin key to change it.")
        self._check_source(after.source)
        self._check_visible(f"Memory {before.id}", before, after)

    def _check_visible(self, name: str, before: Memory | Knowledge, after: Memory | Knowledge) -> None:
        """Raise Forbidden if the change takes the visibility from its owner, or hides it from the viewer."""
        if before.visibility != after.visibility and not self._viewer.owns(before):
            raise Forbidden(f"{name} belongs to another user.", "Only its owner can change its visibility.")
        if not self._read.sees(after):
            hint = f"Keep it visible to you; otherwise {ADMIN_KEY}."
            raise Forbidden(f"After this change, {name} would be hidden from you.", hint)

    def check_undo(self, undoes: int | None, decisions: Sequence[Decision]) -> None:
        """Raise if the viewer cannot see the whole changeset, undoes only part of it, or needs admin rights for it."""
        if undoes is None:
            hint = "Undo the whole changeset with `cofio undo`."
            raise Forbidden("A single change of a changeset cannot be reverted with this key.", hint)
        changeset = self._read.store.changeset(undoes)
        if self._read.changeset(changeset) is None:
            raise no_changeset(undoes)
        if not self._read.sees_all(changeset):
            raise Forbidden(f"Changeset {undoes} changed memories that you may not see.", f"To undo it, {ADMIN_KEY}.")
        changes = _changes_of(changeset)
        expected = {(Revert if isinstance(change, Change) else RevertRow, change.id) for change in changes}
        if {(type(decision), getattr(decision, "change_id", None)) for decision in decisions} != expected:
            hint = "Revert each change of the changeset, and no other change."
            raise Forbidden(f"The decisions revert more or less than changeset {undoes}.", hint)
        if not all(map(self._may_revert, changes)):
            message = f"Changeset {undoes} changed an owner, or the visibility of another user's memory."
            raise Forbidden(message, f"The owner can undo a change of visibility; otherwise {ADMIN_KEY}.")

    def _may_revert(self, change: Change | KnowledgeChange) -> bool:
        before, after = change.before, change.after
        if before is None or after is None:
            return True
        if _has_other_owner(before, after):
            return False  # set by the store's owner
        return before.visibility == after.visibility or self._viewer.owns(before)

    # ── domain knowledge ──────────────────────────────────────────────────────────────────────────────────────────────

    def _row_decision(self, decision: RowDecision, created: set[str]) -> RowDecision:
        match decision:
            case PutRow():
                return self._put(decision, created)
            case PurgeRow():
                self._check_purge(decision)
            case DeleteRow(table, key) if f"{table}/{key}" not in created and not self._get_row(table, key):
                raise no_row(table, key)
        return decision

    def _check_purge(self, decision: PurgeRow) -> None:
        last = self._read.last_row(decision.table, decision.id)
        if last is None or not self._read.sees(last):
            raise no_row(decision.table, decision.id)
        states = self._read.row_states(last.TABLE, last.id)
        is_own = all(self._read.sees(state) and self._viewer.owns(state) for state in states)
        if last.visibility != "private" or not is_own:
            hint = f"Remove it instead; to erase it, {ADMIN_KEY}."
            raise Forbidden(f"{last.ref} is not private to you, so this key may not erase it.", hint)

    def _put(self, decision: PutRow, created: set[str]) -> PutRow:
        row = self.row(decision.row)
        current = self._get_row(row.TABLE, row.id)
        memory = getattr(row, "memory", None)
        if memory is not None and memory != getattr(current, "memory", None):
            self._get_memory(memory)
        if current or row.ref in created:
            return replace(decision, row=row)
        created.add(row.ref)
        # If another viewer took the id meanwhile, their row is not overwritten.
        return replace(decision, row=row, as_of="")

    def row(self, row: Knowledge) -> Knowledge:
        """Return the row owned by the viewer, with the id that follows from it. Forbidden if it belongs to another.

        An existing row keeps its owner; an id taken by another gets a suffix.
        """
        is_derived = replace(row, id="").id == row.id  # derived from content and owner: it differs for other owners
        current = self._get_row(row.TABLE, row.id)
        if current and (not is_derived or audience(row) == audience(current)):
            return self._restate(row, current)
        owner_columns: dict[str, Any] = {**self._owner(row.agent), "place": self._viewer.below(row.place).rstrip("/")}
        own_row = replace(row, **owner_columns, id="" if is_derived else row.id)
        if current := self._get_row(own_row.TABLE, own_row.id):
            return self._restate(own_row, current)
        # An id that is or was used by an owner hidden from the viewer gets a suffix.
        free, suffixes = own_row.id, (self._id_suffix + (str(number) if number else "") for number in count())
        while (last := self._read.last_row(own_row.TABLE, free)) and not self._read.sees(last):
            suffix = next(suffixes)
            free = own_row.id[: MAX_ID - len(suffix)] + suffix
        return replace(own_row, id=free)

    def _restate(self, row: Knowledge, current: Knowledge) -> Knowledge:
        """Return the new state of an existing row, by the rules of an Edit."""
        place = row.place if self._viewer.reaches(row.place) else current.place
        after = replace(row, **{name: getattr(current, name) for name in _OWNER}, place=place)
        self._check_visible(current.ref, current, after)
        return after

    def _get_row(self, table: Table, key: str) -> Knowledge | None:
        rows = self._read.store.domain.get(table, [key], viewer=self._viewer)
        return rows[0] if rows else None

    # ── checks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _get_memory(self, memory_id: int) -> Memory:
        memories = self._read.memories(self._read.store.get([memory_id]))
        if not memories:
            raise no_memory(memory_id)
        return memories[0]

    def _sighting(self, occurrence: Occurrence) -> Occurrence:
        return replace(occurrence, agent=self._viewer.agent or occurrence.agent)

    def _check_source(self, source: str) -> None:
        if not self._viewer.reaches(source):
            subject = f"The source {source!r} is" if source else "An empty source is"
            hint = f"Give a source below: {', '.join(self._viewer.prefixes)}."
            raise Forbidden(f"{subject} not allowed with this key.", hint)


def _target(change: Change | KnowledgeChange) -> int | str:
    return change.memory_id if isinstance(change, Change) else change.ref


def _changes_of(changeset: Changeset) -> list[Change | KnowledgeChange]:
    return [*changeset.changes, *changeset.knowledge]


def _with_changes(changeset: Changeset, changes: Iterable[Change | KnowledgeChange]) -> Changeset:
    changes = list(changes)
    memories = tuple(change for change in changes if isinstance(change, Change))
    rows = tuple(change for change in changes if isinstance(change, KnowledgeChange))
    return replace(changeset, changes=memories, knowledge=rows)


def _has_other_owner(before: Memory | Knowledge, after: Memory | Knowledge) -> bool:
    return any(getattr(before, name) != getattr(after, name) for name in _OWNER)
