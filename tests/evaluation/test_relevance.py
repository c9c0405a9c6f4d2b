"""Labelled prompts: needed memories above the threshold, and idle prompts with injected memories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio_eval import relevance_judge
from tests.evaluation.fake_judges import ScriptedJudge

MEMORIES = ["Branches are named after tickets.", "Ada owns billing.", "Deploys go out on Tuesdays."]
ROWS: list[dict[str, Any]] = [
    {"memories": MEMORIES, "prompt": "open the pull request", "needed": [0]},
    {"memories": MEMORIES[1:], "prompt": "ship it", "needed": [0, 1]},
    {"memories": MEMORIES[:2], "prompt": "what is a monad?", "needed": []},
    {"memories": MEMORIES[1:2], "prompt": "fix the typo", "needed": []},
]


def write(tmp_path: Path, rows: list[Any]) -> Path:
    path = tmp_path / "ann.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_shares_are_counted_at_the_threshold_and_at_false_positive_rates(tmp_path: Path) -> None:
    judge = ScriptedJudge(relevant_memories={MEMORIES[0]: 0.9, MEMORIES[2]: 0.7, MEMORIES[1]: 0.4})
    report = relevance_judge.evaluate([write(tmp_path, ROWS)], judge=judge)
    figures = report.values
    assert (figures["prompts"], figures["needed"], figures["idle_prompts"]) == (4, 3, 2)
    assert figures["needed_injected"]["value"] == pytest.approx(2 / 3)
    assert figures["idle_injected"]["value"] == 0.5
    assert figures["at"]["5%"]["found"] == pytest.approx(1 / 3)  # only 0.9 exceeds the best idle prompt
    assert figures["threshold"] == 0.7
    assert figures["by_author"]["ann"]["prompts"] == 4
    assert report.command == "cofio eval relevance ann.jsonl"


def test_without_idle_prompts_there_is_no_rate(tmp_path: Path) -> None:
    figures = relevance_judge.evaluate([write(tmp_path, ROWS[:2])], judge=ScriptedJudge()).values
    assert figures["idle_injected"] is None
    assert figures["at"]["10%"] == {"found": None, "threshold": None}


@pytest.mark.parametrize(
    "row",
    [
        {"memories": MEMORIES, "prompt": "x", "needed": [3]},
        {"memories": [], "prompt": "x", "needed": []},
        {"memories": MEMORIES, "prompt": "x", "needed": ["0"]},
        {"memories": MEMORIES, "needed": []},
    ],
)
def test_invalid_row_is_rejected(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="Line 1 of"):
        relevance_judge.evaluate([write(tmp_path, [row])], judge=ScriptedJudge())
