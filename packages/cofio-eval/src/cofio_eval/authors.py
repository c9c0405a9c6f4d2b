"""Measurements by author: one file of labelled rows per author, since each author has a style."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cofio_eval.report import Column, Table

Row = TypeVar("Row")
Outcome = TypeVar("Outcome")
Progress = Callable[[int, int], object]  # (done, total)


def measure(
    rows_by_author: Mapping[str, Sequence[Row]], run: Callable[[Sequence[Row]], Iterable[Outcome]], progress: Progress
) -> dict[str, list[Outcome]]:
    """Return the outcomes of the rows by author. `run` yields the outcome of each row of one author."""
    total, done = sum(map(len, rows_by_author.values())), 0
    outcomes: dict[str, list[Outcome]] = {}
    for author, rows in rows_by_author.items():
        outcomes[author] = []
        for outcome in run(rows):
            outcomes[author].append(outcome)
            done += 1
            progress(done, total)
    return outcomes


def compute_values(
    outcomes_by_author: Mapping[str, Sequence[Outcome]], compute: Callable[[Sequence[Outcome]], dict[str, Any]]
) -> dict[str, Any]:
    """Return the figures of all outcomes, and those of each author under "by_author"."""
    every = [outcome for outcomes in outcomes_by_author.values() for outcome in outcomes]
    return {
        **compute(every),
        "by_author": {author: compute(outcomes) for author, outcomes in outcomes_by_author.items()},
    }


def author_table(values: Mapping[str, Any], columns: Mapping[str, Column], note: str = "") -> Table:
    """Return the figures of each author, and of all if there are several; `columns` are by their place in `values`."""
    rows = dict(values["by_author"])
    if len(rows) > 1:
        rows["all"] = values
    return Table.of("By author", "author", columns, rows, note)


def write_command(subcommand: str, paths: Sequence[Path]) -> str:
    """Return the command line of a measurement."""
    return " ".join(["cofio eval", subcommand, *(path.name for path in paths)])
