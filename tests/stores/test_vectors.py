"""The vector index compared with a reference implementation: a sorted dict of vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from cofio.stores.sqlite import blas, knn_blocks
from cofio.stores.sqlite.vector_index import VectorIndex

Floats = NDArray[np.float32]

TOLERANCE = 2e-6


def normalize(matrix: NDArray[Any]) -> Floats:
    return np.asarray(matrix / np.linalg.norm(matrix, axis=-1, keepdims=True), np.float32)


def random_vectors(count: int, dimension: int, seed: int = 0) -> Floats:
    return normalize(np.random.default_rng(seed).standard_normal((count, dimension)))


def clustered_vectors(count: int, dimension: int, seed: int = 0) -> Floats:
    """Return vectors like those of embedders: a common mean, clusters and decreasing variances."""
    rng = np.random.default_rng(seed)
    spread = np.arange(1, dimension + 1) ** -0.7
    mirror = random_vectors(1, dimension, seed=99)[0]  # so that the dominant directions are not the first axes
    centres = rng.standard_normal((max(count // 20, 1), dimension)) * spread
    noise = rng.standard_normal((count, dimension)) * spread
    matrix = spread + centres[rng.integers(0, len(centres), count)] + 0.5 * noise
    return normalize(matrix - 2 * np.outer(matrix @ mirror, mirror))


def build_index(matrix: Floats, *, large: int = 16_384) -> VectorIndex:
    """Return an index of these vectors with ids from 1, all live."""
    vectors = VectorIndex(matrix.shape[1], large=large)
    vectors.load(np.arange(1, len(matrix) + 1), matrix, np.ones(len(matrix), np.bool_))
    return vectors


def put(vectors: VectorIndex, memory_id: int, vector: Floats, live: bool = True) -> None:
    vectors.put_many([memory_id], vector[np.newaxis], live)


def get(vectors: VectorIndex, memory_id: int) -> Floats | None:
    stored = vectors.many([memory_id])[1]
    return stored[0] if len(stored) else None


def mark(vectors: VectorIndex, memory_id: int, live: bool) -> None:
    vector = get(vectors, memory_id)
    if vector is not None:
        put(vectors, memory_id, vector, live)


def are_equal(actual: Floats | None, expected: Floats) -> bool:
    return actual is not None and np.array_equal(actual, expected)


def is_compressed(vectors: VectorIndex) -> bool:
    return vectors._snapshot.heads is not None


def recall(vectors: VectorIndex, matrix: Floats, queries: Floats, k: int = 10) -> float:
    """Return the fraction of the true k nearest vectors that the index finds, for ids from 1."""
    hits = 0
    for query in queries:
        last = np.sort(matrix @ query)[-k]
        hits += int((vectors.nearest(query, k)[1] >= last - TOLERANCE).sum())
    return hits / (k * len(queries))


def rank_by_cosine(vectors: dict[int, Floats], query: Floats, ids: Iterable[int]) -> list[tuple[int, float]]:
    """Return ids by descending cosine. Equal vectors are sorted by id."""
    scored = [(memory_id, float(vectors[memory_id].astype(np.float64) @ query.astype(np.float64))) for memory_id in ids]
    return sorted(scored, key=lambda each: (-round(each[1], 9), each[0]))


def assert_same(actual: tuple[NDArray[np.int64], Floats], expected: list[tuple[int, float]]) -> None:
    """Check for the same cosines in the same order. Ids may differ only within rounding errors."""
    ids, cosines = actual
    assert len(set(ids.tolist())) == len(ids) == len(expected)
    assert cosines == pytest.approx([cosine for _, cosine in expected], abs=TOLERANCE)
    assert (np.diff(cosines) <= 0).all()


# A small set of directions, so that equal vectors and equal cosines are frequent.
DIRECTIONS = np.concatenate([random_vectors(5, 8), np.eye(8, dtype=np.float32)[:3]])
IDS = st.integers(1, 40)
DIRECTION_INDEXES = st.integers(0, len(DIRECTIONS) - 1)


class IndexMachine(RuleBasedStateMachine):
    """Apply random changes to the index and to a dict, and compare the results."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = VectorIndex(8)
        self.expected_vectors: dict[int, Floats] = {}
        self.live: set[int] = set()

    def set_expected(self, memory_id: int, which: int, live: bool) -> None:
        self.expected_vectors[memory_id] = DIRECTIONS[which]
        (self.live.add if live else self.live.discard)(memory_id)

    @initialize(content=st.dictionaries(IDS, st.tuples(DIRECTION_INDEXES, st.booleans())))
    def load(self, content: dict[int, tuple[int, bool]]) -> None:
        which = [each for each, _ in content.values()]
        live = np.array([each for _, each in content.values()], np.bool_)
        self.vectors.load(np.array(list(content), np.int64), DIRECTIONS[which], live)
        for memory_id, (each, alive) in content.items():
            self.set_expected(memory_id, each, alive)

    @rule(memory_id=IDS, which=DIRECTION_INDEXES, live=st.booleans())
    def put(self, memory_id: int, which: int, live: bool) -> None:
        put(self.vectors, memory_id, DIRECTIONS[which], live)
        self.set_expected(memory_id, which, live)

    @rule(many=st.lists(st.tuples(IDS, DIRECTION_INDEXES, st.booleans()), max_size=30))
    def put_many(self, many: list[tuple[int, int, bool]]) -> None:
        live = np.array([each for _, _, each in many], np.bool_)
        self.vectors.put_many([each for each, _, _ in many], DIRECTIONS[[each for _, each, _ in many]], live)
        for item in many:
            self.set_expected(*item)

    @rule(memory_id=IDS)
    def drop(self, memory_id: int) -> None:
        self.vectors.drop(memory_id)
        self.expected_vectors.pop(memory_id, None)
        self.live.discard(memory_id)

    @rule(memory_id=IDS, live=st.booleans())
    def mark(self, memory_id: int, live: bool) -> None:
        mark(self.vectors, memory_id, live)
        if memory_id in self.expected_vectors:
            (self.live.add if live else self.live.discard)(memory_id)

    @rule(which=DIRECTION_INDEXES, k=st.integers(0, 50), archived=st.booleans(), within=st.none() | st.lists(IDS))
    def search(self, which: int, k: int, archived: bool, within: list[int] | None) -> None:
        query = DIRECTIONS[which]
        request = None if within is None else np.array(within, np.int64)
        results = self.vectors.nearest(query, k, archived=archived, within=request)
        allowed = (self.expected_vectors.keys() if archived else self.live) & (
            self.expected_vectors.keys() if within is None else set(within)
        )
        expected = rank_by_cosine(self.expected_vectors, query, allowed)[:k]
        assert_same(results, expected)
        # These vectors are either equal or clearly different, so even the ids must agree.
        assert results[0].tolist() == [each for each, _ in expected]

    @rule(which=DIRECTION_INDEXES, ids=st.lists(IDS))
    def compare_cosines(self, which: int, ids: list[int]) -> None:
        expected = {
            memory_id: float(self.expected_vectors[memory_id] @ DIRECTIONS[which])
            for memory_id in ids
            if memory_id in self.expected_vectors
        }
        assert self.vectors.cosines(DIRECTIONS[which], ids) == pytest.approx(expected, abs=TOLERANCE)

    @rule(ids=st.lists(IDS), within=st.none() | st.lists(IDS))
    def compare_many(self, ids: list[int], within: list[int] | None) -> None:
        found, matrix = self.vectors.many(ids)
        assert found.tolist() == [memory_id for memory_id in ids if memory_id in self.expected_vectors]
        assert all(
            are_equal(row, self.expected_vectors[each]) for each, row in zip(found.tolist(), matrix, strict=True)
        )
        request = None if within is None else np.array(within, np.int64)
        expected = self.live if within is None else self.live & set(within)
        assert self.vectors.live(request).tolist() == sorted(expected, reverse=True)

    @invariant()
    def vectors_are_equal(self) -> None:
        assert len(self.vectors) == len(self.expected_vectors)
        for memory_id in range(42):
            found, expected = get(self.vectors, memory_id), self.expected_vectors.get(memory_id)
            assert (expected is not None) == (found is not None)
            if expected is not None:
                assert are_equal(found, expected)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_empty_index_returns_nothing() -> None:
    vectors, query = VectorIndex(4), random_vectors(1, 4)[0]
    ids, cosines = vectors.nearest(query, 5, within=np.array([1, 2]))
    assert [str(ids.dtype), str(cosines.dtype)] == ["int64", "float32"]
    assert (ids.size, cosines.size) == (0, 0)
    assert vectors.cosines(query, [1]) == {}
    assert list(vectors.pairs(0.0)) == []
    assert get(vectors, 1) is None
    assert len(vectors) == 0


