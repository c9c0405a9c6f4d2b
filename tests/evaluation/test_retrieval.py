"""What is found of the evidence, in how few tokens, how soon, and what is given for nothing: by hand and in full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from math import log2
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import pytest

from cofio.errors import InvalidInput
from cofio.evaluation import retrieval, runner
from cofio.evaluation.datasets import Question, read, remembered
from cofio.evaluation.embedders import CachingEmbedder
from cofio.evaluation.metrics import ndcg
from cofio.evaluation.report import Report
from cofio.evaluation.runner import BUDGETS, MEASURES, ConversationRunner
from cofio.models.memory import Hit, Memory
from cofio.ports import Matrix
from cofio.retrieval import recall
from cofio.testing import HashEmbedder
from cofio.text.briefing import PROMPT
from evals import retrieval as evals

FERRY = ("The ferry to the island leaves at six", "Ada")
DOG = ("My dog is called Rufus", "Bob")
BICYCLE = ("I bought a red bicycle in Utrecht", "Ada")
FRIDAY = ("We never deploy on a Friday", "Bob")
WHALES = ("Whales breathe air and nurse their young", "")


def conversation(name: str, said: Sequence[tuple[str, str]], questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    units = [
        {"id": f"u{place}", "text": text, "speaker": speaker, "date": "2026-03-01"}
        for place, (text, speaker) in enumerate(said)
    ]
    return {"id": name, "units": units, "questions": questions}


def asks(name: str, text: str, evidence: Sequence[str], category: str = "plain") -> dict[str, Any]:
    return {"id": name, "text": text, "category": category, "evidence": list(evidence)}


TALK = conversation(
    "talk",
    [FERRY, DOG, BICYCLE, FRIDAY],
    [
        asks("dog", "What is the dog called?", ["u1"]),
        asks("half", "When does the ferry to the island leave?", ["u0", "nowhere"], "many"),
        asks("lost", "Who bought a red bicycle in Utrecht?", ["nowhere"], "many"),
        asks("cat", "What is the cat called?", ["u1"], "adversarial"),
        asks("why", "Why?", []),
        asks("", " ", ["u1"]),
    ],
)
SEA = conversation("sea", [WHALES, FERRY], [asks("air", "What do whales breathe?", ["u0"])])


def write(tmp_path: Path, *conversations: dict[str, Any], name: str = "made.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, conversations)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("retrieval"), TALK, SEA)


@pytest.fixture(scope="module")
def report(file: Path) -> Report:
    return retrieval.evaluate(file, embedder=HashEmbedder())


@pytest.fixture(scope="module")
def told(report: Report) -> dict[str, Any]:
    return report.as_dict()


def hit(number: int, unit: str = "u", keyword: float = 0.0) -> Hit:
    at = "2026-03-01T00:00:00.000000+00:00"
    memory = Memory(id=number, text="said", created_at=at, updated_at=at, metadata={"unit": unit})
    return Hit(memory=memory, score=0.5, similarity=0.5, keyword=keyword, match_type="hybrid")


class Counted(HashEmbedder):
    """Counts how often it embeds each question."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: Counter[str] = Counter()

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if kind == "query":
            self.questions.update(texts)
        return super().embed(texts, kind)


# ── the headline ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_measures_are_the_means_over_the_questions_that_have_an_answer(told: dict[str, Any]) -> None:
    assert told["per_question"] == {"talk/dog": 1.0, "talk/half": 0.5, "talk/lost": 0.0, "sea/air": 1.0}
    assert told["questions"] == 4
    assert (told["r@5"], told["r@10"], told["r@20"]) == (0.625, 0.625, 0.625)
    half = 1 / (1 + 1 / log2(3))  # the first of two
    assert told["ndcg@10"] == pytest.approx((1 + half + 0 + 1) / 4)


def test_by_category_they_are_those_of_its_questions_and_together_the_headline(told: dict[str, Any]) -> None:
    assert told["by_category"].keys() == {"plain", "many"}
    assert {name: each["r@10"] for name, each in told["by_category"].items()} == {"plain": 1.0, "many": 0.25}
    for measure in MEASURES:
        weighted = sum(each[measure] * each["questions"] for each in told["by_category"].values())
        assert weighted / told["questions"] == pytest.approx(told[measure])


