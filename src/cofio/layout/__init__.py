"""Memories as points of a plane: near each other where they mean alike, in clusters that have names.

vectors ─ spread ─▶ x, y          vectors ─ cluster ─▶ members ─ their words beside everybody's ─▶ names
"""

from __future__ import annotations

from cofio.picture import Dots, Map


def drawn(dots: Dots) -> Map:
    """The map of these memories. The same memories give the same map."""
    nowhere = [0] * len(dots.ids)
    return Map(dots=dots, x=nowhere, y=nowhere, cluster=[-1] * len(dots.ids))
