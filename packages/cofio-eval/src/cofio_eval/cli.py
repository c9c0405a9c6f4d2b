"""Commands that measure retrieval, extraction, decisions and relevance on your own data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click

from cofio.cli import output
from cofio.cli.shared_options import CliContext, command, command_group, ended_in_order
from cofio.errors import InvalidInput

if TYPE_CHECKING:
    from cofio_eval.report import Report

_FILE = click.Path(path_type=Path, dir_okay=False)
_PATH = click.Path(path_type=Path)


def _check_writable(_context: click.Context, _parameter: click.Parameter, folder: Path | None) -> Path | None:
    """Return the folder after a test write, so that an hour of measuring is not lost to an unwritable folder."""
    if folder is None:
        return None
    ancestor = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    try:
        with TemporaryFile(dir=ancestor):
            return folder
    except OSError as error:
        message = f"{folder} is not writable: {error.strerror}."
        raise InvalidInput(message, "Name another folder with --write.") from error


_write = click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_check_writable,
    metavar="FOLDER",
    help="Also write the report to this folder, as Markdown and as JSON.",
)


@command_group("eval", "cofio eval retrieval conversations.jsonl", "cofio eval retrieval conversations.jsonl --json")
def evaluation() -> None:
    """Measure retrieval, capture and decisions on your own data. Your store is not changed."""


@command(
    "retrieval",
    "cofio eval retrieval conversations.jsonl",
    "cofio eval retrieval conversations.jsonl --json",
    group=evaluation,
)
@click.argument("file", type=_FILE)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask a sample of N questions instead of all.")
@_write
def retrieval(session: CliContext, file: Path, limit: int | None, write: Path | None) -> None:
    """Measure retrieval: recall, latency and tokens of the results.

    FILE holds conversations with questions about them, one JSON object per line (see docs/how-to/measure.md).
    """
    from cofio_eval import retrieval as measure

    _measure(session, write, partial(measure.evaluate, file, session.settings, limit=limit))


@command("turns", "cofio eval turns turns", "cofio eval turns ann.jsonl bob.jsonl --json", group=evaluation)
@click.argument("paths", type=_PATH, nargs=-1, required=True, metavar="PATH...")
@_write
def turns(session: CliContext, paths: tuple[Path, ...], write: Path | None) -> None:
    """Measure which facts are extracted from single turns.

    PATH is a folder of .jsonl files, or such files, one per author. Each line is one JSON object with the fields role,
    before, said, facts (with quotes) and case; docs/how-to/measure.md describes them.
    """
    from cofio_eval import spans as measure

    _measure(session, write, partial(measure.evaluate, paths))


@command("pairs", "cofio eval pairs pairs", "cofio eval pairs ann.jsonl bob.jsonl --json", group=evaluation)
@click.argument("paths", type=_PATH, nargs=-1, required=True, metavar="PATH...")
@_write
def pairs(session: CliContext, paths: tuple[Path, ...], write: Path | None) -> None:
    """Measure decisions about a statement beside a stored memory: add, same, update or delete.

    PATH is a folder of .jsonl files, or such files, one per author. Each line is one JSON object with the fields
    memory, said and label; docs/how-to/measure.md describes them.
    """
    from cofio_eval import relations as measure

    _measure(session, write, partial(measure.evaluate, paths))


@command("relevance", "cofio eval relevance prompts", "cofio eval relevance ann.jsonl --json", group=evaluation)
@click.argument("paths", type=_PATH, nargs=-1, required=True, metavar="PATH...")
@_write
def relevance(session: CliContext, paths: tuple[Path, ...], write: Path | None) -> None:
    """Measure how well the memories that help with a prompt are recognized.

    PATH is a folder of .jsonl files, or such files, one per author. Each line is one JSON object with the fields
    memories, prompt and needed (positions in memories of those that help, from 0).
    """
    from cofio_eval import relevance_judge as measure

    _measure(session, write, partial(measure.evaluate, paths))


@command("streams", "cofio eval streams streams", "cofio eval streams shop.json --failures", group=evaluation)
@click.argument("path", type=_PATH)
@click.option("--failures", is_flag=True, help="List the cases that failed.")
@_write
def streams(session: CliContext, path: Path, failures: bool, write: Path | None) -> None:
    """Measure whole conversations: learn them exchange by exchange, then ask questions about them.

    PATH is a .json file with exchanges, questions and prompts, or a folder of such files (docs/how-to/measure.md).
    """
    from cofio_eval import streams as measure

    _measure(session, write, partial(measure.evaluate, path, session.settings, failures=failures))


@contextmanager
def measuring(session: CliContext) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; yield a function that takes the work done and the total."""
    with ended_in_order(), output.progress("Measuring", 100, hidden=session.as_json) as bar:
        yield bar.move_to_percent


def _measure(session: CliContext, folder: Path | None, evaluate: Callable[..., Report]) -> None:
    """Print the report as JSON or tables, and write its files."""
    with measuring(session) as progress:
        report = evaluate(progress=progress)
    files = report.write(folder) if folder else []
    session.print_text(report.as_dict(), report.text())
    for path in files:
        output.say(f"Wrote {path}.")
