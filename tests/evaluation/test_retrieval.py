"""The retrieval evaluation: recall, tokens, latency and false injections, by hand and end to end."""

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
from cofio.models.memory import Hit, Memory
from cofio.ports import Matrix
from cofio.retrieval import recall
from cofio.testing import HashEmbedder
from cofio.text.briefing import PROMPT
from cofio_eval import retrieval, runner
from cofio_eval.datasets import Question, read, remembered
from cofio_eval.embedders import CachingEmbedder
from cofio_eval.metrics import ndcg
from cofio_eval.report import Report
from cofio_eval.runner import BUDGETS, MEASURES, ConversationRunner
from evals import retrieval as evals

FERRY = ("The ferry to the island leaves at six", "Ada")
DOG = ("My dog is called Rufus", "Bob")
BICYCLE = ("I bought a red bicycle in Utrecht", "Ada")
FRIDAY = ("We never deploy on a Friday", "Bob")
WHALES = ("Whales breathe air and nurse their young", "")


def make_conversation(
    name: str, messages: Sequence[tuple[str, str]], questions: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    units = [
        {"id": f"u{number}", "text": text, "speaker": speaker, "date": "2026-03-01"}
        for number, (text, speaker) in enumerate(messages)
    ]
    return {"id": name, "units": units, "questions": questions}


def make_question(name: str, text: str, evidence: Sequence[str], category: str = "plain") -> dict[str, Any]:
    return {"id": name, "text": text, "category": category, "evidence": list(evidence)}


TALK = make_conversation(
    "talk",
    [FERRY, DOG, BICYCLE, FRIDAY],
    [
        make_question("dog", "What is the dog called?", ["u1"]),
        make_question("half", "When does the ferry to the island leave?", ["u0", "nowhere"], "many"),
        make_question("lost", "Who bought a red bicycle in Utrecht?", ["nowhere"], "many"),
        make_question("cat", "What is the cat called?", ["u1"], "adversarial"),
        make_question("why", "Why?", []),
        make_question("", " ", ["u1"]),
    ],
)
SEA = make_conversation("sea", [WHALES, FERRY], [make_question("air", "What do whales breathe?", ["u0"])])


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
def values(report: Report) -> dict[str, Any]:
    return report.as_dict()


def make_hit(number: int, unit: str = "u", keyword: float = 0.0) -> Hit:
    timestamp = "2026-03-01T00:00:00.000000+00:00"
    memory = Memory(id=number, text="said", created_at=timestamp, updated_at=timestamp, metadata={"unit": unit})
    return Hit(memory=memory, score=0.5, similarity=0.5, keyword=keyword, match_type="hybrid")


class CountingEmbedder(HashEmbedder):
    """Count how often each question is embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: Counter[str] = Counter()

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        if kind == "query":
            self.questions.update(texts)
        return super().embed(texts, kind)


# ── Headline figures ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_are_means_over_answerable_questions(values: dict[str, Any]) -> None:
    assert values["per_question"] == {"talk/dog": 1.0, "talk/half": 0.5, "talk/lost": 0.0, "sea/air": 1.0}
    assert values["questions"] == 4
    assert (values["r@5"], values["r@10"], values["r@20"]) == (0.625, 0.625, 0.625)
    half_ndcg = 1 / (1 + 1 / log2(3))  # the first of two
    assert values["ndcg@10"] == pytest.approx((1 + half_ndcg + 0 + 1) / 4)


def test_figures_by_category_add_up_to_the_headline(values: dict[str, Any]) -> None:
    assert values["by_category"].keys() == {"plain", "many"}
    assert {name: figures["r@10"] for name, figures in values["by_category"].items()} == {"plain": 1.0, "many": 0.25}
    for measure in MEASURES:
        weighted = sum(figures[measure] * figures["questions"] for figures in values["by_category"].values())
        assert weighted / values["questions"] == pytest.approx(values[measure])


def test_every_figure_lies_in_its_interval(values: dict[str, Any]) -> None:
    for measure in MEASURES:
        low, high = values["intervals"][measure]
        assert 0.0 <= low < values[measure] < high <= 1.0
        low, high = values["intervals"]["by_category"]["plain"][measure]
        assert (low, high) == (1.0, 1.0)


def test_skipped_questions_and_anomalies_are_counted(values: dict[str, Any], report: Report) -> None:
    assert values["left_out"] == {"adversarial": 1, "abstention": 0, "without_evidence": 1, "without_words": 1}
    assert values["odd"] == {"unknown_evidence": 2, "shared_unit_ids": 0, "undated_units": 0}
    text = report.text()
    assert "Excluded: 1 adversarial, 1 without evidence, 1 without words." in text
    assert "Evidence that names an unknown unit: 2 times." in text


def test_second_run_gives_the_same_figures(values: dict[str, Any], file: Path) -> None:
    second = retrieval.evaluate(file, embedder=HashEmbedder()).as_dict()
    for name in (*MEASURES, "by_category", "intervals", "evidence_within", "abstention", "per_question"):
        assert second[name] == values[name]


def test_figures_match_a_plain_search_loop(tmp_path: Path) -> None:
    """Compare with a loop over keeper.search, on a conversation with imperfect recall."""
    words = "tide rope mast sail keel deck helm crew port reef gale buoy".split()
    messages = [
        (f"{first} {second} and {third}", "") for first in words[:6] for second in words[4:9] for third in words[8:]
    ]
    questions = [
        make_question(f"q{n}", f"{words[n]} or {words[-n - 1]}?", [f"u{n * 7}", f"u{n * 5 + 60}"]) for n in range(10)
    ]
    path = write(tmp_path, make_conversation("boat", messages, questions))
    measurement = retrieval.measure(path, embedder=HashEmbedder())
    read_back = read(path)[0]
    with remembered(read_back, embedder=HashEmbedder()) as keeper:
        for question, answers in zip(read_back.questions, measurement.results, strict=True):
            for k, limit in ((5, 10), (10, 10), (20, 20)):
                hits = keeper.search(question.text, k=limit)[:k]
                units = {str(hit.memory.metadata["unit"]) for hit in hits}
                share = len(units & question.evidence) / len(question.evidence)
                assert answers.answers["default"].scores[f"r@{k}"] == share
    assert 0.0 < mean(measurement.values("r@10")) < 1.0
    assert mean(measurement.values("r@5")) < mean(measurement.values("r@20"))


# ── Modes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_modes_are_reported_with_the_paired_difference(values: dict[str, Any]) -> None:
    assert list(values["modes"]) == ["default", "vectors only", "keywords only"]
    assert values["mode"] == "default"
    assert {name: values["modes"]["default"][name] for name in MEASURES} == {name: values[name] for name in MEASURES}
    for mode in values["modes"].values():
        for measure in MEASURES:
            assert mode["to_default"][measure]["value"] == pytest.approx(mode[measure] - values[measure])


def test_keyword_mode_finds_words_and_vector_mode_finds_neighbours(tmp_path: Path) -> None:
    conversation = make_conversation("t", [DOG, FERRY], [make_question("q", "zebra ferry", ["u0"])])
    answers = retrieval.measure(write(tmp_path, conversation), embedder=HashEmbedder()).results[0].answers
    assert answers["keywords only"].scores["r@10"] == 0.0  # it contains none of the words
    assert answers["keywords only"].seconds is None
    with remembered(read(tmp_path / "made.jsonl")[0], embedder=HashEmbedder()) as keeper:
        similarities = {hit.memory.metadata["unit"]: hit.similarity for hit in keeper.search("zebra ferry", k=2)}
    assert answers["vectors only"].scores["r@10"] == float(similarities["u0"] > 0)


def test_hits_are_ordered_by_a_single_score() -> None:
    hits = [make_hit(1, keyword=0.2), make_hit(2), make_hit(3, keyword=0.7), make_hit(4, keyword=0.2)]
    assert [candidate.id for candidate in runner.ranked(hits, lambda candidate: candidate.keyword)] == [3, 4, 1]


def test_mode_is_a_set_of_search_options() -> None:
    assert (runner.DEFAULT.options, runner.VECTORS.options, runner.NO_RERANK.options) == (
        {},
        {"hybrid": False},
        {"rerank": False},
    )


# ── Latency ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_measured_times_include_embedding_the_question(file: Path) -> None:
    embedder = CountingEmbedder()
    values = retrieval.evaluate(file, embedder=embedder).as_dict()
    assert values["p95_ms"] >= values["p50_ms"] > 0
    assert values["modes"]["vectors only"]["p50_ms"] > 0
    assert values["modes"]["keywords only"]["p50_ms"] is None
    # measured in two modes, and once by the other conversation; everything else uses a cached vector
    assert embedder.questions["What is the dog called?"] == 3
    assert embedder.questions["What is the cat called?"] == 1


def test_repeated_question_is_embedded_again(tmp_path: Path) -> None:
    questions = [make_question(name, "What is the dog called?", ["u1"]) for name in ("one", "two")]
    embedder = CountingEmbedder()
    retrieval.evaluate(write(tmp_path, make_conversation("t", [FERRY, DOG], questions)), embedder=embedder)
    assert embedder.questions["What is the dog called?"] == 4


def test_uncached_embedder_forgets() -> None:
    counting = CountingEmbedder()
    embedder = CachingEmbedder(counting, 8, kinds=("query",))
    for _ in range(3):
        embedder.embed(["a ferry"], "query")
    assert counting.questions["a ferry"] == 1
    embedder.forget()
    assert (embedder.embed(["a ferry"], "query") == counting.embed(["a ferry"], "query")).all()
    assert counting.questions["a ferry"] == 3
    assert (embedder.signature, embedder.dimension, embedder.floor) == (
        counting.signature,
        counting.dimension,
        counting.floor,
    )


# ── Tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_token_costs_match_the_recall_block(tmp_path: Path) -> None:
    messages = [(f"Boat {number} is {'very ' * (number * 9)}old", "Ada" if number % 2 else "") for number in range(9)]
    path = write(
        tmp_path,
        make_conversation("boats", [*messages, messages[3]], [make_question("q", "Which boat is very old?", ["u0"])]),
    )
    embedder = CachingEmbedder(HashEmbedder(), 8, kinds=("query",))
    with remembered(read(path)[0], embedder=embedder) as keeper:
        hits = keeper.search("Which boat is very old?", k=10)
        costs = list(ConversationRunner(keeper, embedder)._add_costs(hits))
        for lines in range(1, 11):
            block = recall.build_briefing(
                recall.take_first(recall.distinct([hit.memory for hit in hits[:lines]]), lines), PROMPT
            )
            assert costs[lines - 1][0] + runner.FRAME == block.tokens
    assert len({cost for cost, _ in costs}) == 9  # duplicates are injected once


def test_evidence_counts_within_a_budget_if_its_line_fits(tmp_path: Path) -> None:
    messages = [("The harbour " + "and the old lighthouse at the end of the pier " * 16, "")] * 3
    messages = [(f"{text} {number}", "") for number, (text, _) in enumerate(messages)]
    questions = [make_question("q", "harbour lighthouse pier", ["u0", "u1", "u2", "nowhere"])]
    values = retrieval.evaluate(
        write(tmp_path, make_conversation("t", messages, questions)), embedder=HashEmbedder()
    ).as_dict()
    shares = {budget: share["value"] for budget, share in values["evidence_within"].items()}
    assert shares == {"256": 0.25, "512": 0.5, "1024": 0.75, "2048": 0.75}  # a long line has just under 240 tokens
    assert list(shares) == [str(budget) for budget in BUDGETS]


def test_evidence_within_a_larger_budget_is_not_less(values: dict[str, Any]) -> None:
    for mode in values["modes"].values():
        shares = [mode["evidence_within"][str(budget)]["value"] for budget in BUDGETS]
        assert shares == sorted(shares)


# ── False injections ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_recall_is_measured_for_unanswerable_and_foreign_questions(file: Path, report: Report) -> None:
    abstention = report.as_dict()["abstention"]
    assert [abstention[group]["questions"] for group in ("answerable", "unanswerable", "foreign")] == [4, 1, 4]
    talk, sea = read(file)
    with remembered(talk, embedder=HashEmbedder()) as keeper:
        own = [keeper.recall(question.text).tokens for question in talk.questions if question.has_answer]
        cat = keeper.recall("What is the cat called?").tokens
        foreign = [keeper.recall(sea.questions[0].text).tokens]
    with remembered(sea, embedder=HashEmbedder()) as keeper:
        foreign += [keeper.recall(question.text).tokens for question in talk.questions if question.has_answer]
        own.append(keeper.recall(sea.questions[0].text).tokens)
    assert abstention["answerable"]["tokens"]["value"] == pytest.approx(mean(own))
    assert abstention["unanswerable"]["tokens"]["value"] == cat
    assert abstention["foreign"]["tokens"]["value"] == pytest.approx(mean(foreign))
    assert abstention["foreign"]["given_anything"]["value"] == pytest.approx(mean(tokens > 0 for tokens in foreign))
    assert any(foreign)  # the ferry occurs in both


def test_best_score_separates_answerable_questions_from_others(values: dict[str, Any]) -> None:
    assert 0.5 < values["abstention"]["foreign"]["auroc"]["value"] <= 1.0
    assert values["abstention"]["unanswerable"]["auroc"].keys() == {"value", "low", "high"}


def test_single_conversation_has_no_foreign_questions(tmp_path: Path) -> None:
    report = retrieval.evaluate(write(tmp_path, SEA), embedder=HashEmbedder())
    abstention = report.as_dict()["abstention"]
    assert (
        abstention["foreign"]["questions"],
        abstention["foreign"]["auroc"],
        abstention["unanswerable"]["auroc"],
    ) == (0, None, None)
    assert "questions of another conversation" not in report.text()


# ── Unusual data ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_shared_unit_id_counts_once(tmp_path: Path) -> None:
    conversation = make_conversation("t", [DOG, DOG, FERRY], [make_question("q", "What is the dog called?", ["u0"])])
    conversation["units"][1]["id"] = "u0"
    values = retrieval.evaluate(write(tmp_path, conversation), embedder=HashEmbedder()).as_dict()
    assert (values["r@5"], values["ndcg@10"], values["odd"]["shared_unit_ids"]) == (1.0, 1.0, 1)


def test_repeated_unit_keeps_its_rank_without_gain() -> None:
    unit_ids = runner.units([make_hit(1, "a"), make_hit(2, "a"), make_hit(3, "b")])
    assert unit_ids == ["a", "", "b"]
    ideal_gain = 1 + 1 / log2(3)
    assert ndcg(unit_ids, {"a", "b"}, 10) == pytest.approx((1 + 1 / log2(4)) / ideal_gain)


def test_conversation_without_units_finds_nothing(tmp_path: Path) -> None:
    empty = {"id": "empty", "units": [], "questions": [make_question("q", "Anything?", ["u0"])]}
    values = retrieval.evaluate(write(tmp_path, SEA, empty), embedder=HashEmbedder()).as_dict()
    assert values["per_question"] == {"sea/air": 1.0, "empty/q": 0.0}


def test_thousands_of_long_units_are_measured(tmp_path: Path) -> None:
    messages = [
        (f"Entry {number} of the log: {'all quiet, ' * (1 + number % 4)}no ship in sight", "")
        for number in range(1_500)
    ]
    messages[1_234] = ("The lighthouse keeper found an albatross. " + "It was tired and wet. " * 2_000, "keeper")
    path = write(
        tmp_path, make_conversation("log", messages, [make_question("q", "Who found an albatross?", ["u1234"])])
    )
    values = retrieval.evaluate(path, embedder=HashEmbedder(32)).as_dict()
    assert (values["r@5"], values["units"]) == (1.0, 1_500)
    assert values["evidence_within"]["512"]["value"] == 1.0


def test_file_without_findable_answers_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No question of .* has an answer"):
        retrieval.evaluate(
            write(tmp_path, make_conversation("t", [DOG], [make_question("q", "Dog?", [])])), embedder=HashEmbedder()
        )
    unanswerable = make_conversation("t", [DOG], [make_question("q", "Dog?", ["u0"], "abstention")])
    with pytest.raises(InvalidInput, match=r"No question of .* has an answer"):
        retrieval.evaluate(write(tmp_path, unanswerable), embedder=HashEmbedder())
    with pytest.raises(InvalidInput, match=r"No evidence of .* names a unit"):
        retrieval.evaluate(
            write(tmp_path, make_conversation("t", [DOG], [make_question("q", "Dog?", ["D1"])])),
            embedder=HashEmbedder(),
        )


# ── Sampling, progress, report ────────────────────────────────────────────────────────────────────────────────────────


def test_sample_has_the_requested_size_and_is_deterministic(tmp_path: Path) -> None:
    conversations = [
        make_conversation(
            f"c{number}",
            [FERRY, DOG],
            [make_question(f"q{n}", f"What is the dog called, {n}?", ["u1"]) for n in range(6)]
            + [make_question("none", "What is the cat called?", [], "abstention")],
        )
        for number in range(4)
    ]
    path = write(tmp_path, *conversations)
    report = retrieval.evaluate(path, limit=8, embedder=HashEmbedder())
    assert "8 questions with an answer, a sample." in report.text()
    assert len(report.values["per_question"]) == 8
    assert report.values["abstention"]["unanswerable"]["questions"] == 1  # a third of four
    samples = [
        {
            f"{conversation.id}/{question.id}"
            for conversation in retrieval.draw_sample(read(path), 8)
            for question in conversation.questions
            if question.has_answer
        }
        for _ in range(2)
    ]
    assert samples == [set(report.values["per_question"])] * 2
    assert sum(len(conversation.questions) for conversation in retrieval.draw_sample(read(path), 999)) == 28
    with pytest.raises(InvalidInput, match="limit is 0"):
        retrieval.evaluate(path, limit=0, embedder=HashEmbedder())


def test_conversations_without_sampled_questions_are_not_embedded(tmp_path: Path) -> None:
    path = write(tmp_path, TALK, SEA)
    values = retrieval.evaluate(path, limit=1, embedder=HashEmbedder()).as_dict()
    assert (values["conversations"], values["questions"]) == (1, 1)


def test_progress_is_monotonic_and_complete(file: Path) -> None:
    steps: list[tuple[int, int]] = []
    retrieval.evaluate(file, embedder=HashEmbedder(), progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1] == (6 + 5 + 4, 6 + 5 + 4)  # units, own questions, questions of the other conversation


def test_report_has_tables(report: Report, file: Path, tmp_path: Path) -> None:
    written = {path.name for path in report.write(tmp_path / "out")}
    assert written == {"retrieval.json", "retrieval.md"}
    assert [table.title for table in report.tables] == [
        "Search modes",
        "By category: default",
        "Evidence within a token budget",
        "Injection by recall",
    ]
    assert str(file.parent) not in report.page()  # no local paths in the report


def test_several_files_make_one_page_that_names_the_development_file(file: Path, tmp_path: Path) -> None:
    dev = write(tmp_path, SEA, name="sea-dev.jsonl")
    report = evals.evaluate([dev, file], embedder=HashEmbedder())
    values, page = report.as_dict(), report.page()
    assert report.plots.keys() == {"retrieval-tokens", "retrieval-time"}
    assert values["files"].keys() == {"sea-dev.jsonl", "made.jsonl"}
    assert values["per_question"] == values["files"]["sea-dev.jsonl"]["per_question"] == {"sea/air": 1.0}
    assert "sea-dev.jsonl is the development file" in page
    assert "No setting was tuned on made.jsonl." in page
    assert "## made.jsonl: Search modes" in page
    assert "files" not in evals.evaluate([dev], embedder=HashEmbedder()).as_dict()


def test_missing_file_gives_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evals.main([str(tmp_path / "none.jsonl")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_question_has_an_answer_only_with_evidence() -> None:
    assert Question("q", "Why?", "plain", frozenset()).has_answer is False
    assert Question("q", "Why?", "plain", frozenset({"u"})).has_answer is True
    assert Question("q", "Why?", "Abstention", frozenset({"u"})).has_answer is False
