"""Fakes for tests of cofio and its users: in-memory store, hash embedder, scripted model, fixed clock.

They pass the same contract suites as the real adapters. None is ever used as a fallback for a real one.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from cofio.errors import Conflict, EmbedderMismatch, NotFound, StoreError
from cofio.models.domain_knowledge import RowDecision
from cofio.models.exchange import TokenUsage
from cofio.models.maintenance import UsageTracking, View
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
    same_place,
    to_utc_iso,
)
from cofio.ports import Clock, Completion, Health, Matrix, Profile, Settles, Vector
from cofio.stores import inbox_rules
from cofio.stores.api_keys import FakeKeys
from cofio.stores.apply import Counters, JournalEntry, UnitOfWork
from cofio.stores.in_memory.dashboard import FakeDashboardQueries
from cofio.stores.in_memory.domain_knowledge import FakeKnowledgeRows, FakeKnowledgeTables
from cofio.stores.in_memory.episodes import EpisodeText, FakeEpisodes
from cofio.stores.in_memory.inbox import FakeInbox, InboxState
from cofio.stores.in_memory.llm_calls import Calls, FakeLLMCalls
from cofio.stores.in_memory.maintenance_runs import FakeRuns
from cofio.stores.in_memory.search import by_cosine, by_words, counted, stem
from cofio.stores.notes import FakeNotes
from cofio.stores.row_mapping import check_vectors
from cofio.stores.snapshot_export import FakeSnapshots
from cofio.stores.token_embeddings import FakeTokenEmbeddings
from cofio.text.tokens import fingerprint, words


class FixedClock:
    """Clock that advances by one second per call, from a fixed start."""

    def __init__(self, start: str = "2026-01-01T00:00:00Z") -> None:
        self._seconds = 0
        self._start = int(np.datetime64(start.rstrip("Z"), "s").astype(int))

    def __call__(self) -> str:
        self._seconds += 1
        return to_utc_iso(self._start + self._seconds)

    def advance(self, seconds: float) -> None:
        """Advance the clock by so many seconds."""
        self._seconds += int(seconds)


class HashEmbedder:
    """Embedder of hashed words: texts that share words are similar. It knows no meaning; for tests only."""

    floor = 0.0

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension
        self.calls = 0

    @property
    def signature(self) -> str:
        return f"hash:words:{self.dimension}"

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:  # noqa: ARG002
        self.calls += 1
        rows = [self._embed_one(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)

    def _embed_one(self, text: str) -> Vector:
        vector = np.full(self.dimension, 1e-3, dtype=np.float32)  # a text without words has a direction too
        for word in words(text):
            digest = hashlib.blake2b(stem(word).encode(), digest_size=8).digest()
            seeded = np.random.default_rng(int.from_bytes(digest, "big"))
            vector += seeded.standard_normal(self.dimension, dtype=np.float32)
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


class WordOverlapModel:
    """Re-ranker that scores a text by its share of the question's words. For tests."""

    floor = 0.0
    ceiling = 1.0
    signature = "words"

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:  # noqa: ARG002
        return [" ".join(sorted({stem(word) for word in words(text)})).encode() for text in texts]

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        question_words = set(question.split())
        return [len(question_words & set(reading.split())) / (len(question_words) or 1) for reading in readings]


_WELL = Health(True)


class ScriptedLLM:
    """Model that returns the replies of its script in order, and records requests in `calls`.

    An exception in the script is raised. A call beyond the end of the script raises AssertionError.
    """

    def __init__(
        self,
        replies: Sequence[str | Completion | Exception],
        *,
        reconciles: bool = True,
        provider_name: str = "scripted",
        model: str = "script",
        health: Health = _WELL,
    ) -> None:
        self.provider_name = provider_name
        self.model = model
        self.profile = Profile(json_schema=True, reconciles=reconciles, context=128_000)
        self.calls: list[tuple[str, str, Mapping[str, Any] | None]] = []
        self._script = tuple(replies)
        self._health = health

    @property
    def supports_audn(self) -> bool:
        return self.profile.reconciles

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        self.calls.append((system, user, schema))
        number = len(self.calls)
        if number > len(self._script):
            raise AssertionError(f"Call {number} of a script with {len(self._script)} replies: {user[:200]!r}")
        reply = self._script[number - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Completion) else Completion(reply, usage=TokenUsage(calls=1))

    def health_check(self) -> Health:
        return self._health


