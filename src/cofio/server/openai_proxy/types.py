"""Chat completions in OpenAI's format: requests enriched with memories, and answers assembled from a stream.

    request ─ enriched ─▶ request          answer, whole or streamed ─▶ Answer ─▶ captured text

Bytes of a request that need no change stay as sent, unknown fields included. Unknown formats are passed on unchanged:
the upstream may understand them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw

from cofio.errors import InvalidInput

LONGEST_ANSWER = 1 << 20  # characters assembled; more than is ever learned from
_SYSTEM = ("system", "developer")
_CALLING = ("tool_calls", "function_call")
_WHOLE = ("stop", *_CALLING)  # finish reasons of an answer that is complete
_TEXTS = ("text", "input_text", "output_text")
_SENTENCE_END = re.compile(r"[.!?…](?=[\s\"')\]*_]|$)[\"')\]*_]*|\n")
_TROUBLES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ChatRequest:
    """Chat completion request of a client."""

    def __init__(self, body: bytes) -> None:
        try:
            self._fields = msgspec.json.decode(body, type=dict[str, Raw])
        except _TROUBLES as error:
            hint = "Send a chat completion in OpenAI's format."
            raise InvalidInput("The body is not a JSON object.", hint) from error
        self._body = body
        self._messages: list[Raw] = _read(self._fields.get("messages"), list[Raw]) or []
        self._decoded = [_read_message(message) for message in self._messages]

    @property
    def model(self) -> str:
        """Requested model, "" if none is named."""
        return _read(self._fields.get("model"), str) or ""

    @property
    def question(self) -> str:
        """Text of the last user message."""
        place = self._last_of_user()
        return "" if place is None else text_of(self._decoded[place].get("content"))

    @property
    def session(self) -> str:
        """Session named in the request's metadata, "" if none is."""
        metadata = _read(self._fields.get("metadata"), dict[str, Any]) or {}
        values = (metadata.get(name) for name in ("session", "session_id"))
        return next((value for value in values if isinstance(value, str) and value), "")

    @property
    def conversation(self) -> str:
        """Name for the conversation: a digest of its beginning, up to the first user message."""
        first = next((place for place, message in enumerate(self._decoded) if message.get("role") == "user"), 0)
        return digest(*self._messages[: first + 1])

    @property
    def turn(self) -> str:
        """Name for the turn: a digest of everything up to the last user message.

        The same request sent again is the same turn, and so is the continuation after a tool result.
        """
        last = self._last_of_user()
        return digest(*self._messages[: 0 if last is None else last + 1])

    def enriched(self, context: str) -> bytes:
        """Return the request with the context appended to its system message, or added as one; unchanged without
        context.
        """
        if not context.strip() or not self._messages:
            return self._body
        place = next((at for at, message in enumerate(self._decoded) if message.get("role") in _SYSTEM), None)
        extended = (
            None
            if place is None
            else _append_context(self._messages[place], self._decoded[place].get("content"), context)
        )
        messages = list(self._messages)
        if place is None or extended is None:
            messages.insert(0, Raw(msgspec.json.encode({"role": "system", "content": context.strip()})))
        else:
            messages[place] = Raw(extended)
        return msgspec.json.encode({**self._fields, "messages": messages})

    def _last_of_user(self) -> int | None:
        places = (place for place in reversed(range(len(self._decoded))) if self._decoded[place].get("role") == "user")
        return next(places, None)


class ChatReply:
    """Model answer assembled from passing chunks. Of several choices, the first one."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.ended = ""  # the finish reason; "" until the answer ends

    def take_whole(self, body: bytes) -> None:
        """Parse an answer that is not streamed."""
        self._take_choices(_read(body, dict[str, Any]), "message")

    def take_line(self, line: bytes) -> None:
        """Parse a line of a server-sent event stream. Lines without answer data are ignored."""
        if line.startswith(b"data:"):
            self._take_choices(_read(line[5:].strip(), dict[str, Any]), "delta")

    @property
    def calls(self) -> bool:
        """Return whether it ends in a tool call: the turn continues with the tool results."""
        return self.ended in _CALLING

    @property
    def said(self) -> str:
        """Text of the answer. An interrupted one is cut at its last sentence end: half a sentence may mean the
        opposite.
        """
        text = "".join(self._parts)
        if self.ended in _WHOLE:
            return text.strip()
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        return text[: ends[-1]].strip() if ends else ""

    def _take_choices(self, chunk: Mapping[str, Any] | None, name: str) -> None:
        choices = (chunk or {}).get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._take(choice.get(name))
                self.ended = str(choice.get("finish_reason") or self.ended)

    def _take(self, message: Any) -> None:
        text = text_of(message.get("content")) if isinstance(message, dict) else ""
        if text and self._length < LONGEST_ANSWER:
            self._parts.append(text)
            self._length += len(text)


def text_of(content: Any) -> str:
    """Return the text of a message's content, a string or parts; "" if it has no text, such as an image."""
    return content if isinstance(content, str) else "\n\n".join(_texts(content))


def digest(*parts: bytes | Raw | str) -> str:
    """Return a short digest of messages."""
    hasher = blake2b(digest_size=12)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else bytes(part)
        hasher.update(len(raw).to_bytes(8, "big") + raw)
    return hasher.hexdigest()


def _texts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in _TEXTS and isinstance(part.get("text"), str):
            yield part["text"]


def _read_message(raw: Raw) -> dict[str, Any]:
    return _read(raw, dict[str, Any]) or {}


def _append_context(message: Raw, content: Any, context: str) -> bytes | None:
    """Return the message with the context appended to its content; None if the format is unknown."""
    if isinstance(content, str):
        content = f"{content.rstrip()}{context}" if content.strip() else context.strip()
    elif isinstance(content, list):
        content = [*content, {"type": "text", "text": context.strip()}]
    else:
        return None
    return msgspec.json.encode({**(_read(message, dict[str, Raw]) or {}), "content": content})


def _read(raw: Raw | bytes | None, kind: Any) -> Any:
    """Return the parsed value; None if it is not of the expected type."""
    try:
        return None if raw is None else msgspec.json.decode(raw, type=kind)
    except _TROUBLES:
        return None
