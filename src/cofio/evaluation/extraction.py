"""Extraction without a language model: how little of a conversation must be kept so that the answers are in it.

    [Conversation] ─ judge.spans of every unit ─▶ a ranking ─ keep the best share ─▶ the share of the evidence in it
                   ─ keeper.learn, dry run ─────▶ the units that capture keeps

Units are ranked by the probability of their best span. Evidence is every unit that some question with an answer
names. Shares are numbers from 0 to 1 in JSON, and told in
per cent in tables. No vectors are made: whether a unit is kept does not hang on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from cofio.conversation import Learned
from cofio.errors import InvalidInput
from cofio.evaluation.conversations import Conversation, read, remembered
from cofio.evaluation.measures import DRAWS, SEED, Figure
from cofio.evaluation.plots import COLOURS, Line, linear
from cofio.evaluation.report import Cell, Column, Report, Table
from cofio.extract.judged import WINDOWS, prose
from cofio.judgement.model import LocalJudge
from cofio.keeper import Keeper
from cofio.ports import Judge, Matrix
from cofio.settings import Settings

Progress: TypeAlias = Callable[[int, int], None]
Numbers: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

#: What facts made by a language model were published to keep: the share of the turns, and of the evidence.
PUBLISHED = (0.405, 0.751)
KEPT = PUBLISHED[0]
OURS = "judge"
SHARES = tuple(sorted({KEPT, *(step / 20 for step in range(1, 21))}))
MOST = 20_000  # units that go the whole way in; of more, a sample does
_SHOWN = 0.8  # of the units, in the plot: beyond, all rankings meet
_AS_SURE = 20_000_000  # units drawn in all bootstraps of a file; so a large one, which needs fewer, takes no longer


@dataclass(frozen=True, slots=True)
class Unit:
    """What was said, and whether some question has its answer there."""

    conversation: str
    id: str
    text: str
    role: Literal["user", "assistant"]
    evidence: bool

    @property
    def key(self) -> str:
        return f"{self.conversation}/{self.id}"


def evaluate(
    file: Path,
    settings: Settings | None = None,
    *,
    judge: Judge | None = None,
    beside: Mapping[str, Sequence[float]] | None = None,
    progress: Progress = lambda _done, _of: None,
) -> Report:
    """Report how much evidence the judge's ranking keeps, beside other rankings: by name, one score per unit."""
    units = units_of(read(file))
    evidence = np.array([each.evidence for each in units])
    if not evidence.any():
        raise InvalidInput(f"No question of {file} names a unit with its answer.", "There is nothing to measure.")
    judge = judge or LocalJudge()
    scores = [probability(each.text, each.role, judge) for each in units]
    rankings = {OURS: scores, **(beside or {}), **_plain(units)}
    ways = _Ways.of(units, settings or Settings.load(), judge, progress)
    return _report(file, units, scores, _Drawn(evidence, rankings, ways))


def probability(text: str, role: str, judge: Judge) -> float:
    """Return the probability of the best span of a text; 0 where the judge finds none."""
    spans = judge.spans(prose(text), "", role, windows=WINDOWS[role])
    return max((span.probability for span in spans), default=0.0)


def units_of(conversations: Sequence[Conversation]) -> list[Unit]:
    """Every unit in order. Whoever is called assistant is one."""
    found = []
    for each in conversations:
        named = {unit for question in each.questions if question.has_answer for unit in question.evidence}
        for fact in each.facts:
            unit = str(fact.metadata["unit"])
            role: Literal["user", "assistant"] = "assistant" if fact.speaker.casefold() == "assistant" else "user"
            found.append(Unit(each.id, unit, fact.text, role, unit in named))
    return found


def _plain(units: Sequence[Unit]) -> dict[str, list[float]]:
    """The rankings that anybody could make. Where all are equal, chance decides: that is what `_Ranked` tells."""
    return {"length": [float(len(each.text)) for each in units], "random": [0.0] * len(units)}


# ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _NoVectors:
    """An embedder for what does not depend on vectors: all of them are the same."""

    signature = "none"
    dimension = 4
    floor = 0.0

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:  # noqa: ARG002
        return np.full((len(texts), self.dimension), 0.5, np.float32)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Which units the gate lets pass and which are learned, for those that were asked about."""

    asked: Sequence[int]  # places of units
    kept: Mapping[str, Flags]

    @classmethod
    def of(cls, units: Sequence[Unit], settings: Settings, judge: Judge, progress: Progress) -> _Ways:
        asked = sorted(random.Random(SEED).sample(range(len(units)), min(len(units), MOST)))  # noqa: S311
        said = [units[place] for place in asked]
        told = _learned(said, settings, judge, progress)
        kept = {
            "a fact is found": [_any_way(each, "pattern") for each in told],
            "a fact is found or likely": [_any_way(each, "pattern", "model") for each in told],
            "a memory is stored": [bool(each.actions) for each in told],
        }
        return cls(asked, {name: np.array(flags) for name, flags in kept.items()})


def _learned(units: Sequence[Unit], settings: Settings, judge: Judge, progress: Progress) -> list[Learned]:
    """Return the result of learning each unit on its own, with an empty store."""
    nothing = Conversation("", (), ())
    with remembered(nothing, settings, embedder=_NoVectors(), judge=judge) as keeper:
        return list(_each_learned(units, keeper, progress))


def _each_learned(units: Sequence[Unit], keeper: Keeper, progress: Progress) -> Iterator[Learned]:
    for place, unit in enumerate(units, 1):
        yield keeper.learn([{"role": unit.role, "content": unit.text}], dry_run=True)
        progress(place, len(units))


def _any_way(told: Learned, *ways: str) -> bool:
    return any(each.way in ways for each in told.sentences)


# ── how much, and how sure ────────────────────────────────────────────────────────────────────────────────────────────


class _Drawn:
    """The figures of every ranking and of every set of kept units, in the file and in samples drawn from its units.

    All see the same samples, so that two of them can be compared.
    """

    def __init__(
        self,
        evidence: Flags,
        rankings: Mapping[str, Sequence[float]],
        ways: _Ways,
    ) -> None:
        self._evidence = evidence.astype(float)
        self._ranked = {name: _Ranked.of(np.asarray(scores, float)) for name, scores in rankings.items()}
        self._kept, self._asked = ways.kept, ways.asked
        rng = np.random.default_rng(SEED)
        size = len(evidence)
        draws = max(200, min(DRAWS, _AS_SURE // size))
        self.recalls: dict[str, list[Numbers]] = {name: [] for name in rankings}
        self.aurocs: dict[str, list[float]] = {name: [] for name in rankings}
        self.shares: dict[str, list[tuple[float, float]]] = {name: [] for name in ways.kept}
        self._measure(np.ones(size))  # the file itself comes first
        for _ in range(draws):
            sample = np.bincount(rng.integers(0, size, size), minlength=size).astype(float)
            if sample @ self._evidence:
                self._measure(sample)

    def _measure(self, sample: Numbers) -> None:
        found = sample * self._evidence
        for name, ranked in self._ranked.items():
            self.recalls[name].append(ranked.recalls(sample, found))
            self.aurocs[name].append(ranked.auroc(sample, found))
        some, named = sample[self._asked], found[self._asked]
        for name, flags in self._kept.items():
            self.shares[name].append((some @ flags / max(some.sum(), 1), named @ flags / max(named.sum(), 1)))

    def at(self, name: str, share: float = KEPT) -> Figure:
        """How much of the evidence is kept with this share of the units."""
        place = SHARES.index(share)
        return _figure([each[place] for each in self.recalls[name]])

    def ahead(self, name: str) -> Figure:
        """Return how much more evidence the judge's ranking keeps than this one."""
        place = SHARES.index(KEPT)
        pairs = zip(self.recalls[OURS], self.recalls[name], strict=True)
        return _figure([ours[place] - theirs[place] for ours, theirs in pairs])

    def auroc(self, name: str) -> Figure:
        return _figure(self.aurocs[name])

    def kept(self, name: str) -> tuple[float, Figure]:
        """The share of the units, and how much of the evidence."""
        return float(self.shares[name][0][0]), _figure([each[1] for each in self.shares[name]])

    def beside(self, share: float) -> float:
        """How much of the evidence our ranking has in this share of the units."""
        all_of_it = np.ones(len(self._evidence))
        return float(self._ranked[OURS].recalls(all_of_it, self._evidence, (share,))[0])


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Units from the highest score to the lowest, and where each group of equal scores ends."""

    order: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, scores: Numbers) -> _Ranked:
        order = np.argsort(-scores, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
        return cls(order, ends)

    def recalls(self, sample: Numbers, found: Numbers, shares: Sequence[float] = SHARES) -> Numbers:
        """The share of the evidence in each share of the units; of units that are equal, what chance would take."""
        units, evidence = self._so_far(sample), self._so_far(found)
        within: Numbers = np.interp(np.asarray(shares) * units[-1], units, evidence) / evidence[-1]
        return within

    def auroc(self, sample: Numbers, found: Numbers) -> float:
        """How often evidence is above what is none; equals count half."""
        evidence, others = self._so_far(found), self._so_far(sample - found)
        if not others[-1]:
            return 0.5
        below = (evidence[1:] + evidence[:-1]) / 2
        return float(np.diff(others) @ below / (others[-1] * evidence[-1]))

    def _so_far(self, weights: Numbers) -> Numbers:
        return np.append(0.0, np.cumsum(weights[self.order])[self.ends])


def _figure(drawn: Sequence[float]) -> Figure:
    """The value in the file, which comes first, and what 95 of 100 samples stay within."""
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Figure(float(drawn[0]), float(low), float(high))


# ── telling ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(file: Path, units: Sequence[Unit], scores: Sequence[float], drawn: _Drawn) -> Report:
    names = list(drawn.recalls)
    apart = _by_conversation(units, scores)
    return Report(
        name="extraction",
        title="Extraction without a language model",
        command=f"cofio eval extraction {file.name}",
        says=(
            f"{file.name}: {len(units):,} units in {len(apart)} conversations, of which"
            f" {sum(each.evidence for each in units):,} hold the answer of some question. Each unit is"
            " ranked by the probability of its best span, as the judgement model sees it; the best are kept. The share"
            " of the evidence among them is measured.",
        ),
        values=_values(units, scores, drawn, apart),
        tables=(_first(drawn, names), _way_in(drawn), _curve(drawn), _each(apart)),
        plots={"extraction-curve": _plot(drawn, names)},
        ends=(
            "Intervals hold in 95 of 100 samples drawn from the units; differences are paired. The published point is"
            " that of facts which a language model made of such conversations; it was not measured here.",
        ),
    )


def _values(
    units: Sequence[Unit], scores: Sequence[float], drawn: _Drawn, apart: Mapping[str, _Apart]
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "evidence_at_40.5": drawn.at(OURS).as_dict(),
        "auroc": drawn.auroc(OURS).as_dict(),
        "units": len(units),
        "evidence": sum(each.evidence for each in units),
        "conversations": len(apart),
        "published": {"kept": PUBLISHED[0], "evidence": PUBLISHED[1]},
        "curve": [{"kept": share, **drawn.at(OURS, share).as_dict()} for share in SHARES],
        "compared_with": OURS,
        "baselines": {
            name: {
                "evidence_at_40.5": drawn.at(name).as_dict(),
                "auroc": drawn.auroc(name).as_dict(),
                "behind": drawn.ahead(name).as_dict(),
            }
            for name in drawn.recalls
            if name != OURS
        },
    }
    told = {
        name: {"kept": share, "evidence": evidence.as_dict(), "ranking": drawn.beside(share)}
        for name in drawn.shares
        for share, evidence in [drawn.kept(name)]
    }
    by_pattern, by_either, plainly = told.values()
    shown["gate"] = {"pattern": by_pattern, "pattern_or_model": by_either}
    shown["pipeline"] = plainly
    shown["per_conversation"] = {name: each.as_dict() for name, each in apart.items()}
    shown["per_unit"] = {
        each.key: {"probability": round(score, 4), "evidence": each.evidence}
        for each, score in zip(units, scores, strict=True)
    }
    return shown


@dataclass(frozen=True, slots=True)
class _Apart:
    """One conversation, ranked by itself."""

    units: int
    evidence: int
    at_kept: float
    auroc: float

    def as_dict(self) -> dict[str, float]:
        return {
            "units": self.units, "evidence": self.evidence, "evidence_at_40.5": self.at_kept, "auroc": self.auroc,
        }  # fmt: skip


def _by_conversation(units: Sequence[Unit], scores: Sequence[float]) -> dict[str, _Apart]:
    found: dict[str, list[tuple[Unit, float]]] = {}
    for each, score in zip(units, scores, strict=True):
        found.setdefault(each.conversation, []).append((each, score))
    return {name: _apart(said) for name, said in found.items() if any(each.evidence for each, _ in said)}


def _apart(units: Sequence[tuple[Unit, float]]) -> _Apart:
    ranked = _Ranked.of(np.array([score for _, score in units]))
    sample, found = np.ones(len(units)), np.array([each.evidence for each, _ in units], float)
    at_kept = float(ranked.recalls(sample, found, (KEPT,))[0])
    return _Apart(len(units), int(found.sum()), at_kept, ranked.auroc(sample, found))


def _first(drawn: _Drawn, names: Sequence[str]) -> Table:
    rows: list[list[Cell]] = [
        [name, drawn.at(name), drawn.ahead(name) if name != OURS else None, drawn.auroc(name)] for name in names
    ]
    rows.append(["published: facts made by a language model", PUBLISHED[1], None, None])
    columns = (
        Column("ranked by"),
        Column("evidence kept", "%"),
        Column(f"{OURS} is ahead by", "±%"),
        Column("AUROC", digits=3),
    )
    return Table(f"With {100 * KEPT:.1f} % of the units kept", columns, rows)


def _way_in(drawn: _Drawn) -> Table:
    rows: list[list[Cell]] = []
    for name in drawn.shares:
        share, evidence = drawn.kept(name)
        rows.append([name, share, evidence, drawn.beside(share)])
    columns = (
        Column("what is kept"),
        Column("of the units", "%"),
        Column("of the evidence", "%"),
        Column("ranking, with as many", "%"),
    )
    note = (
        "Every unit as a turn of its own, through `keeper.learn` of a keeper that knows nothing. The last column is the"
        " ranking with as many units kept: whole units against single sentences."
    )
    return Table("Units that capture keeps", columns, rows, note)


def _curve(drawn: _Drawn) -> Table:
    rows: list[list[Cell]] = [[share, drawn.at(OURS, share)] for share in SHARES]
    return Table("The whole curve", (Column("units kept", "%"), Column("evidence kept", "%")), rows)


def _each(apart: Mapping[str, _Apart]) -> Table:
    rows: list[list[Cell]] = [
        [name, each.units, each.evidence, each.at_kept, each.auroc] for name, each in list(apart.items())[:20]
    ]
    columns = (
        Column("conversation"), Column("units"), Column("evidence"), Column("evidence kept", "%"),
        Column("AUROC", digits=3),
    )  # fmt: skip
    note = "" if len(apart) <= len(rows) else f"The first {len(rows)} of {len(apart)}; the JSON has them all."
    return Table(f"Each conversation, ranked by itself, with {100 * KEPT:.1f} % of its units kept", columns, rows, note)


def _plot(drawn: _Drawn, names: Sequence[str]) -> str:
    ours, published = drawn.recalls, (100 * PUBLISHED[0], 100 * PUBLISHED[1])
    lines = [
        Line(name, COLOURS[place % len(COLOURS)], _points(ours[name][0]), dashed=name != OURS)
        for place, name in enumerate(names)
    ]
    for side, quantile in (("lower", 0.025), ("upper", 0.975)):
        edge = np.quantile(np.array(ours[OURS]), quantile, axis=0)
        lines.append(Line(f"{OURS}, {side} bound", COLOURS[-1], _points(edge), dashed=True))
    kept = [(100 * share, 100 * evidence.value) for name in drawn.shares for share, evidence in [drawn.kept(name)]]
    lines.append(Line("cofio without a model", COLOURS[5], [kept[2]]))
    lines.append(Line("published, by a model", COLOURS[6], [published]))
    return linear("What is kept", "units kept, %", "evidence kept, %", lines, within=(0, 100 * _SHOWN, 0, 100))


def _points(recalls: Numbers) -> list[tuple[float, float]]:
    drawn = zip(SHARES, recalls, strict=True)
    return [(0.0, 0.0), *((100 * share, 100 * float(each)) for share, each in drawn if share <= _SHOWN)]
