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
        Candidate(each, float(np.frombuffer(vectors[each], dtype="<f4") @ vector)) for each in inside if each in vectors
    ]
    scored.sort(key=lambda each: (-each.score, each.id))
    wanted = set(also)
    return scored[:k] + [each for each in scored[k:] if each.id in wanted]


def by_words(texts: Mapping[int, Mapping[str, int]], inside: Iterable[int], words: Sequence[str], k: int) -> Matching:
    """Return the k of the ids inside with the highest BM25, given the stems of every text with their counts."""
    total = len(texts)
    stems = [stem(word) for word in words]
    counts = {each: sum(each in text for text in texts.values()) for each in stems}
    weights = {each: log(1 + (total - n + 0.5) / (n + 0.5)) for each, n in counts.items()}
    scored = []
    for number in inside:
        text = texts[number]
        score = sum(weights[each] * 2.2 * text[each] / (text[each] + 1.2) for each in stems if each in text)
        if any(each in text for each in stems):
            scored.append(Candidate(number, score))
    scored.sort(key=lambda each: (-each.score, each.id))
    return Matching(tuple(scored[:k]), sum(weights[each] for each in stems))


def counted(text: str) -> Counter[str]:
    """Count the stems of a text."""
    return Counter(stem(word) for word in re.findall(r"[^\W_]+", text))


def stem(word: str) -> str:
    return re.sub(r"(?<=\w{3})(?:ing|ed|es|s|e)$", "", word.lower())
