"""The embedded store: one SQLite file for rows, words, vectors and journal, with vectors searched in memory.

apply ─▶ one transaction (rows + words + vectors + journal) ─▶ update of the in-memory index
nearest, matching ─▶ catch up with commits of other processes ─▶ rank in memory ─▶ narrow to the scope
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path

from cofio.errors import StoreError
from cofio.models.memory import Candidate, Changeset, Matching, Scope
from cofio.ports import Clock, Vector
from cofio.stores.episodes import SqliteEpisodes
from cofio.stores.query_runner import Queries
from cofio.stores.row_mapping import check_vectors
from cofio.stores.snapshot_export import SqlSnapshots
from cofio.stores.sql_store import SqlStore, to_blob
from cofio.stores.sqlite.bm25 import MEMORIES, quote_fts
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.dashboard import SqliteDashboardQueries
from cofio.stores.sqlite.inbox import SqliteInbox
from cofio.stores.sqlite.ranking import InMemoryIndex, Ranking

_log = logging.getLogger(__name__)


class SqliteStore(SqlStore):
    """Store in one SQLite file."""

    kind = "sqlite"

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = StoreFile(path)
        super().__init__(self._file, clock)
        self.inbox = SqliteInbox(self._file, clock)
        self.snapshots = SqlSnapshots(self._file, _take_ids)
        self._ranking = Ranking(self._file, MEMORIES, self._refuse_another_embedder)
        self.episodes = SqliteEpisodes(self._file, self._refuse_another_embedder, self._wipe)
        self.dashboard = SqliteDashboardQueries(self._file, lambda: self._get_index().vectors)
        self._unwiped = False  # the write-ahead log may still hold purged words

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_vectors(self, vectors: Mapping[int, Vector]) -> None:
        if vectors:
            index = self._get_index().vectors
            check_vectors(vectors, index.dimension if index else None)

    def _bind_vectors(self, queries: Queries, vectors: Mapping[int, Vector]) -> None:
        if vectors:
            self._refuse_another_embedder(self._read_signature(queries))

    def _after_apply(self, changeset: Changeset, vectors: Mapping[int, Vector]) -> None:  # noqa: ARG002
        self._unwiped |= "purge" in changeset.actions
        self._follow_up()

    def _follow_up(self) -> None:
        """Update the index after a commit. Errors are only logged: the data is committed, the rest is retried later."""
        try:
            self._ranking.catch_up()
            if self._unwiped:
                self._unwiped = not self._file.empty_log()
        except StoreError as error:
            _log.warning(
                "The change was stored, but the search index could not be updated; the next search retries: %s", error
            )

    def _wipe(self) -> None:
        """Truncate the write-ahead log, now or after a later write, because it may hold erased words."""
        self._unwiped = True
        self._follow_up()

    def _get_index(self) -> InMemoryIndex:
        """Return the in-memory data, up to date with the file. Raise EmbedderMismatch if re-embedded elsewhere."""
        return self._ranking.held()

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._ranking.nearest(vector, k, scope, also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._ranking.matching(words, k, scope)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        words_by_id: dict[int, list[str]] = {memory_id: [] for memory_id in ids}
        with self._file.reading() as queries:
            for word in words:
                for (memory_id,) in queries.all("holding", {"word": quote_fts(word), "ids": queries.ids(ids)}):
                    words_by_id[memory_id].append(word)
        return words_by_id

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        memory_index = self._get_index()
        within = self._ranking.ids_of(scope, memory_index) if scope.narrows else None
        return memory_index.vectors.pairs(threshold, within=within) if memory_index.vectors else iter(())

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        index = self._get_index().vectors
        for memory_id, near in index.neighbours(ids, threshold, k) if index else ():
            yield memory_id, list(starmap(Candidate, near))

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        self._check_vectors(vectors)
        with self._file.writing() as queries:
            self._refuse_another_embedder(self._read_signature(queries))
            for memory_id, vector in vectors.items():
                if queries.count("fill_vector", {"id": memory_id, "vector": to_blob(vector)}):
                    queries.run("note_embedded", {"id": memory_id})
        self._follow_up()

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        with self._file.reading() as queries:
            if self._read_signature(queries) == signature and not reset:
                self._signature = signature  # the usual case, without the write lock
                return
        with self._file.writing() as queries:
            current = self._read_signature(queries)
            empty = not queries.value("any_vector")
            if current and current != signature and not (reset or empty):
                self._signature = signature
                self._refuse_another_embedder(current)
            if current != signature:
                queries.run("set_meta", {"name": "signature", "value": signature})
            if reset:
                for name in ("drop_vectors", "drop_passage_vectors", "unembed_passages", "forget_old_vectors"):
                    queries.run(name)
                generation = queries.all("state")[0][2]
                queries.run("set_meta", {"name": "generation", "value": str(int(generation) + 1)})
        self._signature = signature
        self._follow_up()

    def _read_signature(self, queries: Queries) -> str:
        return str(queries.all("state")[0][3])

    def _size(self, queries: Queries) -> int:  # noqa: ARG002
        return self._file.size()

    def close(self) -> None:
        self._file.close()


def _take_ids(queries: Queries, count: int) -> int:
    """Reserve ids of memories; return the last one below them."""
    last = int(queries.value("last_given"))
    if not queries.count("move_last_given", {"last": last + count}):
        queries.run("set_last_given", {"last": last + count})
    return last