def test_every_measure_has_an_interval_that_holds_it(told: dict[str, Any]) -> None:
    for measure in MEASURES:
        low, high = told["intervals"][measure]
        assert 0.0 <= low < told[measure] < high <= 1.0
        low, high = told["intervals"]["by_category"]["plain"][measure]
        assert (low, high) == (1.0, 1.0)


def test_what_is_left_out_and_what_is_odd_is_counted(told: dict[str, Any], report: Report) -> None:
    assert told["left_out"] == {"adversarial": 1, "abstention": 0, "without_evidence": 1, "without_words": 1}
    assert told["odd"] == {"unknown_evidence": 2, "shared_unit_ids": 0, "undated_units": 0}
    text = report.text()
    assert "Not among them: 1 adversarial, 1 without evidence, 1 without words." in text
    assert "Evidence that names an unknown unit: 2 times." in text


def test_a_second_run_finds_the_same(told: dict[str, Any], file: Path) -> None:
    again = retrieval.evaluate(file, embedder=HashEmbedder()).as_dict()
    for name in (*MEASURES, "by_category", "intervals", "evidence_within", "abstention", "per_question"):
        assert again[name] == told[name]


def test_the_figures_are_those_of_a_search_for_ten_and_for_twenty(tmp_path: Path) -> None:
    """Beside a plain loop over keeper.search, on a conversation in which not everything is found."""
    words = "tide rope mast sail keel deck helm crew port reef gale buoy".split()
    said = [(f"{a} {b} and {c}", "") for a in words[:6] for b in words[4:9] for c in words[8:]]
    questions = [asks(f"q{n}", f"{words[n]} or {words[-n - 1]}?", [f"u{n * 7}", f"u{n * 5 + 60}"]) for n in range(10)]
    path = write(tmp_path, conversation("boat", said, questions))
    found = retrieval.measure(path, embedder=HashEmbedder())
    read_back = read(path)[0]
    with remembered(read_back, embedder=HashEmbedder()) as keeper:
        for question, asked in zip(read_back.questions, found.results, strict=True):
            for k, first in ((5, 10), (10, 10), (20, 20)):
                hits = keeper.search(question.text, k=first)[:k]
                units = {str(hit.memory.metadata["unit"]) for hit in hits}
                share = len(units & question.evidence) / len(question.evidence)
                assert asked.answers["default"].scores[f"r@{k}"] == share
    assert 0.0 < mean(found.values("r@10")) < 1.0
    assert mean(found.values("r@5")) < mean(found.values("r@20"))


# ── the modes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_vectors_and_words_alone_stand_beside_the_default_with_the_paired_difference(told: dict[str, Any]) -> None:
    assert list(told["modes"]) == ["default", "vectors alone", "words alone"]
    assert told["mode"] == "default"
    assert {name: told["modes"]["default"][name] for name in MEASURES} == {name: told[name] for name in MEASURES}
    for each in told["modes"].values():
        for measure in MEASURES:
            assert each["to_default"][measure]["value"] == pytest.approx(each[measure] - told[measure])


def test_words_alone_find_what_holds_the_words_and_vectors_alone_what_is_near(tmp_path: Path) -> None:
    talk = conversation("t", [DOG, FERRY], [asks("q", "zebra ferry", ["u0"])])
    found = retrieval.measure(write(tmp_path, talk), embedder=HashEmbedder()).results[0].answers
    assert found["words alone"].scores["r@10"] == 0.0  # no word of it is in there
    assert found["words alone"].seconds is None
    with remembered(read(tmp_path / "made.jsonl")[0], embedder=HashEmbedder()) as keeper:
        near = {hit.memory.metadata["unit"]: hit.similarity for hit in keeper.search("zebra ferry", k=2)}
    assert found["vectors alone"].scores["r@10"] == float(near["u0"] > 0)


def test_hits_are_ordered_by_one_score_alone() -> None:
    hits = [hit(1, keyword=0.2), hit(2), hit(3, keyword=0.7), hit(4, keyword=0.2)]
    assert [each.id for each in runner.ranked(hits, lambda each: each.keyword)] == [3, 4, 1]


