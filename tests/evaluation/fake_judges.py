"""A scripted judge for tests: it finds the given quotes, relations and relevant memories only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cofio.judgement.labels import RELATIONS
from cofio.judgement.onnx_classifier import Relation
from cofio.judgement.spans import Span
from cofio.ports import SentenceVoice

THRESHOLDS = {
    "fact": 0.7, "assistant fact": 0.9, "doubtful fact": 0.2, "same": 0.6, "change": 0.8,
    "doubtful change": 0.4, "retraction": 0.5, "relevant": 0.7,
}  # fmt: skip


class ScriptedJudge:
    """Find the given quotes with their (probability, kind, about), and label pairs of statement and memory."""

    thresholds: Mapping[str, float] = THRESHOLDS

    def __init__(
        self,
        facts: Mapping[str, tuple[float, str, str]] | None = None,
        label: Callable[[str, str], str] = lambda _statement, _memory: "add",
        relevant_memories: Mapping[str, float] | None = None,
        *,
        certainty: float = 0.95,
    ) -> None:
        self._facts, self._label, self._relevant_memories = facts or {}, label, relevant_memories or {}
        self._certainty = certainty

    def spans(self, text: str, previous: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        matches = sorted((text.find(quote), quote) for quote in self._facts if quote in text)
        return [Span(start, start + len(quote), *self._facts[quote]) for start, quote in matches]

    def passages(self, text: str) -> list[SentenceVoice]:
        return []

    def relation(self, statement: str, memory: str) -> Relation:
        label = self._label(statement, memory)
        other_probability = (1 - self._certainty) / (len(RELATIONS) - 1)
        return Relation(*(self._certainty if relation == label else other_probability for relation in RELATIONS))

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        return [self._relevant_memories.get(memory, 0.1) for memory in memories]
