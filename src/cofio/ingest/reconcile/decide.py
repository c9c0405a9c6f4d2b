"""Decisions about facts, given the known memories: add, replace or end a memory, or note it as known.

    fact ─ candidates (vector, words) ─ comparer ─▶ verdicts ─▶ FactOutcome: add, update, delete or noop

A confident change archives the old memory with a link both ways; a doubtful one keeps both, and the pair is listed
under contradictions. A retraction archives the memory that it names and is not stored itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from cofio.ingest.reconcile.compare import Comparer, Comparison, have_same_form, share_words
from cofio.models.exchange import FactOutcome
from cofio.models.memory import (
    MAY_REPLACE,
    Add,
    Change,
    Decision,
    Delete,
    Fact,
    Memory,
    Noop,
    Novelty,
    Occurrence,
    Scope,
    Update,
    audience,
    same_place,
)
from cofio.models.merge import inherit_tags
from cofio.ports import Matrix, MemoryQueries, MemoryReader, Vector
from cofio.text import lazy_re
from cofio.text.duplicates import content_words, find_figures, find_names, is_negated
from cofio.text.stemmer import stem
from cofio.text.tokens import search_terms, words

CANDIDATES = 8  # memories compared with a fact
PERSON = "person"  # metadata "about" of a fact that holds in every project
_COMPARED = 0.5  # cosine from which candidates are compared; the nearest always is
_BY_WORDS = 4  # candidates chosen for shared words
_SURELY_NOT = 0.95  # probability from which a message leaves a memory alone, and so do its facts
_LIKELY = 0.5  # probability from which a doubtful verdict counts
_MAY_CHANGE = 0.15  # probability of a change from which search ranks the fact before the memory
PROBABLE = 0.35  # probability of a change from which a doubtful fact is kept
_ALIKE, _ALIKE_COMPARED = 0.75, 3  # cosine from which two facts of a batch are compared; comparisons per fact
_LOOKED_UP = 12  # hits by vector, and as many by words, before filtering by place
_CORRECTS = 0.7  # cosine from which a fact may correct an earlier one of the same exchange
_SURELY, _RETIRES = 0.9, 0.8  # probability from which a message is known; from which a fact archives further memories
_TABLED = frozenset(("threshold", "correlation", "pattern"))  # kinds stored as table rows, which are updated by key
NOTHING_ENDED = "it retracts something that no memory says"
_ECHO, _COVERED = 0.80, 0.70  # minimum cosine of an echo, and minimum share of its words in the memory


def decide_outcomes(
    facts: Sequence[Fact], vectors: Matrix, store: MemoryReader, comparer: Comparer, *, now: str
) -> list[FactOutcome]:
    """Return the decision about each fact, in order. At most one fact of a batch replaces a given memory.

    If two facts of the batch contradict each other, the later one wins and takes over the replacements of the earlier.
    """
    nearest: dict[
        int, tuple[float, int]
    ] = {}  # by memory: cosine and place of the nearest fact; only that may change it
    for place, fact in enumerate(facts if len(facts) > 1 else ()):
        for memory, cosine in candidates(fact, vectors[place], store):
            nearest[memory.id] = max(nearest.get(memory.id, (cosine, place)), (cosine, place))

    taken_ids: set[int] = set()
    outcomes: list[FactOutcome] = []
    for place, fact in enumerate(facts):
        repeats, corrected = _find_earlier(facts, vectors, outcomes, place, comparer)
        if repeats:
            outcomes.append(FactOutcome(fact=fact, reason="said before in the same exchange"))
            continue
        withdrawn = [decision for at in corrected for decision in outcomes[at].decisions]
        for at in corrected:
            outcomes[at] = FactOutcome(fact=facts[at], reason="corrected in the same exchange")
        taken_ids -= _collect_replaced(withdrawn)
        others = {memory_id for memory_id, (_, at) in nearest.items() if at != place}
        retracts = is_retraction(fact)
        near = related(fact, vectors[place], store, comparer, retracts=retracts, others=others)
        outcome = _take_over(_decide(fact, near, store, taken_ids, now=now, retracts=retracts), withdrawn)
        taken_ids |= _collect_replaced(outcome.decisions)
        outcomes.append(outcome)
    return outcomes


def _collect_replaced(decisions: Sequence[Decision]) -> set[int]:
    return {decision.id for decision in decisions if isinstance(decision, Update | Delete)}


def _take_over(outcome: FactOutcome, withdrawn: Sequence[Decision]) -> FactOutcome:
    """Return the decision about a correction, plus the replacements and archivals of the corrected fact."""
    decision, replaced = outcome.decision, _collect_replaced(outcome.decisions)
    if decision is None or isinstance(decision, Delete):  # nothing replaces the withdrawn fact
        return outcome
    remaining = [old for old in withdrawn if isinstance(old, Update | Delete) and old.id not in replaced]
    update = next((old for old in remaining if isinstance(old, Update)), None)
    if update and isinstance(decision, Add):
        remaining.remove(update)
        decision = replace(update, fact=outcome.fact)
    deletions = tuple(Delete(old.id, old.reason) for old in remaining)
    return replace(outcome, decision=decision, also=(*outcome.also, *deletions))


class TypedFacts(NamedTuple):
    """Decisions about typed facts: the decisions, the fact of each decision, and the decision of each fact."""

    decisions: list[Decision]
    facts: list[int]
    settled_by: list[int]
    near: dict[int, tuple[Memory, ...]]  # by fact: memories that it may replace, but that were kept

    def changes(self, applied: Sequence[Change]) -> list[Change]:
        """Return the change of each fact. A repeated fact has the change of its own sighting."""
        firsts = {id(change): place for place, change in enumerate(applied)}
        starts = [firsts[id(change)] for change in changes_by_decision(self.decisions, applied)]
        repeated = dict.fromkeys(self.settled_by, 0)
        answers = []
        for place, decision in enumerate(self.settled_by):
            offset = repeated[decision] if isinstance(self.decisions[decision], Add) else 0
            repeated[decision] += 1
            answers.append(replace(applied[starts[decision] + offset], near=self.near.get(place, ())))
        return answers


def decide_typed(
    facts: Sequence[Fact], vectors: Matrix, store: MemoryReader, comparer: Comparer, *, now: str
) -> TypedFacts:
    """Reconcile typed facts. Repetitions within the batch become further sightings of one memory."""
    first = _find_first_mentions(facts, vectors, comparer)
    typed = TypedFacts([], [], [0] * len(facts), {})
    taken_ids: set[int] = set()
    for place, fact in enumerate(facts):
        if first[place] != place:
            typed.settled_by[place] = typed.settled_by[first[place]]
            known = typed.decisions[typed.settled_by[place]]
            if isinstance(known, Noop):  # each repetition of a known memory adds a sighting
                typed.settled_by[place] = len(typed.decisions)
                typed.decisions.append(replace(known, occurrence=build_sighting(fact)))
                typed.facts.append(place)
            continue
        near = related(fact, vectors[place], store, comparer)
        outcome = _decide(fact, near, store, taken_ids, now=now)
        taken_ids |= _collect_replaced(outcome.decisions)
        decision = outcome.decision or Add(fact, outcome.reason, unless_known=True)
        if isinstance(decision, Add):
            again = tuple(build_sighting(facts[at]) for at in range(place + 1, len(facts)) if first[at] == place)
            decision = replace(decision, again=again)
            doubtful = (memory for memory, verdict in near if verdict.kind == "doubtful" and replaces(fact, memory))
            typed.near[place] = tuple(memory for memory in doubtful if memory.id not in taken_ids)
        typed.settled_by[place] = len(typed.decisions)
        typed.decisions.extend([decision, *outcome.also])
        typed.facts.extend([place] * (1 + len(outcome.also)))
    return typed


def _find_first_mentions(facts: Sequence[Fact], vectors: Matrix, comparer: Comparer) -> list[int]:
    """Return, for each fact, the first fact of the batch that says the same; usually itself."""
    first = list(range(len(facts)))
    for place in range(1, len(facts)):
        fact, cosines = facts[place], vectors[:place] @ vectors[place]
        for at in sorted((cosines >= _ALIKE).nonzero()[0].tolist(), key=lambda at: -cosines[at])[:_ALIKE_COMPARED]:
            if not same_place(fact, facts[at]):
                continue
            if comparer.compare(fact.text, facts[at].text, float(cosines[at])).kind == "same":
                first[place] = first[at]
                break
    return first


def changes_by_decision(decisions: Sequence[Decision], changes: Sequence[Change]) -> list[Change]:
    """Return the first change of each decision. An update has two, an addition one more per further sighting."""
    firsts, place = [], 0
    for decision in decisions:
        firsts.append(changes[place])
        if isinstance(decision, Add):
            place += 1 + len(decision.again)
        else:
            place += 2 if isinstance(decision, Update) or (isinstance(decision, Delete) and decision.into) else 1
    return firsts


def _find_earlier(
    facts: Sequence[Fact], vectors: Matrix, outcomes: Sequence[FactOutcome], place: int, comparer: Comparer
) -> tuple[bool, list[int]]:
    """Return whether the batch says a fact before, and the places of the facts that it corrects.

    One turn holds many related facts, so a correction must share words with the corrected fact. A retraction is about
    memories and corrects no fact of its own batch.
    """
    fact, corrected = facts[place], []
    for at in range(place):
        is_open = outcomes[at].decision is not None and same_place(fact, facts[at])
        if not is_open or _tells_another_row(fact, facts[at]):
            continue
        cosine = float(vectors[at] @ vectors[place])
        verdict = comparer.compare(fact.text, facts[at].text, cosine, retracts=is_retraction(fact))
        if verdict.kind == "same":
            return True, []
        corrects = verdict.kind == "update" and cosine >= _CORRECTS and share_words(fact.text, facts[at].text)
        if corrects and not is_retraction(fact):
            corrected.append(at)
    return False, corrected


def is_retraction(fact: Fact) -> bool:
    """Return whether a fact only ends a memory; such a fact is never stored."""
    return fact.metadata.get("retracts") is True


def _decide(
    fact: Fact,
    near: Sequence[tuple[Memory, Comparison]],
    store: MemoryReader,
    taken_ids: set[int],
    *,
    now: str,
    retracts: bool = False,
) -> FactOutcome:
    verdicts = [(memory, verdict) for memory, verdict in near if memory.id not in taken_ids]
    against = [pair for pair in verdicts if pair[1].changes and replaces(fact, pair[0])]
    if newer := next((memory for memory, _ in against if is_older_than(fact, memory, store, now)), None):
        return FactOutcome(fact=fact, reason=f"memory {newer.id} is newer and says otherwise")
    changed = [pair for pair in against if not pair[0].pinned]
    nearness = {memory.id: 1 - 0.01 * place for place, (memory, _) in enumerate(near)}  # nearest first
    changed.sort(key=lambda pair: -pair[1].probability * nearness[pair[0].id])
    if retracts:  # archives the memory with the highest probability of a change, and is not stored itself
        if not changed:
            return FactOutcome(fact=fact, reason=NOTHING_ENDED)
        memory, verdict = changed[0]
        return FactOutcome(fact=fact, decision=Delete(memory.id, f"taken back ({verdict.probability:.2f})"))
    same = next((memory for memory, verdict in verdicts if verdict.kind == "same"), None)
    if same:
        noop = Noop(same.id, build_sighting(fact), f"memory {same.id} says so already")
        return FactOutcome(fact=fact, decision=noop, also=_retire_others(changed, same))
    if changed:  # also if a memory has ended: the fact that says so replaces it, with a link both ways
        memory, verdict = next((pair for pair in changed if pair[1].kind == "update"), changed[0])
        heir = replace(inherit_tags(fact, memory), context=fact.context or memory.text)
        update = Update(memory.id, heir, f"{verdict.reason} ({verdict.probability:.2f})")
        also = _retire_others(changed, memory)
        return FactOutcome(fact=fact, decision=update, also=also, ends=verdict.kind == "delete")
    return _add(fact, verdicts)


def _add(fact: Fact, verdicts: Sequence[tuple[Memory, Comparison]]) -> FactOutcome:
    """Add a fact, with the ids of kept memories that may no longer hold, so that search ranks it before them."""
    reason = f"new; nearest is memory {verdicts[0][0].id}: {verdicts[0][1].reason}" if verdicts else "new"
    if doubtful := next((memory for memory, verdict in verdicts if verdict.kind == "doubtful"), None):
        reason = f"new; it may replace memory {doubtful.id}: both are kept"
    kept = [(memory.id, verdict) for memory, verdict in verdicts if replaces(fact, memory)]
    older = [
        memory_id
        for memory_id, verdict in kept
        if verdict.change >= _MAY_CHANGE or (verdict.kind == "doubtful" and verdict.probability >= _LIKELY)
    ]
    linked = replace(fact, metadata={**fact.metadata, MAY_REPLACE: older}) if older else fact
    chance = max((verdict.change for _, verdict in kept), default=0.0)
    return FactOutcome(fact=fact, decision=Add(linked, reason, unless_known=True), chance=chance)


def related(
    fact: Fact,
    vector: Vector,
    store: MemoryReader,
    comparer: Comparer,
    *,
    retracts: bool = False,
    others: Collection[int] = (),
) -> list[tuple[Memory, Comparison]]:
    """Return the memories that a fact may be about, nearest first, with the verdict on each.

    `others`: memories to which another fact of the same message is nearer.
    """
    exact = [memory for memory in store.get(store.known(fact.text, scope_of(fact))) if is_peer(fact, memory)]
    repeated = [(memory, Comparison("same", 1.0, "it is said in the same words")) for memory in exact[:1]]
    if repeated and same_place(fact, exact[0]):
        return repeated  # otherwise compare in the fact's own place, which may disagree with the wider memory
    return repeated + [
        (memory, _compare(fact, memory, cosine, comparer, retracts=retracts, is_nearest=memory.id not in others))
        for memory, cosine in candidates(fact, vector, store)
        if memory not in exact
    ]


def _compare(
    fact: Fact, memory: Memory, cosine: float, comparer: Comparer, *, retracts: bool, is_nearest: bool = True
) -> Comparison:
    """Compare a memory with the message of a fact, and with the fact itself where that may matter.

    A change is often told over several sentences, and all facts of a message share the cost of that comparison. It
    counts for the fact that is nearest to the memory (`is_nearest`). A long message about another topic hides a change,
    so a fact that shares a word with the memory is always compared.
    """
    if _tells_another_row(fact, memory):
        return Comparison("add", 1.0, "they tell different rows")
    around = comparer.compare(fact.context, memory.text, cosine, retracts=retracts) if fact.context else None
    near = cosine >= _ALIKE or share_words(fact.text, memory.text)
    if around and around.kind == "add" and around.probability >= _SURELY_NOT and not near:
        return around
    alone = comparer.compare(fact.text, memory.text, cosine, retracts=retracts)
    if around is None or not is_nearest or alone.kind in ("same", "update", "delete"):
        return alone
    is_known = around.kind == "same" and around.probability >= _SURELY  # a fact wrongly taken for known is lost
    comparison = around if around.changes or is_known or around.kind == "doubtful" else alone
    return comparison._replace(change=max(around.change, alone.change))


def _tells_another_row(fact: Fact, other: Fact | Memory) -> bool:
    """Return whether both are rows of exact knowledge, but of different tables or of different pairs."""
    if not (fact.kind in _TABLED and other.kind in _TABLED):
        return False
    if fact.kind == "threshold" == other.kind:
        names, other_names = ({name for name in find_names(row.text) if not name[0].isdigit()} for row in (fact, other))
        is_other = bool(names and other_names) and names.isdisjoint(other_names)
        return is_other and have_same_form(fact.text, other.text)
    if fact.kind == "correlation" == other.kind:
        return content_words(fact.text) != content_words(other.text)
    return fact.kind != other.kind


def candidates(fact: Fact, vector: Vector, store: MemoryReader) -> list[tuple[Memory, float]]:
    """Return the memories in a fact's place and audience that it may be about, nearest first, with their cosines.

    These are the nearest memories, and those that share the most content words with the fact.
    """
    scope = scope_of(fact)
    matched = [candidate.id for candidate in store.matching(search_terms(fact.text), _LOOKED_UP, scope).candidates]
    near = find_near(vector, store, scope, also=matched)
    peers = {memory.id: (memory, cosine) for memory, cosine in near if is_peer(fact, memory)}
    nearest = [memory_id for place, memory_id in enumerate(peers) if not place or peers[memory_id][1] >= _COMPARED]
    chosen_ids = dict.fromkeys(nearest[: CANDIDATES - _BY_WORDS])
    by_words = (memory_id for memory_id in [*matched, *nearest] if memory_id in peers and memory_id not in chosen_ids)
    chosen_ids |= dict.fromkeys(islice(by_words, CANDIDATES - len(chosen_ids)))
    return [peers[peer] for peer in peers if peer in chosen_ids]


def find_near(
    vector: Vector, store: MemoryReader, scope: Scope, most: int = _LOOKED_UP, also: Collection[int] = ()
) -> list[tuple[Memory, float]]:
    """Return the nearest memories of a scope with their cosines, nearest first."""
    near = store.nearest(vector, most, scope, also=also)
    memories = {memory.id: memory for memory in store.get([candidate.id for candidate in near])}
    return [(memories[candidate.id], candidate.score) for candidate in near if candidate.id in memories]


def scope_of(fact: Fact) -> Scope:
    """Return the scope of memories that are visible where the fact holds."""
    place = fact.project or str(fact.metadata.get("said_in", ""))
    return Scope(visible_in=place, visibility=tuple(sorted({fact.visibility, "global"})))


def is_peer(fact: Fact, memory: Memory) -> bool:
    """Return whether a memory may say the same as a fact: same audience and speaker, same project or none.

    In a project, a global memory is also a peer: the fact is noted there, but never replaces it.
    """
    if fact.project and memory.visibility == "global" and fact.speaker == memory.speaker:
        return True
    return (
        audience(fact) == audience(memory)
        and fact.speaker == memory.speaker
        and memory.project in (fact.project, "", fact.metadata.get("said_in", ""))
        and (bool(fact.project) or memory.source == fact.source or _is_personal(memory) or _is_personal(fact))
    )


def replaces(fact: Fact, memory: Memory) -> bool:
    """Return whether a fact may replace a memory: same place, or same audience and about the person."""
    if audience(fact) != audience(memory) or fact.speaker != memory.speaker:
        return False
    if _is_personal(memory):
        return same_place(fact, memory) or _is_personal(fact) or not memory.project
    return same_place(fact, memory) or (_is_personal(fact) and memory.project == fact.metadata.get("said_in"))


def _is_personal(fact: Fact | Memory) -> bool:
    return fact.metadata.get("about") == PERSON


def is_older_than(fact: Fact, memory: Memory, store: MemoryQueries, now: str) -> bool:
    """Return whether the memory was stated, or restated, after the fact was.

    A time after `now` was set by a wrong clock, and says nothing.
    """
    if not fact.created_at:
        return False
    if fact.created_at < memory.created_at <= now:
        return True
    return memory.occurrences > 1 and any(
        fact.created_at < occurrence.at <= now for occurrence in store.occurrences(memory.id)
    )


def _retire_others(changed: Sequence[tuple[Memory, Comparison]], kept: Memory) -> tuple[Delete, ...]:
    others = [(memory, verdict) for memory, verdict in changed if memory.id != kept.id]
    return tuple(
        Delete(memory.id, f"out of date: {verdict.reason}")
        for memory, verdict in others
        if verdict.probability >= _RETIRES
    )


def build_sighting(fact: Fact) -> Occurrence:
    """Return the occurrence to record with a known memory."""
    return Occurrence(fact.agent, fact.session, fact.created_at)


# ── novelty and echoes ────────────────────────────────────────────────────────────────────────────────────────────────


def novelty(
    fact: Fact, vector: Vector, store: MemoryReader, scope: Scope, comparer: Comparer, least: float = 0.0
) -> Novelty:
    """Return whether the text is new within the scope, together with the nearest memory."""
    exact = store.get(store.known(fact.text, scope)[:1])
    if exact:
        return Novelty(novel=False, similarity=1.0, match=exact[0], reason="it is known word for word")
    matches = find_near(vector, store, scope)
    reason = "nothing says the same"
    for memory, cosine in matches[:CANDIDATES]:
        verdict = comparer.compare(fact.text, memory.text, cosine)
        if verdict.kind == "same" and cosine >= least:
            repeated = f"memory {memory.id} says so already"
            return Novelty(novel=False, similarity=cosine, match=memory, reason=repeated)
        if memory is matches[0][0]:
            reason = f"near to memory {memory.id}, but {verdict.reason}"
    nearest, cosine = matches[0] if matches else (None, 0.0)
    return Novelty(novel=True, similarity=cosine, match=nearest, reason=reason)


def echo_reason(
    fact: Fact, vector: Vector, store: MemoryReader | None, injected: Sequence[str], comparer: Comparer
) -> str:
    """Return why a fact only repeats context injected for the agent or a stored memory; "" if it is new."""
    for line in (part for text in injected for part in text.splitlines() if part.strip()):
        if _is_echo(fact.text, _MARKER.sub("", line), 1.0, comparer):
            return "it was put before the agent in this conversation"
    if store is None:
        return ""
    shown = [Scope(visible_in=fact.project)] if fact.project else [Scope(source=fact.source), _GLOBAL]
    near = (candidate for scope in shown for candidate in store.nearest(vector, CANDIDATES, scope))
    scores = {candidate.id: candidate.score for candidate in near}
    for memory in store.get(list(scores)):
        if _is_echo(fact.text, memory.text, scores[memory.id], comparer):
            return f"the agent repeats memory {memory.id}"
    return ""


def _is_echo(text: str, original: str, cosine: float, comparer: Comparer) -> bool:
    if _repeats(text, original, _COVERED if cosine >= _ECHO else 1.0):
        return True
    return _repeats(text, original, 0.5) and comparer.compare(text, original, cosine).kind == "same"


def _repeats(text: str, original: str, covered: float) -> bool:
    """Return whether enough words of a text are in a known one, without a new number, name or negation."""
    stems, original_stems = (
        [root for word in search_terms(side) if (root := stem(word)) not in _SPEAKERS] for side in (text, original)
    )
    shared = len(set(stems) & set(original_stems))
    within = shared >= covered * len(set(stems)) or (
        shared >= covered * len(set(original_stems)) and len(stems) <= 1.5 * len(original_stems)
    )
    if not shared or not within or is_negated(text) != is_negated(original):
        return False
    has_known_numbers = find_figures(text) <= find_figures(original)
    return has_known_numbers and set(find_names(text)) <= {*find_names(original), *words(original)}


_GLOBAL = Scope(visibility=("global",))
#: Words for the speaker, which differ between the two sides.
_SPEAKERS = frozenset(map(stem, "user team project policy currently already".split()))
#: Prefix of a recalled line: a bullet, and a score or source in brackets.
_MARKER = lazy_re.compile(r"^\s*(?:[-*•]\s*)?(?:\[[^\]]*\]\s*)*")
