"""The embedded store: one SQLite file for rows, words, vectors and journal, with vectors searched in memory.

apply ─▶ one transaction (rows + words + vectors + journal) ─▶ update of the in-memory index
nearest, matching ─▶ catch up with commits of other processes ─▶ rank in memory ─▶ narrow to the scope
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from cofio.errors import Conflict, EmbedderMismatch, NotFound, StoreError
from cofio.models.domain_knowledge import KnowledgeDecision
from cofio.models.memory import (
    Candidate,
    Change,
    Changeset,
    Decision,
    Fact,
    Matching,
    Memory,
    Occurrence,
    Retrieval,
    Scope,
    Viewer,
    to_utc_iso,
)
from cofio.ports import Clock, Settles, Vector
from cofio.stores.apply import Counters, JournalEntry, UnitOfWork, to_change
from cofio.stores.domain_knowledge import (
    KnowledgeUnitOfWork,
    SqliteKnowledgeTables,
    SqliteNamedQueries,
    SqlKnownRows,
    changed_within,
    of_changeset,
)
from cofio.stores.episodes import SqliteEpisodes
from cofio.stores.filters import SQLITE, condition
from cofio.stores.journal import beside_json, to_changeset, to_entry
from cofio.stores.keys import SqliteKeys
from cofio.stores.llm_calls import SqliteLLMCalls
from cofio.stores.notes import SqliteNotes
from cofio.stores.row_mapping import (
    COLUMNS,
    LISTED,
    PLACED,
    check_vectors,
    ids_json,
    is_storable_int,
    occurrence_json,
    to_json,
    to_memory,
    to_row,
)
from cofio.stores.snapshot_export import SqliteSnapshots
from cofio.stores.sql_loader import queries
from cofio.stores.sqlite.bm25 import MEMORIES, quote_fts
from cofio.stores.sqlite.connection import BRIEFLY, StoreFile
from cofio.stores.sqlite.dashboard import SqliteDashboardQueries
from cofio.stores.sqlite.inbox import SqliteInbox, erase, settle_item
from cofio.stores.sqlite.maintenance_runs import SqliteRuns
from cofio.stores.sqlite.ranking import InMemoryIndex, Ranking
from cofio.stores.sqlite.usage_statistics import SqliteUsageQueries
from cofio.stores.token_embeddings import SqliteTokenEmbeddings
from cofio.text.tokens import fingerprint

_SQL = queries("sqlite")
_INSERT = _SQL["insert_memory"].format(
    columns=LISTED, values=", ".join([*(f":{name}" for name in COLUMNS), ":fingerprint"])
)
_log = logging.getLogger(__name__)


class SqliteStore:
    """Store in one SQLite file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = StoreFile(path)
        self._clock = clock
        self.inbox = SqliteInbox(self._file, clock)
        self.runs = SqliteRuns(self._file, clock)
        self.llm_calls = SqliteLLMCalls(self._file, clock)
        self.uses = SqliteUsageQueries(self._file)
        self.carrying = SqliteSnapshots(self._file)
        self.keys = SqliteKeys(self._file, clock)
        self.notes = SqliteNotes(self._file, clock)
        self.domain = SqliteKnowledgeTables(self._file)
        self.readings = SqliteTokenEmbeddings(self._file)
        self._ranking = Ranking(self._file, MEMORIES, self._refuse_another_embedder)
        self.episodes = SqliteEpisodes(self._file, self._refuse_another_embedder, self._wipe)
        self.pictures = SqliteDashboardQueries(self._file, lambda: self._get_index().vectors)
        self._signature = ""  # "" until an embedder is bound
        self._unwiped = False  # the write-ahead log may still hold purged words

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
        if vectors:
            index = self._get_index().vectors
            check_vectors(vectors, index.dimension if index else None)
        blobs = {place: np.ascontiguousarray(vector, dtype="<f4").tobytes() for place, vector in vectors.items()}
        with self._file.writing() as connection:
            if vectors:
                self._refuse_another_embedder(_read_signature(connection))
            number = self._open_changeset(connection, (at, by, why, undoes, part_of))
            head: dict[str, Any] = {"at": at, "by": by, "why": why}
            changes_by_decision = UnitOfWork(_SqliteRowStorage(connection), changeset=number, **head).each(
                decisions, blobs
            )
            changes = tuple(change for group in changes_by_decision for change in group)
            knowledge_changes = KnowledgeUnitOfWork(
                SqlKnownRows(SqliteNamedQueries(connection)), changeset=number, **head
            ).all(knowledge, changes_by_decision)
            changeset = Changeset(
                id=number, **head, undoes=undoes, part_of=part_of, changes=changes, knowledge=knowledge_changes
            )
            if settles:
                settle_item(connection, settles(changeset), at=at, changeset=number)
            if any(change.action == "purge" for change in changes):
                connection.execute(_SQL["tidy_words"])  # no word of it stays in the full-text segments
            self._unwiped |= "purge" in {
                *(change.action for change in changes),
                *(change.action for change in knowledge_changes),
            }
        self._follow_up()
        return changeset

    def _open_changeset(self, connection: sqlite3.Connection, about: tuple[Any, ...]) -> int:
        try:
            return int(connection.execute(_SQL["open_changeset"], about).lastrowid or 0)
        except sqlite3.IntegrityError as error:
            if "UNIQUE" not in str(error):
                raise
            raise Conflict(f"Changeset {about[3]} is undone already.", "Undo that undo to reapply it.") from error

    def _follow_up(self) -> None:
        """Update the index after a commit. Errors are only logged: the data is committed, the rest is retried later."""
        try:
            self._ranking.catch_up()
            if self._unwiped:
                self._unwiped = not self._file.empty_log()
        except StoreError as error:
            _log.warning("Index refresh after commit failed: %s", error)

    def _wipe(self) -> None:
        """Truncate the write-ahead log, now or after a later write, because it may hold erased words."""
        self._unwiped = True
        self._follow_up()

    def _refuse_another_embedder(self, signature: str) -> None:
        if self._signature and signature != self._signature:
            hint = "Set the embedder back, or run `cofio reembed` to embed every memory again."
            raise EmbedderMismatch(f"The store was embedded with {signature}, not with {self._signature}.", hint)

    def _get_index(self) -> InMemoryIndex:
        """Return the in-memory data, up to date with the file. Raise EmbedderMismatch if re-embedded elsewhere."""
        return self._ranking.held()

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Memory]:
        with self._file.reading() as connection:
            rows = connection.execute(_GET_MEMORIES, (ids_json(ids),)).fetchall()
        memory_by_id = {row[0]: to_memory(row) for row in rows}
        return [memory_by_id[memory_id] for memory_id in ids if memory_id in memory_by_id]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["said"], (ids_json(ids),))
            return {memory_id: (speaker, created_at) for memory_id, speaker, created_at in rows}

    def has_speakers(self) -> bool:
        with self._file.reading() as connection:
            return bool(connection.execute(_SQL["any_speaker"]).fetchone()[0])

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        where, values = condition(scope)
        last = after if after is not None else 1 << 62
        with self._file.reading() as connection:
            query = _SQL["page"].format(columns=LISTED, where=where)
            rows = connection.execute(query, {**values, "after": last, "limit": limit, "skip": skip}).fetchall()
            total = connection.execute(_SQL["count"].format(where=where), values).fetchone()[0]
        return [to_memory(row) for row in rows], int(total)

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        where, values = condition(scope)
        with self._file.reading() as connection:
            query = _SQL["page"].format(columns=LISTED, where=where)
            rows = connection.execute(query, {**values, "after": 1 << 62, "limit": limit, "skip": 0}).fetchall()
        return [to_memory(row) for row in rows]

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        where, values = condition(scope)
        with self._file.reading() as connection:
            query = _SQL["latest"].format(columns=LISTED, where=where)
            return [to_memory(row) for row in connection.execute(query, {**values, "limit": limit})]

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._ranking.nearest(vector, k, scope, also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._ranking.matching(words, k, scope)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        words_by_id: dict[int, list[str]] = {memory_id: [] for memory_id in ids}
        with self._file.reading() as connection:
            for word in words:
                for (memory_id,) in connection.execute(_SQL["holding"], (quote_fts(word), ids_json(ids))):
                    words_by_id[memory_id].append(word)
        return words_by_id

    def known(self, text: str, scope: Scope) -> list[int]:
        where, values = condition(scope)
        values["fingerprint"] = fingerprint(text)
        with self._file.reading() as connection:
            return [row[0] for row in connection.execute(_SQL["known"].format(where=where), values)]

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        memory_index = self._get_index()
        within = self._ranking.ids_of(scope, memory_index) if scope.narrows else None
        return memory_index.vectors.pairs(threshold, within=within) if memory_index.vectors else iter(())

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        index = self._get_index().vectors
        for memory_id, near in index.neighbours(ids, threshold, k) if index else ():
            yield memory_id, list(starmap(Candidate, near))

    # ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> list[Change]:
        with self._file.reading() as connection:
            changes = self._read_changes(connection, "changes_of_lineage", memory_id)
        if not changes:
            raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
        return changes

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        with self._file.reading() as connection:
            return [Occurrence(*row) for row in connection.execute(_SQL["sightings"], (memory_id,))]

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        where, values = condition(scope)
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["projects"].format(where=where), {**values, "after": after, "limit": limit})
            return [(name, count) for name, count in rows]

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        where, values = condition(scope)
        with self._file.reading() as connection:
            rows = connection.execute(_SQL["repeated"].format(where=where), {**values, "least": least, "limit": limit})
            return [(agent, memory_id, times) for agent, memory_id, times in rows]

    def changeset(self, changeset_id: int) -> Changeset:
        with self._file.reading() as connection:
            row = (
                connection.execute(_SQL["get_changeset"], (changeset_id,)).fetchone()
                if is_storable_int(changeset_id)
                else None
            )
            if row is None:
                raise NotFound(f"There is no changeset {changeset_id}.", "`cofio history` lists the newest.")
            knowledge = of_changeset(SqliteNamedQueries(connection), changeset_id)
            return to_changeset(row, self._read_changes(connection, "changes_of_changeset", changeset_id), knowledge)

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        query, values = _SQL["newest_changesets"], dict[str, Any]()
        if within:
            where, values = condition(within)
            query = _SQL["newest_changesets_within"].format(where=where, known=changed_within(within, SQLITE))
        with self._file.reading() as connection:
            rows = connection.execute(query, {**values, "limit": limit}).fetchall()
        return [to_changeset(row, []) for row in rows]

    def _read_changes(self, connection: sqlite3.Connection, name: str, key: int) -> list[Change]:
        tables = _SqliteRowStorage(connection)
        rows = connection.execute(_SQL[name], (key,)).fetchall() if is_storable_int(key) else []
        changes = []
        for *columns, at, by, why in rows:
            entry = to_entry(columns)
            later = tables.next_recorded(entry)
            after = later.before if later else tables.load(entry.memory_id)
            changes.append(to_change(entry, after, at, by, why))
        return changes

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        if not retrievals:
            return
        counts = Counter(retrieval.memory_id for retrieval in retrievals)
        latest = {
            retrieval.memory_id: retrieval.at for retrieval in sorted(retrievals, key=lambda retrieval: retrieval.at)
        }
        with self._file.writing(BRIEFLY) as connection:  # log writes do not block
            connection.executemany(_SQL["note"], (asdict(retrieval) for retrieval in retrievals))
            connection.execute(_SQL["begin_tracking"])
            connection.executemany(
                _SQL["count_retrievals"], ((counts[memory_id], latest[memory_id], memory_id) for memory_id in counts)
            )

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        name, values = ("unembedded", (limit,)) if among is None else ("unembedded_among", (ids_json(among), limit))
        with self._file.reading() as connection:
            rows = connection.execute(_SQL[name].format(columns=LISTED), values).fetchall()
        return [to_memory(row) for row in rows]

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        index = self._get_index().vectors
        check_vectors(vectors, index.dimension if index else None)
        with self._file.writing() as connection:
            self._refuse_another_embedder(_read_signature(connection))
            for memory_id, vector in vectors.items():
                blob = np.ascontiguousarray(vector, dtype="<f4").tobytes()
                if connection.execute(_SQL["fill_vector"], {"id": memory_id, "vector": blob}).rowcount:
                    connection.execute(_SQL["note_embedded"], (memory_id,))
        self._follow_up()

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        with self._file.reading() as connection:
            if _read_signature(connection) == signature and not reset:
                self._signature = signature  # the usual case, without the write lock
                return
        with self._file.writing() as connection:
            current = _read_signature(connection)
            empty = not connection.execute(_SQL["any_vector"]).fetchone()[0]
            if current and current != signature and not (reset or empty):
                self._signature = signature
                self._refuse_another_embedder(current)
            if current != signature:
                connection.execute(_SQL["set_meta"], {"name": "signature", "value": signature})
            if reset:
                for name in ("drop_vectors", "drop_passage_vectors", "unembed_passages"):
                    connection.execute(_SQL[name])
                connection.execute(_SQL["forget_old_vectors"])
                generation = connection.execute(_SQL["state"]).fetchone()[2]
                connection.execute(_SQL["set_meta"], {"name": "generation", "value": str(int(generation) + 1)})
        self._signature = signature
        self._follow_up()

    def given(self, client: str, session: str) -> dict[int, str]:
        with self._file.reading() as connection:
            return dict(connection.execute(_SQL["given"], {"client": client, "session": session}).fetchall())

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        whom = {"client": client, "session": session, "at": self._clock()}
        rows = [
            {**whom, "id": memory_id, "digest": digest}
            for memory_id, digest in given.items()
            if is_storable_int(memory_id)
        ]
        if rows:
            with self._file.writing(BRIEFLY) as connection:  # these writes do not block
                connection.executemany(_SQL["give"], rows)

    def forget_given(self, client: str, session: str) -> None:
        with self._file.writing() as connection:
            connection.execute(_SQL["forget_given"], {"client": client, "session": session})

    def forget_given_before(self, before: str) -> int:
        with self._file.writing() as connection:
            return connection.execute(_SQL["forget_given_before"], {"before": to_utc_iso(before)}).rowcount

    def stats(self) -> dict[str, Any]:
        with self._file.reading() as connection:
            live, total, vectors, changesets, retrievals, pending = connection.execute(_SQL["stats"]).fetchone()
            signature = _read_signature(connection)
            groups = {
                f"by_{column}": dict(connection.execute(_SQL["stats_by"].format(column=column)).fetchall())
                for column in ("category", "kind", "source", "visibility")
            }
        return {
            "store": "sqlite",
            "memories": live,
            "archived": total - live,
            "vectors": vectors,
            "changesets": changesets,
            "retrievals": retrievals,
            "inbox_pending": pending,
            "embedder": signature or None,
            "bytes": self._file.size(),
            **groups,
        }

    def close(self) -> None:
        self._file.close()


