"""What every command shares: the settings in force, where the memories are, and the options to say so."""

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
from cofio.hooks.project import of as project_at
from cofio.model import CATEGORIES, KINDS, METHODS, VISIBILITIES
from cofio.settings import Settings

if TYPE_CHECKING:
    from cofio.client import Client
    from cofio.keeper import Keeper

    Memories: TypeAlias = Keeper | Client
else:  # neither is loaded before a command needs it
    Memories = Any

BY = "cli"  # who did it, in the journal
PROJECT = "a folder of it, or a name"  # what may be given for one, in the help
_PATIENCE = 600.0  # seconds; a person can stop it, and merging duplicates takes a while
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _assembled(settings: Settings) -> Keeper:
    from cofio import assemble  # heavy, and not needed where a service answers

    return assemble.keeper(settings)


@dataclass
class Session:
    """One run of the command line. Tests hand one in, with an `open_keeper` of their own."""

    open_keeper: Callable[[Settings], Keeper] = _assembled
    flags: dict[str, Any] = field(default_factory=dict)
    as_json: bool = False

    @cached_property
    def settings(self) -> Settings:
        return Settings.load(self.flags)

    def memories(self, *, new: bool = False) -> Memories:
        """The service that was named, else the one that serves this store, else the store itself.

        A store that somebody named is made only by what writes a `new` memory: a typing error is not an empty memory.
        """
        from cofio import daemon
        from cofio.client import Client

        settings = self.settings
        instance = None if settings.url else daemon.find(settings)
        if instance and instance.url:
            return Client(instance.url, settings.api_key, timeout=_PATIENCE)
        return self.store(new=new)

    def store(self, *, new: bool = False) -> Memories:
        """The service that was named, else the store itself, though one may serve it: its owner needs no key."""
        from cofio.client import Client

        settings = self.settings
        if settings.url:
            return Client(settings.url, settings.api_key, timeout=_PATIENCE)
        if not new and settings.missing_file:
            hint = "`cofio add` makes it; --store or COFIO_STORE names another."
            raise NotFound(f"There is no store at {settings.missing_file}.", hint)
        return self.open_keeper(settings)

    def project(self, given: str = ".") -> str:
        """The project that a person means: a folder stands for the one that it belongs to, all else is a name.

        That of the folder at hand is called as the hooks call it: COFIO_PROJECT goes first.
        """
        if not _is_path(given):
            return given
        here = Path.cwd()
        try:
            found = project_at(str(here / Path(given).expanduser()))
        except RuntimeError as error:
            raise InvalidInput(f"There is no home folder for {given}.", "Give the whole path.") from error
        return self.settings.project or found if found == project_at(str(here)) else found


def _is_path(given: str) -> bool:
    """Whether it is written as a path is, or names a folder that is there."""
    try:
        return given.startswith((".", "~", "/")) or (given != "" and Path(given).is_dir())
    except OSError:  # such as a name that is too long for one
        return False


pass_session = click.make_pass_decorator(Session, ensure=True)


# ── options that every command takes, before its name and after ──────────────────────────────────────────────────────


def _flag(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and parameter.name:
        context.ensure_object(Session).flags[parameter.name] = value


def _as_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Session).as_json = True


def flag(*names: str, **about: Any) -> Callable[[_Command], _Command]:
    """An option that stands for a setting of the same name."""
    return click.option(*names, callback=_flag, expose_value=False, **about)


_WHERE = (
    ("--home", {"metavar": "FOLDER", "help": "The folder for the store, the model and config.toml."}),
    ("--store", {"metavar": "URL", "help": "The store to use: sqlite:///PATH, a path, or postgresql://…."}),
    ("--url", {"metavar": "URL", "help": "Talk to the service at this address."}),
    ("--api-key", {"metavar": "KEY", "help": "The key of the service."}),
)


def where(*, hidden: bool) -> Callable[[_Command], _Command]:
    """The options that say where the memories are, and `--json`."""

    def decorated(command: _Command) -> _Command:
        shown = click.option(
            "--json", is_flag=True, callback=_as_json, expose_value=False, help="Print one JSON document."
        )(command)
        for name, about in reversed(_WHERE):
            shown = flag(name, hidden=hidden, **about)(shown)
        return shown

    return decorated


def examples(*lines: str) -> str:
    """The epilog with the examples of a command."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def command(name: str, *lines: str) -> Callable[[_Command], click.Command]:
    """A command that takes the shared options and gets the session first; `lines` are its examples."""

    def decorated(function: _Command) -> click.Command:
        made: click.Command = click.command(name, epilog=examples(*lines))(where(hidden=True)(pass_session(function)))
        return made

    return decorated


# ── options that several commands take ────────────────────────────────────────────────────────────────────────────────


class _Past(click.ParamType[str]):
    """A time, or how long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return past(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint} Or how long ago: 30m, 12h, 7d, 2w.", param, ctx)


