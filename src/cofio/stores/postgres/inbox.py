"""The inbox on the server: many processes deliver to it and share the work on it.

receive, amend ─▶ pending ─ claim ─▶ settled | postponed | parked ─ retry ─▶ pending
                     ▲         │
                     └─────────┴─ given back, or claim expired
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from cofio.errors import Conflict
from cofio.models.exchange import Batching, Exchange, InboxStatus, Item, ItemResolution, Receipt, State, Task
from cofio.models.memory import Memory, Viewer, to_utc_iso
from cofio.ports import Clock
from cofio.stores import episodes, inbox_rules, llm_calls, turn_merge
from cofio.stores.postgres.connection import PostgresServer, TenantQueries
from cofio.stores.postgres.domain_knowledge import PostgresNamedQueries
from cofio.stores.row_mapping import as_json, is_storable_int

CLAIMED = 600.0  # seconds until a claim expires: a model reads four batches in less
_AT_ONCE = 4  # items, each with its session's batch, that one process claims: it leaves some to the others
_FORGOTTEN = 1_000  # items whose words are erased in one transaction


class PostgresInbox:
    """Inbox of one tenant of a PostgreSQL database."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    # ── receiving ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        at = self._clock()
        due_at = inbox_rules.add_seconds(at, hold)
        deliveries = [
            inbox_rules.to_row(inbox_rules.with_time(exchange, at), task, at, due_at) for exchange in exchanges
        ]
        if not deliveries:
            return []
        with self._server.writing() as rows:
            _lock_sessions(rows, deliveries)
            if not _is_full(rows, most):
                return [_receive_row(rows, delivery) for delivery in deliveries]
            item_ids = [_find_received(rows, delivery) for delivery in deliveries]
            if None in item_ids:
                raise inbox_rules.too_busy(most or 0)
            return [Receipt(item_id, False) for item_id in item_ids if item_id]

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        at = self._clock()
        dated = inbox_rules.with_time(exchange, at)
        row = inbox_rules.to_row(dated, "learn", at, inbox_rules.add_seconds(at, hold))
        with self._server.writing() as rows:
            _lock_sessions(rows, [row])
            return _amend_turn(rows, row, dated, most)

    def release(self, client: str, session: str) -> int:
        with self._server.writing() as rows:
            return rows.count("release_items", {"client": client, "session": session, "at": self._clock()})

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        at = self._clock()
        session_key = {"client": client, "session": session}
        with self._server.writing() as rows:
            until = {**session_key, "at": at, "until": inbox_rules.add_seconds(at, batching.seconds)}
            waiting = rows.value("waiting_of_session", until)
            rows.count(
                "hold_items",
                {**session_key, **inbox_rules.holding_columns(at, waiting, batching, broken_off=broken_off)},
            )

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        values = {"client": client, "session": session, "any_key": int(any_key)}
        with self._server.reading() as rows:
            return {turn for (turn,) in rows.all("turns", values)}

    def purged_turns(self, client: str, session: str) -> set[str]:
        with self._server.reading() as rows:
            turns = rows.all("purged_turns", {"client": client, "session": session})
            return {turn for turn, payload in turns if not payload or inbox_rules.purged_roles(payload)}

    # ── claiming ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def due(self, limit: int) -> list[Item]:
        return self._readable(lambda: self._due(limit))

    def _due(self, limit: int) -> list[tuple[Any, ...]]:
        with self._server.reading() as rows:
            return rows.all("due_items", {"at": self._clock(), "limit": limit}, items=inbox_rules.ITEMS)

    def claim(self, limit: int, together: int = 1) -> list[Item]:
        return self._readable(lambda: self._claim(min(limit, _AT_ONCE), together))

    def _claim(self, limit: int, together: int) -> list[tuple[Any, ...]]:
        with self._server.reading() as rows:
            if not rows.value("any_due", {"at": self._clock()}):
                return []  # by far the most frequent case
        with self._server.writing() as rows:
            rows.lock("claiming")  # one at a time: the second process sees what is claimed, and claims other items
            at = self._clock()
            values = {"at": at, "until": inbox_rules.add_seconds(at, CLAIMED), "limit": limit, "together": together}
            return rows.all("claim_items", values, items=inbox_rules.ITEMS)

    def _readable(self, read_rows: Callable[[], list[tuple[Any, ...]]]) -> list[Item]:
        """Return the readable items in processing order, and park unreadable ones for manual review."""
        while True:
            items = sorted((inbox_rules.to_item(row) for row in read_rows()), key=inbox_rules.turn_of)
            unreadable = [item.id for item in items if item.exchange is None]
            for item_id in unreadable:
                with suppress(Conflict):  # settled or parked by another process
                    self.park(item_id, inbox_rules.UNREADABLE)
            readable = [item for item in items if item.exchange is not None]
            if readable or not unreadable:
                return readable

    def give_back(self, items: Sequence[Item]) -> None:
        at = self._clock()
        with self._server.writing() as rows:
            rows.many("give_back_items", [{"id": item.id, "until": item.due_at, "at": at} for item in items])

    # ── settling ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, settlement: ItemResolution) -> None:
        at = self._clock()
        with self._server.writing() as rows:
            settle_item(rows, settlement, at=at)

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        due_at = inbox_rules.add_seconds(self._clock(), seconds)
        counts = {"attempt": int(attempt), "fault": int(fault)}
        values = {"due_at": due_at, "reason": inbox_rules.make_storable(reason), **counts}
        with self._server.writing() as rows:
            _update(rows, "postpone_item", item_id, values)

    def park(self, item_id: int, reason: str) -> None:
        with self._server.writing() as rows:
            _update(rows, "park_item", item_id, {"reason": inbox_rules.make_storable(reason)})

    def retry(self, item_id: int) -> Item:
        at = self._clock()
        with self._server.writing() as rows:
            _update(rows, "retry_item", item_id, {"at": at}, refuse=inbox_rules.refuse_retry)
            return _get_item(rows, item_id) or inbox_rules.refuse(item_id, None)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def item(self, item_id: int) -> Item:
        with self._server.reading() as rows:
            item = _get_item(rows, item_id) if is_storable_int(item_id) else None
        return item or inbox_rules.refuse(item_id, None)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        last = after if after is not None and is_storable_int(after) else 1 << 62
        values = {"state": state, "after": last, "limit": limit}
        with self._server.reading() as rows:
            items = rows.all("newest_items_in" if state else "newest_items", values, items=inbox_rules.ITEMS)
        return [inbox_rules.to_item(row) for row in items]

    def settled_by(self, changeset_id: int) -> Item | None:
        with self._server.reading() as rows:
            row = rows.one("item_settled_by", {"changeset": changeset_id}, items=inbox_rules.ITEMS)
        return inbox_rules.to_item(row) if row else None

    def status(self) -> InboxStatus:
        with self._server.reading() as rows:
            counts = rows.all("inbox_status")
        states, reasons = ({name: n for kind, name, n in counts if kind == heading} for heading in ("state", "reason"))
        return inbox_rules.make_status(states, reasons, next(name for kind, name, _ in counts if kind == "oldest"))

    def forget(self, before: str) -> int:
        values = {"before": to_utc_iso(before), "limit": _FORGOTTEN}
        deleted = 0
        while True:  # in small transactions, so that concurrent deliveries do not wait for all of it
            with self._server.writing() as rows:
                count = rows.count("forget_items", values)
            deleted += count
            if count < _FORGOTTEN:
                return deleted


