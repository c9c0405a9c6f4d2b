"""Markdown notes of a keeper: `keeper.notes`.

    summary, tags ─ flush ─▶ a file, and its memory
    folder ─ files that changed ─ parts ─▶ decisions ─ keeper.apply ─▶ memories in sync with the files
    memories ─ export ─▶ a vault with one note per memory, which can be edited and read back

The functions of `markdown` decide; this module reads and writes files. A file is recorded as read after its memories
are stored. If the process dies in between, the next read finds those memories by source and text.
"""

from __future__ import annotations

import builtins
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import starmap
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from cofio.errors import CofioError, Conflict, InvalidInput, NotConfigured, NotFound, StoreError
from cofio.ingest.redaction import Redactor
from cofio.ingest.writer import Writer
from cofio.markdown_notes import files, obsidian, paths, sections, sync
from cofio.markdown_notes.obsidian import Note
from cofio.markdown_notes.paths import FolderPath
from cofio.markdown_notes.sections import Section
from cofio.markdown_notes.sync import FilePage, SectionPair, SyncVerdict
from cofio.models.markdown_notes import FileState, IndexResult, NotesFolder, SkippedNote, Stamp, VaultExportResult
from cofio.models.memory import (
    Add,
    Change,
    Decision,
    Delete,
    Edit,
    Fact,
    Memory,
    NoteKwargs,
    Restore,
    Scope,
    ScopeKwargs,
    Update,
    as_fact,
    as_scope,
    check_bool,
)
from cofio.ports import Clock, Store
from cofio.text.tokens import fingerprint

BATCH = 500  # decisions in one changeset, and memories or notes in one batch
_OF_A_FILE = 1_000  # memories of one source that are searched
_TRIES = 3
_SETTLED = 2_000_000_000  # nanoseconds; a file modified just before reading may change again with the same stamp
_MANY = 10  # files; an empty folder that had so many is treated as unmounted
_LONGEST = 20  # length of a chain of corrections
_NOT_OURS = "A file of this name exists and is not an exported note."
_EDITED = "The note was edited since it was exported. Index the folder first."
#: Pages with the parts of each and the decisions for them.
_Batch: TypeAlias = list[tuple[FilePage, list[tuple[SectionPair, SyncVerdict]]]]


@dataclass(frozen=True, slots=True)
class NotesOptions:
    """Configuration of notes: the folder of flushed notes, and the labels of watched folders."""

    folder: Path | None = None
    labels: Mapping[Path, str] = field(default_factory=dict)


