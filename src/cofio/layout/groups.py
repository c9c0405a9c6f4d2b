"""Which points of the square lie together: the hills of how densely they lie.

places ─ counted by cell, blurred ─▶ a landscape ─ always uphill ─▶ hills ─ one where no valley parts them ─▶ groups
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cofio.picture import SIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.layout.square import Places

    Landscape: TypeAlias = NDArray[np.float64]  # how high each cell of the grid is
    Labels: TypeAlias = NDArray[np.int64]

#: Cells along a side.
CELLS = 100
#: How wide the landscape is blurred, in cells: so much with ten thousand points, and more with fewer.
BLUR, AT = 1.5, 10_000
#: Two hills are one where the pass between them is at least so high, as a part of the lower one.
PASS = 0.7
#: A point stands outside where it is less high than this part of its hill.
FOOT = 0.05
#: A group has so many members at least, and so large a part of all. There are at most so many.
LEAST, LEAST_PART, MOST = 4, 0.004, 40


def grouped(places: Places) -> Labels:
    """The group of each point, the largest group first; -1 for none."""
    cells = np.minimum(places * CELLS // (SIDE + 1), CELLS - 1)
    cell = cells[:, 0] * CELLS + cells[:, 1]
    landscape = _landscape(cell)
    hill = _merged(landscape, _uphill(landscape))
    height = landscape.ravel()
    group = np.where(height[cell] >= FOOT * height[hill[cell]], hill[cell], -1)
    return _numbered(group)


def _landscape(cell: Labels) -> Landscape:
    counts = np.bincount(cell, minlength=CELLS * CELLS).reshape(CELLS, CELLS).astype(np.float64)
    width = BLUR * (AT / max(len(cell), 1)) ** (1 / 6)
    steps = np.subtract.outer(np.arange(CELLS), np.arange(CELLS))
    blur = np.exp(-0.5 * (steps / width) ** 2)
    found: Landscape = blur @ counts @ blur
    return found


def _uphill(landscape: Landscape) -> Labels:
    """Of each cell the top of the hill that it is on, as one comes to it by always going to the highest cell around."""
    around = np.pad(landscape, 1, constant_values=-1)
    steps = [(down, right) for down in (0, -1, 1) for right in (0, -1, 1)]  # where one stands is the first: ties stay
    heights = [around[1 + down : 1 + down + CELLS, 1 + right : 1 + right + CELLS] for down, right in steps]
    offsets = np.array([down * CELLS + right for down, right in steps])
    top = np.arange(CELLS * CELLS) + offsets[np.argmax(heights, axis=0)].ravel()
    return _jumped(top)


def _merged(landscape: Landscape, top: Labels) -> Labels:
    """The same, where hills without a valley between them have one top: that of the highest."""
    height, into = landscape.ravel(), np.arange(CELLS * CELLS)
    for level, one, other in _passes(height, top):
        low, high = sorted((_end(into, one), _end(into, other)), key=lambda each: (height[each], each))
        if level >= PASS * height[low]:
            into[low] = high
    return _jumped(into)[top]


def _passes(height: NDArray[np.float64], top: Labels) -> list[tuple[float, int, int]]:
    """Every step from one hill to another: how high it is, and both tops. The highest first."""
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


def _jumped(to: Labels) -> Labels:
    """Where one ends who goes on and on."""
    while not np.array_equal(further := to[to], to):
        to = further
    return to


def _numbered(group: Labels) -> Labels:
    """Groups by number, the largest first; what is too small, or one too many, is none."""
    tops, member, counts = np.unique(group, return_inverse=True, return_counts=True)
    large = (tops >= 0) & (counts >= max(LEAST, LEAST_PART * len(group)))
    ranked = np.argsort(-np.where(large, counts, 0), kind="stable")[: min(MOST, int(large.sum()))]
    number = np.full(len(tops), -1)
    number[ranked] = np.arange(len(ranked))
    return number[member]
