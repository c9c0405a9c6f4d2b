"""Check of a proposed merge: the text must say everything that the memories say, and nothing else.

A model drops a number, moves it to another subject, loses a "not" or adds advice, and the result still reads well. So
every number, name and negation is compared, most words of each piece of each memory must be kept, hardly any word may
be new, and past queries must still find it. A failed proposal is not repaired: the memories stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from cofio.maintenance.text_claims import Piece, TextClaims, Value, holds, implied, marks, named, read
from cofio.models.memory import Candidate, Matching, Memory, Scope
from cofio.ports import Matrix, Store, Vector
from cofio.text.code_literals import forms, literals
from cofio.text.duplicates import find_opposite
from cofio.text.stemmer import stem
from cofio.text.tokens import words as words_of

#: Function that returns the ids a search finds in a store within a scope, best first.
Finds: TypeAlias = Callable[[str, Store, Scope], list[int]]
_ALL = Scope()

FIRST = 10  # hits among which it must be found again
FALL = 4  # number of places, its own included, within which the rank may fall
QUERIES = 20  # latest logged queries that are repeated
_ONLY = frozenset("only solely exclusively just alone".split())
_FARTHER = 0.05  # maximum loss of cosine
_KEPT = 0.5  # minimum share of the words of each piece
#: Verbs that may be replaced without loss of meaning.
_PALE = frozenset(
    stem(word)
    for word in """
    use set run get make keep put go take call name locate store place define configure handle live sit come give hold
    include contain apply happen start begin require need want like prefer choose pick decide agree say tell mean
    mention note know follow exist base involve consist serve act thing way reside stay remain rely
    """.split()
)
_NEW_WORDS, _NEW_SHARE = 2, 0.15  # maximum number of new words, or their share of all words


def find_loss(members: Sequence[Memory], text: str) -> str:
    """Return the loss, change or invention when the text replaces the memories; "" if there is none."""
    return next(_find_problems(members, [read(member.text) for member in members], read(text)), "")


def _find_problems(members: Sequence[Memory], originals: Sequence[TextClaims], merged: TextClaims) -> Iterator[str]:
    for place, (member, claims) in enumerate(zip(members, originals, strict=True)):
        elsewhere = frozenset(word for other in (*originals[:place], *originals[place + 1 :]) for word in other.words)
        yield from (f"{loss} is lost (memory {member.id})" for loss in _find_missing(claims, elsewhere, merged))
    yield from _find_conflicts(originals)
    yield from _find_moved(originals, merged)
    yield from _find_swapped(originals, merged)
    yield from _find_reversed(originals, merged)
    yield from _find_redirected(originals, merged)
    yield from _find_invented(originals, merged)
    yield from _compare_literals([member.text for member in members], merged.source)
    yield from _compare_marks([member.text for member in members], merged.source)


def find_distant_member(members: Sequence[Memory], vectors: Matrix, merged: Vector) -> str:
    """Return why the text is farther from a memory than the other memories are; "" if it is not."""
    for place, (member, vector) in enumerate(zip(members, vectors, strict=True)):
        cosines = [float(vector @ other) for at, other in enumerate(vectors) if at != place]
        cosine = float(vector @ merged)
        if cosine < sum(cosines) / len(cosines) - _FARTHER:
            return f"the text is too far from memory {member.id} (cosine {cosine:.2f})"
    return ""


def find_lost_query(
    store: Store, finds: Finds, stands_for: Mapping[int, Sequence[int]], after: SimulatedStore, scope: Scope = _ALL
) -> str:
    """Return the logged query that would no longer find its memory, or "".

    `stands_for` has the members by negative id. `scope` is searched: the view of agents in the members' project.
    """
    heir = {member: merge_id for merge_id, members in stands_for.items() for member in members}
    for query in store.usage.queries(sorted(heir), QUERIES):
        now = finds(query, store, scope)[:FIRST]
        memory_id = next((result_id for result_id in now if result_id in heir), None)
        if memory_id is None:
            continue
        if heir[memory_id] not in finds(query, after, scope)[: min(FIRST, now.index(memory_id) + FALL)]:
            return f"a search that found memory {memory_id} would no longer find it: {query[:120]!r}"
    return ""


def _find_missing(member: TextClaims, elsewhere: frozenset[str], merged: TextClaims) -> Iterator[str]:
    numbers = {value.name for value in merged.numbers}
    if "only" in member.spoken and merged.spoken.isdisjoint(_ONLY):
        yield "“only”"
    for number in (value.name for value in member.numbers):
        if number not in numbers and number.lstrip("+") not in numbers and number not in merged.spoken:
            yield f"the number {number}"
    for span in member.spans:
        if re.search(rf"(?<![\w-]){re.escape(span)}(?![\w-])", merged.text) is None:  # "run" does not quote "run-all"
            yield f"`{span}`"
    yield from (f"the name {name}" for name in sorted(member.names) if not holds(merged, name))
    for piece in member.pieces:
        own_words = [word for word in piece.words if word not in elsewhere and word not in _PALE]
        gone = _compute_share(own_words, merged) < 1.0  # words of no other memory are lost for good
        if gone or (len(piece.words) > 1 and _compute_share(piece.words, merged) < _KEPT):
            yield f"“{piece.text}”"


def _compare_literals(members: Sequence[str], text: str) -> Iterator[str]:
    """Yield code, flags, paths and operators that are missing, changed or new."""
    known_forms = frozenset(form for member in members for form in forms(member))
    for member in members:
        yield from (f"{literal} is lost" for literal in sorted(literals(member) - forms(text)))
    yield from (f"{literal} is made up" for literal in sorted(literals(text) - known_forms))


def _compare_marks(members: Sequence[str], text: str) -> Iterator[str]:
    """Yield bounds, quantities, obligations, times and doubts that are lost or new."""
    new_marks, old_marks = marks(text), frozenset(mark for member in members for mark in marks(member))
    implied_marks = frozenset(mark for member in members for mark in implied(member))
    yield from (f"“{mark}” is lost" for mark in sorted(old_marks - new_marks - (implied(text) & {"after"})))
    yield from (f"“{mark}” is made up" for mark in sorted(new_marks - old_marks - implied_marks))


def _compute_share(words: Sequence[str], merged: TextClaims) -> float:
    return sum(word in merged.words or word in merged.spoken for word in words) / len(words) if words else 1.0


def _find_moved(originals: Sequence[TextClaims], merged: TextClaims) -> Iterator[str]:
    values = [value for member in originals for value in member.numbers]
    own_words = _find_own_words(values)
    for value in values:
        matches = [match for match in merged.numbers if match.name == value.name]
        if value.beside and matches and not any(_is_same_subject(value, match, own_words) for match in matches):
            yield f"the number {value.name} is no longer next to {_join(value.beside)}"


def _find_own_words(values: Sequence[Value]) -> dict[str, frozenset[str]]:
    """Return, for each number or name, the words that occur next to it alone."""
    beside: dict[str, frozenset[str]] = {}
    for value in values:
        beside[value.name] = beside.get(value.name, frozenset()) | value.beside
    return {
        name: words - frozenset(word for other, others in beside.items() if other != name for word in others)
        for name, words in beside.items()
    }


def _is_same_subject(value: Value, match: Value, own_words: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a number is next to its own words, and next to no more of another's. A single number always is."""
    if len(own_words) == 1:
        return bool(value.around & match.around)
    mine = own_words[value.name] & value.beside or value.beside
    others = max(len(words & match.beside) for name, words in own_words.items() if name != value.name)
    return bool(mine & match.beside) and len(own_words[value.name] & match.beside) >= others


