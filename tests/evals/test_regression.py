"""Regression tests: new measurements are compared with the figures recorded in docs/results.

A difference counts if chance does not explain it (evals/regression.py). After an intended change run
`make results DATA=folder`.

"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from evals.turns import measure
from evals.turns.labels import read as read_turns

from cofio.providers.embedders import make_reader
from cofio.providers.embedders.local import LocalEmbedder
from cofio.settings import Settings
from cofio_eval.datasets import read, remembered
from cofio_eval.metrics import macro_f1, recall
from cofio_eval.runner import DEFAULT, units
from evals import regression
from tests.data import ROOT, development

CONVERSATIONS = "retrieval/locomo-dev.jsonl"
TURNS = ROOT / "evals" / "turns" / "turns.jsonl"
Verdict = tuple[str, str]  # the expected and the actual label


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    return LocalEmbedder(tmp_path_factory.mktemp("model"), download=False)


# ── Measurements ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)
def test_recall_of_answers_has_not_dropped(embedder: LocalEmbedder, tmp_path: Path) -> None:
    file = development(CONVERSATIONS)
    reader = make_reader(tmp_path)
    shares: dict[str, float] = {}
    for conversation in read(file):
        with remembered(conversation, Settings(home=tmp_path), embedder=embedder, reader=reader) as keeper:
            for question in conversation.questions:
                if question.has_answer:
                    hits = keeper.search(question.text, k=10, log=False, **DEFAULT.options)
                    share = recall(units(hits), question.evidence, 10)
                    shares[f"{conversation.id}/{question.id}"] = round(share, 6)
    comparison = regression.compare_runs(
        "R@10 on the development file", regression.load_recorded("retrieval", "per_question"), shares
    )
    assert not comparison.is_worse, str(comparison)


@pytest.mark.timeout(900)
def test_labels_of_turns_have_not_dropped(embedder: LocalEmbedder, tmp_path: Path) -> None:
    all_turns = read_turns(TURNS)
    expected = {turn.id: turn.label for turn in all_turns}
    outcomes = measure.learn(all_turns, Settings(home=tmp_path), embedder)
    recorded = {
        name: (expected.get(name, ""), actual) for name, actual in regression.load_recorded("turns", "per_turn").items()
    }
    measured = {outcome.turn.id: (outcome.turn.label, outcome.label) for outcome in outcomes}
    comparison = regression.compare_runs(
        "macro-F1 of the labelled turns", recorded, measured, score=labels, worth=is_correct
    )
    assert not comparison.is_worse, str(comparison)


def labels(verdicts: Sequence[Verdict]) -> float:
    return macro_f1([expected for expected, _ in verdicts], [actual for _, actual in verdicts])


def is_correct(verdict: Verdict) -> float:
    return float(verdict[0] == verdict[1])


# ── Comparison ────────────────────────────────────────────────────────────────────────────────────────────────────────


def answered(share: float, count: int = 300) -> dict[str, float]:
    """Return results of this many questions, of which this share was answered."""
    return {f"q{number:03}": float(number < share * count) for number in range(count)}


def test_significant_drop_is_reported_with_the_lost_questions() -> None:
    recorded = answered(0.8)
    comparison = regression.compare_runs("R@10", recorded, answered(0.74))
    assert comparison.is_worse
    assert comparison.lost == tuple(f"q{number:03}" for number in range(222, 240))
    assert "74.00 % where 80.00 % was recorded" in str(comparison)
    assert "Lost: q222, q223," in str(comparison)
    assert "make results" in str(comparison)


def test_long_list_of_lost_questions_is_shortened() -> None:
    comparison = regression.compare_runs("R@10", answered(0.8), answered(0.5))
    assert "and 70 more." in str(comparison)


def test_noise_is_not_a_drop() -> None:
    recorded = answered(0.8)
    rng = random.Random(5)
    lost = rng.sample([name for name, share in recorded.items() if share], 12)
    gained = rng.sample([name for name, share in recorded.items() if not share], 7)
    measured = {**recorded, **dict.fromkeys(lost, 0.0), **dict.fromkeys(gained, 1.0)}
    comparison = regression.compare_runs("R@10", recorded, measured)
    assert comparison.lost == tuple(sorted(lost))
    assert comparison.difference.low < comparison.difference.value < 0 < comparison.difference.high
    assert not comparison.is_worse
    assert not regression.compare_runs("R@10", recorded, {**recorded, "q000": 0.0}).is_worse


def test_processor_differences_are_not_a_drop() -> None:
    recorded = {f"q{number}": 0.8 for number in range(50)}
    assert not regression.compare_runs("R@10", recorded, dict.fromkeys(recorded, 0.796)).is_worse
    assert regression.compare_runs("R@10", recorded, dict.fromkeys(recorded, 0.794)).is_worse


def test_equal_or_better_results_are_not_a_drop() -> None:
    comparison = regression.compare_runs("R@10", answered(0.8), answered(0.8))
    assert (comparison.is_worse, comparison.difference.value, comparison.lost) == (False, 0.0, ())
    assert not regression.compare_runs("R@10", answered(0.8), answered(0.9)).is_worse


def test_small_loss_in_every_question_is_a_drop() -> None:
    recorded = {f"q{number}": 1.0 for number in range(50)}
    comparison = regression.compare_runs("R@10", recorded, dict.fromkeys(recorded, 0.99))
    assert comparison.is_worse
    assert len(comparison.lost) == 50


def test_missing_question_is_named() -> None:
    measured = answered(0.8)
    del measured["q007"]
    with pytest.raises(regression.Incomparable, match="Recorded and not measured: q007"):
        regression.compare_runs("R@10", answered(0.8), measured)
    with pytest.raises(regression.Incomparable, match="Measured and not recorded: q300"):
        regression.compare_runs("R@10", answered(0.8), {**answered(0.8), "q300": 1.0})


def test_labels_are_compared_by_their_overall_score() -> None:
    expected = ["store"] * 40 + ["update"] * 20 + ["skip"] * 60
    recorded = {f"t{number:03}": (label, label) for number, label in enumerate(expected)}
    without_updates = {name: (label, "skip" if label == "update" else label) for name, (label, _) in recorded.items()}
    comparison = regression.compare_runs("macro-F1", recorded, without_updates, score=labels, worth=is_correct)
    assert comparison.is_worse
    assert comparison.lost[0] == "t040"
    assert comparison.recorded_score == 1.0
    assert comparison.measured_score < 0.7  # one of three labels is never used
    single_change = {**recorded, "t000": ("store", "skip")}
    assert not regression.compare_runs("macro-F1", recorded, single_change, score=labels, worth=is_correct).is_worse


def test_missing_record_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "RESULTS", tmp_path)
    with pytest.raises(regression.Incomparable, match=r"docs/results/retrieval.json has no per_question"):
        regression.load_recorded("retrieval", "per_question")
    (tmp_path / "retrieval.json").write_text(json.dumps({"per_question": {"q1": 1.0}}), encoding="utf-8")
    assert regression.load_recorded("retrieval", "per_question") == {"q1": 1.0}
    with pytest.raises(regression.Incomparable, match="has no per_unit"):
        regression.load_recorded("retrieval", "per_unit")


def test_test_without_data_is_skipped_and_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_DATA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=str(tmp_path / CONVERSATIONS)):
        development(CONVERSATIONS)
    (tmp_path / "retrieval").mkdir()
    (tmp_path / CONVERSATIONS).touch()
    assert development(CONVERSATIONS) == tmp_path / CONVERSATIONS
