"""The check before a merge: whether a text says all that some memories say, and nothing else.

A model drops a number, moves it to another subject, loses a "not" or adds advice, and each time it reads well. So every
number, name and negation is looked for, each piece of each memory must be there in most of its words, hardly a word may
be new, and what was asked for in the past must still be found. What fails is not repaired: the memories stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from cofio.literals import forms, literals
from cofio.model import Memory, Scope
from cofio.ports import Matrix, Store, Vector
from cofio.sameness import opposite
from cofio.stems import stem
from cofio.upkeep.claims import Claims, Piece, Value, holds, implied, marks, named, read
from cofio.upkeep.whatif import WhatIf

__all__ = ["Finds", "WhatIf", "lost", "unfound", "unnear"]

#: The ids that a search for the text finds in that store within the scope, best first.
Finds: TypeAlias = Callable[[str, Store, Scope], list[int]]
_ALL = Scope()

FIRST = 10  # hits among which it must be found again
FALL = 4  # places from where it was, itself included, that are near enough
QUERIES = 20  # the newest ones in the log
_ONLY = frozenset("only solely exclusively just alone".split())
_FARTHER = 0.05  # of a cosine
_KEPT = 0.5  # of the words of each piece, at least
#: Verbs that another may stand for without anything being lost.
_PALE = frozenset(
    stem(word)
    for word in """
    use set run get make keep put go take call name locate store place define configure handle live sit come give hold
    include contain apply happen start begin require need want like prefer choose pick decide agree say tell mean
    mention note know follow exist base involve consist serve act thing way reside stay remain rely
    """.split()
)
_NEW_WORDS, _NEW_SHARE = 2, 0.15  # so many words may be new, or that share of all


def lost(members: Sequence[Memory], text: str) -> str:
    """What is lost, moved, turned round or made up when the text takes the place of the memories; "" when nothing."""
    told = read(text)
    each = [read(member.text) for member in members]
    return next(_problems(members, each, told), "")


def _problems(members: Sequence[Memory], each: Sequence[Claims], told: Claims) -> Iterator[str]:
    for place, (member, claims) in enumerate(zip(members, each, strict=True)):
        elsewhere = frozenset(word for other in (*each[:place], *each[place + 1 :]) for word in other.words)
        yield from (f"{what} is lost (memory {member.id})" for what in _missing(claims, elsewhere, told))
    yield from _moved(each, told)
    yield from _turned(each, told)
    yield from _made_up(each, told)
    yield from _unwritten([member.text for member in members], told.source)
    yield from _unmarked([member.text for member in members], told.source)


def unnear(members: Sequence[Memory], vectors: Matrix, merged: Vector) -> str:
    """Which memory the text is farther from than the others are; what counts as far depends on the embedder."""
    for place, (member, vector) in enumerate(zip(members, vectors, strict=True)):
        cosines = [float(vector @ other) for at, other in enumerate(vectors) if at != place]
        cosine = float(vector @ merged)
        if cosine < sum(cosines) / len(cosines) - _FARTHER:
            return f"the text is too far from memory {member.id} (cosine {cosine:.2f})"
    return ""


def unfound(
    store: Store, finds: Finds, stands_for: Mapping[int, Sequence[int]], after: WhatIf, scope: Scope = _ALL
) -> str:
    """Which query of the log would no longer find what it found; `stands_for` has the members by negative id.

    `scope` is what is searched: what agents see from the members' project.
    """
    heir = {member: each for each, members in stands_for.items() for member in members}
    for query in store.uses.queries(sorted(heir), QUERIES):
        now = finds(query, store, scope)[:FIRST]
        found = next((each for each in now if each in heir), None)
        if found is not None and heir[found] not in finds(query, after, scope)[: min(FIRST, now.index(found) + FALL)]:
            return f"a search that found memory {found} would no longer find it: {query[:120]!r}"
    return ""


# ── what is missing ───────────────────────────────────────────────────────────────────────────────────────────────────


def _missing(member: Claims, elsewhere: frozenset[str], told: Claims) -> Iterator[str]:
    numbers = {value.name for value in told.numbers}
    if "only" in member.spoken and told.spoken.isdisjoint(_ONLY):
        yield "“only”"
    yield from (f"the number {value.name}" for value in member.numbers if not _counted(value.name, numbers, told))
    yield from (f"`{span}`" for span in member.spans if not _quotes(told, span))
    yield from (f"the name {name}" for name in sorted(member.names) if not holds(told, name))
    for piece in member.pieces:
        own = [word for word in piece.words if word not in elsewhere and word not in _PALE]
        gone = _share(own, told) < 1.0  # what nobody else says is lost for good
        if gone or (len(piece.words) > 1 and _share(piece.words, told) < _KEPT):
            yield f"“{piece.text}”"


def _unwritten(members: Sequence[str], text: str) -> Iterator[str]:
    """Code, flags, paths and operators that are not there as they are written, or that nobody wrote."""
    written = frozenset(each for member in members for each in forms(member))
    for member in members:
        yield from (f"{each} is lost" for each in sorted(literals(member) - forms(text)))
    yield from (f"{each} is made up" for each in sorted(literals(text) - written))


def _unmarked(members: Sequence[str], text: str) -> Iterator[str]:
    """Bounds, quantities, obligations, times and doubts that are lost, or that nobody spoke of."""
    told, said = marks(text), frozenset(each for member in members for each in marks(member))
    meant = frozenset(each for member in members for each in implied(member))
    yield from (f"“{each}” is lost" for each in sorted(said - told - (implied(text) & {"after"})))
    yield from (f"“{each}” is made up" for each in sorted(told - said - meant))


def _share(words: Sequence[str], told: Claims) -> float:
    return sum(word in told.words or word in told.spoken for word in words) / len(words) if words else 1.0


def _quotes(told: Claims, span: str) -> bool:
    """Whether the text has this code as it is, not as the beginning of another word."""
    return re.search(rf"(?<![\w-]){re.escape(span)}(?![\w-])", told.text) is not None


def _counted(number: str, numbers: set[str], told: Claims) -> bool:
    return number in numbers or number.lstrip("+") in numbers or number in told.spoken


# ── what stands beside something else now ─────────────────────────────────────────────────────────────────────────────


def _moved(each: Sequence[Claims], told: Claims) -> Iterator[str]:
    counted = [value for member in each for value in member.numbers]
    yield from _undecided(each)
    own = _own(counted)
    for value in counted:
        found = [other for other in told.numbers if other.name == value.name]
        if value.beside and found and not any(_same_subject(value, other, own) for other in found):
            yield f"the number {value.name} no longer stands beside {_listed(value.beside)}"
    yield from _swapped(each, told)


def _own(values: Sequence[Value]) -> dict[str, frozenset[str]]:
    """Of each number or name the words that stand beside it and beside no other."""
    beside: dict[str, frozenset[str]] = {}
    for value in values:
        beside[value.name] = beside.get(value.name, frozenset()) | value.beside
    return {
        name: words - frozenset(word for other, others in beside.items() if other != name for word in others)
        for name, words in beside.items()
    }


def _same_subject(value: Value, found: Value, own: Mapping[str, frozenset[str]]) -> bool:
    """Whether a number stands beside its own words, and beside no more of another's. An only one is not confused."""
    if len(own) == 1:
        return bool(value.around & found.around)
    mine = own[value.name] & value.beside or value.beside
    others = max(len(words & found.beside) for name, words in own.items() if name != value.name)
    return bool(mine & found.beside) and len(own[value.name] & found.beside) >= others


