"""The server store of one tenant: its memories, inbox, episodes and dashboard in a PostgreSQL database.

receive, amend ─▶ pending ─ claim ─▶ settled | postponed | parked ─ retry ─▶ pending
                     ▲         │
                     └─────────┴─ given back, or claim expired
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from cofio.errors import StoreError
from cofio.models.dashboard import MapSource
from cofio.models.episodes import ExportedEpisode
from cofio.models.exchange import Item, Receipt
from cofio.models.memory import Candidate, Changeset, Memory, Scope
from cofio.ports import Clock, Vector
from cofio.stores.episodes import SqlEpisodes, adopt_rows
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.inbox import Delivery, SqlInbox, deliver
from cofio.stores.inbox_rules import ITEMS, add_seconds
from cofio.stores.memory_rows import SqlRowStorage
from cofio.stores.postgres.connection import PostgresServer
from cofio.stores.postgres.ranking import (
    TenantRanking,
    TenantState,
    load_vectors,
    load_vectors_of,
    search_tokens,
    searchable,
    to_matrix,
    to_phrase,
)
from cofio.stores.query_runner import BRIEFLY, Queries, Row
from cofio.stores.row_mapping import as_json, check_vectors, storable_ids
from cofio.stores.snapshot_export import SqlSnapshots
from cofio.stores.sql_store import SqlStore
from cofio.stores.statistics import NO_DOTS, SqlDashboardQueries, live_scope, to_dots

CLAIMED = 600.0  # seconds until a claim expires: a model reads four batches in less
_CLAIMED_AT_ONCE = 4  # items, each with its session's batch, that one process claims: it leaves some to the others
_PASSAGES = "passage_"
_FLOAT = 4  # bytes of a number in a vector
_log = logging.getLogger(__name__)


class PostgresRowStorage(SqlRowStorage):
    """Rows of one tenant, with the columns of word search."""

    def insert(self, memory: Memory) -> int:
        number = super().insert(memory)
        if memory.id:
            self._queries.run("raise_sequence", {"id": number}, table="memories")
        return number

    def _to_phrase(self, word: str) -> str:
        return to_phrase(word)

    def _to_row(self, memory: Memory) -> dict[str, Any]:
        return {**super()._to_row(memory), **searchable(memory)}


class PostgresStore(SqlStore):
    """Store in a PostgreSQL database, which other tenants, processes and machines may share."""

    kind = "postgresql"
    row_storage = PostgresRowStorage
    _ranking: TenantRanking

    def __init__(self, url: str, clock: Clock) -> None:
        self._server = PostgresServer(url)
        self._ranking = TenantRanking(self._server, self._refuse_another_embedder)
        super().__init__(self._server, clock)
        self.inbox = PostgresInbox(self._server, clock)
        self.snapshots = SqlSnapshots(self._server, clock, _take_ids)
        self.dashboard = PostgresDashboardQueries(self._server, clock)
        self.episodes = PostgresEpisodes(self._server, clock, self._bind_vectors, self._refuse_another_embedder)

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _bind_vectors(self, queries: Queries, vectors: Mapping[int, Vector]) -> None:
        """Check that the vectors fit the store's, and record their dimension if they are the first."""
        if not vectors:
            return
        state = TenantState.read(queries)
        check_vectors(vectors, state.dimension or None)
        self._refuse_another_embedder(state.signature)
        if not state.dimension:
            queries.run("set_meta", {"name": "dimension", "value": str(_dimension_of(vectors))})

    def _after_apply(self, changeset: Changeset, vectors: Mapping[int, Vector]) -> None:
        if changeset.part_of is None:  # after a long series, building the index takes a fraction of the time
            self._follow_up(_dimension_of(vectors))

    def _follow_up(self, dimension: int) -> None:
        """Update the index after a commit. Errors are only logged: the data is committed, the rest is retried later."""
        try:
            self._ranking.keep_index(dimension)
        except StoreError as error:
            _log.warning(
                "The change was stored, but the search index could not be updated; the next search retries: %s", error
            )

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        words_by_id: dict[int, list[str]] = {memory_id: [] for memory_id in ids}
        if words and ids:
            params = {"phrases": [to_phrase(word) for word in words], "ids": list(ids)}
            with self._server.reading() as rows:
                for memory_id, place in rows.all("holding", params):
                    words_by_id[memory_id].append(words[place - 1])
        return words_by_id

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        with self._server.snapshot() as rows:
            state = self._ranking.state(rows)
            vectors = load_vectors(rows, scope, state.dimension) if state.dimension else None
        return vectors.pairs(threshold) if vectors else iter(())

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        with self._server.snapshot() as rows:
            state = self._ranking.state(rows)
            vectors = load_vectors_of(rows, storable_ids(ids), state.dimension) if state.dimension else None
        near = vectors.neighbours(ids, threshold, k) if vectors else iter(())
        return ((memory_id, list(starmap(Candidate, others))) for memory_id, others in near)

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._server.writing(alone=True) as rows:
            self._bind_vectors(rows, vectors)
            rows.many("fill_vector", _vector_rows(vectors))
        self._follow_up(_dimension_of(vectors))

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        with self._server.reading() as rows:
            state = TenantState.read(rows)
        if state.signature == signature and not reset:
            self._signature = signature  # the usual case, without the write lock
            self._follow_up(state.dimension)
            return
        with self._server.writing(alone=True) as rows:
            current = TenantState.read(rows)
            empty = not rows.value("any_vector")
            if current.signature and current.signature != signature and not (reset or empty):
                self._signature = signature
                self._refuse_another_embedder(current.signature)
            rows.run("set_meta", {"name": "signature", "value": signature})
            if reset or empty:
                for name in ("drop_vectors", "forget_old_vectors", "drop_passage_vectors", "unembed_passages"):
                    rows.run(name)
                rows.run("drop_meta", {"name": "dimension"})
                self.episodes.drop_index(rows, current.dimension)
                self._ranking.drop_index(rows, current.dimension)
        self._signature = signature

    def _size(self, queries: Queries) -> int:
        return int(queries.value("bytes"))

    def close(self) -> None:
        self._server.close()


