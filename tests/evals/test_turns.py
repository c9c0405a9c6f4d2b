"""The labelled turns are well-formed, and the turn evaluation counts correctly."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evals.turns import labels, measure
from evals.turns.labels import LabelledTurn
from evals.turns.measure import TurnOutcome

from cofio import bootstrap
from cofio.errors import InvalidInput, NotFound, Unavailable
from cofio.settings import Settings
from cofio.testing import HashEmbedder, ScriptedLLM
from cofio_eval.report import Report
from cofio_eval.statements import states_fact
from tests.evaluation.fake_judges import ScriptedJudge

FILE = Path(__file__).resolve().parents[2] / "evals" / "turns" / "turns.jsonl"
TURNS = labels.read(FILE)

# ── Labelled turns ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_are_enough_turns_of_every_label() -> None:
    counts = Counter(turn.label for turn in TURNS)
    assert len(TURNS) >= 260
    assert 0.40 <= counts["skip"] / len(TURNS) <= 0.50
    assert 0.30 <= counts["store"] / len(TURNS) <= 0.40
    assert 0.15 <= counts["update"] / len(TURNS) <= 0.25
    assert sum(turn.role == "assistant" for turn in TURNS) >= 25


def test_ids_and_texts_are_unique() -> None:
    assert len({turn.id for turn in TURNS}) == len(TURNS)
    assert len({" ".join(turn.text.lower().split()) for turn in TURNS}) == len(TURNS)
    assert all(re.fullmatch(r"t\d{3}", turn.id) for turn in TURNS)


def test_fields_match_the_label() -> None:
    for turn in TURNS:
        assert turn.split in labels.SPLITS, turn.id
        assert turn.tags, turn.id
        assert all(re.fullmatch(r"[a-z][a-z-]+", tag) for tag in turn.tags), turn.id
        assert bool(turn.facts) is turn.is_news, turn.id
        assert bool(turn.replaces) is (turn.label == "update"), turn.id
        assert all(re.fullmatch(r".+\.", fact) for fact in (*turn.facts, *turn.before)), turn.id
        assert turn.label != "update" or len(turn.before) > 1, f"{turn.id}: another memory is known and must be kept"


def test_every_fact_is_contained_in_its_turn() -> None:
    missing = [turn.id for turn in TURNS for fact in turn.facts if not states_fact(turn.text, fact, turn.replaces)]
    assert missing == []


def test_splits_are_balanced() -> None:
    for label in labels.LABELS:
        halves = Counter(turn.split for turn in TURNS if turn.label == label)
        assert abs(halves["dev"] - halves["test"]) <= 1, label
    for kind, count in Counter((turn.label, turn.tags[0]) for turn in TURNS).items():
        dev = sum(turn.split == "dev" for turn in TURNS if (turn.label, turn.tags[0]) == kind)
        assert abs(2 * dev - count) <= 1, kind


def test_secrets_are_invented() -> None:
    for turn in TURNS:
        assert turn.secret in turn.text
        for secret in re.findall(r"\b(?:AKIA|ghp_|sk_|xox|glpat-|AIza)[\w-]{8,}", turn.text):
            assert "EXAMPLE" in secret, turn.id
    assert sum(bool(turn.secret) for turn in TURNS) >= 4
    assert all("EXAMPLE" in turn.secret for turn in TURNS if turn.secret)


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def write(folder: Path, *lines: dict[str, Any] | str) -> Path:
    file = folder / "turns.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[1, 2]",
        {"text": "hi"},
        {"label": "skip"},
        {"text": "hi", "label": "maybe"},
        {"text": " ", "label": "skip"},
        {"text": "hi", "label": "skip", "role": "tool"},
        {"text": None, "label": "skip"},
        {"text": "hi", "label": "skip", "before": ["x" * 65_537]},
        "[" * 100_000,
        {"text": "we use pnpm", "label": "update", "facts": ["We use pnpm."]},
        {"text": "we use pnpm", "label": "update", "before": ["We use npm."], "replaces": "We use yarn."},
    ],
)
def test_invalid_turn_is_rejected_with_its_line(tmp_path: Path, line: dict[str, Any] | str) -> None:
    with pytest.raises(InvalidInput, match="Line 2 of") as caught:
        labels.read(write(tmp_path, {"id": "a", "text": "hello", "label": "skip"}, line))
    assert "one JSON object a line" in caught.value.hint


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    line = {
        "id": None,
        "role": None,
        "text": "We use \ud800 tabs.",
        "label": "store",
        "facts": "We use tabs.",
        "before": [""],
    }
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(line).encode() + b"\r\n\r\n")
    assert labels.read(path) == [LabelledTurn("1", "user", "We use ? tabs.", "store", ("We use tabs.",))]


def test_missing_empty_or_duplicate_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        labels.read(tmp_path / "nowhere.jsonl")
    with pytest.raises(InvalidInput, match="is empty"):
        labels.read(write(tmp_path, ""))
    with pytest.raises(InvalidInput, match="The id 'a' occurs twice"):
        labels.read(write(tmp_path, *[{"id": "a", "text": text, "label": "skip"} for text in ("one", "two")]))


# ── Whether a text contains a fact ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Team uses pnpm, not npm", "We use pnpm, not npm."),
        ("our SLO is p99 under 300ms", "The SLO is p99 under 300 ms."),
        ("User prefers early returns over nested ifs", "The user prefers early returns over nested ifs."),
        ("Team moved from Jenkins to GitHub Actions", "We moved from Jenkins to GitHub Actions."),
        ("`TZ` is unset in CI, which broke the test", "The test broke in CI because TZ is unset."),
    ],
)
def test_text_contains_a_fact_in_other_words(text: str, fact: str) -> None:
    assert states_fact(text, fact)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("The staging port is 5432", "The staging port is 5433."),
        ("Team moved from Jenkins to Buildkite", "We moved from Jenkins to GitHub Actions."),
        ("The audit is on April 2", "The audit of everything that touches personal data is on April 2."),
        ("", "We use pnpm."),
    ],
)
def test_text_without_number_name_or_most_words_does_not_contain_a_fact(text: str, fact: str) -> None:
    assert not states_fact(text, fact)


def test_replaced_value_need_not_be_repeated() -> None:
    text, fact, replaced = "The limit is 25 MB", "The limit goes from 10 MB to 25 MB.", "The limit is 10 MB."
    assert states_fact(text, fact, replaced)
    assert not states_fact(text, fact)
    assert not states_fact("The limit is 30 MB", fact, replaced)


# ── Counting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def outcome(
    label: str, actual: str, *stored: str, read: bool = False, passed: bool = False, **fields: Any
) -> TurnOutcome:
    facts = ("We use pnpm.",) if label != "skip" else ()
    turn = LabelledTurn(id="", role="user", text="", label=label, facts=facts)
    return TurnOutcome(turn, read=read, passed=passed, label=actual, stored=stored, **fields)


def test_precision_and_recall_count_stored_turns() -> None:
    outcomes = [
        outcome("store", "store", read=True),
        outcome("store", "skip"),
        outcome("update", "skip"),
        outcome("update", "update", read=True),
        outcome("skip", "store", read=True),
        outcome("skip", "skip"),
    ]
    figures = measure.measure_kept(outcomes, lambda turn_outcome: turn_outcome.read)
    assert [round(figures[name].value, 3) for name in ("precision", "recall", "f1")] == [0.667, 0.5, 0.571]
    assert all(0 <= figure.low <= figure.value <= figure.high <= 1 for figure in figures.values())


def test_macro_f1_is_the_mean_over_the_expected_labels() -> None:
    outcomes = [outcome("store", "store"), outcome("store", "skip"), outcome("skip", "skip"), outcome("skip", "skip")]
    figures = measure.measure_labels(outcomes)
    assert figures["accuracy"].value == 0.75
    assert figures["macro_f1"].value == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_facts_are_counted_individually_and_parts_of_one_are_correct() -> None:
    turn = LabelledTurn(
        "", "user", "", "store", facts=("The API is at v3; v2 is switched off in May.", "Ann owns billing.")
    )
    parts = ("The API is at v3", "v2 is switched off in May", "The build is red")
    figures = measure.measure_facts([TurnOutcome(turn, read=True, passed=True, label="store", stored=parts)])
    assert (figures["precision"].value, figures["recall"].value) == (pytest.approx(2 / 3), 0.5)


def test_missed_update_is_wrong_and_other_turns_are_ignored() -> None:
    outcomes = [
        outcome("update", "update", right_target=True),
        outcome("update", "store"),
        outcome("store", "store"),
        outcome("skip", "skip"),
    ]
    assert measure.measure_targets(outcomes).value == 0.5


def test_empty_input_gives_zero() -> None:
    assert measure.measure_kept([], lambda turn_outcome: turn_outcome.read)["f1"].value == 0.0
    assert measure.measure_targets([outcome("skip", "skip")]).value == 0.0
    assert measure.measure_facts([outcome("skip", "skip")])["precision"].value == 0.0


# ── End to end ────────────────────────────────────────────────────────────────────────────────────────────────────────

SAMPLE_TURNS = (
    {"id": "kept", "text": "We use uv for tooling", "label": "store", "facts": ["We use uv for tooling."],
     "split": "dev", "tags": ["technology"]},
    {"id": "task", "text": "rename this variable please", "label": "skip", "split": "dev", "tags": ["task"]},
    {"id": "moved", "text": "the staging port is now 9090", "label": "update", "before": ["We use uv for tooling.",
     "The staging port is 8080."], "replaces": "The staging port is 8080.", "facts": ["The staging port is 9090."],
     "split": "test", "tags": ["version"]},
    {"id": "known", "text": "We use uv for tooling", "label": "skip", "before": ["We use uv for tooling."],
     "split": "test", "tags": ["known"]},
    {"id": "secret", "text": "the db password is Tr0ub4dor-EXAMPLE-3", "label": "skip", "split": "test",
     "secret": "Tr0ub4dor-EXAMPLE-3", "tags": ["secret"]},
)  # fmt: skip


def evaluate(folder: Path, **options: Any) -> Report:
    settings = Settings.load({"home": str(folder / "home"), "store": f"sqlite://{folder}/mine.db"}, environ={})
    return measure.evaluate(write(folder, *SAMPLE_TURNS), settings, embedder=HashEmbedder(), **options)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the model by a scripted judge."""
    facts = dict.fromkeys(("We use uv for tooling", "the staging port is now 9090"), (0.95, "technology", "project"))

    def label(statement: str, memory: str) -> str:
        return "update" if "9090" in statement and "8080" in memory else "add"

    monkeypatch.setattr(bootstrap, "_judge", lambda _: ScriptedJudge(facts, label))


