"""What becomes of facts that were read in a conversation, without a model: by what they say about what is known.

A fact that a memory says already is noted there, one that corrects a memory takes its place, any other is added. The
store gives the candidates by rank, `relation.between` tells what each of them is to the fact; no cosine decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from cofio import late
from cofio.conversation import Settled
from cofio.model import (
    MAX_LABELS,
    Add,
    Decision,
    Delete,
    Fact,
    Memory,
    Noop,
    Occurrence,
    Scope,
    Update,
    place_of,
    same_place,
)
from cofio.ports import Matrix, Store, Vector
from cofio.relation import Relation, between
from cofio.relation.stems import stem
from cofio.relation.tables import VERBS
from cofio.sameness import gist, names, negated, numbers, opposite
from cofio.wording import telling, words

CANDIDATES = 10  # by vector, and as many by words
#: Said beside what is known, not in its place.
_ADDING = late.compile(
    r"\b(?:also|too(?=\s*(?:[.,;!?]|now\b|$))|as well|additionally|in addition|besides|alongside|on top of)\b",
    re.IGNORECASE,
)
#: True for a while, in one place, or not yet: that does away with nothing.
_LIMITED = late.compile(
    r"\b(?:except|unless|temporar(?:y|ily)|while|during|until|for now|for the time being|for a (?:day|week|month|while)"
    r"|next (?:day|week|month|quarter|year|sprint|release)|going to|plan(?:s|ning)? to|will)\b"
    r"|\bbut (?:not|only|never)\b|\bonly (?:for|in|on|when|if)\b",
    re.IGNORECASE,
)
_INSTEAD = late.compile(r"\binstead of .{1,80}? (?:for|in|on|when|during) (.+)$", re.IGNORECASE)
_CONTRAST = late.compile(
    r"\b(?:no longer|not|never|isn't|aren't|don't)\b.{1,80}?(?:\bbut\b|\binstead\b|, it's\b|, rather\b)"
    r"|\binstead of\b|\bin favou?r of\b|\brather than\b|, not \S|^(?:no,? )?not \S+(?: -|[,:;]) \S",
    re.IGNORECASE,
)
#: Several things in one statement.
_SEVERAL = late.compile(r", | and | or ")
#: Words that end something or bring it back, and say nothing of what.
_OF_ENDING = frozenset(
    stem(word)
    for word in """
    never no not longer anymore more any stop stopped stops using used use uses drop dropped drops remove removed gone
    team user policy always decided dislike dislikes like likes prefer prefers avoid avoids disabled enabled off on
    against disallowed allowed forbidden
    """.split()
)
#: An echo has a cosine of at least this, and so much of the words of the one are in the other.
ECHO, COVERED = 0.80, 0.70


def settle(facts: Sequence[Fact], vectors: Matrix, store: Store, *, k: int = CANDIDATES) -> list[Settled]:
    """What is to become of each fact, in order. Of two facts of the batch that exclude each other, the later stands."""
    batch = _Batch(facts, vectors)
    for place, fact in enumerate(facts):
        target = None
        again, corrected = batch.earlier(place)
        if again:
            batch.leave(place, "said before in the same exchange")
            continue
        for each in corrected:
            target = batch.withdraw(each) or target
        batch.settled.append(_settled(fact, vectors[place], store, k, batch, target))
    return batch.settled


def echoes(fact: Fact, vector: Vector, store: Store | None, injected: Sequence[str]) -> str:
    """Why the fact is only an echo of what was put before the agent, or of what a store has; "" when it is news."""
    for line in (part for text in injected for part in text.splitlines() if part.strip()):
        if _is_echo(fact.text, _MARKER.sub("", line), 1.0):  # there is no cosine: their words alone must tell
            return "it was put before the agent in this conversation"
    for memory, cosine in _recalled(fact, vector, store) if store else ():
        if _is_echo(fact.text, memory.text, cosine):
            return f"the agent repeats memory {memory.id}"
    return ""


class _Batch:
    """The facts of one exchange, and what is settled of them so far."""

    def __init__(self, facts: Sequence[Fact], vectors: Matrix) -> None:
        self._facts, self._vectors = facts, vectors
        self.settled: list[Settled] = []

    def earlier(self, place: int) -> tuple[bool, list[int]]:
        """Whether a standing fact says the same; and the places of those that this one corrects."""
        fact, corrected = self._facts[place], []
        for at, other in enumerate(self._facts[:place]):
            if self.settled[at].decision is None or not same_place(fact, other):
                continue
            relation = between(fact.text, other.text, float(self._vectors[at] @ self._vectors[place]))
            if relation.kind == "same":
                return True, []
            if relation.kind == "update":
                corrected.append(at)
        return False, corrected

    def leave(self, place: int, reason: str) -> None:
        self.settled.append(Settled(fact=self._facts[place], reason=reason))

    def withdraw(self, place: int) -> Update | None:
        """Take an earlier fact back; the update that it was, if it was one, is left to the one that corrects it."""
        decision = self.settled[place].decision
        self.settled[place] = Settled(fact=self._facts[place], reason="corrected in the same exchange")
        return decision if isinstance(decision, Update) else None

    @property
    def taken(self) -> set[int]:
        """The memories of which the place is taken."""
        updated = {each.decision.id for each in self.settled if isinstance(each.decision, Update)}
        return updated | {gone.id for each in self.settled for gone in each.also}


# ── a fact and what is known ──────────────────────────────────────────────────────────────────────────────────────────


def _settled(fact: Fact, vector: Vector, store: Store, k: int, batch: _Batch, target: Update | None) -> Settled:
    """What becomes of the fact; with a target, of the fact that takes over that update."""
    related = _related(fact, vector, store, k)
    same = next((memory for memory, relation in related if relation.kind == "same"), None)
    same = same or known_beyond(fact, vector, store, k)
    stale = {memory.id: (memory, relation) for memory, relation in related if relation.kind == "update"}
    stale = {} if _LIMITED.search(f"{fact.text} {fact.context}") else _wholly_stale(fact, stale)
    if _ADDING.search(f"{fact.text} {fact.context}"):
        # "We also use PayPal" takes nobody's place; "we deploy on Fridays too now" does away with "never on Fridays".
        stale = {place: each for place, each in stale.items() if negated(fact.text) != negated(each[0].text)}
    newer = [memory.id for memory, _ in stale.values() if said_since(fact, memory, store)]
    if newer:
        against = f"memory {newer[0]} is newer and says otherwise"
        return _noted(fact, same, against) if same else Settled(fact=fact, reason=against)
    free = [each for each in stale.values() if not each[0].pinned and each[0].id not in batch.taken]
    if same:
        return replace(_noted(fact, same, f"memory {same.id} says so already"), also=_retired(free))
    if target:
        taken_over = Update(target.id, _with_tags_of(target.fact, fact), target.reason)
        return replace(_decided(fact, taken_over), also=_retired([each for each in free if each[0].id != target.id]))
    if free:
        (memory, relation), *others = free
        update = Update(memory.id, _with_tags_of(memory, fact), relation.reason)
        return replace(_decided(fact, update), also=_retired(others))
    return _decided(fact, Add(fact, _why_new(related, stale), unless_known=True))


def _wholly_stale(fact: Fact, stale: dict[int, tuple[Memory, Relation]]) -> dict[int, tuple[Memory, Relation]]:
    """Without those that the fact replaces or denies in part: one of several things, or for one purpose only."""
    return {
        each: (memory, relation)
        for each, (memory, relation) in stale.items()
        if _is_as_wide(fact.text, memory.text)
        and (negated(fact.text) == negated(memory.text) or _denies_all_of(fact.text, memory.text))
    }


def _is_as_wide(new: str, old: str) -> bool:
    """Whether "B instead of A for P" is about all that the old one says of A."""
    limit = _INSTEAD.search(new)
    return limit is None or set(telling(limit[1])) <= set(telling(old))


def _denies_all_of(one: str, other: str) -> bool:
    if _CONTRAST.search(one):
        return True  # "no longer 500 but 250" says what holds instead
    denial, stated = (one, other) if negated(one) else (other, one)
    of_several = _SEVERAL.search(stated) is not None and not _SEVERAL.search(denial)
    beyond = {stem(word) for word in telling(denial)} - {stem(word) for word in telling(stated)} - _OF_ENDING
    return not of_several and not beyond


def said_since(fact: Fact, memory: Memory, store: Store) -> bool:
    """Whether the memory was said, or said again, after the fact was."""
    if not fact.created_at or memory.created_at > fact.created_at:
        return bool(fact.created_at)
    return memory.occurrences > 1 and store.sightings(memory.id)[-1].at > fact.created_at


def _related(fact: Fact, vector: Vector, store: Store, k: int) -> list[tuple[Memory, Relation]]:
    """The memories of the same place that the fact may be about, best first, with what it is to each of them."""
    scope = place_of(fact)
    exact = [memory for memory in store.get(store.known(fact.text, scope)) if same_place(fact, memory)]
    if exact:
        return [(exact[0], Relation("same", "it is said in the same words"))]
    found = _candidates(fact, vector, store, k, scope)
    return [(memory, between(fact.text, memory.text, cosine)) for memory, cosine in found if same_place(fact, memory)]


def known_beyond(fact: Fact, vector: Vector, store: Store, k: int = CANDIDATES) -> Memory | None:
    """What says the same and is not of the fact's project, but seen there: it belongs to none, or is for everybody."""
    if not fact.project:
        return None
    scope = Scope(seen_from="")
    exact = [memory for memory in store.get(store.known(fact.text, scope)) if _is_seen_by(fact, memory)]
    if exact:
        return exact[0]
    for memory, cosine in _candidates(fact, vector, store, k, scope):
        if _is_seen_by(fact, memory) and between(fact.text, memory.text, cosine).kind == "same":
            return memory
    return None


