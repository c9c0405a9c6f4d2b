"""The measure of recall itself: its cases, and how it counts. `python -m evals.recall` prints the tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cofio.core import Keeper
from cofio.evaluation import datasets
from cofio.models.memory import KINDS, Hit
from cofio.retrieval import recall
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from cofio.text.briefing import estimate_tokens, is_trivial
from evals import coding
from evals import recall as measure


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A keeper that holds the coding facts."""
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock) as keeper:
        keeper.add_all(measure.facts().facts, dedup=False)
        yield keeper


def test_the_cases_are_many_and_each_names_facts_that_are_there() -> None:
    assert len(coding.FACTS) >= 60
    assert len(coding.ASKED) >= 40
    assert len(coding.UNRELATED) >= 60
    assert {kind for kind, _ in coding.FACTS.values()} <= set(KINDS)
    for prompt, wanted in (*coding.ASKED, *coding.ASKED_AT_LENGTH):
        assert wanted, prompt
        assert set(wanted) <= coding.FACTS.keys(), prompt


def test_no_case_is_trivial_or_asked_in_parts() -> None:
    for case in (case for cases in measure.CODING.values() for case in cases):
        assert not is_trivial(case.prompt)
        assert recall.questions(case.prompt) == [case.prompt]


def test_what_is_put_in_at_a_bar_is_counted(keeper: Keeper) -> None:
    hits = keeper.search("stripe webhooks and redis memory", k=5)
    scored = tuple(
        Hit(memory=hit.memory, score=score, similarity=0.5, keyword=0.0, match_type="vector")
        for hit, score in zip(hits, (0.9, 0.8, 0.3, 0.2, 0.1), strict=True)
    )
    first, third = (str(scored[place].memory.metadata["unit"]) for place in (0, 2))
    found = measure.Found(frozenset({first, third}), scored)
    assert found.put_in(0.0)[:2] == (1.0, 5)
    assert found.put_in(0.5)[:2] == (0.5, 2)
    assert found.put_in(0.95) == (0.0, 0, 0)
    assert found.put_in(0.0)[2] > found.put_in(0.5)[2] > 0


def test_a_higher_bar_never_puts_more_in(keeper: Keeper) -> None:
    found = {name: [measure.ask(keeper, case) for case in cases[:8]] for name, cases in measure.CODING.items()}
    rows = measure.measured(found)
    assert len(rows) == len(measure.CODING) * len(measure.BARS)
    assert {row["set"] for row in rows if row["answered"]} == {"coding prompts", "coding prompts, at length"}
    for name in measure.CODING:
        mine = [row for row in rows if row["set"] == name]
        for what in ("share", "lines", "tokens", "any"):
            values = [row[what] for row in mine]
            assert values == sorted(values, reverse=True), (name, what)  # type: ignore[type-var]


def test_the_tables_are_printed(keeper: Keeper, capsys: pytest.CaptureFixture[str]) -> None:
    measure.show(measure.measured({"some": [measure.ask(keeper, measure.Case("redis memory", frozenset({"redis"})))]}))
    said = capsys.readouterr().out
    assert "100 / 5.0" in said
    assert said.splitlines()[1].split()[1:] == [f"{bar:.2f}" for bar in measure.BARS]


def test_only_questions_with_an_answer_are_asked_of_a_conversation() -> None:
    made = [("a", "fact", {"u1"}), ("b", "adversarial", {"u1"}), ("c", "fact", set())]
    asked = tuple(datasets.Question("", text, category, frozenset(evidence)) for text, category, evidence in made)
    assert measure.questions(datasets.Conversation("x", (), asked)) == [measure.Case("a", frozenset({"u1"}))]


@pytest.mark.parametrize("what", [what for what, paste in measure.pastes().items() if paste])
def test_recall_asks_the_question_beside_any_paste(what: str) -> None:
    paste = measure.pastes()[what]
    assert len(paste) > 10_000
    for arranged in measure.ARRANGED.values():
        asked = recall.questions(arranged.format(question="why is the queue so slow", paste=paste))
        assert "why is the queue so slow" in asked
        assert sum(map(estimate_tokens, asked)) < 150


def test_a_missing_file_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["recall", "/nowhere/at/all.jsonl"])
    assert measure.main() == 2
    assert "There is no /nowhere/at/all.jsonl" in capsys.readouterr().err