def _find_conflicts(originals: Sequence[TextClaims]) -> Iterator[str]:
    """Yield pairs of different numbers that two memories state for the same thing: either may be valid."""
    stated = [(place, value) for place, member in enumerate(originals) for value in member.numbers if value.beside]
    for place, value in stated:
        for other, against in stated:
            both = any({value.name, against.name} <= {number.name for number in member.numbers} for member in originals)
            if place < other and value.name != against.name and value.beside == against.beside and not both:
                yield f"two memories differ: {value.name} and {against.name} are both said of {_join(value.beside)}"


def _find_swapped(originals: Sequence[TextClaims], merged: TextClaims) -> Iterator[str]:
    """Yield names that replace another one: next to its own words, or between the same two words."""
    names = frozenset(stem(name) for member in originals for name in member.names)
    old_values = [value for member in originals for value in named(member, names)]
    new_values = named(merged, names)
    own_words = _find_own_words(old_values)
    for name in sorted({value.name for value in new_values} & own_words.keys()):
        matches = [value for value in new_values if value.name == name]
        settled = not own_words[name] or any(own_words[name] & value.beside for value in matches)
        mine = {value.between for value in old_values if value.name == name}
        for other in own_words.keys() - {name}:
            taken = {value.between for value in old_values if value.name == other} - mine
            beside = not settled and any(own_words[other] & value.beside for value in matches)
            if beside or any(value.between in taken and all(value.between) for value in matches):
                yield f"{name} takes the place of {other}"


def _find_reversed(originals: Sequence[TextClaims], merged: TextClaims) -> Iterator[str]:
    pieces = [piece for member in originals for piece in member.pieces]
    stated = frozenset(word for piece in pieces if not piece.negated for word in piece.words)
    denied = frozenset(word for piece in pieces if piece.negated for word in piece.words)
    denials = [piece for piece in merged.pieces if piece.negated]
    for piece in pieces:
        if piece.negated and not any(_denies_the_same(piece, other, stated) for other in denials):
            yield f"a negation is lost: “{piece.text}”"
    for piece in merged.pieces:
        if not piece.negated and (terms := (frozenset(piece.words) & denied) - stated):
            yield f"it states what was denied: {_join(terms)}"
        if piece.negated and (terms := (piece.denied & stated) - denied):
            yield f"it denies what was stated: {_join(terms)}"
        if piece.twice and not any(other.twice for other in pieces):
            yield f"it negates twice: “{piece.text}”"
        if piece.negated and 2 * len(denied & (frozenset(piece.words) | piece.sentence)) < len(piece.words):
            yield f"it denies what no memory denies: “{piece.text}”"
    terms = frozenset(word for member in originals for word in member.spoken)
    if against := find_opposite(set(terms - merged.spoken), set(merged.spoken - terms)):
        yield f"it turns round what was said: {against}"


