"""Metrics compared with hand calculations, and intervals compared with exhaustive resampling."""

from __future__ import annotations

import itertools
import random
from math import log2

import numpy as np
import pytest

from cofio_eval import metrics
from cofio_eval.metrics import Figure

RANKING = ["d", "a", "x", "b", "y"]


def test_recall_is_the_share_of_evidence_in_the_first_k() -> None:
    assert [metrics.recall(RANKING, {"a", "b", "c"}, k) for k in (1, 2, 3, 4, 9)] == [0, 1 / 3, 1 / 3, 2 / 3, 2 / 3]
    assert metrics.recall([], {"a"}, 10) == 0.0


def test_ndcg_weights_higher_ranks_more() -> None:
    gain = 1 / log2(3) + 1 / log2(5)  # at ranks two and four
    ideal_gain = 1 + 1 / log2(3) + 1 / log2(4)
    assert metrics.ndcg(RANKING, {"a", "b", "c"}, 10) == pytest.approx(gain / ideal_gain)
    assert metrics.ndcg(RANKING, {"a", "b", "c"}, 2) == pytest.approx((1 / log2(3)) / (1 + 1 / log2(3)))
    assert metrics.ndcg(["a", "b"], {"a", "b"}, 10) == pytest.approx(1.0)
    assert metrics.ndcg([], {"a"}, 10) == 0.0


def test_auroc_is_the_probability_that_a_positive_scores_higher() -> None:
    rng = random.Random(3)
    positives, negatives = ([rng.randrange(6) / 5 for _ in range(size)] for size in (17, 23))
    pairs = [(a > b) + 0.5 * (a == b) for a in positives for b in negatives]
    assert metrics.auroc(positives, negatives) == pytest.approx(sum(pairs) / len(pairs))
    assert metrics.auroc([0.9, 0.8], [0.1]) == 1.0
    assert metrics.auroc([0.3], [0.3]) == 0.5
    assert metrics.auroc([], [0.3]) == 0.5


def test_precision_recall_and_f1_of_a_label() -> None:
    expected = ["keep", "keep", "keep", "skip", "skip"]
    actual = ["keep", "skip", "skip", "keep", "skip"]
    assert metrics.of_label(expected, actual, "keep") == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    assert metrics.of_label(expected, actual, "skip") == pytest.approx((1 / 3, 1 / 2, 2 / 5))
    assert metrics.macro_f1(expected, actual) == pytest.approx(2 / 5)
    assert metrics.of_label(expected, actual, "never said") == (0.0, 0.0, 0.0)


def test_interval_matches_exhaustive_resampling() -> None:
    values = [0.0, 0.2, 0.5, 1.0, 1.0]
    means = [sum(sample) / 5 for sample in itertools.product(values, repeat=5)]
    low, high = np.quantile(means, (0.025, 0.975))
    figure = metrics.interval(values, draws=20_000)
    assert figure.value == pytest.approx(0.54)
    assert (figure.low, figure.high) == pytest.approx((low, high), abs=0.021)  # the sum changes in steps of 0.02 to 0.1


def test_interval_is_deterministic_and_contains_the_mean() -> None:
    rng = random.Random(5)
    values = [rng.random() for _ in range(60)]
    figure = metrics.interval(values)
    assert figure == metrics.interval(values)
    assert 0.3 < figure.low < figure.value < figure.high < 0.7
    assert metrics.interval([]) == Figure(0.0, 0.0, 0.0)
    assert metrics.interval([0.4]) == Figure(0.4, 0.4, 0.4)


def test_difference_is_paired() -> None:
    rng = random.Random(11)
    difficulties = [rng.random() for _ in range(200)]  # the difficulty of a case is the same for both
    first, second = [difficulty + 0.02 for difficulty in difficulties], difficulties
    figure = metrics.difference(first, second)
    assert (figure.value, figure.low, figure.high) == pytest.approx((0.02, 0.02, 0.02))
    assert metrics.interval(first).low < metrics.interval(second).high  # unpaired intervals overlap


def test_difference_matches_exhaustive_resampling_of_pairs() -> None:
    first, second = [1.0, 1.0, 0.5, 1.0, 0.0], [0.5, 1.0, 0.0, 0.0, 0.5]
    pairs = list(zip(first, second, strict=True))
    means = [sum(left - right for left, right in sample) / 5 for sample in itertools.product(pairs, repeat=5)]
    low, high = np.quantile(means, (0.025, 0.975))
    figure = metrics.difference(first, second, draws=20_000)
    assert figure.value == pytest.approx(0.3)
    assert (figure.low, figure.high) == pytest.approx((low, high), abs=0.051)
    with pytest.raises(ValueError, match="zip"):
        metrics.difference(first, second[:-1])


def test_separation_has_an_interval() -> None:
    rng = random.Random(2)
    positives, negatives = [rng.gauss(0.6, 0.2) for _ in range(80)], [rng.gauss(0.4, 0.2) for _ in range(80)]
    figure = metrics.separation(positives, negatives)
    assert figure.value == metrics.auroc(positives, negatives)
    assert 0.5 < figure.low < figure.value < figure.high < 1.0
    assert figure == metrics.separation(positives, negatives)
    assert metrics.separation([], negatives) == Figure(0.5, 0.0, 1.0)
