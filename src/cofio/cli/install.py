"""Commands for the clients of this machine: install, uninstall, doctor."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from cofio.cli import output
from cofio.cli.output import StepOutput, mark, short
from cofio.cli.shared_options import CliContext, command
from cofio.errors import CofioError, InvalidInput, Misconfigured
from cofio.settings import Settings

if TYPE_CHECKING:
    from cofio.install.plan import FileResult
    from cofio.models.diagnostics import Check


CLIENTS = ("claude-code", "codex", "openclaw", "cursor")
PROVIDERS = ["anthropic", "openai", "ollama", "skip", "claude-cli", "codex-cli"]


@command(
    "install",
    "cofio install                                    # interactive",
    "cofio install claude-code --yes                  # no questions, no language model",
    "ANTHROPIC_API_KEY=... cofio install --yes --provider anthropic",
    "cofio install --codex --notify",
    "cofio install --dry-run",
)
@click.argument("clients", nargs=-1, type=click.Choice(CLIENTS), metavar="[CLIENT]...")
@click.option("--codex", is_flag=True, help="Same as the argument codex.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: use the clients found and the current settings.")
@click.option(
    "--provider",
    type=click.Choice(PROVIDERS),
    help="Language model that extracts facts; claude-cli and codex-cli run your Claude Code or Codex.",
)
@click.option("--provider-key", metavar="KEY", help="API key of the provider; - reads it from standard input.")
@click.option("--model", default="", metavar="MODEL", help="Model, if not the provider's default.")
@click.option("--no-start", is_flag=True, help="Neither start nor restart the service.")
@click.option("--no-mcp", is_flag=True, help="Do not register the MCP server.")
@click.option(
    "--notify", is_flag=True, help="Codex: also set `notify` in its config, which works before its hooks are approved."
)
@click.option(
    "--trust-hooks", is_flag=True, help="Codex: mark cofio's hooks as approved, so that Codex runs them without asking."
)
@click.option(
    "--shell-rc", is_flag=True, help="Also export the settings, including keys, in your shell's startup file."
)
@click.option("--dry-run", is_flag=True, help="Ask nothing, show the files that would change, and write nothing.")
def install(session: CliContext, clients: tuple[str, ...], codex: bool, **options: Any) -> None:
    """Set up automatic memory in Claude Code, Codex, OpenClaw or Cursor; without a CLIENT, in those found here.

    Other hooks, settings and comments are kept. `cofio uninstall` restores every file.
    """
    chosen = tuple(dict.fromkeys((*clients, *(["codex"] if codex else []))))
    if session.as_json or options["dry_run"]:
        options["yes"] = True
    from cofio.cli.install_wizard import InstallWizard  # slow import

    setup = InstallWizard(session, StepOutput(silent=session.as_json), **options)
    try:
        result = setup.run(chosen)
    except click.Abort:
        click.echo()  # end the line of the question
        if sys.stdin.isatty():
            raise
        hint = "Add --yes to accept the defaults, and --provider NAME to use a language model."
        raise InvalidInput("The setup asks questions, but standard input is not a terminal.", hint) from None
    session.print_json(result)


@command("uninstall", "cofio uninstall", "cofio uninstall codex")
@click.argument("clients", nargs=-1, type=click.Choice(CLIENTS), metavar="[CLIENT]...")
def uninstall(session: CliContext, clients: tuple[str, ...]) -> None:
    """Remove cofio from all clients, or from the named ones. Memories are kept.

    A file without later changes is restored byte for byte; from other files only cofio's entries are removed. A client
    used as the extraction provider (claude-cli, codex-cli) is no longer called.
    """
    from cofio.install import clients as client
    from cofio.install.manifest import Manifest

    settings = session.settings
    manifest = Manifest.load(settings.home)
    files_by_client: dict[str, list[dict[str, str]]] = {}
    problems: list[CofioError] = []
    names = clients or (*CLIENTS, "shell")
    for name in names:
        results, errors = client.uninstall(name, settings, manifest)
        problems += errors
        if results:
            files_by_client[name] = [
                {"path": str(result.path), "state": result.state, "detail": result.detail} for result in results
            ]
            _report_removed(StepOutput(silent=session.as_json), results)
    agent = _clear_agent(session, names, problems)
    plugins = {name: plugin for name in names if (plugin := client.plugin_name(name, settings))}
    about = {"problems": [str(problem) for problem in problems], "home": str(settings.home)}
    if not session.print_json({"clients": files_by_client, "plugins": plugins, "provider": agent, **about}):
        _report_rest(settings, agent, bool(files_by_client), plugins)
    if problems:
        raise problems[0]


def _clear_agent(session: CliContext, clients: Sequence[str], problems: list[CofioError]) -> str:
    """Clear the provider that runs one of these clients, restart a service that uses it, and return its name or ""."""
    from cofio.install import llm_provider
    from cofio.server import daemon

    try:
        name = llm_provider.end_agent(session.settings, clients)
        state = daemon.status(session.settings) if name and not session.settings.url else {}
        if state.get("pid"):
            daemon.down(session.settings)
            port = urlsplit(str(state["url"])).port or session.settings.port
            daemon.up(Settings.load({**session.flags, "port": port}))
    except CofioError as error:
        problems.append(error)
        return ""
    return name


def _report_removed(out: StepOutput, results: Sequence[FileResult]) -> None:
    """Print one line per file, and one per folder for our own removed files."""
    words = {"taken out": "cofio's entries removed from", "kept": "kept:", "gone": "gone already:"}
    removals = Counter(result.path.parent for result in results if result.state == "removed")
    for result in results:
        detail = f" ({result.detail})" if result.detail else ""
        sign = mark(None if result.state == "kept" else True)
        if result.state != "removed" or removals[result.path.parent] == 1:
            out.line(f"{sign} {words.get(result.state, result.state)} {short(result.path)}{detail}")
        elif number := removals.pop(result.path.parent, 0):
            out.line(f"{sign} removed {number} files in {short(result.path.parent)}/")


_REMOVES = {"claude-code": "claude plugin uninstall {}", "codex": "codex plugin remove {}"}


def _report_rest(settings: Settings, agent: str, any_files: bool, plugins: Mapping[str, str]) -> None:
    from cofio.install import llm_provider

    any_removed = bool(agent or any_files)
    if agent:
        output.say(f"{mark(True)} {agent} is no longer called: the setting extract_provider is cleared.")
    variable = settings.origins["extract_provider"]  # a variable overrides config.toml
    if settings.extract_provider in llm_provider.AGENTS and variable.isupper():
        output.say(f"{variable} still names {settings.extract_provider}: unset the variable, then run `cofio down`.")
    for client, plugin in plugins.items():
        output.say(f"The plugin {plugin} is still enabled. Remove it with: `{_REMOVES[client].format(plugin)}`.")
    if not any_removed and not plugins:
        output.say("There is nothing to remove: cofio is not installed in these clients.")
    if any_removed:
        output.say(
            f"Memories and settings stay in {short(settings.home)}. To delete them: `cofio down`, then delete it."
        )


@command("doctor", "cofio doctor", "cofio doctor --deep   # reads the whole store", "cofio doctor --json")
@click.option("--deep", is_flag=True, help="Verify every row and vector of the store too, and name what is damaged.")
@click.option("--hooks", envvar="COFIO_HOOKS", default="", hidden=True)
def doctor(session: CliContext, deep: bool, hooks: str) -> None:
    """Test recall and capture end to end, and report problems with their remedies.

    The test runs each client's hooks in a temporary project, and erases the memories that it adds. The exit code is 1
    if there is a problem.
    """
    from cofio import bootstrap
    from cofio.install import doctor as examining
    from cofio.models.diagnostics import Check, StoreDamage

    def verify() -> StoreDamage:
        with closing(bootstrap.open_store(session.settings)) as store:
            return store.verify()

    out, checks = StepOutput(silent=session.as_json), []
    try:
        for check in examining.examine(session.settings, hooks, verify if deep else None):
            checks.append(check)
            _report_check(out, check)
    except Misconfigured as error:  # for example an unreadable config.toml
        checks.append(Check("config", "wrong", error.message, error.hint))
        _report_check(out, checks[-1])
    wrong = [check for check in checks if check.state == "wrong"]
    summary = f"{output.count(len(wrong), 'problem')} found." if wrong else "No problems found."
    session.print_sentence({"healthy": not wrong, "checks": checks}, summary)
    if wrong:
        sys.exit(1)


def _report_check(out: StepOutput, check: Check) -> None:
    sign = mark({"ok": True, "warning": None, "wrong": False}[check.state])
    out.line(f"{sign} {check.name}: {check.says}")
    if check.remedy and check.state != "ok":
        out.line(f"    {check.remedy}")
