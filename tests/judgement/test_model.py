"""The judgement model: its files, loading, determinism, and the fallback without it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cofio import bootstrap
from cofio.errors import Misconfigured
from cofio.judgement import labels
from cofio.judgement import onnx_classifier as judgement
from cofio.judgement.onnx_classifier import WEIGHTS, LocalJudge, read_card
from cofio.judgement.spans import Tagged, decode
from cofio.settings import Settings
from cofio.testing import HashEmbedder

DECISIONS = {
    "fact",
    "assistant fact",
    "doubtful fact",
    "same",
    "change",
    "doubtful change",
    "retraction",
    "relevant",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the files of the model."""
    return Path(shutil.copytree(WEIGHTS, tmp_path / "weights"))


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_card_has_every_threshold_and_a_calibration() -> None:
    card = read_card()
    assert set(card["thresholds"]) >= DECISIONS
    assert all(0.0 < value < 1.0 for value in card["thresholds"].values())
    assert len(card["relevance"]) == 2
    assert set(card["screens"]) == {"relation", "relevance"}
    assert card["thresholds"]["doubtful change"] < card["thresholds"]["change"]
    assert card["thresholds"]["doubtful fact"] < card["thresholds"]["fact"]


@pytest.mark.parametrize(
    "damage", ["part1.onnx", "part2.onnx", "model.json", "flipped", "not json", "other digest", "no parts"]
)
def test_missing_or_damaged_files_are_misconfigured(copy: Path, damage: str) -> None:
    if damage.endswith((".onnx", ".json")):
        (copy / damage).unlink()
    elif damage == "flipped":
        with (copy / "part2.onnx").open("r+b") as file:
            file.seek(1_000)
            byte = file.read(1)[0]
            file.seek(1_000)
            file.write(bytes([byte ^ 1]))
    elif damage == "not json":
        (copy / "model.json").write_text("{", encoding="utf-8")
    else:
        card = json.loads((copy / "model.json").read_text(encoding="utf-8"))
        changed = {"other digest": {**card, "sha256": "0" * 64}, "no parts": {"sha256": card["sha256"]}}[damage]
        (copy / "model.json").write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(Misconfigured, match="judgement model"):
        read_card(copy)
    with pytest.raises(Misconfigured):
        LocalJudge(copy)


@pytest.mark.parametrize("state", ["damaged", "off"])
def test_keeper_falls_back_to_rules_if_the_model_is_damaged_or_disabled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    def refuse() -> LocalJudge:
        raise Misconfigured("The judgement model cannot be read: gone.", "Reinstall cofio.")

    monkeypatch.setattr(judgement, "LocalJudge", refuse)
    settings = Settings.load({"home": tmp_path}, {"COFIO_JUDGE": "false"} if state == "off" else {})
    with bootstrap.keeper(settings, embedder=HashEmbedder()) as keeper:
        keeper.learn("User: I prefer tabs over spaces.")
        keeper.learn("User: I prefer tabs over spaces!")
        [memory] = keeper
        assert (memory.text, memory.occurrences) == ("User prefers tabs over spaces", 2)
    assert ("cannot be read" in caplog.text) is (state == "damaged")


# ── Loading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_importing_cofio_and_building_a_keeper_do_not_load_the_runtime(tmp_path: Path) -> None:
    script = """
import sys
import cofio
assert "numpy" not in sys.modules and "cofio.judgement.onnx_classifier" not in sys.modules
from cofio import bootstrap as assemble
from cofio.settings import Settings
from cofio.testing import HashEmbedder
keeper = assemble.keeper(Settings.load({"home": sys.argv[1]}, {}), embedder=HashEmbedder())
assert "cofio.judgement.onnx_classifier" in sys.modules and "onnxruntime" not in sys.modules
keeper.learn("User: We never deploy on Fridays.", dry_run=True)
assert "onnxruntime" in sys.modules
keeper.close()
"""
    process = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, process.stderr


# ── Answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


PAIRS = [
    ("Raj owns the billing service now, Sofia left", "Sofia owns the billing service"),
    ("We deploy to Fly.io", "We deploy with Fly.io"),
    ("", ""),
    ("🚀" * 300, "日本語"),
]