def test_a_mode_is_what_search_is_told() -> None:
    assert (runner.DEFAULT.options, runner.VECTORS.options, runner.NO_RERANK.options) == (
        {},
        {"hybrid": False},
        {"rerank": False},
    )


# ── the time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_time_that_is_measured_counts_the_embedding_of_the_question(file: Path) -> None:
    embedder = Counted()
    told = retrieval.evaluate(file, embedder=embedder).as_dict()
    assert told["p95_ms"] >= told["p50_ms"] > 0
    assert told["modes"]["vectors alone"]["p50_ms"] > 0
    assert told["modes"]["words alone"]["p50_ms"] is None
    # timed in two modes, and once more by the other conversation; everything else is asked with a vector that is kept
    assert embedder.questions["What is the dog called?"] == 3
    assert embedder.questions["What is the cat called?"] == 1


def test_a_question_that_is_asked_twice_is_embedded_twice(tmp_path: Path) -> None:
    twice = [asks(name, "What is the dog called?", ["u1"]) for name in ("one", "two")]
    embedder = Counted()
    retrieval.evaluate(write(tmp_path, conversation("t", [FERRY, DOG], twice)), embedder=embedder)
    assert embedder.questions["What is the dog called?"] == 4


def test_an_embedder_is_asked_again_once_it_has_to_forget() -> None:
    inner = Counted()
    embedder = CachingEmbedder(inner, 8, kinds=("query",))
    for _ in range(3):
        embedder.embed(["a ferry"], "query")
    assert inner.questions["a ferry"] == 1
    embedder.forget()
    assert (embedder.embed(["a ferry"], "query") == inner.embed(["a ferry"], "query")).all()
    assert inner.questions["a ferry"] == 3
    assert (embedder.signature, embedder.dimension, embedder.floor) == (inner.signature, inner.dimension, inner.floor)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_are_those_of_the_block_that_recall_would_write(tmp_path: Path) -> None:
    said = [(f"Boat {number} is {'very ' * (number * 9)}old", "Ada" if number % 2 else "") for number in range(9)]
    path = write(tmp_path, conversation("boats", [*said, said[3]], [asks("q", "Which boat is very old?", ["u0"])]))
    embedder = CachingEmbedder(HashEmbedder(), 8, kinds=("query",))
    with remembered(read(path)[0], embedder=embedder) as keeper:
        hits = keeper.search("Which boat is very old?", k=10)
        spent = list(ConversationRunner(keeper, embedder)._add_costs(hits))
        for lines in range(1, 11):
            written = recall.build_briefing(
                recall.take_first(recall.not_yet_given([hit.memory for hit in hits[:lines]], {}), lines), PROMPT
            )
            assert spent[lines - 1][0] + runner.FRAME == written.tokens
    assert len({cost for cost, _ in spent}) == 9  # the same words are put in once


def test_evidence_counts_within_a_budget_once_its_line_fits(tmp_path: Path) -> None:
    said = [("The harbour " + "and the old lighthouse at the end of the pier " * 16, "")] * 3
    said = [(f"{text} {number}", "") for number, (text, _) in enumerate(said)]
    questions = [asks("q", "harbour lighthouse pier", ["u0", "u1", "u2", "nowhere"])]
    told = retrieval.evaluate(write(tmp_path, conversation("t", said, questions)), embedder=HashEmbedder()).as_dict()
    shares = {budget: each["value"] for budget, each in told["evidence_within"].items()}
    assert shares == {"256": 0.25, "512": 0.5, "1024": 0.75, "2048": 0.75}  # a long line weighs just under 240 tokens
    assert list(shares) == [str(budget) for budget in BUDGETS]


def test_what_is_within_a_larger_budget_is_never_less(told: dict[str, Any]) -> None:
    for mode in told["modes"].values():
        shares = [mode["evidence_within"][str(budget)]["value"] for budget in BUDGETS]
        assert shares == sorted(shares)


# ── what is given for nothing ─────────────────────────────────────────────────────────────────────────────────────────


