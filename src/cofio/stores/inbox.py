"""The inbox of an SQL store: durable on acknowledgement, settled in one transaction with the changes it led to.

    receive, amend ─▶ pending ─ due, claim ─▶ settled | postponed | parked ─ retry ─▶ pending

The dialects differ in how concurrent deliveries are written, and in who else may work on the items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cofio.errors import Conflict, InvalidInput, NotFound, TooBusy
from cofio.models.exchange import (
    OPEN,
    SETTLED,
    Batching,
    Exchange,
    InboxStatus,
    Item,
    ItemResolution,
    Receipt,
    State,
    Task,
)
from cofio.models.memory import Memory, Viewer
from cofio.stores import episodes, inbox_rules, llm_calls, turn_merge
from cofio.stores.inbox_rules import (
    ITEMS,
    PAYLOAD,
    add_seconds,
    from_payload,
    make_storable,
    purged_roles,
    to_item,
    to_payload,
    to_row,
)
from cofio.stores.query_runner import LAST_ID, Queries, Row, SqlAdapter, Values
from cofio.stores.row_mapping import as_json, is_storable_int

_BATCH = 1_000  # items whose words are erased in one transaction
_NEVER = "9999-12-31T23:59:59.999999Z"
_SKEW = 300.0  # seconds by which clocks of several machines may differ
_LONGEST_WAIT = 25 * 3600.0  # seconds that an item may have to wait, for the budget of the next day
_REASONS = 20  # listed individually in the status; rarer ones are summed


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
        due_at = add_seconds(at, hold)
        rows = [to_row(_with_time(exchange, at), task, at, due_at) for exchange in exchanges]
        return self._deliver(Delivery(rows, most)) if rows else []

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        at = self._clock()
        dated = _with_time(exchange, at)
        row = to_row(dated, "learn", at, add_seconds(at, hold))
        return self._deliver(Delivery([row], most, dated))[0]

    def _deliver(self, delivery: Delivery) -> list[Receipt]:
        raise NotImplementedError

    def release(self, client: str, session: str) -> int:
        return self._write("release_items", {"client": client, "session": session, "at": self._clock()})

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        at = self._clock()
        until = add_seconds(at, batching.seconds)
        values = {"client": client, "session": session, "at": at}
        with self._database.writing() as queries:
            is_full = queries.value("waiting_of_session", {**values, "until": until}) >= batching.turns
            # A full batch is due now. An unanswered prompt, which is held longer, joins the others only if it was
            # interrupted.
            latest = _NEVER if broken_off and not is_full else until
            queries.run("hold_items", {**values, "due_at": at if is_full else until, "latest": latest})

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        values = {"client": client, "session": session, "any_key": int(any_key)}
        return {row[0] for row in self._read("turns", values)}

    def purged_turns(self, client: str, session: str) -> set[str]:
        turns = self._read("purged_turns", {"client": client, "session": session})
        return {turn for turn, payload in turns if not payload or purged_roles(payload)}

    # ── processing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def due(self, limit: int) -> list[Item]:
        return self._readable(lambda: self._due(limit))

    def _due(self, limit: int) -> list[Row]:
        return self._read("due_items", {"at": self._clock(), "limit": limit}, items=ITEMS)

    def _correct_dates(self) -> None:
        """Make items due whose times a clock has set that was ahead: they would wait until it is that late again."""
        at = self._clock()
        values = {"at": at, "soon": add_seconds(at, _SKEW), "latest": add_seconds(at, _LONGEST_WAIT)}
        with self._reading() as queries:
            if not queries.value("any_misdated", values):
                return
        self._write("correct_dates", values)

    def _readable(self, read_rows: Callable[[], list[Row]]) -> list[Item]:
        """Return the readable items in processing order, and park unreadable ones for manual review.

        Live captures come before backfilled ones, each in order of arrival.
        """
        while True:
            items = list(map(to_item, read_rows()))
            unreadable = [item.id for item in items if item.exchange is None]
            for item_id in sorted(unreadable):  # so that they do not block the others
                with suppress(Conflict):  # settled or parked by another process
                    self.park(item_id, "The stored exchange is unreadable")
            readable = {(item.exchange.series, item.id): item for item in items if item.exchange is not None}
            if readable or not unreadable:
                return [readable[key] for key in sorted(readable)]

    def settle(self, settlement: ItemResolution) -> None:
        at = self._clock()
        with self._database.writing() as queries:
            settle_item(queries, settlement, at=at)

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        due_at = add_seconds(self._clock(), seconds)
        counts = {"attempt": int(attempt), "fault": int(fault)}
        with self._database.writing() as queries:
            _update(queries, "postpone_item", item_id, {"due_at": due_at, "reason": make_storable(reason), **counts})

    def park(self, item_id: int, reason: str) -> None:
        with self._database.writing() as queries:
            _update(queries, "park_item", item_id, {"reason": make_storable(reason)})

    def retry(self, item_id: int) -> Item:
        at = self._clock()
        with self._database.writing() as queries:
            _update(queries, "retry_item", item_id, {"at": at})
            return _get_item(queries, item_id)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def item(self, item_id: int) -> Item:
        with self._reading() as queries:
            return _get_item(queries, item_id)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        last = after if after is not None and is_storable_int(after) else LAST_ID
        values = {"state": state, "after": last, "limit": limit}
        rows = self._read("newest_items_in" if state else "newest_items", values, items=ITEMS)
        return list(map(to_item, rows))

    def settled_by(self, changeset_id: int) -> Item | None:
        rows = self._read("item_settled_by", {"changeset": changeset_id}, items=ITEMS)
        return to_item(rows[0]) if rows else None

    def status(self) -> InboxStatus:
        """Return every item counted once, the most common reasons by name, the others summed."""
        counts = self._read("inbox_status")
        states, reasons = ({name: n for kind, name, n in counts if kind == heading} for heading in ("state", "reason"))
        ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        listed = dict(ordered[:_REASONS])
        if others := sum(count for _, count in ordered[_REASONS:]):
            listed["other"] = listed.get("other", 0) + others
        return InboxStatus(
            captured=sum(states.values()),
            **{state: states.get(state, 0) for state in (*SETTLED, "parked")},
            pending=sum(states.get(state, 0) for state in OPEN),
            reasons=listed,
            oldest=next(name for kind, name, _ in counts if kind == "oldest"),
        )

    def forget(self, before: str) -> int:
        count = self._delete_before("forget_items", before, _BATCH)
        if count:
            self._database.truncate_log()
        return count


def _with_time(exchange: Exchange, at: str) -> Exchange:
    """Return the exchange with its time: its own, or `at` if it has none or one in the future."""
    return exchange if exchange.at and exchange.at <= at else replace(exchange, at=at)


def settle_item(queries: Queries, settlement: ItemResolution, *, at: str, changeset: int | None = None) -> None:
    """Settle an item inside a transaction. Raise Conflict, which rolls back the transaction, unless it is pending, or
    parked if a person settles it.

    Conflict also if it has changed since it was read: words were purged, or another process worked on it.
    """
    number, basis, state = settlement.item, settlement.read, settlement.state
    if state not in (*SETTLED, "pending"):
        raise InvalidInput(f"A capture cannot end as {state!r}.", f"Give one of: {', '.join(SETTLED)}.")
    result = dict(settlement.result) | ({} if changeset is None else {"changeset": changeset})
    row = queries.one("as_read", {"id": number}) if basis and is_storable_int(number) else None
    if row and basis and (from_payload(row[0]) != basis.exchange or json.loads(row[1]) != dict(basis.result)):
        raise Conflict(f"Capture {number} has changed since it was read.", "It is retried automatically.")
    values = {"reason": make_storable(settlement.reason), "result": make_storable(as_json(result)), "at": at}
    from_state = "parked" if settlement.is_review else "pending"
    _update(
        queries, "settle_item", number, {**values, "state": state, "from_state": from_state, "changeset": changeset}
    )


def erase_captures(queries: Queries, memory: Memory, viewer: Viewer | None) -> list[str]:
    """Remove a purged memory's present and former texts from captures; return them, while the journal still has them.

    Settled items that led to the memory, or contain its words, are erased. From open items, which would bring the words
    back, only these words are cut; the rest is still processed. A purge never drops an acknowledged capture.

    With a viewer, only items of this viewer are searched.
    """
    former = queries.all("words_of", {"id": memory.id})
    texts = {memory.text, memory.context, *(text for row in former for text in row)}
    # A context equal to the text of the memory that it replaced belongs to that memory, and is kept.
    words = [text for text in texts if text and text.strip() and text != memory.previous_text]
    words.sort(key=lambda text: (-len(text), text))
    said, escaped = queries.listed(words), queries.listed(as_json(word)[1:-1] for word in words)
    candidates = queries.all("settled_items_saying", {"id": memory.id, "said": said, "written": escaped})
    settled = [row for row in candidates if row[3] or inbox_rules.contains_words(row[1], row[2], words)]
    reasons = queries.all("reasons_saying", {"said": said})
    for name, rows in (("erase_settled_items", settled), ("erase_reasons", reasons)):
        own = [row[0] for row in rows if viewer is None or inbox_rules.is_owned_by(from_payload(row[1]), viewer)]
        queries.run(name, {"ids": queries.listed(own)})
    llm_calls.erase(queries)
    if episodes.erase(queries, memory.id, words, viewer):
        queries.tidy("tidy_passage_words")  # no word of it stays in the full-text segments
    for number, payload in queries.all("open_payloads"):
        if viewer and not inbox_rules.is_owned_by(from_payload(payload), viewer):
            continue
        if (remainder := inbox_rules.cut_payload(payload, words)) != payload:
            queries.run("set_payload", {"id": number, "payload": remainder})
    return words


def deliver(queries: Queries, delivery: Delivery) -> list[Receipt]:
    """Return one receipt per row. If the inbox is full, rows that are all known already still get receipts."""
    if delivery.amends:
        return [_amend_turn(queries, delivery, delivery.amends)]
    receipts = []
    is_full = _is_full(queries, delivery.most)
    for row in delivery.rows:
        item_id = queries.value("received", row) if row["turn"] else None  # the item of this turn for the same task
        if item_id is None and is_full:
            raise _too_busy(delivery)
        receipts.append(Receipt(item_id, False) if item_id else _insert_item(queries, row))
    return receipts


def _is_full(queries: Queries, most: int | None) -> bool:
    return most is not None and bool(queries.value("is_full", {"most": most}))


def _too_busy(delivery: Delivery) -> TooBusy:
    message = f"The inbox is full: {delivery.most or 0:,} captures are pending."
    return TooBusy(message, "Try again in a moment; pending captures are kept.")


def _insert_item(queries: Queries, row: Values) -> Receipt:
    item_id = queries.value("receive", row)  # None if a concurrent delivery was faster
    return Receipt(int(item_id), True) if item_id else Receipt(int(queries.value("received", row)), False)


def _amend_turn(queries: Queries, delivery: Delivery, exchange: Exchange) -> Receipt:
    """Add what is new of a turn to its item and return its receipt; if nothing is new, that of the turn's last item."""
    (row,) = delivery.rows
    parts: list[turn_merge.StoredMessage] = []  # they cannot be settled or purged until the transaction ends
    turn = row["turn"]
    while part := queries.one("part_of_turn", {**row, "turn": turn}, items=ITEMS):
        parts.append(turn_merge.StoredMessage(to_item(part), purged_roles(part[PAYLOAD])))
        turn = f"{row['turn']}+{len(parts)}"
    new = turn_merge.merge_turn(parts, exchange) if parts else turn_merge.TurnMerge(None, exchange)
    if new is None:
        last = parts[-1].item.id
        queries.run("due_by", {"id": last, "due_at": row["due_at"]})
        return Receipt(last, False)
    if new.part:
        payload = to_payload(new.exchange, new.part.cut)
        values = {"id": new.part.item.id, "payload": payload, "due_at": row["due_at"], "series": new.exchange.series}
        queries.run("amend_item", values)
        return Receipt(new.part.item.id, False)
    if _is_full(queries, delivery.most):
        raise _too_busy(delivery)
    return _insert_item(queries, to_row(new.exchange, "learn", row["received_at"], row["due_at"]))


