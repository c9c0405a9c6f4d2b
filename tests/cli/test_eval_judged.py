"""The `cofio eval` commands for pairs, relevance, turns, and DevMemBench with the real model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import InProcessCli
from tests.evaluation import test_relations, test_relevance, test_spans, test_streams


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    """Return the path of a sample file per command."""
    rows: dict[str, list[Any]] = {
        "pairs": test_relations.ANN, "relevance": test_relevance.ROWS, "turns": test_spans.ROWS,
    }  # fmt: skip
    paths = {}
    for name, some in rows.items():
        paths[name] = tmp_path / name / "ann.jsonl"
        paths[name].parent.mkdir()
        paths[name].write_text("".join(f"{json.dumps(row)}\n" for row in some), encoding="utf-8")
    paths["streams"] = test_streams.write(tmp_path)
    return paths


@pytest.mark.parametrize(
    ("command", "measure", "key"),
    [
        ("pairs", "pairs", "changes_found"),
        ("relevance", "relevance", "needed_injected"),
        ("turns", "spans", "facts_found"),
        ("streams", "streams", "durable facts stored"),
    ],
)
def test_report_is_printed_as_json_and_written_as_files(
    cofio: InProcessCli, data: dict[str, Path], tmp_path: Path, command: str, measure: str, key: str
) -> None:
    result = cofio("eval", command, str(data[command]), "--json", "--write", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert key in report
    assert report["measure"] == measure
    assert report["command"] == f"cofio eval {command} {data[command].name}"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{measure}.json", f"{measure}.md"}


@pytest.mark.parametrize("command", ["pairs", "relevance", "turns", "streams"])
def test_missing_path_is_reported(cofio: InProcessCli, tmp_path: Path, command: str) -> None:
    result = cofio("eval", command, str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "Error: " in result.stderr
    assert "none" in result.stderr
    assert cofio("eval", command).exit_code == 2


def test_folder_is_evaluated_by_author(cofio: InProcessCli, data: dict[str, Path]) -> None:
    assert list(cofio.json("eval", "turns", str(data["turns"].parent))["by_author"]) == ["ann"]


def test_failures_of_streams_are_listed(cofio: InProcessCli, data: dict[str, Path]) -> None:
    assert "\nFailures:\n" in cofio("eval", "streams", str(data["streams"]), "--failures").stdout
