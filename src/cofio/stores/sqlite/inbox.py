"""The inbox in the SQLite file: durable on acknowledgement, settled in one transaction with the changes it led to.

receive, amend ─ many threads, one commit ─▶ pending ─ due ─▶ settled | postponed | parked ─ retry ─▶ pending
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from cofio.errors import Conflict, StoreError
from cofio.models.exchange import Batching, Exchange, InboxStatus, Item, ItemResolution, Receipt, State, Task
from cofio.models.memory import Memory, Viewer, to_utc_iso
from cofio.ports import Clock
from cofio.stores import episodes, inbox_rules, llm_calls, turn_merge
from cofio.stores.domain_knowledge import SqliteNamedQueries
from cofio.stores.row_mapping import as_json, is_storable_int
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.group_commit import GroupCommit

_SQL = queries("sqlite")
_DUE, _GET, _PART_OF_TURN, _NEWEST, _NEWEST_IN, _SETTLED_BY = (
    _SQL[name].format(items=inbox_rules.ITEMS)
    for name in ("due_items", "get_item", "part_of_turn", "newest_items", "newest_items_in", "item_settled_by")
)


@dataclass(frozen=True, slots=True)
class _PendingDelivery:
    """Exchanges that one caller delivers at once."""

    rows: list[dict[str, Any]]
    most: int | None
    amends: Exchange | None = None  # set if the one row is a further delivery of a turn


class SqliteInbox:
    """Inbox in the SQLite file of a store."""

    def __init__(self, file: StoreFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._keep: GroupCommit[_PendingDelivery, list[Receipt]] = GroupCommit(file, _keep_delivery)

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        at = self._clock()
        due_at = inbox_rules.add_seconds(at, hold)
        rows = [inbox_rules.to_row(inbox_rules.with_time(exchange, at), task, at, due_at) for exchange in exchanges]
        return self._keep(_PendingDelivery(rows, most)) if rows else []

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        at = self._clock()
        dated = inbox_rules.with_time(exchange, at)
        row = inbox_rules.to_row(dated, "learn", at, inbox_rules.add_seconds(at, hold))
        return self._keep(_PendingDelivery([row], most, dated))[0]

    def release(self, client: str, session: str) -> int:
        values = {"client": client, "session": session, "at": self._clock()}
        with self._file.writing() as connection:
            return connection.execute(_SQL["release_items"], values).rowcount

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        at = self._clock()
        session_key = {"client": client, "session": session}
        with self._file.writing() as connection:
            until = {**session_key, "at": at, "until": inbox_rules.add_seconds(at, batching.seconds)}
            (waiting,) = connection.execute(_SQL["waiting_of_session"], until).fetchone()
            columns = inbox_rules.holding_columns(at, waiting, batching, broken_off=broken_off)
            connection.execute(_SQL["hold_items"], {**session_key, **columns})

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        values = {"client": client, "session": session, "any_key": int(any_key)}
        with self._file.reading() as connection:
            return {turn for (turn,) in connection.execute(_SQL["turns"], values)}

    def purged_turns(self, client: str, session: str) -> set[str]:
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["purged_turns"], {"client": client, "session": session})
            return {turn for turn, payload in rows if not payload or inbox_rules.purged_roles(payload)}

    def due(self, limit: int) -> list[Item]:
        while True:
            with self._file.reading() as connection:
                if not connection.execute(_SQL["any_pending"]).fetchone()[0]:
                    return []  # by far the most frequent case
                rows = connection.execute(_DUE, {"at": self._clock(), "limit": limit}).fetchall()
            items = [inbox_rules.to_item(row) for row in rows]
            unreadable = [item.id for item in items if item.exchange is None]
            if not unreadable:
                return items
            for item_id in unreadable:  # parked for manual review, so that they do not block the others
                with suppress(Conflict):  # settled or parked by another process
                    self.park(item_id, inbox_rules.UNREADABLE)

    def claim(self, limit: int, together: int = 1) -> list[Item]:  # noqa: ARG002
        return self.due(limit)  # a file is served by one process

    def give_back(self, items: Sequence[Item]) -> None:
        """Do nothing: `claim` takes no claims."""

    def settle(self, settlement: ItemResolution) -> None:
        at = self._clock()
        with self._file.writing() as connection:
            settle_item(connection, settlement, at=at)

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        due_at = inbox_rules.add_seconds(self._clock(), seconds)
        counts = {"attempt": int(attempt), "fault": int(fault)}
        values = {"due_at": due_at, "reason": inbox_rules.make_storable(reason), **counts}
        with self._file.writing() as connection:
            _update(connection, "postpone_item", item_id, values)

    def park(self, item_id: int, reason: str) -> None:
        with self._file.writing() as connection:
            _update(connection, "park_item", item_id, {"reason": inbox_rules.make_storable(reason)})

    def retry(self, item_id: int) -> Item:
        at = self._clock()
        with self._file.writing() as connection:
            _update(connection, "retry_item", item_id, {"at": at}, refuse=inbox_rules.refuse_retry)
            return inbox_rules.to_item(connection.execute(_GET, (item_id,)).fetchone())

    def item(self, item_id: int) -> Item:
        with self._file.reading() as connection:
            row = connection.execute(_GET, (item_id,)).fetchone() if is_storable_int(item_id) else None
        return inbox_rules.to_item(row) if row else inbox_rules.refuse(item_id, None)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        last = after if after is not None and is_storable_int(after) else 1 << 62
        values = {"state": state, "after": last, "limit": limit}
        with self._file.reading() as connection:
            rows = connection.execute(_NEWEST_IN if state else _NEWEST, values).fetchall()
        return [inbox_rules.to_item(row) for row in rows]

    def settled_by(self, changeset_id: int) -> Item | None:
        with self._file.reading() as connection:
            row = connection.execute(_SETTLED_BY, {"changeset": changeset_id}).fetchone()
        return inbox_rules.to_item(row) if row else None

    def status(self) -> InboxStatus:
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["inbox_status"]).fetchall()
        states, reasons = ({name: n for kind, name, n in rows if kind == heading} for heading in ("state", "reason"))
        return inbox_rules.make_status(states, reasons, next(name for kind, name, _ in rows if kind == "oldest"))

    def forget(self, before: str) -> int:
        with self._file.writing() as connection:
            count = connection.execute(_SQL["forget_items"], {"before": to_utc_iso(before)}).rowcount
        if count:
            with suppress(StoreError):  # a concurrent reader blocks it; the log is overwritten later
                self._file.empty_log()
        return count


def settle_item(
    connection: sqlite3.Connection, settlement: ItemResolution, *, at: str, changeset: int | None = None
) -> None:
    """Settle an item inside a transaction. Raise Conflict, which rolls back the transaction, unless it is pending."""
    reason, result = inbox_rules.settled_item(settlement, changeset)
    row = connection.execute(_SQL["as_read"], (settlement.item,)).fetchone() if settlement.read else None
    if row:
        inbox_rules.refuse_if_moved(settlement, inbox_rules.from_payload(row[0]), json.loads(row[1]))
    values = {"state": settlement.state, "reason": reason, "result": as_json(result), "changeset": changeset, "at": at}
    _update(connection, "settle_item", settlement.item, values)


def erase(connection: sqlite3.Connection, memory: Memory, viewer: Viewer | None) -> None:
    """Remove a purged memory's present and former words, while the journal still has them.

    Settled items that led to the memory, or contain its words, are erased. From open items, which would bring the words
    back, only these words are cut; the rest is still processed. A purge never drops an acknowledged capture.

    With a viewer, only items of this viewer are searched, and memories of the same owner.
    """
    former = connection.execute(_SQL["words_of"], (memory.id,)).fetchall()
    words = [memory.text, memory.context, *(text for row in former for text in row)]
    fragments = inbox_rules.words_to_erase(words, memory.previous_text)
    fragments_json = as_json(fragments)
    values = {"id": memory.id, "said": fragments_json}
    settled, reasons = (
        inbox_rules.ids_told_by(connection.execute(_SQL[name], values).fetchall(), viewer)
        for name in ("settled_items_saying", "reasons_saying")
    )
    connection.execute(_SQL["erase_settled_items"], {"ids": as_json(settled)})
    connection.execute(_SQL["erase_reasons"], {"ids": as_json(reasons)})
    llm_calls.erase(SqliteNamedQueries(connection))
    if episodes.erase(SqliteNamedQueries(connection), memory.id, fragments, viewer):
        connection.execute(_SQL["tidy_passage_words"])  # no word of it stays in the full-text segments
    for item_id, payload in connection.execute(_SQL["open_payloads"]).fetchall():
        if viewer and not inbox_rules.is_told_by(inbox_rules.from_payload(payload), viewer):
            continue
        if (rest := inbox_rules.cut_payload(payload, fragments)) != payload:
            connection.execute(_SQL["set_payload"], {"id": item_id, "payload": rest})
    # Memories extracted from the same sentence lose their copy of it.
    for name in ("erase_shared_context", "erase_shared_context_in_changes"):
        connection.execute(_SQL[name], {"said": fragments_json, **inbox_rules.same_owner_filter(memory, viewer)})


def _keep_delivery(connection: sqlite3.Connection, delivery: _PendingDelivery) -> list[Receipt]:
    """Return one receipt per row. If the inbox is full, rows that are all known already still get receipts."""
    if delivery.amends:
        return [_amend_turn(connection, delivery, delivery.amends)]
    if _is_full(connection, delivery.most):
        item_ids = [_find_received(connection, row) for row in delivery.rows]
        if None in item_ids:
            raise inbox_rules.too_busy(delivery.most or 0)
        return [Receipt(item_id, False) for item_id in item_ids if item_id]
    return [_receive_row(connection, row) for row in delivery.rows]


def _is_full(connection: sqlite3.Connection, most: int | None) -> bool:
    return most is not None and bool(connection.execute(_SQL["is_full"], {"most": most}).fetchone()[0])


def _amend_turn(connection: sqlite3.Connection, delivery: _PendingDelivery, exchange: Exchange) -> Receipt:
    """Add what is new of a turn to its item and return its receipt; if nothing is new, that of the turn's last item."""
    (row,) = delivery.rows
    parts = list(_read_parts(connection, row))
    new = turn_merge.merge_turn(parts, exchange) if parts else turn_merge.TurnMerge(None, exchange)
    if new is None:
        last = parts[-1].item.id
        connection.execute(_SQL["due_by"], {"id": last, "due_at": row["due_at"]})
        return Receipt(last, False)
    if new.part:
        payload = inbox_rules.to_payload(new.exchange, new.part.cut)
        values = {"id": new.part.item.id, "payload": payload, "due_at": row["due_at"], "series": new.exchange.series}
        connection.execute(_SQL["amend_item"], values)
        return Receipt(new.part.item.id, False)
    if _is_full(connection, delivery.most):
        raise inbox_rules.too_busy(delivery.most or 0)
    further = inbox_rules.to_row(new.exchange, "learn", row["received_at"], row["due_at"])
    return Receipt(int(connection.execute(_SQL["receive"], further).lastrowid or 0), True)


