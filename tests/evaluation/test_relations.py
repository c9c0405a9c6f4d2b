"""Labelled pairs: decisions after the guards, false overwrites, files of several authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput, NotFound
from cofio_eval import relations
from tests.evaluation.fake_judges import ScriptedJudge

ANN = [
    {
        "memory": "The API port is 8080.",
        "said": "API port is 9090 these days",
        "label": "update",
        "case": "new number",
    },
    {"memory": "Anna likes short answers.", "said": "anna left in May", "label": "delete", "case": "left"},
    {"memory": "Docs are built with MkDocs.", "said": "mkdocs builds our docs", "label": "same"},
    {"memory": "Deploys go out on Tuesdays.", "said": "is Tuesday fixed?", "label": "add", "case": "question"},
]
BOB = [
    {"memory": "Tests run on SQLite.", "said": "the demo runs on Postgres", "label": "add", "case": "other thing"},
    {"memory": "Ada owns billing.", "said": "Grace took billing over", "label": "update", "case": "new owner"},
]


def write(folder: Path, name: str, rows: list[Any]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def judge(**labels: str) -> ScriptedJudge:
    """Return a judge that labels every row correctly, except statements with another given label."""
    expected = {(row["said"], row["memory"]): labels.get(row["said"].split()[0], row["label"]) for row in [*ANN, *BOB]}
    return ScriptedJudge(label=lambda statement, memory: expected.get((statement, memory), "add"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "ann", ANN)
    write(tmp_path, "bob", BOB)
    return tmp_path


def test_correct_labels_give_perfect_figures_for_every_author(folder: Path) -> None:
    figures = relations.evaluate([folder], judge=judge()).values
    assert (figures["pairs"], figures["macro_f1"]) == (6, 1.0)
    assert figures["changes_found"]["value"] == 1.0
    assert figures["false_overwrites"]["value"] == 0.0
    assert figures["unrelated_overwrites"]["value"] == 0.0
    assert list(figures["by_author"]) == ["ann", "bob"]
    assert figures["at"]["1%"]["found"] == 1.0
    assert figures["by_case"]["new number"] == {"pairs": 1, "right": 1.0}


def test_update_of_an_add_row_is_a_false_overwrite(folder: Path) -> None:
    figures = relations.evaluate([folder], judge=judge(the="update")).values
    assert figures["by_author"]["bob"]["false_overwrites"]["value"] == 1.0
    assert figures["by_author"]["ann"]["false_overwrites"]["value"] == 0.0
    assert figures["labels"]["update"]["precision"] == pytest.approx(2 / 3)
    assert figures["confusion"]["add"]["update"] == 1


def test_guards_override_the_judge(folder: Path) -> None:
    """The judge labels a different number as a duplicate; the comparer does not."""
    figures = relations.evaluate([folder], judge=judge(API="same")).values
    assert figures["confusion"]["update"]["update"] == 2
    assert figures["changes_found"]["value"] == 1.0


def test_doubtful_verdict_counts_as_add(folder: Path) -> None:
    doubtful = ScriptedJudge(label=lambda statement, _: "update" if "Grace" in statement else "add", certainty=0.55)
    figures = relations.evaluate([folder / "bob.jsonl"], judge=doubtful).values
    assert figures["confusion"]["update"]["doubtful"] == 1
    assert figures["labels"]["add"]["recall"] == 1.0
    assert figures["changes_found"]["value"] == 0.0
    assert figures["doubtful"] == 0.5


def test_report_is_written_as_text_and_files(folder: Path, tmp_path: Path) -> None:
    report = relations.evaluate([folder / "ann.jsonl"], judge=judge())
    assert report.command == "cofio eval pairs ann.jsonl"
    assert "recall of changes" in report.text()
    assert {path.name for path in report.write(tmp_path / "out")} == {"pairs.json", "pairs.md"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"memory": "a b", "said": "c d"}, "there is no 'label'"),
        ({"memory": "a b", "said": "c d", "label": "maybe"}, "the label is 'maybe'"),
        ({"memory": "", "said": "c d", "label": "add"}, "memory is not a text"),
        (["a"], "it is a list, not an object"),
    ],
)
def test_invalid_row_is_rejected_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path, "ann", [ANN[0], row])
    with pytest.raises(InvalidInput, match=f"Line 2 of .*{message}"):
        relations.evaluate([path], judge=judge())


def test_missing_file_and_empty_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        relations.evaluate([tmp_path / "none.jsonl"], judge=judge())
    with pytest.raises(NotFound, match=r"has no \.jsonl file"):
        relations.evaluate([tmp_path], judge=judge())
