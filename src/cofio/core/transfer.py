"""Transfer: export of memories, and import of exports and of other tools' memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict, Unpack

from cofio.ingest import sanitize
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparer
from cofio.ingest.writer import Writer, check_author
from cofio.models.memory import Fact
from cofio.ports import Vector
from cofio.retrieval.log import RetrievalLog
from cofio.transfer import export
from cofio.transfer.importer import ImportResult, ImportRun
from cofio.transfer.importers.base import SkippedEntry


class ImportKwargs(TypedDict, total=False):
    """Keyword arguments for the options of an import."""

    about: Mapping[str, Any]  # fields set on every fact, overriding its own
    dry_run: bool
    skip_bad: bool
    progress: Callable[[int], None]  # called with the number of entries read
    done: ImportResult  # counts of an earlier part, to continue from


class TransferService:
    """Exports and imports memories on behalf of one caller."""

    def __init__(self, writer: Writer, log: RetrievalLog, comparer: Comparer, *, has_judge: bool) -> None:
        self._writer = writer
        self._store = writer.access.store
        self._log = log
        self._comparer = comparer
        self._has_judge = has_judge

    def export_lines(self, *, vectors: bool = False) -> Iterator[str]:
        """Yield a header, then every memory as a line of JSON; archived ones included, with vectors on request."""
        self._log.flush_or_tell()
        return export.export_lines(self._store, vectors=vectors)

    def import_lines(
        self,
        lines: Iterable[str | bytes],
        *,
        name: str,
        embed: bool = True,
        by: str = "library",
        **options: Unpack[ImportKwargs],
    ) -> ImportResult:
        """Import an export, or lines of plain facts."""
        return self._build_run(name, embed, by, options).lines(lines)

    def import_facts(
        self,
        facts: Iterable[Fact | SkippedEntry],
        *,
        name: str,
        embed: bool = True,
        by: str = "library",
        **options: Unpack[ImportKwargs],
    ) -> ImportResult:
        """Import facts that name their source, such as another tool's memories."""
        return self._build_run(name, embed, by, options).facts(facts)

    def _build_run(self, name: str, embed: bool, by: str, options: ImportKwargs) -> ImportRun:
        check_author(by, f"import {name}")
        encoder = self._writer.encoder
        return ImportRun(
            store=self._store,
            name=name,
            by=by,
            embed=encoder.embed if embed else None,
            signature=encoder.signature,
            redact=sanitize.redact,
            own=self._writer.access.own_fact,
            repeats=self._is_repeated if self._has_judge else None,
            **options,
        )

    def _is_repeated(self, fact: Fact, vector: Vector) -> bool:
        """Return whether a memory of the same scope already says this fact."""
        near = decide.related(fact, vector, self._store, self._comparer)
        return any(verdict.kind == "same" for _, verdict in near)
