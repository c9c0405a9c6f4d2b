"""The map: like beside like, the same for the same memories, and whole numbers on the square whatever the vectors."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.dashboard import projection
from cofio.dashboard.projection import MapCache, PreviousPositions
from cofio.dashboard.projection.cluster_labels import label_clusters
from cofio.dashboard.projection.clusters import find_clusters
from cofio.dashboard.projection.grid import GAP, fit_to_grid, resolve_overlaps
from cofio.dashboard.projection.neighbours import FEW, neighbours
from cofio.models.dashboard import SIDE, Map, MapSource
from cofio.stores.sqlite.blas import one_thread
from cofio.testing import HashEmbedder

TOPICS = {
    "billing": "invoices refunds Stripe subscription tax customers payment",
    "deploys": "Kubernetes rollout canary staging cluster Helm pods",
    "search": "index ranking BM25 query tokens relevance synonyms",
    "mobile": "Android Swift screens push notification simulator crash",
    "hiring": "interview candidate offer recruiter salary onboarding feedback",
}
FILLING = "we the team said that it should be checked before anybody changes something there".split()


@pytest.fixture(autouse=True)
def as_the_service_does() -> Iterator[None]:
    """On one thread: several of them wait for each other longer than such small products take."""
    with one_thread():
        yield


def dots(vectors: Any, texts: Sequence[str] = (), ids: Sequence[int] = ()) -> MapSource:
    """These, as a store would give them: newest first."""
    vectors = np.asarray(vectors, np.float32)
    count = len(vectors)
    said = list(texts) or [f"memory {number}" for number in range(count)]
    many = ["fact"] * count
    return MapSource(
        list(ids) or list(range(count, 0, -1)), vectors, said, many, [""] * count, ["2026-01-01"] * count, count
    )


def topical(each: int, seed: int = 3) -> tuple[MapSource, list[str]]:
    """So many memories of each topic, all mixed, with their topics."""
    chance = random.Random(seed)
    said = [
        (topic, " ".join(chance.sample([*chance.sample(words.split(), 4), *chance.sample(FILLING, 3)], 7)))
        for topic, words in TOPICS.items()
        for _ in range(each)
    ]
    chance.shuffle(said)
    topics, texts = [topic for topic, _ in said], [text for _, text in said]
    return dots(HashEmbedder().embed(texts, "document"), texts), topics


def scattered(count: int, dimension: int = 32, seed: int = 0) -> np.ndarray[Any, Any]:
    """Unit vectors around a few middles."""
    rng = np.random.default_rng(seed)
    middles = rng.standard_normal((12, dimension))
    vectors = middles[rng.integers(0, 12, count)] + 0.5 * rng.standard_normal((count, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def spots(drawn: Map) -> dict[int, tuple[int, int]]:
    """Where each memory lies, by its id."""
    return dict(zip(drawn.dots.ids, zip(drawn.x, drawn.y, strict=True), strict=True))


# ── like beside like ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_of_a_topic_lie_together_and_apart_from_the_others() -> None:
    given_, topics = topical(60)
    drawn = projection.draw_map(given_)
    places = np.stack([drawn.x, drawn.y], axis=1)
    squares = np.square(places[:, None] - places[None]).sum(axis=2).astype(float)
    np.fill_diagonal(squares, np.inf)
    nearest = np.argsort(squares, axis=1)[:, :10]
    alike = np.array(topics)[nearest] == np.array(topics)[:, None]
    assert alike.mean() > 0.95


def test_clusters_are_the_topics_and_are_named_by_their_words() -> None:
    given_, topics = topical(80)
    drawn = projection.draw_map(given_)
    assert set(range(len(drawn.clusters))) <= set(drawn.cluster) <= set(range(-1, len(drawn.clusters)))
    in_one = np.array(drawn.cluster) >= 0
    assert in_one.mean() > 0.8
    for number, cluster in enumerate(drawn.clusters):
        of = [topic for topic, each in zip(topics, drawn.cluster, strict=True) if each == number]
        topic = max(set(of), key=of.count)
        assert of.count(topic) > 0.9 * len(of) == 0.9 * cluster.count
        assert 2 <= len(cluster.words) <= 4
        assert set(cluster.words) <= set(TOPICS[topic].split())  # as they are written, and nothing that fills
    assert {topics[drawn.cluster.index(number)] for number in range(len(drawn.clusters))} == set(TOPICS)


def test_a_cluster_stands_on_one_of_its_members() -> None:
    drawn = projection.draw_map(topical(40)[0])
    assert drawn.clusters
    for number, cluster in enumerate(drawn.clusters):
        members = {spot for spot, of in zip(spots(drawn).values(), drawn.cluster, strict=True) if of == number}
        assert (cluster.x, cluster.y) in members
        assert cluster.count == drawn.cluster.count(number)


def test_the_largest_cluster_comes_first_and_a_few_strays_are_none() -> None:
    rng = np.random.default_rng(1)
    heaps = [rng.normal(middle, 150, (size, 2)) for middle, size in ((2_000, 300), (5_000, 200), (8_000, 100))]
    places = np.rint(np.concatenate([*heaps, [[9_900, 100], [9_950, 140]]])).astype(np.int64)
    group = find_clusters(places)
    assert [int(np.bincount(group[start:end]).argmax()) for start, end in ((0, 300), (300, 500), (500, 600))] == [
        0,
        1,
        2,
    ]
    assert group[-2:].tolist() == [-1, -1]
    assert np.count_nonzero(group < 0) < 20


def test_two_heaps_with_no_valley_between_them_are_one() -> None:
    rng = np.random.default_rng(1)
    near, far = rng.normal(5_000, 400, (400, 2)), rng.normal(5_000, 400, (400, 2))
    one = find_clusters(np.rint(np.concatenate([near, np.add(far, (300, 0))])).astype(np.int64))
    two = find_clusters(np.rint(np.concatenate([np.add(near, (-2_000, 0)), np.add(far, (2_000, 0))])).astype(np.int64))
    assert (one.max(), two.max()) == (0, 1)


def test_neighbours_among_many_are_nearly_those_of_everybody() -> None:
    points = scattered(FEW + 2_000)
    found = neighbours(points, 8).rows
    squares = 2 - 2 * points @ points.T
    np.fill_diagonal(squares, np.inf)
    true = np.argpartition(squares, 8, axis=1)[:, :8]
    assert not (found == np.arange(len(points))[:, None]).any()
    assert np.mean([len(set(some) & set(all_)) / 8 for some, all_ in zip(found, true, strict=True)]) > 0.7


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_have_no_stop_words_numbers_ids_paths_or_links() -> None:
    junk = (
        "The was it 42 2026-01-02 0412534 deadbeef1 3f2a9c1b7d v3.14.15 src/app/main.py https://docs.internal/x "
        "ann@example.com PROJ-1234 "
    )
    texts = [f"{junk} Postgres vacuum {number}" for number in range(20)] + [f"{junk} espresso beans"] * 20
    assert label_clusters(texts, np.repeat([0, 1], 20)) == [("Postgres", "vacuum"), ("beans", "espresso")]


def test_names_are_written_as_the_words_are_and_not_as_sentences_begin() -> None:
    texts = ["Deploys of GraphQL wait for CI.", "We like deploys, GraphQL and CI.", "Deploys, CI."] * 5
    others = ["Coffee is brewed again.", "They brewed coffee again."] * 5
    first, second = label_clusters([*texts, *others], np.repeat([0, 1], [15, 10]))
    assert set(first) == {"deploys", "GraphQL", "CI"}
    assert set(second) == {"coffee", "brewed"}


def test_two_groups_about_the_same_thing_have_different_names() -> None:
    texts = ["invoices and refunds"] * 10 + ["invoices and tax"] * 10 + ["pods and rollout"] * 10
    first, second, _ = label_clusters(texts, np.repeat([0, 1, 2], 10))
    assert "refunds" in first
    assert "tax" in second
    assert first != second


@pytest.mark.parametrize("text", ["", "42 17", "the of and", "\x00\ufffd", "記憶は点として描かれます", "a" * 9_000])
def test_groups_without_words_have_short_names_or_none(text: str) -> None:
    (name,) = label_clusters([text] * 6, np.zeros(6, np.int64))
    assert len(" ".join(name)) <= 100


# ── the same again ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_memories_give_the_same_map() -> None:
    given_, _ = topical(50)
    assert projection.draw_map(given_).as_dict() == projection.draw_map(given_).as_dict()


def test_those_that_are_there_stay_when_a_few_come_and_go() -> None:
    given_, topics = topical(50)
    before, ground = projection.redraw_map(given_, None)
    fresh, new_topics = topical(2, seed=9)
    later = dots(
        np.concatenate([fresh.vectors, given_.vectors[5:]]),
        [*fresh.texts, *given_.texts[5:]],
        [*range(2_010, 2_000, -1), *given_.ids[5:]],
    )
    after, _ = projection.redraw_map(later, ground)
    old, new = spots(before), spots(after)
    assert all(new[each] == old[each] for each in given_.ids[5:])
    of = {topic: [new[each] for each, own in zip(given_.ids, topics, strict=True) if own == topic and each in new]
          for topic in TOPICS}  # fmt: skip
    for each, topic in zip(range(2_010, 2_000, -1), new_topics, strict=True):
        ways = {one: np.abs(np.array(places) - new[each]).sum(axis=1).min() for one, places in of.items()}
        assert min(ways, key=lambda one: ways[one]) == topic
    assert len(set(new.values())) == len(new)


def test_the_map_is_laid_out_anew_when_many_have_come() -> None:
    given_, _ = topical(40)
    half = given_._replace(**{name: getattr(given_, name)[100:] for name in MapSource._fields if name != "total"})
    _, ground = projection.redraw_map(half, None)
    assert projection.redraw_map(given_, ground)[0].as_dict() == projection.draw_map(given_).as_dict()


def test_changes_add_up_until_it_is_laid_out_anew() -> None:
    given_, _ = topical(20)
    ground: PreviousPositions | None = None
    for start in range(50, -1, -5):
        some = given_._replace(**{name: getattr(given_, name)[start:] for name in MapSource._fields if name != "total"})
        _, ground = projection.redraw_map(some, ground)
        assert ground.changed <= 0.2 * len(some.ids)


def test_a_memory_that_says_something_else_lies_somewhere_else() -> None:
    given_, topics = topical(50)
    before, ground = projection.redraw_map(given_, None)
    other = next(place for place, topic in enumerate(topics) if topic != topics[0])
    vectors = given_.vectors.copy()
    vectors[0] = vectors[other]
    after, _ = projection.redraw_map(given_._replace(vectors=vectors), ground)
    moved, there = spots(after)[given_.ids[0]], spots(before)[given_.ids[other]]
    assert max(abs(moved[0] - there[0]), abs(moved[1] - there[1])) < 500
    assert {each: spot for each, spot in spots(after).items() if each != given_.ids[0]} == {
        each: spot for each, spot in spots(before).items() if each != given_.ids[0]
    }


def test_another_embedder_is_another_map() -> None:
    given_, _ = topical(10)
    _, ground = projection.redraw_map(given_, None)
    narrow = given_._replace(vectors=given_.vectors[:, :4])
    assert projection.redraw_map(narrow, ground)[0].as_dict() == projection.draw_map(narrow).as_dict()


# ── whatever the vectors ──────────────────────────────────────────────────────────────────────────────────────────────


def check(drawn: Map, count: int) -> None:
    """Every point is on the square, and no two are on one spot."""
    for values in (drawn.x, drawn.y, drawn.cluster):
        assert len(values) == count
        assert all(type(value) is int for value in values)
    assert all(0 <= each <= SIDE for each in (*drawn.x, *drawn.y))
    assert all(-1 <= each < len(drawn.clusters) for each in drawn.cluster)
    assert len(set(zip(drawn.x, drawn.y, strict=True))) == count


def test_no_memories_are_an_empty_map() -> None:
    none = MapSource((), np.empty((0, 0), np.float32), (), (), (), (), 0)
    drawn, ground = projection.redraw_map(none, None)
    check(drawn, 0)
    assert drawn.as_dict()["points"]["x"] == []
    check(projection.redraw_map(none, ground)[0], 0)
    check(projection.redraw_map(dots(scattered(5)), ground)[0], 5)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 17])
@pytest.mark.parametrize("dimension", [1, 2, 3, 384])
def test_few_memories_have_places(count: int, dimension: int) -> None:
    check(projection.draw_map(dots(scattered(count, dimension))), count)


def test_one_memory_lies_in_the_middle() -> None:
    drawn = projection.draw_map(dots(scattered(1)))
    assert (drawn.x, drawn.y) == ([SIDE // 2], [SIDE // 2])


@pytest.mark.parametrize("count", [2, 100, FEW + 500])
def test_memories_that_are_all_the_same_lie_beside_each_other(count: int) -> None:
    drawn = projection.draw_map(dots(np.tile(scattered(1), (count, 1))))
    check(drawn, count)
    reach = GAP * count**0.5 + 1
    assert max(abs(each - SIDE / 2) for each in (*drawn.x, *drawn.y)) <= max(reach, SIDE / 2 if count == 2 else 0)


def test_doubles_lie_beside_each_other() -> None:
    vectors = scattered(400)
    drawn = projection.draw_map(dots(np.concatenate([vectors, vectors[:40]])))
    check(drawn, 440)
    ways = [max(abs(drawn.x[at] - drawn.x[400 + at]), abs(drawn.y[at] - drawn.y[400 + at])) for at in range(40)]
    assert np.median(ways) < SIDE / 40


def test_one_far_away_does_not_press_the_others_together() -> None:
    spots_ = np.random.default_rng(0).standard_normal((500, 2)).astype(np.float32)
    spots_[0] = 1e6
    places = fit_to_grid(spots_.view(np.complex64)[:, 0])
    assert np.ptp(places[1:], axis=0).min() > SIDE / 2
    assert places.min() >= 0
    assert places.max() <= SIDE


vectors_of = st.integers(1, 60).flatmap(
    lambda count: st.lists(
        st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1e-7, 0.25, 1.0]), min_size=4, max_size=4),
        min_size=count,
        max_size=count,
    )
)


@settings(max_examples=30, deadline=None)
@given(rows=vectors_of)
def test_any_vectors_have_places_and_stay_there(rows: list[list[float]]) -> None:
    given_ = dots(rows)
    drawn, ground = projection.redraw_map(given_, None)
    check(drawn, len(rows))
    again, _ = projection.redraw_map(given_, ground)
    assert again.as_dict() == drawn.as_dict()


@settings(max_examples=60, deadline=None)
@given(
    places=st.lists(st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)), min_size=1, max_size=40),
    copies=st.integers(1, 9),
)
def test_what_lies_on_one_spot_is_put_apart_and_the_first_stays(places: list[tuple[int, int]], copies: int) -> None:
    given_ = np.array(places * copies, np.int64)
    found = resolve_overlaps(given_)
    first = {spot: at for at, spot in reversed(list(enumerate(map(tuple, given_.tolist()))))}
    assert all(tuple(found[at]) == spot for spot, at in first.items())
    assert len({tuple(each) for each in found.tolist()}) == len(given_)
    assert found.min() >= 0
    assert found.max() <= SIDE


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=30))
def test_any_texts_make_names(texts: list[str]) -> None:
    group = np.arange(len(texts)) % 3 - 1
    found = label_clusters(texts, group)
    assert len(found) == group.max() + 1
    assert all(len(name) <= 4 for name in found)


# ── the atlas ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Draughtsman:
    """Draws what it is given, and counts."""

    def __init__(self, count: int = 5) -> None:
        self.drew, self._dots = 0, dots(scattered(count))

    def __call__(self, before: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
        self.drew += 1
        return projection.redraw_map(self._dots, before)


def test_a_map_is_drawn_again_after_a_change_and_after_a_while() -> None:
    now = [0.0]
    atlas, draw = MapCache(fresh=60, ticks=lambda: now[0]), Draughtsman()
    assert atlas.map("all", 1, draw) is atlas.map("all", 1, draw)
    assert draw.drew == 1
    atlas.map("all", 2, draw)
    atlas.map("all", 1, draw)  # asked before the other, answered after it
    assert draw.drew == 2
    now[0] = 61
    atlas.map("all", 2, draw)
    assert draw.drew == 3


def test_maps_of_different_things_are_kept_apart_and_only_a_few() -> None:
    atlas, drawing = MapCache(held=2), {name: Draughtsman(count) for name, count in (("a", 4), ("b", 5), ("c", 6))}
    for name in ("a", "b", "a", "c", "a"):
        assert len(atlas.map(name, 1, drawing[name]).x) == {"a": 4, "b": 5, "c": 6}[name]
    assert {name: each.drew for name, each in drawing.items()} == {"a": 1, "b": 1, "c": 1}
    atlas.map("b", 1, drawing["b"])
    assert drawing["b"].drew == 2


def test_who_asks_while_a_map_is_drawn_waits_for_it() -> None:
    atlas, begun, go_on, plain = MapCache(), threading.Event(), threading.Event(), Draughtsman()

    def slow(before: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
        begun.set()
        assert go_on.wait(30)
        return plain(before)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(atlas.map, "all", 1, slow) for _ in range(4)]
        assert begun.wait(30)
        assert len(atlas.map("another", 1, Draughtsman(3)).x) == 3  # and who asks for another does not
        go_on.set()
        assert len({id(each.result(30)) for each in asked}) == 1
    assert plain.drew == 1


def test_a_map_that_could_not_be_drawn_is_tried_again() -> None:
    atlas, draw = MapCache(), Draughtsman()

    def broken(_: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
        raise OSError

    with pytest.raises(OSError):
        atlas.map("all", 1, broken)
    assert len(atlas.map("all", 1, draw).x) == 5
