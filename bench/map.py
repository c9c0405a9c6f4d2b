"""Cost of the map, and how well it preserves neighbourhoods, compared with plain PCA in the same run.

    python -m bench.map [--sizes 1000 10000 20000] [--texts 3000] [--file LINES] [--strict] [--json PATH]

    material ─▶ a store ─▶ the first call ─▶ a repeated call ─▶ a call after one more memory
    texts ─ real embedder ─▶ vectors ─▶ our plane, PCA's plane ─▶ neighbours kept, trustworthiness, labels, purity

Speed is the CPU time of `keeper.dashboard.map` (one thread) on the embedded store, with vectors that are mixtures of
really embedded ones (see bench/vectors.py). PCA is the projection of the same vectors on their two principal
directions, by NumPy on one thread. Quality is measured on really embedded texts: the generated facts of
bench/corpus.py, whose topics are their labels, or the lines of a file, `label<tab>text` or only a text.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

import cofio
from bench import measure
from bench.corpus import facts
from bench.vectors import Material
from cofio.core import Keeper
from cofio.dashboard import projection
from cofio.dashboard.projection.clusters import find_clusters
from cofio.dashboard.projection.grid import fit_to_grid, resolve_overlaps
from cofio.models.dashboard import SIDE, MapSource
from cofio.models.memory import Fact
from cofio.providers import embedders
from cofio.settings import Settings
from cofio.stores.sqlite.blas import one_thread
from cofio.testing import HashEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.ports import Embedder, Matrix

    Places = NDArray[np.int64]

_RESULTS = Path(__file__).parent / "results"
_ROUNDS = 3
_K = 10  # neighbours
_SAMPLE = 500  # points whose neighbours are compared
SPEED_TARGETS = (
    ("the first look at 10,000 memories takes less than 2 s", "cold_ms", 2_000.0),
    ("another look takes less than 100 ms", "warm_ms", 100.0),
    ("as JSON they are less than 2 MB", "megabytes", 2.0),
)
QUALITY_TARGETS = (
    ("twice as many neighbours are kept as by PCA", "kept", 2.0),
    ("clusters are purer than on PCA's plane", "purity", 1.0),
)


# ── speed ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_speed(folder: Path, size: int) -> dict[str, float]:
    """Return the times of each call in a store of this size."""
    material = Material(folder)
    texts = [text for _, text in material.facts(0, size + 1)]
    embedder = material.embedder(0, size + 1)
    durations: dict[str, list[float]] = {"cold_ms": [], "warm_ms": [], "one_more_ms": []}
    with _keeper(folder / f"{size}.db", embedder) as keeper:
        for start in range(0, size, 1_000):
            batch = texts[start : min(size, start + 1_000)]
            keeper.add_all([Fact(text=text, source="bench/app") for text in batch], dedup=False)
    for round_number in range(_ROUNDS):
        with _keeper(folder / f"{size}.db", embedder) as keeper:
            keeper.dashboard.map(limit=1)  # loads the store's vectors into memory
            durations["cold_ms"].append(_cpu_milliseconds(keeper.dashboard.map))
            durations["warm_ms"].append(_cpu_milliseconds(keeper.dashboard.map))
            if not round_number:
                keeper.add_all([Fact(text=texts[size], source="bench/app")], dedup=False)
                durations["one_more_ms"].append(_cpu_milliseconds(keeper.dashboard.map))
            memory_map = keeper.dashboard.map()
    vectors = np.asarray(material.vectors(0, size))
    with one_thread():
        pca = [_cpu_milliseconds(lambda: project_pca(vectors)) for _ in range(_ROUNDS)]
    encoded: list[bytes] = []
    encoding = _cpu_milliseconds(lambda: encoded.append(msgspec.json.encode(memory_map.as_dict())))
    figures = {name: statistics.median(values) for name, values in durations.items()}
    return {
        **figures,
        "pca_ms": statistics.median(pca),
        "encoding_ms": encoding,
        "megabytes": len(encoded[0]) / 1e6,
        "clusters": len(memory_map.clusters),
    }


def _cpu_milliseconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return 1_000 * (time.thread_time() - started)


def _keeper(path: Path, embedder: Any) -> Keeper:
    return cofio.open(f"sqlite://{path}", embedder=embedder, home=path.parent)


def project_pca(vectors: Matrix) -> Matrix:
    """Return the coordinates of the vectors in their two principal directions (plain PCA)."""
    spread = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(spread.T @ spread)
    plane: Matrix = spread @ directions[:, :-3:-1]
    return plane


# ── quality ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_quality(texts: Sequence[str], labels: Sequence[str], embedder: Embedder) -> dict[str, dict[str, float]]:
    """Return how well our plane and PCA's preserve the neighbourhoods of the vectors."""
    vectors = np.asarray(embedder.embed(texts, "document"), np.float32)
    count = len(texts)
    dots = MapSource(range(count, 0, -1), vectors, texts, [""] * count, [""] * count, [""] * count, count)
    with one_thread():
        memory_map = projection.draw_map(dots)
        pca = resolve_overlaps(
            fit_to_grid(np.ascontiguousarray(project_pca(vectors), np.float32).view(np.complex64)[:, 0])
        )
    cofio_plane = np.stack([memory_map.x, memory_map.y], axis=1)
    return {"cofio": _quality(vectors, cofio_plane, labels), "pca": _quality(vectors, pca, labels)}


