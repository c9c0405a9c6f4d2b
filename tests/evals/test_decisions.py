"""The decision evaluation: counts on small hand-made sets, and duplicate detection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evals.decisions import duplicates
from evals.decisions import measure as decisions
from evals.decisions.__main__ import plot_duplicates
from evals.decisions.pairs import Action, PairCase, PairCases, draw_sample, read

from cofio import bootstrap
from cofio.errors import InvalidInput, Misconfigured, NotFound
from cofio.settings import Settings
from cofio.testing import HashEmbedder, ScriptedLLM
from cofio_eval.metrics import macro_f1
from tests.evaluation.fake_judges import ScriptedJudge

FACTS = [
    {"a": "The port of the api is 8080", "b": "The api's port is 8080", "label": "duplicate"},
    {"a": "The port of the web is 80", "b": "The port of the web is now 81", "label": "contradiction"},
    {"a": "We deploy with Fly.io", "b": "Ann owns billing", "label": "unrelated"},
    {"a": "Billing is slow on Mondays", "b": "Billing has two replicas", "label": "related"},
]
MESSAGES = [
    {
        "id": "region",
        "old": "We use tabs for indentation.",
        "new": "We use spaces for indentation.",
        "relation": "update",
    },
    {"old": "How are you?", "new": "Fine, thanks!", "relation": "contradiction"},
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path / "home"}, {})


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the model by a scripted judge: a new port, a new indentation, a retraction, a duplicate."""
    facts = {row["old"]: (0.95, "policy", "project") for row in MESSAGES[:1]}
    facts |= {row["new"]: (0.95, "policy", "project") for row in MESSAGES[:1]}

    def label(statement: str, memory: str) -> str:
        if "no longer" in statement and "Kafka" in memory:
            return "delete"
        if "api" in statement and "api" in memory:
            return "same"
        is_web = statement.startswith("The port of the web") and memory.startswith("The port of the web")
        return "update" if is_web or ("spaces" in statement and "tabs" in memory) else "add"

    monkeypatch.setattr(bootstrap, "_judge", lambda _: ScriptedJudge(facts, label))


def write(tmp_path: Path, rows: list[Any], name: str = "made.jsonl") -> Path:
    path = tmp_path / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def measure(cases: list[PairCase], settings: Settings, llm: ScriptedLLM | None = None) -> dict[str, Any]:
    report = decisions.evaluate_cases([PairCases("made", tuple(cases))], settings, llm, HashEmbedder())
    return report.as_dict()


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pairs_of_facts_are_read_with_the_expected_action(tmp_path: Path) -> None:
    cases = read(write(tmp_path, FACTS)).cases
    assert [(case.id, case.expected, case.is_message) for case in cases] == [
        ("1", "noop", False),
        ("2", "update", False),
        ("3", "add", False),
        ("4", "add", False),
    ]
    assert [case.known[0] for case in cases] == [row["a"] for row in FACTS]
    assert "We deploy with Fly.io" in cases[0].known[1:]


def test_unicode_line_separator_does_not_end_a_line(tmp_path: Path) -> None:
    row = json.dumps({"a": "one\u2028two", "b": "three", "label": "related"}, ensure_ascii=False)
    assert [case.known[0] for case in read(write(tmp_path, [row])).cases] == ["one\u2028two"]


