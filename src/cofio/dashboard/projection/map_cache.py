"""Cache of drawn maps, and the positions that a new drawing keeps.

dots, ground ─▶ known memories: previous positions; new ones: among their nearest ─▶ positions and the new ground

A map stays stable: new memories are placed next to similar ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from cofio.dashboard.projection.grid import resolve_overlaps
from cofio.dashboard.projection.neighbours import nearest_among
from cofio.models.dashboard import Map, MapSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.dashboard.projection.grid import Places
    from cofio.ports import Matrix

#: Cached maps; a map of 20,000 memories takes 10 MB.
HELD = 8
#: Seconds after which a map is redrawn without a new changeset, because vectors are added later than memories.
FRESH = 60.0
#: Share of added and removed memories above which the whole map is laid out again.
CHANGED = 0.2
#: Number of neighbours that place a new memory, and their maximum distance from the nearest one on the square.
LIKE, BESIDE = 5, 400
#: Leading vector components that detect a changed vector; a memory with a changed text is placed again.
MARKED = 8


class PreviousPositions(NamedTuple):
    """Position of each memory by ascending id, and the number of changes since the full layout."""

    ids: NDArray[np.int64]
    marks: Matrix
    places: Places
    changed: int

    @classmethod
    def of(cls, dots: MapSource, places: Places, changed: int = 0) -> PreviousPositions:
        ids = np.asarray(dots.ids, np.int64)
        order = np.argsort(ids)
        return cls(ids[order], dots.vectors[order, :MARKED], places[order], changed)

    def update(self, dots: MapSource) -> PreviousPositions | None:
        """Return the ground of these memories, keeping known positions; None if too many have changed."""
        at, is_known = self._match_ids(dots)
        changed = self.changed + np.count_nonzero(~is_known) + len(self.ids) - np.count_nonzero(is_known)
        if not is_known.any() or changed > CHANGED * len(is_known):
            return None
        stay, come = np.flatnonzero(is_known), np.flatnonzero(~is_known)
        places = self.places[at]
        places[come] = _place_beside(dots.vectors[come], dots.vectors[stay], places[stay])
        order = np.concatenate([stay, come[::-1]])  # on a collision the older memory keeps its position
        places[order] = resolve_overlaps(places[order])
        return PreviousPositions.of(dots, places, int(changed))

    def places_of(self, dots: MapSource) -> Places:
        """Return the positions of these memories, which must all be known, in their order."""
        return self.places[np.searchsorted(self.ids, np.asarray(dots.ids, np.int64))]

    def _match_ids(self, dots: MapSource) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the index of each memory here, and whether it is known with the same vector."""
        ids = np.asarray(dots.ids, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        marks = dots.vectors[:, :MARKED]
        if not len(self.ids) or marks.shape[1] != self.marks.shape[1]:
            return np.zeros_like(ids), np.zeros(len(ids), np.bool_)
        return at, (self.ids[at] == ids) & (self.marks[at] == marks).all(axis=1)


def _place_beside(vectors: Matrix, others: Matrix, places: Places) -> Places:
    """Return positions among those nearest neighbours that are close to the nearest one, never between two groups."""
    near = nearest_among(vectors, others, LIKE)
    spots = places[near.rows]
    together = np.abs(spots - spots[:, :1]).max(axis=2) <= BESIDE
    weights = near.weights * together
    weights /= weights.sum(axis=1, keepdims=True)
    positions: Places = np.rint((weights[:, :, np.newaxis] * spots).sum(axis=1)).astype(np.int64)
    return positions


#: Draws a map that keeps the positions of the given ground; returns the map and its new ground.
Draw: TypeAlias = Callable[[PreviousPositions | None], tuple[Map, PreviousPositions]]


class MapCache:
    """LRU cache of maps by scope and viewer. Thread-safe; each map is drawn by one thread at a time."""

    def __init__(self, *, held: int = HELD, fresh: float = FRESH, ticks: Callable[[], float] = time.monotonic) -> None:
        self._held, self._fresh, self._ticks = held, fresh, ticks
        self._lock = threading.Lock()
        self._sheets: dict[Hashable, _CachedMap] = {}  # most recently used last

    def map(self, of: Hashable, changeset: int, draw: Draw) -> Map:
        """Return the map for this key, redrawn if it is older than the changeset or expired."""
        sheet = self._get_sheet(of)
        with sheet.lock:
            now = self._ticks()
            if sheet.map is None or sheet.changeset < changeset or now - sheet.at >= self._fresh:
                sheet.map, sheet.ground = draw(sheet.ground)
                sheet.changeset, sheet.at = changeset, now
            return sheet.map

    def _get_sheet(self, of: Hashable) -> _CachedMap:
        with self._lock:
            sheet = self._sheets[of] = self._sheets.pop(of, _CachedMap())
            while len(self._sheets) > self._held:
                del self._sheets[next(iter(self._sheets))]
            return sheet


@dataclass(slots=True)
class _CachedMap:
    """Cached map and the changeset it was drawn at."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    map: Map | None = None
    ground: PreviousPositions | None = None
    changeset: int = 0
    at: float = 0.0
