"""Comparison of ways to fuse the two rankings: the table behind the defaults of `cofio.retrieval.hybrid`.

    python -m evals.fusion FILE [--leave-out speaker context] [--json OUT]

Every question is asked once in a real store with the real embedder; each row ranks the same candidates in another way,
from the cosine and the BM25 score of an explained hit, without re-ranking.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from cofio.models.memory import MAX_HITS, Hit
from cofio_eval.datasets import LEFT_OUT, Conversation, read, remembered
from cofio_eval.metrics import difference, mean, ndcg, recall

_FLOOR = 0.40  # the local embedder's
Rule = Callable[[Sequence[Hit]], list[float]]


@dataclass(frozen=True, slots=True)
class QuestionCandidates:
    """Candidates of a question as ranked by the service, with the expected evidence."""

    category: str
    evidence: frozenset[str]
    hits: tuple[Hit, ...]
    first_ten: tuple[Hit, ...]
    seconds: float  # time of the search for ten, including the embedding of the question


def main() -> int:
    """Print the table; return 2 if the data is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="conversations, one JSON object per line")
    parser.add_argument("--json", type=Path, help="also write the table here")
    parser.add_argument(
        "--leave-out", nargs="*", default=[], choices=("speaker", "context"), help="leave these fields empty"
    )
    options = parser.parse_args()
    if not options.file.exists():
        print(
            f"There is no {options.file}. packages/cofio-eval/src/cofio_eval/datasets.py describes the format.",
            file=sys.stderr,
        )
        return 2
    conversations = [without(item, options.leave_out) for item in read(options.file)]
    candidates = [item for conversation in conversations for item in ask(conversation)]
    table = compute_table(candidates)
    show(table, len(candidates))
    recall_at_10 = mean([recall(_units(item.first_ten), item.evidence, 10) for item in candidates])
    latency = 1000 * median(item.seconds for item in candidates)
    print(f"R@10 with k = 10: {100 * recall_at_10:.1f}; {latency:.1f} ms (p50)")
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    return 0


def ask(conversation: Conversation) -> list[QuestionCandidates]:
    """Return the candidates of every question with an answer, in a store with this conversation only."""
    candidates = []
    with remembered(conversation) as keeper:
        for question in conversation.questions:
            if not question.evidence or question.category in LEFT_OUT:
                continue
            started = time.perf_counter()
            first_ten = tuple(keeper.search(question.text, k=10, rerank=False))
            elapsed = time.perf_counter() - started
            all_hits = tuple(keeper.search(question.text, k=MAX_HITS, explain=True, rerank=False))
            candidates.append(QuestionCandidates(question.category, question.evidence, all_hits, first_ten, elapsed))
    print(f"{conversation.id}: {len(conversation.facts)} units, {len(candidates)} questions", file=sys.stderr)
    return candidates


def without(conversation: Conversation, fields: Sequence[str]) -> Conversation:
    """Return the conversation with these fields of its facts empty."""
    emptied: dict[str, Any] = dict.fromkeys(fields, "")
    facts = tuple(replace(fact, **emptied) for fact in conversation.facts)
    return replace(conversation, facts=facts)


def compute_table(candidates: Sequence[QuestionCandidates]) -> list[dict[str, object]]:
    """Return one row per rule: R@5, R@10, R@20, nDCG@10, R@10 by category, and the difference to the service's own
    ranking.
    """
    service_recall = [recall(_units(item.hits), item.evidence, 10) for item in candidates]
    rows: list[dict[str, object]] = []
    for name, rule in RULES.items():
        rankings = [_rank(item.hits, rule) for item in candidates]
        recall_at_10 = [recall(ranking, item.evidence, 10) for ranking, item in zip(rankings, candidates, strict=True)]
        gain = difference(recall_at_10, service_recall)
        row: dict[str, object] = {"rule": name}
        for k in (5, 20):
            pairs = zip(rankings, candidates, strict=True)
            row[f"r@{k}"] = mean([recall(ranking, item.evidence, k) for ranking, item in pairs])
        row["r@10"] = mean(recall_at_10)
        row["ndcg@10"] = mean(
            [ndcg(ranking, item.evidence, 10) for ranking, item in zip(rankings, candidates, strict=True)]
        )
        row["to_service"] = [gain.value, gain.low, gain.high]
        row["by_category"] = {
            category: mean(
                [value for value, item in zip(recall_at_10, candidates, strict=True) if item.category == category]
            )
            for category in sorted({item.category for item in candidates})
        }
        rows.append(row)
    return rows


