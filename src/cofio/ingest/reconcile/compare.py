"""Comparison of a statement with a memory, shared by capture, add, import, deduplication and contradictions.

    statement, memory, cosine ─▶ Verdict: same, update, delete, doubtful or add

`JudgedComparer` asks the judgement model. The model overlooks small edits: it takes most memories with an added "not"
for the same. So where two texts have the same words in the same order, guards compare the words that differ.
`WordComparer` is the fallback without the model: it recognises repetitions only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, Protocol

from cofio.ports import Judge
from cofio.text import lazy_re
from cofio.text.code_literals import missing_literal
from cofio.text.duplicates import (
    LONG,
    content_words,
    difference_reason,
    find_figures,
    find_names,
    is_negated,
    negations,
)
from cofio.text.stemmer import stem
from cofio.text.tokens import search_terms

Kind = Literal["same", "update", "delete", "doubtful", "add"]
_ONE_FORM = 0.5  # share of words in common, in the same order, from which one text is an edit of the other
_UNSHARED = 0.5  # probability from which a memory is replaced that shares no content word
_NUMBERED = lazy_re.compile(r"(.{2,80}?)\s(\d+)\s+(?:is|are|has|have|uses|runs|costs|=)(?!\w)", re.IGNORECASE)
_ENVIRONMENTS = {"production": "production", "prod": "production", "staging": "staging"}


class Comparison(NamedTuple):
    """Relation of a statement to a memory, with its probability and reason."""

    kind: Kind
    probability: float
    reason: str
    change: float = 0.0  # probability that the memory no longer holds, where the verdict keeps it

    @property
    def changes(self) -> bool:
        """Return whether the memory no longer holds."""
        return self.kind in ("update", "delete")


class Comparer(Protocol):
    """Interface for comparing a statement with a memory."""

    def compare(self, statement: str, memory: str, cosine: float, *, retracts: bool = False) -> Comparison:
        """Return the verdict. `retracts`: the statement only ends something."""


class JudgedComparer:
    """Comparer that asks the judgement model, with word-based vetoes."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def compare(self, statement: str, memory: str, cosine: float, *, retracts: bool = False) -> Comparison:  # noqa: ARG002
        """Return the verdict of the model, after the guards. The cosine is not used."""
        if plain := _compare_words(statement, memory):
            return plain
        if veto := _other_row(statement, memory):
            return Comparison("add", 1.0, veto)
        limits, chances = self._judge.thresholds, self._judge.relation(statement, memory)
        if chances.same >= limits["same"] and not retracts:
            return _guarded(statement, memory, chances.same)
        if veto := _other_environment(statement, memory):
            return Comparison("add", chances.add, veto)
        new_stems, old_stems = ({stem(word) for word in search_terms(text)} for text in (statement, memory))
        shared = new_stems & old_stems
        if chances.change < limits["doubtful change"]:
            return Comparison("add", chances.add, "both may hold", chances.change if shared else 0.0)
        if chances.change < self._get_threshold(bool(shared), retracts=retracts):
            kind: Kind = "doubtful" if shared else "add"
            return Comparison(kind, chances.change, "it may have changed", chances.change)
        if retracts or chances.delete > chances.update:
            return Comparison("delete", chances.change, "it has ended")
        if new_stems < old_stems and is_negated(statement) == is_negated(memory):  # replacing it would lose words
            return Comparison("doubtful", chances.change, "it says a part of it")
        return Comparison("update", chances.change, "it has changed")

    def _get_threshold(self, shares_words: bool, *, retracts: bool) -> float:
        """Return the probability from which a memory is replaced; higher if they share no word.

        Nearly every memory in a store is about another topic, and the model takes some of them for changed.
        """
        limits = self._judge.thresholds
        if not shares_words:
            return max(limits["change"], _UNSHARED)
        return limits["retraction"] if retracts else limits["change"]


