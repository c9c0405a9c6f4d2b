"""Everything about memories that is the same in every SQL store; a dialect adds its search of vectors and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import starmap
from typing import Any

import numpy as np

from cofio.errors import Conflict, EmbedderMismatch, NotFound
from cofio.models.diagnostics import Check, StoreDamage
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
from cofio.ports import Basis, Clock, Settles, Vector
from cofio.stores.api_keys import SqlKeys
from cofio.stores.apply import UnitOfWork
from cofio.stores.digests import find_damaged_rows
from cofio.stores.domain_knowledge import SqlKnowledgeRows, SqlKnowledgeTables, changed_within, of_changeset
from cofio.stores.inbox import settle_item
from cofio.stores.llm_calls import SqlLLMCalls
from cofio.stores.maintenance_runs import SqlRuns
from cofio.stores.markdown_notes import SqlNotes
from cofio.stores.memory_rows import SqlRowStorage
from cofio.stores.query_runner import BRIEFLY, LAST_ID, Database, Queries, SearchIndex, SqlAdapter
from cofio.stores.row_mapping import LISTED, is_storable_int, no_changeset, to_changeset, to_entry, to_memory, to_state
from cofio.stores.statistics import SqlUsageQueries
from cofio.text.tokens import fingerprint

_COMPUTED_AGAIN = "The service computes them again by itself; `cofio down` and `cofio reembed --missing` do it at once."
_GROUPS = ("category", "kind", "source", "visibility")


class SqlStore(SqlAdapter):
    """Memories of an SQL store, without the upkeep of vectors."""

    kind: str  # of store, in its statistics
    episodes: Any  # the EpisodeIndex of the dialect
    _ranking: SearchIndex
    row_storage: type[SqlRowStorage]

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self._signature = ""  # "" until an embedder is bound
        self.runs = SqlRuns(database, clock)
        self.llm_calls = SqlLLMCalls(database, clock)
        self.usage = SqlUsageQueries(database, clock)
        self.keys = SqlKeys(database, clock)
        self.notes = SqlNotes(database, clock)
        self.domain = SqlKnowledgeTables(database, clock)
        self.token_embeddings = SqlTokenEmbeddings(database, clock)

    def problems(self) -> list[Check]:
        """Return the current problems of the store, without reading memories."""
        problems = self._database.problems()
        if count := self._ranking.unusable:
            says = f"The vectors of {count:,} memories are damaged: these can be found by words only."
            problems.append(Check("store", "warning", says, _COMPUTED_AGAIN))
        return problems

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
        basis: Basis | None = None,
    ) -> Changeset:
        self._check_vectors(vectors)
        at = self._clock()
        head: dict[str, Any] = {"at": at, "by": by, "why": why}
        with self._database.writing(alone=True) as queries:
            if basis and queries.value("newest_changeset") != basis.as_of:
                decisions, vectors = basis.decide()
            self._bind_vectors(queries, vectors)
            blobs = {place: to_blob(vector) for place, vector in vectors.items()}
            number = queries.value("open_changeset", {**head, "undoes": undoes, "part_of": part_of})
            if number is None:
                raise Conflict(
                    f"Changeset {undoes} is undone already.",
                    "`cofio history` lists the changeset that undid it; undo that one to apply this one again.",
                )
            unit = UnitOfWork(self.row_storage(queries), SqlKnowledgeRows(queries), changeset=number, **head)
            changes, row_changes = unit.apply(decisions, blobs)
            changeset = Changeset(
                id=number, **head, undoes=undoes, part_of=part_of, changes=changes, knowledge=row_changes
            )
            if settles:
                settle_item(queries, settles(changeset), at=at, changeset=number)
            if any(change.action == "purge" for change in changes):
                queries.tidy("tidy_words")  # no word of it stays in the full-text segments
        self._after_apply(changeset, vectors)
        return changeset

    def newest_changeset(self) -> int:
        return int(self._read("newest_changeset")[0][0])

    def _check_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Raise unless the vectors fit those in the store, as far as this is known before the transaction."""

    def _bind_vectors(self, queries: Queries, vectors: Mapping[int, Vector]) -> None:
        """Raise unless the vectors fit those in the store, inside the transaction."""
        raise NotImplementedError

    def _after_apply(self, changeset: Changeset, vectors: Mapping[int, Vector]) -> None:
        raise NotImplementedError

    def _refuse_another_embedder(self, signature: str) -> None:
        if self._signature and signature != self._signature:
            hint = "Set COFIO_EMBEDDER back, or run `cofio reembed` to embed every memory again."
            raise EmbedderMismatch(f"The store was embedded with {signature}, not with {self._signature}.", hint)

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Memory]:
        memory_by_id = {row[0]: to_memory(row) for row in self._read_ids("get_memories", ids, columns=LISTED)}
        return [memory_by_id[memory_id] for memory_id in ids if memory_id in memory_by_id]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return {memory_id: (speaker, created_at) for memory_id, speaker, created_at in self._read_ids("said", ids)}

    def has_speakers(self) -> bool:
        return bool(self._read("any_speaker")[0][0])

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        values = {"after": LAST_ID if after is None else after, "limit": limit, "skip": skip}
        with self._reading() as queries:
            rows = queries.within(scope, "page", values, columns=LISTED)
            return list(map(to_memory, rows)), int(queries.within(scope, "count")[0][0])

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        values = {"after": LAST_ID, "limit": limit, "skip": 0}
        return list(map(to_memory, self._read_within(scope, "page", values, columns=LISTED)))

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        return list(map(to_memory, self._read_within(scope, "latest", {"limit": limit}, columns=LISTED)))

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._ranking.nearest(vector, k, scope, also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._ranking.matching(words, k, scope)

    def known(self, text: str, scope: Scope) -> list[int]:
        return [row[0] for row in self._read_within(scope, "known", {"fingerprint": fingerprint(text)})]

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        rows = self._read_within(scope, "projects", {"after": after, "limit": limit})
        return [(name, count) for name, count in rows]

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        rows = self._read_within(scope, "repeated", {"least": least, "limit": limit})
        return [(agent, memory_id, times) for agent, memory_id, times in rows]

    # ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> list[Change]:
        with self._reading() as queries:
            changes = _read_changes(queries, "changes_of_lineage", memory_id)
        if not changes:
            raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
        return changes

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        return list(starmap(Occurrence, self._read("sightings", {"id": memory_id})))

    def changeset(self, changeset_id: int) -> Changeset:
        with self._reading() as queries:
            row = queries.one("get_changeset", {"id": changeset_id}) if is_storable_int(changeset_id) else None
            if row is None:
                raise no_changeset(changeset_id)
            rows = of_changeset(queries, changeset_id)
            changes = _read_changes(queries, "changes_of_changeset", changeset_id)
            return replace(to_changeset(row), changes=tuple(changes), knowledge=rows)

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        with self._reading() as queries:
            if within:
                known = changed_within(within, queries.dialect)
                rows = queries.within(within, "newest_changesets_within", {"limit": limit}, known=known)
            else:
                rows = queries.all("newest_changesets", {"limit": limit})
        return list(map(to_changeset, rows))

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
        with self._database.writing(BRIEFLY) as queries:  # log writes do not block
            queries.many("note", [asdict(retrieval) for retrieval in retrievals])
            queries.run("begin_tracking")
            queries.many("count_retrievals", updates)

    def missing_vectors(self) -> int:
        return int(self._read("count_missing_vectors")[0][0]) + self._ranking.unusable

    def damaged_vectors(self) -> list[int]:
        return self._ranking.damaged()

    def drop_damaged_vectors(self) -> int:
        if damaged := self.damaged_vectors():
            with self._database.writing(alone=True) as queries:
                queries.run("drop_vectors_of", {"ids": queries.ids(damaged)})
                self._note_embedded(queries, damaged)
        return len(damaged)

    def _note_embedded(self, queries: Queries, ids: Sequence[int]) -> None:
        """Record a change of vectors for processes that hold them in memory, if the dialect needs it."""

    def verify(self) -> StoreDamage:
        with self._database.verifying() as queries:
            files, rows = queries.inconsistencies(), find_damaged_rows(queries)
        return StoreDamage(files, rows, self.damaged_vectors(), self.episodes.damaged_vectors())

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        name = "unembedded" if among is None else "unembedded_among"
        return list(map(to_memory, self._read_ids(name, among or (), {"limit": limit}, columns=LISTED)))

    def injected(self, client: str, session: str) -> dict[int, str]:
        return dict(self._read("injected", {"client": client, "session": session}))

    def mark_injected(self, client: str, session: str, injected: Mapping[int, str]) -> None:
        about = {"client": client, "session": session, "at": self._clock()}
        ids = sorted(memory_id for memory_id in injected if is_storable_int(memory_id))
        if ids:
            with self._database.writing(BRIEFLY) as queries:  # these writes do not block
                queries.many(
                    "mark_injected", [{**about, "id": memory_id, "digest": injected[memory_id]} for memory_id in ids]
                )

    def clear_injected(self, client: str, session: str) -> None:
        self._write("clear_injected", {"client": client, "session": session})

    def forget_injected_before(self, before: str) -> int:
        return self._write("forget_injected_before", {"before": to_utc_iso(before)})

    def stats(self) -> dict[str, Any]:
        with self._reading() as queries:
            live, total, vectors, changesets, retrievals, pending = queries.all("stats")[0]
            signature, size = self._read_signature(queries), self._size(queries)
            groups: dict[str, dict[str, int]] = {
                f"by_{column}": dict(queries.all("stats_by", column=column)) for column in _GROUPS
            }
        return {
            "store": self.kind,
            "memories": live,
            "archived": total - live,
            "vectors": vectors - self._ranking.unusable,
            "changesets": changesets,
            "retrievals": retrievals,
            "inbox_pending": pending,
            "embedder": signature or None,
            "bytes": size,
            **groups,
        }

    def _read_signature(self, queries: Queries) -> str:
        """Return the signature of the embedder to which the store is bound; "" until there is one."""
        return str(queries.value("get_meta", {"name": "signature"}) or "")

    def _size(self, queries: Queries) -> int:
        raise NotImplementedError


def to_blob(vector: Vector) -> bytes:
    """Return the vector as little-endian float32 numbers."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def _read_changes(queries: Queries, name: str, key: int) -> list[Change]:
    """Return the changes that a query selects, each with the memory after it; a changeset may have thousands."""
    rows = queries.all(name, {"id": key}) if is_storable_int(key) else []
    entries = [to_entry(columns) for *columns, _, _, _ in rows]
    later: dict[int, str | None] = dict(
        queries.all("next_befores", {"ids": queries.ids(entry.id for entry in entries)})
    )
    current = {"ids": queries.ids(entry.memory_id for entry in entries if entry.id not in later)}
    memory_by_id = {row[0]: to_memory(row) for row in queries.all("get_memories", current, columns=LISTED)}
    changes = []
    for entry, (*_, at, by, why) in zip(entries, rows, strict=True):
        before = later.get(entry.id)
        after = memory_by_id.get(entry.memory_id) if entry.id not in later else to_state(before) if before else None
        changes.append(entry.to_change(after, at, by, why))
    return changes


class SqlTokenEmbeddings(SqlAdapter):
    """Token embeddings of memories for re-ranking."""

    def set_signature(self, signature: str) -> None:
        with self._reading() as queries:
            if queries.value("reranker") == signature:
                return
        with self._database.writing(alone=True) as queries:
            if queries.value("reranker") == signature:
                return  # another process was faster, and may have stored some already
            queries.run("drop_token_embeddings")
            queries.run("enqueue_token_embeddings")
            queries.run("set_meta", {"name": "reranker", "value": signature})

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        return dict(self._read_ids("token_embeddings", ids, {"by": by}))

    def pending(self, limit: int) -> list[Memory]:
        return list(map(to_memory, self._read("pending_token_embeddings", {"limit": limit}, columns=LISTED)))

    def put(self, embeddings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        # Alone: otherwise a memory that is being changed would get the token embeddings of its old text.
        with self._database.writing(BRIEFLY, alone=True) as queries:  # deferrable: writers of facts go first
            if queries.value("reranker") != by:
                return False
            names = ("id", "text", "speaker", "context")  # as they were embedded: the memory may have changed since
            rows = [
                {"vectors": vectors, **{name: getattr(memory, name) for name in names}}
                for memory, vectors in embeddings
            ]
            queries.many("put_token_embeddings", rows)
            queries.many("dequeue_token_embeddings", [{"id": memory.id} for memory, _ in embeddings])
            return True

    def counts(self) -> tuple[int, int]:
        embedded, pending = self._read("count_token_embeddings")[0]
        return embedded, pending
