"""The bench of the server store at a size that takes seconds: every figure is there, and every bar is judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import crowd, server
from cofio.testing import HashEmbedder

SIZE, AGREEING = 2_500, 4_500  # more than what is scanned whole: the index is used, and words are left out


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as fewer:
        fewer.setattr(server, "_PROMPTS", 60)
        fewer.setattr(server, "_WARMING", 10)
        told = server.measured(None, SIZE, AGREEING, HashEmbedder(64), anchors=500, folder=folder)
    yield told
    assert not list(folder.iterdir())  # a run leaves nothing behind


def test_searches_are_timed_beside_plain_sql(results: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("plain", "search", "project", "viewer"):
        assert 0 < results["figures"][f"{name}_p50_ms"] <= results["figures"][f"{name}_p95_ms"]
    server.show(results)
    assert capsys.readouterr().out.count("bar: ") == len(server.BARS) + 1


def test_both_stores_find_the_same_five_for_nearly_every_query(results: dict[str, Any]) -> None:
    assert results["figures"]["agreeing"] >= server.AGREES


def test_the_index_finds_what_is_nearest(results: dict[str, Any]) -> None:
    assert results["figures"]["recall_at_10"] >= 0.9


def test_a_bar_that_is_missed_is_told(results: dict[str, Any]) -> None:
    poor = {**results, "figures": {**results["figures"], "search_p95_ms": 51.0, "agreeing": 0.94}}
    assert server.missed(poor) == ["hybrid search p95 under 50 ms", "the same five best for 95%"]


def test_two_services_on_one_database_lose_nothing_and_keep_nothing_twice(postgres_url: str, tmp_path: Path) -> None:
    told = crowd.crowd(postgres_url, seconds=6, writers=4, readers=4, folder=tmp_path)
    assert told["problems"] == []
    assert told["memories"] > 0  # how many depends on the machine
    assert set(told["done"]) >= {"add", "capture", "read"}


def test_a_promise_that_was_not_kept_is_told(postgres_url: str, tmp_path: Path) -> None:
    promises = crowd.Promises()
    promises.acknowledged(1, "This was never written.")
    promises.acknowledged(1, "Nor was this.")
    assert promises.problems == ["memory 1 was given out twice"]