def _take_ids(queries: Queries, count: int) -> int:
    """Take ids from the sequence that all tenants share; return the last one below them.

    Ids that another tenant takes in between do no harm, because ids belong to one tenant. No other process of this
    tenant takes ids meanwhile: the caller holds the write lock (`alone`).
    """
    first = int(queries.value("take_ids", {"count": count}))
    queries.run("set_meta", {"name": "reserved", "value": str(first + count - 1)})
    return first - 1


def _dimension_of(vectors: Mapping[int, Vector]) -> int:
    """Return the length of these vectors; 0 if there are none."""
    return len(next(iter(vectors.values()), ()))


def _vector_rows(vectors: Mapping[int, Vector]) -> list[dict[str, Any]]:
    return [{"id": row, "vector": np.asarray(vectors[row], np.float32)} for row in sorted(storable_ids(vectors))]


class PostgresInbox(SqlInbox):
    """Inbox of one tenant: many processes deliver to it and share the work on it."""

    def _deliver(self, delivery: Delivery) -> list[Receipt]:
        """Write a delivery, with its sessions locked, so that a turn is stored once and amended by one process at once.

        Always in the same order, to avoid deadlocks.
        """
        with self._database.writing() as queries:
            for name in sorted({as_json([row["client"], row["session"]]) for row in delivery.rows if row["turn"]}):
                queries.lock(f"session/{name}")
            return deliver(queries, delivery)

    def claim(self, limit: int, together: int = 1) -> list[Item]:
        return self._readable(lambda: self._claim(min(limit, _CLAIMED_AT_ONCE), together))

    def _claim(self, limit: int, together: int) -> list[Row]:
        self._correct_dates()
        with self._reading() as queries:
            if not queries.value("any_due", {"at": self._clock()}):
                return []  # by far the most frequent case
        with self._database.writing() as queries:
            queries.lock("claiming")  # one at a time: the second process sees what is claimed, and claims other items
            at = self._clock()
            values = {"at": at, "until": add_seconds(at, CLAIMED), "limit": limit, "together": together}
            return queries.all("claim_items", values, items=ITEMS)

    def give_back(self, items: Sequence[Item]) -> None:
        at = self._clock()
        with self._database.writing() as queries:
            queries.many("give_back_items", [{"id": item.id, "until": item.due_at, "at": at} for item in items])


class PostgresEpisodes(SqlEpisodes):
    """EpisodeIndex of one tenant."""

    def __init__(
        self,
        server: PostgresServer,
        clock: Clock,
        bind_vectors: Callable[[Queries, Mapping[int, Vector]], None],
        refuse_another_embedder: Callable[[str], None],
    ) -> None:
        self._vectors = TenantRanking(server, refuse_another_embedder, _PASSAGES)
        super().__init__(server, clock, self._vectors)
        self._bind_vectors = bind_vectors
        self.drop_index = self._vectors.drop_index

    def index(self, capture: int) -> int | None:
        with self._database.writing() as rows:
            rows.one("capture_to_index", {"capture": capture})  # amending and purging lock the capture first, too
            rows.lock("episodes")  # parts of one turn become one episode, even if several processes index them
            return self._index_capture(rows, capture)

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._database.writing(BRIEFLY, alone=True) as rows:  # deferrable: writers of facts go first
            self._bind_vectors(rows, vectors)
            rows.many("passage_fill_vector", _vector_rows(vectors))
        self._vectors.keep_index(_dimension_of(vectors))

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        with self._database.writing(alone=True) as rows:
            blobs = adopt_rows(self, rows, episodes)
            vectors = {number: np.frombuffer(blob, "<f4") for number, blob in blobs.items()}
            self._bind_vectors(rows, vectors)
            rows.many("passage_fill_vector", _vector_rows(vectors))
            if episodes:
                last = max(episode.episode.id for episode in episodes)
                rows.run("raise_sequence", {"id": last}, table="episodes")

    def _searchable(self, text: str) -> dict[str, Any]:
        words = search_tokens(text)
        return {"said": " ".join(words), "length": max(1, len(words))}

    def _vector_size(self, queries: Queries) -> int:
        return _FLOAT * TenantState.read(queries, _PASSAGES).dimension


class PostgresDashboardQueries(SqlDashboardQueries):
    """Dashboard statistics of one tenant."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        super().__init__(server, clock)
        self._server = server

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        where, values = condition(live_scope(scope), POSTGRES)
        with self._server.reading() as rows:
            dots = rows.in_bytes("dots", {**values, "characters": characters, "most": most}, where=where)
            if not dots:
                return NO_DOTS
            total = len(dots) if len(dots) < most else int(rows.value("count_dots", values, where=where))
        return to_dots([row[:-1] for row in dots], to_matrix([row[-1] for row in dots]), total)
