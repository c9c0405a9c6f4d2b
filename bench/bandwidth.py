"""Memory bandwidth of one thread: the lower bound of an exact vector scan.

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
_ROUNDS = 5
_BLOCK_MB = 64  # megabytes: larger than any cache, and read without interruption


def measure_read(_folder: Path, megabytes: int) -> dict[str, float]:
    """Return bytes per second: the best rate over parts larger than any cache, in the ways NumPy reads fastest."""
    import numpy as np

    rows = (min(_BLOCK_MB, megabytes) << 20) // (4 * DIMENSION)
    parts = [np.ones((rows, DIMENSION), np.float32) for _ in range(max(1, megabytes // _BLOCK_MB))]
    vector = np.ones(DIMENSION, np.float32)
    reductions: dict[str, Callable[[np.ndarray[Any, Any]], object]] = {
        "product": lambda part: part @ vector,
        "sum": lambda part: part.sum(),
        "largest": lambda part: part.view(np.int32).max(),
    }
    durations = {
        name: min(measure.time_call(partial(reduction, part)) for _ in range(_ROUNDS) for part in parts)
        for name, reduction in reductions.items()
    }
    figures = {f"{name}_gb_per_s": parts[0].nbytes / duration / 1e9 for name, duration in durations.items()}
    return {**figures, "read_gb_per_s": max(figures.values())}


STAGES = {"read": measure_read}

if __name__ == "__main__":
    measure.print_stage(STAGES, sys.argv[1:])