def _read_parts(connection: sqlite3.Connection, row: dict[str, Any]) -> Iterator[turn_merge.StoredMessage]:
    """Yield the items of the turn, in order."""
    turn, number = row["turn"], 0
    while part := connection.execute(_PART_OF_TURN, {**row, "turn": turn}).fetchone():
        yield inbox_rules.to_part(part)
        number += 1
        turn = f"{row['turn']}+{number}"


def _receive_row(connection: sqlite3.Connection, row: dict[str, Any]) -> Receipt:
    item_id = _find_received(connection, row)
    return Receipt(item_id or int(connection.execute(_SQL["receive"], row).lastrowid or 0), item_id is None)


def _find_received(connection: sqlite3.Connection, row: dict[str, Any]) -> int | None:
    """Return the id of the item of this turn for the same task, if there is one."""
    stored = connection.execute(_SQL["received"], row).fetchone() if row["turn"] else None
    return stored[0] if stored else None


def _update(
    connection: sqlite3.Connection,
    name: str,
    item_id: int,
    values: dict[str, Any],
    refuse: Callable[[int, State | None], NoReturn] = inbox_rules.refuse,
) -> None:
    """Change an item; call `refuse` if its state does not allow it."""
    if not is_storable_int(item_id):
        refuse(item_id, None)
    if not connection.execute(_SQL[name], {**values, "id": item_id}).rowcount:
        row = connection.execute(_SQL["item_state"], (item_id,)).fetchone()
        refuse(item_id, row[0] if row else None)
