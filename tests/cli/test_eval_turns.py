"""The `cofio eval turns` command with labelled turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import InProcessCli

TURNS: list[dict[str, Any]] = [
    {"id": "a", "text": "We use uv for tooling", "label": "store", "facts": ["We use uv for tooling."], "split": "dev"},
    {"id": "b", "text": "rename this variable please", "label": "skip", "split": "test"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(turn) + "\n" for turn in TURNS), encoding="utf-8")
    return path


def test_json_output_has_labels_per_turn(cofio: InProcessCli, file: Path) -> None:
    result = cofio("eval", "turns", str(file), "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    payload = json.loads(result.stdout)
    assert payload["per_turn"] == {"a": "store", "b": "skip"}
    assert (payload["measure"], payload["command"]) == ("turns", "cofio eval turns mine.jsonl")
    assert payload["pipeline"]["kept"]["f1"]["value"] == 1.0


def test_split_is_evaluated_and_report_written(cofio: InProcessCli, file: Path) -> None:
    result = cofio("eval", "turns", str(file), "--split", "dev", "--write", str(file.parent / "out"))
    assert result.exit_code == 0
    assert "all of it, dev" in result.stdout
    assert {path.name for path in (file.parent / "out").iterdir()} == {"turns.json", "turns.md"}


def test_invalid_file_is_rejected(cofio: InProcessCli, file: Path) -> None:
    file.write_text('{"id": "a", "text": "hi"}\n', encoding="utf-8")
    result = cofio("eval", "turns", str(file))
    assert result.exit_code != 0
    assert "Line 1 of" in result.stderr