def _is_seen_by(fact: Fact, memory: Memory) -> bool:
    """Whether whoever said the fact sees the memory: one for everybody, or of no project but otherwise alike."""
    if memory.visibility == "global":
        return memory.speaker == fact.speaker
    return same_place(replace(fact, project="", source=memory.source), memory)


def _candidates(fact: Fact, vector: Vector, store: Store, k: int, scope: Scope) -> list[tuple[Memory, float]]:
    """The memories of the scope that the fact may be about, best first, with their cosines."""
    matched = [each.id for each in store.matching(telling(fact.text), k, scope).candidates]
    near = store.nearest(vector, k, scope, also=matched)
    memories = {memory.id: memory for memory in store.get([each.id for each in near])}
    return [(memories[each.id], each.score) for each in near if each.id in memories]


def _retired(stale: Sequence[tuple[Memory, Relation]]) -> tuple[Delete, ...]:
    return tuple(Delete(memory.id, f"out of date: {relation.reason}") for memory, relation in stale)


def _decided(fact: Fact, decision: Decision) -> Settled:
    return Settled(fact=fact, decision=decision)


def _noted(fact: Fact, memory: Memory, reason: str) -> Settled:
    return _decided(fact, Noop(memory.id, Occurrence(fact.agent, fact.session, fact.created_at), reason))


