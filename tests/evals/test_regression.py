"""It is as good as it was recorded to be: what docs/results says of each question, unit and turn, measured anew.

A difference counts where chance does not explain it (evals/regression.py). After a change that is meant:
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

from cofio.evaluation.datasets import read, remembered
from cofio.evaluation.metrics import macro_f1, recall
from cofio.evaluation.runner import DEFAULT, units
from cofio.providers.embedders import make_reader
from cofio.providers.embedders.local import LocalEmbedder
from cofio.settings import Settings
from evals import regression
from tests.data import ROOT, development

CONVERSATIONS = "retrieval/locomo-dev.jsonl"
TURNS = ROOT / "evals" / "turns" / "turns.jsonl"
Verdict = tuple[str, str]  # the label that is wanted, and the one that was given


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    return LocalEmbedder(tmp_path_factory.mktemp("model"), download=False)


# ── what is measured ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)
def test_as_much_of_what_answers_a_question_is_found(embedder: LocalEmbedder, tmp_path: Path) -> None:
    file = development(CONVERSATIONS)
    reader = make_reader(tmp_path)
    found: dict[str, float] = {}
    for conversation in read(file):
        with remembered(conversation, Settings(home=tmp_path), embedder=embedder, reader=reader) as keeper:
            for question in conversation.questions:
                if question.has_answer:
                    hits = keeper.search(question.text, k=10, log=False, **DEFAULT.options)
                    share = recall(units(hits), question.evidence, 10)
                    found[f"{conversation.id}/{question.id}"] = round(share, 6)
    told = regression.compared("R@10 on the development file", regression.recorded("retrieval", "per_question"), found)
    assert not told.is_worse, str(told)


@pytest.mark.timeout(900)
def test_as_many_turns_come_out_as_they_should(embedder: LocalEmbedder, tmp_path: Path) -> None:
    every = read_turns(TURNS)
    wanted = {each.id: each.label for each in every}
    outcomes = measure.learn(every, Settings(home=tmp_path), embedder)
    before = {name: (wanted.get(name, ""), given) for name, given in regression.recorded("turns", "per_turn").items()}
    now = {outcome.turn.id: (outcome.turn.label, outcome.label) for outcome in outcomes}
    told = regression.compared("macro-F1 of the labelled turns", before, now, score=labels, worth=right)
    assert not told.is_worse, str(told)


def labels(verdicts: Sequence[Verdict]) -> float:
    return macro_f1([wanted for wanted, _ in verdicts], [given for _, given in verdicts])


def right(verdict: Verdict) -> float:
    return float(verdict[0] == verdict[1])


# ── how it is compared ────────────────────────────────────────────────────────────────────────────────────────────────


def answered(share: float, count: int = 300) -> dict[str, float]:
    """So many questions, of which this share was answered."""
    return {f"q{number:03}": float(number < share * count) for number in range(count)}


def test_a_drop_that_is_no_chance_is_told_with_the_questions_that_were_lost() -> None:
    before = answered(0.8)
    told = regression.compared("R@10", before, answered(0.74))
    assert told.is_worse
    assert told.lost == tuple(f"q{number:03}" for number in range(222, 240))
    assert "74.00 % where 80.00 % was recorded" in str(told)
    assert "Lost: q222, q223," in str(told)
    assert "make results" in str(told)


def test_of_many_that_were_lost_some_are_named_and_the_rest_counted() -> None:
    told = regression.compared("R@10", answered(0.8), answered(0.5))
    assert "and 70 more." in str(told)


def test_noise_is_no_drop() -> None:
    before = answered(0.8)
    rng = random.Random(5)
    lost = rng.sample([name for name, share in before.items() if share], 12)
    gained = rng.sample([name for name, share in before.items() if not share], 7)
    now = {**before, **dict.fromkeys(lost, 0.0), **dict.fromkeys(gained, 1.0)}
    told = regression.compared("R@10", before, now)
    assert told.lost == tuple(sorted(lost))
    assert told.difference.low < told.difference.value < 0 < told.difference.high
    assert not told.is_worse
    assert not regression.compared("R@10", before, {**before, "q000": 0.0}).is_worse


def test_what_another_processor_may_cost_is_no_drop() -> None:
    before = {f"q{number}": 0.8 for number in range(50)}
    assert not regression.compared("R@10", before, dict.fromkeys(before, 0.796)).is_worse
    assert regression.compared("R@10", before, dict.fromkeys(before, 0.794)).is_worse


def test_the_same_and_better_are_no_drop() -> None:
    same = regression.compared("R@10", answered(0.8), answered(0.8))
    assert (same.is_worse, same.difference.value, same.lost) == (False, 0.0, ())
    assert not regression.compared("R@10", answered(0.8), answered(0.9)).is_worse


def test_a_small_loss_everywhere_is_a_drop_too() -> None:
    before = {f"q{number}": 1.0 for number in range(50)}
    told = regression.compared("R@10", before, dict.fromkeys(before, 0.99))
    assert told.is_worse
    assert len(told.lost) == 50


def test_a_question_that_is_missing_is_named() -> None:
    now = answered(0.8)
    del now["q007"]
    with pytest.raises(regression.Incomparable, match="Recorded and not measured: q007"):
        regression.compared("R@10", answered(0.8), now)
    with pytest.raises(regression.Incomparable, match="Measured and not recorded: q300"):
        regression.compared("R@10", answered(0.8), {**answered(0.8), "q300": 1.0})


def test_labels_are_compared_by_the_score_of_all_of_them() -> None:
    wanted = ["store"] * 40 + ["update"] * 20 + ["skip"] * 60
    before = {f"t{number:03}": (each, each) for number, each in enumerate(wanted)}
    blind = {name: (each, "skip" if each == "update" else each) for name, (each, _) in before.items()}
    told = regression.compared("macro-F1", before, blind, score=labels, worth=right)
    assert told.is_worse
    assert told.lost[0] == "t040"
    assert told.before == 1.0
    assert told.now < 0.7  # one label of three is never given
    one = {**before, "t000": ("store", "skip")}
    assert not regression.compared("macro-F1", before, one, score=labels, worth=right).is_worse


def test_what_was_never_recorded_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "RESULTS", tmp_path)
    with pytest.raises(regression.Incomparable, match=r"docs/results/retrieval.json has no per_question"):
        regression.recorded("retrieval", "per_question")
    (tmp_path / "retrieval.json").write_text(json.dumps({"per_question": {"q1": 1.0}}), encoding="utf-8")
    assert regression.recorded("retrieval", "per_question") == {"q1": 1.0}
    with pytest.raises(regression.Incomparable, match="has no per_unit"):
        regression.recorded("retrieval", "per_unit")


def test_without_the_data_a_test_is_skipped_and_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_DATA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=str(tmp_path / CONVERSATIONS)):
        development(CONVERSATIONS)
    (tmp_path / "retrieval").mkdir()
    (tmp_path / CONVERSATIONS).touch()
    assert development(CONVERSATIONS) == tmp_path / CONVERSATIONS
