"""Layout of vectors on a plane that keeps near vectors near.

vectors ─ principal components ─▶ neighbours ─▶ attraction graph ─ rounds of attraction and repulsion ─▶ positions

The principal components separate memories and drop noise. The forces are those of UMAP and LargeVis with the simplest
curve, 1 / (1 + d²). In each round every point is attracted to one of its neighbours, sampled by weight, and repelled by
a few random points, with a fixed seed.

Positions are complex numbers, x + iy, which take a fifth of the time of two columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cofio.dashboard.projection.neighbours import neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.ports import Matrix

    Spots: TypeAlias = NDArray[np.complex64]

#: Number of principal components: with 32, groups mix slightly more; 64 is slower without being better.
WIDTH = 48
#: Sample size, rounds of subspace iteration, and extra columns used to compute the components.
ROWS, ITERATIONS, SPARE = 4_096, 3, 16
#: Neighbours that attract a point. More separate near points; fewer separate groups.
DRAWING = 8
#: Sampling slots per point, divided among its neighbours by weight.
LOTS = 16
ROUNDS, PUSHES = 300, 5
#: Initial distance of the farthest point from the centre.
REACH = 10.0
#: Limits the repulsion of two touching points to about 1 / √SOFTNESS per step.
SOFTNESS = np.float32(1 / 16)


def layout_points(heads: Matrix, rng: np.random.Generator) -> Spots:
    """Return a position for each point, unscaled, starting from its first two coordinates."""
    count = len(heads)
    start = np.zeros((count, 2), np.float32)
    start[:, : heads.shape[1]] = heads[:, :2]
    start *= REACH / max(float(np.abs(start).max(initial=0)), 1e-6)
    spots: Spots = start.view(np.complex64)[:, 0]
    if count < 3:
        return spots
    near = neighbours(heads, DRAWING)
    shares = np.cumsum(near.weights, axis=1)
    column = np.stack([(shares < (lot + 0.5) / LOTS).sum(axis=1) for lot in range(LOTS)], axis=1)
    rows = np.take_along_axis(near.rows, np.minimum(column, near.rows.shape[1] - 1), axis=1)
    lots = np.ascontiguousarray(rows.T)  # the neighbours by sampling slot, one column per point
    everybody = np.arange(count)
    for number in range(ROUNDS):
        apart = spots[lots[rng.integers(0, LOTS, count), everybody]] - spots
        move = apart * (2 / (1 + _squares(apart)))
        apart = spots - spots[rng.integers(0, count, (PUSHES, count))]
        squares = _squares(apart)
        move += (apart * (2 / ((SOFTNESS + squares) * (1 + squares)))).sum(axis=0)
        spots += np.float32(1 - number / ROUNDS) * move
    return spots


def _squares(apart: Spots) -> Matrix:
    squares: Matrix = apart.real**2 + apart.imag**2
    return squares


def principal_components(vectors: Matrix, rng: np.random.Generator) -> Matrix:
    """Return the centred coordinates of the vectors along their main directions of variance, strongest first."""
    sample = vectors[np.sort(rng.permutation(len(vectors))[:ROWS])]
    middle = sample.mean(axis=0)
    basis = _find_directions(sample - middle, rng)
    coordinates: Matrix = vectors @ basis - middle @ basis
    return coordinates


def _find_directions(sample: Matrix, rng: np.random.Generator) -> Matrix:
    """Return orthonormal directions as columns, signed so that the largest component is positive."""
    dimension = sample.shape[1]
    basis = rng.standard_normal((dimension, min(dimension, WIDTH + SPARE)), np.float32)
    for _ in range(ITERATIONS):
        basis = np.linalg.qr(sample.T @ (sample @ basis)).Q
    projected = sample @ basis
    _, turn = np.linalg.eigh(projected.T @ projected)
    strongest = (basis @ turn[:, ::-1])[:, :WIDTH]
    largest = np.abs(strongest).argmax(axis=0)
    signs = np.where(strongest[largest, np.arange(strongest.shape[1])] < 0, -1, 1).astype(np.float32)
    pointing: Matrix = strongest * signs
    return pointing