class MemoryStore:
    """Store in dictionaries, for tests: simple, slow and not persistent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = _DictRowStorage()
        self._lock = threading.RLock()
        self._closed = False
        self.inbox = FakeInbox(self._changing, clock)
        self.runs = FakeRuns(clock)
        self.llm_calls = FakeLLMCalls(self._calling, clock)
        self.usage = FakeUsageQueries(self)
        self.snapshots = FakeSnapshots(self._holding)
        self.keys = FakeKeys(clock)
        self.notes = FakeNotes(clock)
        self.domain = FakeKnowledgeTables(self._knowing)
        self.dashboard = FakeDashboardQueries(self._holding, self._inside)
        self.token_embeddings = FakeTokenEmbeddings(lambda: self._tables.memories)
        self.episodes = FakeEpisodes(self._holding)

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
        knowledge: Sequence[RowDecision] = (),
    ) -> Changeset:
        with self._lock:
            self._refuse_if_closed()
            self._refuse_bad(vectors)
            draft: _DictRowStorage = _copy_tables(self._tables)
            if undoes is not None and any(changeset.undoes == undoes for changeset in draft.changesets):
                raise Conflict(f"Changeset {undoes} is undone already.", "Undo that undo to reapply it.")
            at, number = self._clock(), len(draft.changesets) + 1
            blobs = {place: np.asarray(vector, dtype="<f4").tobytes() for place, vector in vectors.items()}
            head: dict[str, Any] = {"at": at, "by": by, "why": why}
            unit = UnitOfWork(draft, draft.known, changeset=number, **head)
            changes, row_changes = unit.apply(decisions, blobs, knowledge)
            draft.changesets.append(Changeset(id=number, **head, undoes=undoes, part_of=part_of))
            changeset = replace(draft.changesets[-1], changes=changes, knowledge=row_changes)
            if settles:
                draft.captures.settle(settles(changeset), at, number)
            self._tables = draft
            return changeset

    @contextmanager
    def _changing(self) -> Iterator[InboxState]:
        """Yield the captures, locked."""
        with self._lock:
            self._refuse_if_closed()
            yield self._tables.captures

    @contextmanager
    def _calling(self) -> Iterator[Calls]:
        """Yield the language-model calls, locked."""
        with self._holding() as tables:
            yield tables.calls

    @contextmanager
    def _holding(self) -> Iterator[_DictRowStorage]:
        """Yield all tables, locked."""
        with self._lock:
            self._refuse_if_closed()
            yield self._tables

    @contextmanager
    def _knowing(self) -> Iterator[tuple[FakeKnowledgeRows, Sequence[Changeset]]]:
        """Yield the domain knowledge and the journal's changesets, locked."""
        with self._holding() as tables:
            yield tables.known, tables.changesets

    def get(self, ids: Sequence[int]) -> list[Memory]:
        self._refuse_if_closed()
        memories = (self._tables.memories.get(memory_id) for memory_id in ids)
        return [memory for memory in memories if memory]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return {memory.id: (memory.speaker, memory.created_at) for memory in self.get(ids)}

    def has_speakers(self) -> bool:
        return any(memory.speaker for memory in self._tables.memories.values())

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        inside = sorted((memory for memory in self._inside(scope)), key=lambda memory: -memory.id)
        below = [memory for memory in inside if after is None or memory.id < after]
        return below[skip : skip + limit], len(inside)

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        return self.page(scope, limit=limit)[0]

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        return sorted(self._inside(scope), key=lambda memory: (memory.created_at, memory.id), reverse=True)[:limit]

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        inside = [memory.id for memory in self._inside(scope)]
        return by_cosine(self._tables.vectors, inside, vector, k, also)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        texts = {memory.id: _count_words(memory) for memory in self._tables.memories.values()}
        return by_words(texts, [memory.id for memory in self._inside(scope)], words, k)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        texts = {memory.id: _count_words(memory) for memory in self.get(ids)}
        return {memory_id: [word for word in words if stem(word) in texts.get(memory_id, {})] for memory_id in ids}

    def known(self, text: str, scope: Scope) -> list[int]:
        target = fingerprint(text)
        return sorted(memory.id for memory in self._inside(scope) if fingerprint(memory.text) == target)

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        inside = sorted(memory.id for memory in self._inside(scope) if memory.id in self._tables.vectors)
        vectors = {memory_id: np.frombuffer(self._tables.vectors[memory_id], dtype="<f4") for memory_id in inside}
        for place, low in enumerate(inside):
            for high in inside[place + 1 :]:
                cosine = float(vectors[low] @ vectors[high])
                if cosine >= threshold:
                    yield low, high, cosine

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        live = {memory.id for memory in self.get(ids) if not memory.archived} & self._tables.vectors.keys()
        vectors = {memory_id: np.frombuffer(self._tables.vectors[memory_id], dtype="<f4") for memory_id in sorted(live)}
        for memory_id, vector in vectors.items():
            candidates = [
                Candidate(other_id, float(vector @ vectors[other_id])) for other_id in vectors if other_id != memory_id
            ]
            near = sorted(
                (candidate for candidate in candidates if candidate.score >= threshold),
                key=lambda candidate: (-candidate.score, candidate.id),
            )
            if near[:k]:
                yield memory_id, near[:k]

    def history(self, memory_id: int) -> list[Change]:
        lineage = {memory_id}
        is_growing = True
        while is_growing:
            memories = self._tables.memories.values()
            linked = {link for m in memories if m.id in lineage for link in (m.supersedes, m.superseded_by) if link}
            linked |= {m.id for m in memories if {m.supersedes, m.superseded_by} & lineage}
            is_growing = not linked <= lineage
            lineage |= linked
        changes = self._build_changes(entry for entry in self._tables.entries if entry.memory_id in lineage)
        if not changes:
            raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
        return changes

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        memories = self._tables.memories
        merged = {memory_id}
        while (
            new_ids := {
                m.id
                for m in memories.values()
                if m.superseded_by in merged and memories[m.superseded_by].supersedes != m.id
            }
            - merged
        ):
            merged |= new_ids
        later = [sighting for _, memory_id, sighting in self._tables.sightings if memory_id in merged]
        first = [Occurrence(m.agent, m.session, m.created_at) for m in memories.values() if m.id in merged]
        return sorted([*first, *later], key=lambda sighting: sighting.at)

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        counts = Counter(memory.project for memory in self._inside(scope) if memory.project > after)
        return sorted(counts.items())[:limit]

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        ids_by_fact: dict[tuple[str, int], list[int]] = {}
        for memory in self._inside(scope):
            agents = [
                memory.agent,
                *(sighting.agent for _, memory_id, sighting in self._tables.sightings if memory_id == memory.id),
            ]
            for agent in filter(None, agents):
                ids_by_fact.setdefault((agent, fingerprint(memory.text)), []).append(memory.id)
        repeats = [(agent, min(ids), len(ids)) for (agent, _), ids in ids_by_fact.items() if len(ids) >= least]
        return sorted(repeats, key=lambda repeat: (-repeat[2], repeat[1], repeat[0]))[:limit]

    def changeset(self, changeset_id: int) -> Changeset:
        if not 1 <= changeset_id <= len(self._tables.changesets):
            raise NotFound(f"There is no changeset {changeset_id}.", "`cofio history` lists the newest.")
        entries = (entry for entry in self._tables.entries if entry.changeset == changeset_id)
        changeset = self._add_undo(self._tables.changesets[changeset_id - 1])
        knowledge = self._tables.known.of_changeset(changeset, self._tables.changesets)
        return replace(changeset, changes=tuple(self._build_changes(entries)), knowledge=knowledge)

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        inside = {memory.id for memory in self._inside(within)} if within else set()
        matches = {entry.changeset for entry in self._tables.entries if entry.memory_id in inside}
        matches |= self._tables.known.changed_within(within) if within else set()
        newest = reversed(self._tables.changesets)
        return [self._add_undo(changeset) for changeset in newest if within is None or changeset.id in matches][:limit]

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        with self._lock:
            for retrieval in retrievals:
                if memory := self._tables.memories.get(retrieval.memory_id):
                    self._tables.retrievals.append(retrieval)
                    last = max(memory.last_retrieved_at or "", retrieval.at)
                    times = memory.retrieval_count + 1
                    self._tables.set_counts(replace(memory, retrieval_count=times, last_retrieved_at=last))
            first = min((retrieval.at for retrieval in self._tables.retrievals), default="")
            self._tables.tracked_since = min(first, self._tables.tracked_since or first) or None

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        ids = self._tables.memories.keys() if among is None else self._tables.memories.keys() & set(among)
        missing = sorted(ids - self._tables.vectors.keys())
        return [self._tables.memories[memory_id] for memory_id in missing[:limit]]

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._lock:
            self._refuse_bad(vectors)
            for memory_id, vector in vectors.items():
                if memory_id in self._tables.memories and memory_id not in self._tables.vectors:
                    self._tables.set_vector(memory_id, np.asarray(vector, dtype="<f4").tobytes())

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        current = self._tables.signature
        embedded = self._tables.vectors or self._tables.said.vectors
        if current and current != signature and embedded and not reset:
            hint = "Set the embedder back, or run `cofio reembed` to embed every memory again."
            raise EmbedderMismatch(f"The store was embedded with {current}, not with {signature}.", hint)
        self._tables.signature = signature
        if reset:
            self._tables.vectors.clear()
            self._tables.said.vectors.clear()
            self._tables.entries = [replace(entry, vector=None) for entry in self._tables.entries]

    def injected(self, client: str, session: str) -> dict[int, str]:
        self._refuse_if_closed()
        digests = self._tables.injected.items()
        return {memory_id: digest for (*whom, memory_id), (digest, _) in digests if whom == [client, session]}

    def mark_injected(self, client: str, session: str, injected: Mapping[int, str]) -> None:
        with self._lock:
            at = self._clock()
            digests = {
                memory_id: digest for memory_id, digest in injected.items() if memory_id in self._tables.memories
            }
            self._tables.injected.update(
                {(client, session, memory_id): (digest, at) for memory_id, digest in digests.items()}
            )

    def clear_injected(self, client: str, session: str) -> None:
        self._keep_given(lambda whom, _: whom[:2] != (client, session))

    def forget_injected_before(self, before: str) -> int:
        limit = to_utc_iso(before)
        return self._keep_given(lambda _, at: at >= limit)

    def _keep_given(self, is_kept: Callable[[tuple[str, str, int], str], bool]) -> int:
        with self._lock:
            before = len(self._tables.injected)
            self._tables.injected = {
                whom: entry for whom, entry in self._tables.injected.items() if is_kept(whom, entry[1])
            }
            return before - len(self._tables.injected)

    def stats(self) -> dict[str, Any]:
        self._refuse_if_closed()
        live = [memory for memory in self._tables.memories.values() if not memory.archived]
        groups = {
            f"by_{name}": dict(Counter(getattr(memory, name) for memory in live))
            for name in ("category", "kind", "source", "visibility")
        }
        return {
            "store": "memory",
            "memories": len(live),
            "archived": len(self._tables.memories) - len(live),
            "vectors": len(self._tables.vectors),
            "changesets": len(self._tables.changesets),
            "retrievals": len(self._tables.retrievals),
            "inbox_pending": self._tables.captures.waiting(),
            "embedder": self._tables.signature or None,
            "bytes": 0,
            **groups,
        }

    def close(self) -> None:
        self._closed = True

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.", "Open it again with cofio.open().")

    def _refuse_bad(self, vectors: Mapping[int, Vector]) -> None:
        sizes = {len(blob) // 4 for blob in list(self._tables.vectors.values())[:1]}
        check_vectors(vectors, sizes.pop() if sizes else None)

    def _inside(self, scope: Scope) -> list[Memory]:
        self._refuse_if_closed()
        return [memory for memory in self._tables.memories.values() if scope.contains(memory)]

    def _build_changes(self, entries: Iterable[JournalEntry]) -> list[Change]:
        changes = []
        for entry in entries:
            later = self._tables.next_recorded(entry)
            after = later.before if later else self._tables.memories.get(entry.memory_id)
            changeset = self._tables.changesets[entry.changeset - 1]
            changes.append(entry.to_change(after, changeset.at, changeset.by, changeset.why))
        return changes

    def _add_undo(self, changeset: Changeset) -> Changeset:
        undone_by = [undo.id for undo in self._tables.changesets if undo.undoes == changeset.id]
        return replace(changeset, undone_by=undone_by[0] if undone_by else None)


class FakeUsageQueries:
    """Uses of a MemoryStore."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        live = [memory for memory in self._store._inside(scope) if not memory.archived]
        used = [memory for memory in live if memory.retrieval_count]
        if view == "never":
            return sorted((m for m in live if not m.retrieval_count), key=lambda m: (m.created_at, m.id))[:limit]
        if view == "most":
            used.sort(key=lambda m: (m.last_retrieved_at or "", -m.id), reverse=True)
            return sorted(used, key=lambda m: -m.retrieval_count)[:limit]
        old = [memory for memory in used if (memory.last_retrieved_at or "") < to_utc_iso(before)]
        return sorted(old, key=lambda m: (m.last_retrieved_at or "", m.id))[:limit]

    def tracking(self, since: str) -> UsageTracking:
        tables = self._store._tables
        days = {retrieval.at[:10] for retrieval in tables.retrievals if retrieval.at >= to_utc_iso(since)}
        return UsageTracking(tables.tracked_since, len(days))

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        limit_at, tables = to_utc_iso(before), self._store._tables
        touched = {e.memory_id for e in tables.entries if tables.changesets[e.changeset - 1].at >= limit_at}
        as_another = {m.superseded_by for m in tables.memories.values() if m.retrieval_count}
        memories = [
            memory
            for memory in self._store._inside(Scope(pinned=False))
            if memory.category == category
            and memory.created_at < limit_at
            and not memory.retrieval_count
            and memory.id not in touched | as_another
        ]
        return sorted(memories, key=lambda memory: (memory.created_at, memory.id))[:limit]

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        latest: dict[str, str] = {}
        tables = self._store._tables
        memory_ids = {*ids, *(m.id for m in tables.memories.values() if m.superseded_by in ids)}
        for retrieval in tables.retrievals:
            if retrieval.query and retrieval.memory_id in memory_ids:
                latest[retrieval.query] = max(retrieval.at, latest.get(retrieval.query, ""))
        return sorted(sorted(latest), key=lambda query: latest[query], reverse=True)[:limit]

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        return {e.memory_id for e in self._store._tables.entries if e.changeset > after} & set(ids)

    def forget(self, before: str) -> int:
        tables = self._store._tables
        remaining = [retrieval for retrieval in tables.retrievals if retrieval.at >= to_utc_iso(before)]
        deleted, tables.retrievals = len(tables.retrievals) - len(remaining), remaining
        return deleted


def _copy_tables(value: Any) -> Any:
    """Return a copy with its own tables, dictionaries and lists. Rows are immutable, and shared."""
    if isinstance(value, dict):
        return {key: _copy_tables(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy_tables(item) for item in value]
    if isinstance(value, _DictRowStorage | Calls | InboxState | FakeKnowledgeRows | EpisodeText):
        draft = copy.copy(value)
        vars(draft).update({name: _copy_tables(item) for name, item in vars(value).items()})
        return draft
    return value


class _DictRowStorage:
    """Rows for `UnitOfWork`, in dictionaries."""

    def __init__(self) -> None:
        self.memories: dict[int, Memory] = {}
        self.vectors: dict[int, bytes] = {}
        self.entries: list[JournalEntry] = []
        self.changesets: list[Changeset] = []
        self.sightings: list[tuple[int, int, Occurrence]] = []  # (id of the change, id of the memory, occurrence)
        self.retrievals: list[Retrieval] = []
        self.injected: dict[tuple[str, str, int], tuple[str, str]] = {}
        self.captures = InboxState()
        self.calls = Calls()
        self.known = FakeKnowledgeRows()
        self.said = EpisodeText()
        self.tracked_since: str | None = None
        self.signature = ""
        self.identity = ""
        self.rooms: dict[str, list[tuple[int, int]]] = {}
        self.last_id = 0

    def load(self, memory_id: int) -> Memory | None:
        return self.memories.get(memory_id)

    def insert(self, memory: Memory) -> int:
        number = memory.id or self.last_id + 1
        self.last_id = max(self.last_id, number)
        self.memories[number] = replace(memory, id=number)
        return number

    def save(self, memory: Memory) -> None:
        now = self.memories[memory.id]
        self.memories[memory.id] = replace(
            memory, retrieval_count=now.retrieval_count, last_retrieved_at=now.last_retrieved_at
        )

    def last_changeset(self, memory_id: int) -> int:
        return max((entry.changeset for entry in self.entries if entry.memory_id == memory_id), default=0)

    def set_counts(self, memory: Memory) -> None:
        self.memories[memory.id] = memory

    def remove(self, memory_id: int) -> None:
        del self.memories[memory_id]
        self.vectors.pop(memory_id, None)
        self.sightings = [sighting for sighting in self.sightings if sighting[1] != memory_id]
        self.injected = {whom: entry for whom, entry in self.injected.items() if whom[2] != memory_id}

    def vector(self, memory_id: int) -> bytes | None:
        return self.vectors.get(memory_id)

    def counters(self, memory_id: int) -> Counters:
        memory = self.memories[memory_id]
        sightings = sorted(
            (sighting for _, number, sighting in self.sightings if number == memory_id),
            key=lambda sighting: sighting.at,
        )
        return Counters(memory.retrieval_count, memory.last_retrieved_at, tuple(sightings))

    def set_vector(self, memory_id: int, vector: bytes | None) -> None:
        if vector is None:
            self.vectors.pop(memory_id, None)
        else:
            self.vectors[memory_id] = vector

    def find_duplicate(self, fact: Fact) -> int | None:
        target = fingerprint(fact.text)
        same = (
            memory.id
            for memory in self.memories.values()
            if not memory.archived and fingerprint(memory.text) == target and same_place(fact, memory)
        )
        return min(same, default=None)

    def record(self, entry: JournalEntry) -> int:
        self.entries.append(replace(entry, id=len(self.entries) + 1))
        return len(self.entries)

    def recorded(self, change_id: int) -> JournalEntry | None:
        return self.entries[change_id - 1] if 1 <= change_id <= len(self.entries) else None

    def next_recorded(self, entry: JournalEntry) -> JournalEntry | None:
        return next(
            (following for following in self.entries[entry.id :] if following.memory_id == entry.memory_id), None
        )

    def add_sighting(self, memory_id: int, change_id: int, occurrence: Occurrence) -> None:
        self.sightings.append((change_id, memory_id, occurrence))

    def remove_sighting(self, change_id: int) -> bool:
        before, self.sightings = self.sightings, [sighting for sighting in self.sightings if sighting[0] != change_id]
        return len(self.sightings) < len(before)

    def erase(self, memory: Memory, viewer: Viewer | None) -> None:
        memory_id = memory.id
        entries = [entry for entry in self.entries if entry.memory_id == memory_id]
        versions, changesets = [memory, *(entry.before for entry in entries)], {entry.changeset for entry in entries}
        words = (text for version in versions if version for text in (version.text, version.context))
        fragments = inbox_rules.words_to_erase(words, memory.previous_text)
        self.calls.erase()
        self.said.erase(self.captures, fragments, changesets, viewer)
        self.captures.erase(fragments, changesets, viewer)

        def clear_memory(other: Memory) -> Memory:
            previous = None if other.supersedes == memory_id else other.previous_text
            is_same_owner = viewer is None or _get_owner(other) == _get_owner(memory)
            context = "" if is_same_owner and other.context in fragments else other.context
            return replace(other, previous_text=previous, context=context)

        def scrub_entry(entry: JournalEntry) -> JournalEntry:
            if entry.memory_id == memory_id:
                return replace(entry, before=None, vector=None, occurrence=None, counters=None, reason="", erased=True)
            return replace(entry, before=clear_memory(entry.before) if entry.before else None)

        self.entries = [scrub_entry(entry) for entry in self.entries]
        self.retrievals = [retrieval for retrieval in self.retrievals if retrieval.memory_id != memory_id]
        self.memories = {other.id: clear_memory(other) for other in self.memories.values()}


def _get_owner(memory: Memory) -> tuple[str, str]:
    return (memory.user, "") if memory.user else ("", memory.agent)


def _count_words(memory: Memory) -> Counter[str]:
    about = " ".join((memory.speaker, memory.agent, memory.source, *memory.entities, *memory.tags))
    return counted(f"{memory.text} {about} {memory.context}")
