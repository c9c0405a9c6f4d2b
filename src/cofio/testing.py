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
from cofio.models.exchange import TokenUsage
from cofio.models.knowledge import KnowledgeDecision
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
from cofio.stores.apply import Counters, JournalEntry, UnitOfWork, to_change
from cofio.stores.in_memory.dashboard import FakeDashboardQueries
from cofio.stores.in_memory.episodes import EpisodeText, FakeEpisodes
from cofio.stores.in_memory.knowledge import FakeKnowledgeTables, FakeKnownRows
from cofio.stores.in_memory.llm_calls import Calls, FakeLLMCalls
from cofio.stores.in_memory.maintenance_runs import FakeRuns
from cofio.stores.in_memory.search import by_cosine, by_words, counted, stem
from cofio.stores.in_memory.store import FakeInbox, InboxState
from cofio.stores.keys import FakeKeys
from cofio.stores.knowledge import KnowledgeUnitOfWork
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
        rows = [self._one(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension)

    def _one(self, text: str) -> Vector:
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
        asked = set(question.split())
        return [len(asked & set(reading.split())) / (len(asked) or 1) for reading in readings]


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
        asked = len(self.calls)
        if asked > len(self._script):
            raise AssertionError(f"Call {asked} of a script with {len(self._script)} replies: {user[:200]!r}")
        reply = self._script[asked - 1]
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
        self.uses = FakeUsageQueries(self)
        self.carrying = FakeSnapshots(self._holding)
        self.keys = FakeKeys(clock)
        self.notes = FakeNotes(clock)
        self.domain = FakeKnowledgeTables(self._knowing)
        self.pictures = FakeDashboardQueries(self._holding, self._inside)
        self.readings = FakeTokenEmbeddings(lambda: self._tables.memories)
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
        knowledge: Sequence[KnowledgeDecision] = (),
    ) -> Changeset:
        with self._lock:
            self._refuse_if_closed()
            self._refuse_bad(vectors)
            draft: _DictRowStorage = _drafted(self._tables)
            if undoes is not None and any(changeset.undoes == undoes for changeset in draft.changesets):
                raise Conflict(f"Changeset {undoes} is undone already.", "Undo that undo to reapply it.")
            at, number = self._clock(), len(draft.changesets) + 1
            blobs = {place: np.asarray(vector, dtype="<f4").tobytes() for place, vector in vectors.items()}
            head: dict[str, Any] = {"at": at, "by": by, "why": why}
            told = UnitOfWork(draft, changeset=number, **head).each(decisions, blobs)
            known = KnowledgeUnitOfWork(draft.known, changeset=number, **head).all(knowledge, told)
            draft.changesets.append(Changeset(id=number, **head, undoes=undoes, part_of=part_of))
            changes = tuple(change for each in told for change in each)
            done = replace(draft.changesets[-1], changes=changes, knowledge=known)
            if settles:
                draft.captures.settle(settles(done), at, number)
            self._tables = draft
            return done

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
    def _knowing(self) -> Iterator[tuple[FakeKnownRows, Sequence[Changeset]]]:
        """Yield the domain knowledge and the journal's changesets, locked."""
        with self._holding() as tables:
            yield tables.known, tables.changesets

    def get(self, ids: Sequence[int]) -> list[Memory]:
        self._refuse_if_closed()
        found = (self._tables.memories.get(each) for each in ids)
        return [memory for memory in found if memory]

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
        texts = {memory.id: _counted_words(memory) for memory in self._tables.memories.values()}
        return by_words(texts, [memory.id for memory in self._inside(scope)], words, k)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        texts = {memory.id: _counted_words(memory) for memory in self.get(ids)}
        return {each: [word for word in words if stem(word) in texts.get(each, {})] for each in ids}

    def known(self, text: str, scope: Scope) -> list[int]:
        wanted = fingerprint(text)
        return sorted(memory.id for memory in self._inside(scope) if fingerprint(memory.text) == wanted)

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        inside = sorted(memory.id for memory in self._inside(scope) if memory.id in self._tables.vectors)
        vectors = {each: np.frombuffer(self._tables.vectors[each], dtype="<f4") for each in inside}
        for place, low in enumerate(inside):
            for high in inside[place + 1 :]:
                cosine = float(vectors[low] @ vectors[high])
                if cosine >= threshold:
                    yield low, high, cosine

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        live = {memory.id for memory in self.get(ids) if not memory.archived} & self._tables.vectors.keys()
        vectors = {each: np.frombuffer(self._tables.vectors[each], dtype="<f4") for each in sorted(live)}
        for each, vector in vectors.items():
            others = [Candidate(other, float(vector @ vectors[other])) for other in vectors if other != each]
            near = sorted((one for one in others if one.score >= threshold), key=lambda one: (-one.score, one.id))
            if near[:k]:
                yield each, near[:k]

    def history(self, memory_id: int) -> list[Change]:
        lineage = {memory_id}
        grown = True
        while grown:
            memories = self._tables.memories.values()
            linked = {link for m in memories if m.id in lineage for link in (m.supersedes, m.superseded_by) if link}
            linked |= {m.id for m in memories if {m.supersedes, m.superseded_by} & lineage}
            grown = not linked <= lineage
            lineage |= linked
        changes = self._changes(entry for entry in self._tables.entries if entry.memory_id in lineage)
        if not changes:
            raise NotFound(f"There is no memory {memory_id}.", "cofio list shows what there is.")
        return changes

    def sightings(self, memory_id: int) -> list[Occurrence]:
        memories = self._tables.memories
        merged = {memory_id}
        while (
            grown := {
                m.id
                for m in memories.values()
                if m.superseded_by in merged and memories[m.superseded_by].supersedes != m.id
            }
            - merged
        ):
            merged |= grown
        later = [seen for _, each, seen in self._tables.sightings if each in merged]
        first = [Occurrence(m.agent, m.session, m.created_at) for m in memories.values() if m.id in merged]
        return sorted([*first, *later], key=lambda seen: seen.at)

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        counts = Counter(memory.project for memory in self._inside(scope) if memory.project > after)
        return sorted(counts.items())[:limit]

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        said: dict[tuple[str, int], list[int]] = {}
        for memory in self._inside(scope):
            agents = [
                memory.agent,
                *(seen.agent for _, each, seen in self._tables.sightings if each == memory.id),
            ]
            for agent in filter(None, agents):
                said.setdefault((agent, fingerprint(memory.text)), []).append(memory.id)
        found = [(agent, min(ids), len(ids)) for (agent, _), ids in said.items() if len(ids) >= least]
        return sorted(found, key=lambda each: (-each[2], each[1], each[0]))[:limit]

    def changeset(self, changeset_id: int) -> Changeset:
        if not 1 <= changeset_id <= len(self._tables.changesets):
            raise NotFound(f"There is no changeset {changeset_id}.", "cofio history shows the newest.")
        entries = (entry for entry in self._tables.entries if entry.changeset == changeset_id)
        told = self._told(self._tables.changesets[changeset_id - 1])
        known = self._tables.known.of_changeset(told, self._tables.changesets)
        return replace(told, changes=tuple(self._changes(entries)), knowledge=known)

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        inside = {memory.id for memory in self._inside(within)} if within else set()
        wanted = {entry.changeset for entry in self._tables.entries if entry.memory_id in inside}
        wanted |= self._tables.known.changed_within(within) if within else set()
        newest = reversed(self._tables.changesets)
        return [self._told(each) for each in newest if within is None or each.id in wanted][:limit]

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        with self._lock:
            for retrieval in retrievals:
                if memory := self._tables.memories.get(retrieval.memory_id):
                    self._tables.retrievals.append(retrieval)
                    last = max(memory.last_retrieved_at or "", retrieval.at)
                    times = memory.retrieval_count + 1
                    self._tables.count(replace(memory, retrieval_count=times, last_retrieved_at=last))
            first = min((retrieval.at for retrieval in self._tables.retrievals), default="")
            self._tables.tracked_since = min(first, self._tables.tracked_since or first) or None

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        wanted = self._tables.memories.keys() if among is None else self._tables.memories.keys() & set(among)
        missing = sorted(wanted - self._tables.vectors.keys())
        return [self._tables.memories[each] for each in missing[:limit]]

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._lock:
            self._refuse_bad(vectors)
            for each, vector in vectors.items():
                if each in self._tables.memories and each not in self._tables.vectors:
                    self._tables.set_vector(each, np.asarray(vector, dtype="<f4").tobytes())

    def sign(self, signature: str, *, anew: bool = False) -> None:
        known = self._tables.signature
        embedded = self._tables.vectors or self._tables.said.vectors
        if known and known != signature and embedded and not anew:
            hint = "Set the embedder back, or run `cofio reembed` to embed every memory again."
            raise EmbedderMismatch(f"The store was embedded with {known}, not with {signature}.", hint)
        self._tables.signature = signature
        if anew:
            self._tables.vectors.clear()
            self._tables.said.vectors.clear()
            self._tables.entries = [replace(entry, vector=None) for entry in self._tables.entries]

    def given(self, client: str, session: str) -> dict[int, str]:
        self._refuse_if_closed()
        given = self._tables.given.items()
        return {each: digest for (*whom, each), (digest, _) in given if whom == [client, session]}

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        with self._lock:
            at = self._clock()
            there = {each: digest for each, digest in given.items() if each in self._tables.memories}
            self._tables.given.update({(client, session, each): (digest, at) for each, digest in there.items()})

    def forget_given(self, client: str, session: str) -> None:
        self._keep_given(lambda whom, _: whom[:2] != (client, session))

    def forget_given_before(self, before: str) -> int:
        limit = to_utc_iso(before)
        return self._keep_given(lambda _, at: at >= limit)

    def _keep_given(self, kept: Callable[[tuple[str, str, int], str], bool]) -> int:
        with self._lock:
            before = len(self._tables.given)
            self._tables.given = {whom: told for whom, told in self._tables.given.items() if kept(whom, told[1])}
            return before - len(self._tables.given)

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
        known = {len(blob) // 4 for blob in list(self._tables.vectors.values())[:1]}
        check_vectors(vectors, known.pop() if known else None)

    def _inside(self, scope: Scope) -> list[Memory]:
        self._refuse_if_closed()
        return [memory for memory in self._tables.memories.values() if _in_scope(memory, scope)]

    def _changes(self, entries: Iterable[JournalEntry]) -> list[Change]:
        changes = []
        for entry in entries:
            later = self._tables.next_recorded(entry)
            after = later.before if later else self._tables.memories.get(entry.memory_id)
            done = self._tables.changesets[entry.changeset - 1]
            changes.append(to_change(entry, after, done.at, done.by, done.why))
        return changes

    def _told(self, done: Changeset) -> Changeset:
        undone_by = [changeset.id for changeset in self._tables.changesets if changeset.undoes == done.id]
        return replace(done, undone_by=undone_by[0] if undone_by else None)


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
        found = [
            memory
            for memory in self._store._inside(Scope(pinned=False))
            if memory.category == category
            and memory.created_at < limit_at
            and not memory.retrieval_count
            and memory.id not in touched | as_another
        ]
        return sorted(found, key=lambda memory: (memory.created_at, memory.id))[:limit]

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        latest: dict[str, str] = {}
        tables = self._store._tables
        meant = {*ids, *(m.id for m in tables.memories.values() if m.superseded_by in ids)}
        for retrieval in tables.retrievals:
            if retrieval.query and retrieval.memory_id in meant:
                latest[retrieval.query] = max(retrieval.at, latest.get(retrieval.query, ""))
        return sorted(sorted(latest), key=lambda query: latest[query], reverse=True)[:limit]

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        return {e.memory_id for e in self._store._tables.entries if e.changeset > after} & set(ids)

    def forget(self, before: str) -> int:
        tables = self._store._tables
        kept = [retrieval for retrieval in tables.retrievals if retrieval.at >= to_utc_iso(before)]
        gone, tables.retrievals = len(tables.retrievals) - len(kept), kept
        return gone


def _drafted(value: Any) -> Any:
    """Return a copy with its own tables, dictionaries and lists. Rows are immutable, and shared."""
    if isinstance(value, dict):
        return {key: _drafted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_drafted(each) for each in value]
    if isinstance(value, _DictRowStorage | Calls | InboxState | FakeKnownRows | EpisodeText):
        draft = copy.copy(value)
        vars(draft).update({name: _drafted(each) for name, each in vars(value).items()})
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
        self.given: dict[tuple[str, str, int], tuple[str, str]] = {}
        self.captures = InboxState()
        self.calls = Calls()
        self.known = FakeKnownRows()
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

    def touched(self, memory_id: int) -> int:
        return max((entry.changeset for entry in self.entries if entry.memory_id == memory_id), default=0)

    def count(self, memory: Memory) -> None:
        self.memories[memory.id] = memory

    def remove(self, memory_id: int) -> None:
        del self.memories[memory_id]
        self.vectors.pop(memory_id, None)
        self.sightings = [sighting for sighting in self.sightings if sighting[1] != memory_id]
        self.given = {whom: told for whom, told in self.given.items() if whom[2] != memory_id}

    def vector(self, memory_id: int) -> bytes | None:
        return self.vectors.get(memory_id)

    def beside(self, memory_id: int) -> Counters:
        memory = self.memories[memory_id]
        seen = sorted((seen for _, each, seen in self.sightings if each == memory_id), key=lambda seen: seen.at)
        return Counters(memory.retrieval_count, memory.last_retrieved_at, tuple(seen))

    def set_vector(self, memory_id: int, vector: bytes | None) -> None:
        if vector is None:
            self.vectors.pop(memory_id, None)
        else:
            self.vectors[memory_id] = vector

    def twin(self, fact: Fact) -> int | None:
        wanted = fingerprint(fact.text)
        same = (
            memory.id
            for memory in self.memories.values()
            if not memory.archived and fingerprint(memory.text) == wanted and same_place(fact, memory)
        )
        return min(same, default=None)

    def record(self, entry: JournalEntry) -> int:
        self.entries.append(replace(entry, id=len(self.entries) + 1))
        return len(self.entries)

    def recorded(self, change_id: int) -> JournalEntry | None:
        return self.entries[change_id - 1] if 1 <= change_id <= len(self.entries) else None

    def next_recorded(self, entry: JournalEntry) -> JournalEntry | None:
        return next((each for each in self.entries[entry.id :] if each.memory_id == entry.memory_id), None)

    def see(self, memory_id: int, change_id: int, occurrence: Occurrence) -> None:
        self.sightings.append((change_id, memory_id, occurrence))

    def unsee(self, change_id: int) -> bool:
        before, self.sightings = self.sightings, [sighting for sighting in self.sightings if sighting[0] != change_id]
        return len(self.sightings) < len(before)

    def erase(self, memory: Memory, viewer: Viewer | None) -> None:
        memory_id = memory.id
        mine = [entry for entry in self.entries if entry.memory_id == memory_id]
        versions, changesets = [memory, *(entry.before for entry in mine)], {entry.changeset for entry in mine}
        words = (text for version in versions if version for text in (version.text, version.context))
        said = inbox_rules.words_to_erase(words, memory.previous_text)
        self.calls.erase()
        self.said.erase(self.captures, said, changesets, viewer)
        self.captures.erase(said, changesets, viewer)

        def cleared(other: Memory) -> Memory:
            previous = None if other.supersedes == memory_id else other.previous_text
            theirs = viewer is None or _owner(other) == _owner(memory)
            context = "" if theirs and other.context in said else other.context
            return replace(other, previous_text=previous, context=context)

        def scrubbed(entry: JournalEntry) -> JournalEntry:
            if entry.memory_id == memory_id:
                return replace(entry, before=None, vector=None, occurrence=None, beside=None, reason="", erased=True)
            return replace(entry, before=cleared(entry.before) if entry.before else None)

        self.entries = [scrubbed(entry) for entry in self.entries]
        self.retrievals = [retrieval for retrieval in self.retrievals if retrieval.memory_id != memory_id]
        self.memories = {each.id: cleared(each) for each in self.memories.values()}


def _owner(memory: Memory) -> tuple[str, str]:
    return (memory.user, "") if memory.user else ("", memory.agent)


def _in_scope(memory: Memory, scope: Scope) -> bool:
    prefix = scope.source_prefix.rstrip("/")
    return (
        (scope.include_archived or not memory.archived)
        and all(getattr(scope, name) in (None, getattr(memory, name)) for name in ("source", "project", "user", "team"))
        and (scope.viewer is None or scope.viewer.sees(memory))
        and (scope.seen_from is None or memory.project in (scope.seen_from, "") or memory.visibility == "global")
        and (not prefix or memory.source == prefix or memory.source.startswith(prefix + "/"))
        and all(
            not getattr(scope, name) or getattr(memory, name) == getattr(scope, name)
            for name in ("category", "kind", "method", "session", "agent")
        )
        and set(scope.tags) <= set(memory.tags)
        and (not scope.visibility or memory.visibility in scope.visibility)
        and (not scope.since or memory.created_at >= scope.since)
        and (not scope.until or memory.created_at <= scope.until)
        and (scope.pinned is None or memory.pinned == scope.pinned)
    )


def _counted_words(memory: Memory) -> Counter[str]:
    about = " ".join((memory.speaker, memory.agent, memory.source, *memory.entities, *memory.tags))
    return counted(f"{memory.text} {about} {memory.context}")
