"""`cofio eval turns`: labelled turns of one's own, as tables, as one JSON object, as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cofio

SAID: list[dict[str, Any]] = [
    {"id": "a", "text": "We use uv for tooling", "label": "store", "facts": ["We use uv for tooling."], "split": "dev"},
    {"id": "b", "text": "rename this variable please", "label": "skip", "split": "test"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in SAID), encoding="utf-8")
    return path


def test_a_program_gets_one_object(cofio: Cofio, file: Path) -> None:
    done = cofio("eval", "turns", str(file), "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["per_turn"] == {"a": "store", "b": "skip"}
    assert (told["measure"], told["command"]) == ("turns", "cofio eval turns mine.jsonl")
    assert told["pipeline"]["kept"]["f1"]["value"] == 1.0


def test_a_person_gets_tables_of_one_half_and_files_where_they_are_asked_for(cofio: Cofio, file: Path) -> None:
    done = cofio("eval", "turns", str(file), "--split", "dev", "--write", str(file.parent / "out"))
    assert done.exit_code == 0
    assert "all of it, dev" in done.stdout
    assert {path.name for path in (file.parent / "out").iterdir()} == {"turns.json", "turns.md"}


def test_a_file_that_holds_something_else_is_refused(cofio: Cofio, file: Path) -> None:
    file.write_text('{"id": "a", "text": "hi"}\n', encoding="utf-8")
    done = cofio("eval", "turns", str(file))
    assert done.exit_code != 0
    assert "Line 1 of" in done.stderr
