"""The memory map: similar memories are close, the layout is deterministic, and coordinates are always valid."""

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
FILLER_WORDS = "we the team said that it should be checked before anybody changes something there".split()


@pytest.fixture(autouse=True)
def single_threaded() -> Iterator[None]:
    """Use one thread, as the service does: several threads are slower for such small matrices."""
    with one_thread():
        yield


def make_source(vectors: Any, texts: Sequence[str] = (), ids: Sequence[int] = ()) -> MapSource:
    """Return a map source as a store returns it, newest first."""
    vectors = np.asarray(vectors, np.float32)
    count = len(vectors)
    memory_texts = list(texts) or [f"memory {number}" for number in range(count)]
    categories = ["fact"] * count
    return MapSource(
        list(ids) or list(range(count, 0, -1)),
        vectors,
        memory_texts,
        categories,
        [""] * count,
        ["2026-01-01"] * count,
        count,
    )


def make_topics(per_topic: int, seed: int = 3) -> tuple[MapSource, list[str]]:
    """Return shuffled memories of every topic with their topics."""
    random_source = random.Random(seed)
    labelled_texts = [
        (
            topic,
            " ".join(
                random_source.sample(
                    [*random_source.sample(words.split(), 4), *random_source.sample(FILLER_WORDS, 3)], 7
                )
            ),
        )
        for topic, words in TOPICS.items()
        for _ in range(per_topic)
    ]
    random_source.shuffle(labelled_texts)
    topics, texts = [topic for topic, _ in labelled_texts], [text for _, text in labelled_texts]
    return make_source(HashEmbedder().embed(texts, "document"), texts), topics


