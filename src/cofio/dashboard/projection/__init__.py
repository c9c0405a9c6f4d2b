"""Two-dimensional map of memories: similar memories are close, and clusters have names.

vectors ─ heads ─▶ main directions ─ laid_out ─▶ positions ─ fitted, apart ─▶ x, y ─ grouped, named ─▶ clusters
                               Ground: previous positions ───────────────────▶ x, y

Positions depend on the vectors only, names on the texts. Random numbers use a fixed seed: the same memories give the
same map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cofio.dashboard.projection.cluster_labels import named
from cofio.dashboard.projection.clusters import grouped
from cofio.dashboard.projection.force_layout import laid_out
from cofio.dashboard.projection.grid import apart, fitted
from cofio.dashboard.projection.map_cache import MapCache
from cofio.dashboard.projection.pca import heads
from cofio.dashboard.projection.previous_positions import PreviousPositions
from cofio.models.dashboard import Cluster, Map, MapSource

if TYPE_CHECKING:
    from cofio.dashboard.projection.grid import Places

__all__ = ["MapCache", "PreviousPositions", "drawn", "redrawn"]


def drawn(dots: MapSource) -> Map:
    """Return the map of these memories."""
    return redrawn(dots, None)[0]


def redrawn(dots: MapSource, before: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
    """Return the map of these memories, keeping the positions of known ones, and the ground for the next call.

    The map omits the vectors, which are large.
    """
    ground = (before.kept(dots) if before else None) or PreviousPositions.of(dots, placed(dots))
    light = dots._replace(vectors=np.empty((0, 0), np.float32))
    return charted(light, ground.places_of(dots)), ground


def placed(dots: MapSource) -> Places:
    """Return the positions of the memories, computed without a previous map."""
    if not len(dots.ids):
        return np.empty((0, 2), np.int64)
    rng = np.random.default_rng(0)
    return apart(fitted(laid_out(heads(dots.vectors, rng), rng)))


def charted(dots: MapSource, places: Places) -> Map:
    """Return the map with these positions and their clusters."""
    group = grouped(places)
    clusters = [_cluster(words, places[group == each]) for each, words in enumerate(named(dots.texts, group))]
    x, y = places.T.tolist()
    return Map(dots=dots, x=x, y=y, cluster=group.tolist(), clusters=clusters)


def _cluster(words: tuple[str, ...], places: Places) -> Cluster:
    """Return a cluster at the position of the member nearest to the median, which lies on it whatever its shape."""
    off = np.abs(places - np.median(places, axis=0)).sum(axis=1)
    x, y = places[off.argmin()].tolist()
    return Cluster(words, x, y, len(places))
