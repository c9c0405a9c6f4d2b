"""Check of a proposed merge: the text must say everything that the memories say, and nothing else.

A model drops a number, moves it to another subject, loses a "not" or adds advice, and the result still reads well. So
every number, name and negation is compared, most words of each piece of each memory must be kept, hardly any word may
be new, and past queries must still find it. A failed proposal is not repaired: the memories stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from cofio.maintenance.simulated_store import SimulatedStore
from cofio.maintenance.text_claims import Piece, TextClaims, Value, holds, implied, marks, named, read
from cofio.models.memory import Memory, Scope
from cofio.ports import Matrix, Store, Vector
from cofio.text.code_tokens import forms, literals
from cofio.text.duplicates import find_opposite
from cofio.text.stemmer import stem

__all__ = ["Finds", "SimulatedStore", "find_distant_member", "find_loss", "find_lost_query"]

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
    told = read(text)
    each = [read(member.text) for member in members]
    return next(_problems(members, each, told), "")


def _problems(members: Sequence[Memory], each: Sequence[TextClaims], told: TextClaims) -> Iterator[str]:
    for place, (member, claims) in enumerate(zip(members, each, strict=True)):
        elsewhere = frozenset(word for other in (*each[:place], *each[place + 1 :]) for word in other.words)
        yield from (f"{what} is lost (memory {member.id})" for what in _missing(claims, elsewhere, told))
    yield from _moved(each, told)
    yield from _turned(each, told)
    yield from _made_up(each, told)
    yield from _unwritten([member.text for member in members], told.source)
    yield from _unmarked([member.text for member in members], told.source)


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
    heir = {member: each for each, members in stands_for.items() for member in members}
    for query in store.uses.queries(sorted(heir), QUERIES):
        now = finds(query, store, scope)[:FIRST]
        found = next((each for each in now if each in heir), None)
        if found is not None and heir[found] not in finds(query, after, scope)[: min(FIRST, now.index(found) + FALL)]:
            return f"a search that found memory {found} would no longer find it: {query[:120]!r}"
    return ""


# ── losses ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _missing(member: TextClaims, elsewhere: frozenset[str], told: TextClaims) -> Iterator[str]:
    numbers = {value.name for value in told.numbers}
    if "only" in member.spoken and told.spoken.isdisjoint(_ONLY):
        yield "“only”"
    yield from (f"the number {value.name}" for value in member.numbers if not _counted(value.name, numbers, told))
    yield from (f"`{span}`" for span in member.spans if not _quotes(told, span))
    yield from (f"the name {name}" for name in sorted(member.names) if not holds(told, name))
    for piece in member.pieces:
        own = [word for word in piece.words if word not in elsewhere and word not in _PALE]
        gone = _share(own, told) < 1.0  # words of no other memory are lost for good
        if gone or (len(piece.words) > 1 and _share(piece.words, told) < _KEPT):
            yield f"“{piece.text}”"


def _unwritten(members: Sequence[str], text: str) -> Iterator[str]:
    """Yield code, flags, paths and operators that are missing, changed or new."""
    written = frozenset(form for member in members for form in forms(member))
    for member in members:
        yield from (f"{literal} is lost" for literal in sorted(literals(member) - forms(text)))
    yield from (f"{literal} is made up" for literal in sorted(literals(text) - written))


def _unmarked(members: Sequence[str], text: str) -> Iterator[str]:
    """Yield bounds, quantities, obligations, times and doubts that are lost or new."""
    told, said = marks(text), frozenset(mark for member in members for mark in marks(member))
    meant = frozenset(each for member in members for each in implied(member))
    yield from (f"“{each}” is lost" for each in sorted(said - told - (implied(text) & {"after"})))
    yield from (f"“{each}” is made up" for each in sorted(told - said - meant))


def _share(words: Sequence[str], told: TextClaims) -> float:
    return sum(word in told.words or word in told.spoken for word in words) / len(words) if words else 1.0


def _quotes(told: TextClaims, span: str) -> bool:
    """Return whether the text contains this code literally, and not as the beginning of another word."""
    return re.search(rf"(?<![\w-]){re.escape(span)}(?![\w-])", told.text) is not None


def _counted(number: str, numbers: set[str], told: TextClaims) -> bool:
    return number in numbers or number.lstrip("+") in numbers or number in told.spoken


# ── moved numbers and names ───────────────────────────────────────────────────────────────────────────────────────────


def _moved(each: Sequence[TextClaims], told: TextClaims) -> Iterator[str]:
    counted = [value for member in each for value in member.numbers]
    yield from _undecided(each)
    own = _own(counted)
    for value in counted:
        found = [other for other in told.numbers if other.name == value.name]
        if value.beside and found and not any(_same_subject(value, other, own) for other in found):
            yield f"the number {value.name} is no longer next to {_listed(value.beside)}"
    yield from _swapped(each, told)


def _own(values: Sequence[Value]) -> dict[str, frozenset[str]]:
    """Return, for each number or name, the words that occur next to it alone."""
    beside: dict[str, frozenset[str]] = {}
    for value in values:
        beside[value.name] = beside.get(value.name, frozenset()) | value.beside
    return {
        name: words - frozenset(word for other, others in beside.items() if other != name for word in others)
        for name, words in beside.items()
    }


def _same_subject(value: Value, found: Value, own: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a number is next to its own words, and next to no more of another's. A single number always is."""
    if len(own) == 1:
        return bool(value.around & found.around)
    mine = own[value.name] & value.beside or value.beside
    others = max(len(words & found.beside) for name, words in own.items() if name != value.name)
    return bool(mine & found.beside) and len(own[value.name] & found.beside) >= others


