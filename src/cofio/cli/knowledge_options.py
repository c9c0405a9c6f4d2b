"""Parameter types and shared options for the commands on domain knowledge."""

from __future__ import annotations

from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from cofio.cli.shared_options import CliContext, why_option
from cofio.errors import CofioError, InvalidInput
from cofio.models.domain_knowledge import TABLES, VERDICTS, as_quantity
from cofio.models.memory import VISIBILITIES

_COMPLETED = 50  # maximum number of completions


class Ref(NamedTuple):
    """Reference to a row: thresholds/aapl.volume.above."""

    table: str
    key: str


class RefType(click.ParamType[Ref]):
    """Reference to a row of a table, with shell completion."""

    name = "ref"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ref:
        table, _, key = str(value).partition("/")
        if table not in TABLES or not key:
            hint = f"Write TABLE/ID, such as thresholds/aapl.volume.above; the tables are {', '.join(TABLES)}."
            self.fail(f"{value!r} does not name a row. {hint}", param, ctx)
        return Ref(table, key)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the tables, and the rows of a table."""
        _ = param
        table, slash, _ = incomplete.partition("/")
        if not slash or table not in TABLES:
            return [CompletionItem(f"{name}/") for name in TABLES if name.startswith(table)]
        try:
            with (ctx.find_object(CliContext) or CliContext()).memories() as memories:
                rows = memories.knowledge.list(table, limit=1_000)
        except CofioError:
            return []  # no errors during completion
        items = [CompletionItem(row.ref, help=row.says[:60]) for row in rows if row.ref.startswith(incomplete)]
        return items[:_COMPLETED]


class QuantityType(click.ParamType[tuple[float, str]]):
    """A number with an optional unit."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, str]:
        try:
            return as_quantity(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint}", param, ctx)


class VerdictType(click.Choice[str]):
    """A verdict, written with hyphens or underscores."""

    def __init__(self) -> None:
        super().__init__([verdict.replace("_", "-") for verdict in VERDICTS])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(str(value).replace("_", "-"), param, ctx)).replace("-", "_")


OWNER = (
    click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see the row."),
    *(
        click.option(f"--{name}", metavar="NAME", help=f"{name.capitalize()} that the row is stored for.")
        for name in ("agent", "user", "team")
    ),
    click.option(
        "--place",
        metavar="SOURCE",
        help="Source that the row comes from, as client/project; keys limited to sources need it.",
    ),
    why_option,
)
CLAIM = (
    click.option("--confidence", type=click.FloatRange(0, 1), help="Confidence from 0 to 1. Default: 0.5."),
    click.option("--id", "id", metavar="NAME", help="Id of the row in its table. Default: derived from its content."),
    *OWNER,
)