@pytest.mark.usefixtures("judge")
def test_turns_are_processed_end_to_end_without_touching_the_users_store(tmp_path: Path) -> None:
    values = evaluate(tmp_path).as_dict()
    assert values["per_turn"] == {
        "kept": "store", "task": "skip", "moved": "update", "known": "skip", "secret": "skip",
    }  # fmt: skip
    assert values["pipeline"]["label_accuracy"]["value"] == 1.0
    assert values["pipeline"]["target_accuracy"]["value"] == 1.0
    assert values["pipeline"]["facts"]["f1"]["value"] == 1.0
    assert values["patterns"]["f1"]["value"] == 1.0
    assert (values["pipeline"]["secrets"], values["pipeline"]["secrets_kept"], values["pipeline"]["overwrote"]) == (
        1,
        0,
        0,
    )
    assert {name: figures["turns"] for name, figures in values["by_split"].items()} == {"all": 5, "dev": 2, "test": 3}
    assert (values["by_tag"]["technology"]["kept"], values["by_role"]["user"]["turns"]) == (1, 5)
    assert (values["with_model"], values["model"]) == (None, "")
    assert [path.name for path in tmp_path.iterdir()] == ["turns.jsonl"]


def test_split_is_selected_and_an_unknown_split_is_rejected(tmp_path: Path) -> None:
    report = evaluate(tmp_path, split="test")
    assert report.as_dict()["turns"] == 3
    assert report.command.endswith("--split test")
    assert list(report.as_dict()["by_split"]) == ["test"]
    with pytest.raises(InvalidInput, match="no turn of the split"):
        evaluate(tmp_path, split="held-out")


def test_report_has_text_and_page(tmp_path: Path) -> None:
    report = evaluate(tmp_path)
    assert "pipeline, test" in report.text()
    assert "## By tag" in report.page()
    assert "No model is configured" in report.text()


def test_llm_run_is_measured_separately_and_failed_calls_are_reported(tmp_path: Path) -> None:
    fact = "Our team decided to use a microservices architecture for scalability."
    turn_rows = [
        {"id": name, "text": fact, "label": "store", "facts": [fact], "split": "dev"} for name in ("told", "down")
    ]
    llm = ScriptedLLM([json.dumps([{"fact": fact, "text": fact}]), Unavailable("It is down.")], reconciles=False)
    settings = Settings.load({"home": str(tmp_path / "home")}, environ={})
    report = measure.evaluate(write(tmp_path, *turn_rows), settings, llm, embedder=HashEmbedder())
    figures = report.as_dict()["with_model"]
    assert figures["per_turn"] == {"told": "store", "down": "skip"}
    assert (figures["failed"], figures["facts"]["recall"]["value"]) == (1, 0.5)
    assert report.as_dict()["model"] == "script"
    assert "The model call failed for 1 turns" in report.text()


def test_progress_is_reported_per_turn(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    evaluate(tmp_path, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
