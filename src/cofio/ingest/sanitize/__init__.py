"""Hygiene: turns a client's delivery into a clean Exchange.

    delivered ─ reading ─▶ messages ─ secrets ─ blocks ─ pasted ─ secrets ─▶ Exchange

Removed are texts that tools, clients and cofio itself inserted, code and logs, and secrets. Context that was injected
for the agent is kept separately, as `injected`, so that a later step can distinguish echoes from new facts.

Secrets are removed first: a removed line or block may be the one that identifies a secret, such as the header of a key
in a diff. They are searched again wherever text was removed, since that may expose one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from cofio.errors import InvalidInput
from cofio.ingest.sanitize.injected_blocks import boot_lines, strip_blocks, text_lines, unclosed
from cofio.ingest.sanitize.messages import RawMessage, make_storable, read_messages
from cofio.ingest.sanitize.pasted_content import strip_code, strip_synthetic
from cofio.models.exchange import ANALYSIS, MAX_SAID, ROLES, Exchange, Message
from cofio.models.memory import MAX_LABEL
from cofio.text.secrets import redact
from cofio.text.tokens import tail_of, truncate_middle

__all__ = ["clean", "redact"]

MOST_INJECTED = 200  # lines
LONGEST_INJECTED = 16_000  # characters in total
MOST_READ = 200_000  # characters of a delivery that are cleaned, half at either end; an Exchange holds fewer


def clean(messages: str | Sequence[Mapping[str, Any]], **about: Any) -> Exchange:
    """Return the conversation of user and assistant as an Exchange, which may be empty.

    `about` holds the other fields of the Exchange: secrets are removed from its labels, and its `injected` is added to
    the injected lines found. Raise InvalidInput if `messages` is neither a text nor a list of messages, or if `about`
    has an unknown field.
    """
    if unknown := sorted(set(about) - set(_FIELDS)):
        raise InvalidInput(f"An exchange has no field {', '.join(unknown)}.", f"Fields: {', '.join(_FIELDS)}.")
    extra = about.pop("injected", ())
    for name in _LABELS & set(about):
        label = about[name]
        # A number is an id. The Exchange rejects other types and long labels.
        if isinstance(label, str) and len(label) <= MAX_LABEL and not label.isdigit():
            about[name] = redact(label)[:MAX_LABEL]

    spoken: list[Message] = []
    injected: list[str] = []
    speaker = "assistant" if about.get("context") == ANALYSIS else "user"  # an analysis is the agent's own report
    for message in _leave_out_middle(read_messages(messages, speaker=speaker)):
        parts = [_extract_own_words(raw, message.role) for raw in message.texts]
        injected += [line for _, lines in parts for line in lines]
        text = "\n\n".join(part for part, _ in parts if part)
        if text and message.role in ROLES:
            spoken.append(Message(message.role, text))
    if isinstance(extra, str) or not isinstance(extra, Iterable):
        extra = [extra]
    for text in extra:
        if isinstance(text, str):
            injected += text_lines(redact(make_storable(tail_of(text, MOST_READ))))
    return Exchange(messages=tuple(_take_newest(spoken)), injected=_take_newest_lines(injected), **about)


def _leave_out_middle(messages: Sequence[RawMessage]) -> Iterator[RawMessage]:
    """Yield the messages without the middle of a delivery that is too long to be cleaned."""
    start, total = 0, sum(len(text) for message in messages for text in message.texts)
    for message in messages:
        texts = []
        for text in message.texts:
            head = min(len(text), max(0, MOST_READ // 2 - start))
            start += len(text)
            tail = min(len(text), max(0, MOST_READ // 2 - (total - start)))
            if head + tail >= len(text):
                texts.append(text)
            elif head or tail:
                texts.append(
                    truncate_middle(text, head + tail) if head and tail else text[:head] or tail_of(text, tail)
                )
        if texts:
            yield RawMessage(message.role, tuple(texts))


def _extract_own_words(raw: str, role: str) -> tuple[str, list[str]]:
    """Return a text in the speaker's own words, and the injected lines in it."""
    safe = redact(raw)
    lifted = strip_blocks(safe)
    rest = unclosed(strip_code(strip_synthetic(lifted.text, role)))
    injected = [*lifted.injected, *rest.injected]
    if role not in ROLES:
        return "", injected or (boot_lines(safe) if role in _INSTRUCTING else [])
    text = _GAP.sub("\n\n", rest.text).strip()
    return (text if text == safe.strip() else redact(text)), injected


def _take_newest(messages: Sequence[Message]) -> Iterator[Message]:
    """Return the newest messages that fit, in order. The last one, and the user's last one, lose their middle."""
    room = MAX_SAID
    newest: list[Message] = []
    last = (
        len(messages) - 1,
        max((place for place, message in enumerate(messages) if message.role == "user"), default=0),
    )
    for place, message in reversed([*enumerate(messages)]):
        text = (truncate_middle if place in last else tail_of)(message.text, room)
        if text:
            newest.append(Message(message.role, text))
        room -= len(text)
        if len(text) < len(message.text) or room <= 0:
            break
    return reversed(newest)


def _take_newest_lines(injected: Sequence[str]) -> tuple[str, ...]:
    """Return the newest lines within the limits, without duplicates, newest last."""
    lines: dict[str, None] = {}
    room = LONGEST_INJECTED
    for line in reversed(injected):
        if line in lines:
            continue
        room -= len(line)
        if room < 0 or len(lines) >= MOST_INJECTED:
            break
        lines[line] = None
    return tuple(reversed(lines))


_FIELDS = tuple(field.name for field in fields(Exchange) if field.name not in ("messages", "reach", "held"))
_LABELS = frozenset({"source", "project", "context", "client", "session", "turn", "agent"})
_INSTRUCTING = ("system", "developer")  # roles of texts that instruct the agent
_GAP = re.compile(r"\n(?:[ \t]*\n)+")