def test_recall_is_asked_what_has_no_answer_and_what_another_conversation_answers(file: Path, report: Report) -> None:
    told = report.as_dict()["abstention"]
    assert [told[sort]["questions"] for sort in ("answerable", "unanswerable", "foreign")] == [4, 1, 4]
    talk, sea = read(file)
    with remembered(talk, embedder=HashEmbedder()) as keeper:
        own = [keeper.recall(question.text).tokens for question in talk.questions if question.has_answer]
        cat = keeper.recall("What is the cat called?").tokens
        foreign = [keeper.recall(sea.questions[0].text).tokens]
    with remembered(sea, embedder=HashEmbedder()) as keeper:
        foreign += [keeper.recall(question.text).tokens for question in talk.questions if question.has_answer]
        own.append(keeper.recall(sea.questions[0].text).tokens)
    assert told["answerable"]["tokens"]["value"] == pytest.approx(mean(own))
    assert told["unanswerable"]["tokens"]["value"] == cat
    assert told["foreign"]["tokens"]["value"] == pytest.approx(mean(foreign))
    assert told["foreign"]["given_anything"]["value"] == pytest.approx(mean(each > 0 for each in foreign))
    assert any(foreign)  # the ferry is in both


def test_the_best_score_tells_questions_with_an_answer_from_others(told: dict[str, Any]) -> None:
    assert 0.5 < told["abstention"]["foreign"]["auroc"]["value"] <= 1.0
    assert told["abstention"]["unanswerable"]["auroc"].keys() == {"value", "low", "high"}


def test_a_single_conversation_has_no_foreign_questions(tmp_path: Path) -> None:
    report = retrieval.evaluate(write(tmp_path, SEA), embedder=HashEmbedder())
    told = report.as_dict()["abstention"]
    assert (told["foreign"]["questions"], told["foreign"]["auroc"], told["unanswerable"]["auroc"]) == (0, None, None)
    assert "questions of another conversation" not in report.text()


# ── odd data ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_unit_id_that_several_share_counts_once_whichever_is_found(tmp_path: Path) -> None:
    talk = conversation("t", [DOG, DOG, FERRY], [asks("q", "What is the dog called?", ["u0"])])
    talk["units"][1]["id"] = "u0"
    told = retrieval.evaluate(write(tmp_path, talk), embedder=HashEmbedder()).as_dict()
    assert (told["r@5"], told["ndcg@10"], told["odd"]["shared_unit_ids"]) == (1.0, 1.0, 1)


def test_a_repeated_unit_keeps_its_place_and_gains_nothing() -> None:
    found = runner.units([hit(1, "a"), hit(2, "a"), hit(3, "b")])
    assert found == ["a", "", "b"]
    best = 1 + 1 / log2(3)
    assert ndcg(found, {"a", "b"}, 10) == pytest.approx((1 + 1 / log2(4)) / best)


def test_a_conversation_without_units_finds_nothing(tmp_path: Path) -> None:
    empty = {"id": "empty", "units": [], "questions": [asks("q", "Anything?", ["u0"])]}
    told = retrieval.evaluate(write(tmp_path, SEA, empty), embedder=HashEmbedder()).as_dict()
    assert told["per_question"] == {"sea/air": 1.0, "empty/q": 0.0}


def test_long_units_and_thousands_of_them_are_measured(tmp_path: Path) -> None:
    said = [
        (f"Entry {number} of the log: {'all quiet, ' * (1 + number % 4)}no ship in sight", "")
        for number in range(1_500)
    ]
    said[1_234] = ("The lighthouse keeper found an albatross. " + "It was tired and wet. " * 2_000, "keeper")
    path = write(tmp_path, conversation("log", said, [asks("q", "Who found an albatross?", ["u1234"])]))
    told = retrieval.evaluate(path, embedder=HashEmbedder(32)).as_dict()
    assert (told["r@5"], told["units"]) == (1.0, 1_500)
    assert told["evidence_within"]["512"]["value"] == 1.0


def test_a_file_in_which_nothing_can_be_found_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No question of .* has an answer"):
        retrieval.evaluate(write(tmp_path, conversation("t", [DOG], [asks("q", "Dog?", [])])), embedder=HashEmbedder())
    left = conversation("t", [DOG], [asks("q", "Dog?", ["u0"], "abstention")])
    with pytest.raises(InvalidInput, match=r"No question of .* has an answer"):
        retrieval.evaluate(write(tmp_path, left), embedder=HashEmbedder())
    with pytest.raises(InvalidInput, match=r"No evidence of .* names a unit"):
        retrieval.evaluate(
            write(tmp_path, conversation("t", [DOG], [asks("q", "Dog?", ["D1"])])), embedder=HashEmbedder()
        )


# ── a sample, progress, the report ────────────────────────────────────────────────────────────────────────────────────


def test_a_sample_is_so_many_questions_and_always_the_same(tmp_path: Path) -> None:
    talks = [
        conversation(
            f"c{number}",
            [FERRY, DOG],
            [asks(f"q{n}", f"What is the dog called, {n}?", ["u1"]) for n in range(6)]
            + [asks("none", "What is the cat called?", [], "abstention")],
        )
        for number in range(4)
    ]
    path = write(tmp_path, *talks)
    report = retrieval.evaluate(path, limit=8, embedder=HashEmbedder())
    assert "8 questions with an answer, a sample." in report.text()
    assert len(report.values["per_question"]) == 8
    assert report.values["abstention"]["unanswerable"]["questions"] == 1  # a third of four
    drawn = [
        {
            f"{each.id}/{one.id}"
            for each in retrieval.draw_sample(read(path), 8)
            for one in each.questions
            if one.has_answer
        }
        for _ in range(2)
    ]
    assert drawn == [set(report.values["per_question"])] * 2
    assert sum(len(each.questions) for each in retrieval.draw_sample(read(path), 999)) == 28
    with pytest.raises(InvalidInput, match="limit is 0"):
        retrieval.evaluate(path, limit=0, embedder=HashEmbedder())


def test_conversations_of_which_nothing_is_asked_are_not_embedded(tmp_path: Path) -> None:
    path = write(tmp_path, TALK, SEA)
    told = retrieval.evaluate(path, limit=1, embedder=HashEmbedder()).as_dict()
    assert (told["conversations"], told["questions"]) == (1, 1)


def test_progress_is_told_to_the_end_and_never_backwards(file: Path) -> None:
    steps: list[tuple[int, int]] = []
    retrieval.evaluate(file, embedder=HashEmbedder(), progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1] == (6 + 5 + 4, 6 + 5 + 4)  # units, own questions, those of the other


def test_the_report_is_written_with_its_tables(report: Report, file: Path, tmp_path: Path) -> None:
    written = {path.name for path in report.write(tmp_path / "out")}
    assert written == {"retrieval.json", "retrieval.md"}
    assert [table.title for table in report.tables] == [
        "Found",
        "By category: default",
        "Evidence within tokens",
        "Given unasked",
    ]
    assert str(file.parent) not in report.page()  # the folders of this machine are nobody's business


def test_several_files_make_one_page_that_says_which_was_tuned_on(file: Path, tmp_path: Path) -> None:
    dev = write(tmp_path, SEA, name="sea-dev.jsonl")
    report = evals.evaluate([dev, file], embedder=HashEmbedder())
    told, page = report.as_dict(), report.page()
    assert report.plots.keys() == {"retrieval-tokens", "retrieval-time"}
    assert told["files"].keys() == {"sea-dev.jsonl", "made.jsonl"}
    assert told["per_question"] == told["files"]["sea-dev.jsonl"]["per_question"] == {"sea/air": 1.0}
    assert "sea-dev.jsonl is the development file" in page
    assert "Nothing was chosen on made.jsonl." in page
    assert "## made.jsonl: Found" in page
    assert "files" not in evals.evaluate([dev], embedder=HashEmbedder()).as_dict()


def test_a_missing_file_ends_the_command_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evals.main([str(tmp_path / "none.jsonl")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_question_is_asked_as_it_is() -> None:
    assert Question("q", "Why?", "plain", frozenset()).has_answer is False
    assert Question("q", "Why?", "plain", frozenset({"u"})).has_answer is True
    assert Question("q", "Why?", "Abstention", frozenset({"u"})).has_answer is False
