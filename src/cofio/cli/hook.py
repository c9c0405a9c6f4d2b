"""The command that clients run: hook. Here it is for people and for completion; clients are served before click is."""

from __future__ import annotations

import click

from cofio.cli.session import Session, command
from cofio.hooks.clients import CLIENTS
from cofio.hooks.delivery import NAMED


@command(
    "hook",
    "cofio hook claude-code < event.json",
    'cofio hook codex notify \'{"type": "agent-turn-complete", ...}\'',
)
@click.argument(
    "words", metavar=f"{{{'|'.join(CLIENTS)}}} [{'|'.join(NAMED)}] [JSON]", nargs=-1, type=click.UNPROCESSED
)
@click.pass_context
def hook(context: click.Context, session: Session, words: tuple[str, ...]) -> None:
    """Hand a client's event to the service, and print what it says. Clients run this; `cofio install` sees to it.

    The client's own JSON comes on standard input, or as the last argument, and says which event it is. The exit code is
    0 whatever happens. Without the service the store's file is asked, and what was said is spooled.
    """
    from cofio.hooks import entry

    if not words:
        click.echo(context.get_help())
        return
    flags = (part for name, value in session.flags.items() for part in (f"--{name.replace('_', '-')}", str(value)))
    entry.main([*flags, *words])


hook.context_settings["ignore_unknown_options"] = True  # click would end with 2, which throws a prompt away
