"""The `cofio eval retrieval` command with the real model: JSON, tables and report files."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cofio.cli import CliContext
from cofio_eval.cli import measuring
from tests.cli.conftest import InProcessCli

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


def test_json_output_has_all_figures(cofio: InProcessCli, file: Path) -> None:
    result = cofio("eval", "retrieval", str(file), "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    payload = json.loads(result.stdout)
    assert payload.keys() == KEYS
    assert list(payload)[:4] == ["r@5", "r@10", "r@20", "ndcg@10"]
    assert [payload[name] for name in ("r@5", "r@10", "r@20", "ndcg@10")] == [1.0, 1.0, 1.0, 1.0]
    assert payload["by_category"]["far"] == {"r@5": 1.0, "r@10": 1.0, "r@20": 1.0, "ndcg@10": 1.0, "questions": 1}
    assert payload["per_question"] == {"talk/q1": 1.0, "talk/q2": 1.0}
    assert payload["p95_ms"] >= payload["p50_ms"] > 0
    assert payload["command"] == "cofio eval retrieval talk.jsonl"


def test_text_output_has_tables(cofio: InProcessCli, file: Path) -> None:
    text = cofio("eval", "retrieval", str(file)).stdout
    assert text.startswith("Retrieval\n")
    for title in ("Search modes", "By category: default", "Evidence within a token budget", "Injection by recall"):
        assert f"\n{title}\n" in text
    assert "vectors only" in text
    assert "100.0 [100.0, 100.0]" in text


def test_write_creates_page_json_and_plots(cofio: InProcessCli, file: Path, tmp_path: Path) -> None:
    result = cofio("eval", "retrieval", str(file), "--json", "--write", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    payload = json.loads(result.stdout)
    assert json.loads((tmp_path / "out" / "retrieval.json").read_text(encoding="utf-8")) == payload
    assert "# Retrieval" in (tmp_path / "out" / "retrieval.md").read_text(encoding="utf-8")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json", ".md"}
    assert result.stderr.count("Wrote ") == 2


def test_unwritable_target_is_rejected_before_measuring(cofio: InProcessCli, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    missing = str(tmp_path / "none.jsonl")  # would be reported if it came to measuring
    result = cofio("eval", "retrieval", missing, "--json", "--write", str(tmp_path / "taken" / "out"))
    payload = json.loads(result.stderr)["error"]
    assert (result.exit_code, result.stdout, payload["code"]) == (1, "", "invalid_input")
    assert "is not writable" in payload["message"]
    assert "--write" in payload["hint"]
    assert cofio("eval", "retrieval", missing, "--write", str(tmp_path / "new" / "out")).exit_code == 1
    assert not (tmp_path / "new").exists()


def test_terminated_eval_removes_its_store() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, TemporaryDirectory() as folder, measuring(CliContext(as_json=True)):
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == 143
    assert not Path(folder).exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_limit_evaluates_a_sample(cofio: InProcessCli, file: Path) -> None:
    output = cofio.json("eval", "retrieval", str(file), "--limit", "1")
    assert (output["questions"], output["limit"], output["command"]) == (
        1,
        1,
        "cofio eval retrieval talk.jsonl --limit 1",
    )
    assert cofio("eval", "retrieval", str(file), "--limit", "0").exit_code == 2


def test_store_of_the_home_is_unchanged(cofio: InProcessCli, file: Path) -> None:
    cofio.json("add", "Rufus is a dog")
    before = {path: path.stat().st_mtime_ns for path in cofio.home.rglob("*.db")}
    cofio.json("eval", "retrieval", str(file))
    assert {path: path.stat().st_mtime_ns for path in cofio.home.rglob("*.db")} == before
    assert [memory["text"] for memory in cofio.json("list")["memories"]] == ["Rufus is a dog"]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (None, "not_found", "cannot be read: No such file or directory."),
        ("", "invalid_input", "is empty."),
        ('{"units": [], "questions": []}\nhello\n', "invalid_input", "Line 2 of "),
        ('{"units": [], "questions": []}', "invalid_input", "has an answer to look for."),
    ],
)
def test_invalid_file_is_rejected_with_hint(
    cofio: InProcessCli, tmp_path: Path, content: str | None, code: str, message: str
) -> None:
    path = tmp_path / "broken.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    result = cofio("eval", "retrieval", str(path), "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    payload = json.loads(result.stderr)["error"]
    assert payload["code"] == code
    assert message in payload["message"]
    assert payload["hint"]
    assert cofio("eval", "retrieval", str(path)).stderr.startswith("Error: ")


def test_control_characters_of_the_file_are_escaped(cofio: InProcessCli, tmp_path: Path) -> None:
    evil = {**TALK, "questions": [{**TALK["questions"][0], "category": "\x1b[31mred"}]}
    (tmp_path / "evil.jsonl").write_text(json.dumps(evil), encoding="utf-8")
    output = cofio("eval", "retrieval", str(tmp_path / "evil.jsonl")).stdout
    assert "\x1b" not in output
    assert "\\x1b[31mred" in output
