"""Commands on the history: history, undo."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cofio.cli import output
from cofio.cli.context import BY, CliContext, Memories, agreed, command
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.errors import Conflict
from cofio.models.knowledge import Knowledge, KnowledgeChange
from cofio.models.memory import Change, Changeset, Memory

_LOOK_BACK = (50, 1_000)  # changesets searched for the newest that can be undone
_CHANGES_SHOWN = 10
_SERIES = 1_000  # changesets searched for the parts of a series

_SUMMARY = 60  # characters shown of the first memory or row in a changeset


@command(
    "history",
    "cofio history                    # the newest changesets",
    "cofio history 12                 # changes of memory 12",
    "cofio history --changeset 7      # changes in changeset 7",
)
@click.argument("memory_id", metavar="[ID]", type=int, required=False)
@click.option("--changeset", metavar="N", type=int, help="Show this changeset.")
@click.option("-n", "--limit", type=int, default=20, show_default=True, help="Maximum number of changesets.")
def history(session: CliContext, memory_id: int | None, changeset: int | None, limit: int) -> None:
    """Show changes: of a memory and its predecessors, or of all.

    The changes of one command or request form one changeset, which can be undone as one.
    """
    if memory_id is not None and changeset is not None:
        raise click.UsageError("Give a memory's ID or --changeset, not both.")
    with session.memories() as memories:
        if memory_id is not None:
            _tell_changes(session, memory_id, memories.history(memory_id))
        elif changeset is not None:
            _tell_changeset(session, memories.changeset(changeset))
        else:
            newest = memories.changes(limit=limit)
            _tell_changesets(session, newest if session.as_json else [memories.changeset(each.id) for each in newest])


def _tell_changes(session: CliContext, memory_id: int, changes: Sequence[Change]) -> None:
    if session.as_json:
        output.document({"id": memory_id, "changes": [change.as_dict() for change in changes]})
    else:
        _table_of(changes)


def _tell_changeset(session: CliContext, done: Changeset) -> None:
    if session.as_json:
        output.document(done.as_dict())
    else:
        _tables_of(done)


def _tell_changesets(session: CliContext, changesets: Sequence[Changeset]) -> None:
    if session.as_json:
        output.document({"changesets": [changeset.as_dict() for changeset in changesets]})
        return
    columns = (
        Field("changeset", "cyan", "right"),
        WHEN,
        Field("by"),
        Field("why", wraps=True),
        Field("what", wraps=True),
        Field("", "yellow"),
    )
    rows = (
        (changeset.id, output.when(changeset.at), changeset.by, changeset.why, _summed_up(changeset), _fate(changeset))
        for changeset in changesets
    )
    output.table(columns, rows)
    if not changesets:
        output.say("There are no changes yet.")


def _summed_up(done: Changeset) -> str:
    """Summarise a changeset: the first memory or row that it changed, and the number of others."""
    touched: dict[int | str, str] = {}
    for change in done.changes:
        touched.setdefault(change.memory_id, f"{change.memory_id}: {_words_of(change)}")
    for row in done.knowledge:
        touched.setdefault(row.ref, f"{_name_of(row)}: {_says(row)}")
    first, others = next(iter(touched.values()), ""), len(touched) - 1
    short = first if len(first) <= _SUMMARY else first[: _SUMMARY - 1] + "…"
    return f"{short} and {others} more" if others > 0 else short


def _words_of(change: Change) -> str:
    left = change.after or change.before
    return left.text if left else "(erased)"


def _tables_of(done: Changeset) -> None:
    """Print the changes to memories, and those to domain knowledge."""
    if done.changes or not done.knowledge:
        _table_of(done.changes)
    if done.knowledge:
        head = (Field("changeset", "cyan", "right"), WHEN, Field("row", "cyan"), Field("action", "green"))
        rows = (
            (each.changeset, output.when(each.at), _name_of(each), each.action, each.by, _told_row(each))
            for each in done.knowledge
        )
        output.table((*head, Field("by"), Field("says", wraps=True)), rows)


def _table_of(changes: Sequence[Change]) -> None:
    columns = (Field("changeset", "cyan", "right"), WHEN, ID, Field("action", "green"), Field("by"), TEXT)
    rows = (
        (change.changeset, output.when(change.at), change.memory_id, change.action, change.by, _told(change))
        for change in changes
    )
    output.table(columns, rows)


def _told(change: Change) -> str:
    """Return the text of the memory after the change, and the changed fields."""
    left = change.after or change.before
    if left is None:
        return "(erased)" if change.action == "purge" else "(gone)"
    touched = _touched(change.before, change.after) if change.before and change.after else []
    return f"{left.text} ({', '.join(touched)})" if touched else left.text


def _touched(before: Memory, after: Memory) -> list[str]:
    passing = ("updated_at", "retrieval_count", "last_retrieved_at")
    names = [name for name in Memory.__dataclass_fields__ if name not in passing]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _name_of(change: KnowledgeChange) -> str:
    """Return the row's table and id; only the table of an erased row."""
    return change.ref if change.before or change.after else change.table