def test_answers_are_probabilities(judge: LocalJudge) -> None:
    for statement, memory in PAIRS:
        relation = judge.relation(statement, memory)
        assert len(relation) == len(labels.RELATIONS)
        assert sum(relation) == pytest.approx(1.0, abs=1e-5)
        assert relation.change == relation.update + relation.delete
    for score in judge.relevance("How do we deploy?", [memory for _, memory in PAIRS]):
        assert 0.0 <= score <= 1.0


def test_screened_out_pairs_are_unrelated_and_irrelevant(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, statement = LocalJudge(), "Raj owns the billing service now, Sofia left"
    monkeypatch.setitem(judge.card["screens"], "relation", [1.1])
    monkeypatch.setitem(judge.card["screens"], "relevance", [1.1])
    assert judge.relation(statement, "Sofia owns the billing service") == (1.0, 0.0, 0.0, 0.0)
    assert judge.relevance("Who owns billing?", ["Sofia owns the billing service"]) == [0.0]
    assert judge.spans(statement)  # turns are not screened


def test_screens_pass_pairs_that_the_heads_score_high(judge: LocalJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    open_judge = LocalJudge()
    monkeypatch.setattr(open_judge, "_limits", lambda *_: ())
    statement, memory = PAIRS[0]
    assert judge.relation(statement, memory) == open_judge.relation(statement, memory)
    unrelated = "The office plants are watered on Mondays"
    assert judge.relation(statement, unrelated).add >= open_judge.relation(statement, unrelated).add


def test_answers_depend_only_on_the_texts(judge: LocalJudge) -> None:
    other = LocalJudge()
    turn = "Sofia owns the billing service. We never deploy on Fridays."
    expected = [judge.relation(*pair) for pair in PAIRS], judge.spans(turn), judge.relevance("Who?", ["Sofia", "Raj"])
    reordered = [other.relation(*pair) for pair in reversed(PAIRS)][::-1]
    one_by_one = [score for memory in ("Sofia", "Raj") for score in other.relevance("Who?", [memory])]
    assert (reordered, other.spans(turn), one_by_one) == expected


@pytest.mark.parametrize("date", ["2026-03-02", "week of 2026-03-02", "2026-03", "Q1 2026", "2025"])
def test_resolved_date_does_not_change_the_relation(judge: LocalJudge, date: str) -> None:
    statement, memory = "We switched from Prisma to Drizzle last time", "We use Prisma as our ORM"
    plain = judge.relation(statement, memory)
    assert judge.relation(f"{statement} ({date})", memory) == plain
    assert judge.relation(statement, f"{memory} ({date})") == plain


def test_model_is_loaded_once_across_threads() -> None:
    judge = LocalJudge()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: judge.relation(*PAIRS[0]), range(8)))
    assert len(set(answers)) == 1


@pytest.mark.parametrize("turn", ["", "   ", "🚀", "word " * 5_000, "x" * 50_000])
def test_any_turn_can_be_judged(judge: LocalJudge, turn: str) -> None:
    for span in judge.spans(turn, turn):
        assert 0 <= span.start < span.end <= len(turn)
        assert span.kind in labels.KINDS
        assert span.about in labels.ABOUT


def test_decoding_keeps_the_most_probable_word_without_a_span() -> None:
    text, width = "Scrap that", len(labels.TAGS) + len(labels.KINDS) + len(labels.ABOUT)
    places = [(0, (0, 5)), (1, (6, 10))]
    for outside, expected in ((2.0, [True]), (5.0, [])):  # probabilities of about 0.2 and 0.01
        logits = np.zeros((2, width), np.float32)
        logits[:, 0] = outside
        spans = decode(text, Tagged(places, logits))
        assert [span.probability < 0.35 for span in spans] == expected


def test_window_limit_is_respected(judge: LocalJudge) -> None:
    turn = "We never deploy on Fridays. " * 200
    one_window, two_windows = judge.spans(turn, windows=1), judge.spans(turn, windows=2)
    assert 0 < len(one_window) < len(two_windows)
    assert two_windows[: len(one_window)] == one_window
