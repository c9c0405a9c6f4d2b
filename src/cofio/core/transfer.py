"""Transfer: export of memories, and import of exports and of other tools' memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

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


@dataclass(eq=False)
class TransferService:
    """Exports and imports memories on behalf of one caller."""

    writer: Writer
    log: RetrievalLog
    comparer: Comparer
    has_judge: bool

    def export_lines(self, *, vectors: bool = False) -> Iterator[str]:
        """Yield a header, then every memory as a line of JSON; archived ones included, with vectors on request."""
        self.log.flush_or_tell()
        return export.export_lines(self.writer.access.store, vectors=vectors)

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
        encoder = self.writer.encoder
        return ImportRun(
            store=self.writer.access.store,
            name=name,
            by=by,
            embed=encoder.embed if embed else None,
            signature=encoder.signature,
            own=self.writer.access.own_fact,
            repeats=self._is_repeated if self.has_judge else None,
            **options,
        )

    def _is_repeated(self, fact: Fact, vector: Vector) -> bool:
        """Return whether a memory of the same scope already says this fact."""
        near = decide.related(fact, vector, self.writer.access.store, self.comparer)
        return any(verdict.kind == "same" for _, verdict in near)
