"""Commands that move memories: export, import, copy, backup, restore of a backup. They work on the store itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    from cofio.settings import Settings
    from cofio.transfer.backup import Backup
    from cofio.transfer.copy import CopyResult
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
        number = counts["memories"] + counts["archived"]
        row_numbers: list[int] = []
        with output.progress("Exporting", number + 1, hidden=session.as_json) as bar:
            size = write(_count_lines(lines, bar, row_numbers), Path(file).expanduser(), force=force)
    document = {"path": file, "memories": number, "knowledge": len(row_numbers), "bytes": size}
    session.print_sentence(document, f"{_format_counts(number, len(row_numbers))} exported to {file}.")


def _count_lines(lines: Iterable[str], bar: output.ProgressBar, row_numbers: list[int]) -> Iterator[str]:
    """Yield the lines; advance for each memory, and collect the numbers of lines with domain knowledge."""
    for number, line in enumerate(lines):
        if line.startswith('{"knowledge":'):
            row_numbers.append(number)
        else:
            bar.advance(1)
        yield line


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
def import_(session: CliContext, path: Path, kind: str, **how: Any) -> None:
    """Import an export of cofio, JSON lines that each have a text, or another tool's memories.

    What was imported before is skipped, so run a stopped import again to continue it. `cofio undo` reverts a whole
    import.
    """
    about = {name: how.pop(name) for name in ("project", "source")}
    if about["project"] is not None:
        about["project"] = session.project(about["project"])
    defaults = {name: value for name, value in about.items() if value is not None}
    reading = _choose_reader(path.expanduser(), kind)
    with _open(session, "import", new=True) as keeper:
        options = {"dry_run": how["dry_run"], "skip_bad": how["skip_bad"], "about": defaults}
        try:
            result = reading(session, keeper, embed=not how["no_embed"], **options)
        except KeyboardInterrupt:
            output.say(
                "What was imported so far is kept: run the import again to continue, or `cofio undo` to revert it."
            )
            raise
    if session.as_json:
        output.document(result.as_dict())
    else:
        _print_imported(result, embedded=not how["no_embed"])


def _choose_reader(path: Path, kind: str) -> Callable[..., ImportResult]:
    """Return the importer for a file: JSON lines of cofio, or another tool's memories."""
    if not path.exists():
        raise NotFound(f"{path} does not exist.", "Give an existing file or folder.")
    if not path.is_file() and not path.is_dir():
        raise InvalidInput(
            f"{path} is not a regular file or a folder.", "Save the input to a file first: an import reads it twice."
        )
    from cofio.transfer import importers

    file_kind = _detect_format(path) if kind == "auto" else kind
    if file_kind == "cofio":
        return lambda session, keeper, **how: _import_lines(session, keeper, path, how)
    return lambda session, keeper, **how: _import_facts(session, keeper, path, importers.READERS[file_kind], how)


def _detect_format(path: Path) -> str:
    from cofio.transfer import importers
    from cofio.transfer.jsonl_format import is_ours

    if is_ours(path):
        return "cofio"
    try:
        return importers.sniff(path)
    except InvalidInput:
        if is_ours(path, nearly=True):  # then the error names the invalid field
            return "cofio"
        raise


def _import_lines(session: CliContext, keeper: Keeper, path: Path, how: dict[str, Any]) -> ImportResult:
    from cofio.transfer.jsonl_format import JsonlFile

    lines = JsonlFile(path)
    with output.progress("Importing", lines.count(), hidden=session.as_json) as bar:
        return keeper.import_lines(lines, name=path.name, by=BY, progress=bar.move_to, **how)


def _import_facts(session: CliContext, keeper: Keeper, path: Path, reader: Any, how: dict[str, Any]) -> ImportResult:
    with output.progress("Importing", reader.count(path) or 0, hidden=session.as_json) as bar:
        name = f"{reader.name} {path.name}"
        return keeper.import_facts(reader.read(path), name=name, by=BY, progress=bar.move_to, **how)


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
    if session.as_json:
        output.document(result.as_dict())
    else:
        _print_copied(result)