def show(table: Sequence[dict[str, object]], questions: int) -> None:
    """Print the table as text."""
    print(f"{questions} questions; evidence found in %; difference in R@10 to the service, 95 % interval")
    print(f"{'ranking':44} {'R@5':>5} {'R@10':>5} {'R@20':>5} {'nDCG':>5}  difference")
    for row in table:
        delta, low, high = row["to_service"]  # type: ignore[misc]
        figures = " ".join(f"{100 * row[name]:5.1f}" for name in ("r@5", "r@10", "r@20", "ndcg@10"))  # type: ignore[operator]
        print(f"{row['rule']:44} {figures}  {100 * delta:+5.1f} [{100 * low:+.1f}, {100 * high:+.1f}]")  # type: ignore[has-type]
    for row in table[:1]:
        print("R@10 of the service by category:", {k: round(100 * v, 1) for k, v in row["by_category"].items()})  # type: ignore[attr-defined]


# ── rules: hits in, one score per hit out ─────────────────────────────────────────────────────────────────────────────


def _cosines(hits: Sequence[Hit]) -> list[float]:
    return [hit.similarity for hit in hits]


def _bm25(hits: Sequence[Hit]) -> list[float]:
    return [hit.why.bm25 if hit.why else 0.0 for hit in hits]


def _rrf(constant: int) -> Rule:
    def rule(hits: Sequence[Hit]) -> list[float]:
        scores = []
        for hit in hits:
            ranks = (hit.why.vector_rank, hit.why.keyword_rank) if hit.why else ()
            scores.append(sum(1 / (constant + rank) for rank in ranks if rank))
        return scores

    return rule


def _minmax(weight: float) -> Rule:
    def rule(hits: Sequence[Hit]) -> list[float]:
        cosines, bm25 = _scale(_cosines(hits)), _scale(_bm25(hits))
        return [weight * cosine + (1 - weight) * keyword for cosine, keyword in zip(cosines, bm25, strict=True)]

    return rule


def _absolute(weight: float, floor: float = _FLOOR) -> Rule:
    def rule(hits: Sequence[Hit]) -> list[float]:
        cosines = [min(1.0, max(0.0, (hit.similarity - floor) / (1 - floor))) for hit in hits]
        return [weight * cosine + (1 - weight) * hit.keyword for cosine, hit in zip(cosines, hits, strict=True)]

    return rule


def _with_names(hits: Sequence[Hit]) -> list[float]:
    return [hit.score for hit in hits]


RULES: dict[str, Rule] = {
    "the service: absolute 0.55, names and dates": _with_names,
    "vectors only": _cosines,
    "keywords only (BM25)": _bm25,
    "rank fusion, k = 10": _rrf(10),
    "rank fusion, k = 60": _rrf(60),
    "min-max 0.5": _minmax(0.5),
    "absolute 0.40": _absolute(0.40),
    "absolute 0.50": _absolute(0.50),
    "absolute 0.55": _absolute(0.55),
    "absolute 0.60": _absolute(0.60),
    "absolute 0.70": _absolute(0.70),
    "absolute 0.55, counted from 0.30": _absolute(0.55, 0.30),
    "absolute 0.55, counted from 0.50": _absolute(0.55, 0.50),
}


def _scale(values: Sequence[float]) -> list[float]:
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


def _rank(hits: Sequence[Hit], rule: Rule) -> list[str]:
    scored = sorted(zip(rule(hits), hits, strict=True), key=lambda row: (-row[0], -row[1].id))
    return [str(hit.memory.metadata["unit"]) for _, hit in scored]


def _units(hits: Sequence[Hit]) -> list[str]:
    return [str(hit.memory.metadata["unit"]) for hit in hits]


if __name__ == "__main__":
    sys.exit(main())
