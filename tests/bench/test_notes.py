"""The notes benchmark on a few files: every figure is present, and every target is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import notes

FILES = 20


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return notes.run_benchmark(FILES, 2)


def test_every_section_of_every_file_is_a_memory_and_every_figure_is_present(results: dict[str, Any]) -> None:
    figures = results["figures"]
    assert (figures["files"], figures["memories"]) == (FILES, FILES * 5)
    for name in ("reading_ms", "unchanged_ms", "one_changed_ms", "touched_ms", "first_s"):
        assert figures[name] > 0, name
    assert figures["unchanged_ratio"] == pytest.approx(figures["unchanged_ms"] / figures["reading_ms"])


def test_missed_target_fails_only_a_strict_run(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = {**results, "figures": {**results["figures"], "unchanged_ratio": 3.1, "one_changed_s": 0.1}}
    assert notes.missed(slow) == [notes.TARGETS[0][0]]
    monkeypatch.setattr(notes, "run_benchmark", lambda *_: slow)
    path = tmp_path / "new" / "notes.json"
    assert notes.main(["--json", str(path)]) == 0
    assert notes.main(["--json", str(path), "--strict"]) == 1
    assert json.loads(path.read_text(encoding="utf-8"))["figures"]["unchanged_ratio"] == 3.1
    assert capsys.readouterr().out.count("bar: ") == 2 * len(notes.TARGETS)
