"""Import of memories and facts into a store, as a series of changesets that can be undone as one.

    lines ─▶ place of each memory (first pass) ─▶ batches of Adopt ─ store.apply (second pass)
    rows of domain knowledge, after the memories that express them ─▶ batches of PutRow ─ store.apply (third pass)
    facts ─▶ new ones ─▶ batches of Add ─ store.apply

An interrupted import keeps what was done, and running it again resumes: nothing is imported twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from cofio.errors import CofioError, Conflict, InvalidInput
from cofio.ingest.redaction import Redactor
from cofio.models.domain_knowledge import Knowledge
from cofio.models.json_values import JsonFields
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import MAY_REPLACE, Add, Adopt, Changeset, Decision, Fact, Memory, PutRow, merge_scope
from cofio.ports import Matrix, Store, Vector
from cofio.stores.snapshot_export import as_vector
from cofio.text.tokens import embedding_text, fingerprint
from cofio.transfer.id_mapping import IdMapping, KnowledgeIdMapping
from cofio.transfer.importers.base import SkippedEntry
from cofio.transfer.jsonl_format import (
    BadRecord,
    ExportHeader,
    MemoryOutline,
    NumberedRecord,
    header_of,
    is_row,
    objects,
    outline,
    parse_knowledge,
    parse_memory,
    plain_fact,
)

BATCH = 500  # memories in one changeset
_SHOWN = 20  # bad lines listed in the result
Embed: TypeAlias = Callable[[Sequence[str]], Matrix]
_Each = TypeVar("_Each")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult(JsonFields):
    """Result of an import: numbers of entries read, and their outcome."""

    read: int = 0
    added: int = 0
    known: int = 0  # existing already
    rows_read: int = 0  # of domain knowledge
    rows_added: int = 0
    rows_known: int = 0
    skipped: int = 0  # bad lines left out
    missing: int = 0  # memories and rows counted in the header but not in the file
    changesets: int = 0
    first: int | None = None  # the first changeset of the series; its undo reverts the import
    dry_run: bool = False
    bad: tuple[str, ...] = ()  # messages of the first bad lines


@dataclass(kw_only=True)
class ImportRun:
    """Options and progress of an import."""

    store: Store
    name: str  # of the source, in the journal
    by: str = "library"
    embed: Embed | None = None  # None: vectors are computed later
    signature: str = ""  # of the embedder: vectors of the same one are kept
    own: Callable[[Fact], Fact] = lambda fact: fact  # returns the fact as the importing caller may store it
    repeats: Callable[[Fact, Vector], bool] | None = None  # returns whether a memory says the same in other words
    about: Mapping[str, Any] = field(default_factory=dict)  # fields set on every fact, overriding its own
    dry_run: bool = False
    skip_bad: bool = False
    progress: Callable[[int], None] = lambda _: None  # called with the number of entries read
    done: ImportResult = field(default_factory=ImportResult)
    has_rows: bool = False  # whether rows of domain knowledge were seen

    def lines(self, lines: Iterable[str | bytes]) -> ImportResult:
        """Import an export, or lines of plain facts. Lines are read twice, so an iterator is not enough."""
        if iter(lines) is lines:
            hint = "Give a list or a JsonlFile."
            raise InvalidInput("The lines are given as an iterator, which can be read only once.", hint)
        first = next(objects(lines), None)
        if isinstance(first, BadRecord):
            raise first  # the format of the other lines is unknown then
        header = header_of(first) if first else None
        if header and self.about:
            hint = f"Omit: {', '.join(self.about)}."
            raise InvalidInput("An export already sets the source and project of each memory.", hint)
        with self._add_progress():
            if header:
                self._import_export(header, lines)
            else:
                self._store_facts(self._read(lines, lambda line: plain_fact(line, self.name)))
        return replace(self.done, dry_run=self.dry_run)

    def facts(self, facts: Iterable[Fact | SkippedEntry]) -> ImportResult:
        """Store the new facts: those with an unknown origin, and unknown words at the same place."""

        def count_skipped() -> Iterator[Fact]:
            for entry in facts:
                if isinstance(entry, Fact):
                    yield entry
                else:
                    self._count(skipped=1, bad=(f"{entry.where}: {entry.reason}",))

        with self._add_progress():
            self._store_facts(count_skipped())
        return replace(self.done, dry_run=self.dry_run)

    @contextmanager
    def _add_progress(self) -> Iterator[None]:
        """Add what was imported before an error to its hint."""
        try:
            yield
        except CofioError as error:
            if not self.done.first:
                raise
            imported = f"Entries before it were imported ({self.done.added + self.done.rows_added:,})"
            so_far = f"{imported}; `cofio undo {self.done.first}` reverts that."
            if isinstance(error, BadRecord):
                raise BadRecord(error.number, error.problem, so_far) from error
            raise type(error)(error.message, f"{so_far} Run it again to resume.") from error

    def _import_export(self, header: ExportHeader, lines: Iterable[str | bytes]) -> None:
        carrying = self.store.snapshots
        if not header.store:  # the export of an empty store
            if next(islice(objects(lines), 1, None), None) is not None:
                raise BadRecord(1, "The header of the export lacks the field store.")
            return
        same = header.store == carrying.identity()
        if not same and not carrying.reserve(0) and not any(self.store.domain.counts().values()):
            # The store never held a memory: it becomes a copy.
            same = self.dry_run or carrying.adopt_identity(header.store)
        places = IdMapping(self.store, header.store, same=same)
        for entries in _batches(self._read(lines, self._outline, headed=True, quietly=True)):
            places.note(entries)
        keeps = bool(header.embedder) and header.embedder == self.signature
        if not self.dry_run:
            places.settle()
            if keeps:
                self.store.set_signature(self.signature)

        adopt = partial(self._adopt, places, keeps)
        for batch in _batches(self._read(lines, parse_memory, headed=True)):
            added = self._store_new(batch, places.new, adopt)
            self._count(read=len(batch), added=added, known=len(batch) - added)
        if self.has_rows:
            rows = KnowledgeIdMapping(self.store, header.store, None if self.dry_run else places)
            for row_batch in _batches(self._read(lines, parse_knowledge, headed=True, rows=True)):
                added = self._store_new(row_batch, rows.new, self._put_rows)
                self._count(rows_read=len(row_batch), rows_added=added, rows_known=len(row_batch) - added)
        missing = max(0, header.memories - self.done.read) + max(0, header.knowledge - self.done.rows_read)
        self._count(missing=missing)

    def _outline(self, line: NumberedRecord) -> Memory | MemoryOutline:
        # Links must not lead to lines that are left out: with `skip_bad`, the whole line is checked.
        return parse_memory(line).memory if self.skip_bad else outline(line)

    def _store_new(
        self,
        batch: Sequence[_Each],
        find_new: Callable[[Sequence[_Each]], Sequence[_Each]],
        store: Callable[[Sequence[_Each]], None],
    ) -> int:
        """Store the new entries of a batch; return their number."""
        new = find_new(batch)
        if new and not self.dry_run:
            try:
                store(new)
            except Conflict:  # a concurrent import of the same: look again
                if new := find_new(batch):
                    store(new)
        return len(new)

    def _adopt(self, places: IdMapping, keeps: bool, new: Sequence[ExportedMemory]) -> None:
        vectors: dict[int, Vector] = {}
        texts: dict[int, str] = {}
        for place, exported in enumerate(new):
            if keeps and exported.vector is not None:
                vectors[place] = as_vector(exported.vector)
            else:
                texts[place] = embedding_text(exported.memory.text, exported.memory.speaker)
        decisions = [Adopt(places.placed(Redactor().record(exported.memory)), exported.sightings) for exported in new]
        self._apply(decisions, {**vectors, **self._embed_texts(texts)})

    def _put_rows(self, rows: Sequence[Knowledge]) -> None:
        self._apply([PutRow(Redactor().row(row), as_of="") for row in rows], {})

    def _store_facts(self, facts: Iterable[Fact]) -> None:
        for batch in _batches(facts):
            new = self._filter_new([self._clean(fact) for fact in batch])
            added = len(new)
            if new and not self.dry_run:
                texts = {place: embedding_text(fact.text, fact.speaker) for place, fact in enumerate(new)}
                vectors = self._embed_texts(texts)
                decisions: list[Decision] = []
                fact_vectors: dict[int, Vector] = {}
                for place, fact in enumerate(new):
                    vector = vectors.get(place)
                    if vector is not None:
                        if self.repeats and self.repeats(fact, vector):
                            continue  # a memory says the same in other words
                        fact_vectors[len(decisions)] = vector
                    decisions.append(Add(fact, unless_known=True))
                changes = self._apply(decisions, fact_vectors).changes if decisions else ()
                added = sum(change.action == "add" for change in changes)  # another process may have been faster
            self._count(read=len(batch), added=added, known=len(batch) - added)

    def _clean(self, fact: Fact) -> Fact:
        metadata = {name: value for name, value in fact.metadata.items() if name != MAY_REPLACE}  # ids of another store
        changes = {**self.about, "metadata": metadata}
        changed = any(getattr(fact, name) != now for name, now in changes.items())
        own = self.own(Redactor().record(replace(fact, **changes) if changed else fact))
        return replace(own, provenance="import", author="")

    def _filter_new(self, facts: Sequence[Fact]) -> list[Fact]:
        """Return the facts with a new origin, and with words that are new at their place, each once."""
        origins = self.store.snapshots.origins([fact.origin for fact in facts])
        new: dict[Any, Fact] = {}
        for fact in facts:
            if fact.origin in origins:
                continue
            same_text = self.store.known(fact.text, merge_scope(fact))
            speakers = [speaker for speaker, _ in self.store.said(same_text).values()] if same_text else []
            if fact.speaker not in speakers:
                new.setdefault((fingerprint(fact.text), merge_scope(fact), fact.speaker), fact)
        return list(new.values())

    def _read(
        self,
        lines: Iterable[str | bytes],
        read: Callable[[NumberedRecord], _Each],
        *,
        headed: bool = False,
        quietly: bool = False,
        rows: bool = False,
    ) -> Iterator[_Each]:
        """Yield what is on the lines after the header: memories and facts, or rows of domain knowledge.

        An invalid line raises BadRecord, or with `skip_bad` is skipped and, unless `quietly`, counted.
        """
        for line in islice(objects(lines), 1 if headed else 0, None):
            if headed and is_row(line) != rows:
                self.has_rows = True  # also set while rows are read, without effect
                continue
            try:
                if isinstance(line, BadRecord):
                    raise line
                entry = read(line)
            except BadRecord as bad:
                if quietly:
                    continue
                if not self.skip_bad:
                    raise
                self._count(skipped=1, bad=(bad.message,))
            else:
                yield entry

    def _apply(self, decisions: Sequence[Decision], vectors: Mapping[int, Vector]) -> Changeset:
        first, why = self.done.first, f"import {self.name}"
        done = self.store.apply(decisions, vectors, by=self.by, why=why, part_of=first)
        self.done = replace(self.done, first=first or done.id, changesets=self.done.changesets + 1)
        return done

    def _embed_texts(self, texts: dict[int, str]) -> dict[int, Vector]:
        if self.embed is None or not texts:
            return {}
        return dict(zip(texts, self.embed(list(texts.values())), strict=True))

    def _count(self, *, bad: tuple[str, ...] = (), **more: int) -> None:
        counted = {name: getattr(self.done, name) + number for name, number in more.items()}
        self.done = replace(self.done, bad=(*self.done.bad, *bad)[:_SHOWN], **counted)
        self.progress(self.done.read + self.done.rows_read + self.done.skipped)


def import_lines(
    store: Store, embed: Embed | None, lines: Iterable[str | bytes], *, name: str, **how: Any
) -> ImportResult:
    """Import lines; `how` takes the fields of ImportRun."""
    return ImportRun(store=store, embed=embed, name=name, **how).lines(lines)


def import_facts(
    store: Store, embed: Embed | None, facts: Iterable[Fact | SkippedEntry], *, name: str, **how: Any
) -> ImportResult:
    """Import facts, each with its origin; `how` takes the fields of ImportRun."""
    return ImportRun(store=store, embed=embed, name=name, **how).facts(facts)


def _batches(entries: Iterable[_Each]) -> Iterator[list[_Each]]:
    """Yield batches of BATCH. Before an error is raised, the entries read before it are yielded."""
    batch: list[_Each] = []
    try:
        for entry in entries:
            batch.append(entry)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except CofioError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
