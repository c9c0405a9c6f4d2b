"""Report of a measurement: tables, plots and figures, rendered as text, JSON or a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cofio.version import __version__
from cofio_eval.environment import in_words, machine
from cofio_eval.metrics import Figure

Cell: TypeAlias = str | int | float | Figure | None


@dataclass(frozen=True, slots=True)
class Column:
    """Table column with its heading and number format. Shares from 0 to 1 are shown in per cent."""

    name: str
    unit: Literal["", "%", "±%", "ms", "s", "MB"] = ""
    digits: int = 1

    def format_cell(self, cell: Cell) -> str:
        """Return the cell as text, with an interval in brackets."""
        if cell is None:
            return "–"
        if isinstance(cell, Figure):
            return f"{self._format(cell.value)} [{self._format(cell.low)}, {self._format(cell.high)}]"
        if isinstance(cell, str):
            return cell
        return self._format(cell) if isinstance(cell, float) or self.unit else f"{cell:,}"

    def _format(self, value: float) -> str:
        factor = 100 if self.unit in ("%", "±%") else 1
        return f"{factor * value:{'+' if self.unit == '±%' else ''},.{self.digits}f}"

    @property
    def heading(self) -> str:
        unit = self.unit.removeprefix("±")
        return f"{self.name}, {unit}" if unit else self.name


@dataclass(frozen=True, slots=True)
class Table:
    """Table with a title, and a note for its readers."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        first: str,
        columns: Mapping[str, Column],
        rows: Mapping[str, Mapping[str, Any]],
        note: str = "",
    ) -> Table:
        """Return a table of values by name. The keys of `columns` are places in the values: "at/1%/found"."""
        cells = [[name, *(_get_cell(values, place) for place in columns)] for name, values in rows.items()]
        return cls(title, [Column(first), *columns.values()], cells, note)


@dataclass(frozen=True, slots=True)
class Report:
    """Result of one measure: `values` is the output of `--json`, with figures as objects.

    `says` are the paragraphs before the tables, `plots` SVG documents by name, `ends` the paragraphs after them.
    """

    name: str
    title: str
    command: str
    intro: Sequence[str]
    values: Mapping[str, Any]
    tables: Sequence[Table]
    plots: Mapping[str, str] = field(default_factory=dict)
    closing: Sequence[str] = ()
    measured_on: dict[str, Any] = field(default_factory=machine)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _to_plain(self.values))

    def as_dict(self) -> dict[str, Any]:
        """Return the figures, then the version, the command and the machine."""
        about = {"measure": self.name, "version": __version__, "command": self.command, "machine": self.measured_on}
        return {**self.values, **about}

    def text(self) -> str:
        """Return the tables for a terminal or a log."""
        parts = [self.title, *self.intro]
        parts += [_render_plain(table) for table in self.tables]
        return "\n\n".join([*parts, *self.closing, f"cofio {__version__} on {in_words(self.measured_on)}"])

    def page(self) -> str:
        """Return the documentation page in Markdown."""
        origin = f"Made by `{self.command}` with cofio {__version__} on: {in_words(self.measured_on)}."
        parts = [f"# {self.title}", origin, *self.intro]
        parts += [_render_markdown(table) for table in self.tables]
        parts += [f"![{name.replace('-', ' ')}]({name}.svg)" for name in self.plots]
        ending = f"The same as JSON, with more digits: [{self.name}.json]({self.name}.json)."
        return "\n\n".join([*parts, *self.closing, ending]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write the page, the figures and the plots into this folder; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"{self.name}.json": json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"}
        files |= {f"{self.name}.md": self.page()} | {f"{name}.svg": plot for name, plot in self.plots.items()}
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
        return [folder / name for name in files]


def _to_plain(value: Any) -> Any:
    """Return a value with its figures, at any depth, as dictionaries."""
    if isinstance(value, Figure):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {name: _to_plain(part) for name, part in value.items()}
    return [_to_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _get_cell(values: Any, place: str) -> Cell:
    for name in place.split("/"):
        values = getattr(values, name) if isinstance(values, Figure) else values and values.get(name)
    return values  # type: ignore[no-any-return]


def _render_plain(table: Table) -> str:
    rows = [[column.heading for column in table.columns], *_format_rows(table)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(filter(None, [table.title, *lines, table.note]))


def _render_markdown(table: Table) -> str:
    columns = [_escape_cell(column.heading) for column in table.columns]
    lines = [f"| {' | '.join(columns)} |", "|" + "|".join(["---"] + ["---:"] * (len(columns) - 1)) + "|"]
    lines += [f"| {' | '.join(map(_escape_cell, row))} |" for row in _format_rows(table)]
    return "\n\n".join(filter(None, [f"## {table.title}", "\n".join(lines), table.note]))


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _format_rows(table: Table) -> list[list[str]]:
    return [[column.format_cell(cell) for column, cell in zip(table.columns, row, strict=True)] for row in table.rows]
