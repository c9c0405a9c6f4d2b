"""The map benchmark on a small store: every figure is present, and every target is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import map as bench
from cofio.testing import HashEmbedder

SIZE = 60


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return bench.run_benchmark([SIZE], 300, None, HashEmbedder(64))


def test_map_drawing_is_timed_next_to_pca(results: dict[str, Any]) -> None:
    figures = results["figures"][str(SIZE)]
    for name in ("cold_ms", "warm_ms", "one_more_ms", "pca_ms", "encoding_ms", "megabytes"):
        assert figures[name] > 0, name
    assert figures["warm_ms"] < figures["cold_ms"]


def test_map_keeps_more_neighbours_than_pca(results: dict[str, Any]) -> None:
    cofio, pca = results["quality"]["cofio"], results["quality"]["pca"]
    assert set(cofio) == set(pca) == {"kept", "trust", "spread", "alike", "purity"}
    assert all(0 <= share <= 1 for share in (*cofio.values(), *pca.values()))
    assert cofio["kept"] > pca["kept"]
    assert cofio["trust"] > pca["trust"]


def test_text_file_may_have_labels(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("work\tWe deploy on Fridays.\n\nWe bake on Sundays.\n", encoding="utf-8")
    assert bench.read_texts(path) == (["We deploy on Fridays.", "We bake on Sundays."], ["work", ""])


def test_missed_target_fails_only_a_strict_run(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"kept": 0.4, "trust": 0.9, "purity": 0.9}
    quality = {"cofio": good, "pca": {"kept": 0.1, "trust": 0.8, "purity": 0.3}}
    slow = {**results["figures"][str(SIZE)], "cold_ms": 2_100.0, "warm_ms": 1.0}
    measurement = {**results, "figures": {"10000": slow}, "quality": quality}
    assert bench.missed(measurement) == [bench.SPEED_TARGETS[0][0]]
    assert bench.missed({**measurement, "figures": {}, "quality": {**quality, "pca": good}}) == [
        bench.QUALITY_TARGETS[0][0]
    ]
    monkeypatch.setattr(bench, "run_benchmark", lambda *_: measurement)
    path = tmp_path / "new" / "map.json"
    assert bench.main(["--hash", "--json", str(path)]) == 0
    assert bench.main(["--hash", "--json", str(path), "--strict"]) == 1
    assert json.loads(path.read_text(encoding="utf-8"))["figures"]["10000"]["cold_ms"] == 2_100.0
    assert capsys.readouterr().out.count("bar: ") == 2 * (len(bench.SPEED_TARGETS) + len(bench.QUALITY_TARGETS))
