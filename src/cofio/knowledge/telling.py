"""What goes with a memory: the rows of domain knowledge that were read from what it says.

memory forgotten, corrected ─▶ its rows dropped      erased ─▶ erased      brought back ─▶ put back
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from cofio.domain import Drop, Erase, Knowledge, KnowledgeDecision, Put, owns
from cofio.errors import NotFound
from cofio.model import Change, Decision, Delete, Edit, Purge, Update, Viewer
from cofio.ports import Store

_Silencing: TypeAlias = Update | Edit | Delete | Purge


def gone(decisions: Sequence[Decision], store: Store, viewer: Viewer | None) -> list[KnowledgeDecision]:
    """The decisions that remove what was read from the memories that these forget, correct or erase.

    What was read from a memory that is erased is erased, that which was removed before too.
    """
    silenced = [each for each in decisions if isinstance(each, _Silencing) and _is_silenced(each, store)]
    forgotten = {each.id: each for each in silenced if not isinstance(each, Purge)}
    found: list[KnowledgeDecision] = []
    for row in store.domain.told_by(list(forgotten)) if forgotten else ():
        memory = _teller(row)
        reason = forgotten[memory].reason if memory in forgotten else ""
        found.append(Drop(row.TABLE, row.id, reason or f"memory {memory} no longer says so"))
    for each in silenced:
        found += _erased_with(each.id, store, viewer) if isinstance(each, Purge) else ()
    return found


def back(memory_id: int, store: Store, viewer: Viewer | None) -> list[KnowledgeDecision]:
    """The decisions that put back what was dropped when this memory was archived, where nothing took its place."""
    archived = [each.changeset for each in _changes(memory_id, store) if each.action == "delete"][-1:]
    dropped = [line.before for each in archived for line in store.changeset(each).knowledge if line.action == "delete"]
    mine = [row for row in dropped if row and _teller(row) == memory_id and owns(viewer, row)]
    free = [row for row in mine if not store.domain.get(row.TABLE, [row.id])]
    return [Put(replace(row, updated_at=""), f"memory {memory_id} is back, which says so") for row in free]


def _is_silenced(decision: _Silencing, store: Store) -> bool:
    """Whether the memory no longer says what it said. What is merged is said by another."""
    if isinstance(decision, Edit):
        text = decision.fields.get("text")
        return text is not None and any(each.text != text for each in store.get([decision.id]))
    return not isinstance(decision, Delete) or decision.into is None


def _erased_with(memory_id: int, store: Store, viewer: Viewer | None) -> Iterator[KnowledgeDecision]:
    """A viewer erases what is private to them, and always was theirs; of the rest, what is there is dropped."""
    there = {row.ref: row for row in store.domain.told_by([memory_id])}
    reason = f"read from memory {memory_id}"
    for ref, row in {**_once_told(memory_id, store), **there}.items():
        if not _may_erase(row, store, viewer):
            yield from [Drop(row.TABLE, row.id, reason)] if ref in there else ()
        else:
            kept = store.domain.get(row.TABLE, [row.id]) if ref not in there else []
            yield Erase(row.TABLE, row.id, reason)
            yield from (Put(each, "it is told by another by now") for each in kept)  # as it is, without its past


def _may_erase(row: Knowledge, store: Store, viewer: Viewer | None) -> bool:
    if viewer is None:
        return True
    if row.visibility != "private":
        return False
    try:
        lines = store.domain.history(row.TABLE, row.id)
    except NotFound:  # it was never theirs but by the last change
        return False
    return all(owns(viewer, state) for line in lines for state in (line.before, line.after) if state)


def _once_told(memory_id: int, store: Store) -> dict[str, Knowledge]:
    """The rows that this memory told at any time, each as it was last, by table and id."""
    changesets = dict.fromkeys(each.changeset for each in _changes(memory_id, store))
    lines = [line for each in changesets for line in store.changeset(each).knowledge]
    states = [(line.ref, row) for line in lines for row in (line.before, line.after) if row]
    return {ref: row for ref, row in states if _teller(row) == memory_id}


def _changes(memory_id: int, store: Store) -> list[Change]:
    """What happened to this memory, oldest first; to one that is not there, nothing."""
    there = store.get([memory_id])
    return [each for each in store.history(memory_id) if each.memory_id == memory_id] if there else []


def _teller(row: Knowledge) -> int | None:
    """The memory that says it in words; None for a row that has no such."""
    memory: int | None = getattr(row, "memory", None)
    return memory
