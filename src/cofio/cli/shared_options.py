"""State and options shared by all commands: settings, access to the memories, JSON output."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from cofio.cli.output import past
from cofio.errors import InvalidInput, NotFound
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
PROJECT = "a folder of it, or a name"  # help text for a project argument
_PATIENCE = 600.0  # seconds; the user can interrupt, and merging duplicates is slow
_Command = TypeVar("_Command", bound=Callable[..., Any])


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

    def memories(self, *, new: bool = False) -> Memories:
        """Return the client of the configured service, else of the service of this store, else the store itself.

        With `new`, a missing store file that was configured explicitly is created; otherwise it is an error, since the
        path may be mistyped.
        """
        from cofio.client import Client
        from cofio.server import daemon

        settings = self.settings
        instance = None if settings.url else daemon.find(settings)
        if instance and instance.url:
            return Client(instance.url, settings.api_key, timeout=_PATIENCE)
        return self.store(new=new)

    def store(self, *, new: bool = False) -> Memories:
        """Return the client of the configured service, else the store itself, which needs no key even if served."""
        from cofio.client import Client

        settings = self.settings
        if settings.url:
            return Client(settings.url, settings.api_key, timeout=_PATIENCE)
        if not new and settings.missing_file:
            hint = "`cofio add` creates it; --store or COFIO_STORE names another."
            raise NotFound(f"There is no store at {settings.missing_file}.", hint)
        return self.open_keeper(settings)

    def project(self, reference: str = ".") -> str:
        """Return the project for an argument: a folder is resolved to its project, anything else is a project name.

        The project of the current folder is named as by hooks: COFIO_PROJECT wins.
        """
        if not _is_path(reference):
            return reference
        here = Path.cwd()
        try:
            name = project_at(str(here / Path(reference).expanduser()))
        except RuntimeError as error:
            raise InvalidInput(f"There is no home folder for {reference}.", "Give an absolute path.") from error
        return self.settings.project or name if name == project_at(str(here)) else name


def _is_path(reference: str) -> bool:
    """Return whether the argument is written like a path, or names an existing folder."""
    try:
        return reference.startswith((".", "~", "/")) or (reference != "" and Path(reference).is_dir())
    except OSError:  # for example a name that is too long
        return False


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
    ("--home", {"metavar": "FOLDER", "help": "Folder for the store, the models and config.toml."}),
    ("--store", {"metavar": "URL", "help": "Store: sqlite:///PATH, a path, or postgresql://…."}),
    ("--url", {"metavar": "URL", "help": "Use the service at this URL."}),
    ("--api-key", {"metavar": "KEY", "help": "Key for the service."}),
)


def where(*, hidden: bool) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the options for the store and the service, and `--json`."""

    def decorated(command: _Command) -> _Command:
        wrapped = click.option(
            "--json", is_flag=True, callback=_set_as_json, expose_value=False, help="Print one JSON document."
        )(command)
        for name, about in reversed(_WHERE):
            wrapped = flag(name, hidden=hidden, **about)(wrapped)
        return wrapped

    return decorated


def examples(*lines: str) -> str:
    """Return the epilog with the examples of a command."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def command(name: str, *lines: str) -> Callable[[_Command], click.Command]:
    """Return a decorator for a command with the shared options and the session as first argument, and its examples."""

    def decorated(function: _Command) -> click.Command:
        click_command: click.Command = click.command(name, epilog=examples(*lines))(
            where(hidden=True)(pass_session(function))
        )
        return click_command

    return decorated


# ── options that several commands take ────────────────────────────────────────────────────────────────────────────────


class _PastTime(click.ParamType[str]):
    """A past time, or a duration before now."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return past(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint} Or a duration before now: 30m, 12h, 7d, 2w.", param, ctx)


