"""Measuring tools of the benchmarks: clocks, percentiles, resident memory, and the machine description."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cofio_eval.environment import machine as machine

if TYPE_CHECKING:
    from cofio_eval.metrics import Figure

BUSY = 0.5  # the load average above which figures are noisy


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of operations per figure."""

    prompts: int = 300
    warmup: int = 60  # further prompts, searched before timing starts
    rounds: int = 4  # repetitions of each prompt
    time_limit: float = 20.0  # seconds after which a slow system may stop, once it has `min_samples`
    min_samples: int = 60
    adds: int = 200  # single adds
    batch: int = 500  # facts per batch when a store is filled
    bulk: int = 500  # facts of a bulk add to a filled store
    bulk_rounds: int = 1  # number of such adds, with deduplication and without
    open_runs: int = 3  # fresh processes that open the store

    @property
    def spare(self) -> int:
        """Return the facts needed beyond a store's size to measure adding to it."""
        return self.adds + 2 * self.bulk_rounds * self.bulk

    def write(self, folder: Path) -> None:
        (folder / "effort.json").write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Effort:
        return cls(**json.loads((folder / "effort.json").read_text(encoding="utf-8")))


def time_call(work: Callable[[], object]) -> float:
    """Return the seconds that the work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def time_calls(
    calls: Iterable[Callable[[], object]], *, min_samples: int = 0, time_limit: float = float("inf")
) -> list[float]:
    """Return the seconds of each call; stop after `min_samples` calls and `time_limit` seconds."""
    durations: list[float] = []
    for call in calls:
        durations.append(time_call(call))
        if len(durations) >= min_samples and sum(durations) > time_limit:
            break
    return durations


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of the values, interpolated linearly."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def p50_p95(name: str, durations: Sequence[float]) -> dict[str, float]:
    """Return both percentiles in milliseconds, with the name as prefix."""
    return {f"{name}_p50_ms": 1e3 * percentile(durations, 0.50), f"{name}_p95_ms": 1e3 * percentile(durations, 0.95)}


def p50_p95_interval(name: str, durations: Sequence[float]) -> dict[str, float]:
    """Return both percentiles in milliseconds, and the 95 % interval of the median."""
    interval = median_interval([1e3 * duration for duration in durations])
    return {**p50_p95(name, durations), f"{name}_p50_low_ms": interval.low, f"{name}_p50_high_ms": interval.high}


def median_interval(values: Sequence[float], *, draws: int = 1_000) -> Figure:
    """Return the median with its 95 % interval, by bootstrap with a fixed seed."""
    import numpy as np

    from cofio_eval.metrics import SEED, Figure

    samples = np.random.default_rng(SEED).choice(np.asarray(values, float), (draws, len(values)))
    low, high = np.quantile(np.median(samples, axis=1), (0.025, 0.975))
    return Figure(percentile(values, 0.5), float(low), float(high))


def resident_memory() -> dict[str, float]:
    """Return the resident memory of this process, and its part that is not mapped from files."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        fields = {"resident_mb": "VmRSS", "resident_own_mb": "RssAnon"}
        return {name: int(lines[line].split()[0]) / 1024 for name, line in fields.items()}
    import resource  # outside Linux only the peak is available, in bytes on a Mac

    return {"resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)}


def print_stage(stages: Mapping[str, Callable[[Path, int], dict[str, float]]], arguments: Sequence[str]) -> None:
    """Run one stage on one size as a child process, and print its figures as JSON."""
    name, folder, size = arguments
    print(json.dumps(stages[name](Path(folder), int(size))))


def run_stage(module: str, name: str, folder: Path, size: int, *, timeout: float | None = None) -> dict[str, float]:
    """Return the figures of a stage in a new process with one BLAS thread.

    Raise TimeoutExpired after `timeout` seconds.
    """
    command = [sys.executable, "-m", module, name, str(folder.absolute()), str(size)]
    blas_threads = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    root = Path(__file__).parents[1]
    process = subprocess.run(
        command,
        cwd=root,
        env={**environment, **blas_threads},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=timeout,
    )
    figures: dict[str, float] = json.loads(process.stdout)
    return figures
