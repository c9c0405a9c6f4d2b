"""The maps that were drawn last, kept until something has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from cofio.layout.ground import Ground
from cofio.picture import Map

#: Maps that are kept: of twenty thousand memories each takes ten megabytes.
HELD = 8
#: Seconds after which a map is drawn again though no change was told: vectors come later than what they are of.
FRESH = 60.0

#: Draws a map, with those who were there where they were; and tells where all lie now.
Draw: TypeAlias = Callable[[Ground | None], tuple[Map, Ground]]


class Atlas:
    """A few maps, by what they are of and who may see it. Any number of threads may ask; each map is drawn by one."""

    def __init__(self, *, held: int = HELD, fresh: float = FRESH, ticks: Callable[[], float] = time.monotonic) -> None:
        self._held, self._fresh, self._ticks = held, fresh, ticks
        self._lock = threading.Lock()
        self._sheets: dict[Hashable, _Sheet] = {}  # the one that was asked for last stands last

    def map(self, of: Hashable, changeset: int, draw: Draw) -> Map:
        """The map of this; drawn now, unless it was since the changeset."""
        sheet = self._sheet(of)
        with sheet.lock:
            now = self._ticks()
            if sheet.map is None or sheet.changeset < changeset or now - sheet.at >= self._fresh:
                sheet.map, sheet.ground = draw(sheet.ground)
                sheet.changeset, sheet.at = changeset, now
            return sheet.map

    def _sheet(self, of: Hashable) -> _Sheet:
        with self._lock:
            sheet = self._sheets[of] = self._sheets.pop(of, _Sheet())
            while len(self._sheets) > self._held:
                del self._sheets[next(iter(self._sheets))]
            return sheet


@dataclass(slots=True)
class _Sheet:
    """A map, and as of when it is."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    map: Map | None = None
    ground: Ground | None = None
    changeset: int = 0
    at: float = 0.0
