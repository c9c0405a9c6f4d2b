"""Hybrid search: fused, explained, safe, and no worse for either half."""

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


def test_the_seeds_arithmetic_holds() -> None:
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


def test_a_score_does_not_depend_on_what_else_was_found() -> None:
    alone = judge([Candidate(1, 0.8)], Matching((Candidate(1, 3.0),), 3.0), 0.4, 0.55)
    crowd = judge(
        [Candidate(1, 0.8), Candidate(2, 0.99)], Matching((Candidate(1, 3.0), Candidate(2, 9.0)), 3.0), 0.4, 0.55
    )
    score = {each.id: each.fused for each in crowd}
    assert score[1] == alone[0].fused == pytest.approx(0.55 * (0.4 / 0.6) + 0.45 * 0.5)
    assert score[2] > score[1]


def test_a_hit_carries_true_cosine_and_keyword_score_and_says_how_it_was_found(keeper: Keeper) -> None:
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


def test_a_memory_that_only_the_words_find_has_its_true_cosine(keeper: Keeper) -> None:
    keeper.add("yes, do that", context="shall we adopt zirconium?")
    (hit,) = keeper.search("zirconium", k=1)
    assert hit.keyword > 0
    assert hit.similarity == pytest.approx(float(_cosine(keeper, "yes, do that", "zirconium")), abs=1e-5)


def _cosine(keeper: Keeper, one: str, other: str) -> float:
    vectors = keeper.services.shared.encoder.embed([one, other])
    return float(vectors[0] @ vectors[1])


def test_thresholds_hold_for_every_hit_keyword_only_ones_included(keeper: Keeper) -> None:
    keeper.add("yes, do that", context="shall we adopt zirconium?")
    keeper.add("we did adopt zirconium")
    hits = keeper.search("zirconium", threshold=0.3)
    assert [hit.text for hit in hits] == ["we did adopt zirconium"]
    assert all(hit.similarity >= 0.3 for hit in hits)
    best = keeper.search("zirconium")[0].score
    assert keeper.search("zirconium", min_score=min(1.0, best + 0.01)) == []


def test_search_by_vectors_alone_leaves_the_words_out(keeper: Keeper) -> None:
    keeper.add("yes, do that", context="shall we adopt zirconium?")
    (hit,) = keeper.search("zirconium", hybrid=False)
    assert (hit.match_type, hit.keyword) == ("vector", 0.0)


def test_who_and_when_the_query_names_come_first(keeper: Keeper) -> None:
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
def test_may_is_not_always_a_month(keeper: Keeper, text: str) -> None:
    keeper.add(Fact(text="went hiking", created_at="2023-05-08"))
    (hit,) = keeper.search(text, explain=True)
    assert hit.why is not None
    assert "named" not in hit.why.formula


def test_of_equals_the_newer_comes_first(keeper: Keeper) -> None:
    keeper.add_all([Fact(text="we use tabs", source="a"), Fact(text="we use tabs", source="b")])
    assert [hit.memory.source for hit in keeper.search("tabs")] == ["b", "a"]


@pytest.mark.parametrize("speaker", ["", "Ada"])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_pages_follow_each_other_without_gaps_and_end(keeper: Keeper, k: int, speaker: str) -> None:
    for number in range(70):
        who = speaker if number % 3 else ""
        keeper.add(f"host {number} is patched on day {number % 7}", speaker=who, dedup=False)
    how = {"k": k, "log": False}
    pages, skip = list[int](), 0
    while hits := keeper.search("when did Ada say a host is patched?", skip=skip, **how):
        assert len(hits) <= k
        pages += [hit.id for hit in hits]
        skip += k
    assert len(pages) == len(set(pages)) >= 40
    first = keeper.search("when did Ada say a host is patched?", **how)
    assert [hit.id for hit in first] == pages[:k]


def test_what_is_skipped_is_not_counted_as_recalled(keeper: Keeper) -> None:
    for number in range(4):
        keeper.add(f"host {number} is patched")
    (second,) = keeper.search("which host is patched?", k=1, skip=1)
    assert [memory.id for memory in keeper.list().memories if memory.retrieval_count] == [second.id]
    with pytest.raises(InvalidInput, match="skip"):
        keeper.search("which host is patched?", skip=-1)


def test_every_hit_is_counted_and_checks_are_not(keeper: Keeper) -> None:
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
def test_no_query_text_breaks_the_search(keeper: Keeper, text: str) -> None:
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
def test_operators_are_words_like_any_other(keeper: Keeper, text: str) -> None:
    keeper.add("the port is 8080")
    keeper.search(text)
    assert keeper.stats()["memories"] == 1


# ── near-alikes ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Angles(HashEmbedder):
    """Embeds texts at an angle that they name: "… @20" is 20 degrees from the first axis."""

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        made = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(made, texts, strict=True):
            angle = np.radians(float(text.partition("@")[2] or 0))
            row[:2] = np.cos(angle), np.sin(angle)
        return made


@pytest.fixture
def angles() -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), Angles(), clock) as keeper:
        yield keeper


def place(keeper: Keeper, angle: float, created_at: str = "2026-01-01", **about: Any) -> int:
    fact = Fact(text=f"x{keeper.count()} @{angle}", created_at=created_at, **about)
    return keeper.add(fact, dedup=False).memory_id


def ordered(keeper: Keeper, **how: Any) -> list[int]:
    return [hit.id for hit in keeper.search("q @0", hybrid=False, **how)]


def test_newer_of_two_near_alikes_ranks_first(angles: Keeper) -> None:
    new = place(angles, 11, "2026-03-01")
    old = place(angles, 10, "2026-02-01")
    far = place(angles, 80, "2026-04-01")
    assert ordered(angles) == [new, old, far]


def test_memories_that_are_not_alike_keep_their_places(angles: Keeper) -> None:
    old = place(angles, 18, "2026-02-01")
    apart = place(angles, -18.3, "2026-04-01")
    new = place(angles, 18.6, "2026-03-01")
    assert ordered(angles) == [new, apart, old]


@pytest.mark.parametrize("about", [{"project": "p"}, {"visibility": "team"}, {"speaker": "Ada"}, {"source": "codex"}])
def test_memories_of_another_place_do_not_move(angles: Keeper, about: dict[str, str]) -> None:
    old = place(angles, 10, "2026-02-01")
    new = place(angles, 11, "2026-03-01", **about)
    assert ordered(angles) == [old, new]


def test_newer_memory_with_a_clearly_lower_score_stays_behind(angles: Keeper) -> None:
    old, new = place(angles, 0, "2026-02-01"), place(angles, 30, "2026-03-01")
    assert np.cos(np.radians(30)) > NEAR_ALIKE
    assert ordered(angles) == [old, new]
    scores = {old: 0.5, new: 0.5 - ALIKE_WITHIN / 2}
    assert newer_first(scores, angles.services.access.store) == [new, old]


def test_a_memory_goes_before_what_it_probably_replaces(keeper: Keeper) -> None:
    old = keeper.add("We render charts with Datawrapper").memory_id
    other = keeper.add("Charts are in English").memory_id
    new = keeper.add("Everything is rebuilt in Flourish", metadata={MAY_REPLACE: [old]}).memory_id
    assert newer_first({old: 0.6, other: 0.5, new: 0.2}, keeper.services.access.store) == [new, old, other]
    assert newer_first({other: 0.5, new: 0.2}, keeper.services.access.store) == [other, new]


def test_chains_of_near_alikes_are_in_order_pair_by_pair(angles: Keeper) -> None:
    ids = [place(angles, angle, f"2026-0{month}-01") for angle, month in ((0, 1), (25, 3), (50, 2))]
    scores = dict.fromkeys(ids, 0.5)
    assert newer_first(scores, angles.services.access.store) == [ids[1], ids[0], ids[2]]


def test_pages_agree_on_the_order_of_near_alikes(angles: Keeper) -> None:
    for number in range(12):
        place(angles, 10 + number / 10, f"2026-01-{number + 1:02}")
    whole = ordered(angles, k=12)
    assert whole == sorted(whole, reverse=True)
    assert [each for skip in (0, 4, 8) for each in ordered(angles, k=4, skip=skip)] == whole


def test_superseded_memory_is_shown_with_archived_ones_only(keeper: Keeper) -> None:
    old = keeper.add("We deploy on Fridays").memory_id
    new = keeper.supersede(old, "We deploy on Mondays")[0].memory_id
    assert [hit.id for hit in keeper.search("when do we deploy on Fridays", k=5)] == [new]
    assert {hit.id for hit in keeper.search("when do we deploy on Fridays", k=5, include_archived=True)} == {old, new}


# ── strength ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_strength_follows_from_the_score(keeper: Keeper) -> None:
    memory = keeper.get(keeper.add("x").memory_id)

    def hit(score: float) -> Hit:
        return Hit(memory=memory, score=score, similarity=0.5, keyword=0.0, match_type="vector")

    scores = (1.0, STRONG, STRONG - 0.01, LIKELY, LIKELY - 0.01, 0.0)
    assert [hit(each).strength for each in scores] == ["strong", "strong", "likely", "likely", "weak", "weak"]
    assert hit(0.9).as_dict()["strength"] == "strong"
    assert not is_poor_match([])
    assert is_poor_match([hit(0.1), hit(0.0)])
    assert not is_poor_match([hit(0.1), hit(LIKELY)])
