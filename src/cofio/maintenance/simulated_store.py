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
        self._words = {each: {stem(word) for word in words_of(told.text)} for each, (told, _) in self._new.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        wanted = set(also)
        there = sorted(each for each in wanted if each > 0)
        known = self._store.nearest(vector, k + len(self._gone), scope, also=there)
        mine = [Candidate(each, float(own @ vector)) for each, (told, own) in self._new.items() if _inside(told, scope)]
        found = sorted((*self._left(known), *mine), key=lambda one: (-one.score, one.id))
        return found[:k] + [one for one in found[k:] if one.id in wanted]

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        known = self._store.matching(words, k + len(self._gone), scope)
        asked = [stem(word) for word in words]
        mine = [
            Candidate(each, known.ideal * sum(word in self._words[each] for word in asked) / len(asked))
            for each, (told, _) in self._new.items()
            if asked and _inside(told, scope) and not self._words[each].isdisjoint(asked)
        ]
        found = sorted((*self._left(known.candidates), *mine), key=lambda one: (-one.score, one.id))
        return Matching(tuple(found[:k]), known.ideal)

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        held = self._store.holding(words, [each for each in ids if each > 0])
        mine = {each: [word for word in words if stem(word) in self._words[each]] for each in ids if each in self._new}
        return {**held, **mine}

    def get(self, ids: Sequence[int]) -> list[Memory]:
        known = {memory.id: memory for memory in self._store.get([each for each in ids if each > 0])}
        known.update((each, told) for each, (told, _) in self._new.items())
        return [known[each] for each in ids if each in known and each not in self._gone]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return {memory.id: (memory.speaker, memory.created_at) for memory in self.get(ids)}

    def _left(self, candidates: Iterable[Candidate]) -> Iterable[Candidate]:
        return (one for one in candidates if one.id not in self._gone)


def _inside(memory: Memory, scope: Scope) -> bool:
    """Return whether a live memory is in the scope, as far as searches restrict it."""
    prefix = scope.source_prefix.rstrip("/")
    return (
        all(getattr(scope, name) in (None, getattr(memory, name)) for name in ("source", "project"))
        and (scope.seen_from is None or memory.project in (scope.seen_from, "") or memory.visibility == "global")
        and (not prefix or memory.source == prefix or memory.source.startswith(prefix + "/"))
        and all(getattr(scope, name) in ("", getattr(memory, name)) for name in ("category", "kind", "method", "agent"))
        and (not scope.visibility or memory.visibility in scope.visibility)
        and set(scope.tags) <= set(memory.tags)
    )
