"""Commands that move memories: export, import, copy, backup, restore of a backup. They work on the store itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cofio.cli import output
from cofio.cli.output import Column
from cofio.cli.session import BY, PROJECT, Session, agreed, command
from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.model import moment

if TYPE_CHECKING:
    from cofio.keeper import Keeper
    from cofio.ports import Store
    from cofio.settings import Settings
    from cofio.transfer.copying import Copied
    from cofio.transfer.importing import Imported

_STDOUT = "-"
#: What can be imported. A test holds it against the readers, which are not loaded for the help.
FORMATS = ("auto", "cofio", "mem0", "mem0-qdrant", "mcp-memory-service", "claude-mem", "claude-code", "markdown")


def _now() -> str:
    return moment(datetime.now(UTC))


def _refuse_service(session: Session, name: str) -> None:
    if session.settings.url:
        hint = "Leave --url and COFIO_URL out, and run it on the machine that has the store."
        raise InvalidInput(f"{name} works on the store itself, not through a service.", hint)


def _opened(session: Session, name: str, *, new: bool = False) -> Keeper:
    _refuse_service(session, name)
    settings = session.settings
    if not new and settings.missing_file:
        raise NotFound(f"There is no store at {settings.missing_file}.", "--store or COFIO_STORE names another.")
    return session.open_keeper(settings)


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "export",
    "cofio export memories.jsonl",
    "cofio export - | jq -r '.text // empty'     # to other programs",
    "cofio export --vectors full.jsonl",
)
@click.argument("file", default=_STDOUT)
@click.option("--vectors", is_flag=True, help="The vectors too: they need not be made again where it is imported.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def export(session: Session, file: str, vectors: bool, force: bool) -> None:
    """Write every memory as a line of JSON, archived ones too, then what is known exactly of a domain, a line a row.

    The same memories give the same bytes: two exports can be compared. Without a FILE, or with -, it goes to the
    standard output.
    """
    with _opened(session, "export") as keeper:
        lines = keeper.export_lines(vectors=vectors)
        if file == _STDOUT:
            for line in lines:
                sys.stdout.buffer.write(line.encode())
            return
        from cofio.transfer.export import write

        counts = keeper.stats()
        number = counts["memories"] + counts["archived"]
        rows: list[int] = []
        with output.progress("Exporting", number + 1, hidden=session.as_json) as advance:
            size = write(_counted(lines, advance, rows.append), Path(file).expanduser(), force=force)
    if session.as_json:
        output.document({"path": file, "memories": number, "knowledge": len(rows), "bytes": size})
    else:
        output.say(f"{_both(number, len(rows))} exported to {file}.")


def _counted(lines: Iterable[str], advance: Callable[[int], None], row: Callable[[int], None]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if line.startswith('{"knowledge":'):
            row(number)
        else:
            advance(1)
        yield line


def _both(memories: int, rows: int) -> str:
    """So many memories, and rows of domain knowledge where there are any."""
    told = output.count(memories, "memory", "memories")
    return f"{told} and {output.count(rows, 'row')} of domain knowledge" if rows else told


# ── import ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "import",
    "cofio import memories.jsonl --dry-run",
    "cofio import memories.jsonl",
    "cofio import ~/notes --format markdown --project .",
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="auto",
    help="What it is: lines of ours, or another tool's memories. By default it is looked at.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be imported.")
@click.option("--skip-bad", is_flag=True, help="Leave out lines that cannot be taken, and show them.")
@click.option("--no-embed", is_flag=True, help="Make no vectors now; `cofio reembed --missing` makes them later.")
@click.option("--project", metavar="PROJECT", help=f"The project that the facts hold in: {PROJECT}.")
@click.option("--source", metavar="SOURCE", help="Where the facts belong: client/project.")
def import_(session: Session, path: Path, kind: str, **how: Any) -> None:
    """Import an export of cofio, lines of JSON with a text each, or another tool's memories.

    What was imported before is passed over, so an import that was stopped goes on when it is run again. All of it can
    be undone at once.
    """
    about = {name: how.pop(name) for name in ("project", "source")}
    if about["project"] is not None:
        about["project"] = session.project(about["project"])
    given = {name: value for name, value in about.items() if value is not None}
    reading = _reading(path.expanduser(), kind)
    with _opened(session, "import", new=True) as keeper:
        options = {"dry_run": how["dry_run"], "skip_bad": how["skip_bad"], "about": given}
        try:
            told = reading(session, keeper, embed=not how["no_embed"], **options)
        except KeyboardInterrupt:
            output.say("What was imported so far stays: run it again to go on, or `cofio undo` to take it back.")
            raise
    if session.as_json:
        output.document(told.as_dict())
    else:
        _tell(told, embedded=not how["no_embed"])


def _reading(path: Path, kind: str) -> Callable[..., Imported]:
    """What reads it: lines of ours, or another tool's memories."""
    if not path.exists():
        raise NotFound(f"There is no {path}.", "Give a file or a folder.")
    if not path.is_file() and not path.is_dir():
        raise InvalidInput(f"{path} is neither a file nor a folder.", "Put it into a file first: it is read twice.")
    from cofio.transfer import foreign

    found = _format(path) if kind == "auto" else kind
    if found == "cofio":
        return lambda session, keeper, **how: _take_lines(session, keeper, path, how)
    return lambda session, keeper, **how: _take_facts(session, keeper, path, foreign.READERS[found], how)


