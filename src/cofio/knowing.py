"""What is known exactly of a domain, for whoever keeps it: `keeper.knowledge`.

    fields ─ made, restated ─▶ Put ┐
    verdict ─ belief ─▶ Put, Put … ├─ keeper.apply ─▶ KnowledgeChange      value, time, name ─ exact lane ─▶ what holds
    id ─▶ Drop, Erase ─────────────┘

It strings the steps of `knowledge` together; what they decide is theirs.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from cofio.domain import Correlation, Feedback, Knowledge, KnowledgeChange, Pattern, Seasonal, Threshold
from cofio.knowledge.lane import Active, Firing, Step
from cofio.model import Changeset


class Knowing:
    """The tables of domain knowledge. Belongs to a keeper, and sees what that sees."""

    def put(self, table: str, *, by: str = "library", why: str = "", **known: Any) -> KnowledgeChange:
        """Keep a row of a table: new, or in the place of what has its id.

        What is kept stays what it was where the fields say nothing new. A confidence that is given counts from now on,
        and the verdicts so far do not; one that is not given stays, and with it the verdicts unless what it says has
        changed (`knowledge.belief.restated`).
        """
        raise NotImplementedError

    def upsert_pattern(self, pattern: str, **known: Any) -> Pattern:
        """Keep a pattern; as it is kept."""
        raise NotImplementedError

    def upsert_correlation(self, source_a: str, source_b: str, rule: str, **known: Any) -> Correlation:
        """Keep a correlation; as it is kept."""
        raise NotImplementedError

    def upsert_threshold(self, source: str, metric: str, value: float, direction: str, **known: Any) -> Threshold:
        """Keep a threshold; as it is kept."""
        raise NotImplementedError

    def upsert_seasonal(self, pattern: str, period: str, **known: Any) -> Seasonal:
        """Keep a seasonal pattern; as it is kept. InvalidInput when its times make no sense."""
        raise NotImplementedError

    def get(self, table: str, key: str) -> Knowledge:
        """A row. NotFound when there is none."""
        raise NotImplementedError

    def list(
        self, table: str, *, min_confidence: float = 0.0, limit: int = 50, after: str | None = None, **where: Any
    ) -> builtins.list[Knowledge]:
        """The rows of a table, claims by confidence (the highest first), feedback newest first."""
        raise NotImplementedError

    def patterns(self, min_confidence: float = 0.0, **how: Any) -> builtins.list[Pattern]:
        """The patterns, the surest first."""
        raise NotImplementedError

    def delete(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Remove a row; `undo` of its changeset brings it back. What a processed verdict moved moves back with it."""
        raise NotImplementedError

    def purge(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Erase a row for good, from the journal too."""
        raise NotImplementedError

    def history(self, table: str, key: str) -> builtins.list[KnowledgeChange]:
        """Every change of a row, oldest first."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        raise NotImplementedError

    # ── the exact lane ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, source: str, metric: str, value: float, *, unit: str = "") -> builtins.list[Firing]:
        """The thresholds that this value crosses, the surest first."""
        raise NotImplementedError

    def active(self, at: str = "", *, source: str = "") -> builtins.list[Active]:
        """The seasonal patterns that are on at a time (default: now), the surest first."""
        raise NotImplementedError

    def related(self, source: str, *, depth: int = 1) -> builtins.list[Step]:
        """What goes together with a source, from either side, up to so many steps away; nearest first."""
        raise NotImplementedError

    # ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def feedback(
        self,
        anomaly: str,
        verdict: str,
        *,
        note: str = "",
        about: Sequence[str] = (),
        process: bool = True,
        by: str = "library",
        why: str = "",
        **whose: Any,
    ) -> Changeset:
        """Keep a verdict on an anomaly, and have the claims that it names move by it: all in one changeset.

        A later verdict on the same anomaly takes its place, and what it moved moves back. The same again moves nothing.
        """
        raise NotImplementedError

    def process_feedback(self, *, by: str = "library", why: str = "") -> Changeset | None:
        """Have every verdict that was only kept so far move what it names, once; None when there is none."""
        raise NotImplementedError

    def pending_feedback(self) -> builtins.list[Feedback]:
        """The verdicts that have not moved anything yet, oldest first."""
        raise NotImplementedError
