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
    sets = _told_apart([read(path) for path in files])
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
    chosen = [sampled(each, sample) if sample else each for each in sets]
    chosen = [each for cases in chosen for each in (cases, *stated(cases))]
    desk = _KeeperPool(settings, embedder or bootstrap.make_embedder(settings), llm)
    found: list[_DecisionResults] = []
    compared: list[duplicates.ComparedPairs] = []
    for number, cases in enumerate(chosen):
        progress(number, len(chosen))
        found.append(_DecisionResults(cases, {way: desk.decided(cases, way) for way in desk.ways}))
        compared += duplicates.compared(cases, desk.holding)
    return _report(found, compared, desk, command)


def _told_apart(sets: Sequence[PairCases]) -> list[PairCases]:
    """Return the sets with unique names: a repeated name gets a number."""
    named: list[PairCases] = []
    for each in sets:
        namesakes = sum(other.name.partition(" ")[0] == each.name for other in named)
        named.append(replace(each, name=f"{each.name} {namesakes + 1}") if namesakes else each)
    return named


# ── asking the keeper ─────────────────────────────────────────────────────────────────────────────────────────────────


class _KeeperPool:
    """Factory of keepers on temporary stores, with the given settings; every text is embedded once."""

    def __init__(self, settings: Settings, embedder: Embedder, llm: LLM | None) -> None:
        self._settings = replace(settings, extract_provider="")
        self._embedder = _CachingEmbedder(embedder)
        self.llm = llm or _configured(settings, embedder)
        self.ways = (_RULES, _MODEL) if self.llm else (_RULES,)

    def decided(self, cases: PairCases, way: str) -> list[DecisionOutcome]:
        """Return the result of each case, in order."""
        behind = self.llm if way == _MODEL else None
        self._embedder.prepare(text for case in cases.cases if not case.spoken for text in (*case.known, case.new))
        spoken = [case for case in cases.cases if case.spoken]
        stated = [case for case in cases.cases if not case.spoken]
        found = {case.id: outcome for case, outcome in self._told(spoken, behind)}
        found |= {case.id: outcome for case, outcome in self._stated(stated, _VerbatimLLM(behind))}
        return [found[case.id] for case in cases.cases]

    def _stated(self, cases: Sequence[PairCase], reader: _VerbatimLLM) -> Iterator[tuple[PairCase, DecisionOutcome]]:
        for some in _portions(cases):
            with self.holding([(case.id, text) for case in some for text in case.known], llm=reader) as (keeper, ids):
                first = 0
                for case in some:
                    known = ids[first : first + len(case.known)]
                    first += len(case.known)
                    reader.fact = case.new
                    done = keeper.extract(case.new, project=case.id, by="eval")
                    yield case, _outcome(case, known, done)

    def _told(self, cases: Sequence[PairCase], llm: LLM | None) -> Iterator[tuple[PairCase, DecisionOutcome]]:
        for some in _portions(cases):
            with self.holding([], llm=llm) as (keeper, _):
                for case in some:
                    known = _live(_learned(keeper, case.known[0], case.id))
                    yield case, _outcome(case, known, _learned(keeper, case.new, case.id))

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
            told, self.fact = {"text": self.fact, "category": "detail", "kind": "other"}, ""
            return Completion(json.dumps({"facts": [told]}))
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


def _configured(settings: Settings, embedder: Embedder) -> LLM | None:
    """Return the configured model. Raise Misconfigured if it is not available."""
    if not settings.extract_provider:
        return None
    with TemporaryDirectory() as folder:
        named = replace(settings, home=Path(folder), store=f"sqlite://{folder}/eval.db")
        with bootstrap.keeper(named, embedder=embedder) as keeper:
            if keeper.llm is None:
                said = str(keeper.extraction().get("problem") or "The model is not available.")
                raise Misconfigured(said, "Set EXTRACT_PROVIDER to an available one, or leave it empty.")
            return keeper.llm