def _find_redirected(originals: Sequence[TextClaims], merged: TextClaims) -> Iterator[str]:
    """Yield reversed directions: "from A to B" is not "from B to A"."""
    old_turns = frozenset(turn for member in originals for turn in member.turns)
    old_words = frozenset(word for member in originals for word in member.words)
    for turn, towards in sorted(merged.turns - old_turns):
        before = {word for other, word in old_turns if other == turn}
        if towards in old_words and before & merged.words:
            yield f"it turns round what was said: {turn} {towards}, not {turn} {_join(frozenset(before))}"


def _denies_the_same(piece: Piece, other: Piece, stated: frozenset[str]) -> bool:
    """Return whether two pieces deny the same, judged mainly by words that are stated in no other piece."""
    words, theirs = frozenset(piece.words), frozenset(other.words)
    only = words - stated
    if only:
        return len(only & theirs) >= 0.6 * len(only)
    return not words or (bool(words & theirs) and len(words & (theirs | other.sentence)) >= 0.6 * len(words))


def _find_invented(originals: Sequence[TextClaims], merged: TextClaims) -> Iterator[str]:
    numbers = {value.name for member in originals for value in member.numbers}
    spoken = frozenset(word for member in originals for word in member.spoken)
    for value in merged.numbers:
        if value.name not in numbers and value.name not in spoken:
            yield f"the number {value.name} is made up"
    for name in sorted(merged.names):
        if not any(holds(member, name) for member in originals):
            yield f"the name {name} is made up"
    for span in merged.spans:
        if not any(span in member.text for member in originals):
            yield f"`{span}` is made up"
    for piece in merged.pieces:
        unheard = [word for word in piece.words if word not in spoken]
        if len(unheard) > max(1, len(piece.words) // 2):
            yield f"“{piece.text}” is made up"
    new = [word for word in sorted(merged.words) if word not in spoken]
    if len(new) > max(_NEW_WORDS, _NEW_SHARE * len(merged.words)):
        yield f"it says more than the memories do: {_join(new)}"


def _join(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


class SimulatedStore:
    """Store without some memories and with new ones, which have negative ids. It supports searching only.

    Cosines are exact. The word score of a new text is estimated from the share of query words in it.
    """

    def __init__(self, store: Store, gone: Iterable[int], new: Mapping[int, tuple[Memory, Vector]]) -> None:
        self._store = store
        self._gone = frozenset(gone)
        self._new = dict(new)
        self._words = {
            memory_id: {stem(word) for word in words_of(memory.text)} for memory_id, (memory, _) in self._new.items()
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        also_ids = set(also)
        stored_ids = sorted(memory_id for memory_id in also_ids if memory_id > 0)
        stored = self._store.nearest(vector, k + len(self._gone), scope, also=stored_ids)
        new = [
            Candidate(memory_id, float(embedding @ vector))
            for memory_id, (memory, embedding) in self._new.items()
            if scope.contains(memory)
        ]
        ranked = self._rank(stored, new)
        return ranked[:k] + [candidate for candidate in ranked[k:] if candidate.id in also_ids]

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        stored = self._store.matching(words, k + len(self._gone), scope)
        stems = [stem(word) for word in words]
        new = [
            Candidate(memory_id, stored.ideal * sum(word in self._words[memory_id] for word in stems) / len(stems))
            for memory_id, (memory, _) in self._new.items()
            if stems and scope.contains(memory) and not self._words[memory_id].isdisjoint(stems)
        ]
        return Matching(tuple(self._rank(stored.candidates, new)[:k]), stored.ideal)

    def _rank(self, stored: Iterable[Candidate], new: Iterable[Candidate]) -> list[Candidate]:
        remaining = [candidate for candidate in stored if candidate.id not in self._gone]
        return sorted((*remaining, *new), key=lambda candidate: (-candidate.score, candidate.id))

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        stored = self._store.holding(words, [memory_id for memory_id in ids if memory_id > 0])
        new_ids = [memory_id for memory_id in ids if memory_id in self._new]
        return stored | {
            memory_id: [word for word in words if stem(word) in self._words[memory_id]] for memory_id in new_ids
        }

    def get(self, ids: Sequence[int]) -> list[Memory]:
        memories = {memory.id: memory for memory in self._store.get([memory_id for memory_id in ids if memory_id > 0])}
        memories.update((memory_id, memory) for memory_id, (memory, _) in self._new.items())
        return [memories[memory_id] for memory_id in ids if memory_id in memories and memory_id not in self._gone]

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return {memory.id: (memory.speaker, memory.created_at) for memory in self.get(ids)}
