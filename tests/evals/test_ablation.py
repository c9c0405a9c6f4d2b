"""The ablation measures everything, then again without each part, and restores every part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cofio import bootstrap
from cofio.ingest.extract import by_judgement, patterns
from cofio.ingest.reconcile import compare
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from evals import ablation
from tests.evaluation import test_relations, test_spans, test_streams
from tests.evaluation.fake_judges import ScriptedJudge


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    judge = ScriptedJudge({**test_streams.FACTS, **test_spans.FOUND}, test_streams.label)
    monkeypatch.setattr(bootstrap, "_judge", lambda settings: judge if settings.judge else None)
    monkeypatch.setattr(ablation, "LocalJudge", lambda: judge)
    (tmp_path / "streams" / "dev").mkdir(parents=True)
    test_streams.write(tmp_path / "streams" / "dev")
    for kind, rows in (("turns", test_spans.ROWS), ("pairs", test_relations.ANN)):
        (tmp_path / kind).mkdir()
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / kind / "t.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def test_every_part_has_a_row(data: Path, tmp_path: Path) -> None:
    functions_before = {name: getattr(module, function) for name, (module, function, _) in ablation.PARTS.items()}
    settings = Settings.load({"home": tmp_path / "home"}, {})
    pairs = [data / "pairs" / "t.jsonl"]
    report = ablation.report(
        data / "streams" / "dev", [data / "turns" / "t.jsonl"], pairs, pairs, settings, HashEmbedder()
    )
    table, edits = report.tables
    rows = {str(row[0]): row[1:] for row in table.rows}
    assert list(rows) == ["everything", *ablation.PARTS, ablation.RULES]
    assert all(len(row) == len(table.columns) - 1 for row in rows.values())
    assert [row[0] for row in edits.rows] == ["everything", *ablation.PARTS]
    assert rows["everything"][0] == 1.0
    assert rows["everything"][-2:] == [0, 0]
    assert rows["without the guard: number"][-1] == 0
    assert rows[ablation.RULES][2] == 0.0  # word comparison replaces nothing
    assert functions_before == {
        name: getattr(module, function) for name, (module, function, _) in ablation.PARTS.items()
    }


def test_parts_exist() -> None:
    assert {module for module, _, _ in ablation.PARTS.values()} == {by_judgement, patterns, compare, LocalJudge}
    assert all(hasattr(module, name) for module, name, _ in ablation.PARTS.values())


def test_missing_data_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ablation.main(["--data", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
