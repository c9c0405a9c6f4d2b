"""Cost of consolidation, and its effect on concurrent searches.

    python -m bench.upkeep [--size 50000] [--strict] [--json PATH] [--folder FOLDER]

    material ─▶ a store in which all memories are of one project ─▶ searches while idle
                                                                  └ searches while a dry run goes on

A single project is the worst case: every memory is compared with every other. No language model is called, to exclude
its time. One thread searches all the time, with a short pause after each answer. Memories' vectors are mixtures of
really embedded ones (see bench/vectors.py), because embedding fifty thousand texts would take longer than the rest; the
prompts are embedded in each search, so that its cost is realistic.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bench import measure
from bench.vectors import ANCHORS, LookupEmbedder, Material
from cofio.core import Keeper
from cofio.errors import CofioError
from cofio.models.maintenance import MaintenancePlan
from cofio.models.memory import Fact
from cofio.ports import Embedder, Matrix
from cofio.providers import embedders
from cofio.settings import Settings

_RESULTS = Path(__file__).parent / "results"
_PROMPTS, _WARMUP = 200, 40
_BATCH = 1_000
_DUPLICATE_EVERY = 50  # one fact in this many is stored twice
_IDLE = 12.0  # seconds of searching before the dry run
_PAUSE = 0.01  # seconds between an answer and the next search
_NOTES = (
    "Memories' vectors are mixtures of really embedded facts; prompts are embedded in every search.",
    "All memories are of one project, so that each is compared with each; one in fifty is stored twice.",
    "No language model is called. BLAS uses its default number of threads, as in the service.",
)
TARGETS = (
    ("a dry run takes less than 60 s", "dry_run_s", 60.0),
    ("the process stays below 1 GB", "peak_mb", 1024.0),
    ("the p95 of searches meanwhile is at most twice the idle one", "p95_ratio", 2.0),
)


class _MixedEmbedder:
    """Embedder that looks documents up and embeds questions with the real model."""

    def __init__(self, table: LookupEmbedder, model: Embedder) -> None:
        self.signature, self.floor, self.dimension = table.signature, table.floor, table.dimension
        self._table, self._load_embedder = table, model

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        return self._load_embedder.embed(texts, kind) if kind == "query" else self._table.embed(texts, kind)


def measure_write(folder: Path, size: int) -> dict[str, float]:
    """Write a store of this many memories."""
    material = Material(folder)
    distinct = size - size // _DUPLICATE_EVERY
    texts = [text for _, text in material.facts(0, distinct)]
    texts += texts[: size - distinct]
    with _keeper(folder, material.embedder(0, distinct)) as keeper:
        seconds = measure.time_call(lambda: _add(keeper, texts))
    return {"write_s": seconds}


def measure_consolidation(folder: Path, size: int) -> dict[str, float]:
    """Time searches alone, then searches during a dry run, in one process."""
    material = Material(folder)
    prompts, warmup, _ = material.prompts()
    table = material.embedder()
    with _keeper(folder, _MixedEmbedder(table, _load_embedder(table.signature))) as keeper:
        for text in warmup:
            keeper.search(text, k=5)
        memory_before = measure.resident_memory()["resident_mb"]
        deadline = time.perf_counter() + min(_IDLE, size / 1_000)
        idle = _time_searches(keeper, prompts, lambda: time.perf_counter() > deadline)
        plan, dry_run_seconds, busy = _run_during_searches(keeper, prompts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)
    figures = {**measure.p50_p95("idle", idle), **measure.p50_p95("busy", busy)}
    return {
        **figures,
        "dry_run_s": dry_run_seconds,
        "examined": plan.examined,
        "decisions": len(plan.decisions),
        "searches": len(busy),
        "resident_mb": memory_before,
        "peak_mb": peak,
        "growth_mb": peak - memory_before,
        "p50_ratio": figures["busy_p50_ms"] / figures["idle_p50_ms"],
        "p95_ratio": figures["busy_p95_ms"] / figures["idle_p95_ms"],
    }


def _run_during_searches(keeper: Keeper, prompts: Sequence[str]) -> tuple[MaintenancePlan, float, list[float]]:
    """Return the plan of a dry run, its seconds, and the seconds of each search meanwhile."""
    plans: list[MaintenancePlan] = []
    durations: list[float] = []
    dry_run = threading.Thread(
        target=lambda: durations.append(measure.time_call(lambda: plans.append(keeper.consolidate())))
    )
    dry_run.start()
    busy = _time_searches(keeper, prompts, lambda: not dry_run.is_alive())
    dry_run.join()
    return plans[0], durations[0], busy


def _time_searches(keeper: Keeper, prompts: Sequence[str], is_over: Callable[[], bool]) -> list[float]:
    durations: list[float] = []
    for text in itertools.cycle(prompts):
        durations.append(measure.time_call(lambda: keeper.search(text, k=5)))  # noqa: B023 (called at once)
        time.sleep(_PAUSE)
        if is_over():
            return durations
    return durations


def _add(keeper: Keeper, texts: Sequence[str]) -> None:
    for start in range(0, len(texts), _BATCH):
        facts = [Fact(text=text, source="bench/app", project="/srv/app") for text in texts[start : start + _BATCH]]
        keeper.add_all(facts, dedup=False)


def _keeper(folder: Path, embedder: Any) -> Keeper:
    import cofio

    return cofio.open(f"sqlite://{folder / 'upkeep.db'}", embedder=embedder, home=folder)


def _load_embedder(signature: str) -> Embedder:
    """Return the embedder with this signature, without a query cache."""
    if signature.startswith("hash:"):
        from cofio.testing import HashEmbedder

        return HashEmbedder(int(signature.rsplit(":", 1)[1]))
    from cofio.providers.embedders.local import LocalEmbedder

    settings = Settings.load()
    return LocalEmbedder(settings.home, download=settings.model_download, recent=0)


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_benchmark(
    size: int, embedder: Embedder, *, anchors: int = ANCHORS, folder: Path | None = None
) -> dict[str, Any]:
    """Return the figures as plain values."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=folder) as name:
        work_folder = Path(name)
        _log(f"embedding {anchors:,} facts and {_PROMPTS + _WARMUP} prompts with {embedder.signature}")
        Material.make(work_folder, embedder, count=size, prompts=_PROMPTS, warmup=_WARMUP, anchors=anchors)
        _log(f"writing {size:,} memories")
        figures = _run_stage("write", work_folder, size)
        _log("searching, alone and during a dry run")
        figures |= _run_stage("consolidate", work_folder, size)
    return {"machine": measure.machine(), "size": size, "figures": figures, "notes": list(_NOTES)}


