"""The few directions in which vectors differ most: what tells memories apart, without what is noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]  # a point a row

#: Directions that are kept: with 32 groups mix a little more, with 64 it takes longer and is no better.
WIDTH = 48
#: They are taken from so many vectors at most, by so many rounds of subspace iteration, with a few columns to spare.
ROWS, ROUNDS, SPARE = 4_096, 3, 16


def heads(vectors: Matrix, rng: np.random.Generator) -> Matrix:
    """The vectors' coordinates in those directions, the strongest first, around their middle."""
    sample = vectors[np.sort(rng.permutation(len(vectors))[:ROWS])]
    middle = sample.mean(axis=0)
    basis = _directions(sample - middle, rng)
    found: Matrix = vectors @ basis - middle @ basis
    return found


def _directions(sample: Matrix, rng: np.random.Generator) -> Matrix:
    """Orthonormal directions, a column each, pointing to where their largest number is positive."""
    dimension = sample.shape[1]
    basis = rng.standard_normal((dimension, min(dimension, WIDTH + SPARE)), np.float32)
    for _ in range(ROUNDS):
        basis = np.linalg.qr(sample.T @ (sample @ basis)).Q
    seen = sample @ basis
    _, turn = np.linalg.eigh(seen.T @ seen)
    strongest = (basis @ turn[:, ::-1])[:, :WIDTH]
    largest = np.abs(strongest).argmax(axis=0)
    signs = np.where(strongest[largest, np.arange(strongest.shape[1])] < 0, -1, 1).astype(np.float32)
    pointing: Matrix = strongest * signs
    return pointing
