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
@click.argument("client", type=click.Choice(CLIENTS))
@click.argument("event", type=click.Choice(tuple(NAMED)), required=False)
@click.argument("said", metavar="[JSON]", required=False)
def hook(session: Session, client: str, event: str | None, said: str | None) -> None:
    """Hand a client's event to the service, and print what it says. Clients run this; `cofio install` sees to it.

    The client's own JSON comes on standard input, or as the last argument, and says which event it is. The exit code is
    0 whatever happens. Without the service the store's file is asked, and what was said is spooled.
    """
    from cofio.hooks import entry

    entry.main(["--home", str(session.settings.home), client, *(each for each in (event, said) if each)])
