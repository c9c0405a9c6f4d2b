"""Where memories lay the last time, so that they stay there: whoever comes is put beside those that it is like.

dots, ground ─▶ those that are known: where they were; the others: among their nearest ─▶ places, and the ground of then
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cofio.layout.near import among
from cofio.layout.square import apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.layout.axes import Matrix
    from cofio.layout.square import Places
    from cofio.picture import Dots

#: The share of memories that may have come or gone since all were laid out: beyond that they are laid out anew.
CHANGED = 0.2
#: How many of its like one is put among, and how far from the first of them they may lie on the square.
LIKE, BESIDE = 5, 400
#: The first numbers of a vector, by which another one is told: who says something else lies somewhere else.
MARKED = 8


class Ground(NamedTuple):
    """Where each memory lies, by ascending id; and how many have come or gone since all were laid out."""

    ids: NDArray[np.int64]
    marks: Matrix
    places: Places
    changed: int

    @classmethod
    def of(cls, dots: Dots, places: Places, changed: int = 0) -> Ground:
        ids = np.asarray(dots.ids, np.int64)
        order = np.argsort(ids)
        return cls(ids[order], dots.vectors[order, :MARKED], places[order], changed)

    def kept(self, dots: Dots) -> Ground | None:
        """The ground of these memories, where those that are known stay; None when too many are not."""
        at, known = self._found(dots)
        changed = self.changed + np.count_nonzero(~known) + len(self.ids) - np.count_nonzero(known)
        if not known.any() or changed > CHANGED * len(known):
            return None
        stay, come = np.flatnonzero(known), np.flatnonzero(~known)
        places = self.places[at]
        places[come] = _beside(dots.vectors[come], dots.vectors[stay], places[stay])
        order = np.concatenate([stay, come[::-1]])  # who was there first has the spot, the newest comes last
        places[order] = apart(places[order])
        return Ground.of(dots, places, int(changed))

    def places_of(self, dots: Dots) -> Places:
        """Where these memories lie, which are those of this ground, in their own order."""
        return self.places[np.searchsorted(self.ids, np.asarray(dots.ids, np.int64))]

    def _found(self, dots: Dots) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where each memory stands here, and whether it does and says the same."""
        ids = np.asarray(dots.ids, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        marks = dots.vectors[:, :MARKED]
        if not len(self.ids) or marks.shape[1] != self.marks.shape[1]:
            return np.zeros_like(ids), np.zeros(len(ids), np.bool_)
        return at, (self.ids[at] == ids) & (self.marks[at] == marks).all(axis=1)


def _beside(vectors: Matrix, known: Matrix, places: Places) -> Places:
    """Between those of its nearest that lie together with the first: halfway to another group there is nobody."""
    near = among(vectors, known, LIKE)
    spots = places[near.rows]
    together = np.abs(spots - spots[:, :1]).max(axis=2) <= BESIDE
    weights = near.weights * together
    weights /= weights.sum(axis=1, keepdims=True)
    found: Places = np.rint((weights[:, :, np.newaxis] * spots).sum(axis=1)).astype(np.int64)
    return found
