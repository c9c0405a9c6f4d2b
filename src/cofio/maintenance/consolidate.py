"""Consolidation: merges duplicates. Takes memories and returns decisions and refusals; nothing is written here.

places ─▶ near pairs ─▶ true duplicates: the best one stays
                      └ the rest in stars ─ merger ─▶ proposal ─ proving ─▶ merges, or the reason against them

Nearness alone is no reason to merge. Duplicates are recognised by their words; a model's proposal must say everything
that the memories say. After any failure the cluster stays as it is, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from itertools import islice
from typing import TypeAlias

from cofio.errors import CofioError, Unavailable
from cofio.ingest.reconcile.compare import Comparer
from cofio.maintenance import clusters, merge_check
from cofio.maintenance.clusters import ClusterEntry, Near, Throttle
from cofio.maintenance.llm_merge import LONGEST, MergedText, Merger, Proposal
from cofio.maintenance.merge_check import Finds, SimulatedStore
from cofio.models.maintenance import MaintenancePlan, Refusal
from cofio.models.memory import Decision, Delete, Fact, Memory, Merge, Scope, same_place
from cofio.models.merge import merge_fact, quality_key
from cofio.ports import Matrix, MemoryReader, Store
from cofio.text.code_literals import missing_literal
from cofio.text.tokens import embedding_text, words

Embed: TypeAlias = Callable[[Sequence[str]], Matrix]
MOST_FACTS = 2  # per cluster
_AT_ONCE = 2_000  # pairs
_GIVE_UP = 3  # consecutive failures of the model after which it is not asked again
_FACT_FIELDS = tuple(fact_field.name for fact_field in fields(Fact))


@dataclass(slots=True)
class _Result:
    """Decisions so far."""

    decisions: list[Decision] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    judged: bool = False  # whether the last proposal was read and rejected; a truncated reply is requested again
    examined: int = 0


def decide(
    store: Store,
    scope: Scope,
    *,
    merger: Merger | None,
    finds: Finds,
    embed: Embed,
    comparer: Comparer,
    similarity: float = 0.75,
    least: int = 3,
    most: int = 50,
    settled: Collection[str] = (),
    halted: Callable[[], bool] = lambda: False,
) -> MaintenancePlan:
    """Return the merges and archivals, and the refusals with their reasons.

    Without a merger only true duplicates are merged. With one, up to `most` clusters of at least `least` members are
    submitted to it, except those in `settled` (`MaintenancePlan.settled` of earlier plans).
    """
    result = _Result()
    near = _compare_places(store, scope, result, similarity, comparer, halted)
    if merger:
        stars = clusters.rotate(clusters.star_clusters(near, max(least, 2)), store)
        proposer = _MergeProposer(store, merger, finds, embed, comparer, similarity, least, result)
        proposer.propose_all(stars, most, settled, halted)
    if halted():
        result.notes.append("The run was stopped before the end.")
    return MaintenancePlan(
        chore="consolidate",
        decisions=tuple(result.decisions),
        refused=tuple(result.refused),
        settled=tuple(result.settled),
        examined=result.examined,
        note=" ".join(result.notes),
    )


def _compare_places(
    store: Store, scope: Scope, result: _Result, similarity: float, comparer: Comparer, halted: Callable[[], bool]
) -> Near:
    """Return the neighbours among memories that are not duplicates, pinned or long; decide about the duplicates."""
    places = clusters.group_by_place(store, scope, halted)
    result.examined = sum(map(len, places.values()))
    remaining: Near = {}
    for entries in places.values():
        if halted():
            break
        if len(entries) > 1:
            near = clusters.near_pairs(store, entries, similarity, halted)
            same = list(_find_duplicates(entries, near, comparer))
            result.decisions += same
            unfit = {entry.id for entry in entries if entry.pinned or not entry.text}
            remaining |= clusters.without_ids(near, unfit | {decision.id for decision in same})
    return remaining


def decide_duplicates(store: MemoryReader, scope: Scope, threshold: float, comparer: Comparer) -> list[Delete]:
    """Merge each memory into the best one that it repeats, among pairs with at least this cosine."""
    same: dict[int, dict[int, float]] = {}
    memories: dict[int, Memory] = {}
    pairs = iter(store.pairs(threshold, scope))
    while batch := list(islice(pairs, _AT_ONCE)):
        missing = {memory_id for low, high, _ in batch for memory_id in (low, high)} - memories.keys()
        memories.update((memory.id, memory) for memory in store.get(sorted(missing)))
        for low, high, cosine in batch:
            if low in memories and high in memories and same_place(memories[low], memories[high]):
                same.setdefault(low, {})[high] = cosine
                same.setdefault(high, {})[low] = cosine

    def explain(best: int, other: int) -> str:
        older, newer = sorted((memories[other], memories[best]), key=lambda memory: (memory.created_at, memory.id))
        cosine = same[best][other]
        is_same = not memories[other].pinned and comparer.compare(newer.text, older.text, cosine).kind == "same"
        return f"says the same as memory {best} (cosine {cosine:.3f})" if is_same else ""

    ordered = sorted(same, key=lambda memory_id: quality_key(memories[memory_id]), reverse=True)
    return list(_merge_into_best(ordered, same, explain))


def _merge_into_best(
    ordered: Iterable[int], same: Mapping[int, Iterable[int]], explain: Callable[[int, int], str]
) -> Iterator[Delete]:
    """Merge each memory into the first one that it repeats. Only direct pairs count: A≈B and B≈C do not make A≈C."""
    settled: set[int] = set()
    for best in ordered:
        if best in settled:
            continue
        settled.add(best)
        for other in sorted(same[best]):
            if other not in settled and (reason := explain(best, other)):
                settled.add(other)
                yield Delete(other, reason, into=best)


# ── true duplicates ───────────────────────────────────────────────────────────────────────────────────────────────────


def _find_duplicates(entries: Sequence[ClusterEntry], near: Near, comparer: Comparer) -> Iterator[Delete]:
    """Merge each memory into the best one that it repeats, word for word or in meaning."""
    entry_by_id = {entry.id: entry for entry in entries}
    same: dict[int, dict[int, str]] = {}
    for one, other, reason in (*_match_words(entries), *_match_meaning(entry_by_id, near, comparer)):
        same.setdefault(one, {})[other] = reason
        same.setdefault(other, {})[one] = reason

    def explain(best: int, other: int) -> str:
        return "" if entry_by_id[other].pinned else f"says the same as memory {best}: {same[best][other]}"

    ordered = sorted(same, key=lambda memory_id: entry_by_id[memory_id].worth, reverse=True)
    return _merge_into_best(ordered, same, explain)


def _match_words(entries: Sequence[ClusterEntry]) -> Iterator[tuple[int, int, str]]:
    groups: dict[tuple[int, str], list[ClusterEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.said, entry.source), []).append(entry)
    for group in groups.values():
        best = max(group, key=lambda entry: entry.worth)
        for entry in group:
            if entry is not best and not missing_literal(entry.text, best.text) and _end_alike(entry.text, best.text):
                yield best.id, entry.id, "it is said in the same words"


def _match_meaning(
    entry_by_id: Mapping[int, ClusterEntry], near: Near, comparer: Comparer
) -> Iterator[tuple[int, int, str]]:
    pace = Throttle()
    for memory_id, candidates in near.items():
        for other, cosine in candidates:
            if other not in entry_by_id or not _may_repeat(entry_by_id[memory_id], entry_by_id[other]):
                continue
            if other < memory_id and any(candidate.id == memory_id for candidate in near.get(other, ())):
                continue  # this pair was compared before
            old, new = sorted((entry_by_id[memory_id], entry_by_id[other]), key=lambda entry: (entry.at, entry.id))
            verdict = comparer.compare(new.text, old.text, cosine)
            if verdict.kind == "same" and verdict.reason:
                yield memory_id, other, verdict.reason
            pace()


def _may_repeat(one: ClusterEntry, other: ClusterEntry) -> bool:
    """Return whether two entries may be duplicates. Long texts must be equal word for word, so they are not compared.

    They must share their numbers, their source, half of their words, the last word and "used", which may mean that
    something is no longer used.
    """
    common = len(one.words & other.words)
    if one.values != other.values or one.source != other.source or 2 * common < min(len(one.words), len(other.words)):
        return False
    if not one.text or not other.text or one.said == other.said:
        return False
    return ("used" in words(one.text)) == ("used" in words(other.text)) and _end_alike(one.text, other.text)


def _end_alike(one: str, other: str) -> bool:
    """Return whether both texts end in the same word, which is often a name: `docs` is not `doc`."""
    return words(one)[-1:] == words(other)[-1:]


# ── merges by a model ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _MergeProposer:
    """Processing of clusters: submits them to a merger, and checks its proposals."""

    store: Store
    merger: Merger
    finds: Finds
    embed: Embed
    comparer: Comparer
    similarity: float
    least: int
    result: _Result

    def propose_all(
        self, stars: Sequence[Sequence[int]], most: int, settled: Collection[str], halted: Callable[[], bool]
    ) -> None:
        silent = asked_count = skipped = 0
        for place, ids in enumerate(stars):
            if halted() or silent == _GIVE_UP:
                break
            members = [memory for memory in self.store.get(ids) if not memory.archived and not memory.pinned]
            if (name := _name_cluster(members)) in settled:
                skipped += 1
                continue
            if asked_count == most:
                self.result.notes.append(f"{len(stars) - place} more clusters are left for the next run.")
                break
            asked_count += 1
            self.result.judged = False
            silent = silent + 1 if self._propose(members) else 0
            if self.result.judged and not silent:
                self.result.settled.append(name)
        if silent == _GIVE_UP:
            self.result.notes.append(
                f"The language model failed {_GIVE_UP} times in a row; the other clusters were skipped."
            )
        if skipped:
            self.result.notes.append(
                f"{skipped} clusters were skipped: their merge was rejected before, and they are unchanged since."
            )

    def _propose(self, members: Sequence[Memory]) -> bool:
        """Decide about one cluster. Return True if the model did not answer."""
        members = self._drop_contradicted(members)
        if len(members) < self.least:
            return False
        ids = tuple(memory.id for memory in members)
        texts: tuple[str, ...] = ()
        try:
            proposal = self.merger.merge(members)
            texts = _list_texts(proposal)
            merges = _build_merges(proposal, members)
            reason = self._find_problem(merges, members)
        except (CofioError, OSError, ValueError) as error:
            self.result.judged = isinstance(error, _UnusableProposal)
            message = error.message if isinstance(error, CofioError) else str(error)
            self.result.refused.append(Refusal(ids=ids, reason=message, proposed=texts))
            return isinstance(error, Unavailable | OSError)
        if reason:
            self.result.judged = True
            self.result.refused.append(Refusal(ids=ids, reason=reason, proposed=texts))
        else:
            self.result.decisions += merges
        return False

    def _drop_contradicted(self, members: Sequence[Memory]) -> list[Memory]:
        """Return the members without those that a newer one contradicts: merging could bring back outdated facts."""
        agreeing: list[Memory] = []
        for memory in sorted(members, key=lambda memory: (memory.created_at, memory.id), reverse=True):
            for later in agreeing:
                verdict = self.comparer.compare(later.text, memory.text, self.similarity)
                if verdict.changes:
                    reason = f"memory {later.id} has taken its place: {verdict.reason}"
                    self.result.refused.append(Refusal(ids=(memory.id,), reason=reason))
                    break
            else:
                agreeing.append(memory)
        return agreeing[::-1]

    def _find_problem(self, merges: Sequence[Merge], members: Sequence[Memory]) -> str:
        """Return the reason against the merges; "" if there is none."""
        memory_by_id = {memory.id: memory for memory in members}
        originals = [[memory_by_id[memory_id] for memory_id in merge.ids] for merge in merges]
        for merge, merged in zip(merges, originals, strict=True):
            if reason := merge_check.find_loss(merged, merge.fact.text):
                return reason
        vectors = self.embed([embedding_text(merge.fact.text, merge.fact.speaker) for merge in merges])
        for merged, vector in zip(originals, vectors, strict=True):
            member_vectors = self.embed([embedding_text(memory.text, memory.speaker) for memory in merged])
            if reason := merge_check.find_distant_member(merged, member_vectors, vector):
                return reason
        new = {}
        for number, (merge, vector) in enumerate(zip(merges, vectors, strict=True), 1):
            values = {name: getattr(merge.fact, name) for name in _FACT_FIELDS}
            new[-number] = Memory(id=-number, **values, updated_at=merge.fact.created_at), vector
        stands_for = {-number: merge.ids for number, merge in enumerate(merges, 1)}
        after = SimulatedStore(self.store, [memory_id for merge in merges for memory_id in merge.ids], new)
        view = Scope(visible_in=members[0].project) if members[0].project else Scope()
        return merge_check.find_lost_query(self.store, self.finds, stands_for, after, view)


def _name_cluster(members: Sequence[Memory]) -> str:
    """Return a name for the current state of these memories that reveals none of their words."""
    versions = ",".join(f"{member.id}:{member.updated_at}" for member in sorted(members, key=lambda memory: memory.id))
    return blake2b(versions.encode(), digest_size=8).hexdigest()


def _list_texts(proposal: Proposal) -> tuple[str, ...]:
    """Return the proposed texts for display."""
    if not isinstance(proposal, Proposal) or not all(isinstance(entry, MergedText) for entry in proposal.facts):
        raise ValueError("the merger did not return a proposal")
    return tuple(str(entry.text)[:LONGEST] for entry in proposal.facts[: 2 * MOST_FACTS])


class _UnusableProposal(ValueError):
    """Proposal that was read but is not valid."""


def _build_merges(proposal: Proposal, members: Sequence[Memory]) -> list[Merge]:
    """Return the proposed merges. Raise _UnusableProposal with the reason if they are not valid."""
    if not proposal.facts:
        raise _UnusableProposal("the language model proposes no merge")
    if len(proposal.facts) > MOST_FACTS:
        raise _UnusableProposal(
            f"{len(proposal.facts)} facts in the place of {len(members)} memories: at most {MOST_FACTS}"
        )
    ids = [memory_id for fact in proposal.facts for memory_id in fact.ids]
    if len(set(ids)) < len(ids):
        raise _UnusableProposal("a memory is named twice")
    if not set(ids) <= {memory.id for memory in members}:
        raise _UnusableProposal("a memory outside the cluster is named")
    merges = []
    for fact in proposal.facts:
        if len(fact.ids) < 2:
            continue  # single memories stay as they are
        if not fact.text.strip() or len(fact.text) > LONGEST:
            raise _UnusableProposal(f"a text of {len(fact.text):,} characters: 1 to {LONGEST:,} are allowed")
        merged = [memory for memory in members if memory.id in fact.ids]
        reason = f"one fact in the place of {len(merged)} memories, by the model's wording"
        merges.append(
            Merge(tuple(memory.id for memory in merged), merge_fact(fact.text, merged, fact.category), reason)
        )
    if not merges:
        raise _UnusableProposal("no fact covers two memories or more")
    return merges
