"""The exact lane: a value, a time or a name in, and what is known of just that out."""

from __future__ import annotations

from typing import Any, NamedTuple

from cofio.domain import Correlation, Seasonal, Threshold


class Firing(NamedTuple):
    """A threshold that a value crosses, and by how much."""

    threshold: Threshold
    value: float
    by: float  # never negative

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"threshold": self.threshold.as_dict(), "value": self.value, "by": self.by}


class Active(NamedTuple):
    """A seasonal pattern that is on, since when and until when."""

    seasonal: Seasonal
    since: str
    until: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"seasonal": self.seasonal.as_dict(), "since": self.since, "until": self.until}


class Step(NamedTuple):
    """One step of a walk over correlations: from one side to the other."""

    here: str
    there: str
    correlation: Correlation
    forward: bool  # from the first side to the second
    depth: int
    confidence: float  # of the whole way, the product of its steps
    inverse: bool  # of the whole way

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self._asdict(), "correlation": self.correlation.as_dict()}
