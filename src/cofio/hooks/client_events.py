"""The clients' hook JSON: input parsed into one Event type, replies written in each client's format.

These interfaces change between versions: every field is optional, unknown fields are ignored, and replies contain only
documented keys. An event without consequences has the kind "other".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cofio.errors import InvalidInput
from cofio.hooks import json_peek

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
    fields = _parse_object(raw)
    if "cursor_version" in fields:
        client = "cursor"  # Cursor also runs the hooks of Claude Code's settings, with its own JSON
    return _READERS[client](fields)


def reply(happened: Event, context: str) -> bytes:
    """Return the reply for the client: one JSON object with the context, or nothing."""
    if not context or happened.subagent or happened.kind not in INJECTS:
        return b""
    return json.dumps(_WRITERS[happened.client](happened, context), ensure_ascii=False).encode("utf-8", "replace")


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            "The hook input is not JSON.", "Pass the JSON that the client writes to the hook on unchanged."
        ) from error
    if not isinstance(fields, dict):
        raise InvalidInput(
            "The hook input is not a JSON object.", "Pass the JSON that the client writes to the hook on unchanged."
        )
    return fields


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


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────────────────────────

_CLAUDE: Mapping[str, Kind] = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "Stop": "stop",
    "StopFailure": "failure",  # its last message is an error text, not the agent's words
    "PreCompact": "compact",
    "PostCompact": "summary",
    "SessionEnd": "end",
}


def _read_claude(fields: Mapping[str, Any]) -> Event:
    return _read_hooked("claude-code", fields, "prompt_id")


def _read_hooked(client: str, fields: Mapping[str, Any], turn: str) -> Event:
    """Parse an event of Claude Code, or of Codex, which has the same format but another field for the turn."""
    name = _read_text(fields, "hook_event_name", "hookEventName")
    kind = _CLAUDE.get(name, "other")
    return Event(
        client=client,
        kind=kind,
        name=name,
        session=_read_name(fields, "session_id", "sessionId"),
        turn=_read_name(fields, turn),
        cwd=_read_text(fields, "cwd"),
        began=_read_text(fields, "source") if kind == "start" else "",
        prompt=_read_text(fields, "prompt") if kind == "prompt" else "",
        reply=_read_text(fields, "last_assistant_message") if kind == "stop" else "",
        summary=_read_text(fields, "compact_summary") if kind == "summary" else "",
        transcript=_read_text(fields, "transcript_path"),
        subagent=_find_subagent(fields),
    )


def _find_subagent(fields: Mapping[str, Any]) -> str:
    """Return the subagent of the event. The field exists only inside a subagent."""
    return (_read_name(fields, "agent_id") or "unnamed") if "agent_id" in fields else ""


def _write_specific(happened: Event, context: str) -> dict[str, Any]:
    """Return the reply in the format of Claude Code and Codex. Codex rejects an object with any unknown key."""
    return {"hookSpecificOutput": {"hookEventName": happened.name, "additionalContext": context}}


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_codex(fields: Mapping[str, Any]) -> Event:
    return (
        _read_notified(fields)
        if _read_text(fields, "type") == "agent-turn-complete"
        else _read_hooked("codex", fields, "turn_id")
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


# ── Cursor ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_CURSOR: Mapping[str, Kind] = {
    "sessionStart": "start",
    "beforeSubmitPrompt": "prompt",
    "afterAgentResponse": "stop",  # `stop` itself has no text
    "preCompact": "compact",
    "sessionEnd": "end",
}


def _read_cursor(fields: Mapping[str, Any]) -> Event:
    name = _read_text(fields, "hook_event_name")
    kind = _CURSOR.get(name, "other")
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


def _write_additional(happened: Event, context: str) -> dict[str, Any]:
    going_on = {"continue": True} if happened.kind == "prompt" else {}
    return {**going_on, "additional_context": context}


# ── OpenClaw: sent by cofio's own plugin ──────────────────────────────────────────────────────────────────────────────

_OPENCLAW: Mapping[str, Kind] = {
    "session_start": "start",
    "before_prompt_build": "prompt",
    "agent_end": "stop",
    "before_compaction": "compact",
    "session_end": "end",
}


def _read_openclaw(fields: Mapping[str, Any]) -> Event:
    name = _read_text(fields, "event")
    kind = _OPENCLAW.get(name, "other")
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


def _write_plain(_happened: Event, context: str) -> dict[str, Any]:
    return {"context": context}


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Event]] = {
    "claude-code": _read_claude,
    "codex": _read_codex,
    "cursor": _read_cursor,
    "openclaw": _read_openclaw,
}
_WRITERS: Mapping[str, Callable[[Event, str], dict[str, Any]]] = {
    "claude-code": _write_specific,
    "codex": _write_specific,
    "cursor": _write_additional,
    "openclaw": _write_plain,
}