def test_many_returns_vectors_in_requested_order() -> None:
    matrix = random_vectors(5_000, 8)
    vectors = build_index(matrix)
    vectors.drop(7)
    requested = np.random.default_rng(1).permutation(np.arange(-3, 6_000))
    ids, vectors_found = vectors.many(requested)
    assert ids.tolist() == [item for item in requested.tolist() if 1 <= item <= 5_000 and item != 7]
    assert np.array_equal(vectors_found, matrix[ids - 1])


def test_drop_and_mark_of_unknown_id_change_nothing() -> None:
    vectors = build_index(random_vectors(3, 4))
    vectors.drop(9)
    mark(vectors, 9, live=False)
    assert len(vectors) == 3


def test_k_beyond_the_size_returns_all_vectors() -> None:
    matrix = random_vectors(7, 4)
    ids, _ = build_index(matrix).nearest(matrix[0], 100)
    assert sorted(ids.tolist()) == [1, 2, 3, 4, 5, 6, 7]


def test_equal_vectors_are_ordered_by_id() -> None:
    matrix, query = np.repeat(random_vectors(1, 384), 1003, axis=0), random_vectors(1, 384, seed=1)[0]
    vectors = VectorIndex(384)
    ids = np.random.default_rng(0).permutation(1003)
    vectors.load(ids, matrix, np.ones(1003, np.bool_))
    assert vectors.nearest(query, 10)[0].tolist() == list(range(10))
    assert vectors.nearest(query, 3, within=np.array([900, 17, 500, 17]))[0].tolist() == [17, 500, 900]


