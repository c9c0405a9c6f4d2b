"""Parsing of deliveries into messages: a text, or a list of role-tagged items in any of the common formats.

    "User: …\\nAssistant: …" | [{"role", "content"}] | lines of a transcript ─▶ [RawMessage]

A malformed item is skipped and does not affect the others. If no item is a message, InvalidInput is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cofio.errors import InvalidInput
from cofio.models.exchange import Message
from cofio.models.memory import json_type
from cofio.text import lazy_re


class RawMessage(NamedTuple):
    """Message with its role, and its texts as the client divided them."""

    role: str
    texts: tuple[str, ...]


def read_messages(messages: str | Sequence[Mapping[str, Any]], *, speaker: str = "user") -> list[RawMessage]:
    """Return the messages of any role with their texts; other content is left out.

    `speaker` is the role of a text without role names. Raise InvalidInput if `messages` is neither a text nor a list,
    or a list without any message.
    """
    if isinstance(messages, str):
        return _split_conversation(messages, speaker)
    if not isinstance(messages, list | tuple):
        raise InvalidInput(f"messages must be a list of messages or a text, not {json_type(messages)}.", _HINT)
    raw_messages = [part for item in messages for part in _read_item(item)]
    if messages and not raw_messages and not any(map(_is_message, messages)):
        raise InvalidInput("messages contains no message.", _HINT)
    return raw_messages


def _read_item(item: Any) -> Iterator[RawMessage]:
    """Yield the message in an item, if it is one."""
    role, content = _open_item(item)
    texts = tuple(_read_texts(content))
    if role and texts:
        yield RawMessage(role, texts)


def _is_message(item: Any) -> bool:
    """Return whether an item is a message (even of a tool or without text) or another transcript line."""
    if not isinstance(item, Mapping):
        return isinstance(item, Message)
    if isinstance(item.get("type"), str):
        return True
    content = item.get("content", item.get("text", item.get("tool_calls", 0)))
    return isinstance(item.get("role"), str) and (content is None or isinstance(content, str | list | tuple | Mapping))


def _open_item(item: Any) -> tuple[str, Any]:
    """Return role and content of an item; "" as role if it is not a message of the user or the assistant."""
    if isinstance(item, Message):
        return _normalize_role(item.role), item.text
    if not isinstance(item, Mapping) or any(item.get(mark) is True for mark in _ASIDE):
        return "", None
    inner = item.get("message", item.get("payload"))
    if isinstance(inner, Mapping):  # a line of a transcript
        return _normalize_role(inner.get("role") or item.get("type")), inner.get("content")
    content, role = item.get("content"), item.get("role", "")
    if role == "":
        kind = item.get("type", "message")
        role = "user" if kind in ("message", *_TEXT_BLOCKS) else kind
    return _normalize_role(role), item.get("text") if content is None else content


def _normalize_role(value: Any) -> str:
    role = value.strip().lower() if isinstance(value, str) else ""
    return _ROLES.get(role, role)


def _read_texts(content: Any) -> Iterator[str]:
    for block in content if isinstance(content, list | tuple) else [content]:
        if isinstance(block, Mapping) and block.get("type", "text") in _TEXT_BLOCKS:
            block = block.get("text")
        if isinstance(block, str):
            yield make_storable(block)


def _split_conversation(text: str, speaker: str = "user") -> list[RawMessage]:
    """Return a text as messages, split at role names at line starts.

    A text that does not begin with a role name is the speaker's: a conversation within it is quoted.
    """
    text = make_storable(text)
    marks = list(_MARK.finditer(text)) if ":" in text else []
    if not marks or text[: marks[0].start()].strip():
        return [RawMessage(speaker, (text,))]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [(_ROLES[mark[1].lower()], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    return [RawMessage(role, (part,)) for role, part in parts if part.strip()]


def make_storable(text: str) -> str:
    """Return the text with line feeds as line ends, without NUL characters and unpaired surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\x00", "") if text.isascii() else _UNSTORABLE.sub("", text)


_HINT = 'Give a text, or a list of {"role": "user" | "assistant", "content": "…"}.'
#: Marks of transcript lines that are not part of the conversation between user and assistant.
_ASIDE = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
_TEXT_BLOCKS = ("text", "input_text", "output_text")
_ROLES = dict.fromkeys(("human", "you", "user"), "user") | dict.fromkeys(("ai", "model", "assistant"), "assistant")
_MARK = lazy_re.compile(
    r"^[ \t]*(?:#{1,4}[ \t]*)?\**(user|human|you|assistant|ai)\**[ \t]*:\**[ \t]*", re.IGNORECASE | re.MULTILINE
)
_UNSTORABLE = lazy_re.compile("[\x00\ud800-\udfff]")
