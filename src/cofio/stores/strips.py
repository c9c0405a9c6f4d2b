"""Rows of the vector index while they look for their neighbours: each keeps the nearest few that it has met."""

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


class Strip:
    """Some rows, and the nearest that each of them has met so far."""

    def __init__(self, rows: Rows, least: np.float32, k: int) -> None:
        self.rows = rows
        self._k = k
        self._least = np.full(len(rows), least, np.float32)  # what another must reach
        self._met: list[tuple[Rows, Rows, Vector]] = []  # places in `rows`, whom they met, and how near
        self._unsorted = 0

    def meet(self, other: Strip, cosines: Matrix) -> None:
        """Keep the best of these, on both sides. Ids ascend along both of them and from call to call."""
        # Not `np.nonzero`, which takes ten times as long for two dimensions, and searches wait meanwhile.
        met = np.flatnonzero(cosines >= self._least[:, np.newaxis])
        self._keep(met // len(other.rows), other.rows[met % len(other.rows)], cosines.ravel()[met])
        if other is not self:
            met = np.flatnonzero(cosines >= other._least)
            other._keep(met % len(other.rows), self.rows[met // len(other.rows)], cosines.ravel()[met])

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
