"""The labelled turns are well-formed, and what is made of turns is counted right."""

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
from cofio.evaluation.report import Report
from cofio.evaluation.statements import states_fact
from cofio.settings import Settings
from cofio.testing import HashEmbedder, ScriptedLLM
from tests.evaluation.fake_judges import ScriptedJudge

FILE = Path(__file__).resolve().parents[2] / "evals" / "turns" / "turns.jsonl"
SET = labels.read(FILE)

# ── the set ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_are_enough_turns_and_no_label_is_rare() -> None:
    counts = Counter(each.label for each in SET)
    assert len(SET) >= 260
    assert 0.40 <= counts["skip"] / len(SET) <= 0.50
    assert 0.30 <= counts["store"] / len(SET) <= 0.40
    assert 0.15 <= counts["update"] / len(SET) <= 0.25
    assert sum(each.role == "assistant" for each in SET) >= 25


def test_ids_and_texts_are_there_once() -> None:
    assert len({each.id for each in SET}) == len(SET)
    assert len({" ".join(each.text.lower().split()) for each in SET}) == len(SET)
    assert all(re.fullmatch(r"t\d{3}", each.id) for each in SET)


def test_a_turn_says_what_its_label_asks_for() -> None:
    for turn in SET:
        assert turn.split in labels.SPLITS, turn.id
        assert turn.tags, turn.id
        assert all(re.fullmatch(r"[a-z][a-z-]+", tag) for tag in turn.tags), turn.id
        assert bool(turn.facts) is turn.is_news, turn.id
        assert bool(turn.replaces) is (turn.label == "update"), turn.id
        assert all(re.fullmatch(r".+\.", fact) for fact in (*turn.facts, *turn.before)), turn.id
        assert turn.label != "update" or len(turn.before) > 1, f"{turn.id}: something else is known, and must stay"


def test_a_fact_is_worded_so_that_whoever_keeps_the_turn_has_kept_it() -> None:
    lost = [turn.id for turn in SET for fact in turn.facts if not states_fact(turn.text, fact, turn.replaces)]
    assert lost == []


def test_the_halves_are_alike() -> None:
    for label in labels.LABELS:
        halves = Counter(each.split for each in SET if each.label == label)
        assert abs(halves["dev"] - halves["test"]) <= 1, label
    for kind, whole in Counter((each.label, each.tags[0]) for each in SET).items():
        dev = sum(each.split == "dev" for each in SET if (each.label, each.tags[0]) == kind)
        assert abs(2 * dev - whole) <= 1, kind


def test_every_secret_is_made_up() -> None:
    for turn in SET:
        assert turn.secret in turn.text
        for found in re.findall(r"\b(?:AKIA|ghp_|sk_|xox|glpat-|AIza)[\w-]{8,}", turn.text):
            assert "EXAMPLE" in found, turn.id
    assert sum(bool(each.secret) for each in SET) >= 4
    assert all("EXAMPLE" in each.secret for each in SET if each.secret)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def written(folder: Path, *lines: dict[str, Any] | str) -> Path:
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
def test_what_is_no_labelled_turn_is_refused_with_its_line(tmp_path: Path, line: dict[str, Any] | str) -> None:
    with pytest.raises(InvalidInput, match="Line 2 of") as refused:
        labels.read(written(tmp_path, {"id": "a", "text": "hello", "label": "skip"}, line))
    assert "one JSON object a line" in refused.value.hint


def test_what_other_programs_write_is_read(tmp_path: Path) -> None:
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


def test_a_file_that_is_missing_empty_or_has_an_id_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        labels.read(tmp_path / "nowhere.jsonl")
    with pytest.raises(InvalidInput, match="is empty"):
        labels.read(written(tmp_path, ""))
    with pytest.raises(InvalidInput, match="The id 'a' occurs twice"):
        labels.read(written(tmp_path, *[{"id": "a", "text": text, "label": "skip"} for text in ("one", "two")]))


# ── whether a text carries a fact ─────────────────────────────────────────────────────────────────────────────────────


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
def test_a_text_carries_a_fact_in_other_words(text: str, fact: str) -> None:
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
def test_a_text_without_a_number_a_name_or_most_words_of_a_fact_does_not_carry_it(text: str, fact: str) -> None:
    assert not states_fact(text, fact)


def test_what_was_replaced_need_not_be_said_again() -> None:
    said, fact, old = "The limit is 25 MB", "The limit goes from 10 MB to 25 MB.", "The limit is 10 MB."
    assert states_fact(said, fact, old)
    assert not states_fact(said, fact)
    assert not states_fact("The limit is 30 MB", fact, old)


# ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def outcome(
    label: str, given: str, *stored: str, read: bool = False, passed: bool = False, **about: Any
) -> TurnOutcome:
    facts = ("We use pnpm.",) if label != "skip" else ()
    turn = LabelledTurn(id="", role="user", text="", label=label, facts=facts)
    return TurnOutcome(turn, read=read, passed=passed, label=given, stored=stored, **about)


def test_precision_and_recall_are_of_what_was_kept_and_of_what_should_be() -> None:
    told = [
        outcome("store", "store", read=True),
        outcome("store", "skip"),
        outcome("update", "skip"),
        outcome("update", "update", read=True),
        outcome("skip", "store", read=True),
        outcome("skip", "skip"),
    ]
    figures = measure.kept_or_not(told, lambda each: each.read)
    assert [round(figures[name].value, 3) for name in ("precision", "recall", "f1")] == [0.667, 0.5, 0.571]
    assert all(0 <= figure.low <= figure.value <= figure.high <= 1 for figure in figures.values())


