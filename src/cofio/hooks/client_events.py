"""The clients' hook JSON: input parsed into one Event type, replies written in each client's format.

These interfaces change between versions: every field is optional, unknown fields are ignored, and replies contain only
documented keys. An event without consequences has the kind "other".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cofio.errors import InvalidInput
from cofio.hooks import json_peek, reply_format

Kind = Literal["start", "prompt", "stop", "failure", "compact", "summary", "end", "other"]

CLIENTS = json_peek.CLIENTS
#: Events whose reply may inject context. Output at any other event would keep the agent running, or be an error.
INJECTS: tuple[Kind, ...] = ("start", "prompt")
#: Session starts after which earlier injected context is no longer in the agent's context window.
ANEW = ("clear", "compact")
_LONGEST_NAME = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a client, in terms common to all clients."""

    client: str
    kind: Kind
    name: str = ""  # the client's own name for it
    session: str = ""
    turn: str = ""
    cwd: str = ""
    began: str = ""  # of a start: startup, resume, clear, compact, fork
    prompt: str = ""
    reply: str = ""  # of a stop: the agent's last message
    summary: str = ""  # the model's summary at a compaction
    transcript: str = ""  # path of the client's own transcript
    subagent: str = ""  # the subagent in which the event happened; no user speaks there


def event(client: str, raw: bytes) -> Event:
    """Return the event in a client's JSON. Raise InvalidInput for an unknown client or invalid JSON."""
    if client not in CLIENTS:
        raise InvalidInput(f"There is no client {client!r}.", f"Give one of: {', '.join(CLIENTS)}.")
    hint = "Pass the JSON that the client writes to the hook on unchanged."
    try:
        fields = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The hook input is not JSON.", hint) from error
    if not isinstance(fields, dict):
        raise InvalidInput("The hook input is not a JSON object.", hint)

    if client == "cursor" or "cursor_version" in fields:  # Cursor also runs the hooks of Claude Code's settings
        return _read_cursor(fields)
    if client == "openclaw":
        return _read_openclaw(fields)
    if client == "codex" and _read_text(fields, "type") == "agent-turn-complete":
        return _read_notified(fields)
    return _read_hooked(client, fields, "turn_id" if client == "codex" else "prompt_id")


def reply(happened: Event, context: str) -> bytes:
    """Return the reply for the client: one JSON object with the context, or nothing."""
    if not context or happened.subagent or happened.kind not in INJECTS:
        return b""
    fields = reply_format.format_reply(happened.client, happened.kind, happened.name, context)
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def _read_text(fields: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is text, without lone surrogates and NULs."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value.encode("utf-8", "ignore").decode().replace("\x00", "")
    return ""


def _read_name(fields: Mapping[str, Any], *names: str) -> str:
    """Return the name of a session or a turn as a label; the digest of a name that is too long."""
    name = _read_text(fields, *names).strip()
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def _read_hooked(client: str, fields: Mapping[str, Any], turn: str) -> Event:
    """Parse an event of Claude Code, or of Codex, which has the same format but another field for the turn."""
    name = _read_text(fields, "hook_event_name", "hookEventName")
    kind = json_peek.KINDS.get(name, "other")
    return Event(
        client=client,
        kind=kind,
        name=name,
        session=_read_name(fields, "session_id", "sessionId"),
        turn=_read_name(fields, turn),
        cwd=_read_text(fields, "cwd"),
        began=_read_text(fields, "source") if kind == "start" else "",
        prompt=_read_text(fields, "prompt") if kind == "prompt" else "",
        # the last message of a StopFailure is an error text, not the agent's words
        reply=_read_text(fields, "last_assistant_message") if kind == "stop" else "",
        summary=_read_text(fields, "compact_summary") if kind == "summary" else "",
        transcript=_read_text(fields, "transcript_path"),
        # the field exists only inside a subagent
        subagent=(_read_name(fields, "agent_id") or "unnamed") if "agent_id" in fields else "",
    )


def _read_notified(fields: Mapping[str, Any]) -> Event:
    """Parse Codex's `notify` call after a turn: last prompt and answer. It also repeats all earlier prompts."""
    messages = fields.get("input-messages")
    prompts = [message for message in messages if isinstance(message, str)] if isinstance(messages, list) else []
    return Event(
        client="codex",
        kind="stop",
        name="notify",
        session=_read_name(fields, "thread-id"),
        turn=_read_name(fields, "turn-id"),
        cwd=_read_text(fields, "cwd"),
        prompt=_read_text({"prompt": prompts[-1] if prompts else ""}, "prompt"),
        reply=_read_text(fields, "last-assistant-message"),
    )


def _read_cursor(fields: Mapping[str, Any]) -> Event:
    name = _read_text(fields, "hook_event_name")
    kind = json_peek.KINDS.get(name, "other")
    roots = fields.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return Event(
        client="cursor",
        kind=kind,
        name=name,
        session=_read_name(fields, "conversation_id", "session_id"),
        turn=_read_name(fields, "generation_id"),
        cwd=_read_text(fields, "cwd") or root,
        prompt=_read_text(fields, "prompt") if kind == "prompt" else "",
        reply=_read_text(fields, "text") if kind == "stop" else "",
        subagent="background" if fields.get("is_background_agent") else "",
    )


def _read_openclaw(fields: Mapping[str, Any]) -> Event:
    """Parse an event that cofio's own plugin sends."""
    name = _read_text(fields, "event")
    kind = json_peek.KINDS.get(name, "other")
    return Event(
        client="openclaw",
        kind=kind,
        name=name,
        session=_read_name(fields, "session"),
        turn=_read_name(fields, "turn"),
        cwd=_read_text(fields, "cwd"),
        # "clear": earlier context is gone by the next prompt
        began=_read_text(fields, "began") if kind == "start" else "",
        prompt=_read_text(fields, "prompt") if kind in ("prompt", "stop") else "",
        reply=_read_text(fields, "reply") if kind == "stop" else "",
    )
