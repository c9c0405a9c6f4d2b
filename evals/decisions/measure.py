"""Decisions: whether a statement adds a memory, updates one, deletes one, or is known already (noop).

    Case ─ a keeper with the known memories ─ statement ─▶ its actions ─▶ DecisionOutcome ─▶ Report

A fact is passed verbatim, so that the decision is measured and not the extraction; a message is learned from as usual.
Each case has a project of its own, so that cases do not interfere. The keeper decides by rules and, if a model is
configured, also by the model, on the same cases.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import CofioError, Misconfigured
from cofio.models.exchange import LearningResult
from cofio.models.memory import Fact
from cofio.ports import LLM, Completion, Embedder, Health, Profile
from cofio.settings import Settings
from cofio_eval.authors import Progress
from cofio_eval.embedders import CachingEmbedder
from cofio_eval.metrics import DRAWS, SEED, Figure, difference, rate
from cofio_eval.report import Cell, Column, Report, Table
from evals.decisions import duplicates
from evals.decisions.pairs import ACTIONS, PairCase, PairCases, as_facts, draw_sample, read

_AT_ONCE = 250  # cases that share a store
_NONE = "none"  # no action
_OUTCOMES = (*ACTIONS, _NONE)
_RULES, _MODEL = "rules", "model"


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """Result of a case; fields are None if they do not apply."""

    action: str  # by its effect
    right_target: bool | None  # the memory acted on is the intended one, if there is one
    lost: bool | None  # of an update or deletion: the new fact is missing, or the old one stayed
    overwrote: bool | None  # a valid memory was replaced or removed
    merged: bool | None  # a new fact was taken for known


def evaluate(
    files: Sequence[Path],
    settings: Settings | None = None,
    llm: LLM | None = None,
    *,
    sample: int | None = None,
    embedder: Embedder | None = None,
    progress: Progress = lambda *_: None,
) -> Report:
    """Return a report on the pairs of these files, without a model and, if one is given or configured, with it."""
    case_sets = _number_repeated([read(path) for path in files])
    case_sets = [draw_sample(case_set, sample) if sample else case_set for case_set in case_sets]
    settings = settings or Settings.load()
    report = evaluate_cases(case_sets, settings, llm, embedder or bootstrap.make_embedder(settings), progress)
    return replace(report, command=" ".join(["python -m evals.decisions", *(path.name for path in files)]))


def evaluate_cases(
    case_sets: Sequence[PairCases],
    settings: Settings,
    llm: LLM | None,
    embedder: Embedder,
    progress: Progress = lambda *_: None,
) -> Report:
    """Return the report for parsed cases."""
    case_sets = [case_set for cases in case_sets for case_set in (cases, *as_facts(cases))]
    pool = _KeeperPool(settings, embedder, llm)
    figures: dict[str, dict[str, Any]] = {}
    actions: dict[str, dict[str, dict[str, str]]] = {}
    compared: dict[str, dict[str, Any]] = {}
    for number, cases in enumerate(case_sets):
        progress(number, len(case_sets))
        outcomes = {method: pool.decide(cases, method) for method in pool.methods}
        figures[cases.name] = _compute_values(cases, outcomes)
        actions[cases.name] = {method: _list_actions(cases, results) for method, results in outcomes.items()}
        if pairs := duplicates.compare(cases, pool.holding):
            compared[cases.name] = duplicates.compute_values(pairs)
    values = {
        "sets": figures,
        "duplicates": compared,
        "model": {"provider": pool.llm.provider_name, "model": pool.llm.model} if pool.llm else None,
        "per_case": actions,
    }
    title = "Decisions: add, update, delete or noop"
    return Report(
        "decisions", title, "python -m evals.decisions", _INTRODUCTION, values, _list_tables(figures, compared)
    )


def _number_repeated(case_sets: Sequence[PairCases]) -> list[PairCases]:
    """Return the sets with unique names: a repeated name gets a number."""
    renamed: list[PairCases] = []
    for case_set in case_sets:
        namesakes = sum(other.name.partition(" ")[0] == case_set.name for other in renamed)
        renamed.append(replace(case_set, name=f"{case_set.name} {namesakes + 1}") if namesakes else case_set)
    return renamed


def _list_actions(cases: PairCases, outcomes: Sequence[DecisionOutcome]) -> dict[str, str]:
    return {case.id: outcome.action for case, outcome in zip(cases.cases, outcomes, strict=True)}


# ── asking the keeper ─────────────────────────────────────────────────────────────────────────────────────────────────


class _KeeperPool:
    """Factory of keepers on temporary stores, with the given settings; every text is embedded once."""

    def __init__(self, settings: Settings, embedder: Embedder, llm: LLM | None) -> None:
        self._settings = replace(settings, extract_provider="")
        self._embedder = CachingEmbedder(embedder, size=1_000_000)
        self.llm = llm or _load_model(settings, embedder)
        self.methods = (_RULES, _MODEL) if self.llm else (_RULES,)

    def decide(self, cases: PairCases, method: str) -> list[DecisionOutcome]:
        """Return the result of each case, in order."""
        llm_behind = self.llm if method == _MODEL else None
        self._prepare(text for case in cases.cases if not case.is_message for text in (*case.known, case.new))
        messages = [case for case in cases.cases if case.is_message]
        facts = [case for case in cases.cases if not case.is_message]
        outcomes = {case.id: outcome for case, outcome in self._decide_messages(messages, llm_behind)}
        outcomes |= {case.id: outcome for case, outcome in self._decide_facts(facts, _VerbatimLLM(llm_behind))}
        return [outcomes[case.id] for case in cases.cases]

    def _decide_facts(
        self, cases: Sequence[PairCase], reader: _VerbatimLLM
    ) -> Iterator[tuple[PairCase, DecisionOutcome]]:
        for batch in _split_cases(cases):
            with self.holding([(case.id, text) for case in batch for text in case.known], llm=reader) as (keeper, ids):
                first = 0
                for case in batch:
                    known_ids = ids[first : first + len(case.known)]
                    first += len(case.known)
                    reader.fact = case.new
                    result = keeper.extract(case.new, project=case.id, by="eval")
                    yield case, _judge_outcome(case, known_ids, result)

    def _decide_messages(
        self, cases: Sequence[PairCase], llm: LLM | None
    ) -> Iterator[tuple[PairCase, DecisionOutcome]]:
        for batch in _split_cases(cases):
            with self.holding([], llm=llm) as (keeper, _):
                for case in batch:
                    known_ids = _find_added(_learn(keeper, case.known[0], case.id))
                    yield case, _judge_outcome(case, known_ids, _learn(keeper, case.new, case.id))

    def _prepare(self, texts: Iterable[str]) -> None:
        """Embed all uncached texts in one call."""
        self._embedder.embed(sorted(set(texts)), "document")

    @contextmanager
    def holding(
        self, facts: Sequence[tuple[str, str]], *, llm: LLM | None = None
    ) -> Iterator[tuple[Keeper, list[int]]]:
        """Yield a keeper that holds these (project, text) facts, and their ids."""
        self._prepare(text for _, text in facts)
        with TemporaryDirectory() as folder:
            settings = replace(self._settings, home=Path(folder), store=f"sqlite://{folder}/eval.db")
            with bootstrap.keeper(settings, embedder=self._embedder, llm=llm) as keeper:
                changes = keeper.add_all([Fact(text=text, project=name) for name, text in facts], dedup=False)
                yield keeper, [change.memory_id for change in changes]


class _VerbatimLLM:
    """Model that extracts a given fact verbatim. Decisions are delegated to the model behind it, or to the rules."""

    def __init__(self, llm_behind: LLM | None) -> None:
        self._llm = llm_behind
        self.fact = ""
        self.provider_name = llm_behind.provider_name if llm_behind else "none"
        self.model = llm_behind.model if llm_behind else "none"
        self.profile = (
            llm_behind.profile if llm_behind else Profile(json_schema=True, reconciles=False, context=100_000)
        )

    @property
    def supports_audn(self) -> bool:
        return self._llm is not None and self._llm.supports_audn

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        if self.fact:
            fact, self.fact = {"text": self.fact, "category": "detail", "kind": "other"}, ""
            return Completion(json.dumps({"facts": [fact]}))
        assert self._llm is not None  # without a model, no decision is requested
        return self._llm.complete(system, user, schema=schema)

    def health_check(self) -> Health:
        return Health(True)


def _load_model(settings: Settings, embedder: Embedder) -> LLM | None:
    """Return the configured model. Raise Misconfigured if it is not available."""
    if not settings.extract_provider:
        return None
    with TemporaryDirectory() as folder:
        temporary = replace(settings, home=Path(folder), store=f"sqlite://{folder}/eval.db")
        with bootstrap.keeper(temporary, embedder=embedder) as keeper:
            if keeper.llm is None:
                problem = str(keeper.extraction().get("problem") or "The model is not available.")
                raise Misconfigured(problem, "Set EXTRACT_PROVIDER to an available one, or leave it empty.")
            return keeper.llm


def _split_cases(cases: Sequence[PairCase]) -> Iterator[Sequence[PairCase]]:
    yield from (cases[start : start + _AT_ONCE] for start in range(0, len(cases), _AT_ONCE))


def _learn(keeper: Keeper, text: str, project: str) -> LearningResult:
    try:
        return keeper.learn(text, project=project, by="eval")
    except CofioError as error:  # an unusable reply: nothing was learned
        return LearningResult(reason=error.message)


# ── results of cases ──────────────────────────────────────────────────────────────────────────────────────────────────


def _find_added(result: LearningResult) -> list[int]:
    """Return the added memories that are still live."""
    added = [
        action.get("new_id", action.get("id")) for action in result.actions if action["action"] in ("add", "update")
    ]
    removed = {action["old_id"] for action in result.actions if action["action"] in ("update", "delete")}
    return [memory_id for memory_id in added if memory_id not in removed]


def _judge_outcome(case: PairCase, known: Sequence[int], result: LearningResult) -> DecisionOutcome:
    """Return the result by its effect: a deletion counts as one even if a line remains that states it."""
    removed = {action["old_id"] for action in result.actions if action["action"] in ("update", "delete")} & set(known)
    repeated = {action["existing_id"] for action in result.actions if action["action"] == "noop"} & set(known)
    is_added, is_change = bool(_find_added(result)), case.expected in ("update", "delete")
    if removed:
        action = "update" if is_added and case.expected != "delete" else "delete"
    else:
        action = "add" if is_added else "noop" if repeated else _NONE
    targets = set(known) if case.is_message else set(known[:1])
    others = set(known) - (targets if is_change else set())
    has_choice = bool(removed or repeated) and case.expected != "add" and len(known) > 1 and not case.is_message
    return DecisionOutcome(
        action,
        right_target=(removed or repeated) <= targets if has_choice else None,
        lost=action != case.expected or not removed & targets if is_change else None,
        overwrote=bool(removed & others) if others else None,
        merged=action == "noop" if case.expected != "noop" else None,
    )


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_RATES = {
    "target_accuracy": "right_target",
    "lost_updates": "lost",
    "false_overwrites": "overwrote",
    "false_merges": "merged",
}


def _compute_values(cases: PairCases, outcomes_by_method: Mapping[str, Sequence[DecisionOutcome]]) -> dict[str, Any]:
    expected = [case.expected for case in cases.cases]
    figures: dict[str, Any] = {"cases": len(expected), "wanted": _count_labels(expected)}
    figures |= {method: _compute_figures(expected, outcomes) for method, outcomes in outcomes_by_method.items()}
    if _MODEL in outcomes_by_method:
        figures["difference"] = _compare_methods(expected, outcomes_by_method[_MODEL], outcomes_by_method[_RULES])
    return figures


def _count_labels(labels: Sequence[str]) -> dict[str, int]:
    return {label: list(labels).count(label) for label in _OUTCOMES if label in labels}


def _compute_figures(expected: Sequence[str], outcomes: Sequence[DecisionOutcome]) -> dict[str, Any]:
    actual = [outcome.action for outcome in outcomes]
    flags = {
        name: [flag for outcome in outcomes if (flag := getattr(outcome, field)) is not None]
        for name, field in _RATES.items()
    }
    return {
        "macro_f1": macro_f1s(expected, actual),
        **{name: rate(values) for name, values in flags.items()},
        "matrix": {
            label: _count_labels(
                [
                    actual_label
                    for expected_label, actual_label in zip(expected, actual, strict=True)
                    if expected_label == label
                ]
            )
            for label in ACTIONS
        },
    }


def _compare_methods(
    expected: Sequence[str], model_outcomes: Sequence[DecisionOutcome], rule_outcomes: Sequence[DecisionOutcome]
) -> dict[str, Figure | None]:
    """Return the differences of two ways on the same cases, by paired bootstrap."""
    actions = [[outcome.action for outcome in outcomes] for outcomes in (model_outcomes, rule_outcomes)]
    differences: dict[str, Figure | None] = {"macro_f1": macro_f1s(expected, *actions)}
    for name, field in _RATES.items():
        pairs = [
            (getattr(model, field), getattr(rules, field))
            for model, rules in zip(model_outcomes, rule_outcomes, strict=True)
        ]
        values = [(float(model), float(rules)) for model, rules in pairs if model is not None and rules is not None]
        differences[name] = difference(*map(list, zip(*values, strict=True))) if values else None
    return differences


def macro_f1s(expected: Sequence[str], actual: Sequence[str], against: Sequence[str] = ()) -> Figure:
    """Return macro-F1 over the expected actions with its 95 % interval, or the difference to `against`.

    Resampling the cases is equivalent to resampling the counts of each combination of expected and actual action.
    """
    methods = [actual, against] if against else [actual]
    cells = sorted(set(zip(expected, *methods, strict=True)))
    counts = np.array(
        [sum(combination == cell for combination in zip(expected, *methods, strict=True)) for cell in cells]
    )
    samples = np.random.default_rng(SEED).multinomial(len(expected), counts / counts.sum(), size=DRAWS)
    labels = sorted(set(expected))

    def mean_f1(position: int, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(np.mean([_f1(cells, position, label, numbers) for label in labels], axis=0))

    all_counts = np.vstack([counts, samples])
    values = mean_f1(1, all_counts) - (mean_f1(2, all_counts) if against else 0.0)
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Figure(float(values[0]), float(low), float(high))


def _f1(
    cells: Sequence[Sequence[str]], position: int, label: str, numbers: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    expected = np.array([cell[0] == label for cell in cells])
    actual = np.array([cell[position] == label for cell in cells])
    true_positives, predicted_and_expected = (
        numbers @ (expected & actual),
        numbers @ expected.astype(int) + numbers @ actual.astype(int),
    )
    return np.asarray(
        np.divide(
            2.0 * true_positives, predicted_and_expected, out=np.zeros(len(numbers)), where=predicted_and_expected > 0
        )
    )


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_INTRODUCTION = (
    "A statement adds a memory (add), replaces one (update), ends one (delete), or is known already (noop). The"
    " keeper holds the memory in question, possibly among others; then it gets the new fact, or the message. Its"
    " decision is judged by its effect. Brackets hold 95 % bootstrap intervals over the cases.",
    "Right target: share of actions on a memory that chose the right one. Lost updates: corrections and retractions"
    " after which the new value is missing or the old one is left. False overwrites: a valid memory was replaced or"
    " removed. False merges: a new fact was taken for a known one.",
)
_METHODS = {_RULES: "rules", _MODEL: "the model"}
_FIGURES = {
    "macro_f1": "macro-F1",
    "target_accuracy": "right target",
    "lost_updates": "lost updates",
    "false_overwrites": "false overwrites",
    "false_merges": "false merges",
}
_NOTE = "Macro-F1 covers those of add, update, delete and noop that occur as labels in the set."


def _list_tables(case_sets: Mapping[str, Mapping[str, Any]], compared: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    rows: list[Sequence[Cell]] = [
        [name, label, figures["cases"], *(figures[method][figure] for figure in _FIGURES)]
        for name, figures in case_sets.items()
        for method, label in _METHODS.items()
        if method in figures
    ]
    shares = [Column(label, "%") for label in _FIGURES.values()]
    columns = (Column("set"), Column("decided by"), Column("cases"), *shares)
    tables = [Table("Decisions by set", columns, rows, _NOTE)]
    if differences := {name: figures["difference"] for name, figures in case_sets.items() if "difference" in figures}:
        signed = {name: Column(label, "±%") for name, label in _FIGURES.items()}
        title = "Difference of model and rules on the same cases"
        tables.append(Table.of(title, "set", signed, differences, "By paired bootstrap."))
    return [*tables, *duplicates.list_tables(compared)]