class NotesService:
    """Markdown notes of a keeper."""

    def __init__(self, writer: Writer, clock: Clock, options: NotesOptions) -> None:
        self._writer = writer
        self._store = writer.access.whole  # files belong to the store owner
        self._clock = clock
        self._options = options

    # ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def flush(
        self, summary: str, tags: Sequence[str] = (), *, by: str = "library", **fields: Unpack[NoteKwargs]
    ) -> Change:
        """Write the summary to `YYYY-MM-DD-HH-<id8>.md` in the notes folder, and store it as memory `file:<name>`.

        The fields are those of Fact. Either both are written or neither.
        """
        hour = paths.hour_of(self._clock())
        place = self._label_folder(files.make(self._folder()), "")
        while (place.path / (name := f"{hour}-{secrets.token_hex(4)}.md")).exists():
            pass
        note = self._writer.access.own_fact(_make_fact(summary, tags, fields, place.source(name), name))
        redactor = self._writer.redactor()
        fact = replace(redactor.record(note), provenance="import")
        page = sections.flushed_page(fact.text, fact.tags, hour)
        with files.draft(place.path, page) as written:
            done, _ = self._writer.apply_without_embedder([Add(fact)], by=by, why="flush", part_of=None)
            try:
                files.create_file(written, place.path / name)
            except (OSError, CofioError) as error:
                self._writer.revert(done, by=by, why="its note could not be written")
                if isinstance(error, FileExistsError):
                    hint = "Try again: a new file name is chosen."
                    raise StoreError(f"The file {name} already exists.", hint) from error
                raise
        with suppress(OSError, StoreError):  # both exist; the next read of the folder matches them
            content = page.encode()
            parts = sections.split_sections(files.text_of(content), name)
            self._store.notes.put(place.key, [_written_state(place, name, content, parts, done.changes[0].memory_id)])
        return replace(done.changes[0], redacted=redactor.kinds)

    # ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def index(
        self,
        folder: Path | str | None = None,
        *,
        label: str = "",
        dry_run: bool = False,
        by: str = "library",
        but: Collection[str] = (),
        progress: Callable[[int, int], None] | None = None,
        halted: Callable[[], bool] | None = None,
    ) -> IndexResult:
        """Synchronize memories with the new, edited, moved and deleted files of a folder (default: the notes folder).

        Uses one changeset, or a series for many changes; once undone, it is not repeated until a file changes. Files in
        `but` are left as last read. `progress` receives the number of finished files and the total. `halted` is called
        between batches; if it returns True, reading stops and the next read continues from there.
        """
        self._writer.access.require_owner("Reading folders")
        check_bool(dry_run, "dry_run")
        if folder is None and not self._folder().exists():
            known = {FolderPath.of(key).path for key in self._store.notes.folders()}
            if self._folder() not in known:
                return IndexResult(folder=str(self._folder()), dry_run=dry_run)
        place = self._label_folder(files.resolve_folder(folder or self._folder()), label)
        with files.folder_lock(place.path):
            reading = _FolderSync(
                self._writer,
                self._clock,
                place,
                by,
                IndexResult(folder=str(place.path), dry_run=dry_run),
                progress or (lambda _done, _total: None),
                halted or (lambda: False),
            )
            for tried in range(1, _TRIES + 1):
                try:
                    return reading.run(frozenset(but))
                except (Conflict, NotFound):  # a memory changed after the decision
                    if tried == _TRIES:
                        raise
        raise AssertionError

    def look(self, folder: Path | str | None = None) -> dict[str, Stamp]:
        """Return size and modification time of the Markdown files of a folder, by relative path."""
        self._writer.access.require_owner("Reading folders")
        return files.look(files.resolve_folder(folder or self._folder())).stamps

    def folders(self) -> builtins.list[NotesFolder]:
        """List the folders that were read or are watched."""
        self._writer.access.require_owner("Reading folders")
        watched = {_resolve(label) for label in self._options.labels}
        files_by_path = {
            FolderPath.of(key).path: self._store.notes.files(key).values() for key in self._store.notes.folders()
        }
        return [
            NotesFolder(
                folder=str(path),
                followed=path in watched,
                there=path.is_dir(),
                files=len(files_by_path.get(path, ())),
                read_at=max((file.at for file in files_by_path.get(path, ())), default=None),
            )
            for path in sorted({*files_by_path, *watched})
        ]

    def _folder(self) -> Path:
        if self._options.folder is None:
            hint = "Set COFIO_NOTES to a folder, or call cofio.open() with `notes`."
            raise NotConfigured("No notes folder is configured.", hint)
        return self._options.folder

    def _label_folder(self, path: Path, label: str) -> FolderPath:
        """Return the folder with its label: the stored one, the requested one, or one derived from its name."""
        requested = paths.label_of(label)
        folders = [FolderPath.of(key) for key in self._store.notes.folders()]
        for folder in folders:
            if folder.path == path and requested not in ("", folder.label):
                raise Conflict(f"{path} already has the label {folder.label!r}.", "Omit the label.")
            if folder.path == path:
                return folder
            if requested and folder.label == requested:
                raise Conflict(f"{folder.path} already has the label {requested!r}.", "Give this folder another label.")
        label_by_path = {_resolve(watched): label for watched, label in self._options.labels.items() if label}
        for folder in folders:
            # A folder with this label that no longer exists was moved.
            if folder.label and folder.label == label_by_path.get(path) and not requested and folder.path.is_dir():
                hint = "Give this folder another label."
                raise Conflict(f"{folder.path} already has the label {folder.label!r}.", hint)
        is_notes_folder = path == _resolve(self._options.folder) if self._options.folder else False
        if requested or is_notes_folder or path in label_by_path:
            return FolderPath(requested or label_by_path.get(path, ""), path)
        return FolderPath(
            paths.free_label(path, {*(folder.label for folder in folders), *label_by_path.values()}), path
        )

    # ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def export(self, folder: Path | str, **scope: Unpack[ScopeKwargs]) -> VaultExportResult:
        """Write the memories of a scope to a vault, one note each. `index` reads edits back.

        Only changed notes are rewritten. Files that are not from this store, or were edited since they were written or
        read, are left unchanged and reported. Notes of archived memories are removed; memories that were read from this
        folder are not written to it.
        """
        self._writer.access.require_owner("Writing folders")
        checked = as_scope(scope)
        place = self._label_folder(files.make(Path(folder).expanduser()), "")
        with files.folder_lock(place.path):
            return _VaultWriter(self._store, place).run(checked)


