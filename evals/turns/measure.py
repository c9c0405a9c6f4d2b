"""Single turns: the facts kept of each, against a person's label.

    Turn ─ a keeper with the facts known before ─ learn ─▶ Outcome ─ compared with the label ─▶ Report

Three results are measured: the patterns alone (a fact was found), the gate (the turn was not skipped), and the whole
pipeline of `keeper.learn` without a model: the facts stored, the memories replaced, and whether both are as labelled.
If a model is configured, the pipeline is measured a second time with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import InvalidInput, Unavailable, Unreadable
from cofio.models.exchange import LearningResult
from cofio.models.memory import Fact
from cofio.ports import LLM, Embedder
from cofio.settings import Settings
from cofio_eval.metrics import DRAWS, SEED, Figure
from cofio_eval.report import Cell, Column, Report, Table
from cofio_eval.statements import MIN_SHARE, states_fact
from evals.turns.labels import LABELS, SPLITS, LabelledTurn, read

Sums: TypeAlias = npt.NDArray[np.float64]
Figures: TypeAlias = Mapping[str, Figure]
Progress: TypeAlias = Callable[[int, int], None]  # (done, total)


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """Result of a turn."""

    turn: LabelledTurn
    read: bool  # the patterns found a fact
    passed: bool  # the gate did not skip it
    label: str  # the one that corresponds to the actions
    stored: tuple[str, ...] = ()  # texts of the new memories
    right_target: bool = False  # the replaced memory and the new fact are as labelled
    overwrote: bool = False  # a valid memory was archived
    failed: str = ""  # error of the model call

    @property
    def leaked(self) -> bool:
        return bool(self.turn.secret) and any(self.turn.secret in text for text in self.stored)


def evaluate(
    file: Path,
    settings: Settings | None = None,
    llm: LLM | None = None,
    *,
    split: str = "",
    embedder: Embedder | None = None,
    progress: Progress = lambda _done, _all: None,
) -> Report:
    """Return a report on the turns of this file, without a model and, if one is given or configured, with it."""
    turns = [turn for turn in read(file) if not split or turn.split == split]
    if not turns:
        raise InvalidInput(f"{file} has no turn of the split {split!r}.", "Omit --split to measure all of them.")
    settings = settings or Settings.load()
    embedder = embedder or bootstrap.make_embedder(settings)
    run_count = 2 if llm or settings.extract_provider else 1

    def step(so_far: int) -> None:
        progress(so_far, run_count * len(turns))

    without_llm = learn(turns, replace(settings, extract_provider=""), embedder, step=step)
    with_llm = learn(turns, settings, embedder, llm, lambda so_far: step(len(turns) + so_far)) if run_count == 2 else []
    about = {"embedder": embedder.signature, "model": _name_model(settings, llm)}
    return _report(file, split, without_llm, with_llm, about)


def _name_model(settings: Settings, llm: LLM | None) -> str:
    """Return the name of the model; "" without one."""
    return llm.model if llm else " ".join(filter(None, (settings.extract_provider, settings.extract_model)))


def learn(
    turns: Iterable[LabelledTurn],
    settings: Settings,
    embedder: Embedder,
    llm: LLM | None = None,
    step: Callable[[int], None] = lambda _done: None,
) -> list[TurnOutcome]:
    """Return the result of each turn in a temporary store that holds only the facts known before."""
    outcomes = []
    for turn in turns:
        with TemporaryDirectory() as folder:
            temporary = replace(settings, home=Path(folder), store=f"sqlite://{folder}/turn.db")
            with bootstrap.keeper(temporary, embedder=embedder, llm=llm) as keeper:
                outcomes.append(_learn_turn(turn, keeper))
        step(len(outcomes))
    return outcomes


def _learn_turn(turn: LabelledTurn, keeper: Keeper) -> TurnOutcome:
    known_ids = [change.memory_id for change in keeper.add_all([Fact(text=text) for text in turn.before], dedup=False)]
    try:
        result = keeper.learn([{"role": turn.role, "content": turn.text}])
    except (Unavailable, Unreadable) as error:  # the model is down, or its reply is unusable
        return TurnOutcome(turn, read=False, passed=False, label="skip", failed=str(error))
    live = {item.id: item.text for item in keeper.list(limit=200).memories}
    gone = {text for memory, text in zip(known_ids, turn.before, strict=True) if memory not in live}
    stored = tuple(text for memory, text in live.items() if memory not in known_ids)
    return TurnOutcome(
        turn,
        read=any(sentence.way == "pattern" for sentence in result.sentences),
        passed=any(sentence.way != "skip" for sentence in result.sentences),
        label=_to_label(result),
        stored=stored,
        right_target=gone == {turn.replaces} and _states_facts(turn, stored),
        overwrote=bool(gone - {turn.replaces}),
    )


def _states_facts(turn: LabelledTurn, stored: Sequence[str]) -> bool:
    """Return whether the stored texts together state every fact of the turn."""
    return all(states_fact(" ".join(stored), fact, turn.replaces) for fact in turn.facts)


def _to_label(result: LearningResult) -> str:
    """Return the label that corresponds to the actions."""
    if result.count("update") or result.count("delete"):
        return "update"
    return "store" if result.count("add") else "skip"


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_kept(outcomes: Sequence[TurnOutcome], is_kept: Callable[[TurnOutcome], bool]) -> Figures:
    """Return precision, recall and F1 of the turns kept."""
    rows = [(is_kept(outcome) and outcome.turn.is_news, is_kept(outcome), outcome.turn.is_news) for outcome in outcomes]
    return {name: _bootstrap(rows, formula) for name, formula in _KEPT_FORMULAS.items()}


def measure_facts(outcomes: Sequence[TurnOutcome]) -> Figures:
    """Return precision and recall of the facts, and their F1.

    The stored texts of a turn are taken together, so that a fact in two parts counts.
    """
    rows = []
    for outcome in outcomes:
        stored = " ".join(outcome.stored)
        correct = [text for text in outcome.stored if _is_meant(text, outcome.turn)]
        stated = [fact for fact in outcome.turn.facts if states_fact(stored, fact, outcome.turn.replaces)]
        rows.append((len(correct), len(outcome.stored), len(stated), len(outcome.turn.facts)))
    return {name: _bootstrap(rows, formula) for name, formula in _FACT_FORMULAS.items()}


def measure_labels(outcomes: Sequence[TurnOutcome]) -> Figures:
    """Return the accuracy of the labels, and their macro-F1."""
    rows = [(outcome.label == outcome.turn.label, True) for outcome in outcomes]
    return {"accuracy": _bootstrap(rows, _divide_first_by_second), "macro_f1": _bootstrap(_by_label(outcomes), _macro)}


def measure_targets(outcomes: Sequence[TurnOutcome]) -> Figure:
    """Return the share of updates in which exactly the labelled memory was replaced, by the new fact."""
    rows = [
        (outcome.right_target and outcome.label == "update", True)
        for outcome in outcomes
        if outcome.turn.label == "update"
    ]
    return _bootstrap(rows, _divide_first_by_second)


def _is_meant(text: str, turn: LabelledTurn) -> bool:
    """Return whether a text states one of the facts, or a part of them."""
    part = bool(turn.facts) and states_fact(" ".join(turn.facts), text)
    return part or any(states_fact(text, fact, turn.replaces) for fact in turn.facts)


def _by_label(outcomes: Sequence[TurnOutcome]) -> list[list[bool]]:
    """Return one row per turn: for each label whether it is the right result, the result, and expected."""
    return [
        [
            value
            for label in LABELS
            for value in (o.label == o.turn.label == label, o.label == label, o.turn.label == label)
        ]
        for o in outcomes
    ]


def _bootstrap(rows: Sequence[Sequence[float]], formula: Callable[[Sums], Sums]) -> Figure:
    """Return a figure of the sums of the rows, with its 95 % interval by bootstrap over the rows."""
    if not rows:
        return Figure(0.0, 0.0, 0.0)
    counts = np.asarray(rows, float)
    low, high = np.quantile(formula(_draw_weights(len(counts)) @ counts), (0.025, 0.975))
    return Figure(float(formula(counts.sum(axis=0, keepdims=True))[0]), float(low), float(high))


@cache
def _draw_weights(rows: int) -> Sums:
    """Return how often each draw of the bootstrap takes each row."""
    rng = np.random.default_rng(SEED)
    return rng.multinomial(rows, np.full(rows, 1 / rows), DRAWS).astype(float)


def _divide(part: Sums, total: Sums) -> Sums:
    return np.divide(part, total, out=np.zeros_like(part), where=total > 0)


def _harmonic(precision: Sums, recalled: Sums) -> Sums:
    return _divide(2 * precision * recalled, precision + recalled)


def _divide_first_by_second(sums: Sums) -> Sums:
    return _divide(sums[:, 0], sums[:, 1])


def _divide_first_by_third(sums: Sums) -> Sums:
    return _divide(sums[:, 0], sums[:, 2])


def _divide_third_by_fourth(sums: Sums) -> Sums:
    return _divide(sums[:, 2], sums[:, 3])


def _macro(sums: Sums) -> Sums:
    """Return the mean F1 of the expected labels."""
    f1 = [
        _divide(2 * sums[:, column], sums[:, column + 1] + sums[:, column + 2]) for column in range(0, sums.shape[1], 3)
    ]
    label_count = (sums[:, 2::3] > 0).sum(axis=1).astype(float)
    return _divide(np.sum(f1, axis=0), label_count)


_KEPT_FORMULAS: Mapping[str, Callable[[Sums], Sums]] = {
    "precision": _divide_first_by_second,
    "recall": _divide_first_by_third,
    "f1": lambda sums: _harmonic(_divide_first_by_second(sums), _divide_first_by_third(sums)),
}
_FACT_FORMULAS: Mapping[str, Callable[[Sums], Sums]] = {
    "precision": _divide_first_by_second,
    "recall": _divide_third_by_fourth,
    "f1": lambda sums: _harmonic(_divide_first_by_second(sums), _divide_third_by_fourth(sums)),
}


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(
    file: Path,
    split: str,
    without_llm: Sequence[TurnOutcome],
    with_llm: Sequence[TurnOutcome],
    about: Mapping[str, Any],
) -> Report:
    splits = {"all": list(without_llm), **{name: _filter_split(without_llm, name) for name in SPLITS}}
    splits = {name: group for name, group in splits.items() if group}
    if len(splits) == 2:  # with a single split, "all" is the same
        del splits["all"]
    values: dict[str, Any] = {
        "file": file.name,
        "split": split,
        "turns": len(without_llm),
        "labels": {label: sum(outcome.turn.label == label for outcome in without_llm) for label in LABELS},
        **about,
        **_compute_figures(without_llm),
        "by_split": {name: _compute_figures(group) for name, group in splits.items()},
        "by_role": {
            role: _compute_figures(group) for role, group in _group_by(without_llm, lambda turn: (turn.role,)).items()
        },
        "by_tag": {tag: _count_tag(group) for tag, group in _group_by(without_llm, lambda turn: turn.tags).items()},
        "per_turn": {outcome.turn.id: outcome.label for outcome in without_llm},
        "per_turn_ways": {outcome.turn.id: _name_method(outcome) for outcome in without_llm},
        "with_model": _measure_model(with_llm),
    }
    tables = [
        _kept_table(splits),
        _pipeline_table(splits, with_llm),
        _label_table(without_llm),
        _role_table(without_llm),
    ]
    return Report(
        name="turns",
        title="Hand-labelled turns",
        command=f"python -m evals.turns {file.name}" + (f" --split {split}" if split else ""),
        intro=_INTRODUCTION,
        values=values,
        tables=[*tables, _tag_table(without_llm)],
        closing=_write_closing(without_llm, with_llm),
    )


def _compute_figures(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    """Return all figures of these turns as JSON."""
    unknown = [outcome for outcome in outcomes if not outcome.turn.is_known]
    return {
        "turns": len(outcomes),
        "patterns": _to_dicts(measure_kept(unknown, lambda outcome: outcome.read)),
        "gate": _to_dicts(measure_kept(unknown, lambda outcome: outcome.passed)),
        "pipeline": _measure_pipeline(outcomes),
    }


def _measure_pipeline(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    labels = measure_labels(outcomes)
    return {
        "kept": _to_dicts(measure_kept(outcomes, _is_kept)),
        "label_accuracy": labels["accuracy"].as_dict(),
        "macro_f1": labels["macro_f1"].as_dict(),
        "target_accuracy": measure_targets(outcomes).as_dict(),
        "facts": _to_dicts(measure_facts(outcomes)),
        "confusion": _count_confusion(outcomes),
        "overwrote": sum(outcome.overwrote for outcome in outcomes),
        "secrets": sum(bool(outcome.turn.secret) for outcome in outcomes),
        "secrets_kept": sum(outcome.leaked for outcome in outcomes),
    }


def _measure_model(outcomes: Sequence[TurnOutcome]) -> dict[str, Any] | None:
    if not outcomes:
        return None
    failed = sum(bool(outcome.failed) for outcome in outcomes)
    return {
        **_measure_pipeline(outcomes),
        "failed": failed,
        "per_turn": {outcome.turn.id: outcome.label for outcome in outcomes},
    }


def _count_tag(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    """Return counts instead of intervals, since a tag has few turns."""
    return {
        "turns": len(outcomes),
        "to_keep": sum(outcome.turn.is_news for outcome in outcomes),
        "patterns": sum(outcome.read for outcome in outcomes),
        "gate": sum(outcome.passed for outcome in outcomes),
        "kept": sum(_is_kept(outcome) for outcome in outcomes),
        "label_accuracy": sum(outcome.label == outcome.turn.label for outcome in outcomes) / len(outcomes),
    }


def _count_confusion(outcomes: Sequence[TurnOutcome]) -> dict[str, dict[str, int]]:
    """Return how often each label resulted, by the expected label."""
    pairs = [(outcome.turn.label, outcome.label) for outcome in outcomes]
    return {expected: {actual: pairs.count((expected, actual)) for actual in LABELS} for expected in LABELS}


def _group_by(
    outcomes: Sequence[TurnOutcome], names: Callable[[LabelledTurn], Sequence[str]]
) -> dict[str, list[TurnOutcome]]:
    groups: dict[str, list[TurnOutcome]] = {}
    for outcome in outcomes:
        for name in names(outcome.turn):
            groups.setdefault(name, []).append(outcome)
    return dict(sorted(groups.items()))


def _filter_split(outcomes: Sequence[TurnOutcome], split: str) -> list[TurnOutcome]:
    return [outcome for outcome in outcomes if outcome.turn.split == split]


def _is_kept(outcome: TurnOutcome) -> bool:
    return outcome.label != "skip"


def _name_method(outcome: TurnOutcome) -> str:
    return "pattern" if outcome.read else "model" if outcome.passed else "skip"


def _to_dicts(figures: Figures) -> dict[str, dict[str, float]]:
    return {name: figure.as_dict() for name, figure in figures.items()}


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_THREE = (Column("precision", "%"), Column("recall", "%"), Column("F1", "%"))


def _kept_table(splits: Mapping[str, Sequence[TurnOutcome]]) -> Table:
    rows: list[list[Cell]] = []
    for name, group in splits.items():
        unknown = [outcome for outcome in group if not outcome.turn.is_known]
        for method, figures in (
            ("patterns", measure_kept(unknown, lambda outcome: outcome.read)),
            ("gate", measure_kept(unknown, lambda outcome: outcome.passed)),
            ("pipeline", measure_kept(group, _is_kept)),
        ):
            rows.append([f"{method}, {name}", len(group), *figures.values()])
    return Table(
        "Turns kept",
        (Column("method, split"), Column("turns"), *_THREE),
        rows,
        "A turn counts as kept if the patterns find a fact in it (patterns), if the gate does not skip it (gate), or"
        " if a memory is stored or replaced (pipeline). Known facts are excluded for patterns and gate, which cannot"
        " recognise them.",
    )


def _pipeline_table(splits: Mapping[str, Sequence[TurnOutcome]], with_llm: Sequence[TurnOutcome]) -> Table:
    rows: list[list[Cell]] = [_pipeline_row(name, group) for name, group in splits.items()]
    if with_llm:
        rows += [
            _pipeline_row(f"{name}, with the model", _filter_split(with_llm, name)) for name in SPLITS if name in splits
        ]
        rows += [_pipeline_row("all, with the model", with_llm)] if "all" in splits else []
    return Table(
        "Labels and facts by split",
        (
            Column("split"),
            Column("label accuracy", "%"),
            Column("macro-F1", "%"),
            Column("update accuracy", "%"),
            Column("fact precision", "%"),
            Column("fact recall", "%"),
            Column("fact F1", "%"),
        ),
        rows,
        "An update is correct if exactly the labelled memory is replaced, by the new fact; a missed update is wrong."
        f" A text states a fact if it has {MIN_SHARE:.0%} of its content words and all its numbers and names, except"
        " those of the fact that it replaces.",
    )


def _pipeline_row(name: str, outcomes: Sequence[TurnOutcome]) -> list[Cell]:
    labels, facts = measure_labels(outcomes), measure_facts(outcomes)
    return [name, labels["accuracy"], labels["macro_f1"], measure_targets(outcomes), *facts.values()]


def _label_table(outcomes: Sequence[TurnOutcome]) -> Table:
    rows: list[list[Cell]] = [[expected, *counts.values()] for expected, counts in _count_confusion(outcomes).items()]
    return Table("Confusion matrix", (Column("expected"), *(Column(f"predicted {label}") for label in LABELS)), rows)


def _role_table(outcomes: Sequence[TurnOutcome]) -> Table:
    rows: list[list[Cell]] = [
        [role, len(group), *measure_kept(group, _is_kept).values(), measure_labels(group)["accuracy"]]
        for role, group in _group_by(outcomes, lambda turn: (turn.role,)).items()
    ]
    return Table("By role", (Column("role"), Column("turns"), *_THREE, Column("label accuracy", "%")), rows)


def _tag_table(outcomes: Sequence[TurnOutcome]) -> Table:
    rows: list[list[Cell]] = [
        [tag, *_count_tag(group).values()] for tag, group in _group_by(outcomes, lambda turn: turn.tags).items()
    ]
    names = ("turns", "expected kept", "kept by patterns", "passed by gate", "kept by pipeline")
    return Table("By tag", (Column("tag"), *map(Column, names), Column("label accuracy", "%")), rows)


def _write_closing(without_llm: Sequence[TurnOutcome], with_llm: Sequence[TurnOutcome]) -> list[str]:
    figures = _measure_pipeline(without_llm)
    paragraphs = [
        f"{figures['secrets_kept']} of {figures['secrets']} secrets were stored; {figures['overwrote']} turns removed a"
        " valid memory."
    ]
    if not with_llm:
        return [*paragraphs, "No model is configured, so none was measured. `EXTRACT_PROVIDER` selects one."]
    failed = sum(bool(outcome.failed) for outcome in with_llm)
    return [*paragraphs, f"The model call failed for {failed} turns; they count as skipped."] if failed else paragraphs


_INTRODUCTION = (
    "Turns of coding sessions with hand-made labels: store (it has a fact that will matter in 30 days), update (it"
    " replaces a stored fact), skip (everything else), and the facts in one sentence each. Every turn is learned"
    " separately, in a store that holds the facts known before, without a language model unless stated otherwise.",
    "The dev half may be used to change rules and patterns. The test half is only used for measuring.",
)
