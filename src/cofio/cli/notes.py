"""Commands on Markdown notes: flush, index, status, export, watch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.output import WHEN, Field
from cofio.cli.shared_options import BY, PROJECT, CliContext, Memories, command, examples, where, within
from cofio.errors import InvalidInput, StoreError
from cofio.models.memory import CATEGORIES, KINDS, VISIBILITIES

if TYPE_CHECKING:
    from cofio.models.markdown_notes import IndexResult

_STDIN = "-"
_EVERY = 5.0  # seconds between two scans
_FOLDER = Field("folder", "cyan", wraps=True)
_FILES = Field("files", align="right")
_STATE = Field("", "dim")
_SHOWN = 20  # skipped files that are listed


@click.group(
    "notes",
    epilog=examples('cofio notes flush "We chose Drizzle over Prisma." --tag orm', "cofio notes index ~/vault"),
)
@where(hidden=True)
def notes() -> None:
    """Import Markdown notes as memories, and export memories as notes.

    The memories of a folder follow its files: an edit updates them, a deletion archives them.
    """


# ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "flush",
    'cofio notes flush "We chose Drizzle over Prisma: migrations are plain SQL." --tag orm --tag decision',
    "cat summary.md | cofio notes flush - --tag standup",
)
@click.argument("summary", required=False)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Tag of the memory; may be repeated.")
@click.option("--project", metavar="PROJECT", help=f"Project of the memory: {PROJECT}.")
@click.option("--kind", type=click.Choice(KINDS), help="Kind to store the memory as.")
@click.option("--category", type=click.Choice(CATEGORIES), help="Category, which sets the retention. Default: by kind.")
@click.option("--session", "of", metavar="NAME", help="Session that the memory is stored for.")
@click.option("--agent", metavar="NAME", help="Agent that the memory is stored for.")
@click.option("--user", metavar="NAME", help="User that the memory is stored for.")
@click.option("--team", metavar="NAME", help="Team that the memory is stored for.")
@click.option("--visibility", type=click.Choice(VISIBILITIES), help="Visibility of the memory.")
def flush(session: CliContext, summary: str | None, tags: tuple[str, ...], **about: str | None) -> None:
    """Write SUMMARY to a Markdown file in the notes folder, and add it as a memory.

    With - for SUMMARY, or without it in a pipe, standard input is read.
    """
    text = _read_summary(summary)
    fields = {"session" if name == "of" else name: value for name, value in about.items() if value is not None}
    if "project" in fields:
        fields["project"] = session.project(fields["project"])
    with session.memories(new=True) as memories:
        change = memories.notes.flush(text, tags, by=BY, **fields)
    file = change.memory.source.removeprefix("file:")
    if session.as_json:
        result = {"id": change.memory_id, "action": change.action, "changeset": change.changeset, "file": file}
        output.document({**result, "memory": change.memory.as_dict()})
        return
    click.echo(output.one_line(file))
    output.say(f"Added as memory {change.memory_id}; `cofio undo {change.changeset}` reverts it.")


def _read_summary(summary: str | None) -> str:
    if summary is None and sys.stdin.isatty():
        raise click.UsageError("No summary was given. Give a summary, or - to read one.")
    if summary not in (None, _STDIN):
        return str(summary)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput("The input is not UTF-8.", "Nothing was written.") from error


# ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("index", "cofio notes index", "cofio notes index ~/vault --dry-run", "cofio notes index docs --label handbook")
@click.argument("folder", required=False)
@click.option("--label", default="", metavar="NAME", help="Name of the folder in the sources of its memories.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
def index(session: CliContext, folder: str | None, label: str, dry_run: bool) -> None:
    """Sync memories with the Markdown files of FOLDER.

    Only new and changed files are read; memories of deleted files are archived. Without a FOLDER it is the notes
    folder. All changes of a run are one changeset.
    """
    place = None if folder is None else _resolve_folder(folder)
    with session.memories(new=not dry_run) as memories:
        result = _run_index(session, memories, place, label=label, dry_run=dry_run)
    if session.as_json:
        output.document(result.as_dict())
    else:
        _tell(result)


def _resolve_folder(folder: str) -> Path:
    """Return the absolute path: a service has another working folder."""
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInput(f"There is no home folder for {folder}.", "Give an absolute path.") from error


def _run_index(session: CliContext, memories: Memories, folder: Path | None, **how: Any) -> IndexResult:
    from cofio.client import Client

    if isinstance(memories, Client):  # a service reports no progress
        return memories.notes.index(folder, by=BY, **how)
    with output.progress("Reading", 100, hidden=session.as_json) as advance:
        return memories.notes.index(folder, by=BY, progress=_report_percent(advance), **how)


def _report_percent(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    """Return a function that updates a progress bar of 100 steps."""
    previous = 0

    def move_to(so_far: int, total: int) -> None:
        nonlocal previous
        percent = 100 * so_far // max(total, 1)
        advance(percent - previous)
        previous = percent

    return move_to


def _tell(result: IndexResult) -> None:
    _tell_skipped(result.skipped)
    output.say(_summarize(result))
    if result.unembedded:
        number = output.count(result.unembedded, "memory has", "memories have")
        output.say(f"{number} no vector yet, and can be found by words only.")


def _tell_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    for path, why in skipped[:_SHOWN]:
        output.say(f"Skipped: {path}: {why}")
    if len(skipped) > _SHOWN:
        output.say(f"and {len(skipped) - _SHOWN:,} more were skipped.")


def _summarize(result: IndexResult) -> str:
    """Summarise a run in one line."""
    files = f"{output.count(result.files, 'file')}, {result.read:,} new or changed, {result.gone:,} gone"
    would = "would be " if result.dry_run else ""
    counts = (("added", result.added), ("updated", result.updated), ("archived", result.archived))
    did = ", ".join(f"{number:,} {would}{name}" for name, number in counts if number) or "no memory changes"
    back = f"; `cofio undo {result.changeset}` reverts it" if result.changeset else ""
    return f"{files}: {did}{back}."


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("status", "cofio notes status", "cofio notes status --json")
def status(session: CliContext) -> None:
    """List the indexed and followed folders, with the time of the last scan."""
    with session.memories() as memories:
        folders = memories.notes.folders()
    if session.as_json:
        output.document({"folders": [asdict(folder) for folder in folders]})
        return
    rows = (
        (folder.folder, folder.files, output.when(folder.read_at), _format_state(folder.there, folder.followed))
        for folder in folders
    )
    output.table((_FOLDER, _FILES, WHEN, _STATE), rows)
    if not folders:
        output.say("No folder is indexed yet; `cofio notes index FOLDER` indexes one.")


def _format_state(is_there: bool, is_followed: bool) -> str:
    return ("followed" if is_followed else "") if is_there else "missing"


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("export", "cofio notes export ~/vault/memories", "cofio notes export vault --project . --kind policy")
@click.argument("folder")
@within
def export(session: CliContext, folder: str, within: dict[str, Any]) -> None:
    """Write memories into FOLDER, one Markdown note each, readable by Obsidian and similar tools.

    `cofio notes index FOLDER` reads edits back. The options select the memories.
    """
    place = _resolve_folder(folder)
    if not session.settings.url:
        _make_folder(place)
    with session.memories() as memories:
        result = memories.notes.export(place, **within)
    if session.as_json:
        output.document(result.as_dict())
        return
    _tell_skipped(result.skipped)
    removals = f", {result.removed:,} removed" if result.removed else ""
    output.say(f"{place} has {output.count(result.notes, 'note')}: {result.written:,} written now{removals}.")


def _make_folder(place: Path) -> None:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)  # private: its file names reveal the texts of memories
    except FileExistsError as error:
        raise InvalidInput(f"{place} is not a folder.", "Name an existing or a new folder.") from error
    except OSError as error:
        raise StoreError(
            f"{place} cannot be created: {error.strerror}.", "Check the path and its permissions."
        ) from error


# ── watch ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("watch", "cofio notes watch ~/vault", "cofio notes watch docs --every 1")
@click.argument("folder")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3_600),
    default=_EVERY,
    show_default=True,
    help="Seconds between two scans of the folder.",
)
def watch(session: CliContext, folder: str, every: float) -> None:
    """Follow FOLDER until Ctrl-C: changes become memories a few seconds later.

    It works on the store itself. The service can follow folders too: set COFIO_NOTES_FOLDERS, or run `cofio config set
    notes_folders`, and restart it.
    """
    if session.settings.url:
        hint = "Name the folder in COFIO_NOTES_FOLDERS where the service runs, or omit --url and COFIO_URL."
        raise InvalidInput("watch reads this machine's files, but the memories are on another service.", hint)
    from cofio.server.background.notes_watcher import NotesWatcher

    place = _resolve_folder(folder)
    with session.open_keeper(session.settings) as keeper:
        librarian = NotesWatcher(keeper, [place], every=every, told=lambda result: _tell_at_once(session, result))
        keeper.notes.look(place)  # report a missing folder now
        output.say(f"Following {place}; Ctrl-C ends it.")
        try:
            librarian.run()
        except KeyboardInterrupt:
            output.say("Stopped. The memories are kept.")


def _tell_at_once(session: CliContext, result: IndexResult) -> None:
    if session.as_json:
        output.document(result.as_dict())
        sys.stdout.flush()
    else:
        _tell(result)


for subcommand in (flush, index, status, export, watch):
    notes.add_command(subcommand)