def settle_item(rows: TenantQueries, settlement: ItemResolution, *, at: str, changeset: int | None = None) -> None:
    """Settle an item inside a transaction. Raise Conflict, which rolls back the transaction, unless it is pending."""
    reason, result = inbox_rules.settled_item(settlement, changeset)
    number = settlement.item
    row = rows.one("as_read", {"id": number}) if settlement.read and is_storable_int(number) else None
    if row:
        inbox_rules.refuse_if_moved(settlement, inbox_rules.from_payload(row[0]), json.loads(row[1]))
    values = {"state": settlement.state, "reason": reason, "result": as_json(result), "changeset": changeset, "at": at}
    _update(rows, "settle_item", number, values)


def erase(rows: TenantQueries, memory: Memory, viewer: Viewer | None) -> None:
    """Remove a purged memory's present and former words, while the journal still has them.

    Settled items that led to the memory, or contain its words, are erased. From open items, which would bring the words
    back, only these words are cut; the rest is still processed. A purge never drops an acknowledged capture.

    With a viewer, only items of this viewer are searched, and memories of the same owner.
    """
    former = rows.all("words_of", {"id": memory.id})
    words = [memory.text, memory.context, *(text for row in former for text in row)]
    fragments = inbox_rules.words_to_erase(words, memory.previous_text)
    escaped = [as_json(fragment)[1:-1] for fragment in fragments]
    candidates = rows.all("settled_items_saying", {"id": memory.id, "written": escaped})
    matches = [row for row in candidates if row[3] or inbox_rules.contains_words(row[1], row[2], fragments)]
    reasons = inbox_rules.ids_told_by(rows.all("reasons_saying", {"said": fragments}), viewer)
    rows.run("erase_settled_items", {"ids": inbox_rules.ids_told_by(matches, viewer)})
    rows.run("erase_reasons", {"ids": reasons})
    llm_calls.erase(PostgresNamedQueries(rows))
    episodes.erase(PostgresNamedQueries(rows), memory.id, fragments, viewer)
    for number, payload in rows.all("open_payloads"):
        if viewer and not inbox_rules.is_told_by(inbox_rules.from_payload(payload), viewer):
            continue
        if (rest := inbox_rules.cut_payload(payload, fragments)) != payload:
            rows.run("set_payload", {"id": number, "payload": rest})
    # Memories extracted from the same sentence lose their copy of it.
    for name in ("erase_shared_context", "erase_shared_context_in_changes"):
        rows.run(name, {"said": fragments, **inbox_rules.same_owner_filter(memory, viewer)})


