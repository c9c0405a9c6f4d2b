"""Whether a fact is new: facts and what the store has nearest to them in, decisions out.

Nearness alone never decides that a fact is known. At a cosine of 0.85 a fifth of all contradictions pass for
duplicates; so what is near must also not differ in a number, a name, a negation or a pair of opposites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cofio.model import Add, Decision, Fact, Memory, Noop, Novelty, Occurrence, Scope, same_place
from cofio.ports import Matrix, Store, Vector
from cofio.wording import conflict, fingerprint

CANDIDATES = 5  # come by rank, not by threshold


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The decisions for a batch of facts, and for each fact the place of the decision that took it in."""

    decisions: tuple[Decision, ...]
    facts: tuple[int, ...]  # by decision: the fact whose vector it needs
    settled_by: tuple[int, ...]  # by fact: its decision
    first_for: tuple[bool, ...]  # by fact: False when it repeats an earlier one of the same batch


def decide(facts: Sequence[Fact], vectors: Matrix, store: Store, threshold: float) -> Reconciled:
    """Add what is new, note what is known; what the batch itself repeats becomes further sightings of one memory."""
    added: list[int] = []  # facts that become memories
    repeats: dict[int, list[int]] = {}  # fact that becomes a memory -> facts that repeat it
    known: dict[int, tuple[Memory, float]] = {}
    for place, fact in enumerate(facts):
        earlier = _said_earlier(fact, vectors[place], facts, vectors, added, threshold)
        if earlier is not None:
            repeats.setdefault(earlier, []).append(place)
        elif match := _said_before(fact, vectors[place], store, threshold):
            known[place] = match
        else:
            added.append(place)
    return _as_decisions(facts, added, repeats, known)


def novelty(fact: Fact, vector: Vector, store: Store, scope: Scope, threshold: float) -> Novelty:
    """Whether the text says something new within the scope; the nearest memory comes along either way."""
    exact = store.get(store.known(fact.text, scope)[:1])
    if exact:
        return Novelty(novel=False, similarity=1.0, match=exact[0], reason="it is known word for word")
    near = store.nearest(vector, CANDIDATES, scope)
    memories = {memory.id: memory for memory in store.get([each.id for each in near])}
    against = ""
    for candidate in near:
        memory = memories.get(candidate.id)
        if memory is None or candidate.score < threshold:
            continue
        against = conflict(fact.text, memory.text)
        if not against:
            reason = f"memory {memory.id} says so already"
            return Novelty(novel=False, similarity=candidate.score, match=memory, reason=reason)
    nearest = memories.get(near[0].id) if near else None
    reason = f"near to memory {nearest.id}, but {against}" if against and nearest else "nothing says the same"
    return Novelty(novel=True, similarity=near[0].score if near else 0.0, match=nearest, reason=reason)


def _said_earlier(
    fact: Fact, vector: Vector, facts: Sequence[Fact], vectors: Matrix, added: Sequence[int], threshold: float
) -> int | None:
    """The earlier fact of the batch that this one repeats."""
    if not added:
        return None
    cosines = vectors[list(added)] @ vector
    for place, cosine in zip(added, cosines, strict=True):
        same_words = fingerprint(facts[place].text) == fingerprint(fact.text) if cosine >= threshold else False
        if (
            cosine >= threshold
            and same_place(facts[place], fact)
            and (same_words or not conflict(facts[place].text, fact.text))
        ):
            return place
    return None


def _said_before(fact: Fact, vector: Vector, store: Store, threshold: float) -> tuple[Memory, float] | None:
    """The memory of the same place that says this already, and its cosine."""
    scope = Scope(source=fact.source, visibility=(fact.visibility,))
    for memory in store.get(store.known(fact.text, scope)):
        if same_place(fact, memory):
            return memory, 1.0
    near = [each for each in store.nearest(vector, CANDIDATES, scope) if each.score >= threshold]
    cosines = {each.id: each.score for each in near}
    for memory in store.get(list(cosines)):
        if same_place(fact, memory) and not conflict(fact.text, memory.text):
            return memory, cosines[memory.id]
    return None


def _as_decisions(
    facts: Sequence[Fact], added: Sequence[int], repeats: dict[int, list[int]], known: dict[int, tuple[Memory, float]]
) -> Reconciled:
    decisions: list[Decision] = []
    needs: list[int] = []
    settled_by = [0] * len(facts)
    first_for = [True] * len(facts)
    for place in sorted([*added, *known]):
        fact = facts[place]
        if place in known:
            memory, cosine = known[place]
            decision: Decision = Noop(memory.id, _sighting(fact), f"known already (cosine {cosine:.3f})")
        else:
            again = tuple(_sighting(facts[each]) for each in repeats.get(place, []))
            decision = Add(fact, "new", unless_known=True, again=again)
        for each in (place, *repeats.get(place, [])):
            settled_by[each] = len(decisions)
            first_for[each] = each == place
        decisions.append(decision)
        needs.append(place)
    return Reconciled(tuple(decisions), tuple(needs), tuple(settled_by), tuple(first_for))


def _sighting(fact: Fact) -> Occurrence:
    return Occurrence(fact.agent, fact.session, fact.created_at)
