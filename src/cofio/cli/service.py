"""Commands on the service: serve, up, down, status; and hook, which serves people: clients never get here."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.shared_options import CliContext, command, flag
from cofio.hooks.client_events import CLIENTS
from cofio.hooks.runner import NAMED

if TYPE_CHECKING:
    from cofio.models.diagnostics import Check, ServiceProbe
    from cofio.server.daemon import Instance

_HOST = flag("--host", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
_PORT = flag("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 finds a free one. Default: 8900.")


def _secret_from(context: click.Context, parameter: click.Parameter, number: int | None) -> None:
    """Read a setting from a pipe: command lines are visible to other users."""
    if number is None or parameter.name is None:
        return
    with os.fdopen(number, "rb") as pipe:
        secret = pipe.read().decode()
    if secret:
        context.ensure_object(CliContext).flags[parameter.name.removesuffix("_fd")] = secret


@command("serve", "cofio serve", "cofio serve --port 9000", "COFIO_API_KEY=secret cofio serve --host 0.0.0.0")
@_HOST
@_PORT
@click.option("--api-key-fd", type=int, callback=_secret_from, expose_value=False, hidden=True)
@click.option("--store-fd", type=int, callback=_secret_from, expose_value=False, hidden=True)
def serve(session: CliContext) -> None:
    """Run the service in the foreground, until Ctrl-C. `cofio up` runs it in the background."""
    from cofio.server import daemon

    def announce(instance: Instance) -> None:
        store = session.settings.shown("store")
        sentence = f"cofio {instance.version} serves {store} at {instance.url}; Ctrl-C stops it."
        session.print_sentence(_list_fields(instance), sentence)

    def diagnose(service: ServiceProbe, clients: bool) -> Iterable[Check]:
        from cofio.install import doctor  # imported for the first page that needs it

        return doctor.check_in_process(session.settings, service, clients=clients)

    daemon.serve(session.settings, session.open_keeper, announce, diagnose)
    # Exit now if a thread still waits for a model's reply: no client needs it, and the inbox item is kept.
    sys.stdout.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(0)


@command("up", "cofio up", "cofio up --port 9000", "cofio --store sqlite:///work.db up --port 0")
@_HOST
@_PORT
def up(session: CliContext) -> None:
    """Start the service in the background, unless it is running.

    A SQLite store is served by one service; a PostgreSQL store can have several, one for each --home folder.
    """
    from cofio.server import daemon

    instance, started = daemon.up(session.settings)
    if session.print_json({"started": started, **_list_fields(instance)}):
        return
    output.facts_about([("url", instance.url), ("pid", instance.pid), ("log", daemon.log_path(session.settings))])
    output.say("The service is started." if started else "The service was already running.")


@command("down", "cofio down", "cofio down --force")
@click.option("--force", is_flag=True, help="Kill the service if it has not stopped after 10 seconds.")
def down(session: CliContext, force: bool) -> None:
    """Stop the service of this store, and wait until it has stopped."""
    from cofio.server import daemon

    instance = daemon.down(session.settings, force=force)
    pid = instance.pid if instance else None
    sentence = f"The service (pid {pid}) has stopped." if instance else "No service runs for this store."
    session.print_sentence({"stopped": instance is not None, "pid": pid}, sentence)


@command("status", "cofio status", "cofio status --json", "cofio --url http://memory.example:8900 status")
def status(session: CliContext) -> None:
    """Show the state of the service, its address, and whether it accepts your API key."""
    from cofio.server import daemon

    state = daemon.status(session.settings)
    if session.print_json(state):
        return
    facts = dict(state)
    hooks = facts.pop("hooks")
    problems = [("problem", f"{problem['says']} {problem['hint']}") for problem in facts.pop("problems", ())]
    if not state["running"]:
        facts = {name: state[name] for name in ("running", "store", "embedder", "problem") if name in state}
    elif state["uptime_seconds"] is not None and output.on_terminal():
        facts["uptime"] = output.span(facts.pop("uptime_seconds"))
    output.facts_about([*facts.items(), *problems, *_describe_hooks(hooks)])
    if not state["running"]:
        output.say("Start it with `cofio up`.")


def _describe_hooks(hooks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield statistics of the hooks; nothing if none has run."""
    if last := hooks.get("last"):
        call = f"{last['client']} {last['event']}: {last['rung']} in {last['ms']} ms, {output.when(last['at'])}"
        yield "last hook", call
    for rung, figures in hooks.get("rungs", {}).items():
        yield f"hooks, {rung}", f"{figures['count']} in 24 h, p50 {figures['p50_ms']} ms, p95 {figures['p95_ms']} ms"
    counts = {"spool": "events not delivered to the service yet", "bad": "stored events could not be read"}
    for name, words in counts.items():
        if hooks.get(name):
            yield f"hooks, {name}", f"{hooks[name]} {words}"
    for why, count in hooks.get("failed", {}).items():
        yield "hooks, failed", f"{count} in 24 h: {why}"
    if hooks.get("resting_until"):
        until = output.when(hooks["resting_until"])
        yield "hooks, paused", f"the service failed repeatedly; hooks do not call it until {until}"


def _list_fields(instance: Instance) -> dict[str, Any]:
    return {name: getattr(instance, name) for name in ("pid", "url", "version", "started_at")}


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
