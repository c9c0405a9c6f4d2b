"""What became of what was said, counted on sets small enough to count by hand; and what passes for a duplicate."""

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
from cofio.evaluation.metrics import macro_f1
from cofio.settings import Settings
from cofio.testing import HashEmbedder, ScriptedLLM
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
    """Put a scripted judge in the place of the model: another port, another indentation, an end, a repetition."""
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


def measured(cases: list[PairCase], settings: Settings, llm: ScriptedLLM | None = None) -> dict[str, Any]:
    report = decisions.evaluate_cases([PairCases("made", tuple(cases))], settings, llm, HashEmbedder())
    return report.as_dict()


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pairs_of_facts_are_read_with_what_should_become_of_the_second(tmp_path: Path) -> None:
    cases = read(write(tmp_path, FACTS)).cases
    assert [(case.id, case.expected, case.is_message) for case in cases] == [
        ("1", "noop", False),
        ("2", "update", False),
        ("3", "add", False),
        ("4", "add", False),
    ]
    assert [case.known[0] for case in cases] == [row["a"] for row in FACTS]
    assert "We deploy with Fly.io" in cases[0].known[1:]


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    row = json.dumps({"a": "one\u2028two", "b": "three", "label": "related"}, ensure_ascii=False)
    assert [case.known[0] for case in read(write(tmp_path, [row])).cases] == ["one\u2028two"]


