"""Benchmark stages of cofio itself, through its public interface with an embedder that looks vectors up.

python -m bench.embedded STAGE FOLDER SIZE      one stage in this process, figures as JSON

This is the embedded store; `bench.postgres` is the same on PostgreSQL.
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
    from bench.vectors import LookupEmbedder, Material
    from cofio.core import Keeper
    from cofio.models.memory import Fact
    from cofio.ports import Embedder, Matrix

_REAL_MODEL = "real.json"  # options of the model for embedding queries; present if that is to be timed
_MOST_EMBEDDED = 200  # queries


class Stages:
    """Benchmark stages for one kind of store."""

    def __init__(
        self,
        url_of: Callable[[Path, int], str],
        module: str,
        cpu_elsewhere: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self._url_of = url_of  # returns the URL of the store of a size
        self._module = module
        self._cpu_elsewhere = cpu_elsewhere  # returns the CPU time of a store in other processes

    def all(self) -> dict[str, Callable[[Path, int], dict[str, float]]]:
        return {
            "write": self.measure_write,
            "open": self.measure_open,
            "search": self.measure_search,
            "add": self.measure_add,
        }

    def measure_write(self, folder: Path, size: int) -> dict[str, float]:
        """Fill an empty store with this many facts, in batches, without deduplication."""
        seconds = self.fill(folder, size, size)
        return {"bulk_per_s": size / seconds, "file_mb": self.megabytes(folder, size)}

    def fill(self, folder: Path, size: int, count: int) -> float:
        """Return the seconds for adding the first facts of a store of that size."""
        material, effort = _material(folder), measure.Effort.read(folder)
        facts = material.facts(0, count)
        with self._keeper(folder, size, material.embedder(0, count)) as keeper:
            starts = range(0, count, effort.batch)
            return sum(
                measure.time_calls(partial(_add_facts, keeper, facts[start : start + effort.batch]) for start in starts)
            )

    def megabytes(self, folder: Path, size: int) -> float:
        """Return the size of the store on disk."""
        with self._keeper(folder, size, _material(folder).embedder()) as keeper:
            return float(keeper.stats()["bytes"]) / (1 << 20)

    def measure_open(self, folder: Path, size: int) -> dict[str, float]:
        """Open the store in a fresh process and search once."""
        names = ("cofio.bootstrap", self._module)
        imports = measure.time_call(lambda: [importlib.import_module(name) for name in names])
        material = _material(folder)
        prompts, embedder = material.prompts()[0], material.embedder()
        keepers: list[Keeper] = []
        opening = measure.time_call(lambda: keepers.append(self._keeper(folder, size, embedder)))
        first = measure.time_call(lambda: keepers[0].search(prompts[0], k=5))
        keepers[0].close()
        return {"import_s": imports, "open_alone_s": opening, "open_s": opening + first}

    def measure_search(self, folder: Path, size: int) -> dict[str, float]:
        """Search an open store with every prompt several times; then measure the recall of its vector search."""
        material, effort = _material(folder), measure.Effort.read(folder)
        prompts, warmup, _ = material.prompts()
        embedder = SwitchableEmbedder(material.embedder())
        with self._keeper(folder, size, embedder) as keeper:
            for text in warmup:
                keeper.search(text, k=5)
            cpu_before = self._cpu_seconds(folder, size)
            durations = measure.time_calls(
                _searches(keeper, prompts, effort.rounds), min_samples=len(prompts), time_limit=effort.time_limit
            )
            figures = measure.p50_p95_interval("search", durations) | {"search_samples": len(durations)}
            figures["search_cpu_ms"] = 1e3 * (self._cpu_seconds(folder, size) - cpu_before) / len(durations)
            figures |= measure.p50_p95_interval(
                "search_new", durations[: len(prompts)]
            )  # the first search for each prompt
            project = material.facts(0, 1)[0][0]
            figures |= measure.p50_p95(
                "search_scoped", measure.time_calls(_searches(keeper, prompts, 1, source_prefix=project))
            )
            figures |= measure.resident_memory()
            if (folder / _REAL_MODEL).exists():
                figures |= _time_with_model(keeper, embedder, folder, prompts)
        return {**figures, "recall_at_10": self._recall(material, folder, size, 10)}

    def measure_add(self, folder: Path, size: int) -> dict[str, float]:
        """Time single adds and bulk adds with deduplication to a store of that size, then bulk adds without."""
        material, effort = _material(folder), measure.Effort.read(folder)
        end = size + effort.spare
        facts = iter(_to_facts(material.facts(size, end)))
        with self._keeper(folder, size, material.embedder(size, end)) as keeper:
            warmup = effort.adds // 10  # the first one loads the data for deduplication
            measure.time_calls(partial(keeper.add, fact) for fact in itertools.islice(facts, warmup))
            cpu_before = self._cpu_seconds(folder, size)
            durations = measure.time_calls(
                partial(keeper.add, fact) for fact in itertools.islice(facts, effort.adds - warmup)
            )
            figures = measure.p50_p95_interval("add", durations)
            figures["add_cpu_ms"] = 1e3 * (self._cpu_seconds(folder, size) - cpu_before) / len(durations)
            for name, dedup in (("bulk_dedup", True), ("bulk", False)):
                batches = [list(itertools.islice(facts, effort.bulk)) for _ in range(effort.bulk_rounds)]
                batch_durations = measure.time_calls(partial(keeper.add_all, batch, dedup=dedup) for batch in batches)
                figures |= {f"{name}_per_s": effort.bulk / measure.percentile(batch_durations, 0.5)} if dedup else {}
                figures |= measure.p50_p95_interval(f"{name}_each", [batch / effort.bulk for batch in batch_durations])
        return figures

    def _cpu_seconds(self, folder: Path, size: int) -> float:
        """Return the CPU time of this store so far, which other load on the machine affects least."""
        return time.process_time() + self._cpu_elsewhere(self._url_of(folder, size))

    def _recall(self, material: Material, folder: Path, size: int, k: int) -> float:
        """Return the recall of the store's vector search at k, over all prompts."""
        from cofio.bootstrap import open_store
        from cofio.models.memory import Scope
        from cofio.settings import Settings

        prompts, _, vectors = material.prompts()
        store = open_store(Settings.load({"store": self._url_of(folder, size), "home": folder}))
        lowest_scores: list[float] = (
            material.exact_cosines(size, k) - 1e-6
        ).tolist()  # of two at the same distance either will do
        recalls = [
            sum(candidate.score >= lowest for candidate in store.nearest(vector, k, Scope())) / min(k, size)
            for vector, lowest in zip(vectors[: len(prompts)], lowest_scores, strict=True)
        ]
        store.close()
        return sum(recalls) / len(recalls)

    def _keeper(self, folder: Path, size: int, embedder: Embedder) -> Keeper:
        import cofio

        return cofio.open(self._url_of(folder, size), embedder=embedder, home=folder)


