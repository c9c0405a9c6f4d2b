"""Store of one tenant of a PostgreSQL database."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from psycopg.errors import UniqueViolation

from cofio.errors import Conflict, EmbedderMismatch, NotFound, StoreError
from cofio.models.domain_knowledge import KnowledgeDecision
from cofio.models.memory import (
    Candidate,
    Change,
    Changeset,
    Decision,
    Matching,
    Memory,
    Occurrence,
    Retrieval,
    Scope,
    to_utc_iso,
)
from cofio.ports import Clock, Settles, Vector
from cofio.stores.apply import UnitOfWork, to_change
from cofio.stores.domain_knowledge import KnowledgeUnitOfWork, SqlKnownRows, changed_within, of_changeset
from cofio.stores.filters import POSTGRES, condition
from cofio.stores.journal import to_changeset, to_entry
from cofio.stores.postgres.bm25 import TenantBm25
from cofio.stores.postgres.connection import BRIEFLY, PostgresServer, TenantQueries
from cofio.stores.postgres.dashboard import PostgresDashboardQueries
from cofio.stores.postgres.domain_knowledge import PostgresKnowledgeTables, PostgresNamedQueries
from cofio.stores.postgres.episodes import PostgresEpisodes
from cofio.stores.postgres.inbox import PostgresInbox, settle_item
from cofio.stores.postgres.keys import PostgresKeys
from cofio.stores.postgres.llm_calls import PostgresLLMCalls
from cofio.stores.postgres.maintenance_runs import PostgresRuns
from cofio.stores.postgres.notes import PostgresNotes
from cofio.stores.postgres.row_writer import PostgresRowStorage, storable_ids
from cofio.stores.postgres.snapshot_export import PostgresSnapshots
from cofio.stores.postgres.store_state import TenantSize, TenantState
from cofio.stores.postgres.token_embeddings import PostgresTokenEmbeddings
from cofio.stores.postgres.usage_statistics import PostgresUsageQueries
from cofio.stores.postgres.vector_search import VectorSearch, load_vectors, load_vectors_of, to_candidates
from cofio.stores.row_mapping import LISTED, check_vectors, from_json, is_storable_int, to_memory
from cofio.text.tokens import fingerprint

_LAST = (1 << 63) - 1  # above every id
_GROUPS = ("category", "kind", "source", "visibility")
_log = logging.getLogger(__name__)


class PostgresStore:
    """Store in a PostgreSQL database, which other tenants, processes and machines may share."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._server = PostgresServer(url)
        self._clock = clock
        self.inbox = PostgresInbox(self._server, clock)
        self.runs = PostgresRuns(self._server, clock)
        self.llm_calls = PostgresLLMCalls(self._server, clock)
        self.uses = PostgresUsageQueries(self._server)
        self.carrying = PostgresSnapshots(self._server)
        self.keys = PostgresKeys(self._server, clock)
        self.notes = PostgresNotes(self._server, clock)
        self.domain = PostgresKnowledgeTables(self._server)
        self.pictures = PostgresDashboardQueries(self._server)
        self.readings = PostgresTokenEmbeddings(self._server)
        self.episodes = PostgresEpisodes(self._server, self._bound_to, self._refuse_another_embedder)
        self._words = TenantBm25()
        self._nearest = VectorSearch()
        self._extent: TenantSize | None = None
        self._signature = ""  # "" until an embedder is bound

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(
        self,
        decisions: Sequence[Decision],
        vectors: Mapping[int, Vector],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        settles: Settles | None = None,
        knowledge: Sequence[KnowledgeDecision] = (),
    ) -> Changeset:
        at = self._clock()
        about = {"at": at, "by": by, "why": why, "undoes": undoes, "part_of": part_of}
        with self._server.writing(alone=True) as rows:
            dimension = self._bound_to(rows, vectors)
            number = _open_changeset(rows, about)
            head: dict[str, Any] = {"at": at, "by": by, "why": why}
            blobs = {place: np.ascontiguousarray(vector, dtype="<f4").tobytes() for place, vector in vectors.items()}
            changes_by_decision = UnitOfWork(PostgresRowStorage(rows), changeset=number, **head).each(decisions, blobs)
            changes = tuple(change for group in changes_by_decision for change in group)
            knowledge_changes = KnowledgeUnitOfWork(
                SqlKnownRows(PostgresNamedQueries(rows)), changeset=number, **head
            ).all(knowledge, changes_by_decision)
            changeset = Changeset(
                id=number, **head, undoes=undoes, part_of=part_of, changes=changes, knowledge=knowledge_changes
            )
            if settles:
                settle_item(rows, settles(changeset), at=at, changeset=number)
        if part_of is None:  # after a long series, building the index takes a fraction of the time (`sign` does it)
            self._follow_up(dimension)
        return changeset

    def _bound_to(self, rows: TenantQueries, vectors: Mapping[int, Vector]) -> int:
        """Return the dimension of these vectors after checking that they fit the store's; 0 if there are none."""
        if not vectors:
            return 0
        state = TenantState.read(rows)
        check_vectors(vectors, state.dimension or None)
        self._refuse_another_embedder(state.signature)
        dimension = len(next(iter(vectors.values())))
        if not state.dimension:
            rows.run("set_meta", {"name": "dimension", "value": str(dimension)})
        return dimension

    def _follow_up(self, dimension: int) -> None:
        """Update the index after a commit. Errors are only logged: the data is committed, the rest is retried later."""
        try:
            self._nearest.keep_index(self._server, dimension)
        except StoreError as error:
            _log.warning("Index refresh after commit failed: %s", error)

    def _refuse_another_embedder(self, signature: str) -> None:
        if self._signature and signature != self._signature:
            hint = "Set the embedder back, or run `cofio reembed` to embed every memory again."
            raise EmbedderMismatch(f"The store was embedded with {signature}, not with {self._signature}.", hint)

    def _state(self, rows: TenantQueries) -> TenantState:
        """Return the state of the store. Raise EmbedderMismatch after a re-embedding by another process."""
        state = TenantState.read(rows)
        self._refuse_another_embedder(state.signature)
        return state

    def _extent_at(self, rows: TenantQueries, state: TenantState) -> TenantSize:
        extent = self._extent
        if extent is None or not extent.is_good_at(state):
            self._extent = extent = TenantSize.read(rows, state)
        return extent

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Memory]:
        with self._server.reading() as rows:
            records = rows.all("get_memories", {"ids": storable_ids(ids)}, columns=LISTED)
        memory_by_id = {row[0]: to_memory(row) for row in records}
        return [memory_by_id[memory_id] for memory_id in ids if memory_id in memory_by_id]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        with self._server.reading() as rows:
            records = rows.all("said", {"ids": storable_ids(ids)})
        return {memory_id: (speaker, created_at) for memory_id, speaker, created_at in records}

    def has_speakers(self) -> bool:
        with self._server.reading() as rows:
            return bool(rows.value("any_speaker"))

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        where, values = condition(scope, POSTGRES)
        with self._server.reading() as rows:
            memories = _read_page(rows, scope, limit, _LAST if after is None else after, skip)
            return memories, int(rows.value("count", values, where=where))

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        with self._server.reading() as rows:
            return _read_page(rows, scope, limit, _LAST)

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        where, values = condition(scope, POSTGRES)
        with self._server.reading() as rows:
            records = rows.all("latest", {**values, "limit": limit}, columns=LISTED, where=where)
        return [to_memory(row) for row in records]

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        with self._server.reading() as rows:
            state = self._state(rows)
            if not state.dimension:
                return []
            extent = self._extent_at(rows, state)
            candidates = self._nearest.find(rows, vector, k, scope, extent, state) if k > 0 else []
            missing = storable_ids(sorted(set(also) - {candidate.id for candidate in candidates}))
            return candidates + self._nearest.cosines(rows, vector, missing)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        with self._server.reading() as rows:
            extent = self._extent_at(rows, self._state(rows))
            return self._words.matching(rows, words, k, scope, extent)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        with self._server.reading() as rows:
            return self._words.holding(rows, words, ids)

    def known(self, text: str, scope: Scope) -> list[int]:
        where, values = condition(scope, POSTGRES)
        with self._server.reading() as rows:
            records = rows.all("known", {**values, "fingerprint": fingerprint(text)}, where=where)
        return [memory_id for (memory_id,) in records]

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        with self._server.still() as rows:
            state = self._state(rows)
            vectors = load_vectors(rows, scope, state.dimension) if state.dimension else None
        return vectors.pairs(threshold) if vectors else iter(())

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        with self._server.still() as rows:
            state = self._state(rows)
            vectors = load_vectors_of(rows, storable_ids(ids), state.dimension) if state.dimension else None
        return to_candidates(vectors.neighbours(ids, threshold, k)) if vectors else iter(())

    # ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> list[Change]:
        with self._server.reading() as rows:
            changes = _read_changes(rows, "changes_of_lineage", memory_id)
        if not changes:
            raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
        return changes

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        with self._server.reading() as rows:
            return [Occurrence(*row) for row in rows.all("sightings", {"id": memory_id})]

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        where, values = condition(scope, POSTGRES)
        with self._server.reading() as rows:
            counts = rows.all("projects", {**values, "after": after, "limit": limit}, where=where)
        return [(name, count) for name, count in counts]

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        where, values = condition(scope, POSTGRES)
        with self._server.reading() as rows:
            repeats = rows.all("repeated", {**values, "least": least, "limit": limit}, where=where)
        return [(agent, memory_id, times) for agent, memory_id, times in repeats]

    def changeset(self, changeset_id: int) -> Changeset:
        with self._server.reading() as rows:
            row = rows.one("get_changeset", {"id": changeset_id}) if is_storable_int(changeset_id) else None
            if row is None:
                raise NotFound(f"There is no changeset {changeset_id}.", "`cofio history` lists the newest.")
            knowledge = of_changeset(PostgresNamedQueries(rows), changeset_id)
            return to_changeset(row, _read_changes(rows, "changes_of_changeset", changeset_id), knowledge)

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        with self._server.reading() as rows:
            if within:
                where, values = condition(within, POSTGRES)
                known_where = changed_within(within, POSTGRES)
                records = rows.all(
                    "newest_changesets_within", {**values, "limit": limit}, where=where, known=known_where
                )
            else:
                records = rows.all("newest_changesets", {"limit": limit})
        return [to_changeset(row, []) for row in records]

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        if not retrievals:
            return
        counts = Counter(retrieval.memory_id for retrieval in retrievals)
        latest = {
            retrieval.memory_id: retrieval.at for retrieval in sorted(retrievals, key=lambda retrieval: retrieval.at)
        }
        # By id, so that concurrent writers of the same memories do not deadlock.
        updates = [
            {"id": memory_id, "count": counts[memory_id], "last": latest[memory_id]} for memory_id in sorted(counts)
        ]
        with self._server.writing(BRIEFLY) as rows:  # log writes do not block
            rows.many("note", [asdict(retrieval) for retrieval in retrievals])
            rows.run("begin_tracking")
            rows.many("count_retrievals", updates)

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        name = "unembedded" if among is None else "unembedded_among"
        with self._server.reading() as rows:
            records = rows.all(name, {"limit": limit, "ids": storable_ids(among or ())}, columns=LISTED)
        return [to_memory(row) for row in records]

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._server.writing(alone=True) as rows:
            dimension = self._bound_to(rows, vectors)
            filled = {
                memory_id: np.asarray(vectors[memory_id], np.float32)
                for memory_id in sorted(storable_ids(list(vectors)))
            }
            rows.many("fill_vector", [{"id": memory_id, "vector": vector} for memory_id, vector in filled.items()])
        self._follow_up(dimension)

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
                self._begin_anew(rows, current.dimension)
        self._signature = signature

    def _begin_anew(self, rows: TenantQueries, dimension: int) -> None:
        """Delete every vector, and the dimension."""
        for name in ("drop_vectors", "forget_old_vectors"):
            rows.run(name)
        rows.run("drop_meta", {"name": "dimension"})
        self.episodes.drop_vectors(rows, dimension)
        self._nearest.drop_index(rows, dimension)

    def given(self, client: str, session: str) -> dict[int, str]:
        with self._server.reading() as rows:
            return dict(rows.all("given", {"client": client, "session": session}))

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        whom = {"client": client, "session": session, "at": self._clock()}
        records = [
            {**whom, "id": memory_id, "digest": given[memory_id]} for memory_id in sorted(storable_ids(list(given)))
        ]
        if records:
            with self._server.writing(BRIEFLY) as rows:  # these writes do not block
                rows.many("give", records)

    def forget_given(self, client: str, session: str) -> None:
        with self._server.writing() as rows:
            rows.run("forget_given", {"client": client, "session": session})

    def forget_given_before(self, before: str) -> int:
        with self._server.writing() as rows:
            return rows.count("forget_given_before", {"before": to_utc_iso(before)})

    def stats(self) -> dict[str, Any]:
        with self._server.reading() as rows:
            live, total, vectors, changesets, retrievals, pending = rows.all("stats")[0]
            signature = TenantState.read(rows).signature
            size = int(rows.value("bytes"))
            groups = {f"by_{column}": dict(rows.all("stats_by", column=column)) for column in _GROUPS}
        return {
            "store": "postgresql",
            "memories": live,
            "archived": total - live,
            "vectors": vectors,
            "changesets": changesets,
            "retrievals": retrievals,
            "inbox_pending": pending,
            "embedder": signature or None,
            "bytes": size,
            **groups,
        }

    def close(self) -> None:
        self._server.close()