def test_pairs_of_messages_are_read(tmp_path: Path) -> None:
    cases = read(write(tmp_path, MESSAGES)).cases
    assert [(case.id, case.known, case.expected, case.is_message) for case in cases] == [
        ("region", ("We use tabs for indentation.",), "update", True),
        ("2", ("How are you?",), "update", True),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Line 2 of"),
        ("[]", "it is a list"),
        ('{"a": "x", "b": "y"}', "there is no 'label'"),
        ('{"a": "x", "b": "y", "label": "same"}', "its label is 'same'"),
        ('{"old": "x", "new": "y", "relation": "duplicate"}', "its relation is 'duplicate'"),
        ('{"a": "x", "b": " ", "label": "related"}', "one of its texts is empty"),
        ('{"id": "1", "a": "x", "b": "z", "label": "related"}', "The id '1' occurs twice"),
        ('{"a": "x", "b": "y", "label": ["related"]}', "its label is ['related']"),
        (f'{{"a": "{"x" * 65_537}", "b": "y", "label": "related"}}', "Line 2 of"),
        (f'{{"id": "{"x" * 1_025}", "a": "x", "b": "y", "label": "related"}}', "its id is longer than 1,024"),
        (f'{{"a": {"[" * 100_000}', "Line 2 of"),
    ],
)
def test_invalid_line_is_rejected_with_the_reason_and_a_hint(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(write(tmp_path, [FACTS[0], line]))
    assert message in caught.value.message
    assert "Give " in caught.value.hint


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    first = b'\xef\xbb\xbf{"id": null, "a": "one \\ud83d line", "b": "zero\\u0000", "label": "related"}\r\n\r\n'
    path.write_bytes(first + '{"id": 2.0, "a": "one\u2028text", "b": "two", "label": "related"}'.encode())
    cases = [(case.id, case.known[0], case.new) for case in read(path).cases]
    assert cases == [("1", "one ? line", "zero"), ("2", "one\u2028text", "two")]


def test_missing_or_empty_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read(tmp_path / "nothing.jsonl")
    with pytest.raises(InvalidInput, match="is empty"):
        read(write(tmp_path, [""]))


def test_memories_and_later_statements_are_read_with_their_label(tmp_path: Path) -> None:
    rows = [
        {"memory": "The port is 80", "said": "port 81 now", "label": "update"},
        {"memory": "Ann owns billing", "said": "ann left", "label": "delete"},
        {"memory": "We use uv", "said": "uv it is", "label": "same"},
        {"memory": "We use uv", "said": "is uv fast?", "label": "add"},
    ]
    cases = read(write(tmp_path, rows)).cases
    assert [(case.known[0], case.new, case.expected) for case in cases] == [
        (row["memory"], row["said"], wanted)
        for row, wanted in zip(rows, ("update", "delete", "noop", "add"), strict=True)
    ]
    with pytest.raises(InvalidInput, match="its label is 'duplicate'"):
        read(write(tmp_path, [{"memory": "a", "said": "b", "label": "duplicate"}]))


def test_sample_is_deterministic_and_stratified() -> None:
    labels: tuple[Action, ...] = ("add", "update", "delete", "noop")
    cases = PairCases("made", tuple(PairCase(str(number), ("a",), "b", labels[number % 4]) for number in range(100)))
    sample = draw_sample(cases, 40)
    assert sample == draw_sample(cases, 40)
    assert len(sample.cases) == 40
    assert {case.expected for case in sample.cases} == {"add", "update", "delete", "noop"}
    assert draw_sample(sample, 500) == sample


# ── Results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rule_decisions_are_counted(tmp_path: Path, settings: Settings) -> None:
    report = decisions.evaluate([write(tmp_path, FACTS)], settings, embedder=HashEmbedder())
    values = report.as_dict()
    assert values["per_case"]["made"] == {"rules": {"1": "noop", "2": "update", "3": "add", "4": "add"}}
    figures = values["sets"]["made"]
    assert (figures["cases"], figures["wanted"]) == (4, {"add": 2, "update": 1, "noop": 1})
    assert figures["rules"]["macro_f1"]["value"] == 1.0
    assert figures["rules"]["target_accuracy"]["value"] == 1.0
    assert [figures["rules"][name]["value"] for name in ("lost_updates", "false_overwrites", "false_merges")] == [
        0,
        0,
        0,
    ]
    assert values["model"] is None
    assert "made" in report.text()
    assert report.page().count("\n## ") == len(report.tables)


def test_missed_updates_and_overwrites_are_counted(settings: Settings) -> None:
    old = "The port of the web is 80"
    figures = measure(
        [
            PairCase("lost", (old, "Ann owns billing"), "Somebody told me that 81 it shall be", "update"),
            PairCase("overwritten", (old, "Ann owns billing"), "The port of the web is now 82", "add"),
            PairCase("merged", (old,), "The port of the web is 80", "update"),
            PairCase("astray", ("Ann owns billing", old), "The port of the web is 83", "update"),
            PairCase("fine", (old, "Ann owns billing"), "The port of the web is now 84", "update"),
        ],
        settings,
    )
    decided = figures["per_case"]["made"]["rules"]
    assert decided == {"lost": "add", "overwritten": "update", "merged": "noop", "astray": "update", "fine": "update"}
    rates = figures["sets"]["made"]["rules"]
    assert rates["lost_updates"]["value"] == pytest.approx(3 / 4)
    assert rates["false_overwrites"]["value"] == pytest.approx(2 / 4)  # "merged" has no other memory
    assert rates["false_merges"]["value"] == pytest.approx(1 / 5)
    assert rates["target_accuracy"]["value"] == pytest.approx(1 / 2)  # for "astray" and "fine"
    assert rates["matrix"]["update"] == {"add": 1, "update": 2, "noop": 1}


def test_replacement_by_a_retraction_counts_as_deletion(settings: Settings) -> None:
    figures = measure([PairCase("gone", ("We use Kafka for events",), "We no longer use Kafka", "delete")], settings)
    assert figures["per_case"]["made"]["rules"] == {"gone": "delete"}
    assert figures["sets"]["made"]["rules"]["lost_updates"]["value"] == 0.0


def test_messages_are_learned_in_order(tmp_path: Path, settings: Settings) -> None:
    report = decisions.evaluate([write(tmp_path, MESSAGES)], settings, embedder=HashEmbedder())
    values = report.as_dict()
    assert values["per_case"]["made"]["rules"] == {"region": "update", "2": "none"}
    rules = values["sets"]["made"]["rules"]
    assert rules["lost_updates"]["value"] == 0.5
    assert rules["false_overwrites"] is None
    assert values["per_case"]["made-as-facts"]["rules"]["region"] == "update"  # the decision without the extraction
    assert not values["duplicates"]


def test_llm_decides_the_same_cases_and_the_difference_is_reported(settings: Settings) -> None:
    def scripted_reply(action: str, memory: str | None) -> str:
        return json.dumps({"decisions": [{"fact": "f1", "action": action, "memory": memory, "text": None}]})

    cases = [
        PairCase("news", ("The web listens on port 80",), "Since Monday the web is at 81", "update"),
        PairCase("kept", ("The web listens on port 80",), "The web needs a login", "add"),
    ]
    llm = ScriptedLLM([scripted_reply("UPDATE", "m1"), scripted_reply("DELETE", "m1")])
    values = measure(cases, settings, llm)
    assert values["per_case"]["made"] == {
        "rules": {"news": "add", "kept": "add"},
        "model": {"news": "update", "kept": "delete"},
    }
    assert values["model"] == {"provider": "scripted", "model": "script"}
    assert len(llm.calls) == 2  # it is called for decisions only, not for extraction
    figures = values["sets"]["made"]
    assert figures["difference"]["lost_updates"]["value"] == -1.0
    assert figures["difference"]["false_overwrites"]["value"] == 1.0
    assert figures["model"]["macro_f1"]["value"] == pytest.approx(0.5)
    assert figures["difference"]["macro_f1"]["value"] == pytest.approx(0.5 - 1 / 3)


def test_invalid_llm_setting_raises(tmp_path: Path) -> None:
    settings = Settings.load({"home": tmp_path / "home"}, {"EXTRACT_PROVIDER": "oracle"})
    with pytest.raises(Misconfigured, match="oracle"):
        decisions.evaluate([write(tmp_path, FACTS)], settings, embedder=HashEmbedder())


def test_macro_f1_matches_the_metric_and_lies_in_its_interval() -> None:
    expected = ["add", "add", "update", "noop", "noop", "delete"]
    actual = ["add", "noop", "update", "noop", "none", "update"]
    figure = decisions.macro_f1s(expected, actual)
    assert figure.value == pytest.approx(macro_f1(expected, actual))
    assert figure.low <= figure.value <= figure.high
    difference = decisions.macro_f1s(expected, actual, expected)
    assert difference.value == pytest.approx(macro_f1(expected, actual) - 1)
    assert decisions.macro_f1s(expected, actual, actual).high == 0.0


# ── Duplicates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_duplicate_detection_is_measured_for_every_method(tmp_path: Path, settings: Settings) -> None:
    rows = [
        {"a": "The repo uses pytest", "b": "the repository uses pytest", "label": "duplicate"},
        {"a": "Whales breathe air", "b": "Sea mammals need oxygen", "label": "duplicate"},
        {"a": "The port is 8080", "b": "The port is 9090", "label": "contradiction"},
        {"a": "The port is 8080", "b": "Tests are slow", "label": "unrelated"},
    ]
    report = decisions.evaluate([write(tmp_path, rows)], settings, embedder=HashEmbedder())
    figures = report.as_dict()["duplicates"]["made"]
    for method in duplicates.OPERATIONS:
        shares = {part: figure["value"] for part, figure in figures["defaults"][method].items()}
        assert shares["leak"] == shares["others"] == 0.0
        assert shares["recall"] in (0.0, 0.5)
    assert figures["recall_at_5_leak"]["cofio"]["value"] == 0.5
    plots = plot_duplicates(report.values["duplicates"])
    assert list(plots) == ["duplicates-made"]
    assert plots["duplicates-made"].startswith("<svg")


def test_threshold_is_the_lowest_with_few_false_positives() -> None:
    duplicate_scores = np.array([0.9, 0.8, 0.7, 0.0])
    contradiction_scores = np.concatenate([np.array([0.85, 0.75]), np.zeros(18)])
    with_guard, without_guard, gain = duplicates.measure_recall_at_leak(
        (duplicate_scores, contradiction_scores), (duplicate_scores, np.full(20, 0.95))
    )
    assert with_guard.value == 0.5  # one of twenty may pass: the threshold is 0.75
    assert without_guard.value == 0.0
    assert gain.value == 0.5
    assert with_guard.low <= with_guard.value <= with_guard.high
    points = {point["threshold"]: point for point in duplicates.curve((duplicate_scores, contradiction_scores))}
    assert (points[0.8]["recall"], points[0.8]["leak"]) == (0.5, 0.05)


def test_sets_with_the_same_name_are_numbered(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "other").mkdir()
    files = [write(tmp_path, FACTS[:1]), write(tmp_path / "other", FACTS[1:2])]
    report = decisions.evaluate(files, settings, embedder=HashEmbedder())
    assert list(report.as_dict()["sets"]) == ["made", "made 2"]
