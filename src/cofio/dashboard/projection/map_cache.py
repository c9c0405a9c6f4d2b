"""Cache of recently drawn maps, valid until the store changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from cofio.dashboard.projection.previous_positions import PreviousPositions
from cofio.models.dashboard import Map

#: Cached maps; a map of 20,000 memories takes 10 MB.
HELD = 8
#: Seconds after which a map is redrawn without a new changeset, because vectors are added later than memories.
FRESH = 60.0

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
