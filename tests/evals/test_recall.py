"""The recall evaluation: its cases and its counting. `python -m evals.recall` prints the tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cofio.core import Keeper
from cofio.models.memory import KINDS, Hit
from cofio.retrieval import recall
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from cofio.text.briefing import estimate_tokens, is_trivial
from cofio_eval import datasets
from evals import coding
from evals import recall as measure


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """Return a keeper with the coding facts."""
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock) as keeper:
        keeper.add_all(measure.facts().facts, dedup=False)
        yield keeper


def test_there_are_enough_cases_and_their_facts_exist() -> None:
    assert len(coding.FACTS) >= 60
    assert len(coding.ASKED) >= 40
    assert len(coding.UNRELATED) >= 60
    assert {kind for kind, _ in coding.FACTS.values()} <= set(KINDS)
    for prompt, expected in (*coding.ASKED, *coding.ASKED_AT_LENGTH):
        assert expected, prompt
        assert set(expected) <= coding.FACTS.keys(), prompt


def test_no_case_is_trivial_or_split_into_questions() -> None:
    for case in (case for cases in measure.CODING.values() for case in cases):
        assert not is_trivial(case.prompt)
        assert recall.questions(case.prompt) == [case.prompt]


def test_injected_memories_are_counted_at_a_threshold(keeper: Keeper) -> None:
    hits = keeper.search("stripe webhooks and redis memory", k=5)
    scored = tuple(
        Hit(memory=hit.memory, score=score, similarity=0.5, keyword=0.0, match_type="vector")
        for hit, score in zip(hits, (0.9, 0.8, 0.3, 0.2, 0.1), strict=True)
    )
    first, third = (str(scored[index].memory.metadata["unit"]) for index in (0, 2))
    result = measure.CaseHits(frozenset({first, third}), scored)
    assert result.measure_injection(0.0)[:2] == (1.0, 5)
    assert result.measure_injection(0.5)[:2] == (0.5, 2)
    assert result.measure_injection(0.95) == (0.0, 0, 0)
    assert result.measure_injection(0.0)[2] > result.measure_injection(0.5)[2] > 0


def test_higher_threshold_injects_no_more(keeper: Keeper) -> None:
    results = {name: [measure.ask(keeper, case) for case in cases[:8]] for name, cases in measure.CODING.items()}
    rows = measure.compute_table(results)
    assert len(rows) == len(measure.CODING) * len(measure.MIN_SCORES)
    assert {row["set"] for row in rows if row["answered"]} == {"coding prompts", "coding prompts, at length"}
    for name in measure.CODING:
        rows_of_set = [row for row in rows if row["set"] == name]
        for field in ("share", "lines", "tokens", "any"):
            values = [row[field] for row in rows_of_set]
            assert values == sorted(values, reverse=True), (name, field)  # type: ignore[type-var]


def test_tables_are_printed(keeper: Keeper, capsys: pytest.CaptureFixture[str]) -> None:
    measure.show(
        measure.compute_table({"some": [measure.ask(keeper, measure.Case("redis memory", frozenset({"redis"})))]})
    )
    output = capsys.readouterr().out
    assert "100 / 5.0" in output
    assert output.splitlines()[1].split()[1:] == [f"{bar:.2f}" for bar in measure.MIN_SCORES]


def test_only_answerable_questions_of_a_conversation_are_used() -> None:
    labelled = [("a", "fact", {"u1"}), ("b", "adversarial", {"u1"}), ("c", "fact", set())]
    questions = tuple(
        datasets.Question("", text, category, frozenset(evidence)) for text, category, evidence in labelled
    )
    assert measure.questions(datasets.Conversation("x", (), questions)) == [measure.Case("a", frozenset({"u1"}))]


@pytest.mark.parametrize("kind", [what for what, paste in measure.pastes().items() if paste])
def test_recall_extracts_the_question_next_to_any_paste(kind: str) -> None:
    paste = measure.pastes()[kind]
    assert len(paste) > 10_000
    for template in measure.PROMPT_TEMPLATES.values():
        questions = recall.questions(template.format(question="why is the queue so slow", paste=paste))
        assert "why is the queue so slow" in questions
        assert sum(map(estimate_tokens, questions)) < 150


def test_missing_file_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["recall", "/nowhere/at/all.jsonl"])
    assert measure.main() == 2
    assert "There is no /nowhere/at/all.jsonl" in capsys.readouterr().err
