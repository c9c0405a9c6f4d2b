"""Regression check: compares current figures with those in docs/results, case by case.

A regression is a difference that neither chance nor another processor explains: the 95 % interval of a paired bootstrap
over the cases lies completely below minus half a point. Since both runs use the same cases, noise that both share
cancels out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from cofio_eval.metrics import DRAWS, SEED, Figure, mean
from cofio_eval.report import Column

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
AGAIN = "If that is intended, record new results: make results DATA=folder."
PROCESSORS = 0.005  # int8 arithmetic differs: R@10 of the same code is 84.6 % on a Neoverse-N1, 84.0 % on a Xeon
SHOWN = 20  # lost cases that are listed

Case = TypeVar("Case")
Score = Callable[[Sequence[Case]], float]


class Incomparable(Exception):
    """Error for two runs that did not measure the same cases."""


@dataclass(frozen=True, slots=True)
class Comparison(Generic[Case]):
    """Both scores, the difference with its interval, and the cases that got worse, the worst first."""

    name: str
    before: float
    now: float
    difference: Figure
    lost: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        """Return whether neither chance nor another processor explains the difference."""
        return self.difference.high < -PROCESSORS

    def __str__(self) -> str:
        moved = Column("", "±%", 2).written(self.difference)
        more = f" and {len(self.lost) - SHOWN} more" if len(self.lost) > SHOWN else ""
        names = ", ".join(self.lost[:SHOWN]) + more if self.lost else "none by itself"
        return (
            f"{self.name}: {100 * self.now:.2f} % where {100 * self.before:.2f} % was recorded ({moved} points)."
            f" Lost: {names}. {AGAIN}"
        )


def compared(
    name: str,
    before: Mapping[str, Case],
    now: Mapping[str, Case],
    *,
    score: Score[Case] = mean,  # type: ignore[assignment]
    worth: Callable[[Case], float] = float,  # type: ignore[assignment]
    draws: int = DRAWS,
) -> Comparison[Case]:
    """Return the comparison of both runs by the score of all their cases. `worth` is the value of one case.

    Raise Incomparable if the runs have different cases.
    """
    if apart := before.keys() ^ now.keys():
        missing, unknown = sorted(before.keys() - now.keys()), sorted(now.keys() - before.keys())
        raise Incomparable(
            f"{name}: {len(apart)} cases are not in both runs. Recorded and not measured: {_some(missing)}."
            f" Measured and not recorded: {_some(unknown)}. {AGAIN}"
        )
    ids = sorted(before)
    old, new = [before[each] for each in ids], [now[each] for each in ids]
    rng = np.random.default_rng(SEED)
    drawn = (rng.integers(0, len(ids), len(ids)) for _ in range(draws if old != new else 1))
    moved = [score([new[place] for place in some]) - score([old[place] for place in some]) for some in drawn]
    low, high = np.quantile(moved, (0.025, 0.975))
    fell = sorted((worth(now[each]) - worth(before[each]), each) for each in ids)
    lost = tuple(each for by, each in fell if by < 0)
    return Comparison(name, score(old), score(new), Figure(score(new) - score(old), float(low), float(high)), lost)


def recorded(name: str, key: str) -> Any:
    """Return the recorded value of this key, such as the score of each case by its id.

    Raise Incomparable if missing.
    """
    path = RESULTS / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))[key]
    except (OSError, KeyError) as error:
        raise Incomparable(f"docs/results/{name}.json has no {key}: {error!r}. {AGAIN}") from error


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "") if names else "none"
