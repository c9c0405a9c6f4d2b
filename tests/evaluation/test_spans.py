"""Turns with quoted facts: facts found, spans right, noise kept, kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio_eval import spans
from tests.evaluation.fake_judges import ScriptedJudge

HETZNER = "staging moved to Hetzner last week"
TABS = "tabs in every file"
ROWS: list[dict[str, Any]] = [
    {"role": "user", "before": "", "said": f"ok so {HETZNER}, rename the helper", "case": "mixed",
     "facts": [{"text": "Staging runs on Hetzner.", "quote": HETZNER, "kind": "technology", "about": "project"}]},
    {"role": "user", "before": "", "said": f"{TABS}. run the tests", "case": "preference",
     "facts": [{"text": "The user prefers tabs.", "quote": TABS, "kind": "preference", "about": "person"}]},
    {"role": "user", "before": "", "said": "use a dict here", "facts": [], "case": "task"},
    {"role": "assistant", "before": "", "said": "All tests pass now.", "facts": [], "case": "status"},
]  # fmt: skip
FOUND = {HETZNER: (0.9, "technology", "project"), TABS: (0.9, "policy", "person")}


def write(tmp_path: Path, rows: list[Any], name: str = "ann") -> Path:
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def measured(tmp_path: Path, facts: dict[str, tuple[float, str, str]], rows: list[Any] = ROWS) -> dict[str, Any]:
    return dict(spans.evaluate([write(tmp_path, rows)], judge=ScriptedJudge(facts)).values)


def test_facts_spans_noise_and_kinds_are_counted(tmp_path: Path) -> None:
    figures = measured(tmp_path, {**FOUND, "use a dict here": (0.9, "policy", "project")})
    assert (figures["turns"], figures["facts"], figures["noise_turns"]) == (4, 2, 2)
    assert figures["facts_found"]["value"] == 1.0
    assert figures["spans_right"]["value"] == pytest.approx(2 / 3)
    assert figures["noise_kept"]["value"] == 0.5
    assert figures["kind_accuracy"]["value"] == 0.5
    assert figures["about_accuracy"]["value"] == 1.0
    assert figures["by_case"]["task"]["noise_kept"]["value"] == 1.0
    assert set(figures["by_role"]) == {"user", "assistant"}


def test_half_of_the_quote_is_enough_and_less_is_not(tmp_path: Path) -> None:
    half, less = HETZNER[: len(HETZNER) // 2], HETZNER[: len(HETZNER) // 3]
    assert measured(tmp_path, {half: FOUND[HETZNER]})["facts_found"]["value"] == 0.5
    figures = measured(tmp_path, {less: FOUND[HETZNER]})
    assert figures["facts_found"]["value"] == 0.0
    assert figures["spans_right"]["value"] == 1.0  # it lies in the quote


def test_what_is_below_the_threshold_of_its_side_is_not_kept(tmp_path: Path) -> None:
    figures = measured(
        tmp_path, {HETZNER: (0.5, "technology", "project"), "All tests pass": (0.85, "policy", "project")}
    )
    assert figures["facts_found"]["value"] == 0.0
    assert figures["noise_kept"]["value"] == 0.0


def test_quotes_are_found_beside_code_that_is_not_read(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "said": f"```py\nx = 1\n```\n{HETZNER}"}]
    assert measured(tmp_path, FOUND, rows)["facts_found"]["value"] == 1.0


def test_facts_without_quotes_are_compared_by_their_words(tmp_path: Path) -> None:
    rows = [
        {"said": f"{HETZNER}, rename it", "facts": ["Staging moved to Hetzner."]},
        {"said": "we use Bun for scripts", "facts": ["Scripts run with Deno."]},
        {"said": "thanks", "facts": []},
    ]
    figures = measured(tmp_path, {**FOUND, "we use Bun for scripts": (0.9, "technology", "project")}, rows)
    assert figures["facts_found"]["value"] == 0.5
    assert figures["spans_right"]["value"] == 0.5
    assert figures["kind_accuracy"] is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"said": "hi", "facts": [{"quote": "bye"}]}, "is not in said"),
        ({"said": "hi", "facts": [{"quote": "hi", "kind": "secret"}]}, "the kind is 'secret'"),
        ({"said": "hi", "facts": "hi"}, "facts is not a list"),
        ({"said": "hi", "role": "bot", "facts": []}, "the role is 'bot'"),
        ({"facts": []}, "there is no 'said'"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        measured(tmp_path, FOUND, [wrong])
