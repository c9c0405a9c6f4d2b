"""Domain knowledge rows that follow a memory: they were read from its text.

memory archived, corrected ─▶ its rows dropped erased ─▶ erased restored ─▶ restored
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from cofio.errors import NotFound
from cofio.models.domain_knowledge import Knowledge, owns
from cofio.models.memory import (
    Change,
    Decision,
    Delete,
    DeleteRow,
    Edit,
    Purge,
    PurgeRow,
    PutRow,
    RowDecision,
    Update,
    Viewer,
)
from cofio.ports import MemoryQueries, Store

_Silencing: TypeAlias = Update | Edit | Delete | Purge


def removed_rows(decisions: Sequence[Decision], store: Store, viewer: Viewer | None) -> list[RowDecision]:
    """Return decisions that remove rows read from memories that are archived, corrected or erased by these decisions.

    Rows of an erased memory are erased, including those removed earlier.
    """
    silenced = [
        decision for decision in decisions if isinstance(decision, _Silencing) and _is_silenced(decision, store)
    ]
    forgotten = {decision.id: decision for decision in silenced if not isinstance(decision, Purge)}
    removals: list[RowDecision] = []
    for row in store.domain.stated_by(list(forgotten)) if forgotten else ():
        memory = _get_memory_id(row)
        reason = forgotten[memory].reason if memory in forgotten else ""
        removals.append(DeleteRow(row.TABLE, row.id, reason or f"memory {memory} no longer states it"))
    for decision in silenced:
        removals += _erase_rows(decision.id, store, viewer) if isinstance(decision, Purge) else ()
    return removals


def restored_rows(memory_id: int, store: Store, viewer: Viewer | None) -> list[RowDecision]:
    """Return decisions that restore rows dropped when this memory was archived, unless they have been replaced."""
    changesets = [change.changeset for change in _list_changes(memory_id, store) if change.action == "delete"][-1:]
    dropped = [
        line.before
        for changeset in changesets
        for line in store.changeset(changeset).knowledge
        if line.action == "delete"
    ]
    mine = [row for row in dropped if row and _get_memory_id(row) == memory_id and owns(viewer, row)]
    free = [row for row in mine if not store.domain.get(row.TABLE, [row.id])]
    return [PutRow(replace(row, updated_at=""), f"memory {memory_id}, which states it, was restored") for row in free]


def _is_silenced(decision: _Silencing, store: MemoryQueries) -> bool:
    """Return whether the memory loses its statement. The text of a merged memory lives on in another."""
    if isinstance(decision, Edit):
        text = decision.fields.get("text")
        return text is not None and any(memory.text != text for memory in store.get([decision.id]))
    return not isinstance(decision, Delete) or decision.into is None


def _erase_rows(memory_id: int, store: Store, viewer: Viewer | None) -> Iterator[RowDecision]:
    """Yield decisions that erase all rows that a memory ever stated; rows that the viewer may not erase are dropped.

    A viewer may erase rows that are private to them and always were.
    """
    changesets = dict.fromkeys(change.changeset for change in _list_changes(memory_id, store))
    lines = [line for changeset in changesets for line in store.changeset(changeset).knowledge]
    states = [(line.ref, row) for line in lines for row in (line.before, line.after) if row]
    rows = {ref: row for ref, row in states if _get_memory_id(row) == memory_id}
    current = {row.ref: row for row in store.domain.stated_by([memory_id])}
    reason = f"read from memory {memory_id}"
    for ref, row in {**rows, **current}.items():
        if _may_erase(row, store, viewer):
            restated = [] if ref in current else store.domain.get(row.TABLE, [row.id])
            yield PurgeRow(row.TABLE, row.id, reason)
            for other_row in restated:
                yield PutRow(other_row, "another memory states it now")  # without its history
        elif ref in current:
            yield DeleteRow(row.TABLE, row.id, reason)


def _may_erase(row: Knowledge, store: Store, viewer: Viewer | None) -> bool:
    if viewer is None:
        return True
    if row.visibility != "private":
        return False
    try:
        lines = store.domain.history(row.TABLE, row.id)
    except NotFound:  # became theirs only with the last change
        return False
    return all(owns(viewer, state) for line in lines for state in (line.before, line.after) if state)


def _list_changes(memory_id: int, store: Store) -> list[Change]:
    """Return the changes of this memory, oldest first; empty if it does not exist."""
    memories = store.get([memory_id])
    return [change for change in store.history(memory_id) if change.memory_id == memory_id] if memories else []


def _get_memory_id(row: Knowledge) -> int | None:
    """Return the memory that states the row in words, or None."""
    return getattr(row, "memory", None)
