"""State and options shared by all commands: settings, access to the memories, JSON output."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from cofio.cli import output
from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.hooks.project import project_of as project_at
from cofio.models.memory import CATEGORIES, KINDS, METHODS, VISIBILITIES
from cofio.settings import Settings

if TYPE_CHECKING:
    from cofio.client import Client
    from cofio.core import Keeper

    Memories: TypeAlias = Keeper | Client
else:  # imported only by commands that need them
    Memories = Any

BY = "cli"  # author of changes in the history
PROJECT = "a name, or a folder in it"  # help text for a project argument
_PATIENCE = 600.0  # seconds; the user can interrupt, and merging duplicates is slow
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Option: TypeAlias = Callable[[Any], Any]  # a decorator


def _build_keeper(settings: Settings) -> Keeper:
    from cofio import bootstrap  # slow import, not needed if a service answers

    return bootstrap.keeper(settings)


@dataclass
class CliContext:
    """State of one run of the command line. Tests pass one in, with their own `open_keeper`."""

    open_keeper: Callable[[Settings], Keeper] = _build_keeper
    flags: dict[str, Any] = field(default_factory=dict)
    as_json: bool = False

    @cached_property
    def settings(self) -> Settings:
        return Settings.load(self.flags)

    @property
    def service(self) -> tuple[str, str]:
        """URL and key of the configured service, else of the service of this store; URL "" if none runs."""
        from cofio.server import daemon

        return daemon.locate(self.settings)

    def memories(self, *, new: bool = False) -> Memories:
        """Return the client of the configured service, else of the service of this store, else the store itself.

        With `new`, a missing store file that was configured explicitly is created; otherwise it is an error, since the
        path may be mistyped.
        """
        from cofio.client import Client

        url, key = self.service
        return Client(url, key, timeout=_PATIENCE) if url else self.store(new=new)

    def store(self, *, new: bool = False) -> Memories:
        """Return the client of the configured service, else the store itself, which needs no key even if served."""
        from cofio.client import Client

        settings = self.settings
        if settings.url:
            return Client(*self.service, timeout=_PATIENCE)
        if not new and settings.missing_file:
            hint = "`cofio add` creates it; --store or COFIO_STORE names another."
            raise NotFound(f"There is no store at {settings.missing_file}.", hint)
        return self.open_keeper(settings)

    def print_json(self, document: Any) -> bool:
        """Print the document if JSON was asked for. Return whether it was."""
        if self.as_json:
            output.document(document)
        return self.as_json

    def print_table(
        self, document: Any, columns: Sequence[output.Field], rows: Iterable[Sequence[Any]], empty: str = ""
    ) -> None:
        """Print the document as JSON if asked for, else the rows as a table, or a sentence if there are none."""
        if not self.print_json(document) and not output.table(columns, rows) and empty:
            output.say(empty)

    def print_facts(self, document: Mapping[str, Any]) -> None:
        """Print a document as JSON if asked for, else its fields, one per line."""
        if not self.print_json(document):
            output.facts_about(document.items())

    def print_text(self, document: Any, text: str, empty: str = "") -> None:
        """Print a document as JSON if asked for, else a text, or a sentence if it is empty."""
        if self.print_json(document):
            return
        if text or not empty:
            click.echo(output.safe(text))
        else:
            output.say(empty)

    def print_sentence(self, document: Any, sentence: str) -> None:
        """Print a document as JSON if asked for, else a sentence."""
        if not self.print_json(document):
            output.say(sentence)

    def is_confirmed(self, question: str, *, yes: bool) -> bool:
        """Ask for confirmation, unless `yes`; return the answer, and say so if nothing is changed."""
        if yes:
            return True
        click.echo(f"{question} [y/N] ", err=True, nl=False)
        answer = sys.stdin.readline()
        if not answer:
            raise InvalidInput(
                "The question was not answered: standard input is empty.", "Give --yes to proceed without confirmation."
            )
        is_yes = answer.strip().lower() in ("y", "yes")
        if not is_yes:
            output.say("Nothing was changed.")
        return is_yes

    def refuse_service(self, name: str) -> None:
        """Raise an error if a service is configured: the command needs the store itself."""
        if self.settings.url:
            hint = "Omit --url, unset COFIO_URL, and run the command on the machine of the store."
            raise InvalidInput(f"{name} works on the store itself, not through a service.", hint)

    def refuse_running_service(self, name: str, reason: str) -> None:
        """Raise an error if a service uses the store, or is configured."""
        from cofio.server import daemon

        self.refuse_service(name)
        if instance := daemon.find(self.settings):
            raise Conflict(f"A service uses the store (pid {instance.pid}).", f"Stop it with `cofio down`: {reason}.")

    def project(self, reference: str = ".") -> str:
        """Return the project for an argument: a folder is resolved to its project, anything else is a project name.

        The project of the current folder is named as by hooks: COFIO_PROJECT wins.
        """
        try:
            is_path = reference.startswith((".", "~", "/")) or (reference != "" and Path(reference).is_dir())
        except OSError:  # for example a name that is too long
            is_path = False
        if not is_path:
            return reference
        here = Path.cwd()
        try:
            name = project_at(str(here / Path(reference).expanduser()))
        except RuntimeError as error:
            raise InvalidInput(f"The home folder in {reference} is unknown.", "Give an absolute path.") from error
        return self.settings.project or name if name == project_at(str(here)) else name


pass_session = click.make_pass_decorator(CliContext, ensure=True)


# ── options that every command takes, before its name and after ──────────────────────────────────────────────────────


def _set_flag(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and parameter.name:
        context.ensure_object(CliContext).flags[parameter.name] = value


def _set_as_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(CliContext).as_json = True


def flag(*names: str, **about: Any) -> Callable[[_Command], _Command]:
    """Return an option for the setting of the same name."""
    return click.option(*names, callback=_set_flag, expose_value=False, **about)


_WHERE = (
    ("--home", "FOLDER", "Folder for the store, the models and config.toml. Default: ~/.cofio."),
    ("--store", "URL", "Store: sqlite:///PATH, a path, or postgresql://…."),
    ("--url", "URL", "Use the service at this URL."),
    ("--api-key", "KEY", "API key for the service."),
)


def where(*, hidden: bool) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the options for the store and the service, and `--json`."""

    def decorated(command: _Command) -> _Command:
        wrapped = click.option(
            "--json", is_flag=True, callback=_set_as_json, expose_value=False, help="Print one JSON document."
        )(command)
        for name, metavar, text in reversed(_WHERE):
            wrapped = flag(name, hidden=hidden, metavar=metavar, help=text)(wrapped)
        return wrapped

    return decorated


