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
        self._ceilings = None if directions is None else _add_rest(matrix, rows, directions)
        self._tried = self._in_vain = 0

    def between(self, left_block: RowBlock, right_block: RowBlock) -> tuple[Rows, Rows, Vector]:
        """Return the positions of such pairs in the two strips, and their cosines."""
        if self._ceilings is not None:
            left, right = left_block.wanted(
                right_block, self._ceilings[left_block.place] @ self._ceilings[right_block.place].T
            )
            self._tried += 1
            if len(left) * APART <= len(left_block.rows) * len(right_block.rows):
                first, second = self._matrix[left_block.rows[left]], self._matrix[right_block.rows[right]]
                return left, right, np.einsum("ij,ij->i", first, second)
            self._in_vain += 1
            if self._tried >= TRIED and 2 * self._in_vain > self._tried:
                self._ceilings = None
        cosines = self._matrix[left_block.rows] @ self._matrix[right_block.rows].T
        left, right = left_block.wanted(right_block, cosines)
        return left, right, cosines[left, right]


def _add_rest(matrix: Matrix, rows: Rows, directions: Matrix) -> Matrix:
    """Return the head of each row and the length of its rest, so that products of them are ceilings."""
    width = directions.shape[1]
    result = np.empty((len(rows), width + 1), np.float32)
    for at in range(0, len(rows), UNSORTED):
        heads = matrix[rows[at : at + UNSORTED]] @ directions
        result[at : at + UNSORTED, :width] = heads
        result[at : at + UNSORTED, width] = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", heads, heads), 0) + LOST)
    return result


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
        places = np.flatnonzero(cosines >= np.minimum(self._least[:, np.newaxis], other._least))
        left, right = np.divmod(places, len(other.rows))
        return left, right

    def meet(self, other: RowBlock, left: Rows, right: Rows, cosines: Vector) -> None:
        """Keep the best of these pairs, on both sides. Ids ascend along both strips and from call to call."""
        near = cosines >= self._least[left]
        self._keep(left[near], other.rows[right[near]], cosines[near])
        if other is not self:
            near = cosines >= other._least[right]
            other._keep(right[near], self.rows[left[near]], cosines[near])

    def _keep(self, sources: Rows, neighbours: Rows, cosines: Vector) -> None:
        self._met.append((sources, neighbours, cosines))
        self._unsorted += len(sources)
        if self._unsorted > UNSORTED:
            self._sort()

    def _sort(self) -> None:
        """Drop all but the k nearest of each row."""
        sources, neighbours, cosines = (np.concatenate(column) for column in zip(*self._met, strict=True))
        is_other = self.rows[sources] != neighbours
        sources, neighbours, cosines = sources[is_other], neighbours[is_other], cosines[is_other]
        order = np.lexsort((-cosines, sources))  # stable: of equals, the one found first, with the lower id, wins
        sources, neighbours, cosines = sources[order], neighbours[order], cosines[order]
        rank = np.arange(len(sources)) - np.searchsorted(sources, sources)  # among the neighbours of the same row
        last, is_best = rank == self._k - 1, rank < self._k
        self._least[sources[last]] = cosines[last]
        self._met, self._unsorted = [(sources[is_best], neighbours[is_best], cosines[is_best])], 0

    def take_neighbours(self, ids: Ids) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Yield each row's id with the ids and cosines of its neighbours, and drop them."""
        self._sort()
        ((source_of_pair, others, cosines),) = self._met
        self._met = []
        sources, starts = np.unique(source_of_pair, return_index=True)
        neighbours, near = ids[others].tolist(), np.clip(cosines, -1, 1).tolist()
        bounds = [*starts.tolist(), len(neighbours)]
        for memory_id, start, end in zip(ids[self.rows[sources]].tolist(), bounds[:-1], bounds[1:], strict=True):
            yield memory_id, list(zip(neighbours[start:end], near[start:end], strict=True))