def _gathered(
    name: str, options: Sequence[Callable[..., Any]], names: Sequence[str]
) -> Callable[[_Command], Callable[..., Any]]:
    """These options, handed to the command as one dictionary of those that were given."""

    def decorated(function: _Command) -> Callable[..., Any]:
        @wraps(function)
        def called(session: Session, /, **given: Any) -> Any:
            gathered = {each: given.pop(each) for each in names}
            kept = {each: value for each, value in gathered.items() if value is not None and value != ()}
            if "project" in kept:
                kept["project"] = session.project(kept["project"])
            return function(session, **given, **{name: kept})

        wrapped: Callable[..., Any] = called
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorated


within = _gathered(
    "within",
    (
        click.option("--source", metavar="SOURCE", help="Of exactly this source."),
        click.option("--source-prefix", metavar="SOURCE", help="Of this source and what lies below it."),
        click.option(
            "--project", metavar="PROJECT", help=f'Of exactly this one: {PROJECT}; "" is what belongs to none.'
        ),
        click.option("--category", type=click.Choice(CATEGORIES), help="Of this category."),
        click.option("--kind", type=click.Choice(KINDS), help="Of this kind."),
        click.option("--method", type=click.Choice(METHODS), help="Learned in this way."),
        click.option("--tag", "tags", metavar="TAG", multiple=True, help="With this tag; all of them when repeated."),
        click.option("--session", metavar="NAME", help="From this session."),
        click.option("--agent", metavar="NAME", help="From this agent."),
        click.option("--user", metavar="NAME", help='Of exactly this user; "" is what has none.'),
        click.option("--team", metavar="NAME", help="Of exactly this team."),
        click.option("--visibility", type=click.Choice(VISIBILITIES), multiple=True, help="Any of these."),
        click.option("--since", type=_Past(), help="Made since then: 2026-02-20, or 7d ago."),
        click.option("--until", type=_Past(), help="Made until then."),
        click.option("--pinned/--not-pinned", default=None, help="Only what is pinned, or is not."),
        click.option("--archived", "include_archived", is_flag=True, default=None, help="Archived ones too."),
    ),
    (
        *("source", "source_prefix", "project", "category", "kind", "method", "tags", "session", "agent", "user"),
        *("team", "visibility", "since", "until", "pinned", "include_archived"),
    ),
)

about = _gathered(
    "about",
    (
        click.option("--source", metavar="SOURCE", help="Where it belongs: client/project."),
        click.option("--project", metavar="PROJECT", help=f"The project that it holds in: {PROJECT}."),
        click.option("--kind", type=click.Choice(KINDS), help="What kind of fact it is."),
        click.option("--category", type=click.Choice(CATEGORIES), help="How long it is kept; else by the kind."),
        click.option("--confidence", type=click.FloatRange(0, 1), help="How sure it is."),
        click.option("--tag", "tags", metavar="TAG", multiple=True, help="A label; may be repeated."),
        click.option("--entity", "entities", metavar="NAME", multiple=True, help="Whom or what it names; repeatable."),
        click.option("--session", metavar="NAME", help="The session that it comes from."),
        click.option("--agent", metavar="NAME", help="The agent that it comes from."),
        click.option("--user", metavar="NAME", help="Whose it is."),
        click.option("--team", metavar="NAME", help="Whose team's."),
        click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see it."),
        click.option("--speaker", metavar="NAME", help="Who said it."),
        click.option("--context", metavar="TEXT", help="What was said just before."),
    ),
    (
        *("source", "project", "kind", "category", "confidence", "tags", "entities", "session", "agent", "user"),
        *("team", "visibility", "speaker", "context"),
    ),
)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the command as Ctrl-C does: what it has started and made goes with it.

    A signal that is ignored, as under `nohup`, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: Any) -> None:
        sys.exit(128 + number)

    ending = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for each in ending:
        signal.signal(each, leave)
    try:
        yield
    finally:
        for each in ending:
            signal.signal(each, signal.SIG_DFL)


def agreed(question: str, *, yes: bool) -> bool:
    """Whether the person says yes, or has said so before."""
    if yes:
        return True
    click.echo(f"{question} [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        raise InvalidInput("There was no answer.", "Give --yes to go ahead without being asked.")
    return answer.strip().lower() in ("y", "yes")
