"""The commands that measure: how well it finds, keeps and decides, on data of yours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cofio.cli import output
from cofio.cli.session import Session, command, examples, where

if TYPE_CHECKING:
    from cofio.evaluation.report import Report

_FILE = click.Path(path_type=Path, dir_okay=False)
_write = click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write page, JSON and plots here.",
)


@click.group(
    "eval",
    epilog=examples("cofio eval retrieval conversations.jsonl", "cofio eval retrieval conversations.jsonl --json"),
)
@where(hidden=True)
def evaluation() -> None:
    """Measure on your own data how well it finds, keeps and decides. Your store is not touched."""


@command("retrieval", "cofio eval retrieval conversations.jsonl", "cofio eval retrieval conversations.jsonl --json")
@click.argument("file", type=_FILE)
@_write
def retrieval(session: Session, file: Path, write: Path | None) -> None:
    """How much of what answers a question is found: conversations and questions, one JSON object a line."""
    from cofio.evaluation import retrieval as measure

    tell(session, measure.evaluate(file, session.settings), write)


def tell(session: Session, report: Report, write: Path | None) -> None:
    """The report as it was asked for: one JSON object, or tables; and as files."""
    written = report.write(write) if write else []
    if session.as_json:
        output.document(report.as_dict())
    else:
        click.echo(report.text())
    for path in written:
        output.say(f"Wrote {path}.")


for each in (retrieval,):
    evaluation.add_command(each)
