"""Nearest neighbours: exact for few points, approximate by k-means cells for many.

points ─ k-means ─▶ cells of about PER points ─ compared with the NEAR nearest cells ─▶ neighbours
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.ports import Matrix

    Rows: TypeAlias = NDArray[np.int64]

#: Maximum number of points for the exact search.
FEW = 2_048
#: Points per cell, number of other cells searched, and maximum points of a cell searched at once. Cells of duplicates
#: can be larger and are split.
PER, NEAR, LARGEST = 64, 4, 1_024
#: Sampled points per cell, and rounds of k-means.
SAMPLED, ROUNDS = 16, 5
#: Rows per matrix product: 20 MiB with 10,000 columns.
BLOCK = 512


class Neighbours(NamedTuple):
    """Neighbours of each point, nearest first, and their weights, which add up to 1."""

    rows: Rows
    weights: Matrix


def neighbours(points: Matrix, k: int) -> Neighbours:
    """Return the k nearest other points of each point."""
    k = min(k, len(points) - 1)
    if len(points) <= FEW:
        return _weigh(*_drop_self(np.arange(len(points)), *_find_nearest(points, points, k + 1)))
    rows, squares = np.empty((len(points), k), np.int64), np.empty((len(points), k), np.float32)
    for members, around in _iter_cells(points, at_least=k + 1):
        nearest, apart = _find_nearest(points[members], points[around], k + 1)
        rows[members], squares[members] = _drop_self(members, around[nearest], apart)
    return _weigh(rows, squares)


def nearest_among(points: Matrix, others: Matrix, k: int) -> Neighbours:
    """Return the k nearest of the other points for each point."""
    return _weigh(*_find_nearest(points, others, min(k, len(others))))


def _find_nearest(points: Matrix, others: Matrix, k: int) -> tuple[Rows, Matrix]:
    """Return the k nearest rows, nearest first, and their squared distances."""
    rows, squares = np.empty((len(points), k), np.int64), np.empty((len(points), k), np.float32)
    lengths = np.vecdot(others, others)
    for start in range(0, len(points), BLOCK):
        some = slice(start, start + BLOCK)
        apart = lengths - 2 * (points[some] @ others.T)  # minus the point's own squared length: same order
        best = np.argpartition(apart, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(apart, best, axis=1), axis=1, kind="stable")
        rows[some] = np.take_along_axis(best, order, axis=1)
        squares[some] = np.take_along_axis(apart, rows[some], axis=1)
    squares += np.vecdot(points, points)[:, np.newaxis]
    return rows, np.maximum(squares, 0, out=squares)


def _drop_self(indices: Rows, rows: Rows, squares: Matrix) -> tuple[Rows, Matrix]:
    """Remove each point from its own neighbours; if duplicates displaced it, remove the last neighbour."""
    oneself = rows == indices[:, np.newaxis]
    oneself[~oneself.any(axis=1), -1] = True
    shape = len(rows), rows.shape[1] - 1
    return rows[~oneself].reshape(shape), squares[~oneself].reshape(shape)


def _weigh(rows: Rows, squares: Matrix) -> Neighbours:
    """Weight neighbours by distance, relative to the point's mean neighbour distance."""
    distances = np.sqrt(squares)
    beyond = distances - distances[:, :1]
    usual = beyond.mean(axis=1, keepdims=True)
    weights = np.exp(-beyond / np.maximum(usual, 1e-6))
    return Neighbours(rows, weights / weights.sum(axis=1, keepdims=True))


def _iter_cells(points: Matrix, at_least: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the points of each cell with the points to search, at least `at_least`, the cell's own first."""
    centres = _find_centres(points, len(points) // PER)
    cell = _find_nearest(points, centres, 1)[0][:, 0]
    order = np.argsort(cell, kind="stable")
    members = np.split(order, np.searchsorted(cell[order], np.arange(1, len(centres))))
    around, _ = _drop_self(np.arange(len(centres)), *_find_nearest(centres, centres, min(NEAR + 1, len(centres))))
    for indices, cells in zip(members, around, strict=True):
        others = np.concatenate([members[number][:LARGEST] for number in cells])
        for start in range(0, len(indices), LARGEST):
            part = indices[start : start + LARGEST]
            some = np.concatenate([part, others])
            yield part, some if len(some) >= at_least else np.arange(len(points))


def _find_centres(points: Matrix, count: int) -> Matrix:
    """Return `count` cell centres, by k-means on a sample."""
    rng = np.random.default_rng(0)
    sample = points[rng.permutation(len(points))[: SAMPLED * count]]
    centres = sample[:count].copy()
    for _ in range(ROUNDS):
        cell = _find_nearest(sample, centres, 1)[0][:, 0]
        sizes = np.bincount(cell, minlength=count)
        sums = np.stack([np.bincount(cell, column, minlength=count) for column in sample.T], axis=1)
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, np.newaxis]
    return centres
