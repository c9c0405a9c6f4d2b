"""Cleanups: archive and restore memories by a rule, in one changeset that can be undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cofio.ingest.sanitize import redact
from cofio.ingest.writer import Writer, check_author
from cofio.models.maintenance import CleanupPlan
from cofio.models.memory import Decision, Delete, Restore, to_plain


def clean_up(
    writer: Writer, decide: Callable[[], Sequence[Delete | Restore]], *, dry_run: bool, by: str, why: str
) -> CleanupPlan:
    """Apply the decisions with the domain knowledge read from their memories; a dry run only returns them."""
    check_author(by, why)
    decisions = decide()
    texts = {memory.id: redact(memory.text) for memory in writer.access.store.get([entry.id for entry in decisions])}
    rows = tuple({**to_plain(entry), "text": texts[entry.id]} for entry in decisions)
    if dry_run or not decisions:
        return CleanupPlan(dry_run=dry_run, decisions=rows)

    def decide_with_rows() -> list[Decision]:
        current = decide()
        return [*current, *writer.removed_rows(current), *writer.restored_rows(current)]

    changeset = writer.decide_and_apply(decide_with_rows, by=by, why=why)
    return CleanupPlan(dry_run=False, decisions=rows, changeset=changeset.id)
