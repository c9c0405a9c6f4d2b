"""Retrieval: share of the evidence found, latency, tokens; and injections for questions without an answer.

    [Conversation] ─ each in a store of its own, queried ─▶ RetrievalMeasurement ─▶ Report

Shares are numbers from 0 to 1 in JSON, and per cent in tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cofio.errors import InvalidInput
from cofio.ports import Embedder
from cofio.providers import embedders
from cofio.settings import Settings
from cofio_eval.authors import Progress
from cofio_eval.datasets import LEFT_OUT, Conversation, Question, read, remembered
from cofio_eval.embedders import CachingEmbedder
from cofio_eval.metrics import SEED, Figure, difference, interval, mean, separation
from cofio_eval.report import Column, Report, Table
from cofio_eval.runner import (
    BUDGETS,
    DEFAULT,
    FRAME,
    MEASURES,
    NO_RERANK,
    VECTORS,
    WORDS,
    ConversationRunner,
    ModeAnswer,
    RecallMeasurement,
)

ANSWERABLE, UNANSWERABLE, FOREIGN = "answerable", "unanswerable", "foreign"
_GROUPS = {
    ANSWERABLE: "questions with an answer",
    UNANSWERABLE: "questions without an answer",
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
    modes: tuple[str, ...]
    results: tuple[QuestionResult, ...]
    recalls: Mapping[str, Sequence[RecallMeasurement]]  # by group of questions
    about: Mapping[str, Any]  # contents of the file, and what was left out

    def values(self, measure: str, mode: str = DEFAULT.name, category: str | None = None) -> list[float]:
        """Return the measure for every question of a category (default: all) in a mode."""
        chosen = [result for result in self.results if category in (None, result.category)]
        return [result.answers[mode].scores[measure] for result in chosen]

    def milliseconds(self, share: float, mode: str = DEFAULT.name) -> float | None:
        """Return this quantile of the latency; None for a mode without timing."""
        times = [seconds for result in self.results if (seconds := result.answers[mode].seconds) is not None]
        return 1000 * float(np.quantile(times, share)) if times else None


def evaluate(
    file: Path,
    settings: Settings | None = None,
    *,
    limit: int | None = None,
    embedder: Embedder | None = None,
    progress: Progress = lambda *_: None,
) -> Report:
    """Return the report on one file. `limit` is the size of a fixed sample of its questions.

    Each conversation is stored in a temporary store, which is deleted afterwards.
    """
    measurement = measure(file, settings, limit=limit, embedder=embedder, progress=progress)
    options = f" --limit {limit}" if limit else ""
    values = compute_values(measurement)
    return Report(
        name="retrieval",
        title="Retrieval",
        command=f"cofio eval retrieval {file.name}{options}",
        intro=[*describe(measurement), METHOD],
        values=values,
        tables=list_tables(values),
    )


def measure(
    file: Path,
    settings: Settings | None = None,
    *,
    limit: int | None = None,
    embedder: Embedder | None = None,
    progress: Progress = lambda *_: None,
) -> RetrievalMeasurement:
    """Return the results of all questions of the file in all modes."""
    settings = settings or Settings.load()
    everything = read(file)
    chosen = draw_sample(_select_answerable(everything, file), limit)
    reader = embedders.make_reader(settings.home) if embedder is None and settings.rerank else None
    modes = (DEFAULT, *((NO_RERANK,) if reader else ()), VECTORS, WORDS)
    results: list[QuestionResult] = []
    recalls: dict[str, list[RecallMeasurement]] = {group: [] for group in _GROUPS}
    advance = _count_progress(progress, chosen)
    shared = CachingEmbedder(embedder or _make_embedder(settings), 8, kinds=("query",))
    for place, conversation in enumerate(chosen):
        with remembered(conversation, settings, embedder=shared, reader=reader, advance=advance) as keeper:
            runner = ConversationRunner(keeper, shared)
            for question in conversation.questions:
                if question.has_answer:
                    answers = {mode.name: runner.answer(question, mode) for mode in modes}
                    results.append(QuestionResult(f"{conversation.id}/{question.id}", question.category, answers))
                recalls[ANSWERABLE if question.has_answer else UNANSWERABLE].append(runner.recall(question))
                advance(1)
            for question in _list_foreign(chosen, place):
                recalls[FOREIGN].append(runner.recall(question))
                advance(1)
    about = _describe_file(everything, chosen, limit)
    return RetrievalMeasurement(file.name, tuple(mode.name for mode in modes), tuple(results), recalls, about)


def _make_embedder(settings: Settings) -> Embedder:
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


def _count_progress(progress: Progress, conversations: Sequence[Conversation]) -> Callable[[int], None]:
    """Return a function that takes steps: one per stored unit and per question."""
    foreign = sum(len(_list_foreign(conversations, place)) for place in range(len(conversations)))
    total = foreign + sum(len(one.facts) + len(one.questions) for one in conversations)
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        progress(done, total)

    return advance


# ── selection of questions ────────────────────────────────────────────────────────────────────────────────────────────


def _select_answerable(conversations: Sequence[Conversation], file: Path) -> list[Conversation]:
    """Return the conversations with the questions to ask. Raise InvalidInput if none has existing evidence."""
    questions = _list_answerable(conversations)
    if not questions:
        hint = f"Name the units that answer it under evidence; {' and '.join(LEFT_OUT)} questions have no answer."
        raise InvalidInput(f"No question of {file} has an answer to look for.", hint)
    if not any(question.evidence & conversation.units for conversation, question in questions):
        hint = "Evidence names units of the same conversation by their ids."
        raise InvalidInput(f"No evidence of {file} names a unit of its conversation.", hint)
    return [
        replace(conversation, questions=tuple(filter(_is_asked, conversation.questions)))
        for conversation in conversations
    ]


def _list_answerable(conversations: Sequence[Conversation]) -> list[tuple[Conversation, Question]]:
    return [
        (conversation, question)
        for conversation in conversations
        for question in conversation.questions
        if question.has_answer
    ]


def _is_asked(question: Question) -> bool:
    """Return whether the question can be evaluated: without evidence, its answer is unknown."""
    return question.has_answer or question.category.casefold() in LEFT_OUT


def draw_sample(conversations: Sequence[Conversation], limit: int | None) -> list[Conversation]:
    """Return the conversations with a sample of the questions with an answer, and the same share of the others.

    Conversations without questions are left out.
    """
    if limit is not None:
        if limit < 1:
            raise InvalidInput(f"limit is {limit}.", "Give 1 or more.")
        groups: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        for conversation in conversations:
            for question in conversation.questions:
                groups[question.has_answer].append((conversation.id, question.id))
        answerable, others = groups[True], groups[False]
        rng, share = random.Random(SEED), min(1.0, limit / len(answerable))  # noqa: S311
        chosen = {
            *rng.sample(answerable, min(limit, len(answerable))),
            *rng.sample(others, round(share * len(others))),
        }
        conversations = [
            replace(one, questions=tuple(question for question in one.questions if (one.id, question.id) in chosen))
            for one in conversations
        ]
    return [conversation for conversation in conversations if conversation.questions]


def _list_foreign(conversations: Sequence[Conversation], place: int) -> list[Question]:
    """Return questions that this conversation cannot answer: the answerable ones of the conversation before it."""
    if len(conversations) == 1:
        return []
    return [question for question in conversations[place - 1].questions if question.has_answer]


def _describe_file(
    everything: Sequence[Conversation], chosen: Sequence[Conversation], limit: int | None
) -> dict[str, Any]:
    """Return the contents of the file and its irregularities."""
    questions = [question for conversation in everything for question in conversation.questions]
    facts = [fact for conversation in chosen for fact in conversation.facts]
    return {
        "conversations": len(chosen),
        "units": len(facts),
        "limit": limit,
        "left_out": {
            **{
                category: sum(question.category.casefold() == category for question in questions)
                for category in LEFT_OUT
            },
            "without_evidence": sum(not _is_asked(question) for question in questions),
            "without_words": sum(conversation.without_words for conversation in everything),
        },
        "odd": {
            "unknown_evidence": sum(len(question.evidence - one.units) for one, question in _list_answerable(chosen)),
            "shared_unit_ids": sum(len(conversation.facts) - len(conversation.units) for conversation in chosen),
            "undated_units": sum(not fact.created_at for fact in facts),
        },
    }


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def compute_values(measurement: RetrievalMeasurement) -> dict[str, Any]:
    """Return the values of `--json`: shares from 0 to 1, times in milliseconds."""
    categories = sorted({result.category for result in measurement.results})
    modes = {mode: _compute_mode(measurement, mode) for mode in measurement.modes}
    headline = modes[DEFAULT.name]
    return {
        **{measure: headline[measure] for measure in MEASURES},
        "by_category": {
            category: {
                **{measure: mean(measurement.values(measure, category=category)) for measure in MEASURES},
                "questions": sum(result.category == category for result in measurement.results),
            }
            for category in categories
        },
        "p50_ms": headline["p50_ms"],
        "p95_ms": headline["p95_ms"],
        "intervals": {
            **_compute_bounds(measurement, None),
            "by_category": {category: _compute_bounds(measurement, category) for category in categories},
        },
        "questions": len(measurement.results),
        "evidence_within": headline["evidence_within"],
        "abstention": _compute_abstention(measurement.recalls),
        "per_question": {
            result.id: round(result.answers[DEFAULT.name].scores["r@10"], 6) for result in measurement.results
        },
        "mode": DEFAULT.name,
        "modes": modes,
        "file": measurement.file,
        **measurement.about,
    }


def _compute_bounds(measurement: RetrievalMeasurement, category: str | None) -> dict[str, list[float]]:
    """Return the bounds of each mean, over all questions or those of a category."""
    figures = {measure: interval(measurement.values(measure, category=category)) for measure in MEASURES}
    return {measure: [figure.low, figure.high] for measure, figure in figures.items()}


def _compute_mode(measurement: RetrievalMeasurement, mode: str) -> dict[str, Any]:
    rows = [result.answers[mode].within for result in measurement.results]
    return {
        **{measure: mean(measurement.values(measure, mode)) for measure in MEASURES},
        "p50_ms": measurement.milliseconds(0.50, mode),
        "p95_ms": measurement.milliseconds(0.95, mode),
        "evidence_within": {
            str(budget): interval(column) for budget, column in zip(BUDGETS, zip(*rows, strict=True), strict=True)
        },
        "to_default": {
            measure: difference(measurement.values(measure, mode), measurement.values(measure)) for measure in MEASURES
        },
    }


def _compute_abstention(recalls_by_group: Mapping[str, Sequence[RecallMeasurement]]) -> dict[str, Any]:
    """Return recall's injections by group of questions, and how well the best score separates the groups."""
    figures: dict[str, Any] = {
        group: {
            "questions": len(recalls),
            "tokens": interval([recall.tokens for recall in recalls]),
            "given_anything": interval([float(recall.tokens > 0) for recall in recalls]),
        }
        for group, recalls in recalls_by_group.items()
    }
    figures[ANSWERABLE]["evidence_given"] = interval([recall.share for recall in recalls_by_group[ANSWERABLE]])
    for group in (UNANSWERABLE, FOREIGN):
        answered, others = ([recall.best for recall in recalls_by_group[name]] for name in (ANSWERABLE, group))
        figures[group]["auroc"] = separation(answered, others) if answered and others else None
    return figures


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────

