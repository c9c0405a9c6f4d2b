"""Evidence found by each system, on conversations with known evidence.

Every system gets the same texts ("Speaker: what was said"), the same vectors of them and of the questions, and one
collection per conversation. A turn with the same words as another counts as that turn, even if a system stores both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers import child, embedding
from bench.peers.systems import System
from cofio.models.memory import Fact
from cofio.ports import Embedder
from cofio.text.tokens import embedding_text
from cofio_eval.datasets import LEFT_OUT, Conversation, Question
from cofio_eval.metrics import ndcg, recall

K = 10
_BATCH = 256
_FIELDS = ("text", "speaker", "created_at", "context")


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Memories of a conversation, and questions about it; evidence as texts."""

    collection: str
    items: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]
    evidence: Sequence[frozenset[str]]


def load_question_sets(conversations: Sequence[Conversation], limit: int | None = None) -> list[QuestionSet]:
    """Return the questions that have an answer, with the texts of the evidence; at most `most` per conversation."""
    question_sets = []
    for number, conversation in enumerate(conversations):
        texts = {fact.metadata["unit"]: embedding_text(fact.text, fact.speaker) for fact in conversation.facts}
        questions = [
            question
            for question in conversation.questions
            if question.category not in LEFT_OUT and question.evidence & texts.keys()
        ][:limit]
        evidence = [frozenset(texts[unit] for unit in question.evidence if unit in texts) for question in questions]
        items = [_to_item(fact) for fact in conversation.facts]
        question_sets.append(QuestionSet(f"conversation-{number}", items, questions, evidence))
    return question_sets


def _to_item(fact: Fact) -> dict[str, Any]:
    fields = asdict(fact)
    text = embedding_text(fact.text, fact.speaker)
    return {"id": fact.metadata["unit"], "text": text, "fields": {name: fields[name] for name in _FIELDS}}


def write_vectors(folder: Path, question_sets: Sequence[QuestionSet], embedder: Embedder) -> Path:
    """Write the table of all turns and questions."""
    turns = [item["text"] for question_set in question_sets for item in question_set.items]
    questions = [question.text for question_set in question_sets for question in question_set.questions]
    texts = list(dict.fromkeys([*turns, *questions]))
    return embedding.write_table(folder, texts, np.asarray(embedder.embed(texts, "document"), np.float32))


def measure_system(
    system: System, question_sets: Sequence[QuestionSet], folder: Path, table: Path, url: str
) -> dict[str, Any]:
    """Return R@5, R@10 and nDCG@10 of each question, in order. Raise Failed if the system fails."""
    scores: dict[str, list[float]] = {"recall_at_5": [], "recall_at_10": [], "ndcg_at_10": []}
    with child.open_adapter(system, folder, vectors=table, url=url) as adapter:
        for question_set in question_sets:
            for start in range(0, len(question_set.items), _BATCH):
                adapter.ask(
                    "add_many", collection=question_set.collection, items=question_set.items[start : start + _BATCH]
                )
            for question, evidence in zip(question_set.questions, question_set.evidence, strict=True):
                texts = adapter.ask("search", collection=question_set.collection, text=question.text, k=K)["found"]
                ranking = list(dict.fromkeys(texts))
                scores["recall_at_5"].append(recall(ranking, evidence, 5))
                scores["recall_at_10"].append(recall(ranking, evidence, 10))
                scores["ndcg_at_10"].append(ndcg(ranking, evidence, 10))
        return {"version": adapter.opening["about"]["version"], "scores": scores}