@pytest.mark.parametrize("dimension", [5, 8, 13, 100, 385])
def test_last_place_among_equal_vectors_goes_to_the_lowest_id(dimension: int) -> None:
    # BLAS rounds the rows of full blocks and the remaining rows differently.
    for count in range(2, 40):
        vectors = build_index(np.repeat(random_vectors(1, dimension), count, axis=0))
        assert vectors.nearest(random_vectors(1, dimension, seed=count)[0], 1)[0].tolist() == [1]


def test_equal_vectors_are_ordered_by_id_in_a_compressed_index() -> None:
    matrix = np.repeat(clustered_vectors(500, 256), 8, axis=0)
    vectors = build_index(matrix, large=200)
    assert is_compressed(vectors)
    for position in range(0, 4000, 400):
        assert vectors.nearest(matrix[position], 5)[0].tolist() == [
            position + 1,
            position + 2,
            position + 3,
            position + 4,
            position + 5,
        ]


@pytest.mark.parametrize("vector", [np.full(4, np.nan), np.array([1, 0, np.inf, 0]), np.ones(3), np.ones((2, 4))])
def test_invalid_vector_is_rejected_and_changes_nothing(vector: NDArray[Any]) -> None:
    vectors = build_index(random_vectors(3, 4))
    with pytest.raises(ValueError, match="vector"):
        put(vectors, 1, vector)
    with pytest.raises(ValueError, match="vector"):
        vectors.nearest(vector, 1)
    assert len(vectors) == 3
    assert are_equal(get(vectors, 1), random_vectors(3, 4)[0])


def test_duplicate_id_in_load_is_rejected() -> None:
    with pytest.raises(ValueError, match="Duplicate"):
        VectorIndex(4).load(np.array([1, 1]), random_vectors(2, 4), np.ones(2, np.bool_))