def examples(*lines: str) -> str:
    """Return the epilog with the examples of a command."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def command(name: str, *lines: str, group: click.Group | None = None) -> Callable[[_Command], click.Command]:
    """Return a decorator for a command, of a group or not, with its examples; the session is its first argument."""

    def decorated(function: _Command) -> click.Command:
        wrapped = where(hidden=True)(pass_session(function))
        result: click.Command = click.command(name, epilog=examples(*lines))(wrapped)
        if group:
            group.add_command(result)
        return result

    return decorated


def command_group(name: str, *lines: str, **options: Any) -> Callable[[_Command], click.Group]:
    """Return a decorator for a group of commands, with its examples."""

    def decorated(function: _Command) -> click.Group:
        decorator: Callable[[_Command], click.Group] = click.group(name, epilog=examples(*lines), **options)
        return decorator(where(hidden=True)(function))

    return decorated


# ── options that several commands take ────────────────────────────────────────────────────────────────────────────────


why_option = click.option("--why", default="", metavar="TEXT", help="Reason recorded in the history.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def limit_option(default: int, what: str, most: int | None = None, *, short: bool = True) -> _Option:
    """Return the option for the maximum number of results."""
    kind = click.IntRange(1, most) if most else click.INT
    names = ("-n", "--limit") if short else ("--limit",)
    return click.option(*names, type=kind, default=default, show_default=True, help=f"Maximum number of {what}.")


def with_options(options: Iterable[_Option]) -> _Option:
    """Return a decorator that adds these options to a command."""

    def decorated(function: Any) -> Any:
        for option in reversed(list(options)):
            function = option(function)
        return function

    return decorated


def _gather_options(name: str, options: Mapping[str, _Option]) -> Callable[[_Command], Callable[..., Any]]:
    """Return a decorator that adds options, by parameter, and passes those that were given as one dictionary."""

    def decorated(function: _Command) -> Callable[..., Any]:
        @wraps(function)
        def called(session: CliContext, /, **params: Any) -> Any:
            values = {key: value for key in options if (value := params.pop(key)) is not None and value != ()}
            if "project" in values:
                values["project"] = session.project(values["project"])
            return function(session, **params, **{name: values})

        wrapped: Callable[..., Any] = with_options(options.values())(called)
        return wrapped

    return decorated


def _text(name: str, description: str, metavar: str = "NAME", *parameter: str, **attributes: Any) -> _Option:
    return click.option(f"--{name}", *parameter, metavar=metavar, help=description, **attributes)


def _choice(name: str, choices: Sequence[str], description: str, **attributes: Any) -> _Option:
    return click.option(f"--{name}", type=click.Choice(choices), help=description, **attributes)


_SINCE = "Only memories created since this time: 2026-02-20, or 7d for 7 days ago."
within = _gather_options(
    "within",
    {
        "source": _text("source", "Only memories of exactly this source.", "SOURCE"),
        "source_prefix": _text("source-prefix", "Only memories of this source and of those below it.", "SOURCE"),
        "project": _text("project", f'Only memories of this project: {PROJECT}; "" for no project.', "PROJECT"),
        "category": _choice("category", CATEGORIES, "Only memories of this category."),
        "kind": _choice("kind", KINDS, "Only memories of this kind."),
        "method": _choice("method", METHODS, "Only memories that were extracted by this method."),
        "tags": _text(
            "tag", "Only memories with this tag; if repeated, with all of them.", "TAG", "tags", multiple=True
        ),
        "session": _text("session", "Only memories of this session."),
        "agent": _text("agent", "Only memories of this agent."),
        "user": _text("user", 'Only memories of this user; "" for no user.'),
        "team": _text("team", "Only memories of this team."),
        "visibility": _choice(
            "visibility", VISIBILITIES, "Only memories with this visibility; may be repeated.", multiple=True
        ),
        "since": click.option("--since", type=output.TimeType(-1), help=_SINCE),
        "until": click.option("--until", type=output.TimeType(-1), help="Only memories created until this time."),
        "pinned": click.option(
            "--pinned/--not-pinned", default=None, help="Only pinned memories, or only those that are not pinned."
        ),
        "include_archived": click.option(
            "--archived", "include_archived", is_flag=True, default=None, help="Include archived memories."
        ),
    },
)

_FACT_FIELDS: dict[str, _Option] = {
    "source": _text("source", "Source to store with the memory: client/project.", "SOURCE"),
    "project": _text("project", f"Project of the memory: {PROJECT}.", "PROJECT"),
    "kind": _choice("kind", KINDS, "Kind of the memory."),
    "category": _choice("category", CATEGORIES, "Category, which sets how long the memory is kept. Default: by kind."),
    "confidence": click.option("--confidence", type=click.FloatRange(0, 1), help="Confidence to store, from 0 to 1."),
    "tags": _text("tag", "Tag to store with the memory; may be repeated.", "TAG", "tags", multiple=True),
    "entities": _text("entity", "Named entity in the text; may be repeated.", "NAME", "entities", multiple=True),
    "session": _text("session", "Session that the memory comes from."),
    "agent": _text("agent", "Agent that the memory comes from."),
    "user": _text("user", "User who owns the memory."),
    "team": _text("team", "Team that owns the memory."),
    "visibility": _choice("visibility", VISIBILITIES, "Who may see the memory."),
    "speaker": _text("speaker", "Person who stated the fact."),
    "context": _text("context", "Text that preceded the fact in the conversation; helps to find it.", "TEXT"),
}


def fact_fields(*names: str) -> Callable[[_Command], Callable[..., Any]]:
    """Return a decorator that adds the options for these fields of a fact, or for all, and passes them as `about`."""
    return _gather_options("about", {name: _FACT_FIELDS[name] for name in names or _FACT_FIELDS})


@contextmanager
def ended_in_order() -> Iterator[None]:
    """End the command on SIGTERM and SIGHUP as on Ctrl-C, with its clean-up.

    Ignored signals, as under `nohup`, stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: Any) -> None:
        sys.exit(128 + number)

    signals = [signum for signum in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(signum) is signal.SIG_DFL]
    for signum in signals:
        signal.signal(signum, leave)
    try:
        yield
    finally:
        for signum in signals:
            signal.signal(signum, signal.SIG_DFL)
