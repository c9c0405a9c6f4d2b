"""The judgement model: its files, loading, determinism, and what happens without it."""

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
from cofio.judgement import model as judgement
from cofio.judgement.model import WEIGHTS, LocalJudge, read_card
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


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_card_has_every_threshold_and_a_calibration() -> None:
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


@pytest.mark.parametrize("way", ["damaged", "off"])
def test_the_keeper_works_with_the_rules_where_the_model_is_damaged_or_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    def refuse() -> LocalJudge:
        raise Misconfigured("The judgement model cannot be read: gone.", "Reinstall cofio.")

    monkeypatch.setattr(judgement, "LocalJudge", refuse)
    settings = Settings.load({"home": tmp_path}, {"COFIO_JUDGE": "false"} if way == "off" else {})
    with bootstrap.keeper(settings, embedder=HashEmbedder()) as keeper:
        keeper.learn("User: I prefer tabs over spaces.")
        keeper.learn("User: I prefer tabs over spaces!")
        [memory] = keeper
        assert (memory.text, memory.occurrences) == ("User prefers tabs over spaces", 2)
    assert ("cannot be read" in caplog.text) is (way == "damaged")


# ── loading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_neither_importing_cofio_nor_building_a_keeper_loads_the_runtime(tmp_path: Path) -> None:
    script = """
import sys
import cofio
assert "numpy" not in sys.modules and "cofio.judgement.model" not in sys.modules
from cofio import bootstrap as assemble
from cofio.settings import Settings
from cofio.testing import HashEmbedder
keeper = assemble.keeper(Settings.load({"home": sys.argv[1]}, {}), embedder=HashEmbedder())
assert "cofio.judgement.model" in sys.modules and "onnxruntime" not in sys.modules
keeper.learn("User: We never deploy on Fridays.", dry_run=True)
assert "onnxruntime" in sys.modules
keeper.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_what_a_screen_ends_is_unrelated_and_irrelevant(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, said = LocalJudge(), "Raj owns the billing service now, Sofia left"
    monkeypatch.setitem(judge.card["screens"], "relation", [1.1])
    monkeypatch.setitem(judge.card["screens"], "relevance", [1.1])
    assert judge.relation(said, "Sofia owns the billing service") == (1.0, 0.0, 0.0, 0.0)
    assert judge.relevance("Who owns billing?", ["Sofia owns the billing service"]) == [0.0]
    assert judge.spans(said)  # turns are not screened


def test_screens_let_through_what_the_heads_find(judge: LocalJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    open_judge = LocalJudge()
    monkeypatch.setattr(open_judge, "_limits", lambda *_: ())
    said, memory = PAIRS[0]
    assert judge.relation(said, memory) == open_judge.relation(said, memory)
    unrelated = "The office plants are watered on Mondays"
    assert judge.relation(said, unrelated).add >= open_judge.relation(said, unrelated).add


def test_answers_depend_on_nothing_but_the_texts(judge: LocalJudge) -> None:
    other = LocalJudge()
    said = "Sofia owns the billing service. We never deploy on Fridays."
    expected = [judge.relation(*pair) for pair in PAIRS], judge.spans(said), judge.relevance("Who?", ["Sofia", "Raj"])
    reordered = [other.relation(*pair) for pair in reversed(PAIRS)][::-1]
    one_by_one = [score for memory in ("Sofia", "Raj") for score in other.relevance("Who?", [memory])]
    assert (reordered, other.spans(said), one_by_one) == expected


@pytest.mark.parametrize("when", ["2026-03-02", "week of 2026-03-02", "2026-03", "Q1 2026", "2025"])
def test_a_resolved_date_does_not_change_what_a_statement_is_to_a_memory(judge: LocalJudge, when: str) -> None:
    said, memory = "We switched from Prisma to Drizzle last time", "We use Prisma as our ORM"
    plain = judge.relation(said, memory)
    assert judge.relation(f"{said} ({when})", memory) == plain
    assert judge.relation(said, f"{memory} ({when})") == plain


def test_threads_load_the_model_once_and_agree() -> None:
    judge = LocalJudge()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: judge.relation(*PAIRS[0]), range(8)))
    assert len(set(answers)) == 1


@pytest.mark.parametrize("said", ["", "   ", "🚀", "word " * 5_000, "x" * 50_000])
def test_any_turn_can_be_read(judge: LocalJudge, said: str) -> None:
    for span in judge.spans(said, said):
        assert 0 <= span.start < span.end <= len(said)
        assert span.kind in labels.KINDS
        assert span.about in labels.ABOUT


def test_decoding_keeps_the_surest_word_where_no_word_belongs_to_a_fact() -> None:
    text, width = "Scrap that", len(labels.TAGS) + len(labels.KINDS) + len(labels.ABOUT)
    places = [(0, (0, 5)), (1, (6, 10))]
    for outside, expected in ((2.0, [True]), (5.0, [])):  # probabilities of about 0.2 and 0.01
        logits = np.zeros((2, width), np.float32)
        logits[:, 0] = outside
        found = decode(text, Tagged(places, logits))
        assert [span.probability < 0.35 for span in found] == expected


def test_no_more_windows_are_read_than_asked_for(judge: LocalJudge) -> None:
    said = "We never deploy on Fridays. " * 200
    one, two = judge.spans(said, windows=1), judge.spans(said, windows=2)
    assert 0 < len(one) < len(two)
    assert two[: len(one)] == one
