"""The maintenance benchmark on a small store: every figure is present, and every target is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import upkeep
from cofio.testing import HashEmbedder

SIZE = 400


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bench")
    yield upkeep.run_benchmark(SIZE, HashEmbedder(64), anchors=150, folder=folder)
    assert not list(folder.iterdir())  # a run removes its files


def test_dry_run_examines_every_memory_and_finds_duplicates(results: dict[str, Any]) -> None:
    assert results["figures"]["examined"] == SIZE
    assert results["figures"]["decisions"] == SIZE // 50


def test_searches_are_timed_when_idle_and_during_maintenance(results: dict[str, Any]) -> None:
    figures = results["figures"]
    for name in ("idle_p50_ms", "idle_p95_ms", "busy_p50_ms", "busy_p95_ms", "dry_run_s", "peak_mb", "searches"):
        assert figures[name] > 0, name
    assert figures["p95_ratio"] == pytest.approx(figures["busy_p95_ms"] / figures["idle_p95_ms"])


def test_every_target_is_reported(results: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    upkeep.show(results)
    output = capsys.readouterr().out
    assert output.count("bar: ") == len(upkeep.TARGETS)
    assert "mixtures" in output  # origin of the vectors


def test_missed_target_fails_only_a_strict_run(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = {**results, "figures": {**results["figures"], "dry_run_s": 61.0, "peak_mb": 10.0, "p95_ratio": 1.0}}
    assert upkeep.missed(slow) == ["a dry run takes less than 60 s"]
    monkeypatch.setattr("cofio.providers.embedders.make", lambda *_, **__: HashEmbedder(64))
    monkeypatch.setattr(upkeep, "run_benchmark", lambda *_, **__: slow)
    path = tmp_path / "new" / "upkeep.json"
    assert upkeep.main(["--json", str(path)]) == 0
    assert upkeep.main(["--json", str(path), "--strict"]) == 1
    assert json.loads(path.read_text(encoding="utf-8"))["figures"]["dry_run_s"] == 61.0
