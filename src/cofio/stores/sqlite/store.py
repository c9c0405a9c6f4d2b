"""The embedded store: one SQLite file for rows, words, vectors and journal, with vectors searched in memory.

apply ─▶ one transaction (rows + words + vectors + journal) ─▶ update of the in-memory index
nearest, matching ─▶ catch up with commits of other processes ─▶ rank in memory ─▶ narrow to the scope
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path

import numpy as np

from cofio.errors import StoreError
from cofio.models.dashboard import MapSource
from cofio.models.episodes import ExportedEpisode
from cofio.models.exchange import Item, Receipt
from cofio.models.memory import Candidate, Changeset, Scope
from cofio.ports import Clock, Vector
from cofio.stores.episodes import SqlEpisodes, adopt_rows
from cofio.stores.filters import condition
from cofio.stores.inbox import Delivery, SqlInbox, deliver
from cofio.stores.memory_rows import SqlRowStorage
from cofio.stores.query_runner import BRIEFLY, Queries, Row
from cofio.stores.row_mapping import check_vectors
from cofio.stores.snapshot_export import SqlSnapshots
from cofio.stores.sql_store import SqlStore, to_blob
from cofio.stores.sqlite.bm25 import MEMORIES, PASSAGES, quote_fts
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.group_commit import GroupCommit
from cofio.stores.sqlite.ranking import Ranking
from cofio.stores.sqlite.vector_index import VectorIndex
from cofio.stores.statistics import NO_DOTS, SqlDashboardQueries, live_scope, to_dots

_FLOAT = 4  # bytes of a number in a vector
_log = logging.getLogger(__name__)


class SqliteRowStorage(SqlRowStorage):
    """Rows of a file, whose words FTS5 indexes."""

    def _to_phrase(self, word: str) -> str:
        return quote_fts(word)


class SqliteStore(SqlStore):
    """Store in one SQLite file."""

    kind = "sqlite"
    row_storage = SqliteRowStorage
    _ranking: Ranking

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = StoreFile(path)
        self._ranking = Ranking(self._file, MEMORIES, self._refuse_another_embedder)
        super().__init__(self._file, clock)
        self.inbox = SqliteInbox(self._file, clock)
        self.snapshots = SqlSnapshots(self._file, clock, _take_ids)
        self.episodes = SqliteEpisodes(self._file, clock, self._refuse_another_embedder, self._wipe)
        self.dashboard = SqliteDashboardQueries(self._file, clock, lambda: self._ranking.held().vectors)
        self._unwiped = False  # the write-ahead log may still hold purged words

    def _check_vectors(self, vectors: Mapping[int, Vector]) -> None:
        if vectors:
            index = self._ranking.held().vectors
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

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        words_by_id: dict[int, list[str]] = {memory_id: [] for memory_id in ids}
        with self._file.reading() as queries:
            for word in words:
                for (memory_id,) in queries.all("holding", {"word": quote_fts(word), "ids": queries.ids(ids)}):
                    words_by_id[memory_id].append(word)
        return words_by_id

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        held = self._ranking.held()
        within = self._ranking.ids_of(scope, held) if scope.narrows else None
        return held.vectors.pairs(threshold, within=within) if held.vectors else iter(())

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        index = self._ranking.held().vectors
        for memory_id, near in index.neighbours(ids, threshold, k) if index else ():
            yield memory_id, list(starmap(Candidate, near))

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        self._check_vectors(vectors)
        with self._file.writing() as queries:
            self._refuse_another_embedder(self._read_signature(queries))
            for memory_id, vector in vectors.items():
                if queries.count("fill_vector", {"id": memory_id, "vector": to_blob(vector)}):
                    self._note_embedded(queries, [memory_id])
        self._follow_up()

    def drop_damaged_vectors(self) -> int:
        count = super().drop_damaged_vectors()
        self._follow_up()
        return count

    def _note_embedded(self, queries: Queries, ids: Sequence[int]) -> None:
        queries.many("note_embedded", [{"id": memory_id} for memory_id in ids])

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


class SqliteInbox(SqlInbox):
    """Inbox in the SQLite file of a store: many threads deliver with one commit, and one process works on the items."""

    def __init__(self, file: StoreFile, clock: Clock) -> None:
        super().__init__(file, clock)
        self._commit: GroupCommit[Delivery, list[Receipt]] = GroupCommit(file, deliver)

    def _deliver(self, delivery: Delivery) -> list[Receipt]:
        return self._commit(delivery)

    def _due(self, limit: int) -> list[Row]:
        with self._reading() as queries:
            if not queries.value("any_pending"):
                return []  # by far the most frequent case
        self._correct_dates()
        return super()._due(limit)

    def claim(self, limit: int, together: int = 1) -> list[Item]:  # noqa: ARG002
        return self.due(limit)  # a file is served by one process

    def give_back(self, items: Sequence[Item]) -> None:
        """Do nothing: `claim` takes no claims."""


class SqliteEpisodes(SqlEpisodes):
    """EpisodeIndex of an SQLite file."""

    def __init__(
        self, file: StoreFile, clock: Clock, refuse_another_embedder: Callable[[str], None], wiped: Callable[[], None]
    ) -> None:
        super().__init__(file, clock, Ranking(file, PASSAGES, refuse_another_embedder))
        self._refuse_another_embedder = refuse_another_embedder
        self._wiped = wiped  # truncates the write-ahead log

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._database.writing(BRIEFLY) as queries:  # deferrable: writers of facts go first
            self._refuse_another_embedder(str(queries.all("state")[0][3]))
            check_vectors(vectors, (self._vector_size(queries) // _FLOAT) or None)
            self._fill(queries, {number: to_blob(vector) for number, vector in vectors.items()})

    def _fill(self, queries: Queries, blobs: Mapping[int, bytes]) -> None:
        for number, blob in blobs.items():
            queries.run("passage_fill_vector", {"id": number, "vector": blob})

    def _note_embedded(self, queries: Queries, ids: Sequence[int]) -> None:
        queries.run("note_passage_changes", {"ids": queries.ids(ids)})

    def remove(self, ids: Sequence[int]) -> int:
        count = super().remove(ids)
        self._wiped()
        return count

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        with self._database.writing() as queries:
            self._fill(queries, adopt_rows(self, queries, episodes))

    def _vector_size(self, queries: Queries) -> int:
        return int(queries.all("passage_size_of_vectors")[0][1] or 0)


class SqliteDashboardQueries(SqlDashboardQueries):
    """Dashboard statistics of an SQLite file; vectors come from the in-memory index."""

    def __init__(self, file: StoreFile, clock: Clock, vectors: Callable[[], VectorIndex | None]) -> None:
        super().__init__(file, clock)
        self._vectors = vectors

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        vectors = self._vectors()
        if vectors is None:
            return NO_DOTS
        where, values = condition(live_scope(scope))
        with self._reading() as queries:
            ids_of = queries.column("ids_of", values, where=where) if live_scope(scope).narrows else None
            candidates = vectors.live(None if ids_of is None else np.array(ids_of, np.int64))
            params = {**values, "characters": characters, "ids": queries.listed(candidates[:most].tolist())}
            rows = queries.all("dots", params, where=where)
        ids, matrix = vectors.many([row[0] for row in rows])
        drawn = set(ids.tolist())
        return to_dots([row for row in rows if row[0] in drawn], matrix, len(candidates))