def clustered_vectors(count: int, dimension: int = 32, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return unit vectors around twelve centers."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((12, dimension))
    vectors = centers[rng.integers(0, 12, count)] + 0.5 * rng.standard_normal((count, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def positions(map_: Map) -> dict[int, tuple[int, int]]:
    """Return the coordinates of each memory by id."""
    return dict(zip(map_.dots.ids, zip(map_.x, map_.y, strict=True), strict=True))


# ── Similarity ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_of_a_topic_are_close_and_apart_from_others() -> None:
    source, topics = make_topics(60)
    map_ = projection.draw_map(source)
    points = np.stack([map_.x, map_.y], axis=1)
    squares = np.square(points[:, None] - points[None]).sum(axis=2).astype(float)
    np.fill_diagonal(squares, np.inf)
    nearest = np.argsort(squares, axis=1)[:, :10]
    is_same_topic = np.array(topics)[nearest] == np.array(topics)[:, None]
    assert is_same_topic.mean() > 0.95


def test_clusters_match_the_topics_and_are_labelled_with_their_words() -> None:
    source, topics = make_topics(80)
    map_ = projection.draw_map(source)
    assert set(range(len(map_.clusters))) <= set(map_.cluster) <= set(range(-1, len(map_.clusters)))
    is_clustered = np.array(map_.cluster) >= 0
    assert is_clustered.mean() > 0.8
    for number, cluster in enumerate(map_.clusters):
        member_topics = [topic for topic, assigned in zip(topics, map_.cluster, strict=True) if assigned == number]
        topic = max(set(member_topics), key=member_topics.count)
        assert member_topics.count(topic) > 0.9 * len(member_topics) == 0.9 * cluster.count
        assert 2 <= len(cluster.words) <= 4
        assert set(cluster.words) <= set(TOPICS[topic].split())  # in their original case, and no filler words
    assert {topics[map_.cluster.index(number)] for number in range(len(map_.clusters))} == set(TOPICS)


def test_cluster_is_located_at_one_of_its_members() -> None:
    map_ = projection.draw_map(make_topics(40)[0])
    assert map_.clusters
    for number, cluster in enumerate(map_.clusters):
        members = {
            position
            for position, assigned in zip(positions(map_).values(), map_.cluster, strict=True)
            if assigned == number
        }
        assert (cluster.x, cluster.y) in members
        assert cluster.count == map_.cluster.count(number)


def test_largest_cluster_comes_first_and_outliers_have_none() -> None:
    rng = np.random.default_rng(1)
    blobs = [rng.normal(center, 150, (size, 2)) for center, size in ((2_000, 300), (5_000, 200), (8_000, 100))]
    points = np.rint(np.concatenate([*blobs, [[9_900, 100], [9_950, 140]]])).astype(np.int64)
    group = find_clusters(points)
    assert [int(np.bincount(group[start:end]).argmax()) for start, end in ((0, 300), (300, 500), (500, 600))] == [
        0,
        1,
        2,
    ]
    assert group[-2:].tolist() == [-1, -1]
    assert np.count_nonzero(group < 0) < 20


def test_overlapping_groups_are_one_cluster() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.normal(5_000, 400, (400, 2)), rng.normal(5_000, 400, (400, 2))
    merged = find_clusters(np.rint(np.concatenate([left, np.add(right, (300, 0))])).astype(np.int64))
    separate = find_clusters(
        np.rint(np.concatenate([np.add(left, (-2_000, 0)), np.add(right, (2_000, 0))])).astype(np.int64)
    )
    assert (merged.max(), separate.max()) == (0, 1)


def test_approximate_neighbours_are_close_to_exact_ones() -> None:
    points = clustered_vectors(FEW + 2_000)
    approximate = neighbours(points, 8).rows
    squares = 2 - 2 * points @ points.T
    np.fill_diagonal(squares, np.inf)
    exact = np.argpartition(squares, 8, axis=1)[:, :8]
    assert not (approximate == np.arange(len(points))[:, None]).any()
    assert (
        np.mean(
            [
                len(set(approximate_row) & set(exact_row)) / 8
                for approximate_row, exact_row in zip(approximate, exact, strict=True)
            ]
        )
        > 0.7
    )


# ── Labels ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_exclude_stop_words_numbers_ids_paths_and_links() -> None:
    junk = (
        "The was it 42 2026-01-02 0412534 deadbeef1 3f2a9c1b7d v3.14.15 src/app/main.py https://docs.internal/x "
        "ann@example.com PROJ-1234 "
    )
    texts = [f"{junk} Postgres vacuum {number}" for number in range(20)] + [f"{junk} espresso beans"] * 20
    assert label_clusters(texts, np.repeat([0, 1], 20)) == [("Postgres", "vacuum"), ("beans", "espresso")]


def test_labels_keep_the_usual_case_of_a_word() -> None:
    texts = ["Deploys of GraphQL wait for CI.", "We like deploys, GraphQL and CI.", "Deploys, CI."] * 5
    others = ["Coffee is brewed again.", "They brewed coffee again."] * 5
    first, second = label_clusters([*texts, *others], np.repeat([0, 1], [15, 10]))
    assert set(first) == {"deploys", "GraphQL", "CI"}
    assert set(second) == {"coffee", "brewed"}


def test_similar_clusters_have_different_labels() -> None:
    texts = ["invoices and refunds"] * 10 + ["invoices and tax"] * 10 + ["pods and rollout"] * 10
    first, second, _ = label_clusters(texts, np.repeat([0, 1, 2], 10))
    assert "refunds" in first
    assert "tax" in second
    assert first != second


@pytest.mark.parametrize("text", ["", "42 17", "the of and", "\x00\ufffd", "記憶は点として描かれます", "a" * 9_000])
def test_clusters_without_words_have_short_or_empty_labels(text: str) -> None:
    (name,) = label_clusters([text] * 6, np.zeros(6, np.int64))
    assert len(" ".join(name)) <= 100


# ── Stability ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_same_memories_give_the_same_map() -> None:
    source, _ = make_topics(50)
    assert projection.draw_map(source).as_dict() == projection.draw_map(source).as_dict()


def test_existing_memories_keep_their_position_when_a_few_change() -> None:
    source, topics = make_topics(50)
    map_before, previous = projection.redraw_map(source, None)
    new_source, new_topics = make_topics(2, seed=9)
    changed = make_source(
        np.concatenate([new_source.vectors, source.vectors[5:]]),
        [*new_source.texts, *source.texts[5:]],
        [*range(2_010, 2_000, -1), *source.ids[5:]],
    )
    map_after, _ = projection.redraw_map(changed, previous)
    positions_before, positions_after = positions(map_before), positions(map_after)
    assert all(positions_after[memory_id] == positions_before[memory_id] for memory_id in source.ids[5:])
    positions_of_topic: dict[str, list[tuple[int, int]]] = {topic: [] for topic in TOPICS}
    for memory_id, topic in zip(source.ids, topics, strict=True):
        if memory_id in positions_after:
            positions_of_topic[topic].append(positions_after[memory_id])
    for memory_id, topic in zip(range(2_010, 2_000, -1), new_topics, strict=True):
        distances = {
            name: np.abs(np.array(topic_positions) - positions_after[memory_id]).sum(axis=1).min()
            for name, topic_positions in positions_of_topic.items()
        }
        assert min(distances, key=lambda name: distances[name]) == topic
    assert len(set(positions_after.values())) == len(positions_after)


def test_map_is_laid_out_again_after_many_changes() -> None:
    source, _ = make_topics(40)
    half = source._replace(**{name: getattr(source, name)[100:] for name in MapSource._fields if name != "total"})
    _, previous = projection.redraw_map(half, None)
    assert projection.redraw_map(source, previous)[0].as_dict() == projection.draw_map(source).as_dict()


def test_small_changes_accumulate_until_a_new_layout() -> None:
    source, _ = make_topics(20)
    previous: PreviousPositions | None = None
    for start in range(50, -1, -5):
        part = source._replace(**{name: getattr(source, name)[start:] for name in MapSource._fields if name != "total"})
        _, previous = projection.redraw_map(part, previous)
        assert previous.changed <= 0.2 * len(part.ids)


def test_memory_with_a_new_text_moves() -> None:
    source, topics = make_topics(50)
    map_before, previous = projection.redraw_map(source, None)
    other = next(index for index, topic in enumerate(topics) if topic != topics[0])
    vectors = source.vectors.copy()
    vectors[0] = vectors[other]
    map_after, _ = projection.redraw_map(source._replace(vectors=vectors), previous)
    moved, target = positions(map_after)[source.ids[0]], positions(map_before)[source.ids[other]]
    assert max(abs(moved[0] - target[0]), abs(moved[1] - target[1])) < 500
    assert {
        memory_id: position for memory_id, position in positions(map_after).items() if memory_id != source.ids[0]
    } == {memory_id: position for memory_id, position in positions(map_before).items() if memory_id != source.ids[0]}


def test_new_embedder_gives_a_new_layout() -> None:
    source, _ = make_topics(10)
    _, previous = projection.redraw_map(source, None)
    narrow = source._replace(vectors=source.vectors[:, :4])
    assert projection.redraw_map(narrow, previous)[0].as_dict() == projection.draw_map(narrow).as_dict()


# ── Any vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────


def check(map_: Map, count: int) -> None:
    """Check that every point is on the square and no two coincide."""
    for values in (map_.x, map_.y, map_.cluster):
        assert len(values) == count
        assert all(type(value) is int for value in values)
    assert all(0 <= coordinate <= SIDE for coordinate in (*map_.x, *map_.y))
    assert all(-1 <= assigned < len(map_.clusters) for assigned in map_.cluster)
    assert len(set(zip(map_.x, map_.y, strict=True))) == count


def test_empty_store_gives_an_empty_map() -> None:
    empty = MapSource((), np.empty((0, 0), np.float32), (), (), (), (), 0)
    map_, previous = projection.redraw_map(empty, None)
    check(map_, 0)
    assert map_.as_dict()["points"]["x"] == []
    check(projection.redraw_map(empty, previous)[0], 0)
    check(projection.redraw_map(make_source(clustered_vectors(5)), previous)[0], 5)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 17])
@pytest.mark.parametrize("dimension", [1, 2, 3, 384])
def test_few_memories_have_valid_coordinates(count: int, dimension: int) -> None:
    check(projection.draw_map(make_source(clustered_vectors(count, dimension))), count)


def test_single_memory_is_in_the_center() -> None:
    map_ = projection.draw_map(make_source(clustered_vectors(1)))
    assert (map_.x, map_.y) == ([SIDE // 2], [SIDE // 2])


@pytest.mark.parametrize("count", [2, 100, FEW + 500])
def test_identical_memories_are_adjacent(count: int) -> None:
    map_ = projection.draw_map(make_source(np.tile(clustered_vectors(1), (count, 1))))
    check(map_, count)
    reach = GAP * count**0.5 + 1
    assert max(abs(coordinate - SIDE / 2) for coordinate in (*map_.x, *map_.y)) <= max(
        reach, SIDE / 2 if count == 2 else 0
    )


def test_duplicates_are_adjacent() -> None:
    vectors = clustered_vectors(400)
    map_ = projection.draw_map(make_source(np.concatenate([vectors, vectors[:40]])))
    check(map_, 440)
    distances = [
        max(abs(map_.x[index] - map_.x[400 + index]), abs(map_.y[index] - map_.y[400 + index])) for index in range(40)
    ]
    assert np.median(distances) < SIDE / 40


def test_outlier_does_not_compress_the_others() -> None:
    coordinates = np.random.default_rng(0).standard_normal((500, 2)).astype(np.float32)
    coordinates[0] = 1e6
    points = fit_to_grid(coordinates.view(np.complex64)[:, 0])
    assert np.ptp(points[1:], axis=0).min() > SIDE / 2
    assert points.min() >= 0
    assert points.max() <= SIDE


vectors_of = st.integers(1, 60).flatmap(
    lambda count: st.lists(
        st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1e-7, 0.25, 1.0]), min_size=4, max_size=4),
        min_size=count,
        max_size=count,
    )
)