def test_pairs_of_messages_are_read_too_and_stand_alone(tmp_path: Path) -> None:
    cases = read(write(tmp_path, MESSAGES)).cases
    assert [(case.id, case.known, case.expected, case.is_message) for case in cases] == [
        ("region", ("We use tabs for indentation.",), "update", True),
        ("2", ("How are you?",), "update", True),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
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
def test_a_broken_line_is_named_with_what_is_wrong_and_what_to_give(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(write(tmp_path, [FACTS[0], line]))
    assert told in refused.value.message
    assert "Give " in refused.value.hint


def test_what_other_programs_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    first = b'\xef\xbb\xbf{"id": null, "a": "one \\ud83d line", "b": "zero\\u0000", "label": "related"}\r\n\r\n'
    path.write_bytes(first + '{"id": 2.0, "a": "one\u2028text", "b": "two", "label": "related"}'.encode())
    told = [(case.id, case.known[0], case.new) for case in read(path).cases]
    assert told == [("1", "one ? line", "zero"), ("2", "one\u2028text", "two")]


def test_a_file_that_is_not_there_or_holds_nothing_is_refused(tmp_path: Path) -> None:
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


def test_a_sample_is_always_the_same_and_has_of_every_sort() -> None:
    labels: tuple[Action, ...] = ("add", "update", "delete", "noop")
    cases = PairCases("made", tuple(PairCase(str(at), ("a",), "b", labels[at % 4]) for at in range(100)))
    small = draw_sample(cases, 40)
    assert small == draw_sample(cases, 40)
    assert len(small.cases) == 40
    assert {case.expected for case in small.cases} == {"add", "update", "delete", "noop"}
    assert draw_sample(small, 500) == small


# ── what became of it ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_rules_are_counted_by_what_they_did(tmp_path: Path, settings: Settings) -> None:
    report = decisions.evaluate([write(tmp_path, FACTS)], settings, embedder=HashEmbedder())
    told = report.as_dict()
    assert told["per_case"]["made"] == {"rules": {"1": "noop", "2": "update", "3": "add", "4": "add"}}
    found = told["sets"]["made"]
    assert (found["cases"], found["wanted"]) == (4, {"add": 2, "update": 1, "noop": 1})
    assert found["rules"]["macro_f1"]["value"] == 1.0
    assert found["rules"]["target_accuracy"]["value"] == 1.0
    assert [found["rules"][name]["value"] for name in ("lost_updates", "false_overwrites", "false_merges")] == [0, 0, 0]
    assert told["model"] is None
    assert "made" in report.text()
    assert report.page().count("\n## ") == len(report.tables)


def test_what_is_missed_is_a_lost_update_and_what_is_replaced_for_nothing_an_overwrite(settings: Settings) -> None:
    old = "The port of the web is 80"
    found = measured(
        [
            PairCase("lost", (old, "Ann owns billing"), "Somebody told me that 81 it shall be", "update"),
            PairCase("overwritten", (old, "Ann owns billing"), "The port of the web is now 82", "add"),
            PairCase("merged", (old,), "The port of the web is 80", "update"),
            PairCase("astray", ("Ann owns billing", old), "The port of the web is 83", "update"),
            PairCase("fine", (old, "Ann owns billing"), "The port of the web is now 84", "update"),
        ],
        settings,
    )
    given = found["per_case"]["made"]["rules"]
    assert given == {"lost": "add", "overwritten": "update", "merged": "noop", "astray": "update", "fine": "update"}
    rates = found["sets"]["made"]["rules"]
    assert rates["lost_updates"]["value"] == pytest.approx(3 / 4)
    assert rates["false_overwrites"]["value"] == pytest.approx(2 / 4)  # "merged" has nothing else to overwrite
    assert rates["false_merges"]["value"] == pytest.approx(1 / 5)
    assert rates["target_accuracy"]["value"] == pytest.approx(1 / 2)  # of "astray" and "fine"
    assert rates["matrix"]["update"] == {"add": 1, "update": 2, "noop": 1}


def test_a_withdrawal_is_one_also_where_a_line_stays_that_tells_of_it(settings: Settings) -> None:
    found = measured([PairCase("gone", ("We use Kafka for events",), "We no longer use Kafka", "delete")], settings)
    assert found["per_case"]["made"]["rules"] == {"gone": "delete"}
    assert found["sets"]["made"]["rules"]["lost_updates"]["value"] == 0.0


def test_messages_are_learned_from_one_after_the_other(tmp_path: Path, settings: Settings) -> None:
    report = decisions.evaluate([write(tmp_path, MESSAGES)], settings, embedder=HashEmbedder())
    told = report.as_dict()
    assert told["per_case"]["made"]["rules"] == {"region": "update", "2": "none"}
    rules = told["sets"]["made"]["rules"]
    assert rules["lost_updates"]["value"] == 0.5
    assert rules["false_overwrites"] is None
    assert told["per_case"]["made-as-facts"]["rules"]["region"] == "update"  # the decision alone, without the reading
    assert not told["duplicates"]


def test_a_model_decides_the_same_cases_and_the_difference_is_told(settings: Settings) -> None:
    def says(action: str, memory: str | None) -> str:
        return json.dumps({"decisions": [{"fact": "f1", "action": action, "memory": memory, "text": None}]})

    cases = [
        PairCase("news", ("The web listens on port 80",), "Since Monday the web is at 81", "update"),
        PairCase("kept", ("The web listens on port 80",), "The web needs a login", "add"),
    ]
    llm = ScriptedLLM([says("UPDATE", "m1"), says("DELETE", "m1")])
    found = measured(cases, settings, llm)
    assert found["per_case"]["made"] == {
        "rules": {"news": "add", "kept": "add"},
        "model": {"news": "update", "kept": "delete"},
    }
    assert found["model"] == {"provider": "scripted", "model": "script"}
    assert len(llm.calls) == 2  # it is asked what becomes of a fact, and never to read it
    ours = found["sets"]["made"]
    assert ours["difference"]["lost_updates"]["value"] == -1.0
    assert ours["difference"]["false_overwrites"]["value"] == 1.0
    assert ours["model"]["macro_f1"]["value"] == pytest.approx(0.5)
    assert ours["difference"]["macro_f1"]["value"] == pytest.approx(0.5 - 1 / 3)


def test_a_model_that_is_set_and_cannot_be_had_is_told(tmp_path: Path) -> None:
    broken = Settings.load({"home": tmp_path / "home"}, {"EXTRACT_PROVIDER": "oracle"})
    with pytest.raises(Misconfigured, match="oracle"):
        decisions.evaluate([write(tmp_path, FACTS)], broken, embedder=HashEmbedder())


def test_macro_f1_is_that_of_the_measures_and_its_interval_holds_it() -> None:
    wanted = ["add", "add", "update", "noop", "noop", "delete"]
    given = ["add", "noop", "update", "noop", "none", "update"]
    found = decisions.macro_f1s(wanted, given)
    assert found.value == pytest.approx(macro_f1(wanted, given))
    assert found.low <= found.value <= found.high
    against = decisions.macro_f1s(wanted, given, wanted)
    assert against.value == pytest.approx(macro_f1(wanted, given) - 1)
    assert decisions.macro_f1s(wanted, given, given).high == 0.0


# ── duplicates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_passes_for_a_duplicate_is_counted_in_every_way(tmp_path: Path, settings: Settings) -> None:
    rows = [
        {"a": "The repo uses pytest", "b": "the repository uses pytest", "label": "duplicate"},
        {"a": "Whales breathe air", "b": "Sea mammals need oxygen", "label": "duplicate"},
        {"a": "The port is 8080", "b": "The port is 9090", "label": "contradiction"},
        {"a": "The port is 8080", "b": "Tests are slow", "label": "unrelated"},
    ]
    report = decisions.evaluate([write(tmp_path, rows)], settings, embedder=HashEmbedder())
    found = report.as_dict()["duplicates"]["made"]
    for way in duplicates.WAYS:
        shares = {part: figure["value"] for part, figure in found["defaults"][way].items()}
        assert shares["leak"] == shares["others"] == 0.0
        assert shares["recall"] in (0.0, 0.5)
    assert found["recall_at_5_leak"]["cofio"]["value"] == 0.5
    plots = plot_duplicates(report.values["duplicates"])
    assert list(plots) == ["duplicates-made"]
    assert plots["duplicates-made"].startswith("<svg")


def test_the_bar_is_the_lowest_that_lets_too_few_contradictions_pass() -> None:
    same = np.array([0.9, 0.8, 0.7, 0.0])
    against = np.concatenate([np.array([0.85, 0.75]), np.zeros(18)])
    own, alone, gained = duplicates.at_leak((same, against), (same, np.full(20, 0.95)))
    assert own.value == 0.5  # one of twenty may pass: the bar is at 0.75
    assert alone.value == 0.0
    assert gained.value == 0.5
    assert own.low <= own.value <= own.high
    points = {point["threshold"]: point for point in duplicates.curve((same, against))}
    assert (points[0.8]["recall"], points[0.8]["leak"]) == (0.5, 0.05)


def test_sets_of_the_same_name_are_told_apart(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "other").mkdir()
    files = [write(tmp_path, FACTS[:1]), write(tmp_path / "other", FACTS[1:2])]
    report = decisions.evaluate(files, settings, embedder=HashEmbedder())
    assert list(report.as_dict()["sets"]) == ["made", "made 2"]
