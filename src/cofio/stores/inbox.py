"""The inbox of an SQL store: durable on acknowledgement, settled in one transaction with the changes it led to.

    receive, amend ─▶ pending ─ due, claim ─▶ settled | postponed | parked ─ retry ─▶ pending

The dialects differ in how concurrent deliveries are written, and in who else may work on the items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from cofio.errors import Conflict
from cofio.models.exchange import Batching, Exchange, InboxStatus, Item, ItemResolution, Receipt, State, Task
from cofio.models.memory import Memory, Viewer
from cofio.stores import episodes, inbox_rules, llm_calls, turn_merge
from cofio.stores.inbox_rules import ITEMS
from cofio.stores.query_runner import LAST_ID, Queries, Row, SqlAdapter, Values
from cofio.stores.row_mapping import as_json, is_storable_int

_BATCH = 1_000  # items whose words are erased in one transaction


@dataclass(frozen=True, slots=True)
class Delivery:
    """Exchanges that one caller delivers at once."""

    rows: list[dict[str, Any]]
    most: int | None
    amends: Exchange | None = None  # set if the one row is a further delivery of a turn


class SqlInbox(SqlAdapter):
    """Inbox of an SQL store, without claiming."""

    # ── receiving ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        at = self._clock()
        due_at = inbox_rules.add_seconds(at, hold)
        rows = [inbox_rules.to_row(inbox_rules.with_time(exchange, at), task, at, due_at) for exchange in exchanges]
        return self._deliver(Delivery(rows, most)) if rows else []

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        at = self._clock()
        dated = inbox_rules.with_time(exchange, at)
        row = inbox_rules.to_row(dated, "learn", at, inbox_rules.add_seconds(at, hold))
        return self._deliver(Delivery([row], most, dated))[0]

    def _deliver(self, delivery: Delivery) -> list[Receipt]:
        """Write a delivery in a transaction (`deliver`)."""
        raise NotImplementedError

    def release(self, client: str, session: str) -> int:
        return self._write("release_items", {"client": client, "session": session, "at": self._clock()})

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        at = self._clock()
        session_key = {"client": client, "session": session}
        with self._database.writing() as queries:
            until = {**session_key, "at": at, "until": inbox_rules.add_seconds(at, batching.seconds)}
            waiting = queries.value("waiting_of_session", until)
            columns = inbox_rules.holding_columns(at, waiting, batching, broken_off=broken_off)
            queries.run("hold_items", {**session_key, **columns})

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        values = {"client": client, "session": session, "any_key": int(any_key)}
        return {row[0] for row in self._read("turns", values)}

    def purged_turns(self, client: str, session: str) -> set[str]:
        turns = self._read("purged_turns", {"client": client, "session": session})
        return {turn for turn, payload in turns if not payload or inbox_rules.purged_roles(payload)}

    # ── processing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def due(self, limit: int) -> list[Item]:
        return self._readable(lambda: self._due(limit))

    def _due(self, limit: int) -> list[Row]:
        return self._read("due_items", {"at": self._clock(), "limit": limit}, items=ITEMS)

    def _readable(self, read_rows: Callable[[], list[Row]]) -> list[Item]:
        """Return the readable items in processing order, and park unreadable ones for manual review."""
        while True:
            items = sorted((inbox_rules.to_item(row) for row in read_rows()), key=inbox_rules.turn_of)
            unreadable = [item.id for item in items if item.exchange is None]
            for item_id in unreadable:  # so that they do not block the others
                with suppress(Conflict):  # settled or parked by another process
                    self.park(item_id, inbox_rules.UNREADABLE)
            readable = [item for item in items if item.exchange is not None]
            if readable or not unreadable:
                return readable

    def settle(self, settlement: ItemResolution) -> None:
        at = self._clock()
        with self._database.writing() as queries:
            settle_item(queries, settlement, at=at)

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        due_at = inbox_rules.add_seconds(self._clock(), seconds)
        counts = {"attempt": int(attempt), "fault": int(fault)}
        values = {"due_at": due_at, "reason": inbox_rules.make_storable(reason), **counts}
        with self._database.writing() as queries:
            _update(queries, "postpone_item", item_id, values)

    def park(self, item_id: int, reason: str) -> None:
        with self._database.writing() as queries:
            _update(queries, "park_item", item_id, {"reason": inbox_rules.make_storable(reason)})

    def retry(self, item_id: int) -> Item:
        at = self._clock()
        with self._database.writing() as queries:
            _update(queries, "retry_item", item_id, {"at": at}, refuse=inbox_rules.refuse_retry)
            return _get_item(queries, item_id) or inbox_rules.refuse(item_id, None)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def item(self, item_id: int) -> Item:
        with self._database.reading() as queries:
            item = _get_item(queries, item_id) if is_storable_int(item_id) else None
        return item or inbox_rules.refuse(item_id, None)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        last = after if after is not None and is_storable_int(after) else LAST_ID
        values = {"state": state, "after": last, "limit": limit}
        rows = self._read("newest_items_in" if state else "newest_items", values, items=ITEMS)
        return list(map(inbox_rules.to_item, rows))

    def settled_by(self, changeset_id: int) -> Item | None:
        rows = self._read("item_settled_by", {"changeset": changeset_id}, items=ITEMS)
        return inbox_rules.to_item(rows[0]) if rows else None

    def status(self) -> InboxStatus:
        counts = self._read("inbox_status")
        states, reasons = ({name: n for kind, name, n in counts if kind == heading} for heading in ("state", "reason"))
        return inbox_rules.make_status(states, reasons, next(name for kind, name, _ in counts if kind == "oldest"))

    def forget(self, before: str) -> int:
        count = self._delete_before("forget_items", before, _BATCH)
        if count:
            self._database.truncate_log()
        return count


def settle_item(queries: Queries, settlement: ItemResolution, *, at: str, changeset: int | None = None) -> None:
    """Settle an item inside a transaction. Raise Conflict, which rolls back the transaction, unless it is pending."""
    reason, result = inbox_rules.settled_item(settlement, changeset)
    number = settlement.item
    row = queries.one("as_read", {"id": number}) if settlement.read and is_storable_int(number) else None
    if row:
        inbox_rules.refuse_if_moved(settlement, inbox_rules.from_payload(row[0]), json.loads(row[1]))
    values = {"state": settlement.state, "reason": reason, "result": as_json(result), "changeset": changeset, "at": at}
    _update(queries, "settle_item", number, values)


def erase(queries: Queries, memory: Memory, viewer: Viewer | None) -> None:
    """Remove a purged memory's present and former words, while the journal still has them.

    Settled items that led to the memory, or contain its words, are erased. From open items, which would bring the words
    back, only these words are cut; the rest is still processed. A purge never drops an acknowledged capture.

    With a viewer, only items of this viewer are searched, and memories of the same owner.
    """
    former = queries.all("words_of", {"id": memory.id})
    words = [memory.text, memory.context, *(text for row in former for text in row)]
    fragments = inbox_rules.words_to_erase(words, memory.previous_text)
    said, escaped = queries.listed(fragments), queries.listed(as_json(fragment)[1:-1] for fragment in fragments)
    candidates = queries.all("settled_items_saying", {"id": memory.id, "said": said, "written": escaped})
    settled = [row for row in candidates if row[3] or inbox_rules.contains_words(row[1], row[2], fragments)]
    reasons = queries.all("reasons_saying", {"said": said})
    for name, rows in (("erase_settled_items", settled), ("erase_reasons", reasons)):
        queries.run(name, {"ids": queries.listed(inbox_rules.ids_owned_by(rows, viewer))})
    llm_calls.erase(queries)
    if episodes.erase(queries, memory.id, fragments, viewer):
        queries.tidy("tidy_passage_words")  # no word of it stays in the full-text segments
    for number, payload in queries.all("open_payloads"):
        if viewer and not inbox_rules.is_owned_by(inbox_rules.from_payload(payload), viewer):
            continue
        if (rest := inbox_rules.cut_payload(payload, fragments)) != payload:
            queries.run("set_payload", {"id": number, "payload": rest})
    # Memories extracted from the same sentence lose their copy of it.
    for name in ("erase_shared_context", "erase_shared_context_in_changes"):
        queries.run(name, {"said": said, **inbox_rules.same_owner_filter(memory, viewer)})


def deliver(queries: Queries, delivery: Delivery) -> list[Receipt]:
    """Return one receipt per row. If the inbox is full, rows that are all known already still get receipts."""
    if delivery.amends:
        return [_amend_turn(queries, delivery, delivery.amends)]
    if not _is_full(queries, delivery.most):
        return [_receive_row(queries, row) for row in delivery.rows]
    item_ids = [_find_received(queries, row) for row in delivery.rows]
    if None in item_ids:
        raise inbox_rules.too_busy(delivery.most or 0)
    return [Receipt(item_id, False) for item_id in item_ids if item_id]


def _is_full(queries: Queries, most: int | None) -> bool:
    return most is not None and bool(queries.value("is_full", {"most": most}))


def _receive_row(queries: Queries, row: Values) -> Receipt:
    item_id = _find_received(queries, row)
    return Receipt(item_id, False) if item_id else _insert_item(queries, row)


def _insert_item(queries: Queries, row: Values) -> Receipt:
    item_id = queries.value("receive", row)  # None if a concurrent delivery was faster
    return Receipt(int(item_id), True) if item_id else Receipt(int(queries.value("received", row)), False)


def _find_received(queries: Queries, row: Values) -> int | None:
    """Return the id of the item of this turn for the same task, if there is one."""
    return queries.value("received", row) if row["turn"] else None


def _amend_turn(queries: Queries, delivery: Delivery, exchange: Exchange) -> Receipt:
    """Add what is new of a turn to its item and return its receipt; if nothing is new, that of the turn's last item."""
    (row,) = delivery.rows
    parts = list(_read_parts(queries, row))
    new = turn_merge.merge_turn(parts, exchange) if parts else turn_merge.TurnMerge(None, exchange)
    if new is None:
        last = parts[-1].item.id
        queries.run("due_by", {"id": last, "due_at": row["due_at"]})
        return Receipt(last, False)
    if new.part:
        payload = inbox_rules.to_payload(new.exchange, new.part.cut)
        values = {"id": new.part.item.id, "payload": payload, "due_at": row["due_at"], "series": new.exchange.series}
        queries.run("amend_item", values)
        return Receipt(new.part.item.id, False)
    if _is_full(queries, delivery.most):
        raise inbox_rules.too_busy(delivery.most or 0)
    return _insert_item(queries, inbox_rules.to_row(new.exchange, "learn", row["received_at"], row["due_at"]))


def _read_parts(queries: Queries, row: Values) -> Iterator[turn_merge.StoredMessage]:
    """Yield the items of the turn, in order; they cannot be settled or purged until the transaction ends."""
    turn, number = row["turn"], 0
    while part := queries.one("part_of_turn", {**row, "turn": turn}, items=ITEMS):
        yield inbox_rules.to_part(part)
        number += 1
        turn = f"{row['turn']}+{number}"


def _update(
    queries: Queries,
    name: str,
    item_id: int,
    values: Mapping[str, Any],
    refuse: Callable[[int, State | None], NoReturn] = inbox_rules.refuse,
) -> None:
    """Change an item; call `refuse` if its state does not allow it."""
    if not is_storable_int(item_id):
        refuse(item_id, None)
    if not queries.count(name, {**values, "id": item_id}):
        refuse(item_id, queries.value("item_state", {"id": item_id}))


def _get_item(queries: Queries, item_id: int) -> Item | None:
    row = queries.one("get_item", {"id": item_id}, items=ITEMS)
    return inbox_rules.to_item(row) if row else None
