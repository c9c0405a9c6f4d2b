"""The bench of growth at sizes that take seconds: every figure is there, and what was measured is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest

import cofio
from bench import measure, poured, scale, vectors
from cofio.models.memory import Fact
from cofio.testing import HashEmbedder

SIZE = 200
EFFORT = measure.Effort(prompts=8, warming=2, rounds=1, adds=10, batch=100, bulk=10, bulks=2, openings=1)


@pytest.fixture(scope="module")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale")


@pytest.fixture(scope="module")
def found(keep: Path) -> scale.Measured:
    return _measured(keep, ("ours", "served", "plain"))


def _measured(keep: Path, sides: tuple[str, ...], **more: Any) -> scale.Measured:
    how: dict[str, Any] = {"effort": EFFORT, "anchors": 100, "megabytes": 8, **more}
    return scale.measured([SIZE], HashEmbedder(64), keep=keep, sides=sides, **how)


def test_both_stores_and_plain_are_measured(found: scale.Measured, keep: Path) -> None:
    assert found.missing == []
    assert {(point.side, point.size) for point in found.points} == {(side, SIZE) for side in scale.SIDES}
    for point in found.points:
        timed = ("search_new", "add", "bulk_each")
        assert all(0 < point.median(name).low <= point.median(name).value <= point.median(name).high for name in timed)
        assert point.figures["search_cpu_ms"] > 0
        assert point.figures["recall_at_10"] == 1.0  # small stores are searched exactly
        assert point.bytes_each() > 100
    assert {path.suffix for path in keep.iterdir()} == {".json"}  # neither stores nor material stay


def test_the_report_has_tables_curves_and_the_limit_of_the_memory(found: scale.Measured, tmp_path: Path) -> None:
    larger = [replace(point, size=10 * SIZE) for point in found.points]
    told = scale.report(replace(found, points=[*found.points, *larger]), "python -m bench.scale")
    told.write(tmp_path)
    values = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))
    assert len(values["points"]) == 2 * len(scale.SIDES)
    limits = values["limit_ms"]["200"]
    assert limits["float32"] == pytest.approx(4 * limits["int8"])
    assert limits["int8"] == pytest.approx(200 * 384 / values["read_gb_per_s"] / 1e6)
    root = ElementTree.fromstring((tmp_path / "scale-query.svg").read_text(encoding="utf-8"))
    texts = {each.text for each in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {*scale.SIDES.values(), "limit, float32 scan", "limit, int8 scan"} <= texts
    page = (tmp_path / "scale.md").read_text(encoding="utf-8")
    assert all(heading in page for heading in ("## A query", "## An added memory", "## The store"))
    assert "from 200 to 2,000 memories, in processor time: a query 1.0 times" in page


def test_what_was_measured_is_not_measured_again(found: scale.Measured, keep: Path) -> None:
    again = _measured(keep, tuple(scale.SIDES), patience=0.0)  # there is no time to measure anything
    assert again.missing == []
    assert [point.figures for point in again.points] == [point.figures for point in found.points]


def test_a_size_that_is_not_ready_in_time_is_told_and_left_out(tmp_path: Path) -> None:
    found = _measured(tmp_path, ("plain",), patience=0.0)
    assert found.points == []
    assert found.missing[0].startswith("plain FTS5 and NumPy at 200: written took more than")
    assert not list(tmp_path.iterdir())


def test_the_median_comes_with_an_interval_that_holds_it() -> None:
    sure = measure.middle([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (sure.value, sure.low >= 1.0, sure.high <= 100.0) == (3.0, True, True)
    assert sure == measure.middle([1.0, 2.0, 3.0, 4.0, 100.0])
    assert measure.middle([5.0]).low == measure.middle([5.0]).high == 5.0


_ROWS = (
    "SELECT id, text, source, fingerprint, said, around, length, category, visibility FROM memories ORDER BY id",
    "SELECT memory_id, vector::text FROM vectors ORDER BY 1",
    "SELECT memory_id, action, reason, before, erased FROM changes ORDER BY id",
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memories' ORDER BY 1",
)


def test_memories_that_are_poured_in_are_those_that_the_store_would_have_written(
    tmp_path: Path, postgres_url: str, empty_postgres_url: str
) -> None:
    material = vectors.Material.make(tmp_path, HashEmbedder(32), count=400, asked=10, warming=1, anchors=100)
    facts = [Fact(text=text, source=source) for source, text in material.said(0, 400)]
    for url, end in ((postgres_url, 400), (empty_postgres_url, 100)):
        with cofio.open(url, embedder=material.embedder(0, end), home=tmp_path) as keeper:
            keeper.add_all(facts[:end], dedup=False)
    poured.pour(empty_postgres_url, material, 100, 400)
    for query in _ROWS:
        assert _rows(empty_postgres_url, query) == _rows(postgres_url, query)
    assert _found(empty_postgres_url, material) == _found(postgres_url, material)


def test_a_store_that_was_poured_in_goes_on(tmp_path: Path, postgres_url: str) -> None:
    material = vectors.Material.make(tmp_path, HashEmbedder(32), count=300, asked=2, warming=1, anchors=100)
    with cofio.open(postgres_url, embedder=material.embedder(0, 300), home=tmp_path) as keeper:
        keeper.add_all([Fact(text=text, source=source) for source, text in material.said(0, 100)], dedup=False)
        poured.pour(postgres_url, material, 100, 299)
        source, text = material.said(299, 300)[0]
        assert keeper.add(text, source=source).action == "add"
        assert keeper.add(text, source=source).action == "noop"
        assert keeper.count() == 300


def _rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def _found(url: str, material: vectors.Material) -> list[list[str]]:
    with cofio.open(url, embedder=material.embedder(), home=material.folder) as keeper:
        return [[hit.text for hit in keeper.search(text)] for text in material.prompts()[0]]
