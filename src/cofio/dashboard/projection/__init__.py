"""Two-dimensional map of memories: similar memories are close, and clusters have names.

vectors ─ heads ─▶ main directions ─ laid_out ─▶ positions ─ fitted, apart ─▶ x, y ─ grouped, named ─▶ clusters
                               Ground: previous positions ───────────────────▶ x, y

Positions depend on the vectors only, names on the texts. Random numbers use a fixed seed: the same memories give the
same map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cofio.dashboard.projection.cluster_labels import label_clusters
from cofio.dashboard.projection.clusters import find_clusters
from cofio.dashboard.projection.force_layout import layout_points, principal_components
from cofio.dashboard.projection.grid import fit_to_grid, resolve_overlaps
from cofio.dashboard.projection.map_cache import MapCache, PreviousPositions
from cofio.models.dashboard import Cluster, Map, MapSource

if TYPE_CHECKING:
    from cofio.dashboard.projection.grid import Places

__all__ = ["MapCache", "PreviousPositions", "draw_map", "redraw_map"]


def draw_map(dots: MapSource) -> Map:
    """Return the map of these memories."""
    return redraw_map(dots, None)[0]


def redraw_map(dots: MapSource, before: PreviousPositions | None) -> tuple[Map, PreviousPositions]:
    """Return the map of these memories, keeping the positions of known ones, and the ground for the next call.

    The map omits the vectors, which are large.
    """
    ground = (before.update(dots) if before else None) or PreviousPositions.of(dots, _place_memories(dots))
    places = ground.places_of(dots)
    group = find_clusters(places)
    clusters = [
        _make_cluster(words, places[group == number]) for number, words in enumerate(label_clusters(dots.texts, group))
    ]
    x, y = places.T.tolist()
    light = dots._replace(vectors=np.empty((0, 0), np.float32))
    return Map(dots=light, x=x, y=y, cluster=group.tolist(), clusters=clusters), ground


def _place_memories(dots: MapSource) -> Places:
    """Return the positions of the memories, computed without a previous map."""
    if not len(dots.ids):
        return np.empty((0, 2), np.int64)
    rng = np.random.default_rng(0)
    return resolve_overlaps(fit_to_grid(layout_points(principal_components(dots.vectors, rng), rng)))


def _make_cluster(words: tuple[str, ...], places: Places) -> Cluster:
    """Return a cluster at the position of the member nearest to the median, which lies on it whatever its shape."""
    off = np.abs(places - np.median(places, axis=0)).sum(axis=1)
    x, y = places[off.argmin()].tolist()
    return Cluster(words, x, y, len(places))
