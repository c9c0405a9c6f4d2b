"""Typed methods of the domain knowledge tables, shared by the keeper and the client; each calls `put` or `list`."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Unpack, cast

from cofio.models.domain_knowledge import (
    Correlation,
    CorrelationKwargs,
    Knowledge,
    KnowledgeChange,
    Pattern,
    PatternKwargs,
    RowKwargs,
    Seasonal,
    SeasonalKwargs,
    Threshold,
    ThresholdKwargs,
)


class TypedKnowledge(ABC):
    """Base class of the domain knowledge tables: one method per table beside `put` and `list`."""

    @abstractmethod
    def put(self, table: str, *, by: str = "library", why: str = "", **fields: Unpack[RowKwargs]) -> KnowledgeChange:
        """Store a row in a table."""

    @abstractmethod
    def list(
        self,
        table: str,
        *,
        min_confidence: float = 0.0,
        limit: int = 50,
        after: str | None = None,
        **where: Unpack[RowKwargs],
    ) -> Sequence[Knowledge]:
        """List the rows of a table."""

    def upsert_pattern(
        self, pattern: str, *, by: str = "library", why: str = "", **fields: Unpack[PatternKwargs]
    ) -> Pattern:
        """Store a pattern and return it."""
        return cast(Pattern, self.put("patterns", pattern=pattern, by=by, why=why, **fields).after)

    def upsert_correlation(
        self,
        source_a: str,
        source_b: str,
        rule: str,
        *,
        by: str = "library",
        why: str = "",
        **fields: Unpack[CorrelationKwargs],
    ) -> Correlation:
        """Store a correlation and return it."""
        return cast(
            Correlation,
            self.put("correlations", source_a=source_a, source_b=source_b, rule=rule, by=by, why=why, **fields).after,
        )

    def upsert_threshold(
        self,
        source: str,
        metric: str,
        value: float,
        direction: str,
        *,
        by: str = "library",
        why: str = "",
        **fields: Unpack[ThresholdKwargs],
    ) -> Threshold:
        """Store a threshold and return it."""
        return cast(
            Threshold,
            self.put(
                "thresholds", source=source, metric=metric, value=value, direction=direction, by=by, why=why, **fields
            ).after,
        )

    def upsert_seasonal(
        self, pattern: str, period: str, *, by: str = "library", why: str = "", **fields: Unpack[SeasonalKwargs]
    ) -> Seasonal:
        """Store a seasonal pattern and return it. Raise InvalidInput for invalid times."""
        return cast(Seasonal, self.put("seasonal", pattern=pattern, period=period, by=by, why=why, **fields).after)

    def patterns(
        self, min_confidence: float = 0.0, *, limit: int = 50, after: str | None = None, **where: Unpack[RowKwargs]
    ) -> builtins.list[Pattern]:
        """List the patterns by confidence, highest first."""
        return cast(
            builtins.list[Pattern],
            self.list("patterns", min_confidence=min_confidence, limit=limit, after=after, **where),
        )
