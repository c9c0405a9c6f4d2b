"""Judges for tests: the packaged model, loaded once per process, and rule-based fakes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from cofio.ingest.reconcile.compare import JudgedComparer
from cofio.judgement.labels import RETRACTION
from cofio.judgement.model_inputs import sentences_of
from cofio.judgement.onnx_classifier import LocalJudge, read_card
from cofio.ports import Relation, SentenceVoice, Span


@cache
def judge() -> LocalJudge:
    """Return the packaged judgement model."""
    return LocalJudge()


def comparer() -> JudgedComparer:
    """Return a comparer that uses the packaged model."""
    return JudgedComparer(judge())


class ValueJudge:
    """Judge by simple rules. Every statement is a fact. A fact that differs from another only in numbers replaces it.
    "X no longer …" and "Cancelled: X" delete X."""

    thresholds: Mapping[str, float] = read_card()["thresholds"]

    def spans(self, said: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return every sentence that is not a question."""
        return [
            Span(start, end, 0.95, RETRACTION if "Cancelled:" in said[start:end] else "other", "project")
            for start, end in sentences_of(said)
            if not said[start:end].endswith("?")
        ]

    def passages(self, text: str) -> list[SentenceVoice]:
        """Return no voices: structure alone decides."""
        return []

    def relation(self, statement: str, memory: str) -> Relation:
        """Return a relation with high confidence."""
        new, old = _words(statement), _words(memory)
        if new - {"longer"} != old:
            return Relation(0.97, 0.01, 0.01, 0.01)
        if "longer" in new or "Cancelled:" in statement:
            return Relation(0.01, 0.01, 0.01, 0.97)
        same = _NUMBER.findall(statement) == _NUMBER.findall(memory)
        return Relation(0.01, 0.97, 0.01, 0.01) if same else Relation(0.01, 0.01, 0.97, 0.01)

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        """Return 0.5 for each memory."""
        return [0.5] * len(memories)


class FixedJudge(ValueJudge):
    """Return the same relation for every pair, and the given spans for every turn."""

    def __init__(self, *spans: Span, same: float = 0.0, update: float = 0.0, delete: float = 0.0) -> None:
        self._spans = list(spans)
        self._relation = Relation(1.0 - same - update - delete, same, update, delete)
        self.relation_calls = 0

    def spans(self, said: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return the configured spans."""
        return self._spans

    def relation(self, statement: str, memory: str) -> Relation:
        """Count the call and return the configured relation."""
        self.relation_calls += 1
        return self._relation


_NUMBER = re.compile(r"\d+")
_FILLERS = frozenset("the a is of for in no now actually wait team project shop its cancelled".split())


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - _FILLERS