def _format(path: Path) -> str:
    from cofio.transfer import foreign
    from cofio.transfer.lines import is_ours

    if is_ours(path):
        return "cofio"
    try:
        return foreign.sniff(path)
    except InvalidInput:
        if is_ours(path, nearly=True):  # to be told which field is wrong
            return "cofio"
        raise


def _take_lines(session: Session, keeper: Keeper, path: Path, how: dict[str, Any]) -> Imported:
    from cofio.transfer.lines import Lines

    lines = Lines(path)
    with output.progress("Importing", lines.count(), hidden=session.as_json) as advance:
        return keeper.import_lines(lines, name=path.name, by=BY, progress=_moved(advance), **how)


def _take_facts(session: Session, keeper: Keeper, path: Path, reader: Any, how: dict[str, Any]) -> Imported:
    with output.progress("Importing", reader.count(path) or 0, hidden=session.as_json) as advance:
        name = f"{reader.name} {path.name}"
        return keeper.import_facts(reader.read(path), name=name, by=BY, progress=_moved(advance), **how)


def _moved(advance: Callable[[int], None]) -> Callable[[int], None]:
    done = 0

    def moved(so_far: int) -> None:
        nonlocal done
        advance(so_far - done)
        done = so_far

    return moved


def _tell(told: Imported, *, embedded: bool) -> None:
    for each in told.bad:
        output.say(f"Left out: {each}")
    if told.skipped > len(told.bad):
        output.say(f"and {told.skipped - len(told.bad):,} more were left out.")
    would = "would be imported" if told.dry_run else "imported"
    known = f", {told.known + told.rows_known:,} known already" if told.known or told.rows_known else ""
    back = f"; `cofio undo {told.first}` takes it back" if told.first else ""
    output.say(f"{_both(told.added, told.rows_added)} {would}{known}{back}.")
    if told.missing:
        output.say(f"The file counts {told.missing:,} more: it may have been cut off.")
    if told.first and not embedded:
        output.say("They are found by their words; `cofio reembed --missing` makes the vectors.")


# ── copy ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "copy",
    "cofio copy sqlite:///~/.cofio/cofio.db postgresql://localhost/cofio",
    "cofio copy postgresql://localhost/cofio team.db",
    "cofio copy a.db b.db --json",
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(session: Session, source: str, target: str) -> None:
    """Copy one store into another: every memory, archived ones too.

    With ids, lineage, pins, who said it when, counts, vectors, the embedder's name, and the keys. It is of one moment;
    the source may be in use. TO is new, or holds what an earlier copy of FROM brought: a copy that was stopped goes on
    when it is run again. At the end all of it is read back, and the digests of both are compared.

    What stays behind: the history of changes (the copy begins its own), what waits in the inbox, the logs of
    retrievals, of what agents were given and of access, past runs of chores, which files of notes were read here.
    """
    from cofio.transfer import copying

    _refuse_service(session, "copy")
    with _stores(session, source, target) as (one, other):
        total = 2 * one.carrying.counts()[0]  # what is written is read back
        with output.progress("Copying", total, hidden=session.as_json) as advance:
            try:
                told = copying.copy(one, other, by=BY, progress=_moved(advance))
            except KeyboardInterrupt:
                output.say("What was copied so far stays: run it again to go on.")
                raise
    if session.as_json:
        output.document(told.as_dict())
    else:
        _tell_copied(told)


@contextmanager
def _stores(session: Session, source: str, target: str) -> Iterator[tuple[Store, Store]]:
    """Both stores, open. What is not there is not made by being copied from."""
    from cofio import assemble

    given, wanted = (replace(session.settings, store=each, backup_schedule="") for each in (source, target))
    if _place(given) == _place(wanted):
        raise InvalidInput("A store cannot be copied into itself.", "Name another one to copy into.")
    if given.store_file and not given.store_file.exists():
        raise NotFound(f"There is no store at {given.store_file}.", "Name the one to copy from first.")
    with closing(assemble.open_store(given)) as one:
        if not given.store_file and not one.changesets(1):
            raise NotFound(
                f"There is nothing at {given.store_name}.", "Name the one to copy from first; its tenant too."
            )
        with closing(assemble.open_store(wanted)) as other:
            yield one, other