def _run_stage(name: str, folder: Path, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.upkeep", "--stage", name, "--folder", str(folder), "--size", str(size)]
    root = Path(__file__).parents[1]
    process = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(process.stdout)
    return figures


def missed(results: Mapping[str, Any]) -> list[str]:
    """Return the targets that were missed."""
    return [label for label, name, maximum in TARGETS if results["figures"][name] > maximum]


def show(results: Mapping[str, Any]) -> None:
    """Print the figures, with the machine and the targets."""
    about, figures = results["machine"], results["figures"]
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, NumPy {about['numpy']}")
    print(f"load average at the end: {about['load']:.2f}")
    if about["load"] > about["cores"]:
        print("The machine is busy: figures are noisy; trust the ratios.")
    print(f"\n{results['size']:,} memories, {figures['decisions']:.0f} decisions")
    print(f"dry run        {figures['dry_run_s']:8.1f} s")
    print(f"peak resident  {figures['peak_mb']:8.0f} MB, {figures['growth_mb']:.0f} more than before it")
    print(f"{'':15}{'p50 ms':>8}{'p95 ms':>9}")
    for label, name in (("search, idle", "idle"), ("search, beside", "busy")):
        print(f"{label:15}{figures[f'{name}_p50_ms']:8.1f}{figures[f'{name}_p95_ms']:9.1f}")
    print(f"{'ratio':15}{figures['p50_ratio']:8.2f}{figures['p95_ratio']:9.2f}")
    for note in results["notes"]:
        print(f"- {note}")
    for label, name, maximum in TARGETS:
        print(f"bar: {'not met' if figures[name] > maximum else 'met'}: {label} ({figures[name]:.3g})")


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if a target is missed with --strict, 2 if the model is missing."""
    parser = argparse.ArgumentParser(
        prog="bench.upkeep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=50_000, help="number of memories")
    parser.add_argument("--strict", action="store_true", help="fail if a target is missed")
    parser.add_argument("--json", type=Path, default=_RESULTS / "upkeep.json")
    parser.add_argument("--folder", type=Path, help="folder for the temporary store")
    parser.add_argument("--stage", choices=("write", "consolidate"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        stage = measure_write if options.stage == "write" else measure_consolidation
        print(json.dumps(stage(options.folder, options.size)))
        return 0
    settings = Settings.load()
    embedder = embedders.make("local", home=settings.home, download=settings.model_download)
    try:
        results = run_benchmark(options.size, embedder, folder=options.folder)
    except CofioError as error:
        print(f"The benchmark needs the local model: {error}", file=sys.stderr)
        return 2
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    show(results)
    return 1 if options.strict and missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
