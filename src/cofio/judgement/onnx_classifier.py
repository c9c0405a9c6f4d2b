"""Run-time wrapper of the trained model: int8 ONNX on the CPU, loaded at the first call.

    turn ─ layers ─▶ spans, voices
    pair ─ first layers ─▶ screen ─ may be related ─▶ next layers ─▶ … ─▶ relation or relevance
                              └──── surely not ─────▶ `add`, 0.0

Every text is a separate run, so that a result never depends on the rest of a batch. Results for recent pairs are
cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cofio.judgement.model_inputs import Encoder, sentences_of
from cofio.judgement.model_manifest import WEIGHTS, part_files, read_card, tagger_file
from cofio.judgement.onnx_encoder import NEXT_STATES, Layers, Paired
from cofio.judgement.spans import Tagged, decode, softmax
from cofio.judgement.voices import VoiceTagger, layout_signs, sum_states
from cofio.ports import Relation, SentenceVoice, Span
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from cofio.text import lazy_re

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LATIN = "\u024f"  # last letter of the extended Latin alphabet
_VOICE_WINDOWS = 12  # windows of 160 tokens that are read of a turn to find foreign text in it
_REMEMBERED = 4_096  # pairs in the result cache
_UNRELATED = Relation(1.0, 0.0, 0.0, 0.0)
_DATE = lazy_re.compile(r" \((?:(?:week of )?\d{4}-\d\d(?:-\d\d)?|Q[1-4] \d{4}|\d{4})\)")


class _Network(NamedTuple):
    encoder: Encoder
    layers: Layers
    tagger: VoiceTagger


class LocalJudge:
    """Judge of turns, pairs and prompts that uses the model shipped with cofio."""

    def __init__(self, place: Path = WEIGHTS, *, threads: int = 1) -> None:
        self._place, self._threads = place, threads
        self.card = read_card(place)
        self._loading = Lock()
        self._network: _Network | None = None
        self._related = lru_cache(_REMEMBERED)(self._relate)
        self._scored = lru_cache(_REMEMBERED)(self._score)

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Return the probability thresholds by the name of the decision."""
        thresholds: Mapping[str, float] = self.card["thresholds"]
        return thresholds

    def spans(self, text: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return the parts of a turn that state a fact worth keeping, in order, each with its probability."""
        encoder, layers, _ = self._loaded()
        spans: list[Span] = []
        for number, window in enumerate(encoder.windows(text, before, role)):
            if number == windows:
                break
            spans += decode(text, Tagged(window.places, layers.words(window.ids, window.types)))
        return spans

    def passages(self, text: str) -> list[SentenceVoice]:
        """Return the voice of each sentence of a user's turn."""
        sentences = sentences_of(text)
        if not sentences:
            return []
        if sum(letter > _LATIN for letter in text) > len(text) / 4:  # the vocabulary is of Latin script
            return []
        probabilities = self._loaded().tagger.tag(self.sentence_vectors(text, sentences))
        return [SentenceVoice(*place, chance) for place, chance in zip(sentences, probabilities, strict=True)]

    def sentence_vectors(self, text: str, sentences: Sequence[tuple[int, int]]) -> NDArray[Any]:
        """Return one vector for each sentence of a user's turn: its mean state, and the signs of its layout."""
        encoder, layers, _ = self._loaded()
        windows = islice(encoder.windows(text), _VOICE_WINDOWS)
        states = ((layers.words(window.ids, window.types, NEXT_STATES), window.places) for window in windows)
        sums = np.sum([sum_states(*of_window, sentences) for of_window in states], axis=0)
        return np.concatenate([sums[:, :-1] / np.maximum(sums[:, -1:], 1), layout_signs(text, sentences)], axis=1)

    def relation(self, statement: str, memory: str) -> Relation:
        """Return the effect of a statement on a memory."""
        # Extraction appends dates to relative ones. People do not write like that, and it misleads the model.
        return self._related(_DATE.sub("", statement), _DATE.sub("", memory))

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        """Return, for each memory, the probability that it helps with the prompt."""
        return [self._scored(prompt, memory) for memory in memories]

    def _relate(self, statement: str, memory: str) -> Relation:
        logits = self._run(*self._loaded().encoder.pair(memory, statement), "relation")
        return _UNRELATED if logits is None else Relation(*(float(chance) for chance in softmax(logits)))

    def _score(self, prompt: str, memory: str) -> float:
        logits = self._run(*self._loaded().encoder.relevance(memory, prompt), "relevance")
        if logits is None:
            return 0.0
        scale, shift = self.card["relevance"]
        return float(1.0 / (1.0 + np.exp(-(scale * float(logits[0]) + shift))))

    def _run(self, ids: Sequence[int], types: Sequence[int], head: Paired) -> NDArray[Any] | None:
        """Return the logits of a head for a pair; None if a screen finds the two unrelated."""
        return self._loaded().layers.pair(ids, types, head, self._limits(head)).logits

    def _limits(self, head: Paired) -> Sequence[float]:
        """Return the probability below which each screen ends the run."""
        limits: Sequence[float] = self.card["screens"][head]
        return limits

    def _loaded(self) -> _Network:
        if self._network is None:
            with self._loading:
                if self._network is None:
                    words = WordPiece.read(self._place / "vocab.txt")
                    layers = Layers(part_files(self.card, self._place), self._threads)
                    self._network = _Network(Encoder(words), layers, VoiceTagger(tagger_file(self.card, self._place)))
        return self._network
