"""History: the changes of memories, and undo."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from cofio.errors import CofioError, Conflict
from cofio.ingest.writer import Writer
from cofio.maintenance.cleanup import clean_up
from cofio.maintenance.learned_undo import decide_undo
from cofio.models.exchange import Item
from cofio.models.maintenance import BACKFILL, CleanupPlan
from cofio.models.memory import (
    MAX_LABEL,
    MAX_PAGE,
    Change,
    Changeset,
    Doc,
    Occurrence,
    Scope,
    Timestamp,
    check_int,
    to_utc_iso,
)


class HistoryService:
    """Reads and reverts the changes that one caller may see."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._store = writer.access.store

    def history(self, memory_id: int) -> list[Change]:
        """Return every change of a memory and of those merged with it, oldest first."""
        return self._store.history(check_int(memory_id, "id"))

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        """Return every sighting (who stated it, where and when), including those of merged memories."""
        return self._store.occurrences(self._writer.access.get_memory(memory_id).id)

    def learned_from(self, memory_id: int) -> Item | None:
        """Return the capture that the memory was learned from; None if it has none or its text is forgotten."""
        changes = self._store.history(self._writer.access.get_memory(memory_id).id)
        first = next(change for change in changes if change.memory_id == memory_id)
        return self._store.inbox.settled_by(first.changeset)

    def changes(self, *, limit: int = 20) -> list[Changeset]:
        """Return the newest changesets."""
        return self._store.changesets(check_int(limit, "limit", least=1, most=MAX_PAGE))

    def changeset(self, changeset_id: int) -> Changeset:
        """Return one changeset with all its changes."""
        return self._store.changeset(check_int(changeset_id, "changeset"))

    def undo(self, changeset_id: int, *, by: str = "library", why: str = "") -> Changeset:
        """Revert a whole changeset by a new changeset, which can be undone in turn.

        Undoing the first changeset of a series, such as an import, undoes the whole series, newest first; the undo is a
        series too. If a conflict stops it, the parts undone so far stay undone, and calling it again continues. In a
        backfill, turns with memories changed since are skipped.
        """
        parts = self._store.snapshots.parts(check_int(changeset_id, "changeset"))
        if len(parts) < 2:
            reversal = self._undo_one(self.changeset(changeset_id), None, by, why)
        else:
            reversal = self._undo_series(parts, by, why)
        with suppress(CofioError):  # the undo holds; missing vectors are embedded when the model is back
            self._writer.embed_again([change.memory_id for change in reversal.changes])
        return reversal

    def undo_learned(
        self,
        *,
        source: Annotated[str, Doc("Source, as client/project; includes the sources below it.")] = "",
        session: Annotated[str, Doc("Only what was learned in this session.")] = "",
        since: Annotated[Timestamp, Doc("Only what was learned at this time or later.")] = "",
        dry_run: bool = True,
        by: str = "library",
        why: str = "",
    ) -> CleanupPlan:
        """Undo everything learned from a source, or in a session, in one changeset; a dry run only previews.

        Its memories are archived, and memories that they replaced, merged or ended are restored. Sources below the
        given one are included. The changeset can be undone in turn.
        """
        scope = Scope(source_prefix=source, session=session, since=to_utc_iso(since) if since else "")
        reason = why or f"undo what was learned from {source or session}"[:MAX_LABEL]
        return clean_up(self._writer, lambda: decide_undo(self._store, scope), dry_run=dry_run, by=by, why=reason)

    def _undo_one(self, changeset: Changeset, part_of: int | None, by: str, why: str) -> Changeset:
        self._refuse_undone(changeset)
        if not changeset.changes and not changeset.knowledge:
            raise Conflict(f"Changeset {changeset.id} changed nothing.", "There is nothing to undo.")
        return self._writer.revert(changeset, by=by, why=why or f"undo {changeset.id}", part_of=part_of)

    def _undo_series(self, parts: Sequence[int], by: str, why: str) -> Changeset:
        """Return the first changeset that undid a part. Parts undone by an earlier attempt are in the same series."""
        head: int | None = None
        fresh = False
        is_backfill = self.changeset(parts[0]).why == BACKFILL
        for number, changeset_id in enumerate(reversed(parts)):
            part = self.changeset(changeset_id)
            if part.undone_by and not (earlier := self.changeset(part.undone_by)).undone_by:
                head = head or earlier.part_of or earlier.id
                continue
            if not part.changes and not part.knowledge:
                continue
            try:
                reversal = self._undo_one(part, head, by, why or f"undo {parts[0]}")
            except Conflict as error:
                if is_backfill:
                    continue
                so_far = f"{number} of the {len(parts)} changesets are undone. {error.message}"
                raise Conflict(so_far, f"{error.hint} Then undo {parts[0]} again: it continues from here.") from error
            head, fresh = head or reversal.id, True
        if not fresh:
            self._refuse_undone(self.changeset(parts[1] if is_backfill else parts[0]))
            if head is None:
                raise Conflict(
                    f"Changeset {parts[0]} cannot be undone: each of its memories was changed later.",
                    "`cofio history` lists the later changesets; undo those first.",
                )
        return self.changeset(head or parts[0])

    def _refuse_undone(self, changeset: Changeset) -> None:
        """Raise Conflict if it was undone, with its current state and the changeset to undo instead."""
        last, is_undone = changeset, False
        while last.undone_by:
            last, is_undone = self.changeset(last.undone_by), not is_undone
        if last is changeset:
            return
        number = last.part_of or last.id
        if is_undone:
            hint = f"To apply it again, undo changeset {number}."
            raise Conflict(f"Changeset {changeset.id} is undone already.", hint)
        hint = f"To undo it now, undo changeset {number}, which applied it again."
        raise Conflict(f"Changeset {changeset.id} was undone before, and then applied again.", hint)