def _make_fact(summary: str, tags: Sequence[str], about: Mapping[str, Any], source: str, name: str) -> Fact:
    """Return the fact of a flushed note. Raise InvalidInput for content that could not be read back from the file."""
    if "source" in about or "tags" in about:
        hint = "Omit the source, and pass tags as a separate list."
        raise InvalidInput("The source of a note is its file and cannot be set.", hint)
    fact = as_fact(summary, {**about, "tags": tags, "source": source})
    if bad := next((tag for tag in fact.tags if "," in tag or "\n" in tag or "\r" in tag), None):
        raise InvalidInput(f"The tag {bad!r} contains a comma or a line break.", "Split it into several tags.")
    return replace(fact, metadata={**fact.metadata, "note": {"path": name, "heading": ""}})


def _resolve(path: Path) -> Path:
    with suppress(OSError, RuntimeError):
        return path.resolve()
    return path


def _written_state(
    place: FolderPath, name: str, content: bytes, parts: Iterable[Section | Note], memory: int
) -> FileState:
    """Return the record of a file that was just written, with all of its parts in one memory."""
    status = (place.path / name).lstat()
    stamp = Stamp(status.st_size, status.st_mtime_ns)
    return sync.file_state(name, stamp, files.hash_of(content), ((part, memory) for part in parts))