def test_load_replaces_the_content() -> None:
    vectors = build_index(clustered_vectors(600, 256), large=200)
    vectors.load(np.array([7]), random_vectors(1, 256), np.array([False]))
    assert len(vectors) == 1
    assert get(vectors, 1) is None
    assert not is_compressed(vectors)
    assert vectors.nearest(random_vectors(1, 256)[0], 5)[0].tolist() == []
    assert vectors.nearest(random_vectors(1, 256)[0], 5, archived=True)[0].tolist() == [7]


def test_loaded_matrix_is_not_modified() -> None:
    matrix = random_vectors(10, 4)
    before = matrix.copy()
    matrix.flags.writeable = False
    vectors = build_index(matrix)
    for memory_id in range(1, 30):
        put(vectors, memory_id, random_vectors(1, 4, seed=memory_id)[0])
    vectors.drop(3)
    assert np.array_equal(matrix, before)


@pytest.mark.parametrize("dimension", [256, 384, 3072])
def test_large_index_is_compressed_with_high_recall(dimension: int) -> None:
    matrix = clustered_vectors(3000, dimension)
    vectors = build_index(matrix[:2900], large=200)
    assert is_compressed(vectors)
    assert recall(vectors, matrix[:2900], matrix[2900:]) >= 0.99


def test_compressed_index_returns_exact_cosines() -> None:
    matrix = clustered_vectors(4000, 384)
    vectors = build_index(matrix, large=200)
    ids, cosines = vectors.nearest(matrix[5], 10)
    assert cosines == pytest.approx(matrix[ids - 1] @ matrix[5], abs=TOLERANCE)
    assert are_equal(get(vectors, 6), matrix[5])


def test_vectors_without_dominant_directions_are_searched_exactly() -> None:
    matrix = random_vectors(4000, 256)
    vectors = build_index(matrix, large=200)
    assert not is_compressed(vectors)
    assert recall(vectors, matrix, random_vectors(50, 256, seed=1)) == 1.0


def test_compressed_index_is_exact_for_large_k() -> None:
    matrix, query = clustered_vectors(1000, 256), random_vectors(1, 256, seed=3)[0]
    vectors = build_index(matrix, large=200)
    assert is_compressed(vectors)
    vectors_by_id = {each + 1: vector for each, vector in enumerate(matrix)}
    for k in (300, 999, 1000, 5000):
        assert_same(vectors.nearest(query, k), rank_by_cosine(vectors_by_id, query, vectors_by_id)[:k])


def test_compressed_index_returns_archived_vectors_only_on_request() -> None:
    matrix = clustered_vectors(3000, 256)
    vectors = build_index(matrix, large=200)
    first = vectors.nearest(matrix[0], 5)[0].tolist()
    mark(vectors, first[0], live=False)
    vectors.drop(first[1])
    assert vectors.nearest(matrix[0], 3)[0].tolist() == first[2:]
    assert vectors.nearest(matrix[0], 4, archived=True)[0].tolist() == [first[0], *first[2:]]


