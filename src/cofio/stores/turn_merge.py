"""Merging of repeated deliveries of a turn, so that each message is stored once.

    prompt, answer, notify, transcript ─▶ one exchange while it is open, or a further one for late parts

Clients may deliver the parts of a turn in any order. While the turn's item is open and nothing was learned from it, new
messages join it. After that they become an item of their own. Pure functions, shared by every store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cofio.models.exchange import MAX_SAID, OPEN, Exchange, Item, Message
from cofio.text.tokens import LEFT_OUT

_LONG = 200  # characters; a text of this length does not occur in another one by chance
_MOST_INJECTED = 400  # lines
_THOROUGH = "pre_compact"


class StoredMessage(NamedTuple):
    """Item of a turn, and the parts from which words were purged: roles, or "injected"."""

    item: Item
    cut: tuple[str, ...] = ()


class TurnMerge(NamedTuple):
    """Result of a further delivery: the item that it joins (None for a new one), and that item's exchange."""

    part: StoredMessage | None
    exchange: Exchange


def merge_turn(parts: Sequence[StoredMessage], exchange: Exchange) -> TurnMerge | None:
    """Return what to store of a further delivery; None if nothing is new, or if the known words are forgotten.

    Purged words are not restored: roles from which words were cut are no longer extended.
    """
    exchanges = [part.item.exchange for part in parts if part.item.exchange]
    if len(exchanges) < len(parts):
        return None
    cut = {words for part in parts for words in part.cut}
    uncut = replace(
        exchange,
        messages=tuple(message for message in exchange.messages if message.role not in cut),
        injected=() if "injected" in cut else exchange.injected,
    )
    last = parts[-1]
    if last.item.state in OPEN and not last.item.result:  # a result means that the item is partly processed
        merged = _merge_exchanges(exchanges[-1], _drop_known(uncut, exchanges[:-1]))
        if merged == exchanges[-1]:
            return None
        if sum(len(message.text) for message in merged.messages) <= MAX_SAID:
            return TurnMerge(last, merged)
    rest = _drop_known(uncut, exchanges)
    return TurnMerge(None, replace(rest, turn=f"{exchange.turn}+{len(parts)}")) if rest.messages else None


def _merge_exchanges(old: Exchange, new: Exchange) -> Exchange:
    entries = [_normalize(message) for message in old.messages]
    for message in new.messages:
        _take_in(entries, _normalize(message))
    messages = _order([entry.message for entry in entries], old.messages, new.messages)
    thorough = _THOROUGH in (old.context, new.context)
    return replace(
        old,
        messages=messages,
        injected=tuple(dict.fromkeys((*old.injected, *new.injected)))[-_MOST_INJECTED:],
        context=_THOROUGH if thorough else old.context if messages == old.messages else new.context,
        source=old.source or new.source,
        project=old.project or new.project,
        agent=old.agent or new.agent,
        series=min(old.series, new.series),  # if any part was captured live, an undo of the backfill keeps it
    )


def _order(messages: list[Message], old: Sequence[Message], new: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages in the order of the new delivery, if that is complete; else as received, but user first."""
    if len(messages) == len(new) and set(messages) == set(new):
        return tuple(new)
    if all(message.role != "user" for message in old):
        messages.sort(key=lambda message: message.role != "user")
    return tuple(messages)


def _take_in(entries: list[_NormalizedMessage], new: _NormalizedMessage) -> None:
    """Add the message, unless it is known; it replaces known ones that are parts of it."""
    if any(_stands_in(new, entry) for entry in entries):
        return
    shorter = [place for place, entry in enumerate(entries) if _stands_in(entry, new)]
    for place in reversed(shorter[1:]):
        del entries[place]
    if shorter:
        entries[shorter[0]] = new
    else:
        entries.append(new)


def _drop_known(exchange: Exchange, earlier: Sequence[Exchange]) -> Exchange:
    """Return the exchange without what other exchanges of the same turn contain."""
    entries = [_normalize(message) for other in earlier for message in other.messages]
    remainders = (_cut_known(_normalize(message), entries) for message in exchange.messages)
    return replace(exchange, messages=tuple(entry.message for entry in remainders if entry.plain))


def _cut_known(new: _NormalizedMessage, entries: Sequence[_NormalizedMessage]) -> _NormalizedMessage:
    role = new.message.role
    while new.plain:
        if any(_stands_in(new, entry) for entry in entries):
            return _normalize(Message(role, ""))
        parts = (part for entry in entries if entry.message.role == role for part in _split_parts(entry))
        shorter = (_drop_part(new.message.text, part) for part in parts)
        rest = next((text for text in shorter if text != new.message.text), None)
        if rest is None:
            break
        new = _normalize(Message(role, rest))
    return new


class _NormalizedMessage(NamedTuple):
    """Message, and its text by lines with single spaces only: white space is not significant."""

    message: Message
    plain: str


def _normalize(message: Message) -> _NormalizedMessage:
    return _NormalizedMessage(message, "\n".join(_normalize_line(line) for line in _split_lines(message.text)))


def _split_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _normalize_line(line: str) -> str:
    return " ".join(line.split())


def _stands_in(one: _NormalizedMessage, other: _NormalizedMessage) -> bool:
    """Return whether one is contained in the other: as whole lines, or anywhere if it is long.

    A short one must not match anywhere: "use tabs" is not what "do not use tabs" says. Of a message that was truncated,
    both ends must be contained, because how much of it remains depends on its delivery.
    """
    if one.message.role != other.message.role:
        return False
    return all(
        f"\n{part}\n" in f"\n{other.plain}\n" or (len(part) >= _LONG and part in other.plain)
        for part in _split_parts(one)
    )


def _split_parts(entry: _NormalizedMessage) -> list[str]:
    return entry.plain.split(f"\n{LEFT_OUT}\n")


def _drop_part(text: str, part: str) -> str:
    """Return the text without the lines of a part; unchanged unless they are consecutive whole lines of it."""
    lines, part_lines = _split_lines(text), part.split("\n")
    plain = [_normalize_line(line) for line in lines]
    for start in range(len(plain) - len(part_lines) + 1):
        if plain[start : start + len(part_lines)] == part_lines:
            return "\n".join(lines[:start] + lines[start + len(part_lines) :])
    return text
