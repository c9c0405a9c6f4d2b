"""The ui command: opens the web pages of the service."""

from __future__ import annotations

from typing import Any

import click

from cofio.cli import output
from cofio.cli.shared_options import CliContext, command
from cofio.errors import CofioError, Unavailable

#: The pages, as named in URLs.
PAGES = ("overview", "memories", "map", "sessions", "inbox", "upkeep", "knowledge", "team", "agents", "settings")
_PATIENCE = 5.0  # seconds
#: Browsers that take over the terminal and run no scripts: the pages would be blank there.
_OF_TERMINALS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})


@command("ui", "cofio ui", "cofio ui map", "cofio ui --print")
@click.argument("page", type=click.Choice(PAGES), required=False, metavar="[PAGE]")
@click.option("--print", "only_print", is_flag=True, help="Print the URL without opening a browser.")
def ui(session: CliContext, page: str | None, only_print: bool) -> None:
    """Open the service's web pages in your browser, at the overview or at a PAGE.

    Pages: overview, memories, map, sessions, inbox, upkeep, knowledge, team, agents, settings. The service must be
    running; start it with `cofio up`. The URL of your own service works once, within two minutes, and needs no key.
    """
    from cofio.server import daemon

    state = daemon.status(session.settings)
    if not state["answering"]:
        raise _explain_silence(state, named=bool(session.settings.url))
    link = _create_link(session, page)
    url = link or f"{state['url'].rstrip('/')}/ui{f'/{page}' if page else ''}"
    opened = not only_print and _open_browser(url)
    if session.print_json({"url": url, "opened": opened}):
        return
    click.echo(url)
    if not only_print and not opened:
        output.say("No browser could be opened. Open this URL yourself.")
    if not only_print and not link and state["key"] in ("missing", "wrong", "ok"):
        output.say(
            "The page asks for a key: enter one that `cofio keys create` printed, or the service's COFIO_API_KEY."
        )


def _create_link(session: CliContext, page: str | None) -> str:
    """Return a URL that opens the pages once, without a key; "" if the service is not of this store's owner."""
    from cofio.client.transport import HttpTransport
    from cofio.server import daemon

    key = daemon.find_home_key(session.settings)
    if not key:
        return ""
    url = daemon.locate(session.settings)[0].rstrip("/")
    service = HttpTransport(url, key, _PATIENCE)
    try:
        path = service.post(str, "/ui/links", "path")
    except CofioError:  # a service of an older version
        return ""
    finally:
        service.close()
    return f"{url}/{path}{f'&page={page}' if page else ''}"


def _explain_silence(state: dict[str, Any], *, named: bool) -> Unavailable:
    if named:
        hint = "Start the service there, or omit --url and unset COFIO_URL."
        return Unavailable(f"No service answers at {state['url']}.", hint)
    if not state["running"]:
        message = "No service runs for this store, and the pages are part of the service."
        return Unavailable(message, "Start the service with `cofio up`.")
    if state.get("problem"):
        hint = "Run `cofio down --force`, then `cofio up`."
        return Unavailable(f"The service (pid {state['pid']}) runs and does not answer.", hint)
    return Unavailable(f"The service (pid {state['pid']}) is still starting.", "Try again in a moment.")


def _open_browser(url: str) -> bool:
    import webbrowser

    try:
        browser = webbrowser.get()
        return getattr(browser, "name", "") not in _OF_TERMINALS and browser.open(url)
    except webbrowser.Error:
        return False