@given(size=st.sampled_from([0, 1, 7, 150, 600, 1500, 2900, 3000]), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_search_within_ids_returns_only_those(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    within = rng.choice(np.arange(1, 4001), size, replace=False)
    matrix, vectors = large_index()
    vectors_by_id = {int(item): matrix[item - 1] for item in within if item <= len(matrix)}
    query = matrix[seed]
    ids, cosines = vectors.nearest(query, 5, within=within)
    assert set(ids.tolist()) <= vectors_by_id.keys()
    assert_same((ids, cosines), rank_by_cosine(vectors_by_id, query, vectors_by_id)[:5])


@cache
def large_index() -> tuple[Floats, VectorIndex]:
    """Return an index of 3,000 vectors. It is built on first use, because every worker imports this file."""
    matrix = clustered_vectors(3000, 256)
    return matrix, build_index(matrix, large=200)


def test_heads_are_computed_for_a_large_index_and_again_after_doubling() -> None:
    matrix = clustered_vectors(1200, 256)
    vectors = VectorIndex(256, large=200)
    bases = []
    for start in range(0, 1200, 50):
        vectors.put_many(np.arange(start, start + 50) + 1, matrix[start : start + 50])
        bases.append(vectors._snapshot.basis)
    created = [at for at in range(1, len(bases)) if bases[at] is not bases[at - 1]]
    assert [50 * (at + 1) for at in created] == [200, 400, 800]
    assert recall(vectors, matrix, matrix[::20], k=3) >= 0.99


def test_vector_added_after_compression_is_found() -> None:
    matrix = clustered_vectors(1100, 256)
    vectors = build_index(matrix[:1000], large=200)
    basis = vectors._snapshot.basis
    for position in range(1000, 1100):
        put(vectors, position + 1, matrix[position])
        assert vectors.nearest(matrix[position], 1)[0].tolist() == [position + 1]
    assert vectors._snapshot.basis is basis is not None


def test_shrinking_index_is_compacted_and_becomes_exact() -> None:
    matrix = clustered_vectors(1000, 256)
    vectors = build_index(matrix, large=400)
    for memory_id in range(1, 801):
        vectors.drop(memory_id)
    assert len(vectors) == 200
    assert not is_compressed(vectors)
    assert len(vectors._snapshot.ids) <= 200 * 4 / 3 + 1
    held = {index + 1: matrix[index] for index in range(800, 1000)}
    assert_same(vectors.nearest(matrix[0], 20), rank_by_cosine(held, matrix[0], held)[:20])


def test_compaction_of_compressed_index_loses_no_neighbour() -> None:
    matrix = clustered_vectors(3000, 256)
    vectors = build_index(matrix, large=200)
    for memory_id in range(1, 1001):
        vectors.drop(memory_id)
    assert len(vectors._snapshot.ids) < 2700
    assert is_compressed(vectors)
    assert recall(vectors, matrix[1000:], matrix[1000::20], k=5) >= 0.99


def test_repeated_replacement_does_not_grow_the_index() -> None:
    vectors = build_index(random_vectors(100, 8))
    for seed in range(1000):
        put(vectors, 5, random_vectors(1, 8, seed=seed)[0])
    assert len(vectors) == 100
    assert len(vectors._snapshot.ids) <= 135
    assert are_equal(get(vectors, 5), random_vectors(1, 8, seed=999)[0])


def test_snapshot_is_unaffected_by_later_writes() -> None:
    vectors = build_index(clustered_vectors(300, 256), large=200)
    put(vectors, 301, random_vectors(1, 256)[0])  # from now on the arrays have spare capacity
    snapshot = vectors._snapshot
    assert snapshot.heads is not None
    output: list[NDArray[Any]] = [snapshot.ids, snapshot.matrix, snapshot.states, snapshot.heads]
    before = [array.copy() for array in output]
    put(vectors, 302, random_vectors(1, 256)[0])
    put(vectors, 1, random_vectors(1, 256)[0])
    mark(vectors, 2, live=False)
    for memory_id in range(3, 200):
        vectors.drop(memory_id)
    assert all(np.array_equal(now, was) for now, was in zip(output, before, strict=True))


def test_running_search_is_unaffected_by_writes() -> None:
    matrix = random_vectors(40, 16)
    vectors = build_index(matrix)
    pairs = vectors.pairs(-1.0)
    first = next(pairs)
    for memory_id in range(1, 41):
        vectors.drop(memory_id)
    assert len([first, *pairs]) == 40 * 39 // 2
    assert list(vectors.pairs(-1.0)) == []


@pytest.mark.parametrize("threshold", [-1.0, 0.1, 0.9, 1.0])
def test_pairs_equal_brute_force(threshold: float) -> None:
    matrix = np.concatenate([random_vectors(60, 16), random_vectors(5, 16)])
    ids = np.random.default_rng(0).permutation(65) + 1
    vectors = VectorIndex(16)
    vectors.load(ids, matrix, ids % 7 != 0)
    vectors.drop(int(ids[0]))
    alive = {int(each): matrix[at] for at, each in enumerate(ids) if each % 7 and at}
    expected = {
        (low, high): float(alive[low] @ alive[high])
        for low in alive
        for high in alive
        if low < high and alive[low] @ alive[high] >= threshold - 1e-6
    }
    results = list(vectors.pairs(threshold))
    assert {(low, high): cosine for low, high, cosine in results} == pytest.approx(expected, abs=TOLERANCE)
    assert len(results) == len(expected)
    some = {item for item in alive if item % 2}
    inside = {(low, high) for low, high, _ in vectors.pairs(threshold, np.array(sorted(some)))}
    assert inside == {pair for pair in expected if some.issuperset(pair)}


def test_pairs_are_complete_across_blocks() -> None:
    matrix = random_vectors(2100, 32)
    matrix = np.concatenate([matrix, matrix])
    results = {(low, high) for low, high, cosine in build_index(matrix).pairs(0.9999)}
    assert results >= {(index, index + 2100) for index in range(1, 2101)}
    cosines = np.triu(matrix @ matrix.T, 1)
    assert len(results) == int((cosines >= 0.9999).sum())


@pytest.mark.parametrize(
    ("count", "k", "threshold"), [(1_300, 4, 0.6), (600, 1_000, -1.0), (520, 1, 0.9), (1, 3, -1.0)]
)
def test_neighbours_equal_brute_force(count: int, k: int, threshold: float) -> None:
    matrix = clustered_vectors(count, 24, seed=5)
    rng = np.random.default_rng(6)
    ids = rng.permutation(np.arange(1, 3 * count))[:count]
    live = rng.random(count) < 0.9
    vectors = VectorIndex(24)
    vectors.load(ids, matrix.copy(), live)
    request = rng.permutation(ids)[: count - count // 10]
    results = dict(vectors.neighbours(request, threshold, k))
    assert list(results) == sorted(results)
    among = {int(each): row for each, row, there in zip(ids, matrix, live, strict=True) if there and each in request}
    everybody, rows = np.array(list(among)), np.array(list(among.values())).reshape(len(among), 24)
    for each, row in among.items():
        cosines = rows @ row
        expected = np.sort(cosines[(everybody != each) & (cosines >= threshold)])[::-1][:k]
        assert np.allclose([cosine for _, cosine in results.get(each, [])], expected, atol=TOLERANCE)
        assert all(abs(float(among[other] @ row) - cosine) < TOLERANCE for other, cosine in results.get(each, []))
        assert each not in dict(results.get(each, []))


@pytest.mark.parametrize("apart", [1, 64, 1 << 30])  # bounds for all pairs, where they help, and disabled
@pytest.mark.parametrize(("threshold", "k"), [(0.75, 16), (0.3, 3), (0.95, 2)])
@pytest.mark.parametrize("make_vectors", [clustered_vectors, random_vectors])
def test_upper_bounds_exclude_no_neighbour(
    make_vectors: Callable[[int, int], Any], threshold: float, k: int, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knn_blocks, "APART", apart)
    monkeypatch.setattr(knn_blocks, "TRIED", 3)
    matrix = make_vectors(2_100, 96)
    matrix[1_000:1_050] = matrix[50:100]  # identical vectors, whose cosine equals the bound
    results = dict(build_index(matrix, large=200).neighbours(range(1, 2_101), threshold, k))
    assert len(results) >= 100
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -2)
    for each, row in enumerate(cosines, 1):
        expected = np.sort(row[row >= threshold])[::-1][:k]
        assert np.allclose([cosine for _, cosine in results.get(each, [])], expected, atol=TOLERANCE)


def test_upper_bounds_are_not_below_exact_cosines() -> None:
    matrix = np.concatenate([clustered_vectors(1_500, 96), random_vectors(500, 96)])
    rows = np.arange(2_000)
    exact = matrix.astype(np.float64) @ matrix.T.astype(np.float64)
    for width in (1, 8, 32, 48):
        ceilings = knn_blocks._add_rest(matrix, rows, np.ascontiguousarray(np.eye(96, dtype=np.float32)[:, :width]))
        assert (ceilings @ ceilings.T - exact).min() >= 0


def test_equally_near_neighbours_are_ordered_by_id() -> None:
    matrix = np.repeat(random_vectors(2, 16), 700, axis=0)
    results = dict(build_index(matrix).neighbours(range(1, 1_401), 0.99, 3))
    assert [each for each, _ in results[1]] == [2, 3, 4]
    assert [each for each, _ in results[700]] == [1, 2, 3]
    assert [each for each, _ in results[701]] == [702, 703, 704]


def test_neighbours_use_the_snapshot_of_the_first_call() -> None:
    vectors = build_index(np.repeat(random_vectors(1, 16), 1_100, axis=0))
    results = vectors.neighbours(range(1, 1_101), 0.99, 2)
    first = next(results)
    for index in range(1, 1_101):
        vectors.drop(index)
    assert len([first, *results]) == 1_100
    assert list(vectors.neighbours(range(1, 1_101), 0.99, 2)) == []
    assert list(build_index(random_vectors(3, 16)).neighbours([1, 2, 3], -1.0, 0)) == []


def test_neighbours_restore_the_number_of_blas_threads() -> None:
    get, put = blas._threads()
    before = get()
    put(2)
    try:
        list(build_index(random_vectors(600, 16)).neighbours(range(1, 601), 0.5, 3))
        left = get()
        with blas.one_thread():
            assert get() == 1
        assert get() == left
        assert left == 2 or before == 1  # another BLAS has no such setting
    finally:
        put(before)


# Every vector that an id ever has is from this pool, so that a reader can detect torn or mismatched rows.
POOL = clustered_vectors(509, 256)
VERSIONS = 6
VECTOR_OF_VERSION = (31 * np.arange(801)[:, np.newaxis] + 7 * np.arange(VERSIONS)) % len(
    POOL
)  # indexed by id and version


def write_randomly(vectors: VectorIndex, rounds: int) -> None:
    """Put, replace, drop and mark vectors so that the index grows, is compacted, and is compressed and decompressed."""
    rng = np.random.default_rng(0)
    for round_number in range(rounds):
        ids = rng.choice(np.arange(1, 801), 60, replace=False)
        vectors.put_many(ids, POOL[VECTOR_OF_VERSION[ids, round_number % VERSIONS]], ids % 3 != 0)
        for item in rng.choice(np.arange(1, 801), 20 if round_number % 20 < 10 else 200).tolist():
            vectors.drop(item)
        for item in rng.choice(np.arange(1, 801), 20).tolist():
            put(vectors, item, POOL[VECTOR_OF_VERSION[item, (round_number + 1) % VERSIONS]])
            mark(vectors, item, live=bool(item % 2))


def find_wrong_results(vectors: VectorIndex, query: Floats, rng: np.random.Generator) -> list[str]:
    """Return descriptions of results that no writer ever put."""
    cosines_by_version = (POOL @ query)[VECTOR_OF_VERSION]
    within = rng.choice(np.arange(1, 801), 40)
    inside = vectors.nearest(query, 12, archived=True, within=within)
    # With two hits the compressed vectors are used.
    answers = [vectors.nearest(query, 12), vectors.nearest(query, 2, archived=True), inside]
    pairs = list(vectors.cosines(query, within).items())
    for ids, cosines in answers:
        pairs += zip(ids.tolist(), cosines.tolist(), strict=True)
    problems = [
        f"{each}: {cosine}" for each, cosine in pairs if np.abs(cosines_by_version[each] - cosine).min() > TOLERANCE
    ]
    problems += [f"{item} twice" for ids, _ in answers for item in ids.tolist() if ids.tolist().count(item) > 1]
    problems += [f"{item} not asked for" for item in inside[0].tolist() if item not in within]
    memory_id = int(within[0])
    vector = get(vectors, memory_id)
    if vector is not None and not (POOL[VECTOR_OF_VERSION[memory_id]] == vector).all(axis=1).any():
        problems.append(f"{memory_id}: a vector it never had")
    return problems


def test_concurrent_readers_see_only_consistent_results() -> None:
    vectors = VectorIndex(256, large=400)
    stop, rounds = threading.Event(), [0, 0, 0]
    problems: list[str] = []

    def read(reader: int) -> None:
        rng = np.random.default_rng(reader)
        while not stop.is_set() and not problems:
            problems.extend(find_wrong_results(vectors, POOL[rng.integers(len(POOL))], rng))
            rounds[reader] += 1

    readers = [threading.Thread(target=read, args=(reader,)) for reader in range(3)]
    for reader in readers:
        reader.start()
    try:
        write_randomly(vectors, 100)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not problems
    assert min(rounds) > 0
