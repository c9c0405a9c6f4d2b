"""Commands on the history: history, undo."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import BY, CliContext, Memories, agreed, command
from cofio.errors import Conflict
from cofio.models.domain_knowledge import Knowledge, KnowledgeChange
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
            _tell_changesets(session, newest if session.as_json else [memories.changeset(entry.id) for entry in newest])


def _tell_changes(session: CliContext, memory_id: int, changes: Sequence[Change]) -> None:
    if session.as_json:
        output.document({"id": memory_id, "changes": [change.as_dict() for change in changes]})
    else:
        _print_table(changes)


def _tell_changeset(session: CliContext, changeset: Changeset) -> None:
    if session.as_json:
        output.document(changeset.as_dict())
    else:
        _print_tables(changeset)


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
        (
            changeset.id,
            output.when(changeset.at),
            changeset.by,
            changeset.why,
            _summarize(changeset),
            _describe_undo(changeset),
        )
        for changeset in changesets
    )
    output.table(columns, rows)
    if not changesets:
        output.say("There are no changes yet.")


def _summarize(changeset: Changeset) -> str:
    """Summarise a changeset: the first memory or row that it changed, and the number of others."""
    text_by_id: dict[int | str, str] = {}
    for change in changeset.changes:
        text_by_id.setdefault(change.memory_id, f"{change.memory_id}: {_format_text(change)}")
    for row in changeset.knowledge:
        text_by_id.setdefault(row.ref, f"{_name_row(row)}: {_describe_row(row)}")
    first_text, others = next(iter(text_by_id.values()), ""), len(text_by_id) - 1
    short = first_text if len(first_text) <= _SUMMARY else first_text[: _SUMMARY - 1] + "…"
    return f"{short} and {others} more" if others > 0 else short


def _format_text(change: Change) -> str:
    memory = change.after or change.before
    return memory.text if memory else "(erased)"


def _print_tables(changeset: Changeset) -> None:
    """Print the changes to memories, and those to domain knowledge."""
    if changeset.changes or not changeset.knowledge:
        _print_table(changeset.changes)
    if changeset.knowledge:
        head = (Field("changeset", "cyan", "right"), WHEN, Field("row", "cyan"), Field("action", "green"))
        rows = (
            (
                change.changeset,
                output.when(change.at),
                _name_row(change),
                change.action,
                change.by,
                _describe_row_change(change),
            )
            for change in changeset.knowledge
        )
        output.table((*head, Field("by"), Field("says", wraps=True)), rows)


def _print_table(changes: Sequence[Change]) -> None:
    columns = (Field("changeset", "cyan", "right"), WHEN, ID, Field("action", "green"), Field("by"), TEXT)
    rows = (
        (change.changeset, output.when(change.at), change.memory_id, change.action, change.by, _describe_change(change))
        for change in changes
    )
    output.table(columns, rows)


def _describe_change(change: Change) -> str:
    """Return the text of the memory after the change, and the changed fields."""
    memory = change.after or change.before
    if memory is None:
        return "(erased)" if change.action == "purge" else "(gone)"
    changed_fields = _list_changed(change.before, change.after) if change.before and change.after else []
    return f"{memory.text} ({', '.join(changed_fields)})" if changed_fields else memory.text


def _list_changed(before: Memory, after: Memory) -> list[str]:
    passing = ("updated_at", "retrieval_count", "last_retrieved_at")
    names = [name for name in Memory.__dataclass_fields__ if name not in passing]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _name_row(change: KnowledgeChange) -> str:
    """Return the row's table and id; only the table of an erased row."""
    return change.ref if change.before or change.after else change.table


def _describe_row(change: KnowledgeChange) -> str:
    row = change.after or change.before
    return row.says if row else "(erased)"


def _describe_row_change(change: KnowledgeChange) -> str:
    """Return the text of the row after the change, and the changed fields."""
    before, after = change.before, change.after
    changed_fields = _list_differing(before, after) if before and after else []
    return f"{_describe_row(change)} ({', '.join(changed_fields)})" if changed_fields else _describe_row(change)


def _list_differing(before: Knowledge, after: Knowledge) -> list[str]:
    names = [name for name in after.as_dict() if name != "updated_at"]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _describe_undo(changeset: Changeset) -> str:
    if changeset.undone_by:
        return f"undone by {changeset.undone_by}"
    return f"undoes {changeset.undoes}" if changeset.undoes else ""


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
        target = memories.changeset(_find_newest(memories) if changeset_id is None else changeset_id)
        if not yes and not target.undone_by:
            _tell_what_goes(target, sum(change.part_of == target.id for change in memories.changes(limit=_SERIES)))
        if not target.undone_by and not agreed(f"Undo changeset {target.id}?", yes=yes):
            output.say("Nothing was changed.")
            if session.as_json:
                output.document(None)
            return
        result = memories.undo(target.id, by=BY, why=why)
    if session.as_json:
        output.document(result.as_dict())
        return
    _print_tables(result)
    output.say(f"Changeset {target.id} is undone; `cofio undo {result.id}` redoes it.")


def _find_newest(memories: Memories) -> int:
    for limit in _LOOK_BACK:
        for changeset in memories.changes(limit=limit):
            if (
                changeset.undone_by is None
                and changeset.undoes is None
                and _has_changes(memories.changeset(changeset.id))
            ):
                return changeset.part_of or changeset.id  # undo the whole series
    raise Conflict("There is nothing to undo.", "See `cofio history`.")


def _has_changes(changeset: Changeset) -> bool:
    """Return whether there is anything to undo: a changeset may contain only rows that were unchanged."""
    return bool(changeset.changes or changeset.knowledge)


def _tell_what_goes(changeset: Changeset, more: int) -> None:
    output.say(f"Changeset {changeset.id}, {output.ago(changeset.at)} by {changeset.by}: {changeset.why}")
    lines = [f"{change.action} {change.memory_id}: {_describe_change(change)}" for change in changeset.changes]
    lines += [f"{change.action} {_name_row(change)}: {_describe_row_change(change)}" for change in changeset.knowledge]
    for line in lines[:_CHANGES_SHOWN]:
        output.say(f"  {line}")
    if len(lines) > _CHANGES_SHOWN:
        output.say(f"  and {len(lines) - _CHANGES_SHOWN:,} more")
    if more:
        output.say(f"It begins a series of {more + 1:,} changesets; all of them are undone.")
