"""Voices of a turn: for each sentence, the probability that somebody else wrote it.

    turn ─ windows ─ first layers ─▶ token states ─ mean, and signs of the layout ─▶ sentence vectors ─ tagger ─▶ voices

The tagger is a small recurrent network over the sentences: where a pasted text begins and ends shows in its neighbours.
The same code computes the sentence vectors for training and at run time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cofio.providers.embedders.onnx_model import open_session
from cofio.text import lazy_re

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LINE_SIGNS = (
    lazy_re.compile(r"[>|]"),
    lazy_re.compile(r"(?:[-*•+]|\d{1,2}[.)])\s"),
    lazy_re.compile(r"#{1,6}\s|={3,}|-{3,}|\*{3,}"),
    lazy_re.compile(r"</?\w|\{|\["),
    lazy_re.compile(r"[A-Z][\w-]{1,20}(?: [\w.-]{1,20}){0,2}: "),
    lazy_re.compile(r"\[?\d{1,4}[:/.-]\d\d|.{0,30}\d\d:\d\d"),
    lazy_re.compile(r"[a-zäöüéèñ]"),
    lazy_re.compile(r"[\"'“«„`]"),
)
_WITHIN_SIGNS = (
    lazy_re.compile(r"https?://|www\."),
    lazy_re.compile(r"\b(?:i|i'm|i’m|my|me|mine|ich|mein\w*|je|mon|ma|yo|mi)\b", re.IGNORECASE),
    lazy_re.compile(r"\b(?:we|our|us|wir|unser\w*|nous|notre|nosotros|nuestr\w*)\b", re.IGNORECASE),
    lazy_re.compile(r"\b(?:you|your|can you|pls|please|du|vous|tu|usted)\b", re.IGNORECASE),
    lazy_re.compile(r"[©®]|\ball rights reserved|\bunsubscribe|\bread more", re.IGNORECASE),
)
_ENDS = ("?", ":", ".", "!", "…", ",")
SIGNS = 3 + len(_LINE_SIGNS) + len(_WITHIN_SIGNS) + len(_ENDS) + 6


class VoiceTagger:
    """Runner of the trained tagger."""

    def __init__(self, file: Path) -> None:
        self._session = open_session(file, threads=1)

    def tag(self, vectors: NDArray[Any]) -> list[float]:
        """Return the probability of each sentence that somebody else wrote it."""
        [logits] = self._session.run(["voices"], {"vectors": vectors})
        return (1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))).tolist()  # type: ignore[no-any-return]


def layout_signs(text: str, sentences: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Return the signs of the layout of each sentence, as one row of numbers between 0 and 1."""
    rows = np.zeros((len(sentences), SIGNS), np.float32)
    quotes = 0
    for number, (start, end) in enumerate(sentences):
        gap = text[sentences[number - 1][1] if number else 0 : start]
        sentence = text[start:end]
        is_line_start = number == 0 or "\n" in gap
        row = [float("\n" in gap), float(gap.count("\n") > 1), float(quotes % 2)]
        row += [float(is_line_start and sign.match(sentence) is not None) for sign in _LINE_SIGNS]
        row += [float(sign.search(sentence) is not None) for sign in _WITHIN_SIGNS]
        row += [float(sentence.rstrip("\"'”)*_`").endswith(sign)) for sign in _ENDS]
        words = sentence.count(" ") + 1
        row += [
            min(1.0, words / 30),
            float(words <= 3),
            min(1.0, number / 20),
            number / len(sentences),
            min(1.0, len(sentences) / 30),
            float(gap.endswith(("  ", "\t"))),
        ]
        rows[number] = row
        quotes += sum(sentence.count(mark) for mark in '"“”«»„')
    return rows


def sum_states(
    states: NDArray[Any], places: Sequence[tuple[int, tuple[int, int]]], sentences: Sequence[tuple[int, int]]
) -> NDArray[Any]:
    """Return the sum of the states of each sentence's first word pieces, and their number in a last column."""
    starts = np.array([start for start, _ in sentences])
    sums = np.zeros((len(sentences), states.shape[1] + 1), np.float32)
    for token, (start, _) in places:
        number = int(np.searchsorted(starts, start, side="right")) - 1
        sums[number, :-1] += states[token]
        sums[number, -1] += 1
    return sums
