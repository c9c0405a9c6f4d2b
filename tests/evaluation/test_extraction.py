"""What is measured of extraction: rankings against evidence, by hand where a hand can count it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofio.errors import InvalidInput
from cofio.evaluation import extraction
from cofio.evaluation.extraction import KEPT, PUBLISHED, SHARES, evaluate
from cofio.evaluation.measures import auroc
from cofio.evaluation.report import Report
from cofio.settings import Settings
from evals import extraction as with_baselines
from tests.evaluation.judges import ScriptedJudge

TELLING = [
    "I moved to Porto in March 2021 with my sister Clara.",
    "We adopted a three-legged cat called Biscuit last autumn.",
    "We switched from Jest to Vitest.",
    "Yesterday I sold my motorcycle to a colleague for 2,300 euros.",
]
JUDGE = ScriptedJudge({each: (0.95 - place / 100, "observation", "person") for place, each in enumerate(TELLING)})
TALK = ["Hi there!", "That's great, well done!", "How are you?", "Thanks, that means a lot!", "Keep it up!", "Bye!"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extraction")


@pytest.fixture(scope="module")
def settings(folder: Path) -> Settings:
    return Settings.load({"home": folder / "home"}, {})


@pytest.fixture(scope="module")
def written(folder: Path) -> Callable[..., Path]:
    """Writes conversations: for each, the texts that answer some question and those that do not."""

    def write(*conversations: tuple[list[str], list[str]], category: str = "single-hop") -> Path:
        lines = []
        for number, (evidence, others) in enumerate(conversations):
            units = [
                {"id": f"u{place}", "speaker": "Ann", "text": each} for place, each in enumerate(evidence + others)
            ]
            asked = [
                {"id": f"q{place}", "text": "?", "category": category, "evidence": [f"u{place}"]}
                for place in range(len(evidence))
            ]
            never = {"id": "x", "text": "?", "category": "adversarial", "evidence": [units[-1]["id"]]}
            lines.append(json.dumps({"id": f"c{number}", "units": units, "questions": [*asked, never]}))
        path = folder / f"{len(list(folder.iterdir()))}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def report(written: Callable[..., Path], settings: Settings) -> Report:
    """On one conversation: four units that tell something, which are the evidence, and six of talk."""
    return evaluate(written((TELLING, TALK)), settings, judge=JUDGE)


@pytest.fixture(scope="module")
def told(report: Report) -> dict[str, Any]:
    return report.as_dict()


def measured(path: Path, settings: Settings, **about: Any) -> dict[str, Any]:
    return evaluate(path, settings, judge=JUDGE, **about).as_dict()


def test_what_tells_is_kept_before_talk(told: dict[str, Any]) -> None:
    assert told["evidence_at_40.5"]["value"] == pytest.approx(1.0)
    assert told["auroc"]["value"] == 1.0
    assert (told["units"], told["evidence"], told["conversations"]) == (10, 4, 1)


def test_questions_without_an_answer_name_no_evidence(told: dict[str, Any]) -> None:
    assert told["per_unit"]["c0/u9"]["evidence"] is False
    assert told["per_unit"]["c0/u0"] == {"probability": 0.95, "evidence": True}


def test_a_file_without_evidence_is_refused(written: Callable[..., Path], settings: Settings) -> None:
    with pytest.raises(InvalidInput):
        evaluate(written((TELLING, TALK), category="abstention"), settings)


def test_other_rankings_stand_beside_with_how_far_they_are_behind(
    written: Callable[..., Path], settings: Settings
) -> None:
    backwards = [0.0] * len(TELLING) + [1.0] * len(TALK)
    told = measured(written((TELLING, TALK)), settings, beside={"backwards": backwards})
    assert told["baselines"]["backwards"]["auroc"]["value"] == 0.0
    assert told["baselines"]["backwards"]["evidence_at_40.5"]["value"] == 0.0
    assert told["baselines"]["backwards"]["behind"]["value"] == pytest.approx(1.0)
    assert set(told["baselines"]) == {"backwards", "length", "random"}


def test_units_of_equal_score_are_kept_as_chance_would(written: Callable[..., Path], settings: Settings) -> None:
    told = measured(written((TELLING, TALK)), settings, beside={"flat": [1.0] * 10})
    assert told["baselines"]["flat"]["evidence_at_40.5"]["value"] == pytest.approx(KEPT)
    assert told["baselines"]["flat"]["auroc"]["value"] == pytest.approx(0.5)


def test_the_curve_rises_to_all_of_the_evidence(written: Callable[..., Path], settings: Settings) -> None:
    curve = measured(written((TELLING, TALK), (TALK[:2], TELLING[:2])), settings)["curve"]
    assert [point["kept"] for point in curve] == list(SHARES)
    values = [point["value"] for point in curve]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(1.0)
    assert all(point["low"] <= point["value"] <= point["high"] for point in curve)


def test_the_ranking_agrees_with_the_plain_measure() -> None:
    rng = np.random.default_rng(7)
    scores, evidence = rng.integers(0, 5, 200).astype(float), rng.random(200) < 0.3
    ranked = extraction._Ranked.of(scores)
    plain = auroc(list(scores[evidence]), list(scores[~evidence]))
    assert ranked.auroc(np.ones(200), evidence.astype(float)) == pytest.approx(plain)


def test_capture_is_asked_through_the_keeper(told: dict[str, Any]) -> None:
    assert told["gate"]["pattern"]["kept"] == told["gate"]["pattern_or_model"]["kept"] == pytest.approx(0.4)
    assert told["pipeline"]["evidence"]["value"] == 1.0
    assert told["pipeline"]["ranking"] == pytest.approx(1.0)


def test_a_unit_without_a_span_has_no_probability() -> None:
    assert extraction.probability(f"Wow! {TELLING[1]} Right?", "user", JUDGE) == pytest.approx(0.94)
    assert extraction.probability(TALK[0], "user", JUDGE) == 0.0


def test_nothing_is_written_to_the_store_of_the_settings(report: Report, settings: Settings) -> None:
    assert report.values
    assert not settings.store_path.exists()


def test_another_run_tells_the_same(report: Report, written: Callable[..., Path], settings: Settings) -> None:
    assert evaluate(written((TELLING, TALK)), settings, judge=JUDGE).values == report.values


def test_the_page_has_the_published_point_and_the_plot(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path / "results")
    page = (tmp_path / "results" / "extraction.md").read_text(encoding="utf-8")
    assert f"{100 * PUBLISHED[1]:.1f}" in page
    assert "extraction-curve.svg" in page
    assert (tmp_path / "results" / "extraction-curve.svg").read_text(encoding="utf-8").startswith("<svg")


# ── the baselines of evals ────────────────────────────────────────────────────────────────────────────────────────────


def units(*conversations: tuple[list[str], list[str]]) -> list[extraction.Unit]:
    return [
        extraction.Unit(f"c{number}", f"u{place}", text, "user", place < len(evidence))
        for number, (evidence, others) in enumerate(conversations)
        for place, text in enumerate(evidence + others)
    ]


def test_the_classifier_learns_words_of_the_other_conversations_only() -> None:
    said = units((["red one", "red two"], ["blue one", "blue two"]), (["red three"], ["blue three", "green"]))
    scores = with_baselines.classified(said)
    assert scores[4] > scores[5]  # red above blue, as the first conversation has it
    turned = units((["red one", "red two"], ["blue one", "blue two"]), (["blue three"], ["red three", "green"]))
    again = with_baselines.classified(turned)
    assert again[4:6] == pytest.approx([scores[5], scores[4]])  # its own labels were not looked at