def _quality(vectors: Matrix, places: Places, labels: Sequence[str]) -> dict[str, float]:
    sample = np.random.default_rng(0).permutation(len(vectors))[:_SAMPLE]
    distances = np.square(places[sample, np.newaxis] - places).sum(axis=2).astype(np.float64)
    distances[np.arange(len(sample)), sample] = np.inf
    neighbours = np.argsort(distances, axis=1, kind="stable")[:, :_K]
    cosines = vectors[sample] @ vectors.T
    cosines[np.arange(len(sample)), sample] = 2  # the point itself comes first: rank 0
    ranks = np.argsort(np.argsort(-cosines, axis=1, kind="stable"), axis=1)
    rank = np.take_along_axis(ranks, neighbours, axis=1)
    label_array = np.array(labels)
    quality = {
        "kept": float(np.mean(rank <= _K)),
        "trust": _trust(rank, len(vectors)),
        "spread": float(np.mean(np.ptp(places, axis=0)) / SIDE),
    }
    if len(set(labels)) > 1:
        quality["alike"] = float(np.mean(label_array[neighbours] == label_array[sample, np.newaxis]))
        quality["purity"] = _purity(find_clusters(places), label_array)
    return quality


def _trust(rank: Places, count: int) -> float:
    """Return the trustworthiness: 1 if all neighbours in the plane are true ones, less the more distant they are."""
    worst = len(rank) * _K * (2 * count - 3 * _K - 1) / 2
    return float(1 - np.maximum(rank - _K, 0).sum() / worst)


def _purity(group: Places, labels: NDArray[Any]) -> float:
    """Return the share of points in a cluster whose most frequent label is theirs; unclustered points count as no."""
    largest = (
        Counter(labels[group == cluster].tolist()).most_common(1)[0][1] for cluster in range(group.max(initial=-1) + 1)
    )
    return sum(largest) / len(group)


def read_texts(path: Path) -> tuple[list[str], list[str]]:
    """Return the texts of a file, and their labels."""
    lines = [line.rpartition("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [text for _, _, text in lines], [label for label, _, _ in lines]


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_benchmark(sizes: Sequence[int], texts: int, file: Path | None, embedder: Embedder) -> dict[str, Any]:
    """Return all figures."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-") as folder:
        Material.make(Path(folder), embedder, count=max(sizes) + 1, prompts=1, warmup=0)
        figures = {str(size): measure_speed(Path(folder), size) for size in sizes}
    generated = facts(texts)
    texts_to_embed, labels = (
        read_texts(file) if file else ([fact.text for fact in generated], [fact.topic for fact in generated])
    )
    quality = measure_quality(texts_to_embed, labels, embedder)
    return {"machine": measure.machine(), "figures": figures, "texts": len(texts_to_embed), "quality": quality}


def missed(results: dict[str, Any]) -> list[str]:
    """Return the targets that the figures miss."""
    figures, quality = results["figures"].get("10000", {}), results["quality"]
    slow = [label for label, name, maximum in SPEED_TARGETS if figures.get(name, 0) > maximum]
    cofio_quality, pca = quality["cofio"], quality["pca"]
    return slow + [
        label
        for label, name, times in QUALITY_TARGETS
        if name in cofio_quality and cofio_quality[name] < times * pca[name]
    ]


def show(results: dict[str, Any]) -> None:
    print(f"{'memories':>10}{'first':>10}{'again':>10}{'one more':>10}{'PCA':>10}{'JSON':>10}")
    for size, figures in results["figures"].items():
        times = "".join(f"{figures[name]:>7,.0f} ms" for name in ("cold_ms", "warm_ms", "one_more_ms", "pca_ms"))
        print(f"{int(size):>10,}{times}{figures['megabytes']:>7.2f} MB   {figures['clusters']} clusters")
    print(f"{results['texts']:,} really embedded texts: ours, PCA's")
    for name, value in results["quality"]["cofio"].items():
        print(f"{name:>10}{value:>10.3f}{results['quality']['pca'][name]:>10.3f}")
    missed_labels = missed(results)
    for label in (*(bar[0] for bar in SPEED_TARGETS), *(bar[0] for bar in QUALITY_TARGETS)):
        print(f"bar: {label}: {'MISSED' if label in missed_labels else 'cleared'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; with --strict, return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        prog="bench.map", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 20_000])
    parser.add_argument("--texts", type=int, default=3_000, help="number of generated texts to embed and evaluate")
    parser.add_argument("--file", type=Path, help="your own texts to evaluate, one per line")
    parser.add_argument("--hash", action="store_true", help="hashed words instead of the model")
    parser.add_argument("--strict", action="store_true", help="fail if a target is missed")
    parser.add_argument("--json", type=Path, default=_RESULTS / "map.json")
    options = parser.parse_args(arguments)
    results = run_benchmark(options.sizes, options.texts, options.file, _embedder(options.hash))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    show(results)
    return 1 if options.strict and missed(results) else 0


def _embedder(hashed: bool) -> Embedder:
    if hashed:
        return HashEmbedder()
    settings = Settings.load()
    return embedders.make("local", home=settings.home, download=settings.model_download)


if __name__ == "__main__":
    sys.exit(main())