METHOD = (
    "R@k is the share of a question's evidence among the first k hits; nDCG@10 gives more weight to higher ranks."
    " Latency is that of one search for ten hits, including the embedding of the question. Brackets hold 95 %"
    " bootstrap intervals over the questions, paired where two search modes are compared."
)


def describe(measurement: RetrievalMeasurement) -> list[str]:
    """Return the introduction to the figures."""
    about, odd = measurement.about, measurement.about["odd"]
    sample = ", a sample" if about["limit"] else ""
    left_out = [f"{number:,} {name.replace('_', ' ')}" for name, number in about["left_out"].items() if number]
    paragraphs = [
        f"{measurement.file}: {about['conversations']:,} conversations of {about['units']:,} units, each in a store of"
        f" its own; {len(measurement.results):,} questions with an answer{sample}."
        + (f" Excluded: {', '.join(left_out)}." if left_out else "")
    ]
    notes = {
        "unknown_evidence": "Evidence that names an unknown unit: {:,} times. It counts as not found.",
        "shared_unit_ids": "Units that share an id with another: {:,}. Finding any of them counts, once.",
        "undated_units": "Units without a readable date: {:,}. They were stored with the current time.",
    }
    return paragraphs + [sentence.format(odd[name]) for name, sentence in notes.items() if odd[name]]


