"""What the tests of a model's decisions are made of: memories, facts, and a model that replies so and so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.by_llm import decide_by_llm
from cofio.ingest.reconcile.compare import WordComparer
from cofio.models.exchange import FactOutcome
from cofio.models.memory import Add, Changeset, Decision, Fact, Memory, Noop, Occurrence, Scope, Update
from cofio.ports import Completion, Store, Vector
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM

EMBEDDER = HashEmbedder()
SOURCE = "test/project"
PRISMA = "The project uses Prisma as its ORM"
DRIZZLE = "The project switched from Prisma to Drizzle as its ORM"


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Store]:
    """The fake store or the real one."""
    store: Store = MemoryStore(FixedClock()) if kind == "memory" else SqliteStore(folder / "x.db", FixedClock())
    yield store
    store.close()


def fact(text: str, **about: Any) -> Fact:
    return Fact(**{"source": SOURCE, "method": "llm", **about, "text": text})


def embedded(texts: Sequence[str]) -> Any:
    return EMBEDDER.embed(texts, "document")


def remember(store: Store, *facts: str | Fact) -> list[int]:
    """The ids of these, once they are memories."""
    kept = [fact(each) if isinstance(each, str) else each for each in facts]
    done = store.apply(
        [Add(each) for each in kept], dict(enumerate(embedded([each.text for each in kept]))), by="t", why="t"
    )
    return [change.memory_id for change in done.changes]


def without_a_model(store: Store) -> Callable[[Fact, Vector], FactOutcome]:
    """The check of novelty, as a fact goes through it where no model decides."""

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        told = decide.novelty(fact, vector, store, Scope(source=fact.source), WordComparer(0.88), 0.88)
        if told.novel or told.match is None:
            return FactOutcome(fact=fact, decision=Add(fact, f"by rule: {told.reason}", unless_known=True))
        return FactOutcome(fact=fact, decision=Noop(told.match.id, Occurrence(), f"by rule: {told.reason}"))

    return novel


def asked(
    store: Store, reply: Any, *facts: str | Fact, **how: Any
) -> tuple[list[FactOutcome], str, list[tuple[str, str, Any]]]:
    """What becomes of the facts when the model replies so; the problem; and what the model was asked."""
    texts = [fact(each) if isinstance(each, str) else each for each in facts]
    written = reply if isinstance(reply, str | Completion | Exception) else json.dumps(reply)
    llm = ScriptedLLM([written], reconciles=how.pop("reconciles", True))
    vectors = embedded([text.text for text in texts])
    settled, _, problem = decide_by_llm(llm, texts, vectors, store, **{"novel": without_a_model(store), **how})
    assert [each.fact for each in settled] == texts
    return settled, problem, llm.calls


def decided(store: Store, reply: Any, *facts: str | Fact, **how: Any) -> list[Decision | None]:
    return [each.decision for each in asked(store, reply, *facts, **how)[0]]


def by_rule(decision: Decision | None) -> bool:
    return getattr(decision, "reason", "").startswith("by rule: ")


def done(store: Store, settled: Sequence[FactOutcome]) -> Changeset:
    """All of it applied, in one transaction."""
    decisions = [each.decision for each in settled if each.decision]
    texts = {place: each.fact.text for place, each in enumerate(decisions) if isinstance(each, Add | Update)}
    vectors = dict(zip(texts, embedded(list(texts.values())), strict=True))
    return store.apply(decisions, vectors, by="t", why="t")


def live(store: Store) -> list[Memory]:
    return sorted(store.page(Scope(), limit=1_000)[0], key=lambda memory: memory.id)


def answer(fact: Any, action: Any, memory: Any = None, text: Any = None) -> dict[str, Any]:
    return {"fact": fact, "action": action, "memory": memory, "text": text}


def rows(user: str, block: str) -> list[dict[str, Any]]:
    inside = user.split(f"<{block}>\n")[1].split(f"\n</{block}>")[0]
    return [json.loads(line) for line in inside.splitlines()]
