"""Import of memories and facts into a store, as a series of changesets that can be undone as one.

    lines ─▶ place of each memory (first pass) ─▶ batches of Adopt ─ store.apply (second pass)
    rows of domain knowledge, after the memories that express them ─▶ batches of PutRow ─ store.apply (third pass)
    facts ─▶ new ones ─▶ batches of Add ─ store.apply

An interrupted import keeps what was done, and running it again resumes: nothing is imported twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from cofio.errors import CofioError, Conflict, InvalidInput
from cofio.models.domain_knowledge import Knowledge, PutRow, RowDecision
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import MAY_REPLACE, Add, Adopt, Changeset, Decision, Fact, Memory, merge_scope
from cofio.ports import Matrix, Store, Vector
from cofio.stores.snapshot_export import as_vector
from cofio.text.tokens import embedding_text, fingerprint
from cofio.transfer.id_mapping import IdMapping
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
from cofio.transfer.knowledge_ids import KnowledgeIdMapping

BATCH = 500  # memories in one changeset
_SHOWN = 20  # bad lines listed in the result
Embed: TypeAlias = Callable[[Sequence[str]], Matrix]
_Each = TypeVar("_Each")


_NOTHING = Changeset(id=0, at="", by="", why="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
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

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "bad": list(self.bad)}


@dataclass(kw_only=True)
class ImportRun:
    """Options and progress of an import."""

    store: Store
    name: str  # of the source, in the journal
    by: str = "library"
    embed: Embed | None = None  # None: vectors are computed later
    signature: str = ""  # of the embedder: vectors of the same one are kept
    redact: Callable[[str], str] = str  # applied to the words of facts
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
            raise InvalidInput(
                "The lines are given as an iterator, which can be read only once.", "Give a list or a JsonlFile."
            )
        first = next(objects(lines), None)
        if isinstance(first, BadRecord):
            raise first  # the format of the other lines is unknown then
        header = header_of(first) if first else None
        if header and self.about:
            raise InvalidInput(
                "An export already sets the source and project of each memory.", f"Omit: {', '.join(self.about)}."
            )
        try:
            if header:
                self._export(header, lines)
            else:
                self._store_facts(self._read(lines, self._parse_fact))
        except CofioError as error:
            raise self._add_progress(error) from error
        return replace(self.done, dry_run=self.dry_run)

    def facts(self, facts: Iterable[Fact | SkippedEntry]) -> ImportResult:
        """Store the new facts: those with an unknown origin, and unknown words at the same place."""
        try:
            self._store_facts(self._count_skipped(facts))
        except CofioError as error:
            raise self._add_progress(error) from error
        return replace(self.done, dry_run=self.dry_run)

    # ── an export ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _export(self, header: ExportHeader, lines: Iterable[str | bytes]) -> None:
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
        look: Callable[[NumberedRecord], Memory | MemoryOutline] = _parse_memory if self.skip_bad else outline
        for entries in _batches(self._read(lines, look, headed=True, quietly=True)):
            places.note(entries)  # with bad lines left out, links must not lead to them
        keeps = bool(header.embedder) and header.embedder == self.signature
        if not self.dry_run:
            places.settle()
            if keeps:
                self.store.set_signature(self.signature)
        for batch in _batches(self._read(lines, parse_memory, headed=True)):
            self._adopt(batch, places, keeps)
        if self.has_rows:
            rows = KnowledgeIdMapping(self.store, header.store, None if self.dry_run else places)
            for row_batch in _batches(self._read(lines, parse_knowledge, headed=True, rows=True)):
                self._put(row_batch, rows)
        missing = max(0, header.memories - self.done.read) + max(0, header.knowledge - self.done.rows_read)
        self._count(missing=missing)

    def _adopt(self, batch: Sequence[ExportedMemory], places: IdMapping, keeps: bool) -> None:
        unknown = _filter_unknown(batch, places)
        if unknown and not self.dry_run:
            try:
                self._adopt_new(unknown, places, keeps)
            except Conflict:  # a concurrent import of the same: look again
                unknown = _filter_unknown(batch, places)
                self._adopt_new(unknown, places, keeps)
        self._count(read=len(batch), added=len(unknown), known=len(batch) - len(unknown))

    def _adopt_new(self, new: Sequence[ExportedMemory], places: IdMapping, keeps: bool) -> None:
        if new:
            decisions = [Adopt(places.placed(exported.memory), exported.sightings) for exported in new]
            self._apply(decisions, self._make_vectors(new, keeps))

    def _put(self, batch: Sequence[Knowledge], rows: KnowledgeIdMapping) -> None:
        new = rows.new(batch)
        if new and not self.dry_run:
            try:
                self._apply([], {}, [PutRow(row, as_of="") for row in new])
            except Conflict:  # a concurrent import of the same: look again
                new = rows.new(batch)
                if new:
                    self._apply([], {}, [PutRow(row, as_of="") for row in new])
        self._count(rows_read=len(batch), rows_added=len(new), rows_known=len(batch) - len(new))

    def _make_vectors(self, batch: Sequence[ExportedMemory], keeps: bool) -> dict[int, Vector]:
        vectors = {
            place: as_vector(exported.vector)
            for place, exported in enumerate(batch)
            if keeps and exported.vector is not None
        }
        missing = [place for place in range(len(batch)) if place not in vectors]
        texts = [embedding_text(batch[place].memory.text, batch[place].memory.speaker) for place in missing]
        return {**vectors, **self._embed_texts(dict(zip(missing, texts, strict=True)))}

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _parse_fact(self, line: NumberedRecord) -> Fact:
        return plain_fact(line, self.name)

    def _count_skipped(self, entries: Iterable[Fact | SkippedEntry]) -> Iterator[Fact]:
        for entry in entries:
            if isinstance(entry, Fact):
                yield entry
            else:
                self._count(skipped=1, bad=(f"{entry.where}: {entry.reason}",))

    def _store_facts(self, facts: Iterable[Fact]) -> None:
        for batch in _batches(facts):
            new = self._filter_new([self._clean(fact) for fact in batch])
            if new and not self.dry_run:
                vectors = self._embed_texts(
                    {place: embedding_text(fact.text, fact.speaker) for place, fact in enumerate(new)}
                )
                places = [place for place, fact in enumerate(new) if not self._is_repeated(fact, vectors.get(place))]
                decisions = [Add(new[place], unless_known=True) for place in places]
                fact_vectors = {at: vectors[place] for at, place in enumerate(places) if place in vectors}
                done = self._apply(decisions, fact_vectors) if decisions else _NOTHING
                added = sum(change.action == "add" for change in done.changes)  # another process may have been faster
            else:
                added = len(new)
            self._count(read=len(batch), added=added, known=len(batch) - added)

    def _clean(self, fact: Fact) -> Fact:
        changes = {**self.about, "text": self.redact(fact.text), "context": self.redact(fact.context)}
        metadata = {name: value for name, value in fact.metadata.items() if name != MAY_REPLACE}  # ids of another store
        changes["metadata"] = _redact_all(self.redact, metadata)
        changed = any(getattr(fact, name) != now for name, now in changes.items())
        return self.own(replace(fact, **changes) if changed else fact)

    def _filter_new(self, facts: Sequence[Fact]) -> list[Fact]:
        """Return the facts with a new origin, and with words that are new at their place, each once."""
        origins = self.store.snapshots.origins([fact.origin for fact in facts])
        new: dict[Any, Fact] = {}
        for fact in facts:
            if fact.origin not in origins and not self._is_said(fact):
                new.setdefault((fingerprint(fact.text), merge_scope(fact), fact.speaker), fact)
        return list(new.values())

    def _is_repeated(self, fact: Fact, vector: Vector | None) -> bool:
        """Return whether a memory says the same in other words. Contradictions are left for manual review."""
        if self.repeats is None or vector is None:
            return False
        return self.repeats(fact, vector)

    def _is_said(self, fact: Fact) -> bool:
        ids = self.store.known(fact.text, merge_scope(fact))
        return bool(ids) and any(speaker == fact.speaker for speaker, _ in self.store.said(ids).values())

    # ── shared ────────────────────────────────────────────────────────────────────────────────────────────────────────

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

        An invalid line raises BadLine, or with `skip_bad` is skipped and, unless `quietly`, counted.
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

    def _apply(
        self, decisions: Sequence[Decision], vectors: dict[int, Vector], knowledge: Sequence[RowDecision] = ()
    ) -> Changeset:
        first, why = self.done.first, f"import {self.name}"
        done = self.store.apply(decisions, vectors, by=self.by, why=why, part_of=first, knowledge=knowledge)
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

    def _add_progress(self, error: CofioError) -> CofioError:
        """Return the error, with what was imported before it in the hint."""
        if not self.done.first:
            return error
        imported = f"Entries before it were imported ({self.done.added + self.done.rows_added:,})"
        so_far = f"{imported}; `cofio undo {self.done.first}` reverts that."
        if isinstance(error, BadRecord):
            return BadRecord(error.number, error.problem, so_far)
        return type(error)(error.message, f"{so_far} Run it again to resume.")


def import_lines(
    store: Store, embed: Embed | None, lines: Iterable[str | bytes], *, name: str, **how: Any
) -> ImportResult:
    """Import lines; `how` takes the fields of Import."""
    return ImportRun(store=store, embed=embed, name=name, **how).lines(lines)


def import_facts(
    store: Store, embed: Embed | None, facts: Iterable[Fact | SkippedEntry], *, name: str, **how: Any
) -> ImportResult:
    """Import facts, each with its origin; `how` takes the fields of Import."""
    return ImportRun(store=store, embed=embed, name=name, **how).facts(facts)


def _parse_memory(line: NumberedRecord) -> Memory:
    return parse_memory(line).memory


def _filter_unknown(batch: Sequence[ExportedMemory], places: IdMapping) -> list[ExportedMemory]:
    """Return the memories that are not in the store yet, each once."""
    ids_here = places.known([exported.memory for exported in batch])
    new = {exported.memory.id: exported for exported, here in zip(batch, ids_here, strict=True) if here is None}
    return list(new.values())


def _redact_all(redact: Callable[[str], str], value: Any) -> Any:
    """Return the value with every text in it redacted, keys excepted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redact_all(redact, inner) for key, inner in value.items()}
    return [_redact_all(redact, inner) for inner in value] if isinstance(value, list) else value


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