def _place(settings: Settings) -> Path | str:
    return settings.store_file.resolve() if settings.store_file else settings.store_name


def _tell_copied(told: Copied) -> None:
    from cofio.transfer.copying import STAYS

    brought = [(told.added, "new"), (told.changed, "brought up to date"), (told.known, "there already")]
    parts = ", ".join(f"{number:,} {what}" for number, what in brought if number)
    gone = f"; {told.removed:,} that are gone at the source were removed" if told.removed else ""
    keys = f", and {output.count(told.keys, 'key')}" if told.keys else ""
    number = output.count(told.memories, "memory", "memories")
    rows = f", {output.count(told.knowledge, 'row')} of domain knowledge" if told.knowledge else ""
    said = f", {output.count(told.episodes, 'episode')}" if told.episodes else ""
    output.say(f"{number}{f' ({parts})' if parts else ''}{rows}{said}{keys}{gone}.")
    output.say(f"Both stores have the digest {told.digest}.")
    output.say(f"Not copied: {STAYS}.")
    if told.waiting:
        waits = output.count(told.waiting, "capture")
        output.say(f"In the inbox of the source are {waits}: have the service learn from them, then copy again.")


# ── backup ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "backup",
    "cofio backup",
    "cofio backup --to /mnt/backups --keep-days 30",
    "cofio backup --list",
)
@click.option(
    "--to",
    "to",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Where to; else HOME/backups, or beside a store of another place.",
)
@click.option("--keep-days", type=click.IntRange(1), metavar="N", help="Then remove those older than N days.")
@click.option("--list", "listed", is_flag=True, help="Show the backups that there are; make none.")
def backup(session: Session, to: Path | None, keep_days: int | None, listed: bool) -> None:
    """Copy the whole store into one file, while it is used.

    The copy is checked before it gets its name, and none is ever overwritten. The newest one is never removed.
    """
    from cofio.transfer import backup as copies

    _refuse_service(session, "backup")
    folder = to.expanduser() if to else session.settings.backups
    if listed:
        _list(session, copies.backups(folder))
        return
    with output.progress("Copying", 100, hidden=session.as_json) as advance:
        moved = _moved(advance)
        made = copies.make(
            session.settings.store_path, folder, _now, progress=lambda done, total: moved(100 * done // (total or 1))
        )
    removed = copies.prune_backups(folder, keep_days, _now) if keep_days else []
    if session.as_json:
        output.document({**made.as_dict(), "removed": [str(each) for each in removed]})
        return
    click.echo(str(made.path))
    if removed:
        output.say(f"{output.count(len(removed), 'backup')} older than {keep_days} days removed.")


def _list(session: Session, found: Any) -> None:
    if session.as_json:
        output.document({"backups": [each.as_dict() for each in found]})
        return
    columns = (Column("made", "dim"), Column("bytes", "cyan", "right"), Column("file", wraps=True))
    output.table(columns, ((output.when(each.at), each.bytes, each.path) for each in found))
    if not found:
        output.say("There is no backup yet; `cofio backup` makes one.")


# ── restore ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def restore_backup(session: Session, named: str, *, yes: bool) -> None:
    """Put a backup in the store's place, after a question; what is there now is kept first."""
    from cofio.hooks import briefings
    from cofio.transfer import restoring

    settings = session.settings
    folder = settings.backups
    _refuse_where_served(session)
    file = _backup_named(named, folder)
    restoring.check(file, settings.store_path)
    if not agreed(f"Put {file} in the place of {settings.store_path}? What is there now is kept.", yes=yes):
        output.say("Nothing was changed.")
        if session.as_json:
            output.document(None)
        return
    told = restoring.restore(file, settings.store_path, folder, _now, by=BY)
    briefings.clear(settings.home)  # they tell of what was there before
    if session.as_json:
        output.document(told.as_dict())
        return
    output.say(f"{output.count(told.memories, 'memory', 'memories')} restored, archived ones too, from {told.path}.")
    if told.kept:
        again = "" if told.kept.name.startswith("damaged-") else "; `cofio restore` takes that too"
        output.say(f"What was there before is in {told.kept}{again}.")


def _backup_named(named: str, folder: Path) -> Path:
    """The file: the newest of the usual folder or of one that was named, a path, or a name in the usual folder."""
    from cofio.transfer.backup import is_backup, latest

    path = Path(named).expanduser()
    if named == "latest" and not path.exists():
        return latest(folder)
    if path.is_dir():
        return latest(path)
    return folder / named if not path.exists() and is_backup(named) else path


def _refuse_where_served(session: Session) -> None:
    from cofio import daemon

    _refuse_service(session, "restore of a backup")
    if instance := daemon.find(session.settings):
        hint = "Stop it with `cofio down` first: what it learns meanwhile would be lost."
        raise Conflict(f"The store is being served (pid {instance.pid}).", hint)