def _with_tags_of(old: Fact | Memory, fact: Fact) -> Fact:
    """The fact, under the tags of what it takes the place of too. Its entities are its own."""
    return replace(fact, tags=tuple(dict.fromkeys((*fact.tags, *old.tags)))[:MAX_LABELS])


def _why_new(related: Sequence[tuple[Memory, Relation]], stale: Iterable[int]) -> str:
    kept = sorted(stale)
    if kept:
        return f"new; memory {kept[0]}, which says otherwise, is pinned or has just made way for another fact"
    return f"new; nearest is memory {related[0][0].id}: {related[0][1].reason}" if related else "new"


# ── echoes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _recalled(fact: Fact, vector: Vector, store: Store) -> list[tuple[Memory, float]]:
    """What the agent may have been shown that is near to the fact: its project's memories, and those for everybody."""
    found: dict[int, float] = {}
    shown = (Scope(seen_from=fact.project),) if fact.project else (Scope(source=fact.source), _GLOBAL)
    for scope in shown:
        found.update((each.id, each.score) for each in store.nearest(vector, CANDIDATES, scope))
    return [(memory, found[memory.id]) for memory in store.get(list(found))]


def _is_echo(text: str, known: str, cosine: float) -> bool:
    """Whether a text repeats a known one, quoted or lightly reworded."""
    kind = between(text, known, cosine).kind
    return kind == "same" or (kind == "different" and _repeats(text, known, COVERED if cosine >= ECHO else 1.0))


def _repeats(text: str, known: str, covered: float) -> bool:
    """Whether a text says no more than a known one: so many words are the same, no number, name or negation is new."""
    one, other = _stems(text), _stems(known)
    shared = len(set(one) & set(other))
    within = shared >= covered * len(one) or (shared >= covered * len(other) and len(one) <= 1.5 * len(other))
    if not shared or not within or _exchanged(one, other):
        return False
    told = {each.split()[0] for each in numbers(text)} <= {each.split()[0] for each in numbers(known)}
    same_way = negated(text) == negated(known) and not opposite(
        {*gist(text)} - {*gist(known)}, {*gist(known)} - {*gist(text)}
    )
    return told and same_way and set(names(text)) <= {*names(known), *words(known), *gist(known)}


def _exchanged(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether another thing is named in the place of one: another service, another purpose. Verbs may differ."""
    steps = SequenceMatcher(None, other, one, autojunk=False).get_opcodes()
    return any(kind == "replace" and set(other[a:b]) - VERBS and set(one[c:d]) - VERBS for kind, a, b, c, d in steps)


def _stems(text: str) -> list[str]:
    return [each for word in telling(text) if (each := stem(word)) not in _SPEAKERS]


_GLOBAL = Scope(visibility=("global",))
#: Who speaks, or is spoken to, is told in other words by the other side.
_SPEAKERS = frozenset(map(stem, "user team project policy currently already".split()))
#: What stands before a recalled line: a bullet, a score or a source in brackets.
_MARKER = late.compile(r"^\s*(?:[-*•]\s*)?(?:\[[^\]]*\]\s*)*")
