"""Stored form of captured exchanges and of inbox items, and erasing of words from them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from cofio.errors import InvalidInput
from cofio.models.episodes import Episode
from cofio.models.exchange import Exchange, Item, Message, Task
from cofio.models.memory import Viewer, to_utc_iso
from cofio.stores.row_mapping import as_json

_COLUMNS = (
    "id", "task", "state", "payload", "received_at", "due_at", "finished_at", "attempts", "faults", "reason",
    "changeset_id", "result",
)  # fmt: skip
PAYLOAD = _COLUMNS.index("payload")
#: The columns of an item, for a SELECT.
ITEMS = ", ".join(_COLUMNS)


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
    return {
        "client": exchange.client,
        "session": exchange.session,
        "turn": exchange.turn,
        "task": task,
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


def add_seconds(at: str, seconds: float) -> str:
    """Return the time so many seconds after `at`."""
    try:
        return to_utc_iso(datetime.fromisoformat(at) + timedelta(seconds=seconds))
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidInput(f"{seconds!r} is not a valid delay.", "Give a number of seconds, 0 or more.") from error


def make_storable(text: str) -> str:
    """Return the text without NUL characters and unpaired surrogates, which no store accepts.

    Otherwise a provider's reply could keep an item from being settled.
    """
    return text.replace("\x00", "").encode(errors="replace").decode()


def is_owned_by(exchange: Exchange | Episode | None, viewer: Viewer | None) -> bool:
    """Return whether the viewer said it, from one of their sources. Always true without a viewer (store owner)."""
    if viewer is None or exchange is None:
        return viewer is None
    return viewer.owns(exchange) and viewer.reaches(exchange.source)


def contains_words(payload: str, result: str, words: Sequence[str]) -> bool:
    """Return whether any of these words occurs in the exchange or in its result."""
    exchange = from_payload(payload)
    if exchange is None:
        return any(as_json(word)[1:-1] in payload for word in words)
    actions = json.loads(result).get("actions", ())
    texts = [message.text for message in exchange.messages] + [str(action.get("text")) for action in actions]
    texts += exchange.injected
    return any(word in text for word in words for text in texts)


def cut_payload(payload: str, words: Sequence[str]) -> str:
    """Return the payload with these words cut out, in any spacing and markup; "" if it is damaged and has them."""
    exchange = from_payload(payload)
    if exchange is None:
        return "" if any(as_json(word)[1:-1] in payload for word in words) else payload
    pattern = re.compile("|".join(rf"(?<!\w){_loosely(word)}(?!\w)" for word in words), re.IGNORECASE)
    messages = tuple(Message(message.role, pattern.sub("", message.text)) for message in exchange.messages)
    injected = tuple(pattern.sub("", text) for text in exchange.injected)
    roles = {before.role for before, after in zip(exchange.messages, messages, strict=True) if before != after}
    cut = (*sorted(roles), *(("injected",) if injected != exchange.injected else ()))
    if not cut:
        return payload
    return to_payload(replace(exchange, messages=messages, injected=injected), (*purged_roles(payload), *cut))


def _loosely(text: str) -> str:
    """Return a pattern of the words as they may be written: other white space, emphasis, a bullet or a quote mark."""
    parts = [word for word in re.split(r"[\s*_`]+", text.strip()) if word.strip("->")]
    return r"[\s*_`>-]+".join(map(re.escape, parts)) or r"(?!)"
