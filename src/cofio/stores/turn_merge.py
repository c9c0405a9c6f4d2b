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
    known = [part.item.exchange for part in parts if part.item.exchange]
    if len(known) < len(parts):
        return None
    told = _without_cut(exchange, {each for part in parts for each in part.cut})
    last = parts[-1]
    if last.item.state in OPEN and not last.item.result:  # a result means that the item is partly processed
        grown = _grown(known[-1], _unsaid(told, known[:-1]))
        if grown == known[-1]:
            return None
        if sum(len(message.text) for message in grown.messages) <= MAX_SAID:
            return TurnMerge(last, grown)
    rest = _unsaid(told, known)
    return TurnMerge(None, replace(rest, turn=f"{exchange.turn}+{len(parts)}")) if rest.messages else None


def _without_cut(exchange: Exchange, cut: set[str]) -> Exchange:
    messages = tuple(message for message in exchange.messages if message.role not in cut)
    return replace(exchange, messages=messages, injected=() if "injected" in cut else exchange.injected)


# ── joining ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _grown(old: Exchange, new: Exchange) -> Exchange:
    """Return the exchange, with what is new in the other one."""
    said = [_saying(message) for message in old.messages]
    for message in new.messages:
        _take_in(said, _saying(message))
    messages = _ordered([each.message for each in said], old.messages, new.messages)
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


def _ordered(said: list[Message], old: Sequence[Message], new: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages in the order of the new delivery, if that is complete; else as received, but user first."""
    if len(said) == len(new) and set(said) == set(new):
        return tuple(new)
    if all(each.role != "user" for each in old):
        said.sort(key=lambda each: each.role != "user")
    return tuple(said)


def _take_in(said: list[_NormalizedMessage], new: _NormalizedMessage) -> None:
    """Add the message, unless it is known; it replaces known ones that are parts of it."""
    if any(_stands_in(new, each) for each in said):
        return
    shorter = [place for place, each in enumerate(said) if _stands_in(each, new)]
    for place in reversed(shorter[1:]):
        del said[place]
    if shorter:
        said[shorter[0]] = new
    else:
        said.append(new)


# ── finding new messages ──────────────────────────────────────────────────────────────────────────────────────────────


def _unsaid(exchange: Exchange, known: Sequence[Exchange]) -> Exchange:
    """Return the exchange without what other exchanges of the same turn contain."""
    said = [_saying(message) for each in known for message in each.messages]
    left = (_rest(_saying(message), said) for message in exchange.messages)
    return replace(exchange, messages=tuple(each.message for each in left if each.plain))


def _rest(new: _NormalizedMessage, said: Sequence[_NormalizedMessage]) -> _NormalizedMessage:
    """Return the message without what was said before."""
    role = new.message.role
    while new.plain:
        if any(_stands_in(new, each) for each in said):
            return _saying(Message(role, ""))
        parts = (part for each in said if each.message.role == role for part in _parts(each))
        shorter = (_without(new.message.text, part) for part in parts)
        rest = next((each for each in shorter if each != new.message.text), None)
        if rest is None:
            break
        new = _saying(Message(role, rest))
    return new


class _NormalizedMessage(NamedTuple):
    """Message, and its text by lines with single spaces only: white space is not significant."""

    message: Message
    plain: str


def _saying(message: Message) -> _NormalizedMessage:
    return _NormalizedMessage(message, "\n".join(_line(line) for line in _lines(message.text)))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _line(line: str) -> str:
    return " ".join(line.split())


def _stands_in(one: _NormalizedMessage, other: _NormalizedMessage) -> bool:
    """Return whether one is contained in the other: as whole lines, or anywhere if it is long.

    A short one must not match anywhere: "use tabs" is not what "do not use tabs" says. Of a message that was truncated,
    both ends must be contained, because how much of it remains depends on its delivery.
    """
    if one.message.role != other.message.role:
        return False
    return all(_is_part(part, other.plain) for part in _parts(one))


def _parts(said: _NormalizedMessage) -> list[str]:
    return said.plain.split(f"\n{LEFT_OUT}\n")


def _is_part(part: str, plain: str) -> bool:
    return f"\n{part}\n" in f"\n{plain}\n" or (len(part) >= _LONG and part in plain)


def _without(text: str, part: str) -> str:
    """Return the text without the lines of a part; unchanged unless they are consecutive whole lines of it."""
    lines, wanted = _lines(text), part.split("\n")
    plain = [_line(line) for line in lines]
    for start in range(len(plain) - len(wanted) + 1):
        if plain[start : start + len(wanted)] == wanted:
            return "\n".join(lines[:start] + lines[start + len(wanted) :])
    return text