@contextmanager
def _open_stores(session: CliContext, source: str, target: str) -> Iterator[tuple[Store, Store]]:
    """Open both stores. A missing source is not created."""
    from cofio import bootstrap

    source_settings, target_settings = (
        replace(session.settings, store=url, backup_schedule="") for url in (source, target)
    )
    if _locate(source_settings) == _locate(target_settings):
        raise InvalidInput("FROM and TO are the same store.", "Name another store as TO.")
    if source_settings.store_file and not source_settings.store_file.exists():
        raise NotFound(
            f"There is no store at {source_settings.store_file}.", "The source comes first: `cofio copy FROM TO`."
        )
    with closing(bootstrap.open_store(source_settings)) as source_store:
        if not source_settings.store_file and not source_store.changesets(1):
            hint = "The source comes first: `cofio copy FROM TO`. A tenant is named by ?tenant=NAME in the URL."
            raise NotFound(f"{source_settings.store_name} has no memories.", hint)
        with closing(bootstrap.open_store(target_settings)) as target_store:
            yield source_store, target_store


def _locate(settings: Settings) -> Path | str:
    return settings.store_file.resolve() if settings.store_file else settings.store_name


def _print_copied(result: CopyResult) -> None:
    from cofio.transfer.copy import STAYS

    brought = [(result.added, "new"), (result.changed, "updated"), (result.known, "unchanged")]
    parts = ", ".join(f"{number:,} {label}" for number, label in brought if number)
    removals = f"; {result.removed:,} deleted at the source were removed" if result.removed else ""
    keys = f", and {output.count(result.keys, 'key')}" if result.keys else ""
    number = output.count(result.memories, "memory", "memories")
    rows = f", {output.count(result.knowledge, 'row')} of domain knowledge" if result.knowledge else ""
    episodes = f", {output.count(result.episodes, 'episode')}" if result.episodes else ""
    output.say(f"{number}{f' ({parts})' if parts else ''}{rows}{episodes}{keys}{removals}.")
    output.say(f"Both stores have the digest {result.digest}.")
    output.say(f"Not copied: {STAYS}.")
    if result.waiting:
        waits = output.count(result.waiting, "capture")
        output.say(f"The inbox of the source has {waits}: let the service process them, then copy again.")


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
        _list_backups(session, copies.backups(folder))
        return
    with output.progress("Copying", 100, hidden=session.as_json) as bar:
        new_backup = copies.make(session.settings.store_path, folder, _now, progress=bar.move_to_percent)
    removed = copies.prune_backups(folder, keep_days, _now) if keep_days else []
    if session.as_json:
        output.document({**new_backup.as_dict(), "removed": [str(path) for path in removed]})
        return
    click.echo(str(new_backup.path))
    if removed:
        output.say(f"{output.count(len(removed), 'backup')} older than {keep_days} days removed.")


def _list_backups(session: CliContext, backups: Sequence[Backup]) -> None:
    columns = (Field("made", "dim"), Field("bytes", "cyan", "right"), Field("file", wraps=True))
    rows = ((output.when(entry.at), entry.bytes, entry.path) for entry in backups)
    empty = "There are no backups yet; `cofio backup` makes one."
    session.print_table({"backups": [entry.as_dict() for entry in backups]}, columns, rows, empty)


# ── restore ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def restore_backup(session: CliContext, name: str, *, yes: bool) -> None:
    """Replace the store by a backup, after confirmation and a backup of the current store."""
    from cofio.hooks import briefing_cache
    from cofio.transfer import restore

    settings = session.settings
    folder = settings.backups
    session.refuse_running_service("restore of a backup", "memories added meanwhile would be lost")
    file = _find_backup(name, folder)
    restore.check(file, settings.store_path)
    if not session.is_confirmed(
        f"Replace {settings.store_path} by {file}? A copy of the current store is kept.", yes=yes
    ):
        if session.as_json:
            output.document(None)
        return
    result = restore.restore(file, settings.store_path, folder, _now, by=BY)
    briefing_cache.clear(settings.home)  # they contain memories of the previous store
    if session.as_json:
        output.document(result.as_dict())
        return
    output.say(
        f"{output.count(result.memories, 'memory', 'memories')} restored, archived ones too, from {result.path}."
    )
    if result.kept:
        again = "" if result.kept.name.startswith("damaged-") else "; `cofio restore` accepts that file too"
        output.say(f"The previous store is in {result.kept}{again}.")


def _find_backup(name: str, folder: Path) -> Path:
    """Return the backup file: the newest in the default or named folder, a path, or a name in the default folder."""
    from cofio.transfer.backup import is_backup, latest

    path = Path(name).expanduser()
    if name == "latest" and not path.exists():
        return latest(folder)
    if path.is_dir():
        return latest(path)
    return folder / name if not path.exists() and is_backup(name) else path
