"""The command line, built on the keeper, the client and the daemon.

Slow modules are imported only by the commands that need them: `cofio --help` imports click and the help texts.

Other packages add commands: an entry point of the group `cofio.commands` names a click command, and is loaded when that
command runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from cofio.cli import (
    api_keys,
    backfill,
    history,
    ingest,
    install,
    knowledge,
    maintenance,
    markdown_notes,
    mcp,
    memories,
    output,
    service,
    sessions,
    store,
    team,
    transfer,
    web_pages,
)
from cofio.cli.shared_options import CliContext, examples, where
from cofio.errors import CofioError, Misconfigured
from cofio.version import __version__

__all__ = ["CliContext", "cli", "main"]

_INTERRUPTED = 130
_OS_HINT = "Check the free disk space, and the paths in the command and their permissions."


class OptionalCommand(click.Command):
    """A command that an optional package of cofio provides. Without the package, it says how to install it."""

    def __init__(self, name: str, extra: str, text: str) -> None:
        super().__init__(name, help=text, add_help_option=False)
        self.allow_extra_args = self.ignore_unknown_options = True
        self.extra = extra

    def invoke(self, _context: click.Context) -> NoReturn:
        """Raise an error that names the extra."""
        message = f"`cofio {self.name}` is not installed."
        raise Misconfigured(message, f"Run: pip install 'cofio[{self.extra}]'.")


_EVAL = OptionalCommand(
    "eval", "eval", "Measure retrieval, capture and decisions on your own data. Your store is not changed."
)

_SECTIONS: tuple[tuple[str, tuple[click.Command, ...]], ...] = (
    ("Memories", memories.COMMANDS),
    ("Teams", (team.team, team.enrich)),
    ("Domain knowledge", (knowledge.knowledge,)),
    ("Notes", (markdown_notes.notes,)),
    ("Conversations", (ingest.ingest_file, backfill.backfill, ingest.inbox, sessions.sessions, sessions.resume,
                       sessions.episodes)),
    ("History", (history.history, history.undo)),
    ("Import and export", (transfer.export, transfer.import_, transfer.copy, transfer.backup)),
    (
        "Service",
        (
            service.serve,
            service.up,
            service.down,
            service.status,
            web_pages.ui,
            api_keys.keys,
            mcp.mcp,
            service.hook,
        ),
    ),
    ("Clients", (install.install, install.uninstall, install.doctor)),
    ("Maintenance", (store.stats, maintenance.usage, maintenance.audit, store.dedup, maintenance.consolidate,
                     maintenance.prune, maintenance.runs, store.reembed, _EVAL, store.config,
                     store.completion)),
)  # fmt: skip


class Cofio(click.Group):
    """The group of all commands. Prints all errors, as a message and a hint or as JSON, and sets the exit code."""

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under their headings."""
        for heading, commands in _SECTIONS:
            with formatter.section(heading):
                formatter.write_dl([(command.name or "", command.get_short_help_str(90)) for command in commands])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of cofio with this name, else that of an installed package."""
        command = super().get_command(context, name)
        if command is None or isinstance(command, OptionalCommand):
            return _load_plugin(name) or command
        return command

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run and exit: 0 success, 1 an error of cofio, 2 wrong usage, 130 interrupted."""
        arguments = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in arguments
        extra.pop("standalone_mode", None)
        extra["obj"] = extra.get("obj") or CliContext()
        try:
            super().main(arguments, prog_name or "cofio", standalone_mode=False, **extra)
        except CofioError as error:
            _print_error(as_json, error.code, error.message, error.hint)
            sys.exit(1)
        except click.UsageError as error:
            if as_json:
                path = error.ctx.command_path if error.ctx else "cofio"
                _print_error(as_json, "usage", error.format_message(), f"See `{path} --help`.")
            else:
                error.show()
            sys.exit(2)
        except BrokenPipeError:
            raise
        except OSError as error:  # for example a full disk behind standard output
            _print_error(as_json, "error", f"Reading or writing failed: {error.strerror}.", _OS_HINT)
            sys.exit(1)
        except click.ClickException as error:  # for example an editor that failed
            _print_error(as_json, "error", error.format_message(), "")
            sys.exit(1)
        except click.Abort:
            click.echo("Stopped.", err=True)
            sys.exit(_INTERRUPTED)
        sys.exit(0)


def _load_plugin(name: str) -> click.Command | None:
    """Return the command that an installed package registers under this name, if any."""
    from importlib.metadata import entry_points  # slow import, not needed by cofio's own commands

    for entry in entry_points(group="cofio.commands", name=name):
        package = entry.dist.name if entry.dist else entry.value
        hint = f"Update the package {package}, or uninstall it."
        try:
            command = entry.load()
        except Exception as error:
            message = f"`cofio {name}` cannot be loaded from {package}: {type(error).__name__}: {error}."
            raise Misconfigured(message, hint) from error
        if not isinstance(command, click.Command):
            raise Misconfigured(f"`cofio {name}` of {package} is not a click command: {entry.value}.", hint)
        return command
    return None


def _print_error(as_json: bool, code: str, message: str, hint: str) -> None:
    if as_json:
        click.echo(json.dumps({"error": {"code": code, "message": message, "hint": hint}}), err=True)
        return
    output.say(f"Error: {message}")
    if hint:
        output.say(hint)


@click.group(
    "cofio",
    cls=Cofio,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        'cofio add "We deploy with Fly.io"',
        'cofio search "where do we deploy?"',
        "cofio up                         # keeps the model loaded, so that answers are fast",
    ),
)
@where(hidden=False)
@click.version_option(__version__, "--version", message="cofio %(version)s")
def cli() -> None:
    """Local-first memory for AI agents.

    Commands work on the store in ~/.cofio, or on the service if one runs. The options below may be given before or
    after the command. `cofio COMMAND -h` shows the help of a command.
    """


for _heading, _commands in _SECTIONS:
    for _command in _commands:
        cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (stream.encoding or "").lower():
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    cli.main()
