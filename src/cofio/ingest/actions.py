"""Actions of a learning result: what was done for each fact, or is planned in a dry run, in the API format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cofio.ingest.exchange_facts import NOT_WORTH_KEEPING
from cofio.models.exchange import FactOutcome
from cofio.models.memory import Add, Change, Delete, Noop, Update


def list_actions(outcome: FactOutcome, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    """Yield the actions done for a fact, or planned in a dry run, in the API format."""
    if outcome.reason == NOT_WORTH_KEEPING:
        return
    yield _build_action(outcome, changes[0] if changes else None)
    for deletion in outcome.also:
        fields = {"text": outcome.fact.text, "kind": outcome.fact.kind, "category": outcome.fact.category}
        yield {"action": "delete", **fields, "reason": deletion.reason, "old_id": deletion.id}


def _build_action(outcome: FactOutcome, change: Change | None) -> dict[str, Any]:
    """Return the action done, or planned in a dry run, in the API format."""
    decision, text = outcome.decision, outcome.fact.text
    fields: dict[str, Any] = {"text": text, "kind": outcome.fact.kind, "category": outcome.fact.category}
    fields["reason"] = outcome.reason or getattr(decision, "reason", "")
    match decision:
        case Add() if change is not None and change.action == "noop":  # another process was faster
            return {"action": "noop", **fields, "existing_id": change.memory_id}
        case Add():
            return {"action": "add", **fields, "id": change.memory_id if change else None}
        case Update():
            new_id = change.memory_id if change else None
            return {"action": "update", **fields, "text": decision.fact.text, "old_id": decision.id, "new_id": new_id}
        case Delete():
            return {"action": "delete", **fields, "old_id": decision.id}
        case Noop():
            return {"action": "noop", **fields, "existing_id": decision.id}
    if outcome.reason.startswith("error: "):
        return {"action": "error", **fields, "error": outcome.reason.removeprefix("error: ")}
    return {"action": "rejected", **fields}
