"""The clients' own hook JSON: what came in, read as one Event; what goes back, as each client wants it.

These interfaces change between versions: every field is optional, what is not known is passed over, and the reply is
the least that is documented. An event of which nothing follows is of the kind "other".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cofio.errors import InvalidInput
from cofio.hooks import glance

Kind = Literal["start", "prompt", "stop", "failure", "compact", "summary", "end", "other"]

CLIENTS = glance.CLIENTS
#: What a reply may put before the agent. Anything printed at another event would keep it going, or be an error.
INJECTS: tuple[Kind, ...] = ("start", "prompt")
#: Starts after which nothing of what was given is before the agent any more.
ANEW = ("clear", "compact")
_LONGEST_NAME = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened in a client, in words that all of them share."""

    client: str
    kind: Kind
    name: str = ""  # as the client calls it
    session: str = ""
    turn: str = ""
    cwd: str = ""
    began: str = ""  # of a start: startup, resume, clear, compact, fork
    prompt: str = ""
    reply: str = ""  # of a stop: what the agent said last
    summary: str = ""  # written by the model when it compacted the conversation
    transcript: str = ""  # the path of the client's own record
    subagent: str = ""  # the agent that an agent started, if it happened in there: nobody speaks there


def event(client: str, raw: bytes) -> Event:
    """The event in a client's JSON. InvalidInput when it is none, or the client is not known."""
    if client not in CLIENTS:
        raise InvalidInput(f"There is no client {client!r}.", f"There are: {', '.join(CLIENTS)}.")
    told = _object(raw)
    if "cursor_version" in told:
        client = "cursor"  # it runs the hooks of Claude Code's settings too, with its own JSON
    return _READERS[client](told)


def reply(happened: Event, context: str) -> bytes:
    """What the client is to be told: one JSON object with the context in it, or nothing at all."""
    if not context or happened.subagent or happened.kind not in INJECTS:
        return b""
    return json.dumps(_WRITERS[happened.client](happened, context), ensure_ascii=False).encode("utf-8", "replace")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        told = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("What the client sent is not JSON.", "Send the hook's input as it came.") from error
    if not isinstance(told, dict):
        raise InvalidInput("What the client sent is no JSON object.", "Send the hook's input as it came.")
    return told


def _text(told: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is a text; lone halves of surrogate pairs and NULs are left out."""
    for name in names:
        value = told.get(name)
        if isinstance(value, str) and value:
            return value.encode("utf-8", "ignore").decode().replace("\x00", "")
    return ""


def _name(told: Mapping[str, Any], *names: str) -> str:
    """A session's or a turn's name, short enough to be a label; of a longer one its digest."""
    name = _text(told, *names).strip()
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────────────────────────

_CLAUDE: Mapping[str, Kind] = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "Stop": "stop",
    "StopFailure": "failure",  # its last message is an error's text, nothing that the agent said
    "PreCompact": "compact",
    "PostCompact": "summary",
    "SessionEnd": "end",
}


def _claude(told: Mapping[str, Any]) -> Event:
    return _hooked("claude-code", told, "prompt_id")


def _hooked(client: str, told: Mapping[str, Any], turn: str) -> Event:
    """What Claude Code tells, and Codex after it; they differ in the field that names a turn."""
    name = _text(told, "hook_event_name", "hookEventName")
    kind = _CLAUDE.get(name, "other")
    return Event(
        client=client,
        kind=kind,
        name=name,
        session=_name(told, "session_id", "sessionId"),
        turn=_name(told, turn),
        cwd=_text(told, "cwd"),
        began=_text(told, "source") if kind == "start" else "",
        prompt=_text(told, "prompt") if kind == "prompt" else "",
        reply=_text(told, "last_assistant_message") if kind == "stop" else "",
        summary=_text(told, "compact_summary") if kind == "summary" else "",
        transcript=_text(told, "transcript_path"),
        subagent=_inside(told),
    )


def _inside(told: Mapping[str, Any]) -> str:
    """The subagent that it happened in; the field is there in one alone."""
    return (_name(told, "agent_id") or "unnamed") if "agent_id" in told else ""


def _specific(happened: Event, context: str) -> dict[str, Any]:
    """Claude Code's and Codex's shape. Codex refuses the whole object for a key that it does not know."""
    return {"hookSpecificOutput": {"hookEventName": happened.name, "additionalContext": context}}


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _codex(told: Mapping[str, Any]) -> Event:
    return _notified(told) if _text(told, "type") == "agent-turn-complete" else _hooked("codex", told, "turn_id")


def _notified(told: Mapping[str, Any]) -> Event:
    """What `notify` tells after a turn: its prompt and its last answer. It tells all the earlier prompts again too."""
    said = told.get("input-messages")
    prompts = [each for each in said if isinstance(each, str)] if isinstance(said, list) else []
    return Event(
        client="codex",
        kind="stop",
        name="notify",
        session=_name(told, "thread-id"),
        turn=_name(told, "turn-id"),
        cwd=_text(told, "cwd"),
        prompt=_text({"prompt": prompts[-1] if prompts else ""}, "prompt"),
        reply=_text(told, "last-assistant-message"),
    )


# ── Cursor ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_CURSOR: Mapping[str, Kind] = {
    "sessionStart": "start",
    "beforeSubmitPrompt": "prompt",
    "afterAgentResponse": "stop",  # `stop` itself brings no text
    "preCompact": "compact",
    "sessionEnd": "end",
}


def _cursor(told: Mapping[str, Any]) -> Event:
    name = _text(told, "hook_event_name")
    kind = _CURSOR.get(name, "other")
    roots = told.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return Event(
        client="cursor",
        kind=kind,
        name=name,
        session=_name(told, "conversation_id", "session_id"),
        turn=_name(told, "generation_id"),
        cwd=_text(told, "cwd") or root,
        prompt=_text(told, "prompt") if kind == "prompt" else "",
        reply=_text(told, "text") if kind == "stop" else "",
        subagent="background" if told.get("is_background_agent") else "",
    )


def _additional(happened: Event, context: str) -> dict[str, Any]:
    going_on = {"continue": True} if happened.kind == "prompt" else {}
    return {**going_on, "additional_context": context}


# ── OpenClaw: our own plugin sends this ───────────────────────────────────────────────────────────────────────────────

_OPENCLAW: Mapping[str, Kind] = {
    "session_start": "start",
    "before_prompt_build": "prompt",
    "agent_end": "stop",
    "before_compaction": "compact",
    "session_end": "end",
}


def _openclaw(told: Mapping[str, Any]) -> Event:
    name = _text(told, "event")
    kind = _OPENCLAW.get(name, "other")
    return Event(
        client="openclaw",
        kind=kind,
        name=name,
        session=_name(told, "session"),
        turn=_name(told, "turn"),
        cwd=_text(told, "cwd"),
        began=_text(told, "began") if kind == "start" else "",  # "clear": what was given is gone by the next prompt
        prompt=_text(told, "prompt") if kind in ("prompt", "stop") else "",
        reply=_text(told, "reply") if kind == "stop" else "",
    )


def _plain(_happened: Event, context: str) -> dict[str, Any]:
    return {"context": context}


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Event]] = {
    "claude-code": _claude,
    "codex": _codex,
    "cursor": _cursor,
    "openclaw": _openclaw,
}
_WRITERS: Mapping[str, Callable[[Event, str], dict[str, Any]]] = {
    "claude-code": _specific,
    "codex": _specific,
    "cursor": _additional,
    "openclaw": _plain,
}
