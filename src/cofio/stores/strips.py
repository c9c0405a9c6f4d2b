"""Rows of the vector index while they look for their neighbours: each keeps the nearest few that it has met.

Most pairs are far apart, and that can be seen without their cosine. In an orthonormal basis a vector has a head, its
coordinates in a few directions, and a rest of known length. The product of two heads, and of the lengths of the rests,
is the most that the cosine can be: the *ceiling* of the pair, for a third of the work. Only pairs whose ceiling is high
enough are looked at in full, so nothing is missed.
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

#: Neighbours that are met before the best are picked out.
UNSORTED = 8_192
#: Of how many pairs one may be looked at in full by itself; where more have to be, all of them at once is faster.
APART = 64
#: After so many blocks it is asked whether ceilings are worth their while here: in most of the blocks they must be.
TRIED = 16
#: What float32 may lose of the square of a length. It is added, so that a ceiling is never too low.
LOST = np.float32(2e-6)


class Meetings:
    """Tells which pairs of two strips are near enough for either of them."""

    def __init__(self, matrix: Matrix, rows: Rows, directions: Matrix | None) -> None:
        """The rows by rising id. `directions` are orthonormal, a column each; without them each pair is looked at."""
        self._matrix = matrix
        self._ceilings = None if directions is None else _with_rest(matrix, rows, directions)
        self._tried = self._in_vain = 0

    def between(self, one: Strip, other: Strip) -> tuple[Rows, Rows, Vector]:
        """Of each such pair its places in the two strips, and its cosine."""
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
    """The head of each of these rows, and the length of its rest: products of these are ceilings."""
    width = directions.shape[1]
    made = np.empty((len(rows), width + 1), np.float32)
    for at in range(0, len(rows), UNSORTED):
        heads = matrix[rows[at : at + UNSORTED]] @ directions
        made[at : at + UNSORTED, :width] = heads
        made[at : at + UNSORTED, width] = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", heads, heads), 0) + LOST)
    return made


class Strip:
    """Some rows, and the nearest that each of them has met so far."""

    def __init__(self, rows: Rows, place: slice, least: np.float32, k: int) -> None:
        """Those of the rows, all by rising id, that stand in this place."""
        self.rows, self.place = rows[place], place
        self._k = k
        self._least = np.full(len(self.rows), least, np.float32)  # what another must reach
        self._met: list[tuple[Rows, Rows, Vector]] = []  # places in `rows`, whom they met, and how near
        self._unsorted = 0

    def wanted(self, other: Strip, cosines: Matrix) -> tuple[Rows, Rows]:
        """The places of the pairs that are near enough for either, were these their cosines."""
        # Not `np.nonzero`, which takes ten times as long for two dimensions, and searches wait meanwhile.
        found = np.flatnonzero(cosines >= np.minimum(self._least[:, np.newaxis], other._least))
        left, right = np.divmod(found, len(other.rows))
        return left, right

    def meet(self, other: Strip, left: Rows, right: Rows, cosines: Vector) -> None:
        """Keep the best of these pairs, on both sides. Ids ascend along both of them and from call to call."""
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
        """Let go of all but the k nearest of each row."""
        whose, met, cosines = (np.concatenate(each) for each in zip(*self._met, strict=True))
        others = self.rows[whose] != met
        whose, met, cosines = whose[others], met[others], cosines[others]
        order = np.lexsort((-cosines, whose))  # stable: of equals the one that was met first, with the lower id
        whose, met, cosines = whose[order], met[order], cosines[order]
        rank = np.arange(len(whose)) - np.searchsorted(whose, whose)  # among the neighbours of the same row
        last, kept = rank == self._k - 1, rank < self._k
        self._least[whose[last]] = cosines[last]
        self._met, self._unsorted = [(whose[kept], met[kept], cosines[kept])], 0

    def told(self, ids: Ids) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Each row's id with the ids and cosines of its neighbours; then nothing of them is kept."""
        self._sort()
        ((whose, others, cosines),) = self._met
        self._met = []
        found, starts = np.unique(whose, return_index=True)
        met, near = ids[others].tolist(), np.clip(cosines, -1, 1).tolist()
        bounds = [*starts.tolist(), len(met)]
        for each, start, end in zip(ids[self.rows[found]].tolist(), bounds[:-1], bounds[1:], strict=True):
            yield each, list(zip(met[start:end], near[start:end], strict=True))
