"""Who is near whom: exactly among few; among many only where it is worth looking.

points ─ k-means ─▶ cells of about PER points ─ each beside the NEAR cells around it ─▶ neighbours
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.layout.axes import Matrix

    Rows: TypeAlias = NDArray[np.int64]

#: Up to so many points everybody is compared with everybody.
FEW = 2_048
#: Points of a cell, and in how many others its points look for neighbours. A cell of doubles can be too large for that:
#: it is taken in parts.
PER, NEAR, LARGEST = 64, 4, 1_024
#: The cells are made from so many points of each, in so many rounds.
SAMPLED, ROUNDS = 16, 5
#: Rows of a product: 20 MiB with ten thousand columns.
BLOCK = 512


class Near(NamedTuple):
    """Of each point the places of others, nearest first, and how much each of them counts: weights that add to 1."""

    rows: Rows
    weights: Matrix


def neighbours(points: Matrix, k: int) -> Near:
    """Of each point its k nearest others."""
    k = min(k, len(points) - 1)
    if len(points) <= FEW:
        return _weighed(*_without(np.arange(len(points)), *_nearest(points, points, k + 1)))
    rows, squares = np.empty((len(points), k), np.int64), np.empty((len(points), k), np.float32)
    for members, around in _cells(points, at_least=k + 1):
        found, apart = _nearest(points[members], points[around], k + 1)
        rows[members], squares[members] = _without(members, around[found], apart)
    return _weighed(rows, squares)


def among(points: Matrix, known: Matrix, k: int) -> Near:
    """Of each point the k nearest of those that are known."""
    return _weighed(*_nearest(points, known, min(k, len(known))))


def _nearest(points: Matrix, known: Matrix, k: int) -> tuple[Rows, Matrix]:
    """The k nearest, nearest first, and the squares of how far they are."""
    rows, squares = np.empty((len(points), k), np.int64), np.empty((len(points), k), np.float32)
    lengths = np.vecdot(known, known)
    for start in range(0, len(points), BLOCK):
        some = slice(start, start + BLOCK)
        apart = lengths - 2 * (points[some] @ known.T)  # less the point's own length, which changes no order
        best = np.argpartition(apart, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(apart, best, axis=1), axis=1, kind="stable")
        rows[some] = np.take_along_axis(best, order, axis=1)
        squares[some] = np.take_along_axis(apart, rows[some], axis=1)
    squares += np.vecdot(points, points)[:, np.newaxis]
    return rows, np.maximum(squares, 0, out=squares)


def _without(own: Rows, rows: Rows, squares: Matrix) -> tuple[Rows, Matrix]:
    """The same without oneself; without the last, where one's own doubles took all the places."""
    oneself = rows == own[:, np.newaxis]
    oneself[~oneself.any(axis=1), -1] = True
    shape = len(rows), rows.shape[1] - 1
    return rows[~oneself].reshape(shape), squares[~oneself].reshape(shape)


def _weighed(rows: Rows, squares: Matrix) -> Near:
    """Each counts the less the farther it is, by the measure of how far one's neighbours are in general."""
    distances = np.sqrt(squares)
    beyond = distances - distances[:, :1]
    usual = beyond.mean(axis=1, keepdims=True)
    weights = np.exp(-beyond / np.maximum(usual, 1e-6))
    return Near(rows, weights / weights.sum(axis=1, keepdims=True))


def _cells(points: Matrix, at_least: int) -> Iterator[tuple[Rows, Rows]]:
    """The points of each cell, and among whom they look: at least so many, those of their cell first."""
    centres = _centres(points, len(points) // PER)
    cell = _nearest(points, centres, 1)[0][:, 0]
    order = np.argsort(cell, kind="stable")
    members = np.split(order, np.searchsorted(cell[order], np.arange(1, len(centres))))
    around, _ = _without(np.arange(len(centres)), *_nearest(centres, centres, min(NEAR + 1, len(centres))))
    for own, cells in zip(members, around, strict=True):
        others = np.concatenate([members[each][:LARGEST] for each in cells])
        for start in range(0, len(own), LARGEST):
            part = own[start : start + LARGEST]
            some = np.concatenate([part, others])
            yield part, some if len(some) >= at_least else np.arange(len(points))


def _centres(points: Matrix, count: int) -> Matrix:
    """The middles of so many cells, by k-means on a sample."""
    rng = np.random.default_rng(0)
    sample = points[rng.permutation(len(points))[: SAMPLED * count]]
    centres = sample[:count].copy()
    for _ in range(ROUNDS):
        cell = _nearest(sample, centres, 1)[0][:, 0]
        sizes = np.bincount(cell, minlength=count)
        sums = np.stack([np.bincount(cell, column, minlength=count) for column in sample.T], axis=1)
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, np.newaxis]
    return centres
