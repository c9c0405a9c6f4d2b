"""Undo of everything learned from one source or session.

    memories of the source ─ with merges of them ─▶ Delete
    memories that those replaced, merged or ended ─▶ Restore

Decisions only. What another source has stated since stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from cofio.errors import InvalidInput, NotFound
from cofio.models.exchange import Exchange
from cofio.models.memory import MAX_PAGE, Change, Delete, Memory, Restore, Scope
from cofio.ports import Store

_CAPTURES = 500  # read at once


def decide_undo(store: Store, scope: Scope) -> list[Delete | Restore]:
    """Return the decisions that undo what was learned in a scope: a source with those below it, a session, a time."""
    if not scope.source_prefix.strip("/") and not scope.session:
        raise InvalidInput("Neither a source nor a session was given.", "Name the source or the session to undo.")
    learned = _find_learned(store, replace(scope, include_archived=True))
    ended = _find_replaced(store, learned) | _find_ended(store, scope, learned)
    restored = [memory for memory in store.get(sorted(ended)) if memory.archived and _is_replaced(memory, learned)]
    what = " ".join(filter(None, (scope.source_prefix, f"session {scope.session}" if scope.session else "")))
    live = [memory.id for memory in learned.values() if not memory.archived]
    return [
        *(Delete(memory_id, f"learned from {what}") for memory_id in sorted(live)),
        *(Restore(memory.id, f"replaced by what was learned from {what}") for memory in restored),
    ]


def _find_learned(store: Store, scope: Scope) -> dict[int, Memory]:
    """Return the memories of the scope, and those that were merged from any of them, by id."""
    learned: dict[int, Memory] = {}
    after = None
    while page := store.page(scope, limit=MAX_PAGE, after=after)[0]:
        learned.update((memory.id, memory) for memory in page)
        after = page[-1].id
    new = list(learned.values())
    while new:
        heirs = {memory.superseded_by for memory in new if memory.superseded_by} - learned.keys()
        new = [heir for heir in store.get(sorted(heirs)) if learned.keys() & set(_list_members(heir))]
        learned.update((heir.id, heir) for heir in new)
    return learned


def _list_members(memory: Memory) -> list[int]:
    """Return the ids of the memories that were merged into this one by a new text."""
    members = memory.metadata.get("consolidated_from")
    return [number for number in members if isinstance(number, int)] if isinstance(members, list) else []


def _find_replaced(store: Store, learned: dict[int, Memory]) -> set[int]:
    """Return the ids of other memories that a learned one replaced, merged or absorbed."""
    return {change.memory_id for memory_id in learned for change in store.history(memory_id)} - learned.keys()


def _is_replaced(memory: Memory, learned: dict[int, Memory]) -> bool:
    """Return whether nothing but learned memories has replaced an archived memory."""
    heir = memory.superseded_by
    while heir in learned:
        heir = learned[heir].superseded_by
    return heir is None


def _find_ended(store: Store, scope: Scope, learned: dict[int, Memory]) -> set[int]:
    """Return the ids of memories that a capture of the scope archived, and that are archived since."""
    changes = [change for number in _list_changesets(store, scope) for change in _list_changes(store, number)]
    archived = {change.memory_id: change.at for change in changes if change.action == "delete"}
    return {
        memory.id
        for memory in store.get(sorted(archived.keys() - learned.keys()))
        if memory.archived_at == archived[memory.id] and memory.superseded_by is None
    }


def _list_changesets(store: Store, scope: Scope) -> Iterator[int]:
    """Yield the changesets of captures of the scope whose text is still kept."""
    after = None
    while items := store.inbox.items(limit=_CAPTURES, after=after):
        for item in items:
            if scope.since and item.received_at < scope.since:
                return
            if item.changeset and item.exchange and _is_within(item.exchange, scope):
                yield item.changeset
        after = items[-1].id


def _is_within(exchange: Exchange, scope: Scope) -> bool:
    prefix = scope.source_prefix.rstrip("/")
    return (not prefix or f"{exchange.source}/".startswith(f"{prefix}/")) and scope.session in ("", exchange.session)


def _list_changes(store: Store, changeset_id: int) -> tuple[Change, ...]:
    """Return the changes of a changeset that the caller may see."""
    with suppress(NotFound):
        return store.changeset(changeset_id).changes
    return ()
