"""`cofio eval`: one JSON object for a program, tables for a person, files for the docs; with the real model."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cofio.cli import CliContext
from cofio.cli.evaluation import measuring
from tests.cli.conftest import Cofio

KEYS = {
    *("r@5", "r@10", "r@20", "ndcg@10", "by_category", "p50_ms", "p95_ms", "intervals", "questions"),
    *("evidence_within", "abstention", "per_question", "mode", "modes", "file", "conversations", "units", "limit"),
    *("left_out", "odd", "measure", "version", "command", "machine"),
}
TALK: dict[str, Any] = {
    "id": "talk",
    "units": [
        {"id": "u1", "speaker": "Ada", "date": "2026-03-01", "text": "The ferry to the island leaves at six"},
        {"id": "u2", "speaker": "Bob", "date": "2026-03-01", "text": "My dog is called Rufus"},
        {"id": "u3", "speaker": "Ada", "date": "2026-03-02", "text": "We never deploy on a Friday"},
    ],
    "questions": [
        {"id": "q1", "text": "What is the name of Bob's dog?", "category": "plain", "evidence": ["u2"]},
        {"id": "q2", "text": "On which day do we not ship?", "category": "far", "evidence": ["u3"]},
        {"id": "q3", "text": "What is the name of Ada's cat?", "category": "adversarial", "evidence": []},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps(TALK) + "\n", encoding="utf-8")
    return path


def test_a_program_gets_one_object_with_the_figures_first(cofio: Cofio, file: Path) -> None:
    done = cofio("eval", "retrieval", str(file), "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told.keys() == KEYS
    assert list(told)[:4] == ["r@5", "r@10", "r@20", "ndcg@10"]
    assert [told[name] for name in ("r@5", "r@10", "r@20", "ndcg@10")] == [1.0, 1.0, 1.0, 1.0]
    assert told["by_category"]["far"] == {"r@5": 1.0, "r@10": 1.0, "r@20": 1.0, "ndcg@10": 1.0, "questions": 1}
    assert told["per_question"] == {"talk/q1": 1.0, "talk/q2": 1.0}
    assert told["p95_ms"] >= told["p50_ms"] > 0
    assert told["command"] == "cofio eval retrieval talk.jsonl"


def test_a_person_gets_tables(cofio: Cofio, file: Path) -> None:
    text = cofio("eval", "retrieval", str(file)).stdout
    assert text.startswith("Retrieval\n")
    for title in ("Found", "By category: default", "Evidence within tokens", "Given unasked"):
        assert f"\n{title}\n" in text
    assert "vectors alone" in text
    assert "100.0 [100.0, 100.0]" in text


def test_page_and_json_are_written_to_the_folder(cofio: Cofio, file: Path, tmp_path: Path) -> None:
    done = cofio("eval", "retrieval", str(file), "--json", "--write", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert json.loads((tmp_path / "out" / "retrieval.json").read_text(encoding="utf-8")) == told
    assert "# Retrieval" in (tmp_path / "out" / "retrieval.md").read_text(encoding="utf-8")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json", ".md"}
    assert done.stderr.count("Wrote ") == 2


def test_where_nothing_can_be_written_nothing_is_measured(cofio: Cofio, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    missing = str(tmp_path / "none.jsonl")  # which would be told if it came to measuring
    done = cofio("eval", "retrieval", missing, "--json", "--write", str(tmp_path / "taken" / "out"))
    told = json.loads(done.stderr)["error"]
    assert (done.exit_code, done.stdout, told["code"]) == (1, "", "invalid_input")
    assert "is not writable" in told["message"]
    assert "--write" in told["hint"]
    assert cofio("eval", "retrieval", missing, "--write", str(tmp_path / "new" / "out")).exit_code == 1
    assert not (tmp_path / "new").exists()


def test_told_to_end_it_leaves_and_takes_the_store_along() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, TemporaryDirectory() as folder, measuring(CliContext(as_json=True)):
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == 143
    assert not Path(folder).exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_sample_can_be_asked_first(cofio: Cofio, file: Path) -> None:
    told = cofio.json("eval", "retrieval", str(file), "--limit", "1")
    assert (told["questions"], told["limit"], told["command"]) == (1, 1, "cofio eval retrieval talk.jsonl --limit 1")
    assert cofio("eval", "retrieval", str(file), "--limit", "0").exit_code == 2


def test_the_store_of_the_home_is_not_touched(cofio: Cofio, file: Path) -> None:
    cofio.json("add", "Rufus is a dog")
    before = {path: path.stat().st_mtime_ns for path in cofio.home.rglob("*.db")}
    cofio.json("eval", "retrieval", str(file))
    assert {path: path.stat().st_mtime_ns for path in cofio.home.rglob("*.db")} == before
    assert [each["text"] for each in cofio.json("list")["memories"]] == ["Rufus is a dog"]


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (None, "not_found", "cannot be read: No such file or directory."),
        ("", "invalid_input", "is empty."),
        ('{"units": [], "questions": []}\nhello\n', "invalid_input", "Line 2 of "),
        ('{"units": [], "questions": []}', "invalid_input", "has an answer to look for."),
    ],
)
def test_a_file_that_cannot_be_measured_is_refused_with_what_to_do(
    cofio: Cofio, tmp_path: Path, content: str | None, code: str, says: str
) -> None:
    path = tmp_path / "broken.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = cofio("eval", "retrieval", str(path), "--json")
    assert (done.exit_code, done.stdout) == (1, "")
    told = json.loads(done.stderr)["error"]
    assert told["code"] == code
    assert says in told["message"]
    assert told["hint"]
    assert cofio("eval", "retrieval", str(path)).stderr.startswith("Error: ")


def test_what_a_file_says_is_shown_and_not_obeyed(cofio: Cofio, tmp_path: Path) -> None:
    evil = {**TALK, "questions": [{**TALK["questions"][0], "category": "\x1b[31mred"}]}
    (tmp_path / "evil.jsonl").write_text(json.dumps(evil), encoding="utf-8")
    shown = cofio("eval", "retrieval", str(tmp_path / "evil.jsonl")).stdout
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown
