"""How fast one thread of this machine reads memory: what an exact scan of vectors cannot go below.

python -m bench.bandwidth read FOLDER MEGABYTES      one stage in this process, figures as JSON
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import measure

if TYPE_CHECKING:
    import numpy as np

DIMENSION = 384
_TIMES = 5
_PART = 64  # megabytes: more than a cache holds, and read before something else gets its turn


def read(_folder: Path, megabytes: int) -> dict[str, float]:
    """Bytes a second: the best reading of any part of an array that no cache holds, in the ways NumPy reads fastest."""
    import numpy as np

    rows = (min(_PART, megabytes) << 20) // (4 * DIMENSION)
    parts = [np.ones((rows, DIMENSION), np.float32) for _ in range(max(1, megabytes // _PART))]
    vector = np.ones(DIMENSION, np.float32)
    ways: dict[str, Callable[[np.ndarray[Any, Any]], object]] = {
        "product": lambda part: part @ vector,
        "sum": lambda part: part.sum(),
        "largest": lambda part: part.view(np.int32).max(),
    }
    best = {
        name: min(measure.once(partial(way, part)) for _ in range(_TIMES) for part in parts)
        for name, way in ways.items()
    }
    figures = {f"{name}_gb_per_s": parts[0].nbytes / took / 1e9 for name, took in best.items()}
    return {**figures, "read_gb_per_s": max(figures.values())}


STAGES = {"read": read}

if __name__ == "__main__":
    measure.stage(STAGES, sys.argv[1:])
