"""Speed and size of each side, for several store sizes; with vectors given, and with real embedding.

    table of vectors ─▶ bulk, single adds, searches: the side alone        server ─▶ the same with embedding

The facts and prompts are those of `bench.corpus`, their vectors those of `bench.vectors`. Texts that are not in the
table are embedded while the clock runs; the embedder's part of that time is reported too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import corpus, measure
from bench.peers import child, embedding
from bench.peers.sides import Side
from bench.vectors import ANCHORS, Material
from cofio.ports import Embedder

_COLLECTION, _WARMING = "facts", "warming"
K = 5


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of operations per figure."""

    prompts: int = 200
    warming: int = 20
    adds: int = 100
    batch: int = 500
    embedded: int = 40  # adds and searches with embedding; as many in one bulk add
    enough: float = 15.0  # seconds after which a slow side may stop early
    least: int = 30
    patience: float = 240.0  # timeout of the bulk add in seconds


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts of one size, and the folder of their vectors."""

    size: int
    told: Sequence[str]  # as many as the size
    added: Sequence[str]
    warming: Sequence[str]
    asked: Sequence[str]
    fresh: Sequence[str]  # facts that no table has
    fresh_prompts: Sequence[str]
    table: Path


def prepared(
    folder: Path, sizes: Sequence[int], embedder: Embedder, effort: Effort, anchors: int = ANCHORS
) -> list[Corpus]:
    """Return the corpus of each size. A larger one begins with the smaller."""
    folder.mkdir(parents=True, exist_ok=True)
    count, prompts = max(sizes) + effort.adds, effort.prompts
    material = Material.make(
        folder, embedder, count=count, asked=prompts, warming=effort.warming, anchors=min(anchors, count)
    )
    asked, warming, asked_vectors = material.prompts()
    facts = [fact.text for fact in corpus.facts(count + 2 * effort.embedded)]
    prompted = corpus.prompts(prompts + effort.warming + effort.embedded)[prompts + effort.warming :]
    made = []
    for size in sizes:
        told = facts[: size + effort.adds]
        rows = np.concatenate([material.vectors(0, len(told)), asked_vectors])
        table = embedding.table(folder / str(size), [*told, *asked, *warming], rows)
        made.append(Corpus(size, told[:size], told[size:], warming, asked, facts[count:], prompted, table))
    return made


def measured(side: Side, corpus: Corpus, folder: Path, url: str, effort: Effort) -> dict[str, Any]:
    """Return all figures of a side at a size. Raise Failed if the side fails."""
    with child.opened(side, folder, vectors=corpus.table, url=url) as open_side:
        figures = _alone(open_side, corpus, effort)
        figures |= {"memories": open_side.ask("count", collection=_COLLECTION)["count"], **open_side.ask("weigh")}
        figures |= _embedded(open_side, corpus, effort)
        figures["version"] = open_side.opening["about"]["version"]
    figures["disk_mb"] = _size(folder)
    started = time.perf_counter()
    with child.opened(side, folder, vectors=corpus.table, url=url) as again:
        again.ask("search", collection=_COLLECTION, text=corpus.asked[0], k=K)
        figures["start_s"] = time.perf_counter() - started
    return figures


def _alone(open_side: child.Child, corpus: Corpus, effort: Effort) -> dict[str, Any]:
    """Measure bulk adds, searches and single adds with vectors given."""
    for text in corpus.warming:  # triggers one-time loading
        open_side.ask("add", collection=_WARMING, item={"id": text, "text": text})
        open_side.ask("search", collection=_WARMING, text=text, k=K)
    items = [{"id": f"fact-{place}", "text": text} for place, text in enumerate(corpus.told)]
    bulk, until = 0.0, time.monotonic() + effort.patience
    for start in range(0, len(items), effort.batch):
        if time.monotonic() > until:
            raise child.Failed(f"{start:,} of {len(items):,} memories were in after {effort.patience:.0f} s")
        some = items[start : start + effort.batch]
        bulk += open_side.ask("add_many", collection=_COLLECTION, items=some, within=effort.patience)["took"]
    for text in corpus.warming:
        open_side.ask("search", collection=_COLLECTION, text=text, k=K)
    searches = _timed(effort, (_search(open_side, text) for text in corpus.asked))
    adds = _timed(effort, (_add(open_side, f"added-{place}", text) for place, text in enumerate(corpus.added)))
    return {
        "bulk_per_s": len(items) / bulk,
        **measure.p50_p95("search", [took for took, _ in searches]),
        **measure.p50_p95("add", [took for took, _ in adds]),
        "searches": len(searches),
        "adds": len(adds),
    }


def _embedded(open_side: child.Child, corpus: Corpus, effort: Effort) -> dict[str, Any]:
    """Measure the same with texts that need embedding, and the embedder's share of the time."""
    many = [{"id": f"many-{place}", "text": text} for place, text in enumerate(corpus.fresh[effort.embedded :])]
    searches = _timed(effort, (_search(open_side, text) for text in corpus.fresh_prompts))
    one_by_one = enumerate(corpus.fresh[: effort.embedded])
    adds = _timed(effort, (_add(open_side, f"fresh-{place}", text) for place, text in one_by_one))
    bulk = open_side.ask("add_many", collection=_COLLECTION, items=many)
    return {
        "whole_search_p50_ms": 1e3 * measure.percentile([took for took, _ in searches], 0.5),
        "whole_search_embedding": _share(searches),
        "whole_add_p50_ms": 1e3 * measure.percentile([took for took, _ in adds], 0.5),
        "whole_add_embedding": _share(adds),
        "whole_bulk_per_s": len(many) / bulk["took"],
        "whole_bulk_embedding": bulk["embedding"] / bulk["took"],
    }


def _timed(effort: Effort, work: Iterable[Callable[[], dict[str, Any]]]) -> list[tuple[float, float]]:
    """Return the seconds of each call and of its embedding; a slow side stops early."""
    took: list[tuple[float, float]] = []
    for piece in work:
        answer = piece()
        took.append((answer["took"], answer["embedding"]))
        if len(took) >= effort.least and sum(seconds for seconds, _ in took) > effort.enough:
            break
    return took


def _search(open_side: child.Child, text: str) -> Callable[[], dict[str, Any]]:
    return lambda: open_side.ask("search", collection=_COLLECTION, text=text, k=K)


def _add(open_side: child.Child, name: str, text: str) -> Callable[[], dict[str, Any]]:
    return lambda: open_side.ask("add", collection=_COLLECTION, item={"id": name, "text": text})


def _share(calls: Sequence[tuple[float, float]]) -> float:
    return sum(part for _, part in calls) / sum(whole for whole, _ in calls)


def _size(folder: Path) -> float:
    every = (path for path in folder.rglob("*") if path.is_file() and path.name != "stderr.log")
    return sum(path.stat().st_size for path in every) / (1 << 20)
