"""Rules shared by all inboxes: stored form of an exchange, allowed state changes, status, erasing.

Pure functions, shared by every store like `apply`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

from cofio.errors import Conflict, InvalidInput, NotFound, TooBusy
from cofio.models.episodes import Episode
from cofio.models.exchange import (
    OPEN,
    SETTLED,
    Batching,
    Exchange,
    InboxStatus,
    Item,
    ItemResolution,
    Message,
    State,
    Task,
)
from cofio.models.memory import Memory, Viewer, to_utc_iso
from cofio.stores.row_mapping import as_json
from cofio.stores.turn_merge import StoredMessage

#: States from which an item can be retried, as long as its words exist.
RETRIED: tuple[State, ...] = ("parked", "rejected")
UNREADABLE = "The stored exchange is unreadable"
_COLUMNS = (
    "id", "task", "state", "payload", "received_at", "due_at", "finished_at", "attempts", "faults", "reason",
    "changeset_id", "result",
)  # fmt: skip
_PAYLOAD = _COLUMNS.index("payload")
#: The columns of an item, for a SELECT.
ITEMS = ", ".join(_COLUMNS)
_NEVER = "9999-12-31T23:59:59.999999Z"
_REASONS = 20  # listed individually in the status; rarer ones are summed


# ── stored exchanges ──────────────────────────────────────────────────────────────────────────────────────────────────


def to_payload(exchange: Exchange, cut: Sequence[str] = ()) -> str:
    """Return the exchange as JSON, with the list `cut` of purged parts. Raise InvalidInput if it cannot be stored."""
    payload = as_json({**exchange.as_dict(), **({"cut": list(cut)} if cut else {})})
    try:
        payload.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "An exchange contains an unpaired surrogate.",
            "Replace the broken character: half of a UTF-16 pair (U+D800 to U+DFFF) cannot be stored.",
        ) from error
    return payload


def from_payload(payload: str) -> Exchange | None:
    """Return the exchange that `to_payload` wrote; None if it is forgotten or damaged."""
    try:
        data = json.loads(payload)
        return Exchange.from_dict(data) if "messages" in data else None
    except (ValueError, TypeError, KeyError, AttributeError, InvalidInput):
        return None


def purged_roles(payload: str) -> tuple[str, ...]:
    """Return the parts of the exchange from which words were purged: roles, and "injected"."""
    try:
        return tuple(json.loads(payload).get("cut", ()))
    except (ValueError, TypeError, AttributeError):
        return ()


def to_row(exchange: Exchange, task: Task, at: str, due_at: str) -> dict[str, Any]:
    """Return the values of a new row, by column."""
    key = {"client": exchange.client, "session": exchange.session, "turn": exchange.turn, "task": task}
    return {
        **key,
        "received_at": at,
        "due_at": due_at,
        "payload": to_payload(exchange),
        "series": exchange.series,
    }


def to_item(row: Sequence[Any]) -> Item:
    """Return the item of a row selected with ITEMS."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    exchange, result = from_payload(fields.pop("payload")), json.loads(fields.pop("result"))
    return Item(exchange=exchange, changeset=fields.pop("changeset_id"), result=result, **fields)


def turn_of(item: Item) -> tuple[int, int]:
    """Return the sort key of processing: live captures before backfilled ones, each in order of arrival."""
    return (item.exchange.series if item.exchange else 0), item.id


def to_part(row: Sequence[Any]) -> StoredMessage:
    """Return the part of a turn of a row selected with ITEMS."""
    return StoredMessage(to_item(row), purged_roles(row[_PAYLOAD]))


def with_time(exchange: Exchange, at: str) -> Exchange:
    """Return the exchange with its time: its own, or `at` if it has none or one in the future."""
    return exchange if exchange.at and exchange.at <= at else replace(exchange, at=at)


def add_seconds(at: str, seconds: float) -> str:
    """Return the time so many seconds after `at`."""
    try:
        return to_utc_iso(datetime.fromisoformat(at) + timedelta(seconds=seconds))
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidInput(f"{seconds!r} is not a valid delay.", "Give a number of seconds, 0 or more.") from error


def holding_columns(at: str, waiting: int, batching: Batching, *, broken_off: bool) -> dict[str, str]:
    """Return the new due time of a session's pending items, and the latest previous due time to which it applies.

    A full batch is due now. An unanswered prompt, which is held longer, joins the others only if it was interrupted.
    """
    until = add_seconds(at, batching.seconds)
    is_full = waiting >= batching.turns
    return {"at": at, "due_at": at if is_full else until, "latest": _NEVER if broken_off and not is_full else until}


# ── settling ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def settled_item(settlement: ItemResolution, changeset: int | None) -> tuple[str, dict[str, Any]]:
    """Return the reason and the result as stored: with the changeset id, if there is one."""
    if settlement.state not in (*SETTLED, "pending"):
        raise InvalidInput(f"A capture cannot end as {settlement.state!r}.", f"Give one of: {', '.join(SETTLED)}.")
    result = dict(settlement.result)
    if changeset is not None:
        result["changeset"] = changeset
    reloaded: dict[str, Any] = json.loads(make_storable(as_json(result)))  # as it is read back: tuples become lists
    return make_storable(settlement.reason), reloaded


def refuse_if_moved(settlement: ItemResolution, exchange: Exchange | None, result: Mapping[str, Any]) -> None:
    """Raise Conflict if the item has changed since it was read: words were purged, or another process worked on it."""
    basis = settlement.read
    if basis is not None and (exchange != basis.exchange or dict(result) != dict(basis.result)):
        raise Conflict(f"Capture {settlement.item} has changed since it was read.", "It is retried automatically.")


