"""The trained model, ready to run: int8 ONNX on the processor, loaded with the first question.

Every text is a run of its own, so that an answer never depends on what else is asked (dynamic int8 quantisation
scales with the largest value of a run). Answers for recent pairs are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from cofio.embedders.network import session
from cofio.embedders.wordpiece import WordPiece
from cofio.judgement.card import WEIGHTS, read_card
from cofio.judgement.encoding import Encoder
from cofio.judgement.spans import Tagged, decode, softmax
from cofio.ports import Relation, Span

_REMEMBERED = 4_096  # pairs whose answer is kept


class LocalJudge:
    """Judges turns, pairs and prompts with the model that comes with cofio."""

    def __init__(self, place: Path = WEIGHTS, *, threads: int = 1) -> None:
        self._place, self._threads = place, threads
        self.card = read_card(place)
        self._loading = Lock()
        self._network: tuple[Encoder, Any] | None = None
        self._related = lru_cache(_REMEMBERED)(self._relate)
        self._scored = lru_cache(_REMEMBERED)(self._score)

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Probabilities from which on to act, by the name of the decision."""
        thresholds: Mapping[str, float] = self.card["thresholds"]
        return thresholds

    def spans(self, said: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return the parts of a turn that state a fact worth keeping, in order, each with its probability."""
        encoder, _ = self._loaded()
        found: list[Span] = []
        for number, window in enumerate(encoder.windows(said, before, role)):
            if number == windows:
                break
            logits = self._run(window.ids, window.types, "words")
            found += decode(said, Tagged(window.places, logits))
        return found

    def relation(self, statement: str, memory: str) -> Relation:
        """Return what a statement does to a memory."""
        return self._related(statement, memory)

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        """Return, for each memory, the probability that it helps with the prompt."""
        return [self._scored(prompt, memory) for memory in memories]

    def _relate(self, statement: str, memory: str) -> Relation:
        logits = self._run(*self._loaded()[0].pair(memory, statement), "relation")
        return Relation(*(float(each) for each in softmax(logits)))

    def _score(self, prompt: str, memory: str) -> float:
        logit = float(self._run(*self._loaded()[0].relevance(memory, prompt), "relevance")[0])
        scale, shift = self.card["relevance"]
        return float(1.0 / (1.0 + np.exp(-(scale * logit + shift))))

    def _run(self, ids: Sequence[int], types: Sequence[int], head: str) -> Any:
        tokens = np.array([ids], np.int64)
        feed = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.array([types], np.int64),
        }
        return self._loaded()[1].run([head], feed)[0][0]

    def _loaded(self) -> tuple[Encoder, Any]:
        if self._network is None:
            with self._loading:
                if self._network is None:
                    words = WordPiece.read(self._place / "vocab.txt")
                    self._network = Encoder(words), session(self._place / "model.onnx", self._threads)
        return self._network