class WordComparer:
    """Comparer that recognises repetitions by their words, from a cosine on, but no changes."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def compare(self, statement: str, memory: str, cosine: float, *, retracts: bool = False) -> Comparison:
        """Return "same" for nearly the same words, else "add"."""
        if plain := _compare_words(statement, memory):
            return plain
        if retracts or cosine < self._threshold:
            return Comparison("add", 1.0, "both may hold")
        against = difference_reason(statement, memory, cosine, sure=(1 + self._threshold) / 2)
        return Comparison("add", 1.0, against) if against else Comparison("same", cosine, "it says the same")


def _compare_words(statement: str, memory: str) -> Comparison | None:
    """Return the verdict if words alone decide: equal words, or texts too long to compare otherwise."""
    if content_words(statement) == content_words(memory):
        differs = missing_literal(statement, memory)
        return Comparison("add", 1.0, differs) if differs else Comparison("same", 1.0, "it is said in the same words")
    if max(len(statement), len(memory)) > LONG:
        return Comparison("add", 1.0, "texts of this length are compared word for word")
    return None


def _guarded(statement: str, memory: str, probability: float) -> Comparison:
    """Return "same" unless the texts are of one form and differ in a number, a negation, an identifier or a word.

    Texts of different form often say the same with a negation ("no floats", "integers only") or with an unrelated
    number ("page 2 again"). There the model alone decides.
    """
    if not have_same_form(statement, memory):
        return Comparison("same", probability, "it says the same")
    figures, memory_figures = find_figures(statement), find_figures(memory)
    if negations(statement) != negations(memory):
        return Comparison("doubtful", probability, "one of them negates")
    if figures - memory_figures:
        reason = f"it names another number: {min(figures - memory_figures)}"
        return Comparison("update" if memory_figures - figures else "add", probability, reason)
    memory_words = {*content_words(memory), *find_names(memory)}
    if new := [name for name in find_names(statement) if name not in memory_words and not name.isalpha()]:
        return Comparison("add", probability, f"it names something else: {new[0]}")
    if against := _other_word(statement, memory):
        return Comparison("doubtful", probability, against)
    return Comparison("same", probability, "it says the same")


def have_same_form(one: str, other: str) -> bool:
    """Return whether two texts have half of their words in common, in the same order: one is an edit of the other."""
    return _find_slots(content_words(one), content_words(other))[1] >= _ONE_FORM


def share_words(one: str, other: str) -> bool:
    """Return whether half of the words of the shorter text are in the other, ignoring numbers."""
    words, others = ({stem(word) for word in search_terms(text)} - find_figures(text) for text in (one, other))
    return len(words & others) >= max(1, min(len(words), len(others)) / 2)


def _other_row(statement: str, memory: str) -> str:
    """Return why two sentences of one form are about different things, such as two numbered items, or ""."""
    new_words, old_words = content_words(statement), content_words(memory)
    is_pair = len(new_words) == len(old_words) == 2 and new_words[0] == old_words[0]
    if is_pair and new_words[1].isdigit() and old_words[1].isdigit():
        return f"one is about {' '.join(new_words)}, the other about {' '.join(old_words)}"
    new_match, old_match = _NUMBERED.match(statement), _NUMBERED.match(memory)
    if new_match and old_match and new_match[1].lower() == old_match[1].lower() and new_match[2] != old_match[2]:
        return f"one is about {new_match[2]}, the other about {old_match[2]}"
    slots, ratio = _find_slots(new_words, old_words)
    if len(slots) < 2 or ratio < _ONE_FORM:
        return ""
    new_code, old_code = (next((word for word in side if _is_code(word)), "") for side in slots[0])
    return f"one is about {new_code}, the other about {old_code}" if new_code and old_code else ""


def _other_word(statement: str, memory: str) -> str:
    """Return why two sentences that differ only in single words, like rejected and truncated, say different things."""
    new_words, old_words = content_words(statement), content_words(memory)
    slots, _ = _find_slots(new_words, old_words)
    if len(new_words) != len(old_words) or any(len(new) != 1 or len(old) != 1 for new, old in slots):
        return ""
    for [new_word], [old_word] in slots:
        if search_terms(new_word) and search_terms(old_word) and stem(new_word) != stem(old_word):
            return f"one says {new_word}, the other {old_word}"
    return ""


def _find_slots(
    new_words: Sequence[str], old_words: Sequence[str]
) -> tuple[list[tuple[Sequence[str], Sequence[str]]], float]:
    """Return the differences of two word lists as pairs (words of one, words of the other), and their similarity."""
    matcher = SequenceMatcher(None, new_words, old_words, autojunk=False)
    slots = [(new_words[a:b], old_words[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag == "replace"]
    return slots, matcher.ratio()


def _is_code(word: str) -> bool:
    return any(letter.isdigit() for letter in word) and any(letter.isalpha() for letter in word)


def _other_environment(statement: str, memory: str) -> str:
    new, old = (
        {_ENVIRONMENTS[word] for word in content_words(text) if word in _ENVIRONMENTS} for text in (statement, memory)
    )
    return f"one is about {min(new)}, the other about {min(old)}" if new and old and not new & old else ""
