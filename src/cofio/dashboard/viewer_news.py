"""News for one viewer: the kinds of changes of a store that the viewer may know of."""

from __future__ import annotations

from contextlib import suppress

from cofio.errors import NotFound
from cofio.models.dashboard import ChangeCounters
from cofio.ports import Store

_MOST = 1_000  # changesets and captures examined between two states
_PENDING = 200  # pending captures of the viewer that are followed


class ViewerNews:
    """Tells which changes between two states are the viewer's own or visible to them. Recalls never are."""

    def __init__(self, store: Store) -> None:
        self._store = store  # limited to what the viewer may see
        self._open = {item.id for item in store.inbox.items("pending", limit=_PENDING)}

    def moved(self, since: ChangeCounters, now: ChangeCounters) -> list[str]:
        """Return the kinds of changes, in the order of MOVES."""
        first = max(since.changeset, now.changeset - _MOST) + 1
        sees_change = any(self._sees_changeset(changeset_id) for changeset_id in range(first, now.changeset + 1))
        has_captures = now.inbox != since.inbox and self._follow_captures(since.inbox[0], now.inbox[0])
        return [name for name, moved in (("memories", sees_change), ("inbox", has_captures)) if moved]

    def _sees_changeset(self, changeset_id: int) -> bool:
        with suppress(NotFound):
            self._store.changeset(changeset_id)
            return True
        return False

    def _follow_captures(self, last: int, newest: int) -> bool:
        """Return whether the viewer has a new capture, or one that is not pending any more."""
        states = {}
        for item_id in {*range(max(last, newest - _MOST) + 1, newest + 1), *self._open}:
            with suppress(NotFound):  # of somebody else
                states[item_id] = self._store.inbox.item(item_id).state
        has_moved = any(item_id not in self._open or state != "pending" for item_id, state in states.items())
        self._open = {item_id for item_id, state in states.items() if state == "pending"}
        return has_moved
