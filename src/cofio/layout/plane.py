"""Where points of many directions lie on a plane, so that those that are near each other stay near: by forces.

heads ─ neighbours ─▶ who draws whom ─ rounds of pulls and pushes ─▶ places

Each point is drawn to its neighbours and pushed away by whoever happens to be near it: the forces of UMAP and LargeVis,
with the simplest of their curves, 1 / (1 + d²). In every round each point is drawn to one of its neighbours, one that
counts more the more often, and pushed by a few others, all by lot from a fixed seed.

A place is a complex number here, x + iy: that takes a fifth of the time of two columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cofio.layout.near import neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.layout.axes import Matrix
    from cofio.layout.near import Near, Rows

    Spots: TypeAlias = NDArray[np.complex64]

#: Neighbours that draw a point. With more, near ones come apart; with fewer, so do groups.
DRAWING = 8
#: Lots of each point: a neighbour has as many of them as it counts.
LOTS = 16
ROUNDS, PUSHES = 300, 5
#: How far from the middle the farthest point begins.
REACH = 10.0
#: Two that touch push each other no farther than 1 / √SOFTNESS at once.
SOFTNESS = np.float32(1 / 16)


def laid_out(heads: Matrix, rng: np.random.Generator) -> Spots:
    """A place for each point, of any size. Where it begins is what the first two directions say."""
    spots, count = _begun(heads), len(heads)
    if count < 3:
        return spots
    lots, everybody = _lots(neighbours(heads, DRAWING)), np.arange(count)
    for number in range(ROUNDS):
        move = _pulled(spots, lots[rng.integers(0, LOTS, count), everybody])
        move += _pushed(spots, rng.integers(0, count, (PUSHES, count)))
        spots += np.float32(1 - number / ROUNDS) * move
    return spots


def _begun(heads: Matrix) -> Spots:
    begun = np.zeros((len(heads), 2), np.float32)
    begun[:, : heads.shape[1]] = heads[:, :2]
    begun *= REACH / max(float(np.abs(begun).max(initial=0)), 1e-6)
    return begun.view(np.complex64)[:, 0]


def _lots(near: Near) -> Rows:
    """The neighbours by their lots, a point a column."""
    shares = np.cumsum(near.weights, axis=1)
    column = np.stack([(shares < (lot + 0.5) / LOTS).sum(axis=1) for lot in range(LOTS)], axis=1)
    rows = np.take_along_axis(near.rows, np.minimum(column, near.rows.shape[1] - 1), axis=1)
    return np.ascontiguousarray(rows.T)


def _pulled(spots: Spots, others: Rows) -> Spots:
    apart = spots[others] - spots
    moved: Spots = apart * (2 / (1 + _squares(apart)))
    return moved


def _pushed(spots: Spots, others: Rows) -> Spots:
    apart = spots - spots[others]
    squares = _squares(apart)
    moved: Spots = (apart * (2 / ((SOFTNESS + squares) * (1 + squares)))).sum(axis=0)
    return moved


def _squares(apart: Spots) -> Matrix:
    found: Matrix = apart.real**2 + apart.imag**2
    return found
