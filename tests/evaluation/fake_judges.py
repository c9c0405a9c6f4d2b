"""A judge for tests: it finds the quotes, relations and helpful memories that it is given, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cofio.judgement.labels import RELATIONS
from cofio.judgement.model import Relation
from cofio.judgement.spans import Span

THRESHOLDS = {
    "fact": 0.7, "assistant fact": 0.9, "doubtful fact": 0.2, "same": 0.6, "change": 0.8,
    "doubtful change": 0.4, "retraction": 0.5, "relevant": 0.7,
}  # fmt: skip


class ScriptedJudge:
    """Finds quotes wherever they are said, by (probability, kind, about), and labels statement and memory."""

    thresholds: Mapping[str, float] = THRESHOLDS

    def __init__(
        self,
        facts: Mapping[str, tuple[float, str, str]] | None = None,
        label: Callable[[str, str], str] = lambda _statement, _memory: "add",
        helpful: Mapping[str, float] | None = None,
        *,
        sure: float = 0.95,
    ) -> None:
        self._facts, self._label, self._helpful = facts or {}, label, helpful or {}
        self._sure = sure

    def spans(self, said: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        places = sorted((said.find(quote), quote) for quote in self._facts if quote in said)
        return [Span(start, start + len(quote), *self._facts[quote]) for start, quote in places]

    def relation(self, statement: str, memory: str) -> Relation:
        label = self._label(statement, memory)
        rest = (1 - self._sure) / (len(RELATIONS) - 1)
        return Relation(*(self._sure if each == label else rest for each in RELATIONS))

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        return [self._helpful.get(memory, 0.1) for memory in memories]