@settings(max_examples=30, deadline=None)
@given(rows=vectors_of)
def test_any_vectors_have_valid_stable_coordinates(rows: list[list[float]]) -> None:
    source = make_source(rows)
    map_, previous = projection.redraw_map(source, None)
    check(map_, len(rows))
    second, _ = projection.redraw_map(source, previous)
    assert second.as_dict() == map_.as_dict()


@settings(max_examples=60, deadline=None)
@given(
    coordinates=st.lists(st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)), min_size=1, max_size=40),
    copies=st.integers(1, 9),
)
def test_coinciding_points_are_separated_and_the_first_stays(coordinates: list[tuple[int, int]], copies: int) -> None:
    points = np.array(coordinates * copies, np.int64)
    separated = resolve_overlaps(points)
    first = {position: index for index, position in reversed(list(enumerate(map(tuple, points.tolist()))))}
    assert all(tuple(separated[index]) == position for position, index in first.items())
    assert len({tuple(point) for point in separated.tolist()}) == len(points)
    assert separated.min() >= 0
    assert separated.max() <= SIDE


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=30))
def test_any_texts_give_valid_labels(texts: list[str]) -> None:
    group = np.arange(len(texts)) % 3 - 1
    labels = label_clusters(texts, group)
    assert len(labels) == group.max() + 1
    assert all(len(label) <= 4 for label in labels)


