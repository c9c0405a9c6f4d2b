"""Evidence found by each side, on conversations with known evidence.

Every side gets the same texts ("Speaker: what was said"), the same vectors of them and of the questions, and one
collection per conversation. A turn with the same words as another counts as that turn, even if a side stores both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers import child, embedding
from bench.peers.sides import Side
from cofio.models.memory import Fact
from cofio.ports import Embedder
from cofio.text.tokens import embedding_text
from cofio_eval.datasets import LEFT_OUT, Conversation, Question
from cofio_eval.metrics import ndcg, recall

K = 10
_BATCH = 256
_FIELDS = ("text", "speaker", "created_at", "context")


@dataclass(frozen=True, slots=True)
class Asked:
    """Memories of a conversation, and questions about it; evidence as texts."""

    collection: str
    items: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]
    evidence: Sequence[frozenset[str]]


def asked(conversations: Sequence[Conversation], most: int | None = None) -> list[Asked]:
    """Return the questions that have an answer, with the texts of the evidence; at most `most` per conversation."""
    found = []
    for place, each in enumerate(conversations):
        said = {fact.metadata["unit"]: embedding_text(fact.text, fact.speaker) for fact in each.facts}
        kept = [one for one in each.questions if one.category not in LEFT_OUT and one.evidence & said.keys()][:most]
        evidence = [frozenset(said[unit] for unit in one.evidence if unit in said) for one in kept]
        items = [_item(fact) for fact in each.facts]
        found.append(Asked(f"conversation-{place}", items, kept, evidence))
    return found


def _item(fact: Fact) -> dict[str, Any]:
    about = asdict(fact)
    text = embedding_text(fact.text, fact.speaker)
    return {"id": fact.metadata["unit"], "text": text, "fields": {name: about[name] for name in _FIELDS}}


def vectors(folder: Path, every: Sequence[Asked], embedder: Embedder) -> Path:
    """Write the table of all turns and questions."""
    turns = [item["text"] for each in every for item in each.items]
    questions = [question.text for each in every for question in each.questions]
    texts = list(dict.fromkeys([*turns, *questions]))
    return embedding.table(folder, texts, np.asarray(embedder.embed(texts, "document"), np.float32))


def measured(side: Side, every: Sequence[Asked], folder: Path, table: Path, url: str) -> dict[str, Any]:
    """Return R@5, R@10 and nDCG@10 of each question, in order. Raise Failed if the side fails."""
    scores: dict[str, list[float]] = {"recall_at_5": [], "recall_at_10": [], "ndcg_at_10": []}
    with child.opened(side, folder, vectors=table, url=url) as open_side:
        for each in every:
            for start in range(0, len(each.items), _BATCH):
                open_side.ask("add_many", collection=each.collection, items=each.items[start : start + _BATCH])
            for question, evidence in zip(each.questions, each.evidence, strict=True):
                found = open_side.ask("search", collection=each.collection, text=question.text, k=K)["found"]
                ranking = list(dict.fromkeys(found))
                scores["recall_at_5"].append(recall(ranking, evidence, 5))
                scores["recall_at_10"].append(recall(ranking, evidence, 10))
                scores["ndcg_at_10"].append(ndcg(ranking, evidence, 10))
        return {"version": open_side.opening["about"]["version"], "scores": scores}
