"""Bulk changes: one action on many memories, as one decision per memory.

memories ─ decide ─▶ [Decision], one for each that the action changes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cofio.errors import Conflict, InvalidInput
from cofio.models.memory import Decision, Delete, Edit, Memory, Restore, apply_edit

Action = Literal["archive", "restore", "pin", "unpin", "edit", "tag", "untag"]

ACTIONS: tuple[Action, ...] = Action.__args__  # type: ignore[attr-defined]
MOST = 1_000  # memories in one changeset


def decide(
    memories: Sequence[Memory], action: str, changes: Mapping[str, Any], tags: Sequence[str], why: str
) -> list[Decision]:
    """Return one decision per memory that the action changes. Raise Conflict if it changes none."""
    _check(action, changes, tags)
    if action == "archive":
        decisions: list[Decision] = [Delete(memory.id, why) for memory in memories if not memory.archived]
    elif action == "restore":
        decisions = [Restore(memory.id, why) for memory in memories if memory.archived]
    else:
        edits = ((memory, _build_fields(memory, action, changes, tags)) for memory in memories)
        decisions = [Edit(memory.id, fields, why) for memory, fields in edits if apply_edit(memory, fields) != memory]
    if not decisions:
        raise Conflict(
            f"The action {action} changes none of these memories.", "All of them already have the requested state."
        )
    return decisions


def _check(action: str, changes: Mapping[str, Any], tags: Sequence[str]) -> None:
    if action not in ACTIONS:
        raise InvalidInput(f"There is no action {action!r}.", f"Give one of: {', '.join(ACTIONS)}.")
    if bool(changes) != (action == "edit"):
        raise InvalidInput(
            "`changes` belongs to the action edit only.", "Give `changes` with edit, and omit it with other actions."
        )
    if isinstance(tags, str):
        raise InvalidInput("tags must be a list of texts, not one text.", 'Write ["name"] for one tag.')
    if bool(tags) != (action in ("tag", "untag")):
        raise InvalidInput(
            "`tags` belongs to the actions tag and untag only.",
            "Give at least one tag with these actions, and omit `tags` with others.",
        )
    if "text" in changes:
        raise InvalidInput(
            "The text of several memories cannot be changed at once.", "Change the text of one memory at a time."
        )


def _build_fields(memory: Memory, action: str, changes: Mapping[str, Any], tags: Sequence[str]) -> Mapping[str, Any]:
    match action:
        case "pin" | "unpin":
            return {"pinned": action == "pin"}
        case "tag":
            return {"tags": [*memory.tags, *tags]}
        case "untag":
            gone = [str(tag).strip() for tag in tags]  # normalised as they are stored
            return {"tags": [tag for tag in memory.tags if tag not in gone]}
    return changes
