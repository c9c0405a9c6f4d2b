"""Output of commands: a JSON document, a table on a terminal, or tab-separated lines for other programs.

Texts of memories are data: never parsed as markup, and their control characters never reach the terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import click

from cofio.errors import InvalidInput
from cofio.models.memory import to_utc_iso

# C0 and C1 except the newline, and characters that reorder or break lines invisibly.
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Field:
    """Format of a column on a terminal."""

    name: str
    style: str = ""
    align: Literal["left", "right"] = "left"
    wraps: bool = False


_LONGEST = 400  # maximum characters of a text in a table on a terminal; `cofio show` prints all of it

ID = Field("id", "cyan", "right")
TEXT = Field("memory", wraps=True)
SOURCE = Field("source", "dim", wraps=True)
WHEN = Field("when", "dim")
PROVENANCE = Field("provenance", "dim")


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def document(value: Any) -> None:
    """Print one JSON document. It may contain values of the model."""
    plain_ascii = "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
    click.echo(json.dumps(_to_plain(value), ensure_ascii=plain_ascii, indent=2 if on_terminal() else None))


def _to_plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _to_plain(item) for name, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def table(columns: Sequence[Field], rows: Iterable[Sequence[Any]]) -> int:
    """Print a table on a terminal, elsewhere tab-separated lines without headings. Return the number of rows."""
    if not on_terminal():
        lines = ["\t".join(one_line(cell) for cell in row) for row in rows]
        for line in lines:
            click.echo(line)
        return len(lines)
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        layout: Any = {"justify": column.align, "no_wrap": not column.wraps, "overflow": "fold"}
        grid.add_column(column.name, style=column.style, header_style="bold", **layout)
    for row in rows:
        grid.add_row(*(_make_cell(cell, _LONGEST) for cell in row))
    if grid.row_count:
        _print_grid(grid)
    return grid.row_count


def facts_about(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print name and value pairs, one per line; skip empty values."""
    facts = [(name, value) for name, value in pairs if value not in (None, "", (), [], {})]
    if not on_terminal():
        table((), facts)
        return
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(name.replace("_", " "), _make_cell(value))
    _print_grid(grid)


def say(sentence: str) -> None:
    """Print a sentence for the user to standard error, separate from piped output."""
    click.echo(safe(sentence), err=True)


def say_skipped(skipped: Sequence[tuple[str, str]], shown: int) -> None:
    """Print the first skipped files with the reasons, and the number of the others."""
    for path, reason in skipped[:shown]:
        say(f"Skipped: {path}: {reason}")
    if len(skipped) > shown:
        say(f"and {len(skipped) - shown:,} more were skipped.")


def safe(value: Any) -> str:
    """Return the text with control characters escaped, so that escape sequences are shown and not executed."""
    text = str(value).replace("\r\n", "\n")
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def one_line(value: Any) -> str:
    """Return the text on one line, with control characters and newlines escaped."""
    return safe(_join_value(value)).replace("\n", "\\n")


def ago(moment: str) -> str:
    """Return how long ago a time was; the date if it is more than 60 days ago or in the future."""
    then = datetime.fromisoformat(moment)
    seconds = (datetime.now(UTC) - then).total_seconds()
    if not -60 <= seconds < 60 * 86_400:
        return then.astimezone().strftime("%Y-%m-%d")
    return "just now" if seconds < 60 else f"{span(seconds)} ago"


def span(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size:
            return count(int(seconds // size), unit)
    return "0 seconds"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def when(moment: str | None) -> str:
    """Format a time for a table: relative on a terminal, unchanged for programs."""
    return ago(moment) if moment and on_terminal() else moment or ""


class TimeType(click.ParamType[str]):
    """A time: ISO 8601, or a duration before now ("7d") or from now, if `direction` is -1 or 1."""

    name = "time"

    def __init__(self, direction: Literal[-1, 0, 1] = 0) -> None:
        self._direction = direction

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        match = re.fullmatch(r"(\d{1,5})\s*([mhdw])", str(value).strip()) if self._direction else None
        if match:
            unit = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[match[2]]
            return to_utc_iso(datetime.now(UTC) + self._direction * timedelta(**{unit: int(match[1])}))
        try:
            return to_utc_iso(str(value))
        except InvalidInput as error:
            says = {
                -1: " A duration before now is accepted too: 30m, 12h, 7d, 2w.",
                1: " A duration from now is accepted too: 12h, 90d, 8w.",
            }
            self.fail(f"{error.message} {error.hint}{says.get(self._direction, '')}", param, ctx)


@dataclass
class StepOutput:
    """Output of the setup in four steps; silent if a program reads it."""

    silent: bool = False

    def line(self, text: str = "") -> None:
        if not self.silent:
            click.echo(safe(text))

    def begin(self, text: str) -> None:
        """Print the beginning of a line."""
        if not self.silent:
            click.echo(safe(text + "... "), nl=False)

    def end(self, good: bool, text: str = "") -> None:
        self.line(f"{mark(good)} {text}".rstrip())


def mark(good: bool | None) -> str:
    """Return a tick, a cross, or a warning sign; ASCII if the terminal cannot show them."""
    signs = {True: "✓", False: "✗", None: "!"}
    try:
        "✓✗".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        signs = {True: "ok", False: "FAILED", None: "!"}
    return signs[good]


def short(path: Path) -> str:
    """Return the path with ~ for the user's home folder."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


class ProgressBar:
    """A progress bar that can be moved by a number of steps or to a position."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance
        self._position = 0

    def move_to(self, position: int) -> None:
        self.advance(position - self._position)
        self._position = position

    def move_to_percent(self, done: int, total: int) -> None:
        self.move_to(100 * done // max(total, 1))


@contextmanager
def progress(label: str, length: int, *, hidden: bool) -> Iterator[ProgressBar]:
    """Show a progress bar on standard error. Hidden for a single step."""
    is_hidden = hidden or length == 1 or not sys.stderr.isatty()
    with click.progressbar(length=length, label=label, file=sys.stderr, hidden=is_hidden, show_pos=True) as bar:
        yield ProgressBar(bar.update)


def _print_grid(grid: Any) -> None:
    from rich.console import Console

    Console(markup=False, emoji=False, highlight=False).print(grid)


def _make_cell(value: Any, longest: int | None = None) -> Any:
    from rich.text import Text

    if longest and isinstance(value, str) and len(value) > longest:
        value = value[:longest].rstrip() + " …"
    return Text(safe(str(_join_value(value)).replace("\t", "    ")))


def _join_value(value: Any) -> Any:
    if isinstance(value, list | tuple | set):
        return ", ".join(str(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
