"""Density-based clustering of points on the square.

places ─ counted by cell, blurred ─▶ density landscape ─ hill climbing ─▶ hills ─ merged if no valley ─▶ groups
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cofio.models.dashboard import SIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.dashboard.projection.grid import Places

    Landscape: TypeAlias = NDArray[np.float64]  # height of each cell of the grid
    Labels: TypeAlias = NDArray[np.int64]

#: Cells along a side.
CELLS = 100
#: Blur width in cells at AT points; wider with fewer points.
BLUR, AT = 1.5, 10_000
#: Two hills are merged if the pass between them has at least this share of the lower hill's height.
PASS = 0.7
#: Points below this share of their hill's height belong to no group.
FOOT = 0.05
#: Minimum members of a group, minimum share of all points, and maximum number of groups.
LEAST, LEAST_PART, MOST = 4, 0.004, 40


def find_clusters(places: Places) -> Labels:
    """Return the group of each point, ordered by size; -1 for none."""
    cells = np.minimum(places * CELLS // (SIDE + 1), CELLS - 1)
    cell = cells[:, 0] * CELLS + cells[:, 1]
    landscape = _smooth_density(cell)
    hill = _merge_hills(landscape, _climb(landscape))
    height = landscape.ravel()
    group = np.where(height[cell] >= FOOT * height[hill[cell]], hill[cell], -1)
    return _number_groups(group)


def _smooth_density(cell: Labels) -> Landscape:
    counts = np.bincount(cell, minlength=CELLS * CELLS).reshape(CELLS, CELLS).astype(np.float64)
    width = BLUR * (AT / max(len(cell), 1)) ** (1 / 6)
    steps = np.subtract.outer(np.arange(CELLS), np.arange(CELLS))
    blur = np.exp(-0.5 * (steps / width) ** 2)
    density: Landscape = blur @ counts @ blur
    return density


def _climb(landscape: Landscape) -> Labels:
    """Return for each cell the top of its hill, found by always moving to the highest neighbour."""
    around = np.pad(landscape, 1, constant_values=-1)
    steps = [(down, right) for down in (0, -1, 1) for right in (0, -1, 1)]  # the cell itself comes first and wins ties
    heights = [around[1 + down : 1 + down + CELLS, 1 + right : 1 + right + CELLS] for down, right in steps]
    offsets = np.array([down * CELLS + right for down, right in steps])
    top = np.arange(CELLS * CELLS) + offsets[np.argmax(heights, axis=0)].ravel()
    return _follow_pointers(top)


def _merge_hills(landscape: Landscape, top: Labels) -> Labels:
    """Merge hills that are not separated by a valley; the highest top is kept."""
    height, into = landscape.ravel(), np.arange(CELLS * CELLS)
    for level, first, second in _find_passes(height, top):
        low, high = sorted((_end(into, first), _end(into, second)), key=lambda hill: (height[hill], hill))
        if level >= PASS * height[low]:
            into[low] = high
    return _follow_pointers(into)[top]


def _find_passes(height: NDArray[np.float64], top: Labels) -> list[tuple[float, int, int]]:
    """Return every step between two hills: its height and both tops, highest first."""
    cell = np.arange(CELLS * CELLS).reshape(CELLS, CELLS)
    here = np.concatenate([cell[1:].ravel(), cell[:, 1:].ravel()])
    there = np.concatenate([cell[:-1].ravel(), cell[:, :-1].ravel()])
    level = np.minimum(height[here], height[there])
    over = np.flatnonzero((top[here] != top[there]) & (level > 0))
    over = over[np.argsort(-level[over], kind="stable")]
    return list(zip(level[over].tolist(), top[here[over]].tolist(), top[there[over]].tolist(), strict=True))


def _end(into: Labels, hill: int) -> int:
    while into[hill] != hill:
        hill = int(into[hill])
    return hill


def _follow_pointers(to: Labels) -> Labels:
    """Follow each pointer to its root."""
    while not np.array_equal(further := to[to], to):
        to = further
    return to


def _number_groups(group: Labels) -> Labels:
    """Number the groups by size; groups that are too small or beyond the maximum become -1."""
    tops, member, counts = np.unique(group, return_inverse=True, return_counts=True)
    large = (tops >= 0) & (counts >= max(LEAST, LEAST_PART * len(group)))
    ranked = np.argsort(-np.where(large, counts, 0), kind="stable")[: min(MOST, int(large.sum()))]
    number = np.full(len(tops), -1)
    number[ranked] = np.arange(len(ranked))
    return number[member]