class SwitchableEmbedder:
    """Embedder that looks vectors up, until `asks` is replaced by a real one."""

    def __init__(self, table: LookupEmbedder) -> None:
        self.signature, self.floor, self.dimension = table.signature, table.floor, table.dimension
        self.current: Embedder = table

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        return self.current.embed(texts, kind)


def use_real_model(folder: Path, **options: Any) -> None:
    """Configure the stages to time queries with this model of `embedders.make`."""
    (folder / _REAL_MODEL).write_text(
        json.dumps({name: str(value) for name, value in options.items()}), encoding="utf-8"
    )


def _time_with_model(
    keeper: Keeper, embedder: SwitchableEmbedder, folder: Path, prompts: Sequence[str]
) -> dict[str, float]:
    """Return the times of the same searches with real query embedding, once each, and of the model alone."""
    from cofio.providers import embedders

    options = json.loads((folder / _REAL_MODEL).read_text(encoding="utf-8"))
    embedder.current = embedders.make(options["spec"], home=Path(options["home"]), download=False)
    sample = prompts[:_MOST_EMBEDDED]
    embedder.current.embed(["It is loaded now."], "query")
    figures = measure.p50_p95_interval("search_embedded", measure.time_calls(_searches(keeper, sample, 1)))
    uncached = (partial(embedder.current.embed, [f"{text} Again."], "query") for text in sample)  # to bypass its cache
    return {**figures, **measure.p50_p95_interval("embedding", measure.time_calls(uncached))}


def _searches(keeper: Keeper, prompts: Sequence[str], rounds: int, **filters: Any) -> Iterator[Callable[[], object]]:
    for text in itertools.chain.from_iterable(itertools.repeat(prompts, rounds)):
        yield partial(keeper.search, text, k=5, **filters)


def _add_facts(keeper: Keeper, facts: Sequence[tuple[str, str]]) -> None:
    keeper.add_all(_to_facts(facts), dedup=False)


def _to_facts(facts: Sequence[tuple[str, str]]) -> list[Fact]:
    from cofio.models.memory import Fact

    return [Fact(text=text, source=source) for source, text in facts]


def _material(folder: Path) -> Material:
    from bench.vectors import Material

    return Material(folder)


def _url(folder: Path, size: int) -> str:
    return f"sqlite://{folder / f'cofio-{size}.db'}"


STAGES = Stages(_url, "cofio.stores.sqlite.store").all()

if __name__ == "__main__":
    measure.print_stage(STAGES, sys.argv[1:])