# ── reading a folder ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class _FolderSync:
    """One synchronization of a folder, decided and applied in batches. Can be restarted."""

    writer: Writer
    clock: Clock
    place: FolderPath
    by: str
    indexed: IndexResult  # the result so far
    progress: Callable[[int, int], None]
    halted: Callable[[], bool]
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def _store(self) -> Store:
        return self.writer.access.whole

    def run(self, but: frozenset[str]) -> IndexResult:
        """Synchronize the memories and return the result."""
        listing, filed = files.look(self.place.path), self._store.notes.files(self.place.key)
        self.skipped = dict(listing.skipped)
        if listing.empty and len(filed) >= _MANY:
            why = f"The folder is empty but had {len(filed)} files: it may not be mounted. Nothing was archived."
            return replace(self.indexed, skipped=(SkippedNote(".", why),))
        deleted = [
            path for path in filed if path not in listing.stamps and path not in but and not listing.is_unseen(path)
        ]
        stamps = {path: stamp for path, stamp in listing.stamps.items() if path not in but}
        pages, touched = self._read(stamps, filed)
        if self.halted():  # before any decision: nothing changes
            return replace(
                self.indexed,
                files=len(listing.stamps),
                skipped=tuple(starmap(SkippedNote, sorted(self.skipped.items()))),
            )

        waiting = {page.path for page in pages}
        self.progress(len(stamps) - len(waiting), len(stamps))
        if pages or deleted:
            matches = sync.match_sections(pages, filed, deleted)
            owners = sync.count_sections(filed, matches.pairs, deleted)
            # Pages with parts from other files come first: both are recorded together, so that the memories are kept.
            tied = {path for path, pairs in matches.pairs.items() if any(pair.moved for pair in pairs)}
            ordered = sorted(pages, key=lambda page: page.path not in tied)
            for batch in self._make_batches(ordered, matches.pairs, owners):
                self._store_batch(batch)
                waiting -= {page.path for page, _ in batch}
                self.progress(len(stamps) - len(waiting), len(stamps))
                # Stop only when no waiting page holds a part moved from a file that is already recorded.
                if self.halted() and not tied & (waiting - self.skipped.keys()):
                    break
            orphans = [part.old.memory for part in matches.left if part.path not in waiting]
            self._archive([memory for memory in orphans if not owners[memory]])

        self.progress(len(stamps) - len(waiting - self.skipped.keys()), len(stamps))
        if touched and not self.indexed.dry_run:
            self._store.notes.put(self.place.key, touched)
        if deleted and not self.indexed.dry_run:
            self._store.notes.drop(self.place.key, deleted)
        return replace(
            self.indexed,
            files=len(listing.stamps),
            read=self.indexed.read + len(pages) - len(waiting - self.skipped.keys()),
            gone=self.indexed.gone + len(deleted),
            skipped=tuple(starmap(SkippedNote, sorted(self.skipped.items()))),
        )

    def _read(
        self, stamps: Mapping[str, Stamp], filed: Mapping[str, FileState]
    ) -> tuple[list[FilePage], list[FileState]]:
        """Return files that are new or changed, and files whose stamp alone changed. Incomplete if halted."""
        pages: list[FilePage] = []
        touched: list[FileState] = []
        now, identity = self.clock(), self._store.snapshots.identity()
        for path, stamp in stamps.items():
            if self.halted():
                break
            old = filed.get(path)
            if old and _is_settled(old, stamp, old.at):
                continue
            try:
                content = files.content_of(self.place.path / path)
                digest = files.hash_of(content)
                if old is None or old.hash != digest:
                    text = files.text_of(content)
                    parts, note = tuple(sections.split_sections(text, path)), obsidian.parse_note(text, identity)
                    pages.append(FilePage(path, stamp, digest, parts, note))
                elif (old.size, old.modified) != stamp or _is_settled(old, stamp, now):
                    touched.append(replace(old, size=stamp.size, modified=stamp.modified, at=""))
            except FileNotFoundError:
                pass  # deleted meanwhile: handled by the next read
            except OSError as error:
                self.skipped[path] = f"The file cannot be read: {error.strerror}."
            except ValueError as error:
                self.skipped[path] = str(error)
        return pages, touched

    # ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_batches(
        self, pages: Sequence[FilePage], pairs: Mapping[str, Sequence[SectionPair]], owners: dict[int, int]
    ) -> Iterator[_Batch]:
        """Yield pages with their decisions, in batches of one changeset each."""
        batch: _Batch = []
        size = 0
        for page in pages:
            try:
                verdicts = self._decide_page(page, pairs[page.path], owners)
            except InvalidInput as error:
                self.skipped[page.path] = str(error)
                continue
            count = sum(len(verdict.decisions) for _, verdict in verdicts)
            if batch and size + count > BATCH:
                yield batch
                batch, size = [], 0
            batch.append((page, verdicts))
            size += count
        if batch:
            yield batch

    def _decide_page(
        self, page: FilePage, pairs: Sequence[SectionPair], owners: dict[int, int]
    ) -> list[tuple[SectionPair, SyncVerdict]]:
        memories = {memory.id: memory for memory in self._store.get([pair.memory for pair in pairs if pair.memory])}
        spare = self._find_spare(page, pairs, owners)
        verdicts: list[tuple[SectionPair, SyncVerdict]] = []
        for pair in pairs:
            part, old, memory = pair.content, pair.old, memories.get(pair.memory)
            if isinstance(part, Note):
                verdicts.append((pair, SyncVerdict(sync.for_note(pair, memory), part.memory)))
                continue
            fact = self._to_fact(part, page.path)
            if old and owners[old.memory] > 1 and part.text_digest != old.text_digest:
                owners[old.memory] -= 1  # another part still has this text
                old = None
            if old:
                heir = self._find_heir(memory) if memory and memory.archived else None
                verdict = sync.decide_section(pair, fact, memory, heir)
            elif matches := spare.get(fingerprint(fact.text)):
                verdict = sync.decide_found_again(part, fact, matches.pop())
            else:
                verdict = sync.new_section(fact)
            verdicts.append((pair, verdict))
        return verdicts

    def _find_spare(
        self, page: FilePage, pairs: Sequence[SectionPair], owners: Mapping[int, int]
    ) -> dict[int, list[Memory]]:
        """Return memories with this file as source that belong to no part, by text fingerprint; live ones come first.

        They remain if a read died before it was recorded, or if the file was missing for a while.
        """
        if all(pair.memory for pair in pairs):
            return {}
        scope = Scope(source=self.place.source(page.path), include_archived=True)
        memories = self._store.newest(scope, _OF_A_FILE)
        by_fingerprint: dict[int, list[Memory]] = {}
        for memory in sorted(memories, key=lambda candidate: (not candidate.archived, -candidate.id)):
            if not owners.get(memory.id) and memory.superseded_by is None:
                by_fingerprint.setdefault(fingerprint(memory.text), []).append(memory)
        return by_fingerprint

    def _find_heir(self, memory: Memory) -> Memory | None:
        """Return the live memory that replaced this one by corrections; None if it was merged with others."""
        for _ in range(_LONGEST):
            heirs = self._store.get([memory.superseded_by]) if memory.superseded_by else []
            if not heirs or heirs[0].supersedes != memory.id:
                return None
            memory = heirs[0]
            if not memory.archived:
                return memory
        return None

    def _to_fact(self, part: Section, path: str) -> Fact:
        fact = Fact(
            text=part.text,
            source=self.place.source(path),
            kind=part.kind,
            category=part.category,
            entities=part.entities,
            tags=part.tags,
            context=part.context,
            metadata=part.to_metadata(path),
            created_at=part.created_at,
            provenance="import",
        )
        return Redactor().record(fact)

    # ── applying ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _store_batch(self, batch: _Batch) -> None:
        """Apply the decisions for these pages and record the pages as read."""
        verdicts = [verdict for _, page_verdicts in batch for _, verdict in page_verdicts]
        creating = [verdict.decisions[0] for verdict in verdicts if verdict.memory is None]
        others = [decision for verdict in verdicts if verdict.memory is not None for decision in verdict.decisions]
        changes = self._apply([*creating, *others])
        if self.indexed.dry_run:
            return
        created = _iter_writes(creating, changes)
        states = []
        for page, page_verdicts in batch:
            parts = [
                (pair.content, next(created).memory_id if verdict.memory is None else verdict.memory)
                for pair, verdict in page_verdicts
            ]
            states.append(sync.file_state(page.path, page.stamp, page.hash, parts))
        self._store.notes.put(self.place.key, states)

    def _archive(self, ids: Iterable[int]) -> None:
        """Archive memories whose parts no longer exist."""
        for batch in _batches_of(list(dict.fromkeys(ids))):
            live = [memory.id for memory in self._store.get(batch) if not memory.archived]
            self._apply([Delete(memory_id, "its note is gone") for memory_id in live])

    def _apply(self, decisions: Sequence[Decision]) -> Sequence[Change]:
        """Apply the decisions and return the changes; a dry run only counts."""
        if not decisions:
            return ()
        done, waiting, indexed = None, 0, self.indexed
        if not self.indexed.dry_run:
            why = f"notes {self.place.label or self.place.path.name}"
            done, waiting = self.writer.apply_without_embedder(
                decisions, by=self.by, why=why, part_of=indexed.changeset
            )
        changes = done.changes if done else ()
        restored = {decision.id for decision in decisions if isinstance(decision, Restore)}
        writes = [decision for decision in decisions if isinstance(decision, Add | Update)]
        noops = sum(change.action == "noop" for change in _iter_writes(writes, changes))
        updates = [decision for decision in decisions if isinstance(decision, Edit | Update)]
        self.indexed = replace(
            indexed,
            added=indexed.added + sum(isinstance(decision, Add | Restore) for decision in decisions) - noops,
            updated=indexed.updated
            + sum(isinstance(decision, Update) or decision.id not in restored for decision in updates),
            archived=indexed.archived + sum(isinstance(decision, Delete) for decision in decisions),
            unembedded=indexed.unembedded + waiting,
            changeset=indexed.changeset or (done.id if done else None),
        )
        return changes


