"""`make bench-peers`: cofio compared with mem0, chromadb, mcp-memory-service, txtai, plain FTS5 and NumPy, in one run.

    python -m bench.peers [FILE] [--sizes 1000 10000] [--peers chromadb txtai] [--skip-install] [--write FOLDER]

    conversations ─┐                     ┌─ an adapter per side, in a process of its environment ─▶ quality
    corpus         ├─ one embedder ──────┼─▶ speed at each size                                           ─▶ Report
    script         ┘  (table or server)  └─▶ results for repetitions and changes

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

from bench.peers import child, embedding, quality, sameness, speed, telling
from bench.peers.sides import PEERS, PLACE, Side, chosen
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
        every = quality.asked(datasets.read(options.file), options.questions) if options.file else []
        if not options.skip_install:
            _install(options.peers)
        results = measured(embedder, every, options.sizes, options.peers, speed.Effort(), folder=options.folder)
    except CofioError as error:
        print(error, file=sys.stderr)
        return 2
    made = telling.report(results)
    print(made.text())
    for path in made.write(options.write) if options.write else []:
        print(f"Wrote {path}.", file=sys.stderr)
    return 0


def measured(
    embedder: Embedder,
    every: Sequence[quality.Asked],
    sizes: Sequence[int],
    peers: Sequence[str],
    effort: speed.Effort,
    *,
    anchors: int = ANCHORS,
    folder: Path | None = None,
    vectors: Path = PLACE / "vectors",
) -> dict[str, Any]:
    """Return all figures of a run as plain values: by measure and side; a failed side has a reason instead."""
    started = time.perf_counter()
    results: dict[str, Any] = {"quality": {}, "speed": {}, "sameness": {}}
    kept = embedding.Kept(embedder, vectors)
    with tempfile.TemporaryDirectory(prefix="cofio-peers-", dir=folder) as name, embedding.served(embedder) as url:
        place = Path(name).resolve()
        if every:
            _tell("embedding the conversations")
            table = quality.vectors(place / "conversations", every, kept)
            results["quality"] = _each(
                "quality",
                chosen(peers, "quality"),
                place,
                lambda side, at: quality.measured(side, every, at, table, url),
            )
        if sizes:
            _tell("embedding the corpus")
            for corpus in speed.prepared(place / "corpus", sizes, kept, effort, anchors):
                results["speed"][str(corpus.size)] = _each(
                    f"speed at {corpus.size:,}",
                    chosen(peers, "speed"),
                    place,
                    lambda side, at, corpus=corpus: speed.measured(side, corpus, at, url, effort),  # type: ignore[misc]
                )
        results["sameness"] = _each(
            "sameness", chosen(peers, "sameness"), place, lambda side, at: sameness.measured(side, at, url)
        )
    return {**results, "seconds": round(time.perf_counter() - started, 1)}


def _each(
    what: str, sides: Sequence[Side], place: Path, measure: Callable[[Side, Path], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures of every side by its name, each on an empty folder; of a failed side, the reason."""
    found: dict[str, dict[str, Any]] = {}
    for number, side in enumerate(sides):
        _tell(f"{what}: {side.name}")
        folder = place / f"side-{number}"
        try:
            found[side.name] = measure(side, folder)
        except child.Failed as error:
            _tell(f"  not measured: {error}")
            found[side.name] = {"reason": str(error)}
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _install(peers: Sequence[str]) -> None:
    """Install an environment for each peer that lacks one.

    Failures are recorded there, and reported with the figures.
    """
    named = [peer for peer in peers if (Path(__file__).parent / f"requirements-{peer}.txt").exists()]
    if named:
        subprocess.run(["sh", "scripts/peers", sys.prefix, *named], cwd=child.ROOT, check=True)


def _tell(text: str) -> None:
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
