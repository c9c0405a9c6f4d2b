"""Stores with memories and scripted mergers for the consolidation tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cofio.maintenance import consolidate
from cofio.maintenance.llm_merge import MergedText, Merger, Proposal
from cofio.models.maintenance import MaintenancePlan
from cofio.models.memory import Add, Changeset, Decision, Fact, Memory, Merge, Query, Scope
from cofio.ports import Matrix, Store
from cofio.retrieval.hybrid import hits
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests.judges import comparer

EMBEDDER = HashEmbedder()
PLACE = {"source": "claude-code/app", "project": "/home/ann/app"}


@contextmanager
def open_store() -> Iterator[Store]:
    store = MemoryStore(FixedClock())
    yield store
    store.close()


def embed_documents(texts: Sequence[str]) -> Matrix:
    return EMBEDDER.embed(texts, "document")


def find_ids(text: str, store: Store, scope: Scope = Scope()) -> list[int]:  # noqa: B008
    query = Query(text=text, k=10, scope=scope)
    return [hit.id for hit in hits(query, EMBEDDER.embed([text], "query")[0], store, EMBEDDER.floor)]


def add_memories(
    store: Store, *texts: str, embed: Callable[[Sequence[str]], Matrix] = embed_documents, **about: Any
) -> list[Memory]:
    """Add memories of one project, one day apart."""
    day = len(store.page(Scope(include_archived=True), limit=1_000)[0])
    facts = [
        Fact(text=text, **{**PLACE, "created_at": 1_767_225_600 + 86_400 * (day + place), **about})
        for place, text in enumerate(texts)
    ]
    vectors = embed([fact.text for fact in facts])
    result = store.apply([Add(fact) for fact in facts], dict(enumerate(vectors)), by="test", why="test")
    return [change.memory for change in result.changes]


def plan_consolidation(store: Store, merger: Merger | None = None, **how: Any) -> MaintenancePlan:
    """Return the consolidation plan. Texts of the hashing embedder are similar from 0.4."""
    request: dict[str, Any] = {
        "similarity": 0.4,
        "finds": find_ids,
        "embed": embed_documents,
        "comparer": comparer(),
        **how,
    }
    return consolidate.decide(store, request.pop("scope", Scope()), merger=merger, **request)


def apply_decisions(store: Store, decisions: Sequence[Decision]) -> Changeset:
    """Apply decisions as the keeper does."""
    texts = {place: each.fact.text for place, each in enumerate(decisions) if isinstance(each, Merge)}
    vectors = dict(zip(texts, embed_documents(list(texts.values())), strict=True))
    return store.apply(decisions, vectors, by="test", why="consolidate")


class TextMerger:
    """Merger that replaces all memories by given texts."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self.asked: list[list[Memory]] = []

    def merge(self, memories: Sequence[Memory]) -> Proposal:
        self.asked.append(list(memories))
        share = -(-len(memories) // len(self._texts))
        ids = [memory.id for memory in memories]
        return Proposal(
            tuple(
                MergedText(text=text, ids=tuple(ids[place * share : (place + 1) * share]))
                for place, text in enumerate(self._texts)
            )
        )


class FunctionMerger:
    """Merger that calls a function."""

    def __init__(self, answer: Callable[[Sequence[Memory]], Any]) -> None:
        self._answer = answer
        self.asked = 0

    def merge(self, memories: Sequence[Memory]) -> Proposal:
        self.asked += 1
        answer: Proposal = self._answer(memories)
        return answer
