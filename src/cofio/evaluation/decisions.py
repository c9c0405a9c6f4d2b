"""Decisions: whether a statement adds a memory, updates one, deletes one, or is known already (noop).

    Case ─ a keeper with the known memories ─ statement ─▶ its actions ─▶ given, lost, overwritten ─▶ Report

A fact is passed verbatim, so that the decision is measured and not the extraction; a message is learned from as usual.
Each case has a project of its own, so that cases do not interfere. The keeper decides by rules and, if a model is
configured, also by the model, on the same cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import CofioError, Misconfigured
from cofio.evaluation import duplicates
from cofio.evaluation.metrics import DRAWS, SEED, Figure, difference, interval
from cofio.evaluation.pairs import ACTIONS, PairCase, PairCases, read, sampled, stated
from cofio.evaluation.report import Cell, Column, Report, Table
from cofio.models.exchange import LearningResult
from cofio.models.memory import Fact
from cofio.ports import LLM, Completion, Embedder, Health, Matrix, Profile, Vector
from cofio.settings import Settings

Progress: TypeAlias = Callable[[int, int], object]  # (done, total)

_AT_ONCE = 250  # cases that share a store
_NONE = "none"  # no action
_GIVEN = (*ACTIONS, _NONE)
_RULES, _MODEL = "rules", "model"
RATES = ("target_accuracy", "lost_updates", "false_overwrites", "false_merges")


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """Result of a case; fields are None if they do not apply."""

    given: str
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
    command = " ".join(["cofio eval decisions", *(path.name for path in files)])
    sets = _number_repeated([read(path) for path in files])
    return reported(sets, settings, llm, sample=sample, embedder=embedder, command=command, progress=progress)


def reported(
    sets: Sequence[PairCases],
    settings: Settings | None = None,
    llm: LLM | None = None,
    *,
    sample: int | None = None,
    embedder: Embedder | None = None,
    command: str = "cofio eval decisions",
    progress: Progress = lambda *_: None,
) -> Report:
    """Return the report for parsed cases, or for a sample of each set."""
    settings = settings or Settings.load()
    chosen = [sampled(case_set, sample) if sample else case_set for case_set in sets]
    chosen = [case_set for cases in chosen for case_set in (cases, *stated(cases))]
    pool = _KeeperPool(settings, embedder or bootstrap.make_embedder(settings), llm)
    results: list[_DecisionResults] = []
    compared: list[duplicates.ComparedPairs] = []
    for number, cases in enumerate(chosen):
        progress(number, len(chosen))
        results.append(_DecisionResults(cases, {way: pool.decided(cases, way) for way in pool.ways}))
        compared += duplicates.compared(cases, pool.holding)
    return _report(results, compared, pool, command)


def _number_repeated(sets: Sequence[PairCases]) -> list[PairCases]:
    """Return the sets with unique names: a repeated name gets a number."""
    renamed: list[PairCases] = []
    for case_set in sets:
        namesakes = sum(other.name.partition(" ")[0] == case_set.name for other in renamed)
        renamed.append(replace(case_set, name=f"{case_set.name} {namesakes + 1}") if namesakes else case_set)
    return renamed


# ── asking the keeper ─────────────────────────────────────────────────────────────────────────────────────────────────


class _KeeperPool:
    """Factory of keepers on temporary stores, with the given settings; every text is embedded once."""

    def __init__(self, settings: Settings, embedder: Embedder, llm: LLM | None) -> None:
        self._settings = replace(settings, extract_provider="")
        self._embedder = _CachingEmbedder(embedder)
        self.llm = llm or _load_model(settings, embedder)
        self.ways = (_RULES, _MODEL) if self.llm else (_RULES,)

    def decided(self, cases: PairCases, way: str) -> list[DecisionOutcome]:
        """Return the result of each case, in order."""
        behind = self.llm if way == _MODEL else None
        self._embedder.prepare(text for case in cases.cases if not case.spoken for text in (*case.known, case.new))
        spoken = [case for case in cases.cases if case.spoken]
        stated = [case for case in cases.cases if not case.spoken]
        outcomes = {case.id: outcome for case, outcome in self._decide_spoken(spoken, behind)}
        outcomes |= {case.id: outcome for case, outcome in self._decide_stated(stated, _VerbatimLLM(behind))}
        return [outcomes[case.id] for case in cases.cases]

    def _decide_stated(
        self, cases: Sequence[PairCase], reader: _VerbatimLLM
    ) -> Iterator[tuple[PairCase, DecisionOutcome]]:
        for batch in _split_cases(cases):
            with self.holding([(case.id, text) for case in batch for text in case.known], llm=reader) as (keeper, ids):
                first = 0
                for case in batch:
                    known_ids = ids[first : first + len(case.known)]
                    first += len(case.known)
                    reader.fact = case.new
                    done = keeper.extract(case.new, project=case.id, by="eval")
                    yield case, _judge_outcome(case, known_ids, done)

    def _decide_spoken(self, cases: Sequence[PairCase], llm: LLM | None) -> Iterator[tuple[PairCase, DecisionOutcome]]:
        for batch in _split_cases(cases):
            with self.holding([], llm=llm) as (keeper, _):
                for case in batch:
                    known_ids = _find_added(_learn(keeper, case.known[0], case.id))
                    yield case, _judge_outcome(case, known_ids, _learn(keeper, case.new, case.id))

    @contextmanager
    def holding(
        self, facts: Sequence[tuple[str, str]], *, llm: LLM | None = None
    ) -> Iterator[tuple[Keeper, list[int]]]:
        """Yield a keeper that holds these (project, text) facts, and their ids."""
        self._embedder.prepare(text for _, text in facts)
        with TemporaryDirectory() as folder:
            settings = replace(self._settings, home=Path(folder), store=f"sqlite://{folder}/eval.db")
            with bootstrap.keeper(settings, embedder=self._embedder, llm=llm) as keeper:
                done = keeper.add_all([Fact(text=text, project=name) for name, text in facts], dedup=False)
                yield keeper, [change.memory_id for change in done]


class _VerbatimLLM:
    """Model that extracts a given fact verbatim. Decisions are delegated to the model behind it, or to the rules."""

    def __init__(self, behind: LLM | None) -> None:
        self._behind = behind
        self.fact = ""
        self.provider_name = behind.provider_name if behind else "none"
        self.model = behind.model if behind else "none"
        self.profile = behind.profile if behind else Profile(json_schema=True, reconciles=False, context=100_000)

    @property
    def supports_audn(self) -> bool:
        return self._behind is not None and self._behind.supports_audn

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        if self.fact:
            fact, self.fact = {"text": self.fact, "category": "detail", "kind": "other"}, ""
            return Completion(json.dumps({"facts": [fact]}))
        assert self._behind is not None  # without a model, no decision is requested
        return self._behind.complete(system, user, schema=schema)

    def health_check(self) -> Health:
        return Health(True)


class _CachingEmbedder:
    """Embedder with a cache: every text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[tuple[str, str], Vector] = {}
        self.signature, self.dimension, self.floor = embedder.signature, embedder.dimension, embedder.floor

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed all uncached texts in one call."""
        missing = sorted({text for text in texts if (text, "document") not in self._known})
        if missing:
            rows = self._embedder.embed(missing, "document")
            self._known.update(((text, "document"), row) for text, row in zip(missing, rows, strict=True))

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        missing = sorted({text for text in texts if (text, kind) not in self._known})
        if missing:
            rows = self._embedder.embed(missing, kind)
            self._known.update(((text, kind), row) for text, row in zip(missing, rows, strict=True))
        return np.array([self._known[text, kind] for text in texts], dtype=np.float32).reshape(-1, self.dimension)


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


def _find_added(done: LearningResult) -> list[int]:
    """Return the added memories that are still live."""
    added = [
        action["id"] if action["action"] == "add" else action["new_id"] for action in done.actions if _is_write(action)
    ]
    removed = {action["old_id"] for action in done.actions if action["action"] in ("update", "delete")}
    return [memory_id for memory_id in added if memory_id not in removed]


def _is_write(action: Mapping[str, Any]) -> bool:
    return action["action"] in ("add", "update")


def _judge_outcome(case: PairCase, known: Sequence[int], done: LearningResult) -> DecisionOutcome:
    """Return the result by its effect: a deletion counts as one even if a line remains that states it."""
    removed = {action["old_id"] for action in done.actions if action["action"] in ("update", "delete")} & set(known)
    repeated = {action["existing_id"] for action in done.actions if action["action"] == "noop"} & set(known)
    is_added = bool(_find_added(done))
    if removed:
        action_given = "update" if is_added and case.wanted != "delete" else "delete"
    else:
        action_given = "add" if is_added else "noop" if repeated else _NONE
    targets = set(known) if case.spoken else set(known[:1])
    touched = removed or repeated
    lost = case.wanted in ("update", "delete") and (action_given != case.wanted or not removed & targets)
    others = set(known) - (targets if case.wanted in ("update", "delete") else set())
    return DecisionOutcome(
        action_given,
        right_target=touched <= targets
        if touched and case.wanted != "add" and len(known) > 1 and not case.spoken
        else None,
        lost=lost if case.wanted in ("update", "delete") else None,
        overwrote=bool(removed & others) if others else None,
        merged=action_given == "noop" if case.wanted != "noop" else None,
    )


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _DecisionResults:
    """Set of cases, with the results of each way."""

    cases: PairCases
    by: Mapping[str, Sequence[DecisionOutcome]]

    @property
    def wanted(self) -> list[str]:
        return [case.wanted for case in self.cases.cases]

    def values(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"cases": len(self.cases.cases), "wanted": _count_labels(self.wanted)}
        figures |= {way: _compute_figures(self.wanted, outcomes) for way, outcomes in self.by.items()}
        if _MODEL in self.by:
            figures["difference"] = _compare_ways(self.wanted, self.by[_MODEL], self.by[_RULES])
        return figures


def _count_labels(labels: Sequence[str]) -> dict[str, int]:
    return {label: list(labels).count(label) for label in _GIVEN if label in labels}


def _compute_figures(expected: Sequence[str], outcomes: Sequence[DecisionOutcome]) -> dict[str, Any]:
    actual = [outcome.given for outcome in outcomes]
    rates = {name: _compute_rate(outcomes, name) for name in RATES}
    return {
        "macro_f1": macro_f1s(expected, actual).as_dict(),
        **{name: None if rate is None else rate.as_dict() for name, rate in rates.items()},
        "matrix": {
            label: _count_labels([g for w, g in zip(expected, actual, strict=True) if w == label]) for label in ACTIONS
        },
    }


_ASKED = {
    "target_accuracy": "right_target",
    "lost_updates": "lost",
    "false_overwrites": "overwrote",
    "false_merges": "merged",
}


def _compute_rate(outcomes: Sequence[DecisionOutcome], name: str) -> Figure | None:
    """Return the rate over the cases to which it applies; None without such cases."""
    values = [float(value) for outcome in outcomes if (value := getattr(outcome, _ASKED[name])) is not None]
    return interval(values) if values else None


def _compare_ways(
    expected: Sequence[str], ours: Sequence[DecisionOutcome], theirs: Sequence[DecisionOutcome]
) -> dict[str, Any]:
    """Return the differences of two ways on the same cases, by paired bootstrap."""
    differences: dict[str, Any] = {
        "macro_f1": macro_f1s(
            expected, [outcome.given for outcome in ours], [outcome.given for outcome in theirs]
        ).as_dict()
    }
    for name in RATES:
        pairs = [
            (getattr(our, _ASKED[name]), getattr(their, _ASKED[name])) for our, their in zip(ours, theirs, strict=True)
        ]
        both = [(float(our), float(their)) for our, their in pairs if our is not None and their is not None]
        differences[name] = difference(*map(list, zip(*both, strict=True))).as_dict() if both else None
    return differences


def macro_f1s(expected: Sequence[str], actual: Sequence[str], against: Sequence[str] = ()) -> Figure:
    """Return macro-F1 over the expected actions with its 95 % interval, or the difference to `against`.

    Resampling the cases is equivalent to resampling the counts of each combination of expected and actual action.
    """
    ways = [actual, against] if against else [actual]
    cells = sorted(set(zip(expected, *ways, strict=True)))
    counts = np.array([sum(combination == cell for combination in zip(expected, *ways, strict=True)) for cell in cells])
    samples = np.random.default_rng(SEED).multinomial(len(expected), counts / counts.sum(), size=DRAWS)
    labels = sorted(set(expected))

    def mean_f1(at: int, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(np.mean([_f1(cells, at, label, numbers) for label in labels], axis=0))

    all_counts = np.vstack([counts, samples])
    values = mean_f1(1, all_counts) - (mean_f1(2, all_counts) if against else 0.0)
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Figure(float(values[0]), float(low), float(high))


def _f1(cells: Sequence[Sequence[str]], at: int, label: str, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    expected = np.array([cell[0] == label for cell in cells])
    actual = np.array([cell[at] == label for cell in cells])
    both, either = numbers @ (expected & actual), numbers @ expected.astype(int) + numbers @ actual.astype(int)
    return np.asarray(np.divide(2.0 * both, either, out=np.zeros(len(numbers)), where=either > 0))


# ── the report ────────────────────────────────────────────────────────────────────────────────────────────────────────

_SAYS = (
    "A statement adds a memory (add), replaces one (update), ends one (delete), or is known already (noop). The keeper"
    " holds the memory in question, possibly among others; then it gets the new fact, or the message. Its decision is"
    " judged by its effect. Brackets hold 95 % intervals, by bootstrap over the cases.",
    "Right target: share of actions on a memory that chose the right one. Lost updates: corrections and retractions"
    " after which the new value is missing or the old one is left. False overwrites: a valid memory was replaced or"
    " removed. False merges: a new fact was taken for known.",
)


def _report(
    results: Sequence[_DecisionResults], compared: Sequence[duplicates.ComparedPairs], pool: _KeeperPool, command: str
) -> Report:
    values = {
        "sets": {result.cases.name: result.values() for result in results},
        "duplicates": {comparison.name: comparison.values() for comparison in compared},
        "model": {"provider": pool.llm.provider_name, "model": pool.llm.model} if pool.llm else None,
        "per_case": {result.cases.name: _list_actions(result) for result in results},
    }
    tables = [
        _make_action_table(results),
        *([_make_difference_table(results)] if pool.llm else []),
        *duplicates.tables(compared),
    ]
    return Report(
        "decisions",
        "Decisions: new, known or a correction",
        command,
        _SAYS,
        values,
        tables,
        duplicates.plots(compared),
    )


def _list_actions(result: _DecisionResults) -> dict[str, dict[str, str]]:
    return {
        way: {case.id: outcome.given for case, outcome in zip(result.cases.cases, outcomes, strict=True)}
        for way, outcomes in result.by.items()
    }


_COLUMNS = (
    Column("right target", "%"),
    Column("lost updates", "%"),
    Column("false overwrites", "%"),
    Column("false merges", "%"),
)


def _make_action_table(results: Sequence[_DecisionResults]) -> Table:
    rows: list[Sequence[Cell]] = []
    for result in results:
        for way, outcomes in result.by.items():
            score = macro_f1s(result.wanted, [outcome.given for outcome in outcomes])
            rates = [_compute_rate(outcomes, name) for name in RATES]
            rows.append([result.cases.name, _WAYS[way], len(outcomes), score, *rates])
    columns = (Column("cases"), Column("decided by"), Column("number"), Column("macro-F1", "%"), *_COLUMNS)
    return Table("What became of what was said", columns, rows, _NOTE)


_WAYS = {_RULES: "rules", _MODEL: "the model"}
_NOTE = "Macro-F1 covers those of add, update, delete and noop that occur as labels in the set."


def _make_difference_table(results: Sequence[_DecisionResults]) -> Table:
    rows: list[Sequence[Cell]] = []
    for result in results:
        differences = _compare_ways(result.wanted, result.by[_MODEL], result.by[_RULES])
        rows.append(
            [
                result.cases.name,
                *(Figure(**differences[name]) if differences[name] else None for name in ("macro_f1", *RATES)),
            ]
        )
    columns = (
        Column("cases"),
        Column("macro-F1", "±%"),
        *(Column(column.name, "±%") for column in _COLUMNS),
    )
    return Table("The model less the rules, on the same cases", columns, rows, "By paired bootstrap.")