def _update(queries: Queries, name: str, item_id: int, values: Mapping[str, Any]) -> None:
    """Change an item; raise the error that tells why its state does not allow it."""
    if is_storable_int(item_id) and queries.count(name, {**values, "id": item_id}):
        return
    state = queries.value("item_state", {"id": item_id}) if is_storable_int(item_id) else None
    if state is None:
        raise _no_item(item_id)
    if name == "retry_item" and state == "pending":
        raise Conflict(f"Capture {item_id} is pending.", "It is processed automatically; no retry is needed.")
    if name == "retry_item" and state in ("parked", "rejected"):
        raise Conflict(f"Capture {item_id} cannot be retried.", "Its text was deleted. Capture the turn again.")
    if state == "parked":
        hint = f"`cofio inbox --retry {item_id}` tries again."
        raise Conflict(f"Capture {item_id} is parked, since it failed.", hint)
    raise Conflict(f"Capture {item_id} is already processed.", f"Its state is {state}.")


def _get_item(queries: Queries, item_id: int) -> Item:
    row = queries.one("get_item", {"id": item_id}, items=ITEMS) if is_storable_int(item_id) else None
    if row is None:
        raise _no_item(item_id)
    return to_item(row)


def _no_item(item_id: int) -> NotFound:
    return NotFound(f"There is no capture {item_id}.", "`cofio inbox` lists the newest captures of this store.")
