"""The confirm command: marks memories as still valid."""

from __future__ import annotations

import click

from cofio.cli import output
from cofio.cli.context import BY, CliContext, command
from cofio.cli.output import ID, TEXT


@command("confirm", "cofio confirm 12", 'cofio confirm 12 --why "looked it up in the code"')
@click.argument("memory_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
def confirm(session: CliContext, memory_ids: tuple[int, ...], why: str) -> None:
    """Mark memories as still valid after the code they reference has changed.

    The files, definitions and commands that each memory references are checked again. Only later changes are reported
    from now on.
    """
    with session.memories() as memories:
        found = [memories.get(fromkey) for fromkey in dict.fromkeys(memory_ids)]
        done = [memories.confirm(memory.id, by=BY, why=why) for memory in found]
    if session.as_json:
        told = [{"id": each.memory_id, "action": each.action, "changeset": each.changeset} for each in done]
        output.document({"results": told})
        return
    output.table((ID, TEXT), ((each.memory_id, each.memory.text) for each in done))
    for each in done:
        names = ", ".join(anchor.name for anchor in each.memory.anchors)
        output.say(f"Memory {each.memory_id} is confirmed: {names} (changeset {each.changeset}).")
