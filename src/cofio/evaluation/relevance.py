"""Relevance of memories to a prompt: the judge's probabilities against an author's choice.

    {"memories", "prompt", "needed"} ─ judge.relevance ─▶ probability of each memory ─▶ Report, by author

A memory is injected from the shipped threshold on. An idle prompt is one that needs no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.evaluation.authors import named, read, text_of
from cofio.evaluation.metrics import Figure, found_at, interval
from cofio.evaluation.report import Cell, Column, Report, Table
from cofio.judgement.model import LocalJudge
from cofio.ports import Judge

RATES = (0.05, 0.10, 0.20)  # share of idle prompts with an injection
SHAPE = (
    'Give one JSON object per line: {"memories": [texts], "prompt", "needed": [positions in memories, from 0]}; needed'
    " is empty where no memory helps."
)


@dataclass(frozen=True, slots=True)
class LabelledPrompt:
    """Prompt with the memories of its project, and the positions of the needed ones."""

    text: str
    memories: tuple[str, ...]
    needed: frozenset[int]


@dataclass(frozen=True, slots=True)
class RelevanceOutcome:
    """Probabilities of all memories of a prompt."""

    prompt: LabelledPrompt
    probabilities: tuple[float, ...]

    @property
    def needed(self) -> list[float]:
        """Return the probabilities of the needed memories."""
        return [self.probabilities[place] for place in sorted(self.prompt.needed)]

    @property
    def is_idle(self) -> bool:
        return not self.prompt.needed


def evaluate(
    paths: Sequence[Path],
    *,
    judge: Judge | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Score the memories of every prompt and report what would be injected, by author."""
    prompts = read(paths, _parse_prompt, SHAPE)
    judge = judge or LocalJudge()
    count, done = sum(map(len, prompts.values())), 0
    outcomes: dict[str, list[RelevanceOutcome]] = {}
    for author, rows in prompts.items():
        outcomes[author] = []
        for prompt in rows:
            outcomes[author].append(RelevanceOutcome(prompt, tuple(judge.relevance(prompt.text, prompt.memories))))
            done += 1
            progress(done, count)
    return _report(paths, outcomes, judge.thresholds["relevant"])


def _parse_prompt(plain: dict[str, Any]) -> LabelledPrompt:
    memories, needed = plain["memories"], plain["needed"]
    if not isinstance(memories, list) or not memories or not all(isinstance(memory, str) for memory in memories):
        raise TypeError("memories is not a list of texts")
    if not isinstance(needed, list) or not all(
        type(position) is int and 0 <= position < len(memories) for position in needed
    ):
        raise ValueError("needed has a position that is not in memories")
    return LabelledPrompt(text_of(plain, "prompt"), tuple(memories), frozenset(needed))


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RelevanceFigures:
    """Figures of some prompts."""

    prompts: int
    needed: int
    injected: Figure | None  # of the needed memories, at the shipped threshold
    idle: int
    disturbed: Figure | None  # of the idle prompts: those with an injection, at the shipped threshold
    at: Mapping[float, tuple[float | None, float | None]]  # by rate: needed memories injected, and the threshold

    @classmethod
    def of(cls, outcomes: Sequence[RelevanceOutcome], threshold: float) -> RelevanceFigures:
        """Return the figures of outcomes."""
        needed = [probability for outcome in outcomes for probability in outcome.needed]
        idle = [max(outcome.probabilities) for outcome in outcomes if outcome.is_idle]
        return cls(
            prompts=len(outcomes),
            needed=len(needed),
            injected=interval([float(probability >= threshold) for probability in needed]) if needed else None,
            idle=len(idle),
            disturbed=interval([float(probability >= threshold) for probability in idle]) if idle else None,
            at={rate: found_at(needed, idle, rate) for rate in RATES},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "prompts": self.prompts,
            "needed": self.needed,
            "needed_injected": self.injected and self.injected.as_dict(),
            "idle_prompts": self.idle,
            "idle_injected": self.disturbed and self.disturbed.as_dict(),
            "at": {f"{rate:.0%}": {"found": share, "threshold": limit} for rate, (share, limit) in self.at.items()},
        }


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(paths: Sequence[Path], by_author: Mapping[str, Sequence[RelevanceOutcome]], threshold: float) -> Report:
    outcomes = [row for rows in by_author.values() for row in rows]
    whole = RelevanceFigures.of(outcomes, threshold)
    each_author = {author: RelevanceFigures.of(rows, threshold) for author, rows in by_author.items()}
    values = {
        **whole.as_dict(),
        "threshold": threshold,
        "by_author": {author: figures.as_dict() for author, figures in each_author.items()},
    }
    says = (
        f"{len(outcomes):,} prompts of {len(by_author)} authors, each with the memories of its project and those that"
        f" help with it. A memory is injected from a probability of {threshold:.2f} on.",
    )
    table = _make_table({**each_author, **({"all": whole} if len(each_author) > 1 else {})})
    command = f"cofio eval relevance {named(paths)}"
    return Report("relevance", "Memories that help with a prompt", command, says, values, [table])


def _make_table(figures: Mapping[str, RelevanceFigures]) -> Table:
    rows: list[list[Cell]] = [
        [
            author,
            result.prompts,
            result.needed,
            result.injected,
            result.idle,
            result.disturbed,
            *(share for share, _ in result.at.values()),
        ]
        for author, result in figures.items()
    ]
    columns = (
        Column("author"),
        Column("prompts"),
        Column("needed"),
        Column("injected", "%"),
        Column("idle prompts"),
        Column("idle with something", "%"),
        *(Column(f"injected at {rate:.0%}", "%") for rate in RATES),
    )
    note = (
        "Injected is the share of the needed memories. The last columns use the threshold at which this share of the"
        " idle prompts has an injection."
    )
    return Table("By author", columns, rows, note)
