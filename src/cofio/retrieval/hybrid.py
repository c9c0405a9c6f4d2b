"""Search: candidates from the store, scored and fused into hits.

Scores do not depend on the other results: the cosine is scaled from the embedder's floor, below which similarity is
noise, and BM25 is a share of the score of a text with every query word. A threshold therefore means the same for every
query. The best candidates are re-ranked by late interaction on the same scale. Weights are measured by
`evals/fusion.py` (table in docs/explanation/search.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple

from cofio.models.episodes import EpisodeHit
from cofio.models.memory import Candidate, Explanation, Hit, Matching, MatchType, Query, same_place
from cofio.ports import (
    EpisodeIndex,
    LateInteractionModel,
    MemoryQueries,
    MemoryReader,
    MemorySearch,
    Store,
    TokenEmbeddings,
    Vector,
)
from cofio.text.tokens import search_terms, words

DEPTH = 40  # candidates per ranking; more cost time without improving results
REACH = 40  # ranks below k from which a memory can rise by a name or date bonus
VECTOR_WEIGHT = 0.55
_PER_EPISODE = 8  # candidates per requested episode, because several of its passages may match
READ = 2 * DEPTH  # candidates that are re-ranked: all of them
READ_WEIGHT = 0.4  # weight of the re-ranking score; 0.25 to 0.5 perform equally
NEAR_ALIKE = 0.85  # minimum cosine for ranking the newer of two memories first
_FIRST_PLACES = 12  # top ranks in which a memory precedes those that it probably replaces
ALIKE_WITHIN = 0.03  # maximum score difference for that; more costs recall on LoCoMo
NAMED_SPEAKER = 0.05  # bonus if the query names the speaker
NAMED_DATE = 0.10  # bonus if the query names the day; half for the month alone


class _ScoredCandidate(NamedTuple):
    """Candidate with both scores and their weighted sum on a scale from 0 to 1.

    For a re-ranked candidate the sum is combined with the re-ranking score.
    """

    id: int
    similarity: float
    bm25: float
    fused: float
    read: float | None = None


class TokenQuery(NamedTuple):
    """Re-ranker and the question encoded for it."""

    reader: LateInteractionModel
    question: bytes


def hits(query: Query, vector: Vector, store: Store, floor: float, token_query: TokenQuery | None = None) -> list[Hit]:
    """Return at most k memories that match the query and pass its thresholds, best first.

    The depth of the rankings depends on k but not on `skip`, so pages of the same k share one order and end
    consistently.
    """
    depth = max(DEPTH, 2 * query.k)
    near, matching = _find_candidates(query, vector, store, depth)
    judged = judge(near, matching, floor, VECTOR_WEIGHT if query.hybrid else 1.0)
    if token_query and query.hybrid and query.rerank:
        judged = rerank(judged, token_query, max(READ, 4 * query.k), store.token_embeddings)
    ranked = _apply_newer_first(_rank(judged, _QueryFilters.by(query.text), query, store), query.k, store)
    ranked = ranked[query.skip : query.skip + query.k]
    rows = store.get([candidate.id for candidate, _ in ranked])
    memories = {memory.id: memory for memory in rows if query.scope.include_archived or not memory.archived}
    selected = []
    for candidate, bonus in ranked:
        if memory := memories.get(candidate.id):
            score, cosine = min(1.0, candidate.fused + bonus), candidate.similarity
            keyword, match_type = _describe_match(candidate, matching.ideal, floor)
            hit = Hit(memory=memory, score=score, similarity=cosine, keyword=keyword, match_type=match_type)
            selected.append(hit)
    if not query.explain:
        return selected
    says = {candidate.id: candidate.read for candidate, _ in ranked if candidate.read is not None}
    return _explain(query, selected, near[:depth], matching, store, floor, says)


def episode_hits(query: Query, vector: Vector, index: EpisodeIndex, floor: float) -> list[EpisodeHit]:
    """Return at most k matching episodes, best first, each with its best passage."""
    near, matching = _find_candidates(query, vector, index, max(DEPTH, _PER_EPISODE * (query.skip + query.k)))
    judged = judge(near, matching, floor, VECTOR_WEIGHT if query.hybrid else 1.0)
    similar = (candidate for candidate in judged if candidate.similarity >= query.threshold)
    passing = sorted((candidate for candidate in similar if candidate.fused >= query.min_score), key=_best_first)
    passages = {passage.id: passage for passage in index.passages([candidate.id for candidate in passing])}
    best: dict[int, _ScoredCandidate] = {}
    for candidate in passing:
        if candidate.id in passages:
            best.setdefault(passages[candidate.id].episode, candidate)
    return [
        EpisodeHit(
            passages[candidate.id],
            candidate.fused,
            candidate.similarity,
            *_describe_match(candidate, matching.ideal, floor),
        )
        for candidate in list(best.values())[query.skip : query.skip + query.k]
    ]


def _find_candidates(
    query: Query, vector: Vector, index: MemorySearch | EpisodeIndex, depth: int
) -> tuple[list[Candidate], Matching]:
    """Return both rankings to this depth; keyword matches include their cosine."""
    terms = search_terms(query.text) if query.hybrid else []
    matching = index.matching(terms, depth, query.scope) if terms else Matching((), 0.0)
    return index.nearest(vector, depth, query.scope, also=(candidate.id for candidate in matching.candidates)), matching


def judge(near: Sequence[Candidate], matching: Matching, floor: float, weight: float) -> list[_ScoredCandidate]:
    """Return the candidates of both rankings with a weighted sum on one scale."""
    cosines: dict[int, float] = dict(near)
    scores: dict[int, float] = dict(matching.candidates)
    by_vector, by_words = weight / (1.0 - floor), 1.0 - weight
    judged = []
    for memory_id in cosines.keys() | scores.keys():  # hundreds per search: inlined for speed
        cosine, bm25 = cosines.get(memory_id, 0.0), scores.get(memory_id, 0.0)
        fused = by_vector * (cosine - floor) if cosine > floor else 0.0
        if bm25 > 0.0:
            fused += by_words * bm25 / (bm25 + matching.ideal)
        judged.append(_ScoredCandidate(memory_id, cosine, bm25, fused if fused < 1.0 else 1.0))
    return judged


def rerank(
    judged: Sequence[_ScoredCandidate], token_query: TokenQuery, depth: int, readings: TokenEmbeddings
) -> list[_ScoredCandidate]:
    """Re-rank the best candidates by late interaction.

    Candidates without token embeddings, because they are too new or too long, keep their score. The re-ranking score is
    scaled from its noise floor to the scale of the sum, so that re-ranked and other candidates, and minimum scores,
    remain comparable.
    """
    ordered = sorted(judged, key=_best_first)
    by_id = readings.get([candidate.id for candidate in ordered[:depth]], token_query.reader.signature)
    encoded = {memory_id: words for memory_id, words in by_id.items() if words}
    alike = dict(zip(encoded, token_query.reader.likeness(token_query.question, list(encoded.values())), strict=True))
    floor, span = token_query.reader.floor, token_query.reader.ceiling - token_query.reader.floor
    closer = []
    for candidate in ordered:
        if candidate.id in alike:
            says = min(1.0, max(0.0, (alike[candidate.id] - floor) / span))
            candidate = candidate._replace(fused=(1 - READ_WEIGHT) * candidate.fused + READ_WEIGHT * says, read=says)
        closer.append(candidate)
    return closer


def merge_hybrid_results(
    vector: Sequence[tuple[int, float]],
    keyword: Sequence[tuple[int, float]],
    *,
    vector_weight: float = 0.7,
    text_weight: float = 0.3,
    max_results: int = 6,
    min_score: float = 0.35,
) -> list[tuple[int, float, MatchType]]:
    """Merge two lists of (id, score) by a weighted sum into (id, score, match type); keyword scores are from 0 to 1.

    This is the common formula of other tools; the service's own search uses `judge`.
    """
    near, matched = dict(vector), dict(keyword)
    merged: list[tuple[int, float, MatchType]] = []
    for memory_id in near.keys() | matched.keys():
        by_vector, by_words = near.get(memory_id, 0.0), matched.get(memory_id, 0.0)
        score = vector_weight * by_vector + text_weight * by_words
        if score >= min_score:
            merged.append((memory_id, score, _match_type(by_vector, by_words)))
    return sorted(merged, key=lambda row: (-row[1], row[0]))[:max_results]


def _rank(
    judged: Sequence[_ScoredCandidate], filters: _QueryFilters, query: Query, store: MemoryQueries
) -> list[tuple[_ScoredCandidate, float]]:
    """Return candidates that pass the thresholds, best first, with their bonus for a named speaker or date."""
    passing = sorted((candidate for candidate in judged if candidate.similarity >= query.threshold), key=_best_first)
    if not filters.months and not store.has_speakers():
        return [(candidate, 0.0) for candidate in passing if candidate.fused >= query.min_score]
    passing = passing[: 3 * query.k + REACH]  # same cut-off on every page
    origins = store.said([candidate.id for candidate in passing])
    gained = [(candidate, filters.bonus(*origins[candidate.id])[0]) for candidate in passing if candidate.id in origins]
    high = [(candidate, bonus) for candidate, bonus in gained if candidate.fused + bonus >= query.min_score]
    return sorted(high, key=lambda row: (-row[0].fused - row[1], -row[0].id))


def _apply_newer_first(
    ranked: Sequence[tuple[_ScoredCandidate, float]], k: int, store: MemoryReader
) -> list[tuple[_ScoredCandidate, float]]:
    """Apply `newer_first` to the ranking, down to the depth shared by pages of k."""
    rows = {row[0].id: row for row in ranked}
    ids, reach = list(rows), 3 * k + REACH
    scores = {memory_id: rows[memory_id][0].fused + rows[memory_id][1] for memory_id in ids[:reach]}
    return [rows[memory_id] for memory_id in (*newer_first(scores, store), *ids[reach:])]


def newer_first(scores: Mapping[int, float], store: MemoryReader) -> list[int]:
    """Return the ids in this order, with the newer of two near-identical memories first; others keep their order.

    Near-identical memories have the same place (project, audience, speaker), a cosine of at least 0.85 and close
    scores: mostly an earlier and a later state of one thing.
    """
    order = list(scores)
    newer = _find_newer(order, store)
    for place in range(len(order)):
        while later := [
            at
            for at in range(place + 1, len(order))
            if order[at] in newer.get(order[place], {}) and scores[order[place]] - scores[order[at]] <= ALIKE_WITHIN
        ]:
            newest = max(later, key=lambda at: newer[order[place]][order[at]])
            order[place], order[newest] = order[newest], order[place]

    # Each memory among the first precedes the memories that it probably replaces.
    for memory in store.get(order[:_FIRST_PLACES]):
        older = [order.index(memory_id) for memory_id in memory.may_replace if memory_id in order]
        if older and min(older) < (place := order.index(memory.id)):
            order.insert(min(older), order.pop(place))
    return order


def _find_newer(ids: Sequence[int], store: MemoryReader) -> dict[int, dict[int, tuple[str, int]]]:
    """Return, per memory, the newer near-identical memories of the same place, each with its date and id."""
    pairs = [
        (memory_id, neighbour.id)
        for memory_id, near in store.neighbours(ids, NEAR_ALIKE, len(ids))
        for neighbour in near
    ]
    memories = {memory.id: memory for memory in store.get(list({memory_id for memory_id, _ in pairs}))} if pairs else {}
    newer: dict[int, dict[int, tuple[str, int]]] = {}
    for memory_id, neighbour in pairs:
        if memory_id in memories and neighbour in memories and same_place(memories[memory_id], memories[neighbour]):
            first, second = ((memories[key].created_at, key) for key in (memory_id, neighbour))
            if second > first:
                newer.setdefault(memory_id, {})[neighbour] = second
    return newer


def _best_first(judged: _ScoredCandidate) -> tuple[float, int]:
    return -judged.fused, -judged.id  # newer first on ties


def _describe_match(judged: _ScoredCandidate, ideal: float, floor: float) -> tuple[float, MatchType]:
    """Return the keyword score from 0 to 1, and the match type."""
    keyword = judged.bm25 / (judged.bm25 + ideal) if judged.bm25 > 0 else 0.0
    return keyword, _match_type(_scale_cosine(judged.similarity, floor), keyword)


def _match_type(by_vector: float, by_words: float) -> MatchType:
    if by_words > 0:
        return "hybrid" if by_vector > 0 else "keyword"
    return "vector"


# ── names and dates in the query ──────────────────────────────────────────────────────────────────────────────────────

_MONTHS = {
    name: number
    for number, names in enumerate(
        "january jan/february feb/march mar/april apr/may/june jun/july jul/august aug/september sep sept/october oct"
        "/november nov/december dec".split("/"),
        start=1,
    )
    for name in names.split()
}
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_MODAL = re.compile(r"\bmay\b")  # "you may": a month only next to a number
_MAY_DATE = re.compile(
    r"\bmay,? \d|\d(?:st|nd|rd|th)?(?: of)? may\b|\b(?:in|of|since|until|last|this|next|by|during) may\b"
)


@dataclass(frozen=True, slots=True)
class _QueryFilters:
    """Names and dates mentioned in a query."""

    words: frozenset[str]
    months: frozenset[int]
    days: frozenset[int]
    years: frozenset[int]

    @classmethod
    def by(cls, text: str) -> _QueryFilters:
        plain = text.lower()
        names = [word.removesuffix("'s") for word in words(text)]
        months = {_MONTHS[word] for word in names if word in _MONTHS}
        if _MODAL.search(text) and not _MAY_DATE.search(plain):
            months.discard(5)
        years = {int(word) for word in names if re.fullmatch(r"(?:19|20)\d\d", word)}
        days = {int(m.group(1)) for word in names if (m := re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)?", word))}
        for year, month, day in _ISO_DATE.findall(text):
            years.add(int(year))
            months.add(int(month))
            days.update([int(day)] if day else [])
        return cls(frozenset(names), frozenset(months), frozenset(days), frozenset(years))

    def bonus(self, speaker: str, created_at: str) -> tuple[float, list[str]]:
        """Return the bonus of a memory whose speaker or date the query names, and the reasons."""
        gained, reasons = 0.0, []
        if speaker and self.words.intersection(speaker.lower().split()):
            gained += NAMED_SPEAKER
            reasons.append(f"{NAMED_SPEAKER:.2f} because {speaker} is named")
        if self.months and (share := self._match_date(created_at)):
            gained += NAMED_DATE * share
            reasons.append(f"{NAMED_DATE * share:.2f} because {created_at[:10]} is named")
        return gained, reasons

    def _match_date(self, created_at: str) -> float:
        when = date.fromisoformat(created_at[:10])
        if when.month not in self.months or (self.years and when.year not in self.years):
            return 0.0
        if self.days:
            return 1.0 if when.day in self.days else 0.0
        return 0.5


def _explain(
    query: Query,
    selected: Sequence[Hit],
    near: Sequence[Candidate],
    matching: Matching,
    store: MemorySearch,
    floor: float,
    says: Mapping[int, float],
) -> list[Hit]:
    """Return the hits with an explanation of their rank."""
    terms = search_terms(query.text) if query.hybrid else []
    words_by_id = store.holding(terms, [hit.id for hit in selected])
    by_vector = {candidate.id: place for place, candidate in enumerate(near, start=1)}
    by_words = {candidate.id: (place, candidate.score) for place, candidate in enumerate(matching.candidates, start=1)}
    filters = _QueryFilters.by(query.text)
    weight = VECTOR_WEIGHT if query.hybrid else 1.0
    explained = []
    for hit in selected:
        share = _scale_cosine(hit.similarity, floor)
        rank, bm25 = by_words.get(hit.id, (None, 0.0))
        parts = [f"{weight:.2f} × {share:.3f} (cosine {hit.similarity:.3f}, counted from {floor:.2f})"]
        if hit.keyword:
            parts.append(f"{1 - weight:.2f} × {hit.keyword:.3f} (BM25 {bm25:.2f}; {matching.ideal:.2f} would be half)")
        if hit.id in says:
            parts = [f"{1 - READ_WEIGHT:.2f} × ({' + '.join(parts)})"]
            parts.append(f"{READ_WEIGHT:.2f} × {says[hit.id]:.3f} (re-ranking)")
        fused_weight = 1 - READ_WEIGHT if hit.id in says else 1.0
        parts += filters.bonus(hit.memory.speaker, hit.memory.created_at)[1]
        why = Explanation(
            vector_rank=by_vector.get(hit.id),
            vector_share=fused_weight * weight * share,
            keyword_rank=rank,
            keyword_share=fused_weight * (1 - weight) * hit.keyword,
            bm25=bm25,
            words=tuple(words_by_id.get(hit.id, ())),
            formula=f"{hit.score:.3f} = " + " + ".join(parts),
        )
        explained.append(replace(hit, why=why))
    return explained


def _scale_cosine(cosine: float, floor: float) -> float:
    return min(1.0, max(0.0, (cosine - floor) / (1.0 - floor)))