def list_tables(values: Mapping[str, Any], prefix: str = "") -> list[Table]:
    """Return the tables; the prefix of their titles names the file if there are several."""
    modes, bounds = values["modes"], values["intervals"]
    compared = {**modes, DEFAULT.name: {**modes[DEFAULT.name], "to_default": None}}
    categories = [
        (name, figures["questions"], *(Figure(figures[measure], *limits[measure]) for measure in MEASURES))
        for name, figures, limits in (
            ("all", values, bounds),
            *((name, figures, bounds["by_category"][name]) for name, figures in values["by_category"].items()),
        )
    ]
    abstention = {_GROUPS[group]: figures for group, figures in values["abstention"].items() if figures["questions"]}
    return [
        Table.of(f"{prefix}Search modes", "search", _MODE_COLUMNS, compared, _MODE_NOTE),
        Table(
            f"{prefix}By category: {DEFAULT.name}",
            [Column("category"), Column("questions"), *_SHARES.values()],
            categories,
        ),
        Table.of(f"{prefix}Evidence within a token budget", "search", _BUDGET_COLUMNS, modes, _BUDGET_NOTE),
        Table.of(f"{prefix}Injection by recall", "prompts", _ABSTENTION_COLUMNS, abstention, _ABSTENTION_NOTE),
    ]


