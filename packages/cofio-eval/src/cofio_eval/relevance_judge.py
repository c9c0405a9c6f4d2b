"""Relevance of memories to a prompt: the judge's probabilities against an author's choice.

    {"memories", "prompt", "needed"} ─ judge.relevance ─▶ probability of each memory ─▶ Report, by author

A memory is injected from the shipped threshold on. An idle prompt is one that needs no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofio.judgement.onnx_classifier import LocalJudge
from cofio.ports import Judge
from cofio_eval import authors
from cofio_eval.jsonl import read_authors, text_of
from cofio_eval.metrics import rate, share_at
from cofio_eval.report import Column, Report

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


def evaluate(
    paths: Sequence[Path], *, judge: Judge | None = None, progress: authors.Progress = lambda *_: None
) -> Report:
    """Score the memories of every prompt and report what would be injected, by author."""
    prompts = read_authors(paths, _parse_prompt, "prompt", SHAPE)
    judge = judge or LocalJudge()
    threshold = judge.thresholds["relevant"]

    def run(rows: Sequence[LabelledPrompt]) -> Iterator[RelevanceOutcome]:
        for prompt in rows:
            yield RelevanceOutcome(prompt, tuple(judge.relevance(prompt.text, prompt.memories)))

    outcomes = authors.measure(prompts, run, progress)
    values = authors.compute_values(outcomes, lambda rows: _compute_figures(rows, threshold))
    says = (
        f"{values['prompts']:,} prompts by {len(prompts)} authors, each with the memories of its project; the needed"
        f" ones are labelled. A memory is injected if its probability is at least {threshold:.2f}. An idle prompt"
        " needs no memory.",
    )
    return Report(
        "relevance",
        "Relevance of memories to a prompt",
        authors.write_command("relevance", paths),
        says,
        {**values, "threshold": threshold},
        [authors.author_table(values, _COLUMNS, _NOTE)],
    )


def _parse_prompt(plain: dict[str, Any], _number: int) -> LabelledPrompt:
    memories, needed = plain["memories"], plain["needed"]
    if not isinstance(memories, list) or not memories or not all(isinstance(memory, str) for memory in memories):
        raise TypeError("memories is not a list of texts")
    if not isinstance(needed, list) or not all(
        type(position) is int and 0 <= position < len(memories) for position in needed
    ):
        raise ValueError("needed has a position that is not in memories")
    return LabelledPrompt(text_of(plain, "prompt"), tuple(memories), frozenset(needed))


def _compute_figures(outcomes: Sequence[RelevanceOutcome], threshold: float) -> dict[str, Any]:
    needed = [outcome.probabilities[place] for outcome in outcomes for place in sorted(outcome.prompt.needed)]
    idle = [max(outcome.probabilities) for outcome in outcomes if not outcome.prompt.needed]
    return {
        "prompts": len(outcomes),
        "needed": len(needed),
        "needed_injected": rate(probability >= threshold for probability in needed),
        "idle_prompts": len(idle),
        "idle_injected": rate(probability >= threshold for probability in idle),
        "at": share_at(needed, idle, RATES),
    }


_COLUMNS = {
    "prompts": Column("prompts"),
    "needed": Column("needed memories"),
    "needed_injected": Column("recall of needed", "%"),
    "idle_prompts": Column("idle prompts"),
    "idle_injected": Column("idle with an injection", "%"),
    **{f"at/{rate:.0%}/found": Column(f"recall at {rate:.0%} FPR", "%") for rate in RATES},
}
_NOTE = (
    "“Recall of needed” is the share of needed memories that are injected. “Recall at 5% FPR” uses the threshold at"
    " which 5% of the idle prompts have an injection."
)
