"""The hook command, for people and for shell completion; clients are served before click is imported."""

from __future__ import annotations

import click

from cofio.cli.shared_options import CliContext, command
from cofio.hooks.client_events import CLIENTS
from cofio.hooks.runner import NAMED


@command(
    "hook", "cofio hook claude-code < event.json", 'cofio hook codex notify \'{"type": "agent-turn-complete", ...}\''
)
@click.argument(
    "words", metavar=f"{{{'|'.join(CLIENTS)}}} [{'|'.join(NAMED)}] [JSON]", nargs=-1, type=click.UNPROCESSED
)
@click.pass_context
def hook(context: click.Context, session: CliContext, words: tuple[str, ...]) -> None:
    """Pass a client's event to the service and print its reply. Clients run this; `cofio install` configures them.

    The client's JSON comes on standard input or as the last argument and names the event. The exit code is always 0. If
    the service does not answer, memories are read from the store's file and the event is kept on disk for later.
    """
    from cofio.hooks import entry

    if not words:
        click.echo(context.get_help())
        return
    flags = (part for name, value in session.flags.items() for part in (f"--{name.replace('_', '-')}", str(value)))
    entry.main([*flags, *words])


hook.context_settings["ignore_unknown_options"] = True  # exit code 2 would discard the prompt
