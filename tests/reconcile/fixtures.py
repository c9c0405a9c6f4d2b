"""Helpers for reconciliation tests: memories, facts, and an LLM with scripted replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.by_llm import decide_by_llm
from cofio.ingest.reconcile.compare import WordComparer
from cofio.models.exchange import FactOutcome
from cofio.models.memory import Add, Changeset, Decision, Fact, Memory, Noop, Occurrence, Scope, Update
from cofio.ports import Completion, Store, Vector
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, ScriptedLLM

EMBEDDER = HashEmbedder()
SOURCE = "test/project"
NOW = "2028-01-01T00:00:00.000000+00:00"  # after every memory and fact
PRISMA = "The project uses Prisma as its ORM"
DRIZZLE = "The project switched from Prisma to Drizzle as its ORM"


@contextmanager
def open_store() -> Iterator[Store]:
    store = MemoryStore(FixedClock())
    yield store
    store.close()


def fact(text: str, **fields: Any) -> Fact:
    return Fact(**{"source": SOURCE, "method": "llm", **fields, "text": text})


def embed(texts: Sequence[str]) -> Any:
    return EMBEDDER.embed(texts, "document")


def remember(store: Store, *facts: str | Fact) -> list[int]:
    """Add facts as memories and return their ids."""
    new_facts = [fact(item) if isinstance(item, str) else item for item in facts]
    changeset = store.apply(
        [Add(new_fact) for new_fact in new_facts],
        dict(enumerate(embed([new_fact.text for new_fact in new_facts]))),
        by="t",
        why="t",
    )
    return [change.memory_id for change in changeset.changes]


def novelty_check(store: Store) -> Callable[[Fact, Vector], FactOutcome]:
    """Return the novelty check that decides without an LLM."""

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        novelty = decide.novelty(fact, vector, store, Scope(source=fact.source), WordComparer(0.88), 0.88)
        if novelty.novel or novelty.match is None:
            return FactOutcome(fact=fact, decision=Add(fact, f"by rule: {novelty.reason}", unless_known=True))
        return FactOutcome(fact=fact, decision=Noop(novelty.match.id, Occurrence(), f"by rule: {novelty.reason}"))

    return novel


def ask_llm(
    store: Store, reply: Any, *facts: str | Fact, **options: Any
) -> tuple[list[FactOutcome], str, list[tuple[str, str, Any]]]:
    """Return the outcomes for the facts given the LLM's reply, the problem, and the LLM's calls."""
    new_facts = [fact(item) if isinstance(item, str) else item for item in facts]
    scripted = reply if isinstance(reply, str | Completion | Exception) else json.dumps(reply)
    llm = ScriptedLLM([scripted], reconciles=options.pop("reconciles", True))
    vectors = embed([new_fact.text for new_fact in new_facts])
    outcomes, _, problem = decide_by_llm(
        llm, new_facts, vectors, store, **{"novel": novelty_check(store), "now": NOW, **options}
    )
    assert [outcome.fact for outcome in outcomes] == new_facts
    return outcomes, problem, llm.calls


def decisions_for(store: Store, reply: Any, *facts: str | Fact, **options: Any) -> list[Decision | None]:
    return [outcome.decision for outcome in ask_llm(store, reply, *facts, **options)[0]]


def is_by_rule(decision: Decision | None) -> bool:
    return getattr(decision, "reason", "").startswith("by rule: ")


def apply_outcomes(store: Store, outcomes: Sequence[FactOutcome]) -> Changeset:
    """Apply all decisions in one transaction."""
    decisions = [outcome.decision for outcome in outcomes if outcome.decision]
    texts = {
        index: decision.fact.text for index, decision in enumerate(decisions) if isinstance(decision, Add | Update)
    }
    vectors = dict(zip(texts, embed(list(texts.values())), strict=True))
    return store.apply(decisions, vectors, by="t", why="t")


def live_memories(store: Store) -> list[Memory]:
    return sorted(store.page(Scope(), limit=1_000)[0], key=lambda memory: memory.id)


def answer(fact: Any, action: Any, memory: Any = None, text: Any = None) -> dict[str, Any]:
    return {"fact": fact, "action": action, "memory": memory, "text": text}


def parse_rows(user: str, block: str) -> list[dict[str, Any]]:
    lines = user.split(f"<{block}>\n")[1].split(f"\n</{block}>")[0]
    return [json.loads(line) for line in lines.splitlines()]
