"""Reply to a hook in the format of each client, and the check of a reply before the agent receives it.

On the fast path: no imports.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TAG = "cofio-memory"  # of the context block
_OPENING, _ENDING = f"<{TAG}>\n", f"\n</{TAG}>"


def format_reply(client: str, kind: str, name: str, context: str) -> dict[str, object]:
    """Return the reply with this context to an event: its kind, and the client's name of it."""
    if client == "cursor":
        return {**({"continue": True} if kind == "prompt" else {}), "additional_context": context}
    if client == "openclaw":
        return {"context": context}
    # Codex rejects an object with any unknown key.
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}


def is_own_reply(fields: Mapping[str, object], client: str, kind: str, name: str) -> bool:
    """Return whether the reply consists of one context block of cofio and nothing else."""
    nested = fields.get("hookSpecificOutput")
    values = nested if isinstance(nested, dict) else fields
    contexts = (values.get(key) for key in ("additionalContext", "additional_context", "context"))
    context = next((text for text in contexts if isinstance(text, str)), "")
    is_block = context.startswith(_OPENING) and context.endswith(_ENDING)
    if not is_block or context.count(f"<{TAG}") != 1 or context.count(f"</{TAG}") != 1:
        return False
    # Cursor also runs the hooks of Claude Code's settings.
    return any(fields == format_reply(reader, kind, name, context) for reader in (client, "cursor"))