def _gather_options(
    name: str, options: Sequence[Callable[..., Any]], names: Sequence[str]
) -> Callable[[_Command], Callable[..., Any]]:
    """Return a decorator that adds options and passes those that were given as one dictionary."""

    def decorated(function: _Command) -> Callable[..., Any]:
        @wraps(function)
        def called(session: CliContext, /, **params: Any) -> Any:
            all_values = {key: params.pop(key) for key in names}
            values = {key: value for key, value in all_values.items() if value is not None and value != ()}
            if "project" in values:
                values["project"] = session.project(values["project"])
            return function(session, **params, **{name: values})

        wrapped: Callable[..., Any] = called
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorated


within = _gather_options(
    "within",
    (
        click.option("--source", metavar="SOURCE", help="Only memories of exactly this source."),
        click.option("--source-prefix", metavar="SOURCE", help="Only memories of this source and of those below it."),
        click.option("--project", metavar="PROJECT", help=f'Exactly this project: {PROJECT}; "" for none.'),
        click.option("--category", type=click.Choice(CATEGORIES), help="Only memories of this category."),
        click.option("--kind", type=click.Choice(KINDS), help="Only memories of this kind."),
        click.option("--method", type=click.Choice(METHODS), help="Only memories that were extracted by this method."),
        click.option(
            "--tag",
            "tags",
            metavar="TAG",
            multiple=True,
            help="Only memories with this tag; if repeated, with all of them.",
        ),
        click.option("--session", metavar="NAME", help="Only memories of this session."),
        click.option("--agent", metavar="NAME", help="Only memories of this agent."),
        click.option("--user", metavar="NAME", help='Exactly this user; "" for none.'),
        click.option("--team", metavar="NAME", help="Only memories of this team."),
        click.option(
            "--visibility",
            type=click.Choice(VISIBILITIES),
            multiple=True,
            help="Only memories with this visibility; may be repeated.",
        ),
        click.option(
            "--since", type=_PastTime(), help="Only memories created since then: 2026-02-20, or 7d for 7 days ago."
        ),
        click.option("--until", type=_PastTime(), help="Only memories created until then."),
        click.option("--pinned/--not-pinned", default=None, help="Only pinned memories, or only others."),
        click.option("--archived", "include_archived", is_flag=True, default=None, help="Include archived memories."),
    ),
    (
        *("source", "source_prefix", "project", "category", "kind", "method", "tags", "session", "agent", "user"),
        *("team", "visibility", "since", "until", "pinned", "include_archived"),
    ),
)

about = _gather_options(
    "about",
    (
        click.option("--source", metavar="SOURCE", help="Source to store with the memory: client/project."),
        click.option("--project", metavar="PROJECT", help=f"Project: {PROJECT}."),
        click.option("--kind", type=click.Choice(KINDS), help="Kind to store the memory as."),
        click.option(
            "--category", type=click.Choice(CATEGORIES), help="Category, which sets the retention. Default: by kind."
        ),
        click.option("--confidence", type=click.FloatRange(0, 1), help="Confidence to store, from 0 to 1."),
        click.option(
            "--tag", "tags", metavar="TAG", multiple=True, help="Tag to store with the memory; may be repeated."
        ),
        click.option(
            "--entity", "entities", metavar="NAME", multiple=True, help="Named entity in the text; may be repeated."
        ),
        click.option("--session", metavar="NAME", help="Session that the memory comes from."),
        click.option("--agent", metavar="NAME", help="Agent that the memory comes from."),
        click.option("--user", metavar="NAME", help="User who owns the memory."),
        click.option("--team", metavar="NAME", help="Team that owns the memory."),
        click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see the memory."),
        click.option("--speaker", metavar="NAME", help="Person who said it."),
        click.option("--context", metavar="TEXT", help="Text that preceded it in the conversation; helps to find it."),
    ),
    (
        *("source", "project", "kind", "category", "confidence", "tags", "entities", "session", "agent", "user"),
        *("team", "visibility", "speaker", "context"),
    ),
)


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


def agreed(question: str, *, yes: bool) -> bool:
    """Ask for confirmation, unless `yes`; return the answer."""
    if yes:
        return True
    click.echo(f"{question} [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        raise InvalidInput("There was no answer.", "Give --yes to proceed without confirmation.")
    return answer.strip().lower() in ("y", "yes")