def test_macro_f1_is_the_mean_over_the_labels_that_are_wanted() -> None:
    told = [outcome("store", "store"), outcome("store", "skip"), outcome("skip", "skip"), outcome("skip", "skip")]
    figures = measure.of_labels(told)
    assert figures["accuracy"].value == 0.75
    assert figures["macro_f1"].value == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_facts_are_counted_each_and_parts_of_one_count_as_told() -> None:
    turn = LabelledTurn(
        "", "user", "", "store", facts=("The API is at v3; v2 is switched off in May.", "Ann owns billing.")
    )
    parts = ("The API is at v3", "v2 is switched off in May", "The build is red")
    figures = measure.of_facts([TurnOutcome(turn, read=True, passed=True, label="store", stored=parts)])
    assert (figures["precision"].value, figures["recall"].value) == (pytest.approx(2 / 3), 0.5)


def test_an_update_that_was_missed_counts_as_wrong_and_other_turns_do_not_count() -> None:
    told = [
        outcome("update", "update", right_target=True),
        outcome("update", "store"),
        outcome("store", "store"),
        outcome("skip", "skip"),
    ]
    assert measure.of_targets(told).value == 0.5


def test_nothing_to_count_is_no_error() -> None:
    assert measure.kept_or_not([], lambda each: each.read)["f1"].value == 0.0
    assert measure.of_targets([outcome("skip", "skip")]).value == 0.0
    assert measure.of_facts([outcome("skip", "skip")])["precision"].value == 0.0


# ── the whole way ─────────────────────────────────────────────────────────────────────────────────────────────────────

SAID = (
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


def measured(folder: Path, **about: Any) -> Report:
    settings = Settings.load({"home": str(folder / "home"), "store": f"sqlite://{folder}/mine.db"}, environ={})
    return measure.evaluate(written(folder, *SAID), settings, embedder=HashEmbedder(), **about)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a scripted judge in the place of the model."""
    facts = dict.fromkeys(("We use uv for tooling", "the staging port is now 9090"), (0.95, "technology", "project"))

    def label(statement: str, memory: str) -> str:
        return "update" if "9090" in statement and "8080" in memory else "add"

    monkeypatch.setattr(bootstrap, "_judge", lambda _: ScriptedJudge(facts, label))


@pytest.mark.usefixtures("judge")
def test_turns_go_the_way_of_any_conversation_and_the_users_store_is_not_touched(tmp_path: Path) -> None:
    told = measured(tmp_path).as_dict()
    assert told["per_turn"] == {
        "kept": "store", "task": "skip", "moved": "update", "known": "skip", "secret": "skip",
    }  # fmt: skip
    assert told["pipeline"]["label_accuracy"]["value"] == 1.0
    assert told["pipeline"]["target_accuracy"]["value"] == 1.0
    assert told["pipeline"]["facts"]["f1"]["value"] == 1.0
    assert told["patterns"]["f1"]["value"] == 1.0
    assert (told["pipeline"]["secrets"], told["pipeline"]["secrets_kept"], told["pipeline"]["overwrote"]) == (1, 0, 0)
    assert {name: each["turns"] for name, each in told["by_split"].items()} == {"all": 5, "dev": 2, "test": 3}
    assert (told["by_tag"]["technology"]["kept"], told["by_role"]["user"]["turns"]) == (1, 5)
    assert (told["with_model"], told["model"]) == (None, "")
    assert [path.name for path in tmp_path.iterdir()] == ["turns.jsonl"]


def test_one_half_alone_is_measured_and_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    report = measured(tmp_path, split="test")
    assert report.as_dict()["turns"] == 3
    assert report.command.endswith("--split test")
    assert list(report.as_dict()["by_split"]) == ["test"]
    with pytest.raises(InvalidInput, match="no turn of the split"):
        measured(tmp_path, split="held-out")


def test_a_report_is_told_as_text_and_as_a_page(tmp_path: Path) -> None:
    report = measured(tmp_path)
    assert "all of it, test" in report.text()
    assert "## By tag" in report.page()
    assert "No model is configured" in report.text()


def test_with_a_model_the_same_turns_are_measured_again_and_what_it_could_not_be_asked_is_told(tmp_path: Path) -> None:
    fact = "Our team decided to use a microservices architecture for scalability."
    said = [{"id": name, "text": fact, "label": "store", "facts": [fact], "split": "dev"} for name in ("told", "down")]
    llm = ScriptedLLM([json.dumps([{"fact": fact, "text": fact}]), Unavailable("It is down.")], reconciles=False)
    settings = Settings.load({"home": str(tmp_path / "home")}, environ={})
    report = measure.evaluate(written(tmp_path, *said), settings, llm, embedder=HashEmbedder())
    told = report.as_dict()["with_model"]
    assert told["per_turn"] == {"told": "store", "down": "skip"}
    assert (told["failed"], told["facts"]["recall"]["value"]) == (1, 0.5)
    assert report.as_dict()["model"] == "script"
    assert "The model call failed for 1 turns" in report.text()


def test_progress_is_told_turn_by_turn(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    measured(tmp_path, progress=lambda so_far, total: steps.append((so_far, total)))
    assert steps == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
