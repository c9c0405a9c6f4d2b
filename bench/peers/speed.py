"""Speed and size of each system, for several store sizes; with vectors given, and with real embedding.

    table of vectors ─▶ bulk, single adds, searches: the system alone        server ─▶ the same with embedding

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
from bench.peers.systems import System
from bench.vectors import ANCHORS, Material
from cofio.ports import Embedder

_COLLECTION, _WARMUP = "facts", "warming"
K = 5


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of operations per figure."""

    prompts: int = 200
    warmup: int = 20
    adds: int = 100
    batch: int = 500
    embedded: int = 40  # adds and searches with embedding; as many in one bulk add
    time_limit: float = 15.0  # seconds after which a slow system may stop early
    min_samples: int = 30
    bulk_timeout: float = 240.0  # timeout of the bulk add in seconds


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts of one size, and the folder of their vectors."""

    size: int
    stored: Sequence[str]  # as many as the size
    added: Sequence[str]
    warmup: Sequence[str]
    prompts: Sequence[str]
    fresh: Sequence[str]  # facts without a vector in the table
    fresh_prompts: Sequence[str]
    table: Path


def prepare_corpora(
    folder: Path, sizes: Sequence[int], embedder: Embedder, effort: Effort, anchors: int = ANCHORS
) -> list[Corpus]:
    """Return the corpus of each size. A larger one begins with the smaller."""
    folder.mkdir(parents=True, exist_ok=True)
    count, prompt_count = max(sizes) + effort.adds, effort.prompts
    material = Material.make(
        folder, embedder, count=count, prompts=prompt_count, warmup=effort.warmup, anchors=min(anchors, count)
    )
    prompts, warmup, prompt_vectors = material.prompts()
    facts = [fact.text for fact in corpus.facts(count + 2 * effort.embedded)]
    new_prompts = corpus.prompts(prompt_count + effort.warmup + effort.embedded)[prompt_count + effort.warmup :]
    corpora = []
    for size in sizes:
        texts = facts[: size + effort.adds]
        rows = np.concatenate([material.vectors(0, len(texts)), prompt_vectors])
        table = embedding.write_table(folder / str(size), [*texts, *prompts, *warmup], rows)
        corpora.append(Corpus(size, texts[:size], texts[size:], warmup, prompts, facts[count:], new_prompts, table))
    return corpora


def measure_system(system: System, corpus: Corpus, folder: Path, url: str, effort: Effort) -> dict[str, Any]:
    """Return all figures of a system at a size. Raise Failed if the system fails."""
    with child.open_adapter(system, folder, vectors=corpus.table, url=url) as adapter:
        figures = _measure_precomputed(adapter, corpus, effort)
        figures |= {"memories": adapter.ask("count", collection=_COLLECTION)["count"], **adapter.ask("weigh")}
        figures |= _measure_with_embedding(adapter, corpus, effort)
        figures["version"] = adapter.opening["about"]["version"]
    figures["disk_mb"] = _size(folder)
    started = time.perf_counter()
    with child.open_adapter(system, folder, vectors=corpus.table, url=url) as reopened:
        reopened.ask("search", collection=_COLLECTION, text=corpus.prompts[0], k=K)
        figures["start_s"] = time.perf_counter() - started
    return figures


def _measure_precomputed(adapter: child.Child, corpus: Corpus, effort: Effort) -> dict[str, Any]:
    """Measure bulk adds, searches and single adds with vectors given."""
    for text in corpus.warmup:  # triggers one-time loading
        adapter.ask("add", collection=_WARMUP, item={"id": text, "text": text})
        adapter.ask("search", collection=_WARMUP, text=text, k=K)
    items = [{"id": f"fact-{number}", "text": text} for number, text in enumerate(corpus.stored)]
    bulk, deadline = 0.0, time.monotonic() + effort.bulk_timeout
    for start in range(0, len(items), effort.batch):
        if time.monotonic() > deadline:
            raise child.SystemFailed(f"{start:,} of {len(items):,} memories were in after {effort.bulk_timeout:.0f} s")
        batch = items[start : start + effort.batch]
        bulk += adapter.ask("add_many", collection=_COLLECTION, items=batch, timeout=effort.bulk_timeout)["took"]
    for text in corpus.warmup:
        adapter.ask("search", collection=_COLLECTION, text=text, k=K)
    searches = _time_calls(effort, (_search(adapter, text) for text in corpus.prompts))
    adds = _time_calls(effort, (_add(adapter, f"added-{number}", text) for number, text in enumerate(corpus.added)))
    return {
        "bulk_per_s": len(items) / bulk,
        **measure.p50_p95("search", [took for took, _ in searches]),
        **measure.p50_p95("add", [took for took, _ in adds]),
        "searches": len(searches),
        "adds": len(adds),
    }


def _measure_with_embedding(adapter: child.Child, corpus: Corpus, effort: Effort) -> dict[str, Any]:
    """Measure the same with texts that need embedding, and the embedder's share of the time."""
    bulk_items = [{"id": f"many-{number}", "text": text} for number, text in enumerate(corpus.fresh[effort.embedded :])]
    searches = _time_calls(effort, (_search(adapter, text) for text in corpus.fresh_prompts))
    single_texts = enumerate(corpus.fresh[: effort.embedded])
    adds = _time_calls(effort, (_add(adapter, f"fresh-{number}", text) for number, text in single_texts))
    bulk = adapter.ask("add_many", collection=_COLLECTION, items=bulk_items)
    return {
        "whole_search_p50_ms": 1e3 * measure.percentile([took for took, _ in searches], 0.5),
        "whole_search_embedding": _embedding_share(searches),
        "whole_add_p50_ms": 1e3 * measure.percentile([took for took, _ in adds], 0.5),
        "whole_add_embedding": _embedding_share(adds),
        "whole_bulk_per_s": len(bulk_items) / bulk["took"],
        "whole_bulk_embedding": bulk["embedding"] / bulk["took"],
    }


def _time_calls(effort: Effort, work: Iterable[Callable[[], dict[str, Any]]]) -> list[tuple[float, float]]:
    """Return the seconds of each call and of its embedding; a slow system stops early."""
    durations: list[tuple[float, float]] = []
    for call in work:
        reply = call()
        durations.append((reply["took"], reply["embedding"]))
        if len(durations) >= effort.min_samples and sum(seconds for seconds, _ in durations) > effort.time_limit:
            break
    return durations


def _search(adapter: child.Child, text: str) -> Callable[[], dict[str, Any]]:
    return lambda: adapter.ask("search", collection=_COLLECTION, text=text, k=K)


def _add(adapter: child.Child, name: str, text: str) -> Callable[[], dict[str, Any]]:
    return lambda: adapter.ask("add", collection=_COLLECTION, item={"id": name, "text": text})


def _embedding_share(calls: Sequence[tuple[float, float]]) -> float:
    return sum(embedding_time for _, embedding_time in calls) / sum(duration for duration, _ in calls)


def _size(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "stderr.log")
    return sum(path.stat().st_size for path in files) / (1 << 20)