def _undecided(each: Sequence[TextClaims]) -> Iterator[str]:
    """Yield pairs of different numbers that two memories state for the same thing: either may be valid."""
    given = [(place, value) for place, member in enumerate(each) for value in member.numbers if value.beside]
    for place, value in given:
        for other, against in given:
            both = any({value.name, against.name} <= {one.name for one in member.numbers} for member in each)
            if place < other and value.name != against.name and value.beside == against.beside and not both:
                yield f"two memories differ: {value.name} and {against.name} are both said of {_listed(value.beside)}"


def _swapped(each: Sequence[TextClaims], told: TextClaims) -> Iterator[str]:
    """Yield names that replace another one: next to its own words, or between the same two words."""
    names = frozenset(stem(name) for member in each for name in member.names)
    known = [value for member in each for value in named(member, names)]
    there = named(told, names)
    own = _own(known)
    for name in sorted({value.name for value in there} & own.keys()):
        found = [value for value in there if value.name == name]
        settled = not own[name] or any(own[name] & value.beside for value in found)
        mine = {value.between for value in known if value.name == name}
        for other in own.keys() - {name}:
            taken = {value.between for value in known if value.name == other} - mine
            beside = not settled and any(own[other] & value.beside for value in found)
            if beside or any(value.between in taken and all(value.between) for value in found):
                yield f"{name} takes the place of {other}"


# ── statements and negations ──────────────────────────────────────────────────────────────────────────────────────────


def _turned(each: Sequence[TextClaims], told: TextClaims) -> Iterator[str]:
    pieces = [piece for member in each for piece in member.pieces]
    stated = frozenset(word for piece in pieces if not piece.negated for word in piece.words)
    denied = frozenset(word for piece in pieces if piece.negated for word in piece.words)
    denials = [piece for piece in told.pieces if piece.negated]
    for piece in pieces:
        if piece.negated and not any(_denies_the_same(piece, other, stated) for other in denials):
            yield f"a negation is lost: “{piece.text}”"
    for piece in told.pieces:
        if not piece.negated and (said := (frozenset(piece.words) & denied) - stated):
            yield f"it states what was denied: {_listed(said)}"
        if piece.negated and (said := (piece.denied & stated) - denied):
            yield f"it denies what was stated: {_listed(said)}"
        if piece.twice and not any(other.twice for other in pieces):
            yield f"it negates twice: “{piece.text}”"
        if piece.negated and 2 * len(denied & (frozenset(piece.words) | piece.sentence)) < len(piece.words):
            yield f"it denies what no memory denies: “{piece.text}”"
    said = frozenset(word for member in each for word in member.spoken)
    if against := find_opposite(set(said - told.spoken), set(told.spoken - said)):
        yield f"it turns round what was said: {against}"
    yield from _redirected(each, told)


def _redirected(each: Sequence[TextClaims], told: TextClaims) -> Iterator[str]:
    """Yield reversed directions: "from A to B" is not "from B to A"."""
    known = frozenset(turn for member in each for turn in member.turns)
    said = frozenset(word for member in each for word in member.words)
    for turn, towards in sorted(told.turns - known):
        before = {word for other, word in known if other == turn}
        if towards in said and before & told.words:
            yield f"it turns round what was said: {turn} {towards}, not {turn} {_listed(frozenset(before))}"


def _denies_the_same(piece: Piece, other: Piece, stated: frozenset[str]) -> bool:
    """Return whether two pieces deny the same, judged mainly by words that are stated in no other piece."""
    words, theirs = frozenset(piece.words), frozenset(other.words)
    only = words - stated
    if only:
        return len(only & theirs) >= 0.6 * len(only)
    return not words or (bool(words & theirs) and len(words & (theirs | other.sentence)) >= 0.6 * len(words))


# ── inventions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _made_up(each: Sequence[TextClaims], told: TextClaims) -> Iterator[str]:
    numbers = {value.name for member in each for value in member.numbers}
    spoken = frozenset(word for member in each for word in member.spoken)
    for value in told.numbers:
        if value.name not in numbers and value.name not in spoken:
            yield f"the number {value.name} is made up"
    for name in sorted(told.names):
        if not any(holds(member, name) for member in each):
            yield f"the name {name} is made up"
    for span in told.spans:
        if not any(span in member.text for member in each):
            yield f"`{span}` is made up"
    for piece in told.pieces:
        unheard = [word for word in piece.words if word not in spoken]
        if len(unheard) > max(1, len(piece.words) // 2):
            yield f"“{piece.text}” is made up"
    new = [word for word in sorted(told.words) if word not in spoken]
    if len(new) > max(_NEW_WORDS, _NEW_SHARE * len(told.words)):
        yield f"it says more than the memories do: {_listed(new)}"


def _listed(words: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(words) if isinstance(words, frozenset) else words)
