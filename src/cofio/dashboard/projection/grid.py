"""Integer positions on the square of SIDE by SIDE, without duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cofio.models.dashboard import SIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.dashboard.projection.force_layout import Spots

    Places: TypeAlias = NDArray[np.int64]  # x and y, one row per point

#: Percentage of points at either end that may lie in the margin, and the margin as a share of half a side.
OUTSIDE, MARGIN = 0.5, 0.06
#: Distance between points that would coincide: three pixels at 1,000 pixels per side.
GAP = 30
#: Golden angle: points in steps of this angle fill a disc evenly.
GOLDEN = np.pi * (3 - 5**0.5)
#: Maximum rounds of separating coinciding points. Two are usual.
PATIENCE = 100


def fit_to_grid(spots: Spots) -> Places:
    """Return the positions scaled to fill the square; outliers are compressed into the margin."""
    places = np.stack([spots.real, spots.imag], axis=1).astype(np.float64)
    low, high = np.percentile(places, (OUTSIDE, 100 - OUTSIDE), axis=0)
    half = float(np.max(high - low)) / 2
    scaled = (places - (low + high) / 2) / (half if half > 1e-9 else 1.0)
    beyond = np.maximum(np.abs(scaled) - 1, 0)
    inside = np.clip(scaled, -1, 1) + np.sign(scaled) * MARGIN * np.tanh(beyond / MARGIN)
    grid: Places = np.rint(SIDE / 2 * (1 + inside / (1 + MARGIN))).astype(np.int64)
    return grid


def resolve_overlaps(places: Places) -> Places:
    """Move coinciding points: the first stays, the others go to the next free positions on a spiral around it."""
    steps = np.zeros(len(places), np.int64)
    result = places
    for _ in range(PATIENCE):
        rank = _rank_duplicates(result)
        if not rank.any():
            break
        steps += rank
        radius, angle = GAP * np.sqrt(steps), GOLDEN * steps
        moved = places + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        result = np.clip(np.rint(moved), 0, SIDE).astype(np.int64)
    return result


def _rank_duplicates(places: Places) -> NDArray[np.int64]:
    """Return for each point the number of earlier points at the same position."""
    spot = places[:, 0] * (SIDE + 1) + places[:, 1]
    order = np.argsort(spot, kind="stable")
    begins = np.searchsorted(spot[order], spot[order])
    ranks = np.empty(len(places), np.int64)
    ranks[order] = np.arange(len(places)) - begins
    return ranks
