"""Figures of the three heads, from their probabilities; NumPy alone, so that the exported model is measured alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from cofio.judgement.labels import RELATIONS


def macro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean F1 of the four relations."""
    scores = []
    for label in range(len(RELATIONS)):
        hit = np.sum((gold == label) & (predicted == label))
        total = np.sum(gold == label) + np.sum(predicted == label)
        scores.append(2 * hit / total if total else 0.0)
    return float(np.mean(scores))


def relation(gold: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return macro-F1, and the share of updates and deletes found at 1, 2 and 5 % false overwrites of `add` rows."""
    change = probabilities[:, 2] + probabilities[:, 3]
    figures = {"macro_f1": macro_f1(gold, probabilities.argmax(1))}
    for share in (0.01, 0.02, 0.05):
        limit = np.quantile(change[gold == 0], 1 - share)
        figures[f"changes at {share:.0%}"] = float(np.mean(change[gold >= 2] > limit))
    return figures


def relevance(prompts: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, float]:
    """Return the share of needed memories found where 5, 10 and 20 % of the prompts that need none get something.

    `prompts` has, by prompt, (label, probability) of each memory of its project.
    """
    idle = np.array([max(p for _, p in rows) for rows in prompts.values() if not any(label for label, _ in rows)])
    needed = np.array([p for rows in prompts.values() for label, p in rows if label])
    return {
        f"needed at {share:.0%}": float(np.mean(needed > np.quantile(idle, 1 - share))) for share in (0.05, 0.1, 0.2)
    }


def spans(
    turns: Mapping[str, tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int, float]]]], threshold: float
) -> dict[str, float]:
    """Return recall and precision of facts and of turns. `turns` has (gold spans, predicted spans with probability)."""
    counts = defaultdict(float)
    for gold, predicted in turns.values():
        kept_spans = [(start, end) for start, end, chance in predicted if chance >= threshold]
        counts["gold"] += len(gold)
        counts["recalled"] += sum(any(_covers(each, one) for each in kept_spans) for one in gold)
        counts["said"] += len(kept_spans)
        counts["right"] += sum(any(_covers(one, each) or _covers(each, one) for one in gold) for each in kept_spans)
        counts["noise"] += not gold
        counts["noise kept"] += not gold and bool(kept_spans)
        counts["fact turns"] += bool(gold)
        counts["fact turns kept"] += bool(gold) and bool(kept_spans)
    return {
        "facts found": counts["recalled"] / max(1, counts["gold"]),
        "spans right": counts["right"] / max(1, counts["said"]),
        "fact turns kept": counts["fact turns kept"] / max(1, counts["fact turns"]),
        "noise turns kept": counts["noise kept"] / max(1, counts["noise"]),
    }


def _covers(span: tuple[int, int], quote: tuple[int, int]) -> bool:
    """Return whether `one` covers half of `other`."""
    return min(span[1], quote[1]) - max(span[0], quote[0]) >= 0.5 * (quote[1] - quote[0])
