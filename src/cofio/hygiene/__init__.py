"""Hygiene: what a client delivers becomes a clean Exchange.

    delivered ─ reading ─▶ messages ─ secrets ─ blocks ─ pasted ─ secrets ─▶ Exchange

Out go what tools and clients put in, what cofio itself put in, code and logs, and secrets. What was put before the
agent is kept apart, as `injected`, so that a later step can tell an echo from news.

Secrets go first: a line or a block that is taken out may be the one that gives a secret away, such as the head of a key
in a difference. They go again where something was taken out, for that may lay one bare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from cofio.conversation import ANALYSIS, MAX_SAID, ROLES, Exchange, Message
from cofio.errors import InvalidInput
from cofio.hygiene.blocks import boot_lines, lift, lines, unclosed
from cofio.hygiene.pasted import without_code, without_synthetic
from cofio.hygiene.reading import Said, said, storable
from cofio.hygiene.secrets import redact
from cofio.model import MAX_LABEL
from cofio.wording import both_ends, end_of

__all__ = ["clean", "redact"]

MOST_INJECTED = 200  # lines
LONGEST_INJECTED = 16_000  # characters of all of them


def clean(messages: str | Sequence[Mapping[str, Any]], **about: Any) -> Exchange:
    """What the user and the assistant said to each other, as an Exchange; it may be that nothing is left.

    `about` holds the other fields of the Exchange: its labels without secrets too, its `injected` added to what is
    found. InvalidInput when `messages` is neither a text nor a list of messages, or `about` has a field of no Exchange.
    """
    about = _described(about)
    told = _as_texts(about.pop("injected", ()))
    kept: list[Message] = []
    injected: list[str] = []
    speaker = "assistant" if about.get("context") == ANALYSIS else "user"  # a report is the agent's own
    for each in said(messages, speaker=speaker):
        text, put_in = _cleaned(each)
        injected += put_in
        if text and each.role in ROLES:
            kept.append(Message(each.role, text))
    for text in told:
        injected += lines(redact(storable(text)))
    return Exchange(messages=tuple(_newest(kept)), injected=_newest_lines(injected), **about)


def _described(about: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an Exchange with no secret in its labels. The same label becomes the same, so a turn stays one."""
    unknown = sorted(set(about) - set(_FIELDS))
    if unknown:
        raise InvalidInput(f"{', '.join(unknown)}: no such field.", f"The fields are: {', '.join(_FIELDS)}.")
    return {name: _safe_label(value) if name in _LABELS else value for name, value in about.items()}


def _safe_label(label: Any) -> Any:
    """The label without secrets. What is no text or too long is left for the Exchange to refuse; a number is an id."""
    if not isinstance(label, str) or len(label) > MAX_LABEL or label.isdigit():
        return label
    return redact(label)[:MAX_LABEL]


def _as_texts(injected: Any) -> Iterator[str]:
    if isinstance(injected, str):
        injected = (injected,)
    return (each for each in injected if isinstance(each, str)) if isinstance(injected, Iterable) else iter(())


def _cleaned(message: Said) -> tuple[str, list[str]]:
    """What one side says in its own words, and the lines that were put before the agent with it."""
    parts: list[str] = []
    injected: list[str] = []
    for raw in message.texts:
        text, put_in = _own_words(raw, message.role)
        parts.append(text)
        injected += put_in
    return "\n\n".join(part for part in parts if part), injected


def _own_words(raw: str, role: str) -> tuple[str, list[str]]:
    safe = redact(raw)
    lifted = lift(safe)
    rest = unclosed(without_code(without_synthetic(lifted.text, role)))
    injected = [*lifted.injected, *rest.injected]
    if role not in ROLES:
        return "", injected or (boot_lines(safe) if role in _INSTRUCTING else [])
    text = _GAP.sub("\n\n", rest.text).strip()
    return (text if text == safe.strip() else redact(text)), injected


def _newest(messages: Sequence[Message]) -> Iterator[Message]:
    """The newest of what was said, within the limit, in order: a long conversation loses its beginning.

    What the user said last, or either side at the very last, loses its middle instead: its beginning is no older.
    """
    room = MAX_SAID
    kept: list[Message] = []
    last = (len(messages) - 1, max((place for place, each in enumerate(messages) if each.role == "user"), default=0))
    for place, message in reversed([*enumerate(messages)]):
        text = (both_ends if place in last else end_of)(message.text, room)
        if text:
            kept.append(Message(message.role, text))
        room -= len(text)
        if len(text) < len(message.text) or room <= 0:
            break
    return reversed(kept)


def _newest_lines(injected: Sequence[str]) -> tuple[str, ...]:
    """The newest lines within the limits, each once, newest last."""
    kept: dict[str, None] = {}
    room = LONGEST_INJECTED
    for line in reversed(injected):
        if line in kept:
            continue
        room -= len(line)
        if room < 0 or len(kept) >= MOST_INJECTED:
            break
        kept[line] = None
    return tuple(reversed(kept))


_FIELDS = tuple(each.name for each in fields(Exchange) if each.name not in ("messages", "reach"))
_LABELS = frozenset({"source", "context", "client", "session", "turn", "agent"})
_INSTRUCTING = ("system", "developer")  # roles whose texts are put before the agent
_GAP = re.compile(r"\n(?:[ \t]*\n)+")