class _SqliteRowStorage:
    """Rows for `UnitOfWork`, on one connection inside one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._run: Callable[..., sqlite3.Cursor] = connection.execute

    def load(self, memory_id: int) -> Memory | None:
        if not is_storable_int(memory_id):
            return None
        row = self._run(_GET_MEMORY, (memory_id,)).fetchone()
        return to_memory(row) if row else None

    def insert(self, memory: Memory) -> int:
        row = to_row(memory)
        row["id"] = memory.id or None
        return int(self._run(_INSERT, row).lastrowid or 0)

    def save(self, memory: Memory) -> None:
        self._run(_SQL["save_memory"], to_row(memory))

    def touched(self, memory_id: int) -> int:
        return int(self._run(_SQL["last_touched"], (memory_id,)).fetchone()[0] or 0)

    def count(self, memory: Memory) -> None:
        self._run(_SQL["set_counts"], (memory.retrieval_count, memory.last_retrieved_at, memory.id))

    def remove(self, memory_id: int) -> None:
        self._run(_SQL["remove_memory"], (memory_id,))

    def vector(self, memory_id: int) -> bytes | None:
        row = self._run(_SQL["get_vector"], (memory_id,)).fetchone()
        return row[0] if row else None

    def beside(self, memory_id: int) -> Counters:
        count, last = self._run(_SQL["counts_of"], (memory_id,)).fetchone()
        sightings = self._run(_SQL["sightings_beside"], (memory_id,))
        return Counters(count, last, tuple(Occurrence(*row) for row in sightings))

    def set_vector(self, memory_id: int, vector: bytes | None) -> None:
        if vector is None:
            self._run(_SQL["drop_vector"], (memory_id,))
        else:
            self._run(_SQL["set_vector"], (memory_id, vector))

    def twin(self, fact: Fact) -> int | None:
        values = {name: getattr(fact, name) for name in PLACED}
        row = self._run(_SQL["twin"], {**values, "fingerprint": fingerprint(fact.text)}).fetchone()
        return row[0] if row else None

    def record(self, entry: JournalEntry) -> int:
        before = to_json(entry.before) if entry.before else None
        occurrence = occurrence_json(entry.occurrence) if entry.occurrence else None
        beside = beside_json(entry.beside) if entry.beside else None
        head = (entry.changeset, entry.memory_id, entry.action, entry.reason)
        values = (*head, before, entry.vector, occurrence, int(entry.erased), beside)
        return int(self._run(_SQL["record"], values).lastrowid or 0)

    def recorded(self, change_id: int) -> JournalEntry | None:
        row = self._run(_SQL["recorded"], (change_id,)).fetchone() if is_storable_int(change_id) else None
        return to_entry(row) if row else None

    def next_recorded(self, entry: JournalEntry) -> JournalEntry | None:
        row = self._run(_SQL["next_recorded"], (entry.memory_id, entry.id)).fetchone()
        return to_entry(row) if row else None

    def see(self, memory_id: int, change_id: int, occurrence: Occurrence) -> None:
        self._run(_SQL["see"], (memory_id, change_id, occurrence.agent, occurrence.session, occurrence.at))

    def unsee(self, change_id: int) -> bool:
        return self._run(_SQL["unsee"], (change_id,)).rowcount > 0

    def erase(self, memory: Memory, viewer: Viewer | None) -> None:
        erase(self._connection, memory, viewer)
        for name in ("erase_changes", "erase_retrievals", "erase_previous_text", "erase_previous_text_in_changes"):
            self._run(_SQL[name], (memory.id,))


_GET_MEMORY = _SQL["get_memory"].format(columns=LISTED)
_GET_MEMORIES = _SQL["get_memories"].format(columns=LISTED)


def _read_signature(connection: sqlite3.Connection) -> str:
    return str(connection.execute(_SQL["state"]).fetchone()[3])
