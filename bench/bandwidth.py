"""How fast one thread of this machine reads memory: what an exact scan of vectors cannot go below.

python -m bench.bandwidth read FOLDER MEGABYTES      one stage in this process, figures as JSON
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from bench import measure

DIMENSION = 384
_TIMES = 9


def read(_folder: Path, megabytes: int) -> dict[str, float]:
    """Bytes a second: the best of several readings of an array that no cache holds, in the ways NumPy reads fastest."""
    import numpy as np

    matrix = np.ones(((megabytes << 20) // (4 * DIMENSION), DIMENSION), np.float32)
    vector = np.ones(DIMENSION, np.float32)
    ways: dict[str, Callable[[], object]] = {
        "product": lambda: matrix @ vector,
        "sum": matrix.sum,
        "largest": matrix.view(np.int32).max,
    }
    best = {name: min(measure.once(way) for _ in range(_TIMES)) for name, way in ways.items()}
    figures = {f"{name}_gb_per_s": matrix.nbytes / took / 1e9 for name, took in best.items()}
    return {**figures, "read_gb_per_s": max(figures.values())}


STAGES = {"read": read}

if __name__ == "__main__":
    measure.stage(STAGES, sys.argv[1:])
