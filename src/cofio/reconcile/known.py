"""Whether a fact is new: facts and what the store has nearest to them in, decisions out.

Nearness alone never decides that a fact is known: what is near must also say the same, by `relation.news`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cofio.model import Add, Decision, Fact, Memory, Noop, Novelty, Occurrence, Scope, place_of, same_place
from cofio.ports import Matrix, Store, Vector
from cofio.relation import news

CANDIDATES = 20  # come by rank; variants of a fact (another port, another agent's) may stand before its twin


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The decisions for a batch of facts, and for each fact the place of the decision that took it in."""

    decisions: tuple[Decision, ...]
    facts: tuple[int, ...]  # by decision: the fact whose vector it needs
    settled_by: tuple[int, ...]  # by fact: its decision


def decide(facts: Sequence[Fact], vectors: Matrix, store: Store, threshold: float) -> Reconciled:
    """Add what is new, note what is known; what the batch itself repeats becomes further sightings of one memory."""
    batch = _Batch(facts, vectors, threshold)
    repeats: dict[int, list[int]] = {}  # fact that becomes a memory -> facts that repeat it
    known: dict[int, tuple[Memory, float]] = {}
    for place, fact in enumerate(facts):
        earlier = batch.said_earlier(place)
        if earlier is not None:
            repeats.setdefault(earlier, []).append(place)
        elif match := _said_before(fact, vectors[place], store, threshold):
            known[place] = match
        else:
            batch.add(place)
    return _as_decisions(facts, batch.added, repeats, known)


def novelty(fact: Fact, vector: Vector, store: Store, scope: Scope, threshold: float) -> Novelty:
    """Whether the text says something new within the scope; the nearest memory comes along either way."""
    exact = store.get(store.known(fact.text, scope)[:1])
    if exact:
        return Novelty(novel=False, similarity=1.0, match=exact[0], reason="it is known word for word")
    near = store.nearest(vector, CANDIDATES, scope)
    memories = {memory.id: memory for memory in store.get([each.id for each in near])}
    reason = "nothing says the same"
    for candidate in near:
        memory = memories.get(candidate.id)
        if memory is None or candidate.score < threshold:
            continue
        against = news(fact.text, memory.text, candidate.score, threshold)
        if not against:
            known = f"memory {memory.id} says so already"
            return Novelty(novel=False, similarity=candidate.score, match=memory, reason=known)
        if candidate == near[0]:
            reason = f"near to memory {memory.id}, but {against}"
    nearest = memories.get(near[0].id) if near else None
    return Novelty(novel=True, similarity=near[0].score if near else 0.0, match=nearest, reason=reason)


class _Batch:
    """The facts of one batch that become memories, so far."""

    def __init__(self, facts: Sequence[Fact], vectors: Matrix, threshold: float) -> None:
        self._facts, self._vectors, self._threshold = facts, vectors, threshold
        self._added = vectors.copy()  # its first rows are the vectors of what was added
        self.added: list[int] = []

    def add(self, place: int) -> None:
        self._added[len(self.added)] = self._vectors[place]
        self.added.append(place)

    def said_earlier(self, place: int) -> int | None:
        """The earlier fact of the batch that this one repeats."""
        fact = self._facts[place]
        cosines = self._added[: len(self.added)] @ self._vectors[place]
        for row in (cosines >= self._threshold).nonzero()[0].tolist():
            other = self._facts[self.added[row]]
            if same_place(other, fact) and not news(fact.text, other.text, float(cosines[row]), self._threshold):
                return int(self.added[row])
        return None


def _said_before(fact: Fact, vector: Vector, store: Store, threshold: float) -> tuple[Memory, float] | None:
    """The memory of the same place that says this already, and its cosine."""
    scope = place_of(fact)
    for memory in store.get(store.known(fact.text, scope)):
        if same_place(fact, memory):
            return memory, 1.0
    near = store.nearest(vector, CANDIDATES, Scope())
    if len(near) == CANDIDATES and near[-1].score >= threshold:  # a crowd elsewhere may hide the one of this place
        near = store.nearest(vector, CANDIDATES, scope)
    cosines = {each.id: each.score for each in near if each.score >= threshold}
    for memory in store.get(list(cosines)):
        if same_place(fact, memory) and not news(fact.text, memory.text, cosines[memory.id], threshold):
            return memory, cosines[memory.id]
    return None


def _as_decisions(
    facts: Sequence[Fact], added: Sequence[int], repeats: dict[int, list[int]], known: dict[int, tuple[Memory, float]]
) -> Reconciled:
    decisions: list[Decision] = []
    needs: list[int] = []
    settled_by = [0] * len(facts)
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
        decisions.append(decision)
        needs.append(place)
    return Reconciled(tuple(decisions), tuple(needs), tuple(settled_by))


def _sighting(fact: Fact) -> Occurrence:
    return Occurrence(fact.agent, fact.session, fact.created_at)
