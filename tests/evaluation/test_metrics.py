"""The measures by hand, and their intervals beside what every sample would give."""

from __future__ import annotations

import itertools
import random
from math import log2

import numpy as np
import pytest

from cofio.evaluation import metrics
from cofio.evaluation.metrics import Figure

RANKING = ["d", "a", "x", "b", "y"]


def test_recall_is_the_share_of_the_evidence_among_the_first_k() -> None:
    assert [metrics.recall(RANKING, {"a", "b", "c"}, k) for k in (1, 2, 3, 4, 9)] == [0, 1 / 3, 1 / 3, 2 / 3, 2 / 3]
    assert metrics.recall([], {"a"}, 10) == 0.0


def test_ndcg_counts_what_stands_higher_for_more() -> None:
    found = 1 / log2(3) + 1 / log2(5)  # at the second and the fourth place
    best = 1 + 1 / log2(3) + 1 / log2(4)
    assert metrics.ndcg(RANKING, {"a", "b", "c"}, 10) == pytest.approx(found / best)
    assert metrics.ndcg(RANKING, {"a", "b", "c"}, 2) == pytest.approx((1 / log2(3)) / (1 + 1 / log2(3)))
    assert metrics.ndcg(["a", "b"], {"a", "b"}, 10) == pytest.approx(1.0)
    assert metrics.ndcg([], {"a"}, 10) == 0.0


def test_auroc_is_how_often_a_score_of_the_first_sort_is_above_one_of_the_second() -> None:
    rng = random.Random(3)
    one, other = ([rng.randrange(6) / 5 for _ in range(size)] for size in (17, 23))
    pairs = [(a > b) + 0.5 * (a == b) for a in one for b in other]
    assert metrics.auroc(one, other) == pytest.approx(sum(pairs) / len(pairs))
    assert metrics.auroc([0.9, 0.8], [0.1]) == 1.0
    assert metrics.auroc([0.3], [0.3]) == 0.5
    assert metrics.auroc([], [0.3]) == 0.5


def test_precision_recall_and_f1_of_a_label() -> None:
    wanted = ["keep", "keep", "keep", "skip", "skip"]
    given = ["keep", "skip", "skip", "keep", "skip"]
    assert metrics.of_label(wanted, given, "keep") == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    assert metrics.of_label(wanted, given, "skip") == pytest.approx((1 / 3, 1 / 2, 2 / 5))
    assert metrics.macro_f1(wanted, given) == pytest.approx(2 / 5)
    assert metrics.of_label(wanted, given, "never said") == (0.0, 0.0, 0.0)


def test_an_interval_is_that_of_every_possible_sample() -> None:
    values = [0.0, 0.2, 0.5, 1.0, 1.0]
    every = [sum(sample) / 5 for sample in itertools.product(values, repeat=5)]
    low, high = np.quantile(every, (0.025, 0.975))
    found = metrics.interval(values, draws=20_000)
    assert found.value == pytest.approx(0.54)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.021)  # a step of the sum is 0.02 to 0.1


def test_an_interval_is_always_the_same_and_holds_its_mean() -> None:
    rng = random.Random(5)
    values = [rng.random() for _ in range(60)]
    found = metrics.interval(values)
    assert found == metrics.interval(values)
    assert 0.3 < found.low < found.value < found.high < 0.7
    assert metrics.interval([]) == Figure(0.0, 0.0, 0.0)
    assert metrics.interval([0.4]) == Figure(0.4, 0.4, 0.4)


def test_a_difference_is_paired() -> None:
    rng = random.Random(11)
    hard = [rng.random() for _ in range(200)]  # what makes a case hard or easy is the same for both
    ours, theirs = [each + 0.02 for each in hard], hard
    found = metrics.difference(ours, theirs)
    assert (found.value, found.low, found.high) == pytest.approx((0.02, 0.02, 0.02))
    assert metrics.interval(ours).low < metrics.interval(theirs).high  # unpaired, nobody could tell


def test_a_difference_is_that_of_every_possible_sample_of_pairs() -> None:
    ours, theirs = [1.0, 1.0, 0.5, 1.0, 0.0], [0.5, 1.0, 0.0, 0.0, 0.5]
    pairs = list(zip(ours, theirs, strict=True))
    every = [sum(one - other for one, other in sample) / 5 for sample in itertools.product(pairs, repeat=5)]
    low, high = np.quantile(every, (0.025, 0.975))
    found = metrics.difference(ours, theirs, draws=20_000)
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.051)
    with pytest.raises(ValueError, match="zip"):
        metrics.difference(ours, theirs[:-1])


def test_how_far_two_sorts_are_apart_comes_with_an_interval() -> None:
    rng = random.Random(2)
    one, other = [rng.gauss(0.6, 0.2) for _ in range(80)], [rng.gauss(0.4, 0.2) for _ in range(80)]
    found = metrics.separation(one, other)
    assert found.value == metrics.auroc(one, other)
    assert 0.5 < found.low < found.value < found.high < 1.0
    assert found == metrics.separation(one, other)
    assert metrics.separation([], other) == Figure(0.5, 0.0, 1.0)
