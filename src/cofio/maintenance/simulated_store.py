"""Simulated store after a merge, to see what searches would find then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cofio.models.memory import Candidate, Matching, Memory, Scope
from cofio.ports import Store, Vector
from cofio.text.stemmer import stem
from cofio.text.tokens import words as words_of


class SimulatedStore:
    """Store without some memories and with new ones, which have negative ids. It supports searching only.

    Cosines are exact. The word score of a new text is estimated from the share of query words in it.
    """

    def __init__(self, store: Store, gone: Iterable[int], new: Mapping[int, tuple[Memory, Vector]]) -> None:
        self._store = store
        self._gone = frozenset(gone)
        self._new = dict(new)
        self._words = {
            memory_id: {stem(word) for word in words_of(memory.text)} for memory_id, (memory, _) in self._new.items()
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        also_ids = set(also)
        stored_ids = sorted(memory_id for memory_id in also_ids if memory_id > 0)
        stored = self._store.nearest(vector, k + len(self._gone), scope, also=stored_ids)
        mine = [
            Candidate(memory_id, float(embedding @ vector))
            for memory_id, (memory, embedding) in self._new.items()
            if scope.contains(memory)
        ]
        ranked = sorted((*self._drop_gone(stored), *mine), key=lambda candidate: (-candidate.score, candidate.id))
        return ranked[:k] + [candidate for candidate in ranked[k:] if candidate.id in also_ids]

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        stored = self._store.matching(words, k + len(self._gone), scope)
        stems = [stem(word) for word in words]
        mine = [
            Candidate(memory_id, stored.ideal * sum(word in self._words[memory_id] for word in stems) / len(stems))
            for memory_id, (memory, _) in self._new.items()
            if stems and scope.contains(memory) and not self._words[memory_id].isdisjoint(stems)
        ]
        ranked = sorted(
            (*self._drop_gone(stored.candidates), *mine), key=lambda candidate: (-candidate.score, candidate.id)
        )
        return Matching(tuple(ranked[:k]), stored.ideal)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        stored = self._store.holding(words, [memory_id for memory_id in ids if memory_id > 0])
        mine = {
            memory_id: [word for word in words if stem(word) in self._words[memory_id]]
            for memory_id in ids
            if memory_id in self._new
        }
        return {**stored, **mine}

    def get(self, ids: Sequence[int]) -> list[Memory]:
        memories = {memory.id: memory for memory in self._store.get([memory_id for memory_id in ids if memory_id > 0])}
        memories.update((memory_id, memory) for memory_id, (memory, _) in self._new.items())
        return [memories[memory_id] for memory_id in ids if memory_id in memories and memory_id not in self._gone]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return {memory.id: (memory.speaker, memory.created_at) for memory in self.get(ids)}

    def _drop_gone(self, candidates: Iterable[Candidate]) -> Iterable[Candidate]:
        return (candidate for candidate in candidates if candidate.id not in self._gone)
