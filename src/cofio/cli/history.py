"""Commands on the history: history, undo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT, WHEN, Field
from cofio.cli.shared_options import BY, CliContext, Memories, command, limit_option, why_option, yes_option
from cofio.errors import Conflict
from cofio.models.domain_knowledge import KnowledgeChange
from cofio.models.memory import Change, Changeset, Memory

_LOOK_BACK = (50, 1_000)  # changesets searched for the newest that can be undone
_CHANGES_SHOWN = 10
_SERIES = 1_000  # changesets searched for the parts of a series
_SUMMARY = 60  # characters shown of the first memory or row in a changeset
_UNCOMPARED = ("updated_at", "retrieval_count", "last_retrieved_at")
_CHANGESET = Field("changeset", "cyan", "right")


@command(
    "history",
    "cofio history                    # the newest changesets",
    "cofio history 12                 # changes of memory 12",
    "cofio history --changeset 7      # changes in changeset 7",
)
@click.argument("memory_id", metavar="[ID]", type=int, required=False)
@click.option("--changeset", "changeset_id", metavar="N", type=int, help="Show the changes in changeset N.")
@limit_option(20, "changesets")
def history(session: CliContext, memory_id: int | None, changeset_id: int | None, limit: int) -> None:
    """Show the changes of a memory and its predecessors, or the newest changesets.

    The changes of one command or request form one changeset; `cofio undo` reverts it as a whole.
    """
    if memory_id is not None and changeset_id is not None:
        raise click.UsageError("Give a memory's ID or --changeset, not both.")
    with session.memories() as memories:
        if memory_id is not None:
            changes = memories.history(memory_id)
            if not session.print_json({"id": memory_id, "changes": changes}):
                _print_changes(changes, ID, TEXT)
        elif changeset_id is not None:
            changeset = memories.changeset(changeset_id)
            if not session.print_json(changeset):
                _print_changeset(changeset)
        else:
            newest = memories.changes(limit=limit)
            rows = (_format_changeset(memories.changeset(entry.id)) for entry in newest)
            columns = (Field("by"), Field("why", wraps=True), Field("what", wraps=True), Field("", "yellow"))
            session.print_table({"changesets": newest}, (_CHANGESET, WHEN, *columns), rows, "There are no changes yet.")


def _format_changeset(changeset: Changeset) -> tuple[Any, ...]:
    """Return a row with the first memory or row that the changeset changed, and the number of others."""
    texts: dict[int | str, str] = {}
    changes: list[Change | KnowledgeChange] = [*changeset.changes, *changeset.knowledge]
    for change in changes:
        key = change.memory_id if isinstance(change, Change) else change.ref
        texts.setdefault(key, f"{_name(change)}: {_get_text(change, '(erased)')}")
    summary, others = next(iter(texts.values()), ""), len(texts) - 1
    if len(summary) > _SUMMARY:
        summary = summary[: _SUMMARY - 1] + "…"
    if others > 0:
        summary += f" and {others} more"
    undo = f"undoes {changeset.undoes}" if changeset.undoes else ""
    if changeset.undone_by:
        undo = f"undone by {changeset.undone_by}"
    return changeset.id, output.when(changeset.at), changeset.by, changeset.why, summary, undo


def _print_changes(changes: Sequence[Change | KnowledgeChange], *columns: Field) -> None:
    rows = (
        (change.changeset, output.when(change.at), _name(change), change.action, change.by, _describe(change))
        for change in changes
    )
    name, text = columns
    output.table((_CHANGESET, WHEN, name, Field("action", "green"), Field("by"), text), rows)


def _print_changeset(changeset: Changeset) -> None:
    if changeset.changes or not changeset.knowledge:
        _print_changes(changeset.changes, ID, TEXT)
    if changeset.knowledge:
        _print_changes(changeset.knowledge, Field("row", "cyan"), Field("says", wraps=True))


def _name(change: Change | KnowledgeChange) -> str:
    """Return the id of the memory, or the table and id of the row; only the table of an erased row."""
    if isinstance(change, Change):
        return str(change.memory_id)
    return change.ref if change.before or change.after else change.table


def _get_text(change: Change | KnowledgeChange, missing: str) -> str:
    content = change.after or change.before
    if content is None:
        return missing
    return content.text if isinstance(content, Memory) else content.says


def _describe(change: Change | KnowledgeChange) -> str:
    """Return the text after the change, and the changed fields."""
    is_gone = isinstance(change, Change) and change.action != "purge"
    text, before, after = _get_text(change, "(gone)" if is_gone else "(erased)"), change.before, change.after
    if before is None or after is None:
        return text
    names = (field.name for field in fields(after) if field.name not in _UNCOMPARED)
    changed_fields = ", ".join(name for name in names if getattr(before, name) != getattr(after, name))
    return f"{text} ({changed_fields})" if changed_fields else text


@command(
    "undo",
    "cofio undo                       # the newest changeset, after confirmation",
    "cofio undo 7 --yes",
    "cofio undo 8                     # if 8 was itself an undo: redoes it",
    "cofio undo --learned-from codex/web --since 7d --dry-run",
    "cofio undo --session 4f1c9a",
)
@click.argument("changeset_id", metavar="[CHANGESET]", type=int, required=False)
@click.option("--learned-from", "source", metavar="SOURCE", default="",
              help="Undo everything learned from this source and those below it.")  # fmt: skip
@click.option("--session", "learned_in", metavar="ID", default="", help="Undo everything learned in this session.")
@click.option("--since", type=output.TimeType(-1),
              help="With --learned-from or --session: only since this time, such as 2026-02-20 or 7d.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="With --learned-from or --session: only show what would be undone.")
@yes_option
@why_option
def undo(session: CliContext, changeset_id: int | None, yes: bool, why: str, dry_run: bool, **learned: Any) -> None:
    """Undo a whole changeset, or everything learned from one source or in one session.

    Without CHANGESET, undo the newest one that is not undone yet and is not itself an undo. Run the command again to go
    further back.

    What was learned from a source is archived in one changeset, and memories that it had replaced are restored.
    """
    is_of_source = bool(learned["source"] or learned["learned_in"])
    if is_of_source and changeset_id is not None:
        raise click.UsageError("Give either CHANGESET, or --learned-from or --session.")
    if not is_of_source and (dry_run or learned["since"]):
        raise click.UsageError("--dry-run and --since belong to --learned-from or --session.")
    if is_of_source:
        about = {"source": learned["source"], "session": learned["learned_in"], "since": learned["since"] or ""}
        _undo_learned(session, about, why, yes=yes, dry_run=dry_run)
        return
    with session.memories() as memories:
        target = memories.changeset(_find_newest(memories) if changeset_id is None else changeset_id)
        if not target.undone_by:  # else the store refuses, and says by which changeset it was undone
            if not yes:
                parts = sum(change.part_of == target.id for change in memories.changes(limit=_SERIES))
                _preview_undo(target, parts)
            if not session.is_confirmed(f"Undo changeset {target.id}?", yes=yes):
                session.print_json(None)
                return
        result = memories.undo(target.id, by=BY, why=why)
    if session.print_json(result):
        return
    _print_changeset(result)
    output.say(f"Changeset {target.id} is undone; `cofio undo {result.id}` redoes it.")


def _undo_learned(session: CliContext, about: dict[str, Any], why: str, *, yes: bool, dry_run: bool) -> None:
    with session.memories() as memories:
        plan = memories.undo_learned(**about, by=BY)
        if not session.as_json:
            rows = ((row["id"], _DONE_TO[row["action"]], row["text"]) for row in plan.decisions)
            output.table((ID, Field("", "green"), TEXT), rows)
        if plan.decisions and not dry_run and session.is_confirmed("Undo all of this?", yes=yes):
            plan = memories.undo_learned(**about, dry_run=False, by=BY, why=why)
    if session.print_json(plan):
        return
    if plan.changeset:
        output.say(f"{len(plan.decisions):,} memories changed; `cofio undo {plan.changeset}` reverts that.")
    elif not plan.decisions:
        output.say("Nothing was learned from there.")


_DONE_TO = {"delete": "archive", "restore": "restore"}


def _find_newest(memories: Memories) -> int:
    for limit in _LOOK_BACK:
        for entry in memories.changes(limit=limit):
            if entry.undone_by is None and entry.undoes is None:
                changeset = memories.changeset(entry.id)
                if changeset.changes or changeset.knowledge:  # it may contain only rows that were unchanged
                    return entry.part_of or entry.id  # undo the whole series
    raise Conflict(
        "There is nothing to undo.", "`cofio history` lists the changesets; `cofio undo N` undoes one of them."
    )


def _preview_undo(changeset: Changeset, parts: int) -> None:
    output.say(f"Changeset {changeset.id}, {output.ago(changeset.at)} by {changeset.by}: {changeset.why}")
    changes: list[Change | KnowledgeChange] = [*changeset.changes, *changeset.knowledge]
    for change in changes[:_CHANGES_SHOWN]:
        output.say(f"  {change.action} {_name(change)}: {_describe(change)}")
    if len(changes) > _CHANGES_SHOWN:
        output.say(f"  and {len(changes) - _CHANGES_SHOWN:,} more")
    if parts:
        output.say(f"Changeset {changeset.id} begins a series of {parts + 1:,} changesets; all of them will be undone.")
