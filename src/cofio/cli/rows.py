"""How a person names the rows of domain knowledge and writes what is in them: what the commands on them take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from cofio.cli.session import Session
from cofio.domain import TABLES, VERDICTS, as_quantity
from cofio.errors import CofioError, InvalidInput
from cofio.model import VISIBILITIES, moment

_COMPLETED = 50  # names that a shell is told
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Ref(NamedTuple):
    """A row, as a person names it: thresholds/aapl.volume.above."""

    table: str
    key: str


class RefType(click.ParamType[Ref]):
    """A row of a table; a shell completes it."""

    name = "ref"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ref:
        table, _, key = str(value).partition("/")
        if table not in TABLES or not key:
            hint = f"Name it as TABLE/ID, such as thresholds/aapl.volume.above; the tables are {', '.join(TABLES)}."
            self.fail(f"{value!r} names no row. {hint}", param, ctx)
        return Ref(table, key)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The tables; behind one, its rows."""
        _ = param
        table, slash, _ = incomplete.partition("/")
        if not slash or table not in TABLES:
            return [CompletionItem(f"{each}/") for each in TABLES if each.startswith(table)]
        try:
            with (ctx.find_object(Session) or Session()).memories() as memories:
                found = memories.knowledge.list(table, limit=1_000)
        except CofioError:
            return []  # a shell that waits for names is no place to complain
        named = [CompletionItem(each.ref, help=each.says[:60]) for each in found if each.ref.startswith(incomplete)]
        return named[:_COMPLETED]


class QuantityType(click.ParamType[tuple[float, str]]):
    """A number as people write it, with its unit."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, str]:
        try:
            return as_quantity(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint}", param, ctx)


class TimeType(click.ParamType[str]):
    """A time, past or to come."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return moment(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint}", param, ctx)


class VerdictType(click.Choice[str]):
    """A verdict; the words of it may stand with a hyphen, as on a command line, or as they are kept."""

    def __init__(self) -> None:
        super().__init__([each.replace("_", "-") for each in VERDICTS])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(str(value).replace("_", "-"), param, ctx)).replace("-", "_")


WHOSE = (
    click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see it."),
    click.option("--agent", metavar="NAME", help="The agent that it comes from."),
    click.option("--user", metavar="NAME", help="Whose it is."),
    click.option("--team", metavar="NAME", help="Whose team's."),
    click.option("--place", metavar="SOURCE", help="The source of memories that it was told in: client/project."),
    click.option("--why", default="", metavar="TEXT", help="A reason, for the journal."),
)
CLAIM = (
    click.option("--confidence", type=click.FloatRange(0, 1), help="How sure it is; 0.5 at first."),
    click.option("--id", "id", metavar="NAME", help="What it is called in its table; else by what it says."),
    *WHOSE,
)


def taking(options: Sequence[Callable[..., Any]]) -> Callable[[_Command], _Command]:
    """A command that takes these options too."""

    def decorated(function: _Command) -> _Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated
