"""Benchmark stages of cofio itself, through its public interface with an embedder that looks vectors up.

python -m bench.ours STAGE FOLDER SIZE      one stage in this process, figures as JSON

This is the embedded store; `bench.served` is the same on PostgreSQL.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench import measure  # other imports are local, since import time is measured

if TYPE_CHECKING:
    from bench.vectors import Material, Table
    from cofio.core import Keeper
    from cofio.models.memory import Fact
    from cofio.ports import Embedder, Matrix

_REAL = "real.json"  # options of the model for embedding queries; present if that is to be timed
_MOST_EMBEDDED = 200  # queries


class Stages:
    """Benchmark stages for one kind of store."""

    def __init__(
        self,
        where: Callable[[Path, int], str],
        loads: str,
        elsewhere: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self._where = where  # returns the URL of the store of a size
        self._loads = loads
        self._elsewhere = elsewhere  # returns the CPU time of a store in other processes

    def all(self) -> dict[str, Callable[[Path, int], dict[str, float]]]:
        return {"written": self.written, "opened": self.opened, "searched": self.searched, "grown": self.grown}

    def written(self, folder: Path, size: int) -> dict[str, float]:
        """Fill an empty store with this many facts, in batches, without deduplication."""
        took = self.fill(folder, size, size)
        return {"bulk_per_s": size / took, "file_mb": self.megabytes(folder, size)}

    def fill(self, folder: Path, size: int, first: int) -> float:
        """Return the seconds for adding the first facts of a store of that size."""
        material, effort = _material(folder), measure.Effort.read(folder)
        said = material.said(0, first)
        with self._keeper(folder, size, material.embedder(0, first)) as keeper:
            starts = range(0, first, effort.batch)
            return sum(measure.each(partial(_add_all, keeper, said[start : start + effort.batch]) for start in starts))

    def megabytes(self, folder: Path, size: int) -> float:
        """Return the size of the store on disk."""
        with self._keeper(folder, size, _material(folder).embedder()) as keeper:
            return float(keeper.stats()["bytes"]) / (1 << 20)

    def opened(self, folder: Path, size: int) -> dict[str, float]:
        """Open the store in a fresh process and search once."""
        names = ("cofio.bootstrap", self._loads)
        imports = measure.once(lambda: [importlib.import_module(name) for name in names])
        material = _material(folder)
        asked, embedder = material.prompts()[0], material.embedder()
        keepers: list[Keeper] = []
        opening = measure.once(lambda: keepers.append(self._keeper(folder, size, embedder)))
        first = measure.once(lambda: keepers[0].search(asked[0], k=5))
        keepers[0].close()
        return {"import_s": imports, "open_alone_s": opening, "open_s": opening + first}

    def searched(self, folder: Path, size: int) -> dict[str, float]:
        """Search an open store with every prompt several times; then measure the recall of its vector search."""
        material, effort = _material(folder), measure.Effort.read(folder)
        asked, warming, _ = material.prompts()
        embedder = Either(material.embedder())
        with self._keeper(folder, size, embedder) as keeper:
            for text in warming:
                keeper.search(text, k=5)
            used = self._used(folder, size)
            took = measure.each(_searches(keeper, asked, effort.rounds), least=len(asked), enough=effort.enough)
            figures = measure.spread("search", took) | {"search_samples": len(took)}
            figures["search_cpu_ms"] = 1e3 * (self._used(folder, size) - used) / len(took)
            figures |= measure.spread("search_new", took[: len(asked)])  # the first search for each prompt
            project = material.said(0, 1)[0][0]
            figures |= measure.p50_p95(
                "search_scoped", measure.each(_searches(keeper, asked, 1, source_prefix=project))
            )
            figures |= measure.resident()
            if (folder / _REAL).exists():
                figures |= _embedding_too(keeper, embedder, folder, asked)
        return {**figures, "recall_at_10": self._recall(material, folder, size, 10)}

    def grown(self, folder: Path, size: int) -> dict[str, float]:
        """Time single adds and bulk adds with deduplication to a store of that size, then bulk adds without."""
        material, effort = _material(folder), measure.Effort.read(folder)
        end = size + effort.spare
        facts = iter(_facts(material.said(size, end)))
        with self._keeper(folder, size, material.embedder(size, end)) as keeper:
            warming = effort.adds // 10  # the first one loads the data for deduplication
            measure.each(partial(keeper.add, fact) for fact in itertools.islice(facts, warming))
            used = self._used(folder, size)
            single = measure.each(partial(keeper.add, fact) for fact in itertools.islice(facts, effort.adds - warming))
            figures = measure.spread("add", single)
            figures["add_cpu_ms"] = 1e3 * (self._used(folder, size) - used) / len(single)
            for name, dedup in (("bulk_dedup", True), ("bulk", False)):
                some = [list(itertools.islice(facts, effort.bulk)) for _ in range(effort.bulks)]
                took = measure.each(partial(keeper.add_all, each, dedup=dedup) for each in some)
                figures |= {f"{name}_per_s": effort.bulk / measure.percentile(took, 0.5)} if dedup else {}
                figures |= measure.spread(f"{name}_each", [each / effort.bulk for each in took])
        return figures

    def _used(self, folder: Path, size: int) -> float:
        """Return the CPU time of this store so far, which other load on the machine affects least."""
        return time.process_time() + self._elsewhere(self._where(folder, size))

    def _recall(self, material: Material, folder: Path, size: int, k: int) -> float:
        """Return the recall of the store's vector search at k, over all prompts."""
        from cofio.bootstrap import open_store
        from cofio.models.memory import Scope
        from cofio.settings import Settings

        asked, _, vectors = material.prompts()
        store = open_store(Settings.load({"store": self._where(folder, size), "home": folder}))
        last: list[float] = (material.exact(size, k) - 1e-6).tolist()  # of two at the same distance either will do
        found = [
            sum(candidate.score >= least for candidate in store.nearest(vector, k, Scope())) / min(k, size)
            for vector, least in zip(vectors[: len(asked)], last, strict=True)
        ]
        store.close()
        return sum(found) / len(found)

    def _keeper(self, folder: Path, size: int, embedder: Embedder) -> Keeper:
        import cofio

        return cofio.open(self._where(folder, size), embedder=embedder, home=folder)


class Either:
    """Embedder that looks vectors up, until `asks` is replaced by a real one."""

    def __init__(self, table: Table) -> None:
        self.signature, self.floor, self.dimension = table.signature, table.floor, table.dimension
        self.asks: Embedder = table

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        return self.asks.embed(texts, kind)


def really(folder: Path, **how: Any) -> None:
    """Configure the stages to time queries with this model of `embedders.make`."""
    (folder / _REAL).write_text(json.dumps({name: str(value) for name, value in how.items()}), encoding="utf-8")


def _embedding_too(keeper: Keeper, embedder: Either, folder: Path, asked: Sequence[str]) -> dict[str, float]:
    """Return the times of the same searches with real query embedding, once each, and of the model alone."""
    from cofio.providers import embedders

    how = json.loads((folder / _REAL).read_text(encoding="utf-8"))
    embedder.asks = embedders.make(how["spec"], home=Path(how["home"]), download=False)
    some = asked[:_MOST_EMBEDDED]
    embedder.asks.embed(["It is loaded now."], "query")
    figures = measure.spread("search_embedded", measure.each(_searches(keeper, some, 1)))
    anew = (partial(embedder.asks.embed, [f"{text} Again."], "query") for text in some)  # to bypass its cache
    return {**figures, **measure.spread("embedding", measure.each(anew))}


def _searches(keeper: Keeper, asked: Sequence[str], rounds: int, **within: Any) -> Iterator[Callable[[], object]]:
    for text in itertools.chain.from_iterable(itertools.repeat(asked, rounds)):
        yield partial(keeper.search, text, k=5, **within)


def _add_all(keeper: Keeper, said: Sequence[tuple[str, str]]) -> None:
    keeper.add_all(_facts(said), dedup=False)


def _facts(said: Sequence[tuple[str, str]]) -> list[Fact]:
    from cofio.models.memory import Fact

    return [Fact(text=text, source=source) for source, text in said]


def _material(folder: Path) -> Material:
    from bench.vectors import Material

    return Material(folder)


def _url(folder: Path, size: int) -> str:
    return f"sqlite://{folder / f'cofio-{size}.db'}"


STAGES = Stages(_url, "cofio.stores.sqlite.store").all()

if __name__ == "__main__":
    measure.stage(STAGES, sys.argv[1:])
