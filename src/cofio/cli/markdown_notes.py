"""Commands on Markdown notes: flush, index, status, export, watch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.output import WHEN, Field
from cofio.cli.shared_options import BY, CliContext, command, command_group, fact_fields, within
from cofio.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    from cofio.models.markdown_notes import IndexResult

_STDIN = "-"
_EVERY = 5.0  # seconds between two scans
_SHOWN = 20  # skipped files that are listed


@command_group("notes", 'cofio notes flush "We chose Drizzle over Prisma." --tag orm', "cofio notes index ~/vault")
def notes() -> None:
    """Import Markdown notes as memories, and export memories as notes.

    The memories of a folder follow its files: an edit updates them, a deletion archives them.
    """


@command(
    "flush",
    'cofio notes flush "We chose Drizzle over Prisma: migrations are plain SQL." --tag orm --tag decision',
    "cat summary.md | cofio notes flush - --tag standup",
    group=notes,
)
@click.argument("summary", required=False)
@fact_fields("tags", "project", "kind", "category", "session", "agent", "user", "team", "visibility")
def flush(session: CliContext, summary: str | None, about: dict[str, Any]) -> None:
    """Write SUMMARY to a Markdown file in the notes folder, and add it as a memory.

    With - for SUMMARY, or without it in a pipe, standard input is read.
    """
    if summary is None and sys.stdin.isatty():
        raise click.UsageError("No summary was given. Give a summary, or - to read it from standard input.")
    if summary in (None, _STDIN):
        try:
            summary = sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput("The input is not UTF-8.", "Nothing was written. Convert the input to UTF-8.") from error
    tags = about.pop("tags", ())
    with session.memories(new=True) as memories:
        change = memories.notes.flush(str(summary), tags, by=BY, **about)
    file = change.memory.source.removeprefix("file:")
    result = {"id": change.memory_id, "action": change.action, "changeset": change.changeset, "file": file}
    if session.print_json({**result, "memory": change.memory}):
        return
    click.echo(output.one_line(file))
    output.say(f"Added as memory {change.memory_id}; `cofio undo {change.changeset}` reverts it.")


@command(
    "index",
    "cofio notes index",
    "cofio notes index ~/vault --dry-run",
    "cofio notes index docs --label handbook",
    group=notes,
)
@click.argument("folder", required=False)
@click.option(
    "--label", default="", metavar="NAME", help="Name for the folder in the source of its memories. Default: by folder."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
def index(session: CliContext, folder: str | None, label: str, dry_run: bool) -> None:
    """Sync memories with the Markdown files of FOLDER.

    Only new and changed files are read; memories of deleted files are archived. Without a FOLDER, the folder that
    `cofio notes flush` writes to is indexed. All changes of a run are one changeset.
    """
    from cofio.client import Client

    place = None if folder is None else _resolve_folder(folder)
    with session.memories(new=not dry_run) as memories:
        if isinstance(memories, Client):  # a service reports no progress
            result = memories.notes.index(place, label=label, dry_run=dry_run, by=BY)
        else:
            with output.progress("Reading", 100, hidden=session.as_json) as bar:
                how: dict[str, Any] = {"label": label, "dry_run": dry_run, "progress": bar.move_to_percent}
                result = memories.notes.index(place, by=BY, **how)
    _print_result(session, result)


def _resolve_folder(folder: str) -> Path:
    """Return the absolute path: a service has another working folder."""
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInput(f"The home folder in {folder} is unknown.", "Give an absolute path.") from error


def _print_result(session: CliContext, result: IndexResult) -> None:
    if session.print_json(result):
        return
    output.say_skipped(result.skipped, _SHOWN)
    files = f"{output.count(result.files, 'file')}, {result.read:,} new or changed, {result.gone:,} deleted"
    would = "would be " if result.dry_run else ""
    counts = (("added", result.added), ("updated", result.updated), ("archived", result.archived))
    did = ", ".join(f"{number:,} {would}{name}" for name, number in counts if number) or "no memory changes"
    back = f"; `cofio undo {result.changeset}` reverts it" if result.changeset else ""
    output.say(f"{files}: {did}{back}.")
    if result.unembedded:
        number = output.count(result.unembedded, "memory has", "memories have")
        output.say(f"{number} no vector yet and can be found by keywords only; `cofio reembed --missing` computes it.")


@command("status", "cofio notes status", "cofio notes status --json", group=notes)
def status(session: CliContext) -> None:
    """List the indexed and followed folders, with the time of the last scan."""
    with session.memories() as memories:
        folders = memories.notes.folders()
    rows = []
    for folder in folders:
        state = "followed" if folder.followed else ""
        rows.append((folder.folder, folder.files, output.when(folder.read_at), state if folder.there else "missing"))
    columns = (Field("folder", "cyan", wraps=True), Field("files", align="right"), WHEN, Field("", "dim"))
    empty = "No folder is indexed yet; `cofio notes index FOLDER` indexes one."
    session.print_table({"folders": folders}, columns, rows, empty)


@command(
    "export", "cofio notes export ~/vault/memories", "cofio notes export vault --project . --kind policy", group=notes
)
@click.argument("folder")
@within
def export(session: CliContext, folder: str, within: dict[str, Any]) -> None:
    """Write memories into FOLDER, one Markdown note each, readable by Obsidian and similar tools.

    `cofio notes index FOLDER` reads edits back. The options select the memories.
    """
    place = _resolve_folder(folder)
    if not session.settings.url:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)  # private: file names reveal the texts of memories
        except FileExistsError as error:
            raise InvalidInput(f"{place} is not a folder.", "Name an existing or a new folder.") from error
        except OSError as error:
            message = f"{place} cannot be created: {error.strerror}."
            raise StoreError(message, "Check the path and its permissions.") from error
    with session.memories() as memories:
        result = memories.notes.export(place, **within)
    if session.print_json(result):
        return
    output.say_skipped(result.skipped, _SHOWN)
    removals = f", {result.removed:,} removed" if result.removed else ""
    output.say(f"{place} has {output.count(result.notes, 'note')}: {result.written:,} written now{removals}.")


@command("watch", "cofio notes watch ~/vault", "cofio notes watch docs --every 1", group=notes)
@click.argument("folder")
@click.option(
    "--every", type=click.FloatRange(0.1, 3_600), default=_EVERY, show_default=True, help="Seconds between scans."
)
def watch(session: CliContext, folder: str, every: float) -> None:
    """Follow FOLDER until Ctrl-C: changes become memories a few seconds later.

    The command works on the store itself. The service can follow folders too: set COFIO_NOTES_FOLDERS, or run `cofio
    config set notes_folders`, and restart the service.
    """
    if session.settings.url:
        hint = "Name the folder in COFIO_NOTES_FOLDERS where the service runs, or omit --url and COFIO_URL."
        raise InvalidInput("watch reads files of this machine, but --url or COFIO_URL names a service.", hint)
    from cofio.server.background.notes_watcher import NotesWatcher

    def report(result: IndexResult) -> None:
        _print_result(session, result)
        sys.stdout.flush()

    place = _resolve_folder(folder)
    with session.open_keeper(session.settings) as keeper:
        watcher = NotesWatcher(keeper, [place], every=every, on_sync=report)
        keeper.notes.look(place)  # report a missing folder now
        output.say(f"Following {place}; Ctrl-C ends it.")
        try:
            watcher.run()
        except KeyboardInterrupt:
            output.say("Stopped. The memories are kept.")