def make_storable(text: str) -> str:
    """Return the text without NUL characters and unpaired surrogates, which no store accepts.

    Otherwise a provider's reply could keep an item from being settled.
    """
    return text.replace("\x00", "").encode(errors="replace").decode()


def refuse(item_id: int, state: State | None) -> NoReturn:
    """Raise the error for an item that is not pending; None is the state of a missing item."""
    if state is None:
        raise NotFound(f"There is no capture {item_id}.", "`cofio inbox` lists the newest captures of this store.")
    if state == "parked":
        raise Conflict(
            f"Capture {item_id} is parked, since it failed.", f"`cofio inbox --retry {item_id}` tries again."
        )
    raise Conflict(f"Capture {item_id} is already processed.", f"Its state is {state}.")


def refuse_retry(item_id: int, state: State | None) -> NoReturn:
    """Raise the error for an item that cannot be retried."""
    if state == "pending":
        raise Conflict(f"Capture {item_id} is pending.", "It is processed automatically; no retry is needed.")
    if state in RETRIED:
        raise Conflict(f"Capture {item_id} cannot be retried.", "Its text was deleted. Capture the turn again.")
    refuse(item_id, state)


def too_busy(most: int) -> TooBusy:
    """Return the error for a full inbox."""
    return TooBusy(
        f"The inbox is full: {most:,} captures are pending.", "Try again in a moment; pending captures are kept."
    )


# ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_status(states: Mapping[str, int], reasons: Mapping[str, int], oldest: str | None) -> InboxStatus:
    """Return the status of the inbox: every item counted once, the most common reasons by name, the others summed."""
    ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    counts = dict(ordered[:_REASONS])
    if rest := sum(count for _, count in ordered[_REASONS:]):
        counts["other"] = counts.get("other", 0) + rest
    return InboxStatus(
        captured=sum(states.values()),
        **{state: states.get(state, 0) for state in (*SETTLED, "parked")},
        pending=sum(states.get(state, 0) for state in OPEN),
        reasons=counts,
        oldest=oldest,
    )


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def words_to_erase(texts: Iterable[str | None], replaced: str | None) -> list[str]:
    """Return the texts to erase with a memory: each of its texts and contexts once, longest first.

    A context equal to the text of the memory that it replaced belongs to that memory, and is kept.
    """
    own = {text for text in texts if text and text.strip() and text != replaced}
    return sorted(own, key=lambda text: (-len(text), text))


def is_owned_by(exchange: Exchange | Episode | None, viewer: Viewer | None) -> bool:
    """Return whether the viewer said it, from one of their sources. Always true without a viewer (store owner)."""
    if viewer is None or exchange is None:
        return viewer is None
    is_owner = exchange.user == viewer.user if exchange.user else exchange.agent == viewer.agent != ""
    return is_owner and viewer.reaches(exchange.source)


def ids_owned_by(rows: Iterable[Sequence[Any]], viewer: Viewer | None) -> list[int]:
    """Return the ids of rows (id, payload, …) that the viewer said."""
    return [row[0] for row in rows if viewer is None or is_owned_by(from_payload(row[1]), viewer)]


def same_owner_filter(memory: Memory, viewer: Viewer | None) -> dict[str, Any]:
    """Return the owner whose memories may share a sentence with an erased one; without a viewer, any owner."""
    return {"anybody": int(viewer is None), "user": memory.user, "agent": memory.agent}


def contains_words(payload: str, result: str, words: Sequence[str]) -> bool:
    """Return whether any of these words occurs in the exchange or in its result."""
    exchange = from_payload(payload)
    if exchange is None:
        return any(as_json(word)[1:-1] in payload for word in words)
    actions = json.loads(result).get("actions", ())
    texts = [
        *(message.text for message in exchange.messages),
        *exchange.injected,
        *(str(action.get("text")) for action in actions),
    ]
    return any(word in text for word in words for text in texts)


def cut_payload(payload: str, words: Sequence[str]) -> str:
    """Return the payload with these words cut out; "" if it is damaged and contains them."""
    exchange = from_payload(payload)
    if exchange is None:
        return "" if any(as_json(word)[1:-1] in payload for word in words) else payload
    rest = without_words(exchange, words)
    return payload if rest == exchange else to_payload(rest, (*purged_roles(payload), *parts_cut(exchange, rest)))


def parts_cut(exchange: Exchange, rest: Exchange) -> tuple[str, ...]:
    """Return the parts of which the rest lacks words: roles, and "injected"."""
    roles = {before.role for before, after in zip(exchange.messages, rest.messages, strict=True) if before != after}
    return (*sorted(roles), *(("injected",) if exchange.injected != rest.injected else ()))


def without_words(exchange: Exchange, words: Sequence[str]) -> Exchange:
    """Return the exchange without these words, in any spacing and markup. The rest has unprocessed captures."""
    pattern = re.compile("|".join(rf"(?<!\w){_loosely(word)}(?!\w)" for word in words), re.IGNORECASE)
    messages = tuple(Message(message.role, pattern.sub("", message.text)) for message in exchange.messages)
    return replace(exchange, messages=messages, injected=tuple(pattern.sub("", text) for text in exchange.injected))


def _loosely(text: str) -> str:
    """Return a pattern of the words as they may be written: other white space, emphasis, a bullet or a quote mark."""
    parts = [word for word in re.split(r"[\s*_`]+", text.strip()) if word.strip("->")]
    return r"[\s*_`>-]+".join(map(re.escape, parts)) or r"(?!)"
