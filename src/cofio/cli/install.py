"""Commands that put cofio into the clients of this machine: install, uninstall."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import click

from cofio.cli import output
from cofio.cli.session import Session, command
from cofio.cli.setup import CLIENTS, Setup, Talk, mark, short
from cofio.errors import CofioError, InvalidInput, Misconfigured
from cofio.settings import Settings

if TYPE_CHECKING:
    from cofio.checkup import Check
    from cofio.install.plan import Done


PROVIDERS = ["anthropic", "openai", "ollama", "skip", "claude-cli", "codex-cli"]


@command(
    "install",
    "cofio install                                    # asks what it needs to know",
    "cofio install claude-code --yes                  # asks nothing; no model reads along",
    "ANTHROPIC_API_KEY=... cofio install --yes --provider anthropic",
    "cofio install --codex --notify",
    "cofio install --dry-run",
)
@click.argument("clients", nargs=-1, type=click.Choice(CLIENTS), metavar="[CLIENT]...")
@click.option("--codex", is_flag=True, help="The same as naming codex.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: take what is found and what is set.")
@click.option(
    "--provider", type=click.Choice(PROVIDERS), help="Whose model reads along; *-cli: your own, by its login."
)
@click.option("--provider-key", metavar="KEY", help="Its key; - reads it from standard input. Else what is set.")
@click.option("--model", default="", metavar="MODEL", help="Which of its models, when not the usual one.")
@click.option("--no-start", is_flag=True, help="Leave the service as it is, running or not.")
@click.option("--no-mcp", is_flag=True, help="Register no MCP server.")
@click.option("--notify", is_flag=True, help="Codex: use `notify` too, which works before the hooks are approved.")
@click.option("--trust-hooks", is_flag=True, help="Codex: approve our hooks in your place, by their hashes.")
@click.option("--shell-rc", is_flag=True, help="Put the variables, keys too, into your shell's startup file as well.")
@click.option("--dry-run", is_flag=True, help="Ask nothing, show what would be written, and write nothing.")
def install(session: Session, clients: tuple[str, ...], codex: bool, **asked: Any) -> None:
    """Set up automatic memory in Claude Code, Codex, OpenClaw or Cursor; without a CLIENT, in those found here.

    Others' hooks, settings and comments stay as they are. `cofio uninstall` puts every file back.
    """
    chosen = tuple(dict.fromkeys((*clients, *(["codex"] if codex else []))))
    if session.as_json or asked["dry_run"]:
        asked["yes"] = True
    setup = Setup(session, Talk(silent=session.as_json), **asked)
    try:
        told = setup.run(chosen)
    except click.Abort:
        click.echo()  # the question stands there still
        if sys.stdin.isatty():
            raise
        _nobody_answers()
    if session.as_json:
        output.document(told)


def _nobody_answers() -> NoReturn:
    hint = "Give --yes, and --provider where a model is to read along."
    raise InvalidInput("There is a question and nobody to answer it.", hint)


# ── uninstall ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("uninstall", "cofio uninstall", "cofio uninstall codex")
@click.argument("clients", nargs=-1, type=click.Choice(CLIENTS), metavar="[CLIENT]...")
def uninstall(session: Session, clients: tuple[str, ...]) -> None:
    """Take cofio out of the clients again, or of those named. Memories stay.

    A file that nobody else has touched is put back byte for byte; of any other only what is ours is taken out. A client
    that was the model that reads conversations (claude-cli, codex-cli) is no longer started.
    """
    from cofio.install import clients as client
    from cofio.install.record import Record

    settings = session.settings
    record = Record.load(settings.home)
    told: dict[str, list[dict[str, str]]] = {}
    problems: list[CofioError] = []
    wanted = clients or (*CLIENTS, "shell")
    for each in wanted:
        done, wrong = client.uninstall(each, settings, record)
        problems += wrong
        if done:
            told[each] = [{"path": str(one.path), "state": one.state, "detail": one.detail} for one in done]
            _tell_undone(Talk(silent=session.as_json), done)
    provider = _end_agent(session, wanted, problems)
    plugins = {each: plugin for each in wanted if (plugin := client.plugged(each, settings))}
    if session.as_json:
        about = {"problems": [str(each) for each in problems], "home": str(settings.home)}
        output.document({"clients": told, "plugins": plugins, "provider": provider, **about})
    else:
        if provider:
            output.say(f"{mark(True)} {provider} no longer reads along: extract_provider is cleared.")
        if variable := _names_agent(session):
            output.say(f"{variable} names {settings.extract_provider} still: unset it, then `cofio down`.")
        _tell_rest(settings, bool(told or provider), plugins)
    if problems:
        raise problems[0]


def _end_agent(session: Session, clients: Sequence[str], problems: list[CofioError]) -> str:
    """Clear the provider that runs one of these clients, and restart a service that still uses it; its name, or ""."""
    from cofio import daemon
    from cofio.install import provider

    try:
        name = provider.end_agent(session.settings, clients)
        state = daemon.status(session.settings) if name and not session.settings.url else {}
        if state.get("pid"):
            daemon.down(session.settings)
            port = urlsplit(str(state["url"])).port or session.settings.port
            daemon.up(Settings.load({**session.flags, "port": port}))
    except CofioError as error:
        problems.append(error)
        return ""
    return name


def _names_agent(session: Session) -> str:
    """Return the variable that names a client as the model, which config.toml cannot overrule."""
    from cofio.install import provider

    variable = session.settings.origins["extract_provider"]
    return variable if session.settings.extract_provider in provider.AGENTS and variable.isupper() else ""


def _tell_undone(talk: Talk, done: Sequence[Done]) -> None:
    """A line a file; files of our own that go, by their folder."""
    words = {"taken out": "ours taken out of", "kept": "left alone:", "gone": "gone already:"}
    gone = Counter(one.path.parent for one in done if one.state == "removed")
    for one in done:
        detail = f" ({one.detail})" if one.detail else ""
        sign = mark(None if one.state == "kept" else True)
        if one.state != "removed" or gone[one.path.parent] == 1:
            talk.line(f"{sign} {words.get(one.state, one.state)} {short(one.path)}{detail}")
        elif gone.pop(one.path.parent, 0):
            number = sum(1 for each in done if each.path.parent == one.path.parent and each.state == "removed")
            talk.line(f"{sign} removed {number} files in {short(one.path.parent)}/")


_REMOVES = {"claude-code": "claude plugin uninstall {}", "codex": "codex plugin remove {}"}


def _tell_rest(settings: Settings, anything: bool, plugins: Mapping[str, str]) -> None:
    for client, plugin in plugins.items():
        output.say(f"The plugin {plugin} is on still, and not ours to take out: `{_REMOVES[client].format(plugin)}`.")
    if not anything and plugins:
        return
    if not anything:
        output.say("Nothing of cofio is installed there.")
        return
    output.say(f"Memories and settings stay in {short(settings.home)}. To delete them: `cofio down`, then remove it.")


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("doctor", "cofio doctor", "cofio doctor --json")
@click.option("--hooks", envvar="COFIO_HOOKS", default="", hidden=True)
def doctor(session: Session, hooks: str) -> None:
    """Prove that recall and capture work, end to end, and say what is wrong and what to do. Exits 1 when something is.

    The proof runs each client's hooks as the client does, in a project of its own, and erases its words.
    """
    from cofio.checkup import Check
    from cofio.install import doctor as examining

    talk, found = Talk(silent=session.as_json), []
    try:
        for check in examining.examine(session.settings, hooks):
            found.append(check)
            _tell_check(talk, check)
    except Misconfigured as error:  # such as a config.toml that cannot be read
        found.append(Check("config", "wrong", error.message, error.hint))
        _tell_check(talk, found[-1])
    wrong = [each for each in found if each.state == "wrong"]
    if session.as_json:
        output.document({"healthy": not wrong, "checks": [asdict(each) for each in found]})
    else:
        output.say(f"{output.count(len(wrong), 'thing')} to mend." if wrong else "All is well.")
    if wrong:
        sys.exit(1)


def _tell_check(talk: Talk, check: Check) -> None:
    sign = mark({"ok": True, "warning": None, "wrong": False}[check.state])
    talk.line(f"{sign} {check.name}: {check.says}")
    if check.remedy and check.state != "ok":
        talk.line(f"    {check.remedy}")
