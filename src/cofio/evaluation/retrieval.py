"""Retrieval: share of the evidence found, latency, tokens; and injections for questions without an answer.

    [Conversation] ─ each in a store of its own, asked ─▶ Measured ─▶ Report

Shares are numbers from 0 to 1 in JSON, and per cent in tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cofio.errors import InvalidInput
from cofio.evaluation.datasets import LEFT_OUT, Conversation, Question, read, remembered
from cofio.evaluation.metrics import SEED, Figure, difference, interval, mean, separation
from cofio.evaluation.plots import COLOURS, Curve, linear
from cofio.evaluation.report import Cell, Column, Report, Table
from cofio.evaluation.runner import (
    BUDGETS,
    DEFAULT,
    FRAME,
    MEASURES,
    UNREAD,
    VECTORS,
    WORDS,
    ConversationRunner,
    ModeAnswer,
    RecallMeasurement,
    UncachedEmbedder,
)
from cofio.ports import Embedder, LateInteractionModel
from cofio.providers import embedders
from cofio.settings import Settings

Progress = Callable[[int, int], None]

ANSWERABLE, UNANSWERABLE, FOREIGN = "answerable", "unanswerable", "foreign"
_SORTS = {
    ANSWERABLE: "questions with an answer",
    UNANSWERABLE: "questions whose answer is that there is none",
    FOREIGN: "questions of another conversation",
}


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """Question with an answer, and the result of each mode."""

    id: str
    category: str
    answers: Mapping[str, ModeAnswer]  # by the mode's name


@dataclass(frozen=True, slots=True)
class RetrievalMeasurement:
    """Results for all conversations of a file."""

    file: str
    headline: str  # the mode whose figures come first
    modes: tuple[str, ...]
    asked: tuple[QuestionResult, ...]
    given: Mapping[str, Sequence[RecallMeasurement]]  # by sort of question
    about: Mapping[str, Any]  # contents of the file, and what was left out

    def values(self, measure: str, mode: str = "", category: str | None = None) -> list[float]:
        """Return the measure for every question of a category (default: all) in a mode (default: the headline mode)."""
        chosen = [result for result in self.asked if category in (None, result.category)]
        return [result.answers[mode or self.headline].scores[measure] for result in chosen]

    def within(self, mode: str = "") -> list[Figure]:
        """Return the share of the evidence within each budget."""
        rows = [result.answers[mode or self.headline].within for result in self.asked]
        return [interval(list(column)) for column in zip(*rows, strict=True)]

    def milliseconds(self, share: float, mode: str = "") -> float | None:
        """Return this quantile of the latency; None for a mode without timing."""
        spent = [result.answers[mode or self.headline].seconds for result in self.asked]
        timed = [seconds for seconds in spent if seconds is not None]
        return 1000 * float(np.quantile(timed, share)) if timed else None

    @property
    def categories(self) -> list[str]:
        return sorted({result.category for result in self.asked})


def evaluate(
    file: Path,
    settings: Settings | None = None,
    *,
    limit: int | None = None,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return the report on one file. `limit` is the size of a fixed sample of its questions.

    Each conversation is stored in a temporary store, which is deleted afterwards.
    """
    measurement = measured(file, settings, limit=limit, embedder=embedder, progress=progress)
    options = f" --limit {limit}" if limit else ""
    return Report(
        name="retrieval",
        title="Retrieval",
        command=f"cofio eval retrieval {file.name}{options}",
        says=[*says(measurement), METHOD],
        values=values(measurement),
        tables=tables(measurement),
        plots=plots([measurement]),
    )


