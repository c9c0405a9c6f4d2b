"""Memories as points of a plane: near each other where they mean alike, in clusters that have names.

vectors ─ heads ─▶ what differs most ─ laid_out ─▶ places ─ fitted, apart ─▶ x, y ─ grouped, named ─▶ clusters
                                Ground: where they lay the last time ──────────▶ x, y

The places come from the vectors alone, the names from the texts. Every lot is drawn from a fixed seed: the same
memories give the same map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cofio.layout.atlas import Atlas
from cofio.layout.axes import heads
from cofio.layout.ground import Ground
from cofio.layout.groups import grouped
from cofio.layout.names import named
from cofio.layout.plane import laid_out
from cofio.layout.square import apart, fitted
from cofio.picture import Cluster, Dots, Map

if TYPE_CHECKING:
    from cofio.layout.square import Places

__all__ = ["Atlas", "Ground", "drawn", "redrawn"]


def drawn(dots: Dots) -> Map:
    """The map of these memories."""
    return redrawn(dots, None)[0]


def redrawn(dots: Dots, before: Ground | None) -> tuple[Map, Ground]:
    """The map of these memories, on which those that were there before lie where they did; and where all lie now.

    The vectors, which are large, are left behind.
    """
    ground = (before.kept(dots) if before else None) or Ground.of(dots, placed(dots))
    light = dots._replace(vectors=np.empty((0, 0), np.float32))
    return charted(light, ground.places_of(dots)), ground


def placed(dots: Dots) -> Places:
    """Where each memory lies, of its own accord."""
    if not len(dots.ids):
        return np.empty((0, 2), np.int64)
    rng = np.random.default_rng(0)
    return apart(fitted(laid_out(heads(dots.vectors, rng), rng)))


def charted(dots: Dots, places: Places) -> Map:
    """The map on which they lie so: with the clusters that they make there."""
    group = grouped(places)
    clusters = [_cluster(words, places[group == each]) for each, words in enumerate(named(dots.texts, group))]
    x, y = places.T.tolist()
    return Map(dots=dots, x=x, y=y, cluster=group.tolist(), clusters=clusters)


def _cluster(words: tuple[str, ...], places: Places) -> Cluster:
    """A cluster stands where that member stands which is nearest to the middle: on itself, whatever its shape."""
    off = np.abs(places - np.median(places, axis=0)).sum(axis=1)
    x, y = places[off.argmin()].tolist()
    return Cluster(words, x, y, len(places))
