"""The PostgreSQL benchmark on a small store: every figure is present, and every target is judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import concurrency, server
from cofio.testing import HashEmbedder

SIZE, AGREEING = 2_500, 4_500  # large enough to use the index and to skip common words


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_PROMPTS", 60)
        patch.setattr(server, "_WARMUP", 10)
        measurement = server.run_benchmark(None, SIZE, AGREEING, HashEmbedder(64), anchors=500, folder=folder)
    yield measurement
    assert not list(folder.iterdir())  # a run removes its files


def test_searches_are_timed_next_to_plain_sql(results: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("plain", "search", "project", "viewer"):
        assert 0 < results["figures"][f"{name}_p50_ms"] <= results["figures"][f"{name}_p95_ms"]
    server.show(results)
    assert capsys.readouterr().out.count("bar: ") == len(server.TARGETS) + 1


def test_both_stores_agree_on_nearly_every_query(results: dict[str, Any]) -> None:
    assert results["figures"]["agreeing"] >= server.MIN_AGREEMENT


def test_index_finds_nearest_neighbours(results: dict[str, Any]) -> None:
    assert results["figures"]["recall_at_10"] >= 0.9


def test_missed_target_is_reported(results: dict[str, Any]) -> None:
    slow = {**results, "figures": {**results["figures"], "search_p95_ms": 51.0, "agreeing": 0.94}}
    assert server.missed(slow) == ["hybrid search p95 under 50 ms", "the same five best for 95%"]


def test_two_services_on_one_database_lose_and_duplicate_nothing(postgres_url: str, tmp_path: Path) -> None:
    outcome = concurrency.run_load(postgres_url, seconds=6, writers=4, readers=4, folder=tmp_path)
    assert outcome["problems"] == []
    assert outcome["memories"] > 0  # the number depends on the machine
    assert set(outcome["done"]) >= {"add", "capture", "read"}


def test_duplicate_id_is_reported(postgres_url: str, tmp_path: Path) -> None:
    log = concurrency.WriteLog()
    log.acknowledged(1, "This was never written.")
    log.acknowledged(1, "Nor was this.")
    assert log.problems == ["memory 1 was given out twice"]
