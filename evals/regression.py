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
HINT = "If that is intended, record new results: make results DATA=folder."
PROCESSORS = 0.005  # int8 arithmetic differs: R@10 of the same code is 84.6 % on a Neoverse-N1, 84.0 % on a Xeon
MAX_LISTED = 20  # lost cases that are listed

Case = TypeVar("Case")
Score = Callable[[Sequence[Case]], float]


class Incomparable(Exception):
    """Error for two runs that did not measure the same cases."""


@dataclass(frozen=True, slots=True)
class Comparison(Generic[Case]):
    """Both scores, the difference with its interval, and the cases that got worse, the worst first."""

    name: str
    recorded_score: float
    measured_score: float
    difference: Figure
    lost: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        """Return whether neither chance nor another processor explains the difference."""
        return self.difference.high < -PROCESSORS

    def __str__(self) -> str:
        difference = Column("", "±%", 2).format_cell(self.difference)
        suffix = f" and {len(self.lost) - MAX_LISTED} more" if len(self.lost) > MAX_LISTED else ""
        names = ", ".join(self.lost[:MAX_LISTED]) + suffix if self.lost else "none by itself"
        return (
            f"{self.name}: {100 * self.measured_score:.2f} % where {100 * self.recorded_score:.2f} % was recorded"
            f" ({difference} points)."
            f" Lost: {names}. {HINT}"
        )


def compare_runs(
    name: str,
    recorded_cases: Mapping[str, Case],
    measured_cases: Mapping[str, Case],
    *,
    score: Score[Case] = mean,  # type: ignore[assignment]
    worth: Callable[[Case], float] = float,  # type: ignore[assignment]
    draws: int = DRAWS,
) -> Comparison[Case]:
    """Return the comparison of both runs by the score of all their cases. `worth` is the value of one case.

    Raise Incomparable if the runs have different cases.
    """
    if unmatched := recorded_cases.keys() ^ measured_cases.keys():
        missing, unknown = (
            sorted(recorded_cases.keys() - measured_cases.keys()),
            sorted(measured_cases.keys() - recorded_cases.keys()),
        )
        raise Incomparable(
            f"{name}: {len(unmatched)} cases are not in both runs. Recorded and not measured: {_list_names(missing)}."
            f" Measured and not recorded: {_list_names(unknown)}. {HINT}"
        )
    ids = sorted(recorded_cases)
    recorded_values, measured_values = (
        [recorded_cases[case_id] for case_id in ids],
        [measured_cases[case_id] for case_id in ids],
    )
    rng = np.random.default_rng(SEED)
    samples = (rng.integers(0, len(ids), len(ids)) for _ in range(draws if recorded_values != measured_values else 1))
    differences = [
        score([measured_values[row] for row in rows]) - score([recorded_values[row] for row in rows])
        for rows in samples
    ]
    low, high = np.quantile(differences, (0.025, 0.975))
    changes = sorted((worth(measured_cases[case_id]) - worth(recorded_cases[case_id]), case_id) for case_id in ids)
    lost = tuple(case_id for change, case_id in changes if change < 0)
    return Comparison(
        name,
        score(recorded_values),
        score(measured_values),
        Figure(score(measured_values) - score(recorded_values), float(low), float(high)),
        lost,
    )


def load_recorded(name: str, key: str) -> Any:
    """Return the recorded value of this key, such as the score of each case by its id.

    Raise Incomparable if missing.
    """
    path = RESULTS / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))[key]
    except (OSError, KeyError) as error:
        raise Incomparable(f"docs/results/{name}.json has no {key}: {error!r}. {HINT}") from error


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + (" …" if len(names) > MAX_LISTED else "") if names else "none"