# ── Cache ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class CountingRenderer:
    """Draw a fixed map and count the calls."""

    def __init__(self, count: int = 5) -> None:
        self.draw_count, self._dots = 0, make_source(clustered_vectors(count))

    def __call__(self, previous: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
        self.draw_count += 1
        return projection.redraw_map(self._dots, previous)


def test_map_is_drawn_again_after_a_change_and_after_expiry() -> None:
    now = [0.0]
    cache, draw = MapCache(fresh=60, ticks=lambda: now[0]), CountingRenderer()
    assert cache.map("all", 1, draw) is cache.map("all", 1, draw)
    assert draw.draw_count == 1
    cache.map("all", 2, draw)
    cache.map("all", 1, draw)  # requested before, answered after the newer one
    assert draw.draw_count == 2
    now[0] = 61
    cache.map("all", 2, draw)
    assert draw.draw_count == 3


def test_cache_holds_a_few_maps_separately() -> None:
    cache, renderers = (
        MapCache(held=2),
        {name: CountingRenderer(count) for name, count in (("a", 4), ("b", 5), ("c", 6))},
    )
    for name in ("a", "b", "a", "c", "a"):
        assert len(cache.map(name, 1, renderers[name]).x) == {"a": 4, "b": 5, "c": 6}[name]
    assert {name: renderer.draw_count for name, renderer in renderers.items()} == {"a": 1, "b": 1, "c": 1}
    cache.map("b", 1, renderers["b"])
    assert renderers["b"].draw_count == 2


def test_concurrent_requests_wait_for_one_drawing() -> None:
    cache, started, may_finish, renderer = MapCache(), threading.Event(), threading.Event(), CountingRenderer()

    def draw_slowly(previous: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
        started.set()
        assert may_finish.wait(30)
        return renderer(previous)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(cache.map, "all", 1, draw_slowly) for _ in range(4)]
        assert started.wait(30)
        assert len(cache.map("another", 1, CountingRenderer(3)).x) == 3  # another map does not wait
        may_finish.set()
        assert len({id(future.result(30)) for future in futures}) == 1
    assert renderer.draw_count == 1


def test_failed_drawing_is_retried() -> None:
    cache, draw = MapCache(), CountingRenderer()

    def fail_to_draw(_: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
        raise OSError

    with pytest.raises(OSError):
        cache.map("all", 1, fail_to_draw)
    assert len(cache.map("all", 1, draw).x) == 5
