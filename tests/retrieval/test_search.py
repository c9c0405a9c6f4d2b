"""Hybrid search: fused scores, explanations, robustness, and no loss compared with either half alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.core import Keeper
from cofio.errors import InvalidInput
from cofio.models.memory import LIKELY, MAY_REPLACE, STRONG, Candidate, Fact, Hit, Matching, is_poor_match
from cofio.ports import Matrix
from cofio.retrieval.hybrid import ALIKE_WITHIN, NEAR_ALIKE, judge, merge_hybrid_results, newer_first
from cofio.testing import FixedClock, HashEmbedder, MemoryStore


def test_merge_hybrid_results_weights_and_limits() -> None:
    ((number, score, match_type),) = merge_hybrid_results([(1, 0.9)], [(1, 0.8)])
    assert (number, match_type) == (1, "hybrid")
    assert score == pytest.approx(0.87)
    assert merge_hybrid_results([(1, 0.3)], []) == []
    assert merge_hybrid_results([], []) == []
    many = [(place, 0.9 - place * 0.01) for place in range(10)]
    assert len(merge_hybrid_results(many, [], max_results=3)) == 3
    merged = merge_hybrid_results([(1, 0.5), (2, 0.9)], [(1, 0.9), (3, 1.0)], min_score=0.1)
    assert [row[1] for row in merged] == sorted((row[1] for row in merged), reverse=True)
    assert {row[0]: row[2] for row in merged} == {1: "hybrid", 2: "vector", 3: "keyword"}


def test_score_does_not_depend_on_other_candidates() -> None:
    alone = judge([Candidate(1, 0.8)], Matching((Candidate(1, 3.0),), 3.0), 0.4, 0.55)
    crowd = judge(
        [Candidate(1, 0.8), Candidate(2, 0.99)], Matching((Candidate(1, 3.0), Candidate(2, 9.0)), 3.0), 0.4, 0.55
    )
    score = {candidate.id: candidate.fused for candidate in crowd}
    assert score[1] == alone[0].fused == pytest.approx(0.55 * (0.4 / 0.6) + 0.45 * 0.5)
    assert score[2] > score[1]


def test_hit_reports_cosine_keyword_score_and_explanation(keeper: Keeper) -> None:
    keeper.add("the deploy target is Frankfurt", speaker="Ada")
    keeper.add("cats sleep all day")
    first, second = keeper.search("where is the deploy target", k=2, explain=True)
    assert first.match_type == "hybrid"
    assert 0 < first.similarity < 1
    assert 0 < first.keyword < 1
    assert first.why is not None
    assert first.why.words == ("deploy", "target")
    assert (first.why.vector_rank, first.why.keyword_rank) == (1, 1)
    assert first.why.vector_share + first.why.keyword_share == pytest.approx(first.score)
    assert first.why.formula.startswith(f"{first.score:.3f} = ")
    assert second.match_type == "vector"
    assert second.keyword == 0


def test_keyword_only_hit_has_its_exact_cosine(keeper: Keeper) -> None:
    keeper.add("yes, do that", context="shall we adopt zirconium?")
    (hit,) = keeper.search("zirconium", k=1)
    assert hit.keyword > 0
    assert hit.similarity == pytest.approx(float(_cosine(keeper, "yes, do that", "zirconium")), abs=1e-5)


def _cosine(keeper: Keeper, first: str, second: str) -> float:
    vectors = keeper.services.shared.encoder.embed([first, second])
    return float(vectors[0] @ vectors[1])


def test_thresholds_apply_to_keyword_only_hits(keeper: Keeper) -> None:
    keeper.add("yes, do that", context="shall we adopt zirconium?")
    keeper.add("we did adopt zirconium")
    hits = keeper.search("zirconium", threshold=0.3)
    assert [hit.text for hit in hits] == ["we did adopt zirconium"]
    assert all(hit.similarity >= 0.3 for hit in hits)
    best = keeper.search("zirconium")[0].score
    assert keeper.search("zirconium", min_score=min(1.0, best + 0.01)) == []


def test_vector_only_search_ignores_keywords(keeper: Keeper) -> None:
    keeper.add("yes, do that", context="shall we adopt zirconium?")
    (hit,) = keeper.search("zirconium", hybrid=False)
    assert (hit.match_type, hit.keyword) == ("vector", 0.0)


def test_speaker_and_date_named_in_the_query_rank_first(keeper: Keeper) -> None:
    for speaker in ("Ada", "Grace"):
        for month in ("03", "05"):
            keeper.add(
                Fact(
                    text=f"went hiking in the hills, {speaker} {month}", speaker=speaker, created_at=f"2023-{month}-08"
                )
            )
    first = keeper.search("when did Grace go hiking in May 2023?", k=4, explain=True)[0]
    assert (first.memory.speaker, first.memory.created_at[:7]) == ("Grace", "2023-05")
    assert first.why is not None
    assert "Grace is named" in first.why.formula
    assert "2023-05-08 is named" in first.why.formula


@pytest.mark.parametrize("text", ["you may go hiking", "may I?"])
def test_may_as_a_verb_is_not_a_month(keeper: Keeper, text: str) -> None:
    keeper.add(Fact(text="went hiking", created_at="2023-05-08"))
    (hit,) = keeper.search(text, explain=True)
    assert hit.why is not None
    assert "named" not in hit.why.formula


def test_newer_memory_wins_between_equal_scores(keeper: Keeper) -> None:
    keeper.add_all([Fact(text="we use tabs", source="a"), Fact(text="we use tabs", source="b")])
    assert [hit.memory.source for hit in keeper.search("tabs")] == ["b", "a"]


@pytest.mark.parametrize("speaker", ["", "Ada"])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_pages_do_not_overlap_and_end(keeper: Keeper, k: int, speaker: str) -> None:
    for number in range(70):
        who = speaker if number % 3 else ""
        keeper.add(f"host {number} is patched on day {number % 7}", speaker=who, dedup=False)
    options = {"k": k, "log": False}
    pages, skip = list[int](), 0
    while hits := keeper.search("when did Ada say a host is patched?", skip=skip, **options):
        assert len(hits) <= k
        pages += [hit.id for hit in hits]
        skip += k
    assert len(pages) == len(set(pages)) >= 40
    first = keeper.search("when did Ada say a host is patched?", **options)
    assert [hit.id for hit in first] == pages[:k]


def test_skipped_hits_are_not_counted_as_retrieved(keeper: Keeper) -> None:
    for number in range(4):
        keeper.add(f"host {number} is patched")
    (second,) = keeper.search("which host is patched?", k=1, skip=1)
    assert [memory.id for memory in keeper.list().memories if memory.retrieval_count] == [second.id]
    with pytest.raises(InvalidInput, match="skip"):
        keeper.search("which host is patched?", skip=-1)


def test_returned_hits_are_counted_and_novelty_checks_are_not(keeper: Keeper) -> None:
    change = keeper.add("we use tabs")
    keeper.search("tabs", by="ada")
    keeper.search_all([])
    keeper.is_novel("we use tabs")
    keeper.add("we use tabs")
    memory = keeper.get(change.memory_id)
    assert memory.retrieval_count == 1
    assert memory.last_retrieved_at is not None


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(st.text(max_size=200))
def test_any_query_text_is_accepted_or_rejected_with_a_reason(keeper: Keeper, text: str) -> None:
    if not keeper.stats()["memories"]:
        keeper.add("the port is 8080")
    try:
        hits = keeper.search(text, explain=True)
    except InvalidInput:
        return  # empty, NUL, lone surrogate: refused with a reason
    assert all(0 <= hit.score <= 1 for hit in hits)


@pytest.mark.parametrize(
    "text",
    [
        '" OR 1=1 --',
        "NEAR(a b, 2)",
        "a* AND (b",
        "text:port",
        "^port",
        "-port",
        "port + is",
        "'; DROP TABLE memories",
        "{port}",
        "port:8080",
    ],
)
def test_query_operators_are_plain_words(keeper: Keeper, text: str) -> None:
    keeper.add("the port is 8080")
    keeper.search(text)
    assert keeper.stats()["memories"] == 1


# ── Near duplicates ───────────────────────────────────────────────────────────────────────────────────────────────────


class AngleEmbedder(HashEmbedder):
    """Embed texts at the angle they name: "… @20" is 20 degrees from the first axis."""

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            angle = np.radians(float(text.partition("@")[2] or 0))
            row[:2] = np.cos(angle), np.sin(angle)
        return vectors


@pytest.fixture
def angle_keeper() -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), AngleEmbedder(), clock) as keeper:
        yield keeper


def add_at_angle(keeper: Keeper, angle: float, created_at: str = "2025-01-01", **fields: Any) -> int:
    fact = Fact(text=f"x{keeper.count()} @{angle}", created_at=created_at, **fields)
    return keeper.add(fact, dedup=False).memory_id


def ranked_ids(keeper: Keeper, **options: Any) -> list[int]:
    return [hit.id for hit in keeper.search("q @0", hybrid=False, **options)]


def test_newer_of_two_near_duplicates_ranks_first(angle_keeper: Keeper) -> None:
    new = add_at_angle(angle_keeper, 11, "2025-03-01")
    old = add_at_angle(angle_keeper, 10, "2025-02-01")
    far = add_at_angle(angle_keeper, 80, "2025-04-01")
    assert ranked_ids(angle_keeper) == [new, old, far]


def test_memories_that_are_not_near_duplicates_keep_their_order(angle_keeper: Keeper) -> None:
    old = add_at_angle(angle_keeper, 18, "2025-02-01")
    apart = add_at_angle(angle_keeper, -18.3, "2025-04-01")
    new = add_at_angle(angle_keeper, 18.6, "2025-03-01")
    assert ranked_ids(angle_keeper) == [new, apart, old]


@pytest.mark.parametrize("fields", [{"project": "p"}, {"visibility": "team"}, {"speaker": "Ada"}, {"source": "codex"}])
def test_near_duplicates_of_another_scope_keep_their_order(angle_keeper: Keeper, fields: dict[str, str]) -> None:
    old = add_at_angle(angle_keeper, 10, "2025-02-01")
    new = add_at_angle(angle_keeper, 11, "2025-03-01", **fields)
    assert ranked_ids(angle_keeper) == [old, new]


def test_newer_memory_with_a_clearly_lower_score_stays_behind(angle_keeper: Keeper) -> None:
    old, new = add_at_angle(angle_keeper, 0, "2025-02-01"), add_at_angle(angle_keeper, 30, "2025-03-01")
    assert np.cos(np.radians(30)) > NEAR_ALIKE
    assert ranked_ids(angle_keeper) == [old, new]
    scores = {old: 0.5, new: 0.5 - ALIKE_WITHIN / 2}
    assert newer_first(scores, angle_keeper.services.access.store) == [new, old]


def test_memory_precedes_the_one_it_may_replace(keeper: Keeper) -> None:
    old = keeper.add("We render charts with Datawrapper").memory_id
    other = keeper.add("Charts are in English").memory_id
    new = keeper.add("Everything is rebuilt in Flourish", metadata={MAY_REPLACE: [old]}).memory_id
    assert newer_first({old: 0.6, other: 0.5, new: 0.2}, keeper.services.access.store) == [new, old, other]
    assert newer_first({other: 0.5, new: 0.2}, keeper.services.access.store) == [other, new]


def test_chains_of_near_duplicates_are_ordered_pairwise(angle_keeper: Keeper) -> None:
    ids = [add_at_angle(angle_keeper, angle, f"2025-0{month}-01") for angle, month in ((0, 1), (25, 3), (50, 2))]
    scores = dict.fromkeys(ids, 0.5)
    assert newer_first(scores, angle_keeper.services.access.store) == [ids[1], ids[0], ids[2]]


def test_pages_agree_on_the_order_of_near_duplicates(angle_keeper: Keeper) -> None:
    for number in range(12):
        add_at_angle(angle_keeper, 10 + number / 10, f"2025-01-{number + 1:02}")
    all_ids = ranked_ids(angle_keeper, k=12)
    assert all_ids == sorted(all_ids, reverse=True)
    assert [memory_id for skip in (0, 4, 8) for memory_id in ranked_ids(angle_keeper, k=4, skip=skip)] == all_ids


def test_superseded_memory_is_returned_only_with_archived_ones(keeper: Keeper) -> None:
    old = keeper.add("We deploy on Fridays").memory_id
    new = keeper.supersede(old, "We deploy on Mondays")[0].memory_id
    assert [hit.id for hit in keeper.search("when do we deploy on Fridays", k=5)] == [new]
    assert {hit.id for hit in keeper.search("when do we deploy on Fridays", k=5, include_archived=True)} == {old, new}


# ── Match strength ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_match_strength_follows_from_the_score(keeper: Keeper) -> None:
    memory = keeper.get(keeper.add("x").memory_id)

    def hit(score: float) -> Hit:
        return Hit(memory=memory, score=score, similarity=0.5, keyword=0.0, match_type="vector")

    scores = (1.0, STRONG, STRONG - 0.01, LIKELY, LIKELY - 0.01, 0.0)
    assert [hit(score).strength for score in scores] == ["strong", "strong", "likely", "likely", "weak", "weak"]
    assert hit(0.9).as_dict()["strength"] == "strong"
    assert not is_poor_match([])
    assert is_poor_match([hit(0.1), hit(0.0)])
    assert not is_poor_match([hit(0.1), hit(LIKELY)])
