"""Search of the fake store in `cofio.testing`: plain cosines and BM25 over dictionaries. For tests only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log

import numpy as np

from cofio.models.memory import Candidate, Matching
from cofio.ports import Vector


def by_cosine(
    vectors: Mapping[int, bytes], inside: Iterable[int], vector: Vector, k: int, also: Iterable[int]
) -> list[Candidate]:
    """Return the k nearest of the ids inside, best first, then those of `also` that are not among them."""
    scored = [
        Candidate(number, float(np.frombuffer(vectors[number], dtype="<f4") @ vector))
        for number in inside
        if number in vectors
    ]
    scored.sort(key=lambda candidate: (-candidate.score, candidate.id))
    extra = set(also)
    return scored[:k] + [candidate for candidate in scored[k:] if candidate.id in extra]


def by_words(texts: Mapping[int, Mapping[str, int]], inside: Iterable[int], words: Sequence[str], k: int) -> Matching:
    """Return the k of the ids inside with the highest BM25, given the stems of every text with their counts."""
    total = len(texts)
    stems = [stem(word) for word in words]
    counts = {term: sum(term in text for text in texts.values()) for term in stems}
    weights = {term: log(1 + (total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}
    scored = []
    for number in inside:
        text = texts[number]
        score = sum(weights[term] * 2.2 * text[term] / (text[term] + 1.2) for term in stems if term in text)
        if any(term in text for term in stems):
            scored.append(Candidate(number, score))
    scored.sort(key=lambda candidate: (-candidate.score, candidate.id))
    return Matching(tuple(scored[:k]), sum(weights[term] for term in stems))


def counted(text: str) -> Counter[str]:
    """Count the stems of a text."""
    return Counter(stem(word) for word in re.findall(r"[^\W_]+", text))


def stem(word: str) -> str:
    return re.sub(r"(?<=\w{3})(?:ing|ed|es|s|e)$", "", word.lower())
