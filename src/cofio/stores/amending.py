"""How a turn grows: what a later delivery adds to what came in of it before, each word once.

    prompt, answer, notify, transcript ─▶ one exchange while it waits, or a further one for what came too late

A turn is told in parts, in any order, by whoever saw it. As long as its item waits and nothing is learned of it, what
is new joins it. After that, what is new becomes an item of its own. Pure functions, shared by every store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cofio.conversation import MAX_SAID, OPEN, Exchange, Item, Message
from cofio.wording import LEFT_OUT

_LONG = 200  # characters: what is as long does not stand in another text by chance
_MOST_INJECTED = 400  # lines
_THOROUGH = "pre_compact"


class Part(NamedTuple):
    """One item of a turn, and what words were purged from: of which roles, or of what was injected."""

    item: Item
    cut: tuple[str, ...] = ()


class Amendment(NamedTuple):
    """What a further delivery leads to: the item that it joins, None for one of its own, and the exchange of that."""

    part: Part | None
    exchange: Exchange


def amended(parts: Sequence[Part], exchange: Exchange) -> Amendment | None:
    """What is to be kept of a further delivery; None when nothing of it is new, or nobody can tell any more.

    What a purge has cut out does not come back with it: of whom words were cut, no more is taken in.
    """
    known = [part.item.exchange for part in parts if part.item.exchange]
    if len(known) < len(parts):
        return None
    told = _without_cut(exchange, {each for part in parts for each in part.cut})
    last = parts[-1]
    if last.item.state in OPEN and not last.item.result:  # a result tells of an item that is learned halfway
        grown = _grown(known[-1], _unsaid(told, known[:-1]))
        if grown == known[-1]:
            return None
        if sum(len(each.text) for each in grown.messages) <= MAX_SAID:
            return Amendment(last, grown)
    rest = _unsaid(told, known)
    return Amendment(None, replace(rest, turn=f"{exchange.turn}+{len(parts)}")) if rest.messages else None


def _without_cut(exchange: Exchange, cut: set[str]) -> Exchange:
    messages = tuple(each for each in exchange.messages if each.role not in cut)
    return replace(exchange, messages=messages, injected=() if "injected" in cut else exchange.injected)


# ── joining ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _grown(old: Exchange, new: Exchange) -> Exchange:
    """The exchange with what is new in another telling of it."""
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
        series=min(old.series, new.series),  # what was captured live too is no backfill's to undo
    )


def _ordered(said: list[Message], old: Sequence[Message], new: Sequence[Message]) -> tuple[Message, ...]:
    """In the order of the new telling, where that is whole; else as they came, but a turn begins with the user."""
    if len(said) == len(new) and set(said) == set(new):
        return tuple(new)
    if all(each.role != "user" for each in old):
        said.sort(key=lambda each: each.role != "user")
    return tuple(said)


def _take_in(said: list[_Saying], new: _Saying) -> None:
    """Add what is new; in the place of what it repeats and goes beyond."""
    if any(_stands_in(new, each) for each in said):
        return
    shorter = [place for place, each in enumerate(said) if _stands_in(each, new)]
    for place in reversed(shorter[1:]):
        del said[place]
    if shorter:
        said[shorter[0]] = new
    else:
        said.append(new)


# ── telling what is new ───────────────────────────────────────────────────────────────────────────────────────────────


def _unsaid(exchange: Exchange, known: Sequence[Exchange]) -> Exchange:
    """The exchange without what others of the same turn say already."""
    said = [_saying(message) for each in known for message in each.messages]
    left = (_rest(_saying(message), said) for message in exchange.messages)
    return replace(exchange, messages=tuple(each.message for each in left if each.plain))


def _rest(new: _Saying, said: Sequence[_Saying]) -> _Saying:
    """What is left of a message without what was said before."""
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


class _Saying(NamedTuple):
    """A message, and its text by lines with nothing but single blanks in them: white space tells nothing apart."""

    message: Message
    plain: str


def _saying(message: Message) -> _Saying:
    return _Saying(message, "\n".join(_line(line) for line in _lines(message.text)))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _line(line: str) -> str:
    return " ".join(line.split())


def _stands_in(one: _Saying, other: _Saying) -> bool:
    """Whether the one is in the other: as whole lines, or anywhere when it is long.

    Not anywhere when it is short: "use tabs" is not what "do not use tabs" says. Of one that had to be cut, both ends
    are: how much of a message stays depends on what it was delivered with.
    """
    if one.message.role != other.message.role:
        return False
    return all(_is_part(part, other.plain) for part in _parts(one))


def _parts(said: _Saying) -> list[str]:
    return said.plain.split(f"\n{LEFT_OUT}\n")


def _is_part(part: str, plain: str) -> bool:
    return f"\n{part}\n" in f"\n{plain}\n" or (len(part) >= _LONG and part in plain)


def _without(text: str, part: str) -> str:
    """The text without the lines of a part of it; as it is, where these are not whole lines of it in a row."""
    lines, wanted = _lines(text), part.split("\n")
    plain = [_line(line) for line in lines]
    for start in range(len(plain) - len(wanted) + 1):
        if plain[start : start + len(wanted)] == wanted:
            return "\n".join(lines[:start] + lines[start + len(wanted) :])
    return text
