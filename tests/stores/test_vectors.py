"""The vector index against the plainest thing that does the same: a dict of vectors, sorted."""

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

CLOSE = 2e-6


def unit(matrix: NDArray[Any]) -> Floats:
    return np.asarray(matrix / np.linalg.norm(matrix, axis=-1, keepdims=True), np.float32)


def isotropic(count: int, dimension: int, seed: int = 0) -> Floats:
    return unit(np.random.default_rng(seed).standard_normal((count, dimension)))


def clustered(count: int, dimension: int, seed: int = 0) -> Floats:
    """Vectors as embedders make them: a common mean, clusters, and a spectrum that falls off."""
    rng = np.random.default_rng(seed)
    spread = np.arange(1, dimension + 1) ** -0.7
    mirror = isotropic(1, dimension, seed=99)[0]  # so that the strong directions are not the first axes
    centres = rng.standard_normal((max(count // 20, 1), dimension)) * spread
    own = rng.standard_normal((count, dimension)) * spread
    matrix = spread + centres[rng.integers(0, len(centres), count)] + 0.5 * own
    return unit(matrix - 2 * np.outer(matrix @ mirror, mirror))


def loaded(matrix: Floats, *, large: int = 16_384) -> VectorIndex:
    """An index of these vectors with ids from 1, all live."""
    vectors = VectorIndex(matrix.shape[1], large=large)
    vectors.load(np.arange(1, len(matrix) + 1), matrix, np.ones(len(matrix), np.bool_))
    return vectors


def same(found: Floats | None, expected: Floats) -> bool:
    return found is not None and np.array_equal(found, expected)


def compressed(vectors: VectorIndex) -> bool:
    return vectors._snapshot.heads is not None


def recall(vectors: VectorIndex, matrix: Floats, queries: Floats, k: int = 10) -> float:
    """The share of the true k nearest that the index finds, for ids from 1."""
    hits = 0
    for query in queries:
        last = np.sort(matrix @ query)[-k]
        hits += int((vectors.nearest(query, k)[1] >= last - CLOSE).sum())
    return hits / (k * len(queries))


def ranked(held: dict[int, Floats], query: Floats, ids: Iterable[int]) -> list[tuple[int, float]]:
    """The ids by falling cosine, with the lower id first among equal vectors."""
    scored = [(each, float(held[each].astype(np.float64) @ query.astype(np.float64))) for each in ids]
    return sorted(scored, key=lambda each: (-round(each[1], 9), each[0]))


def assert_same(found: tuple[NDArray[np.int64], Floats], expected: list[tuple[int, float]]) -> None:
    """The same cosines in the same order; ids may differ only where cosines do so by no more than rounding."""
    ids, cosines = found
    assert len(set(ids.tolist())) == len(ids) == len(expected)
    assert cosines == pytest.approx([cosine for _, cosine in expected], abs=CLOSE)
    assert (np.diff(cosines) <= 0).all()


# A small alphabet of directions, so that equal vectors and equal cosines are common.
DIRECTIONS = np.concatenate([isotropic(5, 8), np.eye(8, dtype=np.float32)[:3]])
IDS = st.integers(1, 40)
WHICH = st.integers(0, len(DIRECTIONS) - 1)


class AgainstADict(RuleBasedStateMachine):
    """Any sequence of changes leaves the index and a dict with the same answers."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = VectorIndex(8)
        self.held: dict[int, Floats] = {}
        self.live: set[int] = set()

    def hold(self, memory_id: int, which: int, live: bool) -> None:
        self.held[memory_id] = DIRECTIONS[which]
        (self.live.add if live else self.live.discard)(memory_id)

    @initialize(content=st.dictionaries(IDS, st.tuples(WHICH, st.booleans())))
    def load(self, content: dict[int, tuple[int, bool]]) -> None:
        which = [each for each, _ in content.values()]
        live = np.array([each for _, each in content.values()], np.bool_)
        self.vectors.load(np.array(list(content), np.int64), DIRECTIONS[which], live)
        for memory_id, (each, alive) in content.items():
            self.hold(memory_id, each, alive)

    @rule(memory_id=IDS, which=WHICH, live=st.booleans())
    def put(self, memory_id: int, which: int, live: bool) -> None:
        self.vectors.put(memory_id, DIRECTIONS[which], live)
        self.hold(memory_id, which, live)

    @rule(many=st.lists(st.tuples(IDS, WHICH, st.booleans()), max_size=30))
    def put_many(self, many: list[tuple[int, int, bool]]) -> None:
        live = np.array([each for _, _, each in many], np.bool_)
        self.vectors.put_many([each for each, _, _ in many], DIRECTIONS[[each for _, each, _ in many]], live)
        for each in many:
            self.hold(*each)

    @rule(memory_id=IDS)
    def drop(self, memory_id: int) -> None:
        self.vectors.drop(memory_id)
        self.held.pop(memory_id, None)
        self.live.discard(memory_id)

    @rule(memory_id=IDS, live=st.booleans())
    def mark(self, memory_id: int, live: bool) -> None:
        self.vectors.mark(memory_id, live)
        if memory_id in self.held:
            (self.live.add if live else self.live.discard)(memory_id)

    @rule(which=WHICH, k=st.integers(0, 50), archived=st.booleans(), within=st.none() | st.lists(IDS))
    def search(self, which: int, k: int, archived: bool, within: list[int] | None) -> None:
        query = DIRECTIONS[which]
        asked = None if within is None else np.array(within, np.int64)
        found = self.vectors.nearest(query, k, archived=archived, within=asked)
        allowed = (self.held.keys() if archived else self.live) & (self.held.keys() if within is None else set(within))
        expected = ranked(self.held, query, allowed)[:k]
        assert_same(found, expected)
        # Vectors of this alphabet are either equal or well apart, so even the ids must agree.
        assert found[0].tolist() == [each for each, _ in expected]

    @rule(which=WHICH, ids=st.lists(IDS))
    def ask_for_cosines(self, which: int, ids: list[int]) -> None:
        expected = {each: float(self.held[each] @ DIRECTIONS[which]) for each in ids if each in self.held}
        assert self.vectors.cosines(DIRECTIONS[which], ids) == pytest.approx(expected, abs=CLOSE)

    @rule(ids=st.lists(IDS), within=st.none() | st.lists(IDS))
    def ask_for_many(self, ids: list[int], within: list[int] | None) -> None:
        found, matrix = self.vectors.many(ids)
        assert found.tolist() == [each for each in ids if each in self.held]
        assert all(same(row, self.held[each]) for each, row in zip(found.tolist(), matrix, strict=True))
        asked = None if within is None else np.array(within, np.int64)
        expected = self.live if within is None else self.live & set(within)
        assert self.vectors.live(asked).tolist() == sorted(expected, reverse=True)

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.vectors) == len(self.held)
        for memory_id in range(42):
            found, expected = self.vectors.get(memory_id), self.held.get(memory_id)
            assert (memory_id in self.vectors) == (expected is not None) == (found is not None)
            if expected is not None:
                assert same(found, expected)


TestAgainstADict = AgainstADict.TestCase
TestAgainstADict.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_an_empty_index_finds_nothing() -> None:
    vectors, query = VectorIndex(4), isotropic(1, 4)[0]
    ids, cosines = vectors.nearest(query, 5, within=np.array([1, 2]))
    assert [str(ids.dtype), str(cosines.dtype)] == ["int64", "float32"]
    assert (ids.size, cosines.size) == (0, 0)
    assert vectors.cosines(query, [1]) == {}
    assert list(vectors.pairs(0.0)) == []
    assert vectors.get(1) is None
    assert 1 not in vectors
    assert len(vectors) == 0


def test_many_thousands_come_in_the_order_asked() -> None:
    matrix = isotropic(5_000, 8)
    vectors = loaded(matrix)
    vectors.drop(7)
    asked = np.random.default_rng(1).permutation(np.arange(-3, 6_000))
    ids, found = vectors.many(asked)
    assert ids.tolist() == [each for each in asked.tolist() if 1 <= each <= 5_000 and each != 7]
    assert np.array_equal(found, matrix[ids - 1])


def test_dropping_or_marking_an_unknown_id_changes_nothing() -> None:
    vectors = loaded(isotropic(3, 4))
    vectors.drop(9)
    vectors.mark(9, live=False)
    assert len(vectors) == 3


def test_more_hits_than_vectors_are_all_the_vectors() -> None:
    matrix = isotropic(7, 4)
    ids, _ = loaded(matrix).nearest(matrix[0], 100)
    assert sorted(ids.tolist()) == [1, 2, 3, 4, 5, 6, 7]


def test_among_equal_vectors_the_lower_ids_come_first_wherever_they_lie() -> None:
    matrix, query = np.repeat(isotropic(1, 384), 1003, axis=0), isotropic(1, 384, seed=1)[0]
    vectors = VectorIndex(384)
    ids = np.random.default_rng(0).permutation(1003)
    vectors.load(ids, matrix, np.ones(1003, np.bool_))
    assert vectors.nearest(query, 10)[0].tolist() == list(range(10))
    assert vectors.nearest(query, 3, within=np.array([900, 17, 500, 17]))[0].tolist() == [17, 500, 900]


@pytest.mark.parametrize("dimension", [5, 8, 13, 100, 385])
def test_the_last_place_goes_to_the_lowest_id_of_equal_vectors(dimension: int) -> None:
    # BLAS treats the rows of a block and those that are left over differently, down to the last bit.
    for count in range(2, 40):
        vectors = loaded(np.repeat(isotropic(1, dimension), count, axis=0))
        assert vectors.nearest(isotropic(1, dimension, seed=count)[0], 1)[0].tolist() == [1]


def test_equal_vectors_are_ordered_by_id_in_a_compressed_index_too() -> None:
    matrix = np.repeat(clustered(500, 256), 8, axis=0)
    vectors = loaded(matrix, large=200)
    assert compressed(vectors)
    for at in range(0, 4000, 400):
        assert vectors.nearest(matrix[at], 5)[0].tolist() == [at + 1, at + 2, at + 3, at + 4, at + 5]


@pytest.mark.parametrize("vector", [np.full(4, np.nan), np.array([1, 0, np.inf, 0]), np.ones(3), np.ones((2, 4))])
def test_a_vector_that_would_spoil_the_index_is_refused_and_changes_nothing(vector: NDArray[Any]) -> None:
    vectors = loaded(isotropic(3, 4))
    with pytest.raises(ValueError, match="vector"):
        vectors.put(1, vector)
    with pytest.raises(ValueError, match="vector"):
        vectors.nearest(vector, 1)
    assert len(vectors) == 3
    assert same(vectors.get(1), isotropic(3, 4)[0])


def test_loading_an_id_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="Duplicate"):
        VectorIndex(4).load(np.array([1, 1]), isotropic(2, 4), np.ones(2, np.bool_))


def test_loading_replaces_what_was_there() -> None:
    vectors = loaded(clustered(600, 256), large=200)
    vectors.load(np.array([7]), isotropic(1, 256), np.array([False]))
    assert len(vectors) == 1
    assert 1 not in vectors
    assert not compressed(vectors)
    assert vectors.nearest(isotropic(1, 256)[0], 5)[0].tolist() == []
    assert vectors.nearest(isotropic(1, 256)[0], 5, archived=True)[0].tolist() == [7]


def test_the_loaded_matrix_is_never_written_to() -> None:
    matrix = isotropic(10, 4)
    before = matrix.copy()
    matrix.flags.writeable = False
    vectors = loaded(matrix)
    for memory_id in range(1, 30):
        vectors.put(memory_id, isotropic(1, 4, seed=memory_id)[0])
    vectors.drop(3)
    assert np.array_equal(matrix, before)


@pytest.mark.parametrize("dimension", [256, 384, 3072])
def test_a_large_index_is_compressed_and_finds_nearly_all_neighbours(dimension: int) -> None:
    matrix = clustered(3000, dimension)
    vectors = loaded(matrix[:2900], large=200)
    assert compressed(vectors)
    assert recall(vectors, matrix[:2900], matrix[2900:]) >= 0.99


def test_what_a_compressed_index_returns_are_true_cosines() -> None:
    matrix = clustered(4000, 384)
    vectors = loaded(matrix, large=200)
    ids, cosines = vectors.nearest(matrix[5], 10)
    assert cosines == pytest.approx(matrix[ids - 1] @ matrix[5], abs=CLOSE)
    assert same(vectors.get(6), matrix[5])


def test_vectors_without_a_preferred_direction_are_searched_exactly() -> None:
    matrix = isotropic(4000, 256)
    vectors = loaded(matrix, large=200)
    assert not compressed(vectors)
    assert recall(vectors, matrix, isotropic(50, 256, seed=1)) == 1.0


def test_a_compressed_index_asked_for_most_of_itself_answers_exactly() -> None:
    matrix, query = clustered(1000, 256), isotropic(1, 256, seed=3)[0]
    vectors = loaded(matrix, large=200)
    assert compressed(vectors)
    held = {each + 1: vector for each, vector in enumerate(matrix)}
    for k in (300, 999, 1000, 5000):
        assert_same(vectors.nearest(query, k), ranked(held, query, held)[:k])


def test_archived_vectors_are_found_only_when_asked_for_in_a_compressed_index() -> None:
    matrix = clustered(3000, 256)
    vectors = loaded(matrix, large=200)
    first = vectors.nearest(matrix[0], 5)[0].tolist()
    vectors.mark(first[0], live=False)
    vectors.drop(first[1])
    assert vectors.nearest(matrix[0], 3)[0].tolist() == first[2:]
    assert vectors.nearest(matrix[0], 4, archived=True)[0].tolist() == [first[0], *first[2:]]


@given(size=st.sampled_from([0, 1, 7, 150, 600, 1500, 2900, 3000]), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_a_search_within_a_set_of_any_size_stays_in_it(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    within = rng.choice(np.arange(1, 4001), size, replace=False)
    matrix, vectors = many()
    held = {int(each): matrix[each - 1] for each in within if each <= len(matrix)}
    query = matrix[seed]
    ids, cosines = vectors.nearest(query, 5, within=within)
    assert set(ids.tolist()) <= held.keys()
    assert_same((ids, cosines), ranked(held, query, held)[:5])


@cache
def many() -> tuple[Floats, VectorIndex]:
    """An index of three thousand, made once and not before it is searched: every worker reads this file."""
    matrix = clustered(3000, 256)
    return matrix, loaded(matrix, large=200)


def test_heads_are_made_when_the_index_grows_large_and_again_when_it_has_doubled() -> None:
    matrix = clustered(1200, 256)
    vectors = VectorIndex(256, large=200)
    bases = []
    for start in range(0, 1200, 50):
        vectors.put_many(np.arange(start, start + 50) + 1, matrix[start : start + 50])
        bases.append(vectors._snapshot.basis)
    made = [at for at in range(1, len(bases)) if bases[at] is not bases[at - 1]]
    assert [50 * (at + 1) for at in made] == [200, 400, 800]
    assert recall(vectors, matrix, matrix[::20], k=3) >= 0.99


def test_a_vector_put_after_the_heads_were_made_is_found() -> None:
    matrix = clustered(1100, 256)
    vectors = loaded(matrix[:1000], large=200)
    basis = vectors._snapshot.basis
    for at in range(1000, 1100):
        vectors.put(at + 1, matrix[at])
        assert vectors.nearest(matrix[at], 1)[0].tolist() == [at + 1]
    assert vectors._snapshot.basis is basis is not None


def test_a_large_index_that_shrinks_is_compacted_and_becomes_an_exact_one() -> None:
    matrix = clustered(1000, 256)
    vectors = loaded(matrix, large=400)
    for memory_id in range(1, 801):
        vectors.drop(memory_id)
    assert len(vectors) == 200
    assert not compressed(vectors)
    assert len(vectors._snapshot.ids) <= 200 * 4 / 3 + 1
    held = {each + 1: matrix[each] for each in range(800, 1000)}
    assert_same(vectors.nearest(matrix[0], 20), ranked(held, matrix[0], held)[:20])


def test_a_compressed_index_is_compacted_without_losing_a_neighbour() -> None:
    matrix = clustered(3000, 256)
    vectors = loaded(matrix, large=200)
    for memory_id in range(1, 1001):
        vectors.drop(memory_id)
    assert len(vectors._snapshot.ids) < 2700
    assert compressed(vectors)
    assert recall(vectors, matrix[1000:], matrix[1000::20], k=5) >= 0.99


def test_replacing_one_vector_for_ever_does_not_grow_the_index() -> None:
    vectors = loaded(isotropic(100, 8))
    for at in range(1000):
        vectors.put(5, isotropic(1, 8, seed=at)[0])
    assert len(vectors) == 100
    assert len(vectors._snapshot.ids) <= 135
    assert same(vectors.get(5), isotropic(1, 8, seed=999)[0])


def test_a_snapshot_stays_as_it_is_whatever_is_written_after_it() -> None:
    vectors = loaded(clustered(300, 256), large=200)
    vectors.put(301, isotropic(1, 256)[0])  # from now on there is room in the arrays
    snapshot = vectors._snapshot
    assert snapshot.heads is not None
    shown: list[NDArray[Any]] = [snapshot.ids, snapshot.matrix, snapshot.states, snapshot.heads]
    before = [array.copy() for array in shown]
    vectors.put(302, isotropic(1, 256)[0])
    vectors.put(1, isotropic(1, 256)[0])
    vectors.mark(2, live=False)
    for memory_id in range(3, 200):
        vectors.drop(memory_id)
    assert all(np.array_equal(now, was) for now, was in zip(shown, before, strict=True))


def test_a_search_that_is_under_way_sees_the_index_as_it_was() -> None:
    matrix = isotropic(40, 16)
    vectors = loaded(matrix)
    pairs = vectors.pairs(-1.0)
    first = next(pairs)
    for memory_id in range(1, 41):
        vectors.drop(memory_id)
    assert len([first, *pairs]) == 40 * 39 // 2
    assert list(vectors.pairs(-1.0)) == []


@pytest.mark.parametrize("threshold", [-1.0, 0.1, 0.9, 1.0])
def test_pairs_are_those_of_comparing_each_with_each(threshold: float) -> None:
    matrix = np.concatenate([isotropic(60, 16), isotropic(5, 16)])
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
    found = list(vectors.pairs(threshold))
    assert {(low, high): cosine for low, high, cosine in found} == pytest.approx(expected, abs=CLOSE)
    assert len(found) == len(expected)
    some = {each for each in alive if each % 2}
    inside = {(low, high) for low, high, _ in vectors.pairs(threshold, np.array(sorted(some)))}
    assert inside == {pair for pair in expected if some.issuperset(pair)}


def test_pairs_are_complete_across_blocks() -> None:
    matrix = isotropic(2100, 32)
    matrix = np.concatenate([matrix, matrix])
    found = {(low, high) for low, high, cosine in loaded(matrix).pairs(0.9999)}
    assert found >= {(each, each + 2100) for each in range(1, 2101)}
    cosines = np.triu(matrix @ matrix.T, 1)
    assert len(found) == int((cosines >= 0.9999).sum())


@pytest.mark.parametrize(
    ("count", "k", "threshold"), [(1_300, 4, 0.6), (600, 1_000, -1.0), (520, 1, 0.9), (1, 3, -1.0)]
)
def test_neighbours_are_those_of_comparing_each_with_each(count: int, k: int, threshold: float) -> None:
    matrix = clustered(count, 24, seed=5)
    rng = np.random.default_rng(6)
    ids = rng.permutation(np.arange(1, 3 * count))[:count]
    live = rng.random(count) < 0.9
    vectors = VectorIndex(24)
    vectors.load(ids, matrix.copy(), live)
    asked = rng.permutation(ids)[: count - count // 10]
    found = dict(vectors.neighbours(asked, threshold, k))
    assert list(found) == sorted(found)
    among = {int(each): row for each, row, there in zip(ids, matrix, live, strict=True) if there and each in asked}
    everybody, rows = np.array(list(among)), np.array(list(among.values())).reshape(len(among), 24)
    for each, row in among.items():
        cosines = rows @ row
        expected = np.sort(cosines[(everybody != each) & (cosines >= threshold)])[::-1][:k]
        assert np.allclose([cosine for _, cosine in found.get(each, [])], expected, atol=CLOSE)
        assert all(abs(float(among[other] @ row) - cosine) < CLOSE for other, cosine in found.get(each, []))
        assert each not in dict(found.get(each, []))


@pytest.mark.parametrize("apart", [1, 64, 1 << 30])  # ceilings for all pairs, for what they are good for, given up
@pytest.mark.parametrize(("threshold", "k"), [(0.75, 16), (0.3, 3), (0.95, 2)])
@pytest.mark.parametrize("made", [clustered, isotropic])
def test_ceilings_hide_no_neighbour(
    made: Callable[[int, int], Any], threshold: float, k: int, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knn_blocks, "APART", apart)
    monkeypatch.setattr(knn_blocks, "TRIED", 3)
    matrix = made(2_100, 96)
    matrix[1_000:1_050] = matrix[50:100]  # the very same, whose cosine is as high as a ceiling can be
    found = dict(loaded(matrix, large=200).neighbours(range(1, 2_101), threshold, k))
    assert len(found) >= 100
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -2)
    for each, row in enumerate(cosines, 1):
        expected = np.sort(row[row >= threshold])[::-1][:k]
        assert np.allclose([cosine for _, cosine in found.get(each, [])], expected, atol=CLOSE)


def test_ceilings_are_above_what_they_are_ceilings_of() -> None:
    matrix = np.concatenate([clustered(1_500, 96), isotropic(500, 96)])
    rows = np.arange(2_000)
    exact = matrix.astype(np.float64) @ matrix.T.astype(np.float64)
    for width in (1, 8, 32, 48):
        ceilings = knn_blocks._add_rest(matrix, rows, np.ascontiguousarray(np.eye(96, dtype=np.float32)[:, :width]))
        assert (ceilings @ ceilings.T - exact).min() >= 0


def test_of_equally_near_neighbours_the_lower_id_comes_first() -> None:
    matrix = np.repeat(isotropic(2, 16), 700, axis=0)
    found = dict(loaded(matrix).neighbours(range(1, 1_401), 0.99, 3))
    assert [each for each, _ in found[1]] == [2, 3, 4]
    assert [each for each, _ in found[700]] == [1, 2, 3]
    assert [each for each, _ in found[701]] == [702, 703, 704]


def test_neighbours_are_those_of_the_moment_in_which_the_first_was_asked_for() -> None:
    vectors = loaded(np.repeat(isotropic(1, 16), 1_100, axis=0))
    found = vectors.neighbours(range(1, 1_101), 0.99, 2)
    first = next(found)
    for each in range(1, 1_101):
        vectors.drop(each)
    assert len([first, *found]) == 1_100
    assert list(vectors.neighbours(range(1, 1_101), 0.99, 2)) == []
    assert list(loaded(isotropic(3, 16)).neighbours([1, 2, 3], -1.0, 0)) == []


def test_looking_for_neighbours_leaves_the_threads_of_blas_as_they_were() -> None:
    get, put = blas._threads()
    before = get()
    put(2)
    try:
        list(loaded(isotropic(600, 16)).neighbours(range(1, 601), 0.5, 3))
        left = get()
        with blas.one_thread():
            assert get() == 1
        assert get() == left
        assert left == 2 or before == 1  # with another BLAS there is nothing to set
    finally:
        put(before)


# Every vector that an id ever has is one of these, so a reader can tell a torn or mispaired row from a true one.
POOL = clustered(509, 256)
VERSIONS = 6
PLACES = (31 * np.arange(801)[:, np.newaxis] + 7 * np.arange(VERSIONS)) % len(POOL)  # of each id's each version


def write(vectors: VectorIndex, rounds: int) -> None:
    """Puts, replaces, drops and marks so that the index grows, is compacted, and gets and loses its heads."""
    rng = np.random.default_rng(0)
    for turn in range(rounds):
        many = rng.choice(np.arange(1, 801), 60, replace=False)
        vectors.put_many(many, POOL[PLACES[many, turn % VERSIONS]], many % 3 != 0)
        for each in rng.choice(np.arange(1, 801), 20 if turn % 20 < 10 else 200).tolist():
            vectors.drop(each)
        for each in rng.choice(np.arange(1, 801), 20).tolist():
            vectors.put(each, POOL[PLACES[each, (turn + 1) % VERSIONS]])
            vectors.mark(each, live=bool(each % 2))


def wrong(vectors: VectorIndex, query: Floats, rng: np.random.Generator) -> list[str]:
    """What one round of reading returned that no writer ever put."""
    had = (POOL @ query)[PLACES]
    within = rng.choice(np.arange(1, 801), 40)
    inside = vectors.nearest(query, 12, archived=True, within=within)
    # Two hits are few enough for the heads to be used.
    answers = [vectors.nearest(query, 12), vectors.nearest(query, 2, archived=True), inside]
    told = list(vectors.cosines(query, within).items())
    for ids, cosines in answers:
        told += zip(ids.tolist(), cosines.tolist(), strict=True)
    false = [f"{each}: {cosine}" for each, cosine in told if np.abs(had[each] - cosine).min() > CLOSE]
    false += [f"{each} twice" for ids, _ in answers for each in ids.tolist() if ids.tolist().count(each) > 1]
    false += [f"{each} not asked for" for each in inside[0].tolist() if each not in within]
    some = int(within[0])
    vector = vectors.get(some)
    if vector is not None and not (POOL[PLACES[some]] == vector).all(axis=1).any():
        false.append(f"{some}: a vector it never had")
    return false


def test_readers_see_only_true_pairs_of_id_and_cosine_while_a_writer_writes() -> None:
    vectors = VectorIndex(256, large=400)
    done, rounds = threading.Event(), [0, 0, 0]
    false: list[str] = []

    def read(reader: int) -> None:
        rng = np.random.default_rng(reader)
        while not done.is_set() and not false:
            false.extend(wrong(vectors, POOL[rng.integers(len(POOL))], rng))
            rounds[reader] += 1

    readers = [threading.Thread(target=read, args=(reader,)) for reader in range(3)]
    for reader in readers:
        reader.start()
    try:
        write(vectors, 100)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not false
    assert min(rounds) > 0
