"""Whether two clauses say the same in other words: in the same parts, or with one ordinary word for another."""

from __future__ import annotations

from cofio.relation.judging import kindred, opposed
from cofio.relation.reading import Tokens
from cofio.relation.shape import Part, shape
from cofio.relation.statement import words

#: From this cosine on, one ordinary word may stand for another.
NEAR = 0.94


def reworded(new: Tokens, old: Tokens, cosine: float) -> bool:
    """True when the parts are the same, or near in meaning and the same but for one word of what only describes."""
    if len(set(words(new)) ^ set(words(old))) > 4:  # cheaper than their shapes
        return False
    one, other = shape(new), shape(old)
    if one == other:
        return True
    if cosine < NEAR or len(one) != len(other):
        return False
    differing = [(left, right) for left, right in zip(one, other, strict=True) if left != right]
    exchanged = _exchanged(*differing[0]) if len(differing) == 1 else None
    return exchanged is not None and _alike(exchanged, new, old)


def _exchanged(one: Part, other: Part) -> tuple[str, str] | None:
    """The one word of either part that the other part has not; None when there are more, or a preposition differs."""
    left, right = set(one.words) - set(other.words), set(other.words) - set(one.words)
    if one.joint == other.joint and len(left) == len(right) == 1:
        return min(left), min(right)
    if one.words == other.words and one.joint.startswith("do ") and other.joint.startswith("do "):
        return one.joint.removeprefix("do "), other.joint.removeprefix("do ")
    return None


def _alike(exchanged: tuple[str, str], new: Tokens, old: Tokens) -> bool:
    """Whether both are ordinary words, and not opposites."""
    first, second = exchanged
    ordinary = {each.word for tokens in (new, old) for each in tokens if each.kind == "word"}
    against = opposed(frozenset((first,)), frozenset((second,))) or kindred(first, second)
    return first in ordinary and second in ordinary and not against