def measured(
    file: Path,
    settings: Settings | None = None,
    *,
    limit: int | None = None,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> RetrievalMeasurement:
    """Return the results of all questions of the file in all modes."""
    loaded = settings or Settings.load()
    whole = read(file)
    chosen = sampled(_select_answerable(whole, file), limit)
    reader = _reader(loaded) if embedder is None else None
    modes = (DEFAULT, *((UNREAD,) if reader else ()), VECTORS, WORDS)
    results: list[QuestionResult] = []
    recalls: dict[str, list[RecallMeasurement]] = {sort: [] for sort in _SORTS}
    steps = _Progress(progress, chosen)
    shared = UncachedEmbedder(embedder or _embedder(loaded))
    for place, conversation in enumerate(chosen):
        with remembered(conversation, loaded, embedder=shared, reader=reader, advance=steps.advance) as keeper:
            asking = ConversationRunner(keeper, shared)
            for question in conversation.questions:
                if question.has_answer:
                    answers = {mode.name: asking.answer(question, mode) for mode in modes}
                    results.append(QuestionResult(f"{conversation.id}/{question.id}", question.category, answers))
                sort = ANSWERABLE if question.has_answer else UNANSWERABLE
                recalls[sort].append(asking.give(question, modes[0]))
                steps.advance(1)
            for question in _get_foreign(chosen, place):
                recalls[FOREIGN].append(asking.give(question, modes[0]))
                steps.advance(1)
    names = tuple(mode.name for mode in modes)
    return RetrievalMeasurement(
        file.name, names[0], names, tuple(results), recalls, _describe_file(whole, chosen, limit)
    )


def _embedder(settings: Settings) -> Embedder:
    """Return the embedder of the settings, without a query cache, so that every question is timed like a first one."""
    return embedders.make(
        settings.embedder,
        home=settings.home,
        url=settings.embedder_url,
        key=settings.embedder_key,
        dimension=settings.embedder_dimension or None,
        download=settings.model_download,
        recent=0,
    )


def _reader(settings: Settings) -> LateInteractionModel | None:
    return embedders.make_reader(settings.home) if settings.rerank else None


# ── selection of questions ────────────────────────────────────────────────────────────────────────────────────────────


def _select_answerable(conversations: Sequence[Conversation], file: Path) -> list[Conversation]:
    """Return the conversations with the questions to ask. Raise InvalidInput if none has existing evidence."""
    questions = [
        (conversation, question)
        for conversation in conversations
        for question in conversation.questions
        if question.has_answer
    ]
    if not questions:
        hint = f"Name the units that answer it under evidence; {' and '.join(LEFT_OUT)} questions have no answer."
        raise InvalidInput(f"No question of {file} has an answer to look for.", hint)
    if not any(question.evidence & owner.units for owner, question in questions):
        hint = "Evidence names units of the same conversation by their ids."
        raise InvalidInput(f"No evidence of {file} names a unit of its conversation.", hint)
    return [
        replace(conversation, questions=tuple(filter(_is_asked, conversation.questions)))
        for conversation in conversations
    ]


def _is_asked(question: Question) -> bool:
    """Return whether the question can be evaluated: without evidence, its answer is unknown."""
    return question.has_answer or question.category.casefold() in LEFT_OUT


def sampled(conversations: Sequence[Conversation], limit: int | None) -> list[Conversation]:
    """Return the conversations with a sample of the questions with an answer, and the same share of the others.

    Conversations without questions are left out.
    """
    if limit is not None:
        if limit < 1:
            raise InvalidInput(f"limit is {limit}.", "Give 1 or more.")
        chosen = _draw_questions(conversations, limit)
        conversations = [
            replace(
                conversation,
                questions=tuple(
                    question for question in conversation.questions if (conversation.id, question.id) in chosen
                ),
            )
            for conversation in conversations
        ]
    return [conversation for conversation in conversations if conversation.questions]


def _draw_questions(conversations: Sequence[Conversation], limit: int) -> set[tuple[str, str]]:
    rows = [
        (conversation.id, question.id, question.has_answer)
        for conversation in conversations
        for question in conversation.questions
    ]
    answered = [(conversation_id, question_id) for conversation_id, question_id, has_answer in rows if has_answer]
    others = [(conversation_id, question_id) for conversation_id, question_id, has_answer in rows if not has_answer]
    rng, share = random.Random(SEED), min(1.0, limit / len(answered))  # noqa: S311
    return {*rng.sample(answered, min(limit, len(answered))), *rng.sample(others, round(share * len(others)))}


def _get_foreign(conversations: Sequence[Conversation], place: int) -> list[Question]:
    """Return questions that this conversation cannot answer: the answerable ones of the conversation before it."""
    if len(conversations) == 1:
        return []
    return [question for question in conversations[place - 1].questions if question.has_answer]


class _Progress:
    """Progress: one step per stored unit and per question."""

    def __init__(self, progress: Progress | None, conversations: Sequence[Conversation]) -> None:
        self._progress = progress
        self._done = 0
        foreign = sum(len(_get_foreign(conversations, place)) for place in range(len(conversations)))
        self._total = foreign + sum(
            len(conversation.facts) + len(conversation.questions) for conversation in conversations
        )

    def advance(self, steps: int) -> None:
        self._done += steps
        if self._progress:
            self._progress(self._done, self._total)


def _describe_file(whole: Sequence[Conversation], chosen: Sequence[Conversation], limit: int | None) -> dict[str, Any]:
    """Return the contents of the file and its irregularities."""
    units = [str(fact.metadata["unit"]) for conversation in chosen for fact in conversation.facts]
    questions = [
        (conversation, question)
        for conversation in chosen
        for question in conversation.questions
        if question.has_answer
    ]
    all_questions = [question for conversation in whole for question in conversation.questions]
    return {
        "conversations": len(chosen),
        "units": len(units),
        "limit": limit,
        "left_out": {
            **{
                category: sum(question.category.casefold() == category for question in all_questions)
                for category in LEFT_OUT
            },
            "without_evidence": sum(not _is_asked(question) for question in all_questions),
            "without_words": sum(conversation.without_words for conversation in whole),
        },
        "odd": {
            "unknown_evidence": sum(
                len(question.evidence - conversation.units) for conversation, question in questions
            ),
            "shared_unit_ids": sum(len(conversation.facts) - len(conversation.units) for conversation in chosen),
            "undated_units": sum(not fact.created_at for conversation in chosen for fact in conversation.facts),
        },
    }


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def values(measurement: RetrievalMeasurement) -> dict[str, Any]:
    """Return the values of `--json`: shares from 0 to 1, times in milliseconds."""
    return {
        **_compute_means(measurement),
        "by_category": {
            category: {
                **_compute_means(measurement, category=category),
                "questions": len(measurement.values("r@10", category=category)),
            }
            for category in measurement.categories
        },
        "p50_ms": measurement.milliseconds(0.50),
        "p95_ms": measurement.milliseconds(0.95),
        "intervals": _compute_intervals(measurement),
        "questions": len(measurement.asked),
        "evidence_within": _by_budget(measurement, measurement.headline),
        "abstention": _measure_abstention(measurement),
        "per_question": {
            result.id: round(result.answers[measurement.headline].scores["r@10"], 6) for result in measurement.asked
        },
        "mode": measurement.headline,
        "modes": {mode: _of_mode(measurement, mode) for mode in measurement.modes},
        "file": measurement.file,
        **measurement.about,
    }


def _compute_means(measurement: RetrievalMeasurement, mode: str = "", category: str | None = None) -> dict[str, float]:
    return {measure: mean(measurement.values(measure, mode, category)) for measure in MEASURES}


def _compute_intervals(measurement: RetrievalMeasurement) -> dict[str, Any]:
    """Return the bounds of each mean, over all questions and by category."""

    def bounds(category: str | None) -> dict[str, list[float]]:
        figures = {measure: interval(measurement.values(measure, category=category)) for measure in MEASURES}
        return {measure: [figure.low, figure.high] for measure, figure in figures.items()}

    return {**bounds(None), "by_category": {name: bounds(name) for name in measurement.categories}}


def _by_budget(measurement: RetrievalMeasurement, mode: str) -> dict[str, dict[str, float]]:
    return {str(budget): figure.as_dict() for budget, figure in zip(BUDGETS, measurement.within(mode), strict=True)}


def _of_mode(measurement: RetrievalMeasurement, mode: str) -> dict[str, Any]:
    return {
        **_compute_means(measurement, mode),
        "p50_ms": measurement.milliseconds(0.50, mode),
        "p95_ms": measurement.milliseconds(0.95, mode),
        "evidence_within": _by_budget(measurement, mode),
        "to_default": {measure: _compare_to_default(measurement, mode, measure).as_dict() for measure in MEASURES},
    }


def _compare_to_default(measurement: RetrievalMeasurement, mode: str, measure: str) -> Figure:
    return difference(measurement.values(measure, mode), measurement.values(measure, DEFAULT.name))


def _measure_abstention(measurement: RetrievalMeasurement) -> dict[str, Any]:
    """Return recall's injections by sort of question, and how well the best score separates the sorts."""
    by_sort: dict[str, Any] = {}
    for sort, recalls in measurement.given.items():
        by_sort[sort] = {
            "questions": len(recalls),
            "tokens": interval([recall.tokens for recall in recalls]).as_dict(),
            "given_anything": interval([float(recall.tokens > 0) for recall in recalls]).as_dict(),
        }
    by_sort[ANSWERABLE]["evidence_given"] = interval(
        [recall.found for recall in measurement.given[ANSWERABLE]]
    ).as_dict()
    for sort in (UNANSWERABLE, FOREIGN):
        by_sort[sort]["auroc"] = apart.as_dict() if (apart := _measure_separation(measurement, sort)) else None
    return by_sort


def _measure_separation(measurement: RetrievalMeasurement, sort: str) -> Figure | None:
    """Return how well the best score separates answerable questions from these; None without any of these."""
    answered, others = ([recall.top for recall in measurement.given[name]] for name in (ANSWERABLE, sort))
    return separation(answered, others) if answered and others else None


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────

METHOD = (
    "R@k is the share of a question's evidence among the first k hits; nDCG@10 gives more weight to higher ranks. A"
    " time is that of one search for ten hits, including the embedding of the question. Brackets hold 95 % intervals by"
    " bootstrap over the questions, paired where two search modes are compared."
)


def says(measurement: RetrievalMeasurement) -> list[str]:
    """Return the introduction to the figures."""
    about, odd = measurement.about, measurement.about["odd"]
    sample = ", a sample" if about["limit"] else ""
    left_out = [f"{number:,} {name.replace('_', ' ')}" for name, number in about["left_out"].items() if number]
    paragraphs = [
        f"{measurement.file}: {about['conversations']:,} conversations of {about['units']:,} units, each in a store of"
        f" its own; {len(measurement.asked):,} questions with an answer{sample}."
        + (f" Not among them: {', '.join(left_out)}." if left_out else "")
    ]
    notes = {
        "unknown_evidence": "Evidence that names an unknown unit: {:,} times. It counts as not found.",
        "shared_unit_ids": "Units that share an id with another: {:,}. Finding any of them counts, once.",
        "undated_units": "Units without a readable date: {:,}. They were stored with the current time.",
    }
    return paragraphs + [sentence.format(odd[name]) for name, sentence in notes.items() if odd[name]]


def tables(measurement: RetrievalMeasurement, of: str = "") -> list[Table]:
    """Return the tables; `of` is a prefix of their titles if there are several files."""
    all_tables = [_modes(measurement), _categories(measurement), _budgets(measurement), _unasked(measurement)]
    return [replace(table, title=f"{of}{table.title}") for table in all_tables]


def _modes(measurement: RetrievalMeasurement) -> Table:
    shares = [Column(measure, "%") for measure in ("R@5", "R@10", "R@20", "nDCG@10")]
    times = [Column("p50", "ms"), Column("p95", "ms")]
    rows = [
        (
            mode,
            *_compute_means(measurement, mode).values(),
            None if mode == DEFAULT.name else _compare_to_default(measurement, mode, "r@10"),
            measurement.milliseconds(0.50, mode),
            measurement.milliseconds(0.95, mode),
        )
        for mode in measurement.modes
    ]
    note = "“Vectors alone” orders by the cosine, “words alone” by BM25, which is not a search mode and has no time."
    return Table("Found", [Column("search"), *shares, Column("R@10 to the default", "±%"), *times], rows, note)


def _categories(measurement: RetrievalMeasurement) -> Table:
    rows: list[list[Cell]] = []
    for name in (None, *measurement.categories):
        figures = [interval(measurement.values(measure, category=name)) for measure in MEASURES]
        rows.append([name or "all", len(measurement.values("r@10", category=name)), *figures])
    shares = [Column(heading, "%") for heading in ("R@5", "R@10", "R@20", "nDCG@10")]
    return Table(f"By category: {measurement.headline}", [Column("category"), Column("questions"), *shares], rows)


def _budgets(measurement: RetrievalMeasurement) -> Table:
    columns = [Column("search"), *(Column(f"{budget:,} tokens", "%") for budget in BUDGETS)]
    note = (
        "The share of the evidence injected within this number of tokens: lines in the format of recall, long ones"
        f" shortened, best first. The frame around them takes {FRAME} more."
    )
    return Table(
        "Evidence within tokens", columns, [(mode, *measurement.within(mode)) for mode in measurement.modes], note
    )


def _unasked(measurement: RetrievalMeasurement) -> Table:
    rows = []
    for sort, recalls in measurement.given.items():
        if recalls:
            answered = sort == ANSWERABLE
            rows.append(
                (
                    _SORTS[sort],
                    len(recalls),
                    interval([float(recall.tokens > 0) for recall in recalls]),
                    interval([float(recall.tokens) for recall in recalls]),
                    interval([recall.found for recall in recalls]) if answered else None,
                    None if answered else _measure_separation(measurement, sort),
                )
            )
    columns = [
        Column("recall at"),
        Column("prompts"),
        Column("given anything", "%"),
        Column("tokens"),
        Column("evidence given", "%"),
        Column("AUROC", digits=3),
    ]
    note = (
        "Injections by `recall`; for a prompt without an answer, none would be best. AUROC: how often the best score of"
        " a question with an answer is above that of one without."
    )
    return Table("Given unasked", columns, rows, note)


def plots(files: Sequence[RetrievalMeasurement]) -> dict[str, str]:
    """Return the plots of evidence by tokens and of recall by time, with a line for each file and mode."""
    several = len(files) > 1
    names = [
        (measurement, mode, f"{Path(measurement.file).stem}: {mode}" if several else mode)
        for measurement in files
        for mode in measurement.modes
    ]
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    curves = [
        Curve(name, colour, [(float(budget), 100 * figure.value) for budget, figure in _points(measurement, mode)])
        for (measurement, mode, name), colour in zip(names, colours, strict=True)
    ]
    dots = [
        Curve(name, colour, [(spent, 100 * mean(measurement.values("r@10", mode)))])
        for (measurement, mode, name), colour in zip(names, colours, strict=True)
        if (spent := measurement.milliseconds(0.50, mode)) is not None
    ]
    slowest = max(line.points[0][0] for line in dots)
    return {
        "retrieval-tokens": linear(
            "Evidence within tokens", "tokens put in", "% of the evidence", curves, within=(0, BUDGETS[-1], 0, 100)
        ),
        "retrieval-time": linear(
            "Found by time", "ms a question (p50)", "R@10, %", dots, within=(0, 1.2 * slowest, 0, 100)
        ),
    }


def _points(measurement: RetrievalMeasurement, mode: str) -> Iterator[tuple[int, Figure]]:
    return zip(BUDGETS, measurement.within(mode), strict=True)
