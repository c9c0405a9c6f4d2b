"""The scaling benchmark at small sizes: every figure is present, and finished measurements are reused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest

import cofio
from bench import measure, postgres_copy, scale, vectors
from cofio.models.memory import Fact
from cofio.testing import HashEmbedder

SIZE = 200
EFFORT = measure.Effort(prompts=8, warmup=2, rounds=1, adds=10, batch=100, bulk=10, bulk_rounds=2, open_runs=1)


@pytest.fixture(scope="module")
def result_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale")


@pytest.fixture(scope="module")
def results(result_folder: Path) -> scale.ScaleResults:
    return _measured(result_folder, ("embedded", "postgres", "baseline"))


def _measured(folder: Path, stores: tuple[str, ...], **overrides: Any) -> scale.ScaleResults:
    options: dict[str, Any] = {"effort": EFFORT, "anchors": 100, "megabytes": 8, **overrides}
    return scale.run_benchmark([SIZE], HashEmbedder(64), keep=folder, stores=stores, **options)


def test_both_stores_and_the_baseline_are_measured(results: scale.ScaleResults, result_folder: Path) -> None:
    assert results.missing == []
    assert {(point.store, point.size) for point in results.points} == {(store, SIZE) for store in scale.STORES}
    for point in results.points:
        timings = ("search_new", "add", "bulk_each")
        assert all(
            0 < point.median(name).low <= point.median(name).value <= point.median(name).high for name in timings
        )
        assert point.figures["search_cpu_ms"] > 0
        assert point.figures["recall_at_10"] == 1.0  # small stores use exact search
        assert point.bytes_each() > 100
    assert {path.suffix for path in result_folder.iterdir()} == {".json"}  # neither stores nor vectors remain


def test_report_has_tables_curves_and_the_memory_limit(results: scale.ScaleResults, tmp_path: Path) -> None:
    larger = [replace(point, size=10 * SIZE) for point in results.points]
    report = scale.report(replace(results, points=[*results.points, *larger]), "python -m bench.scale")
    report.write(tmp_path)
    values = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))
    assert len(values["points"]) == 2 * len(scale.STORES)
    limits = values["limit_ms"]["200"]
    assert limits["float32"] == pytest.approx(4 * limits["int8"])
    assert limits["int8"] == pytest.approx(200 * 384 / values["read_gb_per_s"] / 1e6)
    root = ElementTree.fromstring((tmp_path / "scale-query.svg").read_text(encoding="utf-8"))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {*scale.STORES.values(), "lower bound, float32 scan", "lower bound, int8 scan"} <= texts
    page = (tmp_path / "scale.md").read_text(encoding="utf-8")
    assert all(heading in page for heading in ("## Queries", "## Adds", "## Store size and start"))
    assert "from 200 to 2,000 memories, CPU time grows: query 1.0-fold" in page


def test_finished_measurements_are_reused(results: scale.ScaleResults, result_folder: Path) -> None:
    second = _measured(result_folder, tuple(scale.STORES), patience=0.0)  # no time to measure
    assert second.missing == []
    assert [point.figures for point in second.points] == [point.figures for point in results.points]


def test_size_that_takes_too_long_is_reported_and_omitted(tmp_path: Path) -> None:
    results = _measured(tmp_path, ("baseline",), patience=0.0)
    assert results.points == []
    assert results.missing[0].startswith("plain FTS5 and NumPy at 200: write took more than")
    assert not list(tmp_path.iterdir())


def test_median_has_an_interval_that_contains_it() -> None:
    figure = measure.median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (figure.value, figure.low >= 1.0, figure.high <= 100.0) == (3.0, True, True)
    assert figure == measure.median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert measure.median_interval([5.0]).low == measure.median_interval([5.0]).high == 5.0


_ROWS = (
    "SELECT id, text, source, fingerprint, said, around, length, category, visibility FROM memories ORDER BY id",
    "SELECT memory_id, vector::text FROM vectors ORDER BY 1",
    "SELECT memory_id, action, reason, before, erased FROM changes ORDER BY id",
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memories' ORDER BY 1",
)


def test_bulk_inserted_memories_match_those_written_by_the_store(
    tmp_path: Path, postgres_url: str, empty_postgres_url: str
) -> None:
    material = vectors.Material.make(tmp_path, HashEmbedder(32), count=400, prompts=10, warmup=1, anchors=100)
    facts = [Fact(text=text, source=source) for source, text in material.facts(0, 400)]
    for url, count in ((postgres_url, 400), (empty_postgres_url, 100)):
        with cofio.open(url, embedder=material.embedder(0, count), home=tmp_path) as keeper:
            keeper.add_all(facts[:count], dedup=False)
    postgres_copy.load(empty_postgres_url, material, 100, 400)
    for query in _ROWS:
        assert _rows(empty_postgres_url, query) == _rows(postgres_url, query)
    assert _search_results(empty_postgres_url, material) == _search_results(postgres_url, material)


def test_bulk_inserted_store_accepts_further_memories(tmp_path: Path, postgres_url: str) -> None:
    material = vectors.Material.make(tmp_path, HashEmbedder(32), count=300, prompts=2, warmup=1, anchors=100)
    with cofio.open(postgres_url, embedder=material.embedder(0, 300), home=tmp_path) as keeper:
        keeper.add_all([Fact(text=text, source=source) for source, text in material.facts(0, 100)], dedup=False)
        postgres_copy.load(postgres_url, material, 100, 299)
        source, text = material.facts(299, 300)[0]
        assert keeper.add(text, source=source).action == "add"
        assert keeper.add(text, source=source).action == "noop"
        assert keeper.count() == 300


def _rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def _search_results(url: str, material: vectors.Material) -> list[list[str]]:
    with cofio.open(url, embedder=material.embedder(), home=material.folder) as keeper:
        return [[hit.text for hit in keeper.search(text)] for text in material.prompts()[0]]