def _lock_sessions(rows: TenantQueries, delivered: Sequence[Mapping[str, Any]]) -> None:
    """Lock the sessions, so that a turn is stored once and amended by one process at a time.

    Always in the same order, to avoid deadlocks.
    """
    for name in sorted({as_json([row["client"], row["session"]]) for row in delivered if row["turn"]}):
        rows.lock(f"session/{name}")


def _is_full(rows: TenantQueries, most: int | None) -> bool:
    return most is not None and bool(rows.value("is_full", {"most": most}))


def _receive_row(rows: TenantQueries, row: Mapping[str, Any]) -> Receipt:
    item_id = _find_received(rows, row)
    return Receipt(item_id, False) if item_id else _insert_item(rows, row)


def _insert_item(rows: TenantQueries, row: Mapping[str, Any]) -> Receipt:
    item_id = rows.value("receive", row)
    return Receipt(int(item_id), True) if item_id else Receipt(int(rows.value("received", row)), False)


def _find_received(rows: TenantQueries, row: Mapping[str, Any]) -> int | None:
    """Return the id of the item of this turn for the same task, if there is one."""
    return rows.value("received", row) if row["turn"] else None


def _amend_turn(rows: TenantQueries, row: Mapping[str, Any], exchange: Exchange, most: int | None) -> Receipt:
    """Add what is new of a turn to its item and return its receipt; if nothing is new, that of the turn's last item."""
    parts = list(_read_parts(rows, row))
    new = turn_merge.merge_turn(parts, exchange) if parts else turn_merge.TurnMerge(None, exchange)
    if new is None:
        last = parts[-1].item.id
        rows.run("due_by", {"id": last, "due_at": row["due_at"]})
        return Receipt(last, False)
    if new.part:
        payload = inbox_rules.to_payload(new.exchange, new.part.cut)
        values = {"id": new.part.item.id, "payload": payload, "due_at": row["due_at"], "series": new.exchange.series}
        rows.run("amend_item", values)
        return Receipt(new.part.item.id, False)
    if _is_full(rows, most):
        raise inbox_rules.too_busy(most or 0)
    return _insert_item(rows, inbox_rules.to_row(new.exchange, "learn", row["received_at"], row["due_at"]))


def _read_parts(rows: TenantQueries, row: Mapping[str, Any]) -> Iterator[turn_merge.StoredMessage]:
    """Yield the items of the turn, in order; they cannot be settled or purged until the transaction ends."""
    turn, number = row["turn"], 0
    while part := rows.one("part_of_turn", {**row, "turn": turn}, items=inbox_rules.ITEMS):
        yield inbox_rules.to_part(part)
        number += 1
        turn = f"{row['turn']}+{number}"


def _update(
    rows: TenantQueries,
    name: str,
    item_id: int,
    values: Mapping[str, Any],
    refuse: Callable[[int, State | None], NoReturn] = inbox_rules.refuse,
) -> None:
    """Change an item; call `refuse` if its state does not allow it."""
    if not is_storable_int(item_id):
        refuse(item_id, None)
    if not rows.count(name, {**values, "id": item_id}):
        refuse(item_id, rows.value("item_state", {"id": item_id}))


def _get_item(rows: TenantQueries, item_id: int) -> Item | None:
    row = rows.one("get_item", {"id": item_id}, items=inbox_rules.ITEMS)
    return inbox_rules.to_item(row) if row else None
