"""Decoding of the model's tags into spans: the parts of a turn that are worth keeping, one fact each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cofio.judgement.labels import ABOUT, KINDS, TAGS
from cofio.judgement.model_inputs import sentences_of
from cofio.ports import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INSIDE = 0.35  # probability from which a word belongs to a fact; a span is as probable as its most probable words
_HINT = 0.1  # minimum probability of the most probable word of a turn without facts
_NEW_FACT = 0.5  # probability of a first word at which a run is split in two, after a comma or a conjunction
_BORDER = 0.1  # probability from which neighbouring words are added to a run, up to a comma
_CONJUNCTIONS = frozenset("and but also plus while or whereas".split())
_GAP = 2  # maximum words between two runs of one sentence that are merged


class Tagged(NamedTuple):
    """Words of a window (first token, position in the text) and the model's logits for its tokens."""

    places: Sequence[tuple[int, tuple[int, int]]]
    logits: NDArray[Any]


def decode(text: str, tagged: Tagged) -> list[Span]:
    """Return the spans of a window, in order; every span lies within one sentence.

    If no word belongs to a fact, the most probable word is a span of low probability: the turn may still change a
    memory.
    """
    if not tagged.places:
        return []
    logits = tagged.logits[[token for token, _ in tagged.places]]
    tags = softmax(logits[:, : len(TAGS)])
    inside, first = 1.0 - tags[:, 0], tags[:, 1]
    ends = [end for _, end in sentences_of(text)]
    runs: list[list[int]] = []
    for at, (_, (start, _)) in enumerate(tagged.places):
        if inside[at] < _INSIDE:
            continue
        last = runs[-1][-1] if runs else None
        if last is None or at - last > _GAP + 1 or crosses(ends, tagged.places[last][1][0], start):
            runs.append([])
        elif first[at] >= _NEW_FACT:
            previous, word = (text[slice(*tagged.places[place][1])].lower() for place in (at - 1, at))
            if previous[-1] in ",;:.!?)–—-" or previous in _CONJUNCTIONS or word in _CONJUNCTIONS:
                runs.append([])  # the word begins a clause
        runs[-1].append(at)
    if not runs and inside.max() >= _HINT:
        runs.append([int(inside.argmax())])
    spans = []
    for place, run in enumerate(runs):
        before = runs[place - 1][-1] + 1 if place else 0
        after = runs[place + 1][0] if place + 1 < len(runs) else len(inside)
        first_word, last_word = _extend_run(text, tagged, inside, (run[0], run[-1]), (before, after), ends)
        spans.append(_build_span(tagged, logits, inside, run, first_word, last_word))
    return spans


def crosses(ends: Sequence[int], one: int, other: int) -> bool:
    """Return whether a sentence ends between two places."""
    return any(one < end <= other for end in ends)


def _build_span(
    tagged: Tagged, logits: NDArray[Any], inside: NDArray[Any], run: Sequence[int], first: int, last: int
) -> Span:
    start, end = tagged.places[first][1][0], tagged.places[last][1][1]
    surest = np.sort(inside[list(run)])[-3:]
    mean = logits[list(run)].mean(0)
    kind = KINDS[int(mean[len(TAGS) : len(TAGS) + len(KINDS)].argmax())]
    about = ABOUT[int(mean[len(TAGS) + len(KINDS) :].argmax())]
    return Span(start, end, float(surest.mean()), kind, about)


def _extend_run(
    text: str,
    tagged: Tagged,
    inside: NDArray[Any],
    run: tuple[int, int],
    room: tuple[int, int],
    ends: Sequence[int],
) -> tuple[int, int]:
    """Return the first and last word of a run, with neighbouring words of its clause up to the next run (`room`)."""
    first, last = run

    def joins(word: int, beside: int) -> bool:
        (_, (left, left_end)), (_, (right, _)) = sorted((tagged.places[word], tagged.places[beside]))
        divided = text[left_end - 1] in ",;:.!?" or crosses(ends, left, right)
        return bool(inside[word] >= _BORDER) and not divided

    while first > room[0] and joins(first - 1, first):
        first -= 1
    while last + 1 < room[1] and joins(last + 1, last):
        last += 1
    return first, last


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return the probabilities along the last axis."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities: NDArray[Any] = powers / powers.sum(-1, keepdims=True)
    return probabilities
