"""Commands that move memories: export, import, copy, backup, restore of a backup. They work on the store itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.output import Field
from cofio.cli.shared_options import BY, PROJECT, CliContext, command
from cofio.errors import InvalidInput, NotFound
from cofio.models.memory import to_utc_iso

if TYPE_CHECKING:
    from cofio.core import Keeper
    from cofio.ports import Store
    from cofio.transfer.importer import ImportResult

_STDOUT = "-"
#: Import formats. A test compares them with the readers, which are too slow to import for the help.
FORMATS = ("auto", "cofio", "mem0", "mem0-qdrant", "mcp-memory-service", "claude-mem", "claude-code", "markdown")


def _now() -> str:
    return to_utc_iso(datetime.now(UTC))


def _open(session: CliContext, name: str, *, new: bool = False) -> Keeper:
    session.refuse_service(name)
    settings = session.settings
    if not new and settings.missing_file:
        raise NotFound(
            f"There is no store at {settings.missing_file}.", "Name an existing store with --store or COFIO_STORE."
        )
    return session.open_keeper(settings)


@command(
    "export",
    "cofio export memories.jsonl",
    "cofio export - | jq -r '.text // empty'     # pipe to other programs",
    "cofio export --vectors full.jsonl",
)
@click.argument("file", default=_STDOUT)
@click.option("--vectors", is_flag=True, help="Include vectors, so that an import need not compute them.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export(session: CliContext, file: str, vectors: bool, force: bool) -> None:
    """Export memories as JSON lines, including archived ones, followed by rows of domain knowledge.

    The same memories give the same bytes: two exports can be compared. Without a FILE, or with -, the output goes to
    standard output.
    """
    with _open(session, "export") as keeper:
        lines = keeper.export_lines(vectors=vectors)
        if file == _STDOUT:
            for line in lines:
                sys.stdout.buffer.write(line.encode())
            return
        from cofio.transfer.export import write

        counts = keeper.stats()
        number, rows = counts["memories"] + counts["archived"], 0

        def count_lines() -> Iterator[str]:
            nonlocal rows
            for line in lines:
                if line.startswith('{"knowledge":'):
                    rows += 1
                else:
                    bar.advance(1)
                yield line

        with output.progress("Exporting", number + 1, hidden=session.as_json) as bar:
            size = write(count_lines(), Path(file).expanduser(), force=force)
    document = {"path": file, "memories": number, "knowledge": rows, "bytes": size}
    session.print_sentence(document, f"{_format_counts(number, rows)} exported to {file}.")


def _format_counts(memories: int, rows: int) -> str:
    """Return the number of memories, and of rows of domain knowledge if there are any."""
    text = output.count(memories, "memory", "memories")
    return f"{text} and {output.count(rows, 'row')} of domain knowledge" if rows else text


@command(
    "import",
    "cofio import memories.jsonl --dry-run",
    "cofio import memories.jsonl",
    "cofio import ~/notes --format markdown --project .",
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=click.Choice(FORMATS), default="auto",
              help="Format: cofio's JSON lines, or another tool's. Default: detected.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.option("--skip-bad", is_flag=True, help="Skip invalid lines, and list them.")
@click.option("--no-embed", is_flag=True, help="Compute no vectors now; `cofio reembed --missing` does it later.")
@click.option("--project", metavar="PROJECT", help=f"Project to set on every imported fact: {PROJECT}.")
@click.option("--source", metavar="SOURCE", help="Source to set on every imported fact: client/project.")
def import_(
    session: CliContext, path: Path, kind: str, project: str | None, source: str | None, no_embed: bool, **how: Any
) -> None:
    """Import an export of cofio, JSON lines that each have a text, or another tool's memories.

    What was imported before is skipped, so run a stopped import again to continue it. `cofio undo` reverts a whole
    import.
    """
    from cofio.transfer import importers
    from cofio.transfer.jsonl_format import JsonlFile

    fields = {"project": None if project is None else session.project(project), "source": source}
    about = {name: value for name, value in fields.items() if value is not None}
    options = {**how, "about": about, "embed": not no_embed, "by": BY}
    path = path.expanduser()
    reader = importers.READERS.get(_detect_format(path, kind))  # None: JSON lines of cofio
    with _open(session, "import", new=True) as keeper:
        try:
            if reader:
                with output.progress("Importing", reader.count(path) or 0, hidden=session.as_json) as bar:
                    options |= {"name": f"{reader.name} {path.name}", "progress": bar.move_to}
                    result = keeper.import_facts(reader.read(path), **options)
            else:
                lines = JsonlFile(path)
                with output.progress("Importing", lines.count(), hidden=session.as_json) as bar:
                    result = keeper.import_lines(lines, name=path.name, progress=bar.move_to, **options)
        except KeyboardInterrupt:
            output.say(
                "What was imported so far is kept: run the import again to continue, or `cofio undo` to revert it."
            )
            raise
    if not session.print_json(result):
        _print_imported(result, embedded=not no_embed)


def _detect_format(path: Path, kind: str) -> str:
    if not path.exists():
        raise NotFound(f"{path} does not exist.", "Give an existing file or folder.")
    if not path.is_file() and not path.is_dir():
        raise InvalidInput(
            f"{path} is not a regular file or a folder.", "Save the input to a file first: an import reads it twice."
        )
    from cofio.transfer import importers
    from cofio.transfer.jsonl_format import is_ours

    if kind != "auto":
        return kind
    if is_ours(path):
        return "cofio"
    try:
        return importers.sniff(path)
    except InvalidInput:
        if is_ours(path, nearly=True):  # then the error names the invalid field
            return "cofio"
        raise


def _print_imported(result: ImportResult, *, embedded: bool) -> None:
    for problem in result.bad:
        output.say(f"Skipped: {problem}")
    if result.skipped > len(result.bad):
        output.say(f"and {result.skipped - len(result.bad):,} more were skipped.")
    would = "would be imported" if result.dry_run else "imported"
    already_known = f", {result.known + result.rows_known:,} known already" if result.known or result.rows_known else ""
    back = f"; `cofio undo {result.first}` reverts it" if result.first else ""
    output.say(f"{_format_counts(result.added, result.rows_added)} {would}{already_known}{back}.")
    if result.missing:
        output.say(f"The file announces {result.missing:,} more than it contains: it may be truncated.")
    if result.first and not embedded:
        output.say(
            "Imported memories are found by keywords only until `cofio reembed --missing` computes their vectors."
        )


@command(
    "copy",
    "cofio copy sqlite:///~/.cofio/cofio.db postgresql://localhost/cofio",
    "cofio copy postgresql://localhost/cofio team.db",
    "cofio copy a.db b.db --json",
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(session: CliContext, source: str, target: str) -> None:
    """Copy one store into another, including archived memories.

    The copy has the ids, links to older versions, pins, occurrences, counts, vectors, the embedder's name and the API
    keys, all from one snapshot; FROM may be in use. TO is a new store or an earlier copy of FROM: run a stopped copy
    again to continue it. At the end everything is read back, and the digests of both stores are compared.

    Not copied are the history of changes (the copy begins its own), the inbox, the logs of retrievals, injections and
    access, past maintenance runs, and the state of indexed notes.
    """
    from cofio.transfer import copy as transfer_copy

    session.refuse_service("copy")
    with _open_stores(session, source, target) as (source_store, target_store):
        total = 2 * source_store.snapshots.counts()[0]  # everything written is read back
        with output.progress("Copying", total, hidden=session.as_json) as bar:
            try:
                result = transfer_copy.copy(source_store, target_store, by=BY, progress=bar.move_to)
            except KeyboardInterrupt:
                output.say("What was copied so far is kept: run the copy again to continue.")
                raise
    if session.print_json(result):
        return
    brought = [(result.added, "new"), (result.changed, "updated"), (result.known, "unchanged")]
    parts = ", ".join(f"{number:,} {label}" for number, label in brought if number)
    removals = f"; {result.removed:,} deleted at the source were removed" if result.removed else ""
    keys = f", and {output.count(result.keys, 'key')}" if result.keys else ""
    number = output.count(result.memories, "memory", "memories")
    rows = f", {output.count(result.knowledge, 'row')} of domain knowledge" if result.knowledge else ""
    episodes = f", {output.count(result.episodes, 'episode')}" if result.episodes else ""
    output.say(f"{number}{f' ({parts})' if parts else ''}{rows}{episodes}{keys}{removals}.")
    output.say(f"Both stores have the digest {result.digest}.")
    output.say(f"Not copied: {transfer_copy.STAYS}.")
    if result.waiting:
        waits = output.count(result.waiting, "capture")
        output.say(f"The inbox of the source has {waits}: let the service process them, then copy again.")


@contextmanager
def _open_stores(session: CliContext, source: str, target: str) -> Iterator[tuple[Store, Store]]:
    """Open both stores. A missing source is not created."""
    from cofio import bootstrap

    settings = [replace(session.settings, store=url, backup_schedule="") for url in (source, target)]
    places = [store.store_file.resolve() if store.store_file else store.store_name for store in settings]
    if places[0] == places[1]:
        raise InvalidInput("FROM and TO are the same store.", "Name another store as TO.")
    hint = "The source comes first: `cofio copy FROM TO`."
    file = settings[0].store_file
    if file and not file.exists():
        raise NotFound(f"There is no store at {file}.", hint)
    with closing(bootstrap.open_store(settings[0])) as source_store:
        if not file and not source_store.changesets(1):
            hint += " A tenant is named by ?tenant=NAME in the URL."
            raise NotFound(f"{settings[0].store_name} has no memories.", hint)
        with closing(bootstrap.open_store(settings[1])) as target_store:
            yield source_store, target_store


@command("backup", "cofio backup", "cofio backup --to /mnt/backups --keep-days 30", "cofio backup --list")
@click.option("--to", "to", metavar="FOLDER", type=click.Path(path_type=Path),
              help="Target folder. Default: backups in the --home folder, or beside a store outside it.")  # fmt: skip
@click.option(
    "--keep-days", type=click.IntRange(1), metavar="N", help="After the backup, delete backups older than N days."
)
@click.option("--list", "listed", is_flag=True, help="List the backups; make none.")
def backup(session: CliContext, to: Path | None, keep_days: int | None, listed: bool) -> None:
    """Back up the whole store into one file, while it is in use.

    A backup is verified before it gets its name, and never overwritten. The newest one is never deleted.
    """
    from cofio.transfer import backup as copies

    session.refuse_service("backup")
    folder = to.expanduser() if to else session.settings.backups
    if listed:
        backups = copies.backups(folder)
        columns = (Field("made", "dim"), Field("bytes", "cyan", "right"), Field("file", wraps=True))
        rows = ((output.when(entry.at), entry.bytes, entry.path) for entry in backups)
        session.print_table({"backups": backups}, columns, rows, "There are no backups yet; `cofio backup` makes one.")
        return
    with output.progress("Copying", 100, hidden=session.as_json) as bar:
        new_backup = copies.make(session.settings.store_path, folder, _now, progress=bar.move_to_percent)
    removed = copies.prune_backups(folder, keep_days, _now) if keep_days else []
    if session.print_json({**new_backup.as_dict(), "removed": [str(path) for path in removed]}):
        return
    click.echo(str(new_backup.path))
    if removed:
        output.say(f"{output.count(len(removed), 'backup')} older than {keep_days} days removed.")


def restore_backup(session: CliContext, name: str, *, yes: bool) -> None:
    """Replace the store by a backup, after confirmation and a backup of the current store."""
    from cofio.hooks import briefing_cache
    from cofio.transfer import restore
    from cofio.transfer.backup import is_backup, latest

    settings = session.settings
    folder, file = settings.backups, Path(name).expanduser()
    session.refuse_running_service("restore of a backup", "memories added meanwhile would be lost")
    if file.is_dir():
        file = latest(file)
    elif not file.exists():
        if name == "latest":
            file = latest(folder)
        elif is_backup(name):
            file = folder / name
    restore.check(file, settings.store_path)
    question = f"Replace {settings.store_path} by {file}? A copy of the current store is kept."
    if not session.is_confirmed(question, yes=yes):
        session.print_json(None)
        return
    result = restore.restore(file, settings.store_path, folder, _now, by=BY)
    briefing_cache.clear(settings.home)  # they contain memories of the previous store
    if session.print_json(result):
        return
    number = output.count(result.memories, "memory", "memories")
    output.say(f"{number} restored, archived ones too, from {result.path}.")
    if result.kept:
        again = "" if result.kept.name.startswith("damaged-") else "; `cofio restore` accepts that file too"
        output.say(f"The previous store is in {result.kept}{again}.")
