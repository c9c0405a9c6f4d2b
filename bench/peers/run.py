"""`make bench-peers`: cofio compared with mem0, chromadb, mcp-memory-service, txtai, plain FTS5 and NumPy, in one run.

    python -m bench.peers [FILE] [--sizes 1000 10000] [--peers chromadb txtai] [--skip-install] [--write FOLDER]

    conversations ─┐                     ┌─ an adapter per system, in a process of its environment ─▶ quality
    corpus         ├─ one embedder ──────┼─▶ speed at each size                                           ─▶ Report
    script         ┘  (table or server)  └─▶ duplicates and updates

scripts/peers creates the environments, under build/peers. A peer that cannot be installed, fails, or takes too long is
in the tables with its reason, and the run continues. FILE holds conversations with questions; without one, quality is
not measured.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.peers import child, embedding, quality, report, speed, updates
from bench.peers.systems import BUILD_FOLDER, PEERS, System, select_systems
from bench.vectors import ANCHORS
from cofio.errors import CofioError
from cofio.ports import Embedder
from cofio.providers import embedders
from cofio.settings import Settings
from cofio_eval import datasets


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and write the requested files; return 2 if the model or the file is missing."""
    options = _options(arguments)
    settings = Settings.load()
    embedder = embedders.make("local", home=settings.home, download=settings.model_download)
    try:
        question_sets = (
            quality.load_question_sets(datasets.read(options.file), options.questions) if options.file else []
        )
        if not options.skip_install:
            _install(options.peers)
        results = run_benchmark(
            embedder, question_sets, options.sizes, options.peers, speed.Effort(), folder=options.folder
        )
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    page = report.build_report(results)
    print(page.text())
    for path in page.write(options.write) if options.write else []:
        print(f"Wrote {path}.", file=sys.stderr)
    return 0


def run_benchmark(
    embedder: Embedder,
    question_sets: Sequence[quality.QuestionSet],
    sizes: Sequence[int],
    peers: Sequence[str],
    effort: speed.Effort,
    *,
    anchors: int = ANCHORS,
    folder: Path | None = None,
    vectors: Path = BUILD_FOLDER / "vectors",
) -> dict[str, Any]:
    """Return all figures of a run as plain values: by measure and system; a failed system has a reason instead."""
    started = time.perf_counter()
    results: dict[str, Any] = {"quality": {}, "speed": {}, "updates": {}}
    cached_embedder = embedding.CachedEmbedder(embedder, vectors)
    with tempfile.TemporaryDirectory(prefix="cofio-peers-", dir=folder) as name, embedding.serve(embedder) as url:
        work_folder = Path(name).resolve()
        if question_sets:
            _log("embedding the conversations")
            table = quality.write_vectors(work_folder / "conversations", question_sets, cached_embedder)
            results["quality"] = _measure_systems(
                "quality",
                select_systems(peers, "quality"),
                work_folder,
                lambda system, store_folder: quality.measure_system(system, question_sets, store_folder, table, url),
            )
        if sizes:
            _log("embedding the corpus")
            for corpus in speed.prepare_corpora(work_folder / "corpus", sizes, cached_embedder, effort, anchors):
                results["speed"][str(corpus.size)] = _measure_systems(
                    f"speed at {corpus.size:,}",
                    select_systems(peers, "speed"),
                    work_folder,
                    lambda system, store_folder, corpus=corpus: speed.measure_system(
                        system, corpus, store_folder, url, effort
                    ),  # type: ignore[misc]
                )
        results["updates"] = _measure_systems(
            "updates",
            select_systems(peers, "updates"),
            work_folder,
            lambda system, store_folder: updates.measure_system(system, store_folder, url),
        )
    return {**results, "seconds": round(time.perf_counter() - started, 1)}


def _measure_systems(
    label: str, systems: Sequence[System], work_folder: Path, measure: Callable[[System, Path], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures of every system by its name, each on an empty folder; for a failed one, the reason."""
    results: dict[str, dict[str, Any]] = {}
    for number, system in enumerate(systems):
        _log(f"{label}: {system.name}")
        folder = work_folder / f"system-{number}"
        try:
            results[system.name] = measure(system, folder)
        except child.SystemFailed as error:
            _log(f"  not measured: {error}")
            results[system.name] = {"reason": str(error)}
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _install(peers: Sequence[str]) -> None:
    """Install an environment for each peer that lacks one.

    Failures are recorded there, and reported with the figures.
    """
    installable = [peer for peer in peers if (Path(__file__).parent / f"requirements-{peer}.txt").exists()]
    if installable:
        subprocess.run(["sh", "scripts/peers", sys.prefix, *installable], cwd=child.ROOT, check=True)


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", help="conversations with questions, one JSON object per line")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000], help="numbers of memories")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="cofio is always included")
    parser.add_argument("--questions", type=int, help="maximum number of questions per conversation")
    parser.add_argument("--skip-install", action="store_true", help="use the existing environments")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write page, JSON and plots here")
    parser.add_argument("--folder", type=Path, help="folder for the temporary stores")
    options = parser.parse_args(arguments)
    if options.sizes and min(options.sizes) < 1:
        parser.error("a size is at least 1")
    options.sizes = sorted(set(options.sizes))
    return options


if __name__ == "__main__":
    sys.exit(main())
