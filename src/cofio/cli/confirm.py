"""The confirm command: marks memories as still valid."""

from __future__ import annotations

import click

from cofio.cli import output
from cofio.cli.output import ID, TEXT
from cofio.cli.shared_options import BY, CliContext, command


@command("confirm", "cofio confirm 12", 'cofio confirm 12 --why "looked it up in the code"')
@click.argument("memory_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def confirm(session: CliContext, memory_ids: tuple[int, ...], why: str) -> None:
    """Mark memories as still valid after the code they reference has changed.

    The files, definitions and commands that each memory references are checked again. Only later changes are reported
    from now on.
    """
    with session.memories() as memories:
        targets = [memories.get(memory_id) for memory_id in dict.fromkeys(memory_ids)]
        changes = [memories.confirm(memory.id, by=BY, why=why) for memory in targets]
    if session.as_json:
        results = [
            {"id": change.memory_id, "action": change.action, "changeset": change.changeset} for change in changes
        ]
        output.document({"results": results})
        return
    output.table((ID, TEXT), ((change.memory_id, change.memory.text) for change in changes))
    for change in changes:
        names = ", ".join(anchor.name for anchor in change.memory.anchors)
        output.say(f"Memory {change.memory_id} is confirmed: {names} (changeset {change.changeset}).")
