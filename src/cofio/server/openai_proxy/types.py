"""Chat completions in OpenAI's format: requests enriched with memories, and answers assembled from a stream.

    request ─ enriched ─▶ request          reply, whole or streamed ─▶ ChatReply ─▶ captured text

Bytes of a request that need no change stay as sent, unknown fields included. Unknown formats are passed on unchanged:
the upstream may understand them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw

from cofio.errors import InvalidInput
from cofio.text import lazy_re

MAX_CHARACTERS = 1 << 20  # of an assembled reply; more than is ever learned from
_TOOL_CALL = ("tool_calls", "function_call")
_COMPLETE = ("stop", *_TOOL_CALL)  # finish reasons of a complete reply
_TEXT_PARTS = ("text", "input_text", "output_text")
_SENTENCE_END = lazy_re.compile(r"[.!?…](?=[\s\"')\]*_]|$)[\"')\]*_]*|\n")
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ChatRequest:
    """Chat completion request of a client."""

    def __init__(self, body: bytes) -> None:
        try:
            self._fields = msgspec.json.decode(body, type=dict[str, Raw])
        except _DECODE_ERRORS as error:
            hint = "Send a chat completion in OpenAI's format."
            raise InvalidInput("The body is not a JSON object.", hint) from error
        self._body = body
        self._messages: list[Raw] = _read(self._fields.get("messages"), list[Raw]) or []
        self._decoded = [_read(message, dict[str, Any]) or {} for message in self._messages]

    @property
    def model(self) -> str:
        """Requested model, "" if none is named."""
        return _read(self._fields.get("model"), str) or ""

    @property
    def question(self) -> str:
        """Text of the last user message."""
        places = self._find_user()
        return text_of(self._decoded[places[-1]].get("content")) if places else ""

    @property
    def session(self) -> str:
        """Session named in the request's metadata, "" if none is."""
        metadata = _read(self._fields.get("metadata"), dict[str, Any]) or {}
        values = (metadata.get(name) for name in ("session", "session_id"))
        return next((value for value in values if isinstance(value, str) and value), "")

    @property
    def conversation(self) -> str:
        """Name for the conversation: a digest of its beginning, up to the first user message."""
        places = self._find_user() or [0]
        return digest(*self._messages[: places[0] + 1])

    @property
    def turn(self) -> str:
        """Name for the turn: a digest of everything up to the last user message.

        The same request sent again is the same turn, and so is the continuation after a tool result.
        """
        places = self._find_user() or [-1]
        return digest(*self._messages[: places[-1] + 1])

    def enriched(self, context: str) -> bytes:
        """Return the request with the context at the start of its last user message; "" changes nothing.

        Memories are data of the user, so they never become part of the system message.
        """
        places = self._find_user()
        if not context.strip() or not places:
            return self._body
        place = places[-1]
        messages = list(self._messages)
        content = _prepend_context(self._decoded[place].get("content"), context.strip())
        if content is None:
            messages.insert(place, Raw(msgspec.json.encode({"role": "user", "content": context.strip()})))
        else:
            fields = _read(messages[place], dict[str, Raw])
            messages[place] = Raw(msgspec.json.encode({**fields, "content": content}))
        return msgspec.json.encode({**self._fields, "messages": messages})

    def _find_user(self) -> list[int]:
        """Return the places of the user's messages."""
        return [place for place, message in enumerate(self._decoded) if message.get("role") == "user"]


class ChatReply:
    """Reply of a model, assembled from passing chunks. Of several choices, the first one."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.finish_reason = ""  # "" until the reply ends

    def add_body(self, body: bytes) -> None:
        """Add a reply that is not streamed."""
        self._add_choices(_read(body, dict[str, Any]), "message")

    def add_line(self, line: bytes) -> None:
        """Add a line of a server-sent event stream. Lines without choices are ignored."""
        if line.startswith(b"data:"):
            self._add_choices(_read(line[5:].strip(), dict[str, Any]), "delta")

    @property
    def is_tool_call(self) -> bool:
        """Return whether it ends in a tool call: the turn continues with the tool results."""
        return self.finish_reason in _TOOL_CALL

    @property
    def text(self) -> str:
        """Text. An interrupted one is cut at its last sentence end: half a sentence may mean the opposite."""
        text = "".join(self._parts)
        if self.finish_reason in _COMPLETE:
            return text.strip()
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        return text[: ends[-1]].strip() if ends else ""

    def _add_choices(self, chunk: Mapping[str, Any] | None, name: str) -> None:
        choices = (chunk or {}).get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                continue
            message = choice.get(name)
            text = text_of(message.get("content")) if isinstance(message, dict) else ""
            if self._length < MAX_CHARACTERS:
                self._parts.append(text)
                self._length += len(text)
            self.finish_reason = str(choice.get("finish_reason") or self.finish_reason)


def text_of(content: Any) -> str:
    """Return the text of a message's content, a string or parts; "" if it has no text, such as an image."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if part.get("type") in _TEXT_PARTS)
    return "\n\n".join(text for text in texts if isinstance(text, str))


def digest(*parts: bytes | Raw | str) -> str:
    """Return a short digest of messages."""
    hasher = blake2b(digest_size=12)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else bytes(part)
        hasher.update(len(raw).to_bytes(8, "big") + raw)
    return hasher.hexdigest()


def _prepend_context(content: Any, context: str) -> Any:
    """Return the content of a message with the context at its start; None if the format is unknown."""
    if isinstance(content, str):
        return f"{context}\n\n{content}"
    return [{"type": "text", "text": context}, *content] if isinstance(content, list) else None


def _read(raw: Raw | bytes | None, kind: Any) -> Any:
    """Return the parsed value; None if it is not of the expected type."""
    try:
        return None if raw is None else msgspec.json.decode(raw, type=kind)
    except _DECODE_ERRORS:
        return None