def _undecided(each: Sequence[Claims]) -> Iterator[str]:
    """Two numbers that two memories give for the same: nobody can tell which one holds."""
    given = [(place, value) for place, member in enumerate(each) for value in member.numbers if value.beside]
    for place, value in given:
        for other, against in given:
            both = any({value.name, against.name} <= {one.name for one in member.numbers} for member in each)
            if place < other and value.name != against.name and value.beside == against.beside and not both:
                yield f"two memories differ: {value.name} and {against.name} are both said of {_listed(value.beside)}"


def _swapped(each: Sequence[Claims], told: Claims) -> Iterator[str]:
    """Names that stand where another one stood: beside that one's own words, or between the same two words."""
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
                yield f"{name} stands where {other} stood"


# ── what is said and what is denied ───────────────────────────────────────────────────────────────────────────────────


def _turned(each: Sequence[Claims], told: Claims) -> Iterator[str]:
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
            yield f"it denies what nobody denied: “{piece.text}”"
    said = frozenset(word for member in each for word in member.spoken)
    if against := opposite(set(said - told.spoken), set(told.spoken - said)):
        yield f"it turns round what was said: {against}"
    yield from _redirected(each, told)


def _redirected(each: Sequence[Claims], told: Claims) -> Iterator[str]:
    """From A to B is not from B to A."""
    known = frozenset(turn for member in each for turn in member.turns)
    said = frozenset(word for member in each for word in member.words)
    for turn, towards in sorted(told.turns - known):
        before = {word for other, word in known if other == turn}
        if towards in said and before & told.words:
            yield f"it turns round what was said: {turn} {towards}, not {turn} {_listed(frozenset(before))}"


def _denies_the_same(piece: Piece, other: Piece, stated: frozenset[str]) -> bool:
    """Whether another piece denies what this one denies: above all the words that are said nowhere else."""
    words, theirs = frozenset(piece.words), frozenset(other.words)
    only = words - stated
    if only:
        return len(only & theirs) >= 0.6 * len(only)
    return not words or (bool(words & theirs) and len(words & (theirs | other.sentence)) >= 0.6 * len(words))


# ── what nobody said ──────────────────────────────────────────────────────────────────────────────────────────────────


def _made_up(each: Sequence[Claims], told: Claims) -> Iterator[str]:
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
