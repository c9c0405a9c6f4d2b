"""What the tests of consolidation are made of: stores with memories, and mergers that behave so and so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofio.maintenance import consolidate
from cofio.maintenance.llm_merge import MergedText, Merger, Proposal
from cofio.models.maintenance import MaintenancePlan
from cofio.models.memory import Add, Changeset, Decision, Fact, Memory, Merge, Query, Scope
from cofio.ports import Matrix, Store
from cofio.retrieval.hybrid import hits
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests.judges import comparer

EMBEDDER = HashEmbedder()
PLACE = {"source": "claude-code/app", "project": "/home/ann/app"}


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Store]:
    """The fake store or the real one."""
    store: Store = MemoryStore(FixedClock()) if kind == "memory" else SqliteStore(folder / "x.db", FixedClock())
    yield store
    store.close()


def documents(texts: Sequence[str]) -> Matrix:
    return EMBEDDER.embed(texts, "document")


def finds(text: str, store: Store, scope: Scope = Scope()) -> list[int]:  # noqa: B008
    query = Query(text=text, k=10, scope=scope)
    return [hit.id for hit in hits(query, EMBEDDER.embed([text], "query")[0], store, EMBEDDER.floor)]


def remember(
    store: Store, *texts: str, embed: Callable[[Sequence[str]], Matrix] = documents, **about: Any
) -> list[Memory]:
    """These as memories of one project, a day apart."""
    day = len(store.page(Scope(include_archived=True), limit=1_000)[0])
    facts = [
        Fact(text=text, **{**PLACE, "created_at": 1_767_225_600 + 86_400 * (day + place), **about})
        for place, text in enumerate(texts)
    ]
    vectors = embed([fact.text for fact in facts])
    done = store.apply([Add(fact) for fact in facts], dict(enumerate(vectors)), by="test", why="test")
    return [change.memory for change in done.changes]


def decided(store: Store, merger: Merger | None = None, **how: Any) -> MaintenancePlan:
    """What consolidation decides; texts of the hashing embedder are near from 0.4 on."""
    asked: dict[str, Any] = {"similarity": 0.4, "finds": finds, "embed": documents, "comparer": comparer(), **how}
    return consolidate.decide(store, asked.pop("scope", Scope()), merger=merger, **asked)


def done(store: Store, decisions: Sequence[Decision]) -> Changeset:
    """Do it, as the keeper would."""
    texts = {place: each.fact.text for place, each in enumerate(decisions) if isinstance(each, Merge)}
    vectors = dict(zip(texts, documents(list(texts.values())), strict=True))
    return store.apply(decisions, vectors, by="test", why="consolidate")


class Says:
    """A merger that puts one text in the place of everything that it is shown."""

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


class Does:
    """A merger that does what it is told to."""

    def __init__(self, answer: Callable[[Sequence[Memory]], Any]) -> None:
        self._answer = answer
        self.asked = 0

    def merge(self, memories: Sequence[Memory]) -> Proposal:
        self.asked += 1
        answer: Proposal = self._answer(memories)
        return answer
