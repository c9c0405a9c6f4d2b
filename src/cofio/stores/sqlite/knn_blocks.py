"""Rows of the vector index in a search for neighbours: each row keeps the nearest few found so far.

Most pairs are far apart, which can be seen without computing their cosine. In an orthonormal basis a vector has a head,
its coordinates in a few directions, and a rest of known length. The product of two heads plus the product of the
lengths of the rests is an upper bound of the cosine, the *ceiling* of the pair, for a third of the work. Only pairs
with a ceiling above the threshold are computed in full, so no neighbour is missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    Matrix: TypeAlias = NDArray[np.float32]
    Ids: TypeAlias = NDArray[np.int64]
    Rows: TypeAlias = NDArray[np.int64]

#: Candidates collected before the best are selected.
UNSORTED = 8_192
#: One pair in so many may be computed individually; above that, one product for all pairs is faster.
APART = 64
#: Blocks after which ceilings are evaluated: unless they pay off in most blocks, they are no longer used.
TRIED = 16
#: Rounding error of float32 in the square of a length. It is added, so that a ceiling is never too low.
LOST = np.float32(2e-6)


class BlockComparison:
    """Search for the pairs of two strips that are near enough for either of them."""

    def __init__(self, matrix: Matrix, rows: Rows, directions: Matrix | None) -> None:
        """Take the rows by rising id. `directions` are orthonormal columns; without them every pair is computed."""
        self._matrix = matrix
        self._ceilings = None if directions is None else _with_rest(matrix, rows, directions)
        self._tried = self._in_vain = 0

    def between(self, one: RowBlock, other: RowBlock) -> tuple[Rows, Rows, Vector]:
        """Return the positions of such pairs in the two strips, and their cosines."""
        if self._ceilings is not None:
            left, right = one.wanted(other, self._ceilings[one.place] @ self._ceilings[other.place].T)
            self._tried += 1
            if len(left) * APART <= len(one.rows) * len(other.rows):
                first, second = self._matrix[one.rows[left]], self._matrix[other.rows[right]]
                return left, right, np.einsum("ij,ij->i", first, second)
            self._in_vain += 1
            if self._tried >= TRIED and 2 * self._in_vain > self._tried:
                self._ceilings = None
        cosines = self._matrix[one.rows] @ self._matrix[other.rows].T
        left, right = one.wanted(other, cosines)
        return left, right, cosines[left, right]


def _with_rest(matrix: Matrix, rows: Rows, directions: Matrix) -> Matrix:
    """Return the head of each row and the length of its rest, so that products of them are ceilings."""
    width = directions.shape[1]
    made = np.empty((len(rows), width + 1), np.float32)
    for at in range(0, len(rows), UNSORTED):
        heads = matrix[rows[at : at + UNSORTED]] @ directions
        made[at : at + UNSORTED, :width] = heads
        made[at : at + UNSORTED, width] = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", heads, heads), 0) + LOST)
    return made


class RowBlock:
    """Some rows, and the nearest neighbours of each found so far."""

    def __init__(self, rows: Rows, place: slice, least: np.float32, k: int) -> None:
        """Take the rows at this place; all rows are ordered by rising id."""
        self.rows, self.place = rows[place], place
        self._k = k
        self._least = np.full(len(self.rows), least, np.float32)  # threshold for a further neighbour
        self._met: list[tuple[Rows, Rows, Vector]] = []  # positions in `rows`, rows of their neighbours, cosines
        self._unsorted = 0

    def wanted(self, other: RowBlock, cosines: Matrix) -> tuple[Rows, Rows]:
        """Return the positions of pairs near enough for either row, given their cosines or upper bounds."""
        # Not `np.nonzero`: it takes ten times as long for two dimensions, and delays searches.
        found = np.flatnonzero(cosines >= np.minimum(self._least[:, np.newaxis], other._least))
        left, right = np.divmod(found, len(other.rows))
        return left, right

    def meet(self, other: RowBlock, left: Rows, right: Rows, cosines: Vector) -> None:
        """Keep the best of these pairs, on both sides. Ids ascend along both strips and from call to call."""
        near = cosines >= self._least[left]
        self._keep(left[near], other.rows[right[near]], cosines[near])
        if other is not self:
            near = cosines >= other._least[right]
            other._keep(right[near], self.rows[left[near]], cosines[near])

    def _keep(self, whose: Rows, met: Rows, cosines: Vector) -> None:
        self._met.append((whose, met, cosines))
        self._unsorted += len(whose)
        if self._unsorted > UNSORTED:
            self._sort()

    def _sort(self) -> None:
        """Drop all but the k nearest of each row."""
        whose, met, cosines = (np.concatenate(each) for each in zip(*self._met, strict=True))
        others = self.rows[whose] != met
        whose, met, cosines = whose[others], met[others], cosines[others]
        order = np.lexsort((-cosines, whose))  # stable: of equals, the one found first, with the lower id, wins
        whose, met, cosines = whose[order], met[order], cosines[order]
        rank = np.arange(len(whose)) - np.searchsorted(whose, whose)  # among the neighbours of the same row
        last, kept = rank == self._k - 1, rank < self._k
        self._least[whose[last]] = cosines[last]
        self._met, self._unsorted = [(whose[kept], met[kept], cosines[kept])], 0

    def told(self, ids: Ids) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Yield each row's id with the ids and cosines of its neighbours, and drop them."""
        self._sort()
        ((whose, others, cosines),) = self._met
        self._met = []
        found, starts = np.unique(whose, return_index=True)
        met, near = ids[others].tolist(), np.clip(cosines, -1, 1).tolist()
        bounds = [*starts.tolist(), len(met)]
        for each, start, end in zip(ids[self.rows[found]].tolist(), bounds[:-1], bounds[1:], strict=True):
            yield each, list(zip(met[start:end], near[start:end], strict=True))