def _says(change: KnowledgeChange) -> str:
    left = change.after or change.before
    return left.says if left else "(erased)"


def _told_row(change: KnowledgeChange) -> str:
    """Return the text of the row after the change, and the changed fields."""
    before, after = change.before, change.after
    touched = _differing(before, after) if before and after else []
    return f"{_says(change)} ({', '.join(touched)})" if touched else _says(change)


def _differing(before: Knowledge, after: Knowledge) -> list[str]:
    names = [name for name in after.as_dict() if name != "updated_at"]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _fate(done: Changeset) -> str:
    if done.undone_by:
        return f"undone by {done.undone_by}"
    return f"undoes {done.undoes}" if done.undoes else ""


@command(
    "undo",
    "cofio undo                       # the newest changeset, after confirmation",
    "cofio undo 7 --yes",
    "cofio undo 8                     # if 8 was itself an undo: redoes it",
)
@click.argument("changeset_id", metavar="[CHANGESET]", type=int, required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def undo(session: CliContext, changeset_id: int | None, yes: bool, why: str) -> None:
    """Undo a whole changeset.

    Without a number, it is the newest one that is neither undone nor an undo, so that repeating it goes further back.
    """
    with session.memories() as memories:
        found = memories.changeset(_newest(memories) if changeset_id is None else changeset_id)
        if not yes and not found.undone_by:
            _tell_what_goes(found, sum(change.part_of == found.id for change in memories.changes(limit=_SERIES)))
        if not found.undone_by and not agreed(f"Undo changeset {found.id}?", yes=yes):
            output.say("Nothing was changed.")
            if session.as_json:
                output.document(None)
            return
        done = memories.undo(found.id, by=BY, why=why)
    if session.as_json:
        output.document(done.as_dict())
        return
    _tables_of(done)
    output.say(f"Changeset {found.id} is undone; `cofio undo {done.id}` redoes it.")


def _newest(memories: Memories) -> int:
    for limit in _LOOK_BACK:
        for done in memories.changes(limit=limit):
            if done.undone_by is None and done.undoes is None and _did_something(memories.changeset(done.id)):
                return done.part_of or done.id  # undo the whole series
    raise Conflict("There is nothing to undo.", "See `cofio history`.")


def _did_something(done: Changeset) -> bool:
    """Return whether there is anything to undo: a changeset may contain only rows that were unchanged."""
    return bool(done.changes or done.knowledge)


def _tell_what_goes(found: Changeset, more: int) -> None:
    output.say(f"Changeset {found.id}, {output.ago(found.at)} by {found.by}: {found.why}")
    lines = [f"{change.action} {change.memory_id}: {_told(change)}" for change in found.changes]
    lines += [f"{change.action} {_name_of(change)}: {_told_row(change)}" for change in found.knowledge]
    for line in lines[:_CHANGES_SHOWN]:
        output.say(f"  {line}")
    if len(lines) > _CHANGES_SHOWN:
        output.say(f"  and {len(lines) - _CHANGES_SHOWN:,} more")
    if more:
        output.say(f"It begins a series of {more + 1:,} changesets; all of them are undone.")
