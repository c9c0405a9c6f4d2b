"""Partial JSON parsing without the `json` module, whose import costs nine milliseconds.

The fast path only searches bytes. A key is followed by a colon, and a quotation mark inside a string is escaped, so
text in a prompt is not mistaken for a key. Full parsing uses the C scanner behind `json` directly.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cofio.hooks.client_events import Kind

_SPACE = b" \t\r\n"
_FAR = 8_192  # bytes searched for a value
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_NAME = 64

CLIENTS = ("claude-code", "codex", "cursor", "openclaw")
#: Kind of an event by the client's name for it. Cursor's own `stop` is left out: it has no text.
KINDS: dict[str, Kind] = {
    "SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "stop", "StopFailure": "failure",
    "PreCompact": "compact", "PostCompact": "summary", "SessionEnd": "end", "notify": "stop",
    "sessionStart": "start", "beforeSubmitPrompt": "prompt", "afterAgentResponse": "stop",
    "preCompact": "compact", "sessionEnd": "end",
    "session_start": "start", "before_prompt_build": "prompt", "agent_end": "stop",
    "before_compaction": "compact", "session_end": "end",
}  # fmt: skip


def event(raw: bytes) -> str:
    """Return the client's name of the event; "" if it is not found."""
    for key in ("hook_event_name", "hookEventName", "event"):
        if (name := text(raw, key)) and len(name) <= _LONGEST_NAME and _LETTERS.issuperset(name):
            return name
    return "notify" if text(raw, "type") == "agent-turn-complete" else ""


def text(raw: bytes, key: str) -> str:
    """Return the text under this key; "" if it is missing or too long."""
    name = b'"' + key.encode() + b'"'
    place = raw.find(name)
    while place >= 0:
        rest = raw[place + len(name) : place + len(name) + _FAR].lstrip(_SPACE)
        value = rest[1:].lstrip(_SPACE)
        if rest.startswith(b":") and value.startswith(b'"'):
            content, closed, _ = value[1:].partition(b'"')
            if b"\\" not in content:
                return content.decode("utf-8", "replace") if closed else ""
            try:
                from _json import scanstring

                return str(scanstring(value[1:].decode("utf-8", "replace"), 0)[0])
            except (ImportError, *_NONE):
                return ""
        place = raw.find(name, place + len(name))
    return ""


#: Errors of the scanner for invalid JSON; SystemError if `json`, which defines the right error, is not loaded.
_NONE = (ValueError, StopIteration, RecursionError, SystemError)


class _JsonOptions:
    """Parser options as in `json.loads`. Only `lax` accepts NaN, infinities and line breaks in strings."""

    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, *, lax: bool) -> None:
        self.strict = not lax
        self.parse_constant = float if lax else int  # int("NaN") raises ValueError
        self.memo: dict[str, str] = {}


def parse_object(raw: bytes, *, lax: bool = False) -> dict[str, object] | None:
    """Return the JSON object in these bytes; None for anything else."""
    options = _JsonOptions(lax=lax)
    value: object
    try:
        content = raw.decode("utf-8", "replace" if lax else "strict").strip()
        try:
            from _json import make_scanner
        except ImportError:  # not CPython
            import json

            value = json.loads(content, strict=options.strict, parse_constant=options.parse_constant)
            end = len(content)
        else:
            value, end = make_scanner(options)(content, 0)  # type: ignore[arg-type]
    except _NONE:
        return None
    return value if end == len(content) and isinstance(value, dict) else None