_SHARES = {
    measure: Column(label, "%") for measure, label in zip(MEASURES, ("R@5", "R@10", "R@20", "nDCG@10"), strict=True)
}
_MODE_COLUMNS = {
    **_SHARES,
    "to_default/r@10": Column("R@10 relative to default", "±%"),
    "p50_ms": Column("p50", "ms"),
    "p95_ms": Column("p95", "ms"),
}
_MODE_NOTE = (
    "“Vectors only” ranks by cosine, “keywords only” by BM25; the latter is not a search mode, so it has no latency."
)
_BUDGET_COLUMNS = {f"evidence_within/{budget}": Column(f"{budget:,} tokens", "%") for budget in BUDGETS}
_BUDGET_NOTE = (
    "Share of the evidence injected within this number of tokens: lines in the format of recall, long ones"
    f" shortened, best first. The frame around the lines takes {FRAME} more tokens."
)
_ABSTENTION_COLUMNS = {
    "questions": Column("number"),
    "given_anything": Column("with an injection", "%"),
    "tokens": Column("tokens injected"),
    "evidence_given": Column("evidence injected", "%"),
    "auroc": Column("AUROC", digits=3),
}
_ABSTENTION_NOTE = (
    "Context injected by `recall`. For prompts without an answer every injection is a false positive. AUROC:"
    " probability that the best score of a question with an answer is above that of one without."
)