def _portions(cases: Sequence[PairCase]) -> Iterator[Sequence[PairCase]]:
    yield from (cases[start : start + _AT_ONCE] for start in range(0, len(cases), _AT_ONCE))


def _learned(keeper: Keeper, said: str, project: str) -> LearningResult:
    try:
        return keeper.learn(said, project=project, by="eval")
    except CofioError as error:  # an unusable reply: nothing was learned
        return LearningResult(reason=error.message)


# ── results of cases ──────────────────────────────────────────────────────────────────────────────────────────────────


def _live(done: LearningResult) -> list[int]:
    """Return the added memories that are still live."""
    came = [
        action["id"] if action["action"] == "add" else action["new_id"] for action in done.actions if _brings(action)
    ]
    gone = {action["old_id"] for action in done.actions if action["action"] in ("update", "delete")}
    return [each for each in came if each not in gone]


def _brings(action: Mapping[str, Any]) -> bool:
    return action["action"] in ("add", "update")


def _outcome(case: PairCase, known: Sequence[int], done: LearningResult) -> DecisionOutcome:
    """Return the result by its effect: a deletion counts as one even if a line remains that states it."""
    gone = {action["old_id"] for action in done.actions if action["action"] in ("update", "delete")} & set(known)
    noted = {action["existing_id"] for action in done.actions if action["action"] == "noop"} & set(known)
    came = bool(_live(done))
    if gone:
        given = "update" if came and case.wanted != "delete" else "delete"
    else:
        given = "add" if came else "noop" if noted else _NONE
    meant = set(known) if case.spoken else set(known[:1])
    acted = gone or noted
    lost = case.wanted in ("update", "delete") and (given != case.wanted or not gone & meant)
    still = set(known) - (meant if case.wanted in ("update", "delete") else set())
    return DecisionOutcome(
        given,
        right_target=acted <= meant if acted and case.wanted != "add" and len(known) > 1 and not case.spoken else None,
        lost=lost if case.wanted in ("update", "delete") else None,
        overwrote=bool(gone & still) if still else None,
        merged=given == "noop" if case.wanted != "noop" else None,
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
        told: dict[str, Any] = {"cases": len(self.cases.cases), "wanted": _counted(self.wanted)}
        told |= {way: _figures(self.wanted, outcomes) for way, outcomes in self.by.items()}
        if _MODEL in self.by:
            told["difference"] = _differences(self.wanted, self.by[_MODEL], self.by[_RULES])
        return told


def _counted(labels: Sequence[str]) -> dict[str, int]:
    return {each: list(labels).count(each) for each in _GIVEN if each in labels}


def _figures(wanted: Sequence[str], outcomes: Sequence[DecisionOutcome]) -> dict[str, Any]:
    given = [outcome.given for outcome in outcomes]
    rates = {name: _rate(outcomes, name) for name in RATES}
    return {
        "macro_f1": macro_f1s(wanted, given).as_dict(),
        **{name: None if each is None else each.as_dict() for name, each in rates.items()},
        "matrix": {each: _counted([g for w, g in zip(wanted, given, strict=True) if w == each]) for each in ACTIONS},
    }


_ASKED = {
    "target_accuracy": "right_target",
    "lost_updates": "lost",
    "false_overwrites": "overwrote",
    "false_merges": "merged",
}


def _rate(outcomes: Sequence[DecisionOutcome], name: str) -> Figure | None:
    """Return the rate over the cases to which it applies; None without such cases."""
    values = [float(value) for outcome in outcomes if (value := getattr(outcome, _ASKED[name])) is not None]
    return interval(values) if values else None


def _differences(
    wanted: Sequence[str], ours: Sequence[DecisionOutcome], theirs: Sequence[DecisionOutcome]
) -> dict[str, Any]:
    """Return the differences of two ways on the same cases, by paired bootstrap."""
    told: dict[str, Any] = {
        "macro_f1": macro_f1s(wanted, [each.given for each in ours], [each.given for each in theirs]).as_dict()
    }
    for name in RATES:
        pairs = [
            (getattr(one, _ASKED[name]), getattr(two, _ASKED[name])) for one, two in zip(ours, theirs, strict=True)
        ]
        both = [(float(one), float(two)) for one, two in pairs if one is not None and two is not None]
        told[name] = difference(*map(list, zip(*both, strict=True))).as_dict() if both else None
    return told


def macro_f1s(wanted: Sequence[str], given: Sequence[str], against: Sequence[str] = ()) -> Figure:
    """Return macro-F1 over the wanted actions with its 95 % interval, or the difference to `against`.

    Resampling the cases is equivalent to resampling the counts of each combination of wanted and given.
    """
    ways = [given, against] if against else [given]
    cells = sorted(set(zip(wanted, *ways, strict=True)))
    counts = np.array([sum(each == cell for each in zip(wanted, *ways, strict=True)) for cell in cells])
    drawn = np.random.default_rng(SEED).multinomial(len(wanted), counts / counts.sum(), size=DRAWS)
    labels = sorted(set(wanted))

    def told(at: int, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(np.mean([_f1(cells, at, label, numbers) for label in labels], axis=0))

    every = np.vstack([counts, drawn])
    values = told(1, every) - (told(2, every) if against else 0.0)
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Figure(float(values[0]), float(low), float(high))


def _f1(cells: Sequence[Sequence[str]], at: int, label: str, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    meant = np.array([cell[0] == label for cell in cells])
    told = np.array([cell[at] == label for cell in cells])
    both, either = numbers @ (meant & told), numbers @ meant.astype(int) + numbers @ told.astype(int)
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
    found: Sequence[_DecisionResults], compared: Sequence[duplicates.ComparedPairs], desk: _KeeperPool, command: str
) -> Report:
    values = {
        "sets": {each.cases.name: each.values() for each in found},
        "duplicates": {each.name: each.values() for each in compared},
        "model": {"provider": desk.llm.provider_name, "model": desk.llm.model} if desk.llm else None,
        "per_case": {each.cases.name: _given(each) for each in found},
    }
    tables = [_actions(found), *([_differ(found)] if desk.llm else []), *duplicates.tables(compared)]
    return Report(
        "decisions",
        "Decisions: new, known or a correction",
        command,
        _SAYS,
        values,
        tables,
        duplicates.plots(compared),
    )


def _given(found: _DecisionResults) -> dict[str, dict[str, str]]:
    return {
        way: {case.id: outcome.given for case, outcome in zip(found.cases.cases, outcomes, strict=True)}
        for way, outcomes in found.by.items()
    }


_COLUMNS = (
    Column("right target", "%"),
    Column("lost updates", "%"),
    Column("false overwrites", "%"),
    Column("false merges", "%"),
)


def _actions(found: Sequence[_DecisionResults]) -> Table:
    rows: list[Sequence[Cell]] = []
    for each in found:
        for way, outcomes in each.by.items():
            score = macro_f1s(each.wanted, [one.given for one in outcomes])
            rates = [_rate(outcomes, name) for name in RATES]
            rows.append([each.cases.name, _WAYS[way], len(outcomes), score, *rates])
    columns = (Column("cases"), Column("decided by"), Column("number"), Column("macro-F1", "%"), *_COLUMNS)
    return Table("What became of what was said", columns, rows, _NOTE)


_WAYS = {_RULES: "rules", _MODEL: "the model"}
_NOTE = "Macro-F1 covers those of add, update, delete and noop that occur as labels in the set."


def _differ(found: Sequence[_DecisionResults]) -> Table:
    rows: list[Sequence[Cell]] = []
    for each in found:
        told = _differences(each.wanted, each.by[_MODEL], each.by[_RULES])
        rows.append([each.cases.name, *(Figure(**told[name]) if told[name] else None for name in ("macro_f1", *RATES))])
    columns = (
        Column("cases"),
        Column("macro-F1", "±%"),
        *(Column(each.name, "±%") for each in _COLUMNS),
    )
    return Table("The model less the rules, on the same cases", columns, rows, "By paired bootstrap.")
