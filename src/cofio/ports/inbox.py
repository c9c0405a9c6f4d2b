"""Protocol of the inbox: the queue of captures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cofio.models.exchange import Batching, Exchange, InboxStatus, Item, ItemResolution, Receipt, State, Task


class Inbox(Protocol):
    """Queue of captures: durable from acknowledgement until settled. The counts are kept for ever."""

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        """Store the exchanges and return one receipt per exchange. Duplicates for the same task are not stored again.

        A duplicate has the same (client, session, turn). An exchange without a turn, or with a turn but neither client
        nor session, is always new. Raise TooBusy, and store nothing, when `most` or more are pending. For `hold`
        seconds `due` does not return them: the caller wants to process them itself.
        """

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        """Store what is new in a further delivery of a turn, and make it due after `hold` seconds.

        A turn that is due sooner stays so: an answer is not delayed by a prompt that arrives late.

        While the turn's item is open and nothing was learned from it yet, the new messages join it; a longer version of
        a message replaces the shorter one. Afterwards they become an item of their own, named as the turn with "+1",
        "+2" and so on, and the receipt is new, as it is for an unknown turn. Raise TooBusy when `most` or more are
        pending and another item would be needed. If the turn's words are forgotten, new messages cannot be recognised
        and nothing is stored.
        """

    def release(self, client: str, session: str) -> int:
        """Make every held item of this session due now; return how many. Failed items keep their delay."""

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        """Hold the pending items of this session until a pause in it; make a full batch due at once.

        Claimed items, items that wait longer after a failure, and unanswered prompts do not count towards a batch. A
        prompt that was held longer waits for the pause too if it was interrupted (`broken_off`).
        """

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn of the session received so far; with `any_key`, also those received with any key."""

    def purged_turns(self, client: str, session: str) -> set[str]:
        """Return the turns of the session whose words were purged or are forgotten."""

    def due(self, limit: int) -> list[Item]:
        """Return the pending items that are due: live captures first, then those of backfills, each oldest first."""

    def claim(self, limit: int, together: int = 1) -> list[Item]:
        """Claim up to `limit` due items for this process, in the order of `due`.

        Up to `together` items of each session may be claimed, to be processed at once.

        Where several processes serve one store, the items and later ones of the same session are not given to another
        process until the claim expires, because a later turn may correct an earlier one. The expiry is returned as
        `due_at`.
        """

    def give_back(self, items: Sequence[Item]) -> None:
        """Release claimed items that were not processed, so that other processes can claim them."""

    def settle(self, settlement: ItemResolution) -> None:
        """Settle an item that changed nothing in the store. Raise Conflict if it is settled or has changed."""

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        """Count a failed attempt and make the item due again after `seconds`.

        `fault` marks a failure that will not pass by itself. With `attempt` false, no attempt is counted.
        """

    def park(self, item_id: int, reason: str) -> None:
        """Set the item's state to parked, for manual review."""

    def retry(self, item_id: int) -> Item:
        """Make a parked or rejected item pending again. Raise Conflict if it is stored, merged or pending."""

    def item(self, item_id: int) -> Item:
        """Return the item. Raise NotFound if it does not exist."""

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        """Return the newest items with an id below `after`, of one state if given."""

    def settled_by(self, changeset_id: int) -> Item | None:
        """Return the item that this changeset settled; None if it settled none or the words are forgotten."""

    def status(self) -> InboxStatus:
        """Return the number of captures in each state."""

    def forget(self, before: str) -> int:
        """Delete the words, not the counts, of items settled before this time; return how many."""
