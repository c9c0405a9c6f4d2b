"""Commands on the journal: history, undo."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Column
from cofio.cli.session import BY, Memories, Session, agreed, command
from cofio.errors import Conflict
from cofio.model import Change, Changeset, Memory

_LOOK_BACK = (50, 1_000)  # changesets, when the newest that can be undone is looked for
_CHANGES_SHOWN = 10
_SERIES = 1_000  # changesets among which the parts of a series are counted

_SUMMARY = 60  # characters of the first memory that a changeset touched


@command(
    "history",
    "cofio history                    # the newest changesets",
    "cofio history 12                 # what happened to memory 12",
    "cofio history --changeset 7      # all that changeset 7 did",
)
@click.argument("memory_id", metavar="[ID]", type=int, required=False)
@click.option("--changeset", metavar="N", type=int, help="Show this changeset.")
@click.option("-n", "--limit", type=int, default=20, show_default=True, help="How many changesets, at most.")
def history(session: Session, memory_id: int | None, changeset: int | None, limit: int) -> None:
    """Show what has changed: in a memory and those it came from, or in all.

    What one command or request did is one changeset, and can be undone as one.
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


def _tell_changes(session: Session, memory_id: int, changes: Sequence[Change]) -> None:
    if session.as_json:
        output.document({"id": memory_id, "changes": [change.as_dict() for change in changes]})
    else:
        _table_of(changes)


def _tell_changeset(session: Session, done: Changeset) -> None:
    if session.as_json:
        output.document(done.as_dict())
    else:
        _table_of(done.changes)


def _tell_changesets(session: Session, changesets: Sequence[Changeset]) -> None:
    if session.as_json:
        output.document({"changesets": [each.as_dict() for each in changesets]})
        return
    columns = (
        Column("changeset", "cyan", "right"),
        WHEN,
        Column("by"),
        Column("why", wraps=True),
        Column("what", wraps=True),
        Column("", "yellow"),
    )
    rows = ((each.id, output.when(each.at), each.by, each.why, _summed_up(each), _fate(each)) for each in changesets)
    output.table(columns, rows)
    if not changesets:
        output.say("Nothing has happened yet.")


def _summed_up(done: Changeset) -> str:
    """The first memory that it changed, and how many more."""
    if not done.changes:
        return ""
    first = done.changes[0]
    left = first.after or first.before
    said = f"{first.memory_id}: {left.text if left else '(erased)'}"
    short = said if len(said) <= _SUMMARY else said[: _SUMMARY - 1] + "…"
    others = len({change.memory_id for change in done.changes}) - 1
    return f"{short} and {others} more" if others else short


def _table_of(changes: Sequence[Change]) -> None:
    columns = (Column("changeset", "cyan", "right"), WHEN, ID, Column("action", "green"), Column("by"), TEXT)
    rows = (
        (each.changeset, output.when(each.at), each.memory_id, each.action, each.by, _told(each)) for each in changes
    )
    output.table(columns, rows)


def _told(change: Change) -> str:
    """What the memory says after the change, and which fields it touched."""
    left = change.after or change.before
    if left is None:
        return "(erased)" if change.action == "purge" else "(gone)"
    touched = _touched(change.before, change.after) if change.before and change.after else []
    return f"{left.text} ({', '.join(touched)})" if touched else left.text


def _touched(before: Memory, after: Memory) -> list[str]:
    passing = ("updated_at", "retrieval_count", "last_retrieved_at")
    names = [name for name in Memory.__dataclass_fields__ if name not in passing]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _fate(done: Changeset) -> str:
    if done.undone_by:
        return f"undone by {done.undone_by}"
    return f"undoes {done.undoes}" if done.undoes else ""


@command(
    "undo",
    "cofio undo                       # the newest changeset, after a question",
    "cofio undo 7 --yes",
    "cofio undo 8                     # where 8 was itself an undo: brings it back",
)
@click.argument("changeset_id", metavar="[CHANGESET]", type=int, required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--why", default="", metavar="TEXT", help="A reason, for the journal.")
def undo(session: Session, changeset_id: int | None, yes: bool, why: str) -> None:
    """Take back a whole changeset.

    Without a number it is the newest one that is neither undone nor an undo, so that repeating it goes further back.
    """
    with session.memories() as memories:
        found = memories.changeset(_newest(memories) if changeset_id is None else changeset_id)
        if not yes and not found.undone_by:
            _tell_what_goes(found, sum(each.part_of == found.id for each in memories.changes(limit=_SERIES)))
        if not found.undone_by and not agreed(f"Undo changeset {found.id}?", yes=yes):
            output.say("Nothing was changed.")
            if session.as_json:
                output.document(None)
            return
        done = memories.undo(found.id, by=BY, why=why)
    if session.as_json:
        output.document(done.as_dict())
        return
    _table_of(done.changes)
    output.say(f"Changeset {found.id} is undone; `cofio undo {done.id}` brings it back.")


def _newest(memories: Memories) -> int:
    for limit in _LOOK_BACK:
        for done in memories.changes(limit=limit):
            if done.undone_by is None and done.undoes is None:
                return done.part_of or done.id  # the whole series
    raise Conflict("There is nothing to undo.", "See `cofio history`.")


def _tell_what_goes(found: Changeset, more: int) -> None:
    output.say(f"Changeset {found.id}, {output.ago(found.at)} by {found.by}: {found.why}")
    for change in found.changes[:_CHANGES_SHOWN]:
        output.say(f"  {change.action} {change.memory_id}: {_told(change)}")
    if len(found.changes) > _CHANGES_SHOWN:
        output.say(f"  and {len(found.changes) - _CHANGES_SHOWN:,} more")
    if more:
        output.say(f"It begins a series of {more + 1:,} changesets; all of them are undone.")
