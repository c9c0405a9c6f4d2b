"""The stages of the bench for cofio itself, through its public interface with an embedder that looks vectors up.

python -m bench.ours STAGE FOLDER SIZE      one stage in this process, figures as JSON
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import measure  # the rest is loaded where it is needed: what loading takes is measured

if TYPE_CHECKING:
    from bench.vectors import Material, Table
    from cofio.keeper import Keeper
    from cofio.model import Fact


def written(folder: Path, size: int) -> dict[str, float]:
    """An empty store filled with so many facts, in batches, without looking for duplicates."""
    material, effort = _material(folder), measure.Effort.read(folder)
    said = material.said(0, size)
    keeper = _keeper(folder, size, material.embedder(0, size))
    starts = range(0, size, effort.batch)
    took = sum(measure.each(partial(_add_all, keeper, said[start : start + effort.batch]) for start in starts))
    keeper.close()
    return {"bulk_per_s": size / took, "file_mb": _path(folder, size).stat().st_size / (1 << 20)}


def opened(folder: Path, size: int) -> dict[str, float]:
    """A fresh process that opens the store and asks for something."""
    imports = measure.once(lambda: [importlib.import_module(f"cofio.{each}") for each in ("assemble", "stores.sqlite")])
    material = _material(folder)
    asked, embedder = material.prompts()[0], material.embedder()
    keepers: list[Keeper] = []
    opening = measure.once(lambda: keepers.append(_keeper(folder, size, embedder)))
    first = measure.once(lambda: keepers[0].search(asked[0], k=5))
    keepers[0].close()
    return {"import_s": imports, "open_alone_s": opening, "open_s": opening + first}


def searched(folder: Path, size: int) -> dict[str, float]:
    """Every prompt asked several times of an open store; then how much of what is nearest the store finds."""
    material, effort = _material(folder), measure.Effort.read(folder)
    asked, warming, _ = material.prompts()
    keeper = _keeper(folder, size, material.embedder())
    for text in warming:
        keeper.search(text, k=5)
    took = measure.each(_searches(keeper, asked, effort.rounds))
    figures = measure.p50_p95("search", took) | {"search_samples": len(took)}
    figures |= measure.p50_p95("search_new", took[: len(asked)])  # the first time that a prompt is asked
    project = material.said(0, 1)[0][0]
    figures |= measure.p50_p95("search_scoped", measure.each(_searches(keeper, asked, 1, source_prefix=project)))
    figures |= measure.resident()
    keeper.close()
    return {**figures, "recall_at_10": _recall(material, folder, size, 10)}


def grown(folder: Path, size: int) -> dict[str, float]:
    """Single adds to a store of that size, and a bulk add, each looking for duplicates."""
    material, effort = _material(folder), measure.Effort.read(folder)
    end = size + effort.adds + effort.batch
    facts = _facts(material.said(size, end))
    keeper = _keeper(folder, size, material.embedder(size, end))
    took = measure.each(partial(keeper.add, fact) for fact in facts[: effort.adds])
    bulk = measure.once(lambda: keeper.add_all(facts[effort.adds :]))
    keeper.close()
    return {**measure.p50_p95("add", took[len(took) // 10 :]), "bulk_dedup_per_s": effort.batch / bulk}


def _recall(material: Material, folder: Path, size: int, k: int) -> float:
    """The share of the k truly nearest facts that the store's vector search finds, over all prompts."""
    from cofio.assemble import now
    from cofio.model import Scope
    from cofio.stores.sqlite import SqliteStore

    asked, _, vectors = material.prompts()
    store = SqliteStore(_path(folder, size), now)
    last: list[float] = (material.exact(size, k) - 1e-6).tolist()  # of two at the same distance either will do
    found = [
        sum(candidate.score >= least for candidate in store.nearest(vector, k, Scope())) / min(k, size)
        for vector, least in zip(vectors[: len(asked)], last, strict=True)
    ]
    store.close()
    return sum(found) / len(found)


def _searches(keeper: Keeper, asked: Sequence[str], rounds: int, **within: str) -> Iterator[Callable[[], object]]:
    for text in itertools.chain.from_iterable(itertools.repeat(asked, rounds)):
        yield partial(keeper.search, text, k=5, **within)


def _keeper(folder: Path, size: int, embedder: Table) -> Keeper:
    import cofio

    return cofio.open(f"sqlite://{_path(folder, size)}", embedder=embedder, home=folder)


def _add_all(keeper: Keeper, said: Sequence[tuple[str, str]]) -> None:
    keeper.add_all(_facts(said), dedup=False)


def _facts(said: Sequence[tuple[str, str]]) -> list[Fact]:
    from cofio.model import Fact

    return [Fact(text=text, source=source) for source, text in said]


def _material(folder: Path) -> Material:
    from bench.vectors import Material

    return Material(folder)


def _path(folder: Path, size: int) -> Path:
    return folder / f"cofio-{size}.db"


STAGES = {"written": written, "opened": opened, "searched": searched, "grown": grown}

if __name__ == "__main__":
    measure.stage(STAGES, sys.argv[1:])