def _iter_writes(first: Sequence[Decision], changes: Sequence[Change]) -> Iterator[Change]:
    """Yield the change that wrote each new memory; an Update also archives another one."""
    place = 0
    for decision in first if changes else ():
        yield changes[place]
        place += 2 if isinstance(decision, Update) else 1


def _is_settled(old: FileState, stamp: Stamp, at: str) -> bool:
    """Return whether a file with an unchanged stamp is known to be unchanged since it was read at `at`."""
    if (old.size, old.modified) != stamp:
        return False
    return stamp.modified + _SETTLED < datetime.fromisoformat(at).timestamp() * 1_000_000_000


def _batches_of(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[place : place + BATCH] for place in range(0, len(ids), BATCH))


# ── writing a vault ───────────────────────────────────────────────────────────────────────────────────────────────────


class _SkippedFile(Exception):
    """File that is left unchanged; the message is the reason."""


class _VaultWriter:
    """One export to a vault."""

    def __init__(self, store: Store, place: FolderPath) -> None:
        self._store = store
        self._place = place
        self._identity = store.snapshots.identity()
        self._filed = store.notes.files(place.key)
        self._paths = {part.memory: path for path, file in self._filed.items() for part in file.parts if part.exported}
        self._noted: list[FileState] = []
        self._skipped: dict[str, str] = {}
        self._written = 0

    def run(self, scope: Scope) -> VaultExportResult:
        # Memories that were read from notes in this folder or a parent need no note.
        keys = [key for key in self._store.notes.folders() if self._place.path.is_relative_to(FolderPath.of(key).path)]
        states = [file for key in keys for file in self._store.notes.files(key).values()]
        read_here = {part.memory for file in states for part in file.parts if not part.exported}
        after, notes = None, 0
        while memories := self._store.page(scope, limit=BATCH, after=after)[0]:
            older = self._store.get([memory.supersedes for memory in memories if memory.supersedes])
            names = {memory.id: self._path_of(memory) for memory in older}
            for memory in memories:
                if memory.id in read_here:
                    continue
                path = self._path_of(memory)
                try:
                    self._write(path, memory, names.get(memory.supersedes or 0, ""))
                    notes += 1
                except _SkippedFile as reason:
                    self._skipped[path] = str(reason)
            if self._noted:
                self._store.notes.put(self._place.key, self._noted)
                self._noted = []
            after = memories[-1].id
        return VaultExportResult(
            folder=str(self._place.path),
            notes=notes,
            written=self._written,
            removed=0 if scope.include_archived else self._remove(),
            skipped=tuple(starmap(SkippedNote, sorted(self._skipped.items()))),
        )

    def _path_of(self, memory: Memory) -> str:
        return self._paths.get(memory.id) or paths.note_name(memory)

    def _write(self, path: str, memory: Memory, supersedes: str) -> None:
        """Write the note of a memory unless it is up to date. Raise _SkippedFile if the file has to be kept."""
        old, target = self._filed.get(path), self._place.path / path
        try:
            content = files.content_of(target)
        except FileNotFoundError:
            if old:
                raise _SkippedFile("The note was deleted. Index the folder to archive its memory.") from None
            self._create(path, memory, obsidian.render_note(memory, self._identity, supersedes=supersedes))
            return
        except OSError as error:
            raise _SkippedFile(f"The note cannot be read: {error.strerror}.") from error
        page = content.decode(errors="replace")
        rendered = obsidian.render_note(memory, self._identity, supersedes=supersedes, kept=obsidian.own_fields(page))
        if obsidian.is_up_to_date(page, rendered):
            if old is None or old.hash != files.hash_of(content):
                self._record(path, content, memory)
            return
        if old is None or self._paths.get(memory.id) != path:  # having been read does not make it an exported note
            raise _SkippedFile(_NOT_OURS)
        if old.hash != files.hash_of(content):
            raise _SkippedFile(_EDITED)
        with files.draft(self._place.path, rendered) as written:
            if files.content_of(target) != content:  # edited while it was compared
                raise _SkippedFile(_EDITED)
            files.replace_file(written, target)
        self._record(path, rendered.encode(), memory)
        self._written += 1

    def _create(self, path: str, memory: Memory, page: str) -> None:
        with files.draft(self._place.path, page) as written:
            try:
                files.create_file(written, self._place.path / path)
            except FileExistsError as error:
                raise _SkippedFile(_NOT_OURS) from error
        self._record(path, page.encode(), memory)
        self._written += 1

    def _record(self, path: str, content: bytes, memory: Memory) -> None:
        note = obsidian.unchanged_note(memory)
        self._noted.append(_written_state(self._place, path, content, [note], memory.id))

    def _remove(self) -> int:
        """Remove unedited notes of archived or erased memories; return the number removed."""
        batches = _batches_of(list(self._paths))
        live = {memory.id for batch in batches for memory in self._store.get(batch) if not memory.archived}
        removed_paths: list[str] = []
        removed = 0
        for path in [path for memory_id, path in self._paths.items() if memory_id not in live]:
            target = self._place.path / path
            try:
                if files.hash_of(files.content_of(target)) != self._filed[path].hash:
                    self._skipped[path] = (
                        "The note was edited since it was exported, so it was kept although its memory was archived."
                    )
                    continue
                target.unlink()
                removed += 1
            except FileNotFoundError:
                pass
            except OSError as error:
                self._skipped[path] = f"The note cannot be removed: {error.strerror}."
                continue
            removed_paths.append(path)
        if removed_paths:
            self._store.notes.drop(self._place.key, removed_paths)
        return removed
