"""Queries against a keeper that holds a conversation: evidence found, latency and tokens of each search mode.

Question ─ Mode ─▶ [Hit] ─▶ ModeAnswer          Question ─ keeper.recall ─▶ RecallMeasurement
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cofio.core import Keeper
from cofio.models.memory import MAX_HITS, FreshnessResult, Hit, Memory
from cofio.retrieval.recall import build_line
from cofio.text.briefing import PROMPT, BriefingLine, build_block, digest, estimate_tokens
from cofio_eval.datasets import Question
from cofio_eval.embedders import CachingEmbedder
from cofio_eval.metrics import ndcg, recall

MEASURES = ("r@5", "r@10", "r@20", "ndcg@10")
BUDGETS = (256, 512, 1_024, 2_048)  # tokens injected for an agent
_DEEP = 200  # hits: with short messages, fewer would not fill the largest budget
_ROW, _END = 3, "\n"  # of a block with one memory: after the tag, the notice and the heading


@dataclass(frozen=True, slots=True)
class Mode:
    """Search mode: arguments of `keeper.search`, and for comparisons a single score that orders the hits."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    by: Callable[[Hit], float] | None = None
    timed: bool = True
    deep: int = _DEEP  # hits requested to fill a budget or to be reordered


DEFAULT = Mode("default")
NO_RERANK = Mode("without re-ranking", {"rerank": False})
VECTORS = Mode("vectors only", {"hybrid": False}, by=lambda hit: hit.similarity)
# Every search uses vectors, so this takes all hits of a hybrid search and orders them by the word score.
WORDS = Mode("keywords only", by=lambda hit: hit.keyword, timed=False, deep=MAX_HITS)


@dataclass(frozen=True, slots=True)
class ModeAnswer:
    """Result of one mode for a question's evidence."""

    scores: Mapping[str, float]  # by MEASURES
    within: tuple[float, ...]  # share of the evidence within each of BUDGETS
    seconds: float | None  # time of a search for ten hits, including the embedding of the question


@dataclass(frozen=True, slots=True)
class RecallMeasurement:
    """Context injected by recall for a question, and the best score of a search."""

    tokens: int
    share: float  # of the evidence
    best: float  # score; 0 without any hit


class ConversationRunner:
    """Queries against a keeper that holds one conversation."""

    def __init__(self, keeper: Keeper, embedder: CachingEmbedder) -> None:
        self._keeper = keeper
        self._embedder = embedder
        self._weights: dict[int, int] = {}  # tokens by memory
        keeper.warm()

    def answer(self, question: Question, mode: Mode) -> ModeAnswer:
        """Return the evidence that a mode finds with ten hits, with twenty, and with as many as a budget holds."""
        ten, seconds = self._time_search(question.text, mode) if mode.timed else ((), None)
        deep = self._keeper.search(question.text, k=mode.deep, log=False, **mode.options)
        twenty: Sequence[Hit]
        if mode.by is None:
            twenty = self._keeper.search(question.text, k=20, log=False, **mode.options)
        else:
            ten = twenty = deep = ranked(deep, mode.by)
        return ModeAnswer(
            scores={
                "r@5": recall(units(ten), question.evidence, 5),
                "r@10": recall(units(ten), question.evidence, 10),
                "r@20": recall(units(twenty), question.evidence, 20),
                "ndcg@10": ndcg(units(ten), question.evidence, 10),
            },
            within=self._measure_budgets(deep, question.evidence),
            seconds=seconds,
        )

    def recall(self, question: Question) -> RecallMeasurement:
        """Return the context that recall injects for this question; the best score is of a search."""
        recalled = self._keeper.recall(question.text)
        hits = self._keeper.search(question.text, k=10, log=False)
        units = {str(self._keeper.get(memory_id).metadata["unit"]) for memory_id in recalled.ids}
        share = len(units & question.evidence) / len(question.evidence) if question.evidence else 0.0
        return RecallMeasurement(recalled.tokens, share, max((hit.score for hit in hits), default=0.0))

    def _time_search(self, text: str, mode: Mode) -> tuple[Sequence[Hit], float]:
        self._embedder.forget()
        started = time.perf_counter()
        hits = self._keeper.search(text, k=10, **mode.options)
        return hits, time.perf_counter() - started

    def _measure_budgets(self, hits: Sequence[Hit], evidence: Collection[str]) -> tuple[float, ...]:
        """Return the share of the evidence within each budget, adding lines in this order."""
        costs = list(self._add_costs(hits))
        needed = set(evidence)
        return tuple(len(needed & {unit for cost, unit in costs if cost <= budget}) / len(needed) for budget in BUDGETS)

    def _add_costs(self, hits: Sequence[Hit]) -> Iterator[tuple[int, str]]:
        """Yield each unit with the tokens of all lines up to its own; equal texts count once."""
        spent, seen = 0, set()
        for hit in hits:
            if (text_digest := digest(hit.text)) not in seen:
                seen.add(text_digest)
                spent += self._count_tokens(hit.memory)
            yield spent, _get_unit(hit)
            if spent > BUDGETS[-1]:
                return

    def _count_tokens(self, memory: Memory) -> int:
        """Return the tokens of the memory's line in the format of recall."""
        if memory.id not in self._weights:
            line = build_line(memory, FreshnessResult(), "")
            block = build_block([line], PROMPT)[0]
            self._weights[memory.id] = estimate_tokens(f"{block.split(_END)[_ROW]}{_END}") if block else 0
        return self._weights[memory.id]


#: Tokens of a block without its lines.
FRAME = estimate_tokens(build_block([BriefingLine(1, "x")], PROMPT)[0]) - estimate_tokens("- x\n")


def ranked(hits: Sequence[Hit], by: Callable[[Hit], float]) -> list[Hit]:
    """Return the hits with a positive score, ordered by it; of equal ones the newer first."""
    return sorted((hit for hit in hits if by(hit) > 0), key=lambda hit: (-by(hit), -hit.id))


def units(hits: Sequence[Hit]) -> list[str]:
    """Return the ids of the units in order; repeated ones keep their place as ""."""
    seen: set[str] = set()
    ids = []
    for unit in map(_get_unit, hits):
        ids.append("" if unit in seen else unit)
        seen.add(unit)
    return ids


def _get_unit(hit: Hit) -> str:
    return str(hit.memory.metadata["unit"])