def _open_changeset(rows: TenantQueries, about: Mapping[str, Any]) -> int:
    try:
        return int(rows.value("open_changeset", about))
    except UniqueViolation as error:
        raise Conflict(f"Changeset {about['undoes']} is undone already.", "Undo that undo to reapply it.") from error


def _read_page(rows: TenantQueries, scope: Scope, limit: int, after: int, skip: int = 0) -> list[Memory]:
    where, values = condition(scope, POSTGRES)
    records = rows.all("page", {**values, "after": after, "limit": limit, "skip": skip}, columns=LISTED, where=where)
    return [to_memory(row) for row in records]


def _read_changes(rows: TenantQueries, name: str, key: int) -> list[Change]:
    """Return the changes that a query selects, each with the memory after it; a changeset may have thousands."""
    records = rows.all(name, {"id": key}) if is_storable_int(key) else []
    entries = [to_entry(columns) for *columns, _, _, _ in records]
    later = dict(rows.all("next_befores", {"ids": [entry.id for entry in entries]}))
    last = [entry.memory_id for entry in entries if entry.id not in later]
    memory_by_id = {row[0]: to_memory(row) for row in rows.all("get_memories", {"ids": last}, columns=LISTED)}
    changes = []
    for entry, (*_, at, by, why) in zip(entries, records, strict=True):
        before = later.get(entry.id)
        after = memory_by_id.get(entry.memory_id) if entry.id not in later else from_json(before) if before else None
        changes.append(to_change(entry, after, at, by, why))
    return changes
