"""Commands that measure retrieval, capture, decisions and relevance on your own data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click

from cofio.cli import output
from cofio.cli.session import Session, command, ended_in_order, examples, where
from cofio.errors import InvalidInput

if TYPE_CHECKING:
    from cofio.evaluation.report import Report

_FILE = click.Path(path_type=Path, dir_okay=False)
_PATH = click.Path(path_type=Path)


def _writable(_context: click.Context, _parameter: click.Parameter, folder: Path | None) -> Path | None:
    """The folder, once it is sure that files can be made there: nobody measures for an hour to be told otherwise."""
    if folder is None:
        return None
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with TemporaryFile(dir=there):
            return folder
    except OSError as error:
        said = f"Nothing can be written to {folder}: {error.strerror}."
        raise InvalidInput(said, "Name another folder with --write.") from error


_write = click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_writable,
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
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask a sample of so many questions.")
@_write
def retrieval(session: Session, file: Path, limit: int | None, write: Path | None) -> None:
    """How much of what answers a question is found, how soon, in how few tokens.

    FILE holds conversations with questions about them, one JSON object a line (see docs/how-to/measure.md).
    """
    from cofio.evaluation import retrieval as measure

    with measuring(session) as progress:
        report = measure.evaluate(file, session.settings, limit=limit, progress=progress)
    tell(session, report, write)


@command("turns", "cofio eval turns turns", "cofio eval turns turns.jsonl --split test --json")
@click.argument("paths", type=_PATH, nargs=-1, required=True, metavar="PATH...")
@click.option("--split", type=click.Choice(("dev", "test")), help="Only the turns of this half; labelled turns only.")
@_write
def turns(session: Session, paths: tuple[Path, ...], split: str | None, write: Path | None) -> None:
    """Measure which facts of single turns are kept.

    PATH is a folder of .jsonl files, or such files, one per author, with one JSON object a line: role, before, said,
    facts with their quotes, case. Or it is one file of labelled turns: text, label (store, skip or update), facts, and
    for an update the fact that it replaces; with a language model configured, that is measured too.
    """
    from cofio.evaluation import spans
    from cofio.evaluation import turns as labelled

    quoted = len(paths) > 1 or spans.is_quoted(paths[0])
    if quoted and split:
        raise InvalidInput("Turns with quotes have no halves.", "Leave --split away, or name single files.")
    with measuring(session) as progress:
        if quoted:
            report = spans.evaluate(paths, progress=progress)
        else:
            report = labelled.evaluate(paths[0], session.settings, split=split or "", progress=progress)
    tell(session, report, write)


@command("pairs", "cofio eval pairs pairs", "cofio eval pairs ann.jsonl bob.jsonl --json")
@click.argument("paths", type=_PATH, nargs=-1, required=True, metavar="PATH...")
@_write
def pairs(session: Session, paths: tuple[Path, ...], write: Path | None) -> None:
    """Measure what is decided about a statement beside a stored memory: add, same, update or delete.

    PATH is a folder of .jsonl files, or such files, one per author, with one JSON object a line: memory, said, label.
    """
    from cofio.evaluation import relations as measure

    with measuring(session) as progress:
        report = measure.evaluate(paths, progress=progress)
    tell(session, report, write)


@command("relevance", "cofio eval relevance prompts", "cofio eval relevance ann.jsonl --json")
@click.argument("paths", type=_PATH, nargs=-1, required=True, metavar="PATH...")
@_write
def relevance(session: Session, paths: tuple[Path, ...], write: Path | None) -> None:
    """Measure which memories are found to help with a prompt.

    PATH is a folder of .jsonl files, or such files, one per author, with one JSON object a line: memories, prompt,
    needed (positions of the memories that help, from 0).
    """
    from cofio.evaluation import relevance as measure

    with measuring(session) as progress:
        report = measure.evaluate(paths, progress=progress)
    tell(session, report, write)


@command("streams", "cofio eval streams streams", "cofio eval streams shop.json --failures")
@click.argument("path", type=_PATH)
@click.option("--failures", is_flag=True, help="List the single cases that went wrong.")
@_write
def streams(session: Session, path: Path, failures: bool, write: Path | None) -> None:
    """Measure whole conversations: learn them exchange by exchange, then ask about them.

    PATH is a .json file with exchanges, questions and prompts, or a folder of such files (docs/how-to/measure.md).
    """
    from cofio.evaluation import streams as measure

    with measuring(session) as progress:
        report = measure.evaluate(path, session.settings, failures=failures, progress=progress)
    tell(session, report, write)


@command("devmem", "cofio eval devmem devmembench", "cofio eval devmem devmembench --json")
@click.argument("folder", type=_PATH)
@_write
def devmem(session: Session, folder: Path, write: Path | None) -> None:
    """Measure DevMemBench: capture its sessions, then look for the answers of its questions among ten hits.

    FOLDER holds the sessions and the questions as .json files, "sessions" and "questions" in their names.
    """
    from cofio.evaluation import devmem as measure

    with measuring(session) as progress:
        report = measure.evaluate(folder, session.settings, progress=progress)
    tell(session, report, write)


@command("decisions", "cofio eval decisions pairs.jsonl", "cofio eval decisions facts.jsonl messages.jsonl --json")
@click.argument("files", type=_FILE, nargs=-1, required=True)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Take so many pairs of each file.")
@_write
def decisions(session: Session, files: tuple[Path, ...], sample: int | None, write: Path | None) -> None:
    """Whether what is said is told for new, for known or for a correction; and what passes for a duplicate.

    FILES hold labelled pairs of facts or of messages, one JSON object a line (see docs/how-to/measure.md). Where a
    model is set, it decides too, on the same pairs.
    """
    from cofio.evaluation import decisions as measure

    with measuring(session) as progress:
        report = measure.evaluate(files, session.settings, sample=sample, progress=progress)
    tell(session, report, write)


@contextmanager
def measuring(session: Session) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal, moved by the function that comes back: so much is done, of so much."""
    shown = 0
    with ended_in_order(), output.progress("Measuring", 100, hidden=session.as_json) as advance:

        def moved(so_far: int, total: int) -> None:
            nonlocal shown
            now = 100 * so_far // max(total, 1)
            advance(now - shown)
            shown = now

        yield moved


def tell(session: Session, report: Report, write: Path | None) -> None:
    """The report as it was asked for: one JSON object, or tables; and as files."""
    written = report.write(write) if write else []
    if session.as_json:
        output.document(report.as_dict())
    else:
        click.echo(output.safe(report.text()))
    for path in written:
        output.say(f"Wrote {path}.")


for each in (retrieval, turns, pairs, relevance, streams, devmem, decisions):
    evaluation.add_command(each)
